"""The process in which guarded models run: this one, or another one under an emulator.

What it does for a call of a model is said as calls of C functions with 64-bit arguments and as
accesses to its memory, so that everything else is the same for both (`emulated.py` has the other).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from weft.compiler.machine.artifact.artifact import Compiled
from weft.compiler.machine.codegen.host import host_target
from weft.compiler.machine.python.executable import Executable
from weft.compiler.target.target import Target
from weft.compiler.target.x86 import X86_TARGETS

FUNCTIONS: Final = ("create", "destroy", "run", "workspace_size", "last_error", "release")
"""The functions of a model that guarded calls need."""

Allocate = Callable[[int, int], int]
"""Bytes and alignment -> an address, or 0."""

Release = Callable[[int], None]


class Process(Protocol):
    """Memory, and functions of libc by name and of models by address."""

    page: int
    """Bytes of a page of its memory, as its system says."""

    def close(self) -> None:
        """Ends it, where it is another one."""
        ...

    def call(self, function: str | int, *arguments: int) -> int:
        """Calls a function with up to six integers or addresses: what it returns, as 64 bits."""
        ...

    def read(self, address: int, size: int) -> bytes:
        """What lies in memory."""
        ...

    def write(self, address: int, data: bytes) -> None:
        """Changes memory."""
        ...

    def load(self, compiled: Compiled) -> Mapping[str, int]:
        """Loads a model: the addresses of FUNCTIONS."""
        ...

    def allocator(self, allocate: Allocate, release: Release) -> tuple[int, int]:
        """The addresses of C functions that call these, without their first argument."""
        ...


_ALLOCATE: Final = ctypes.CFUNCTYPE(
    ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint64
)
_RELEASE: Final = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
_ANY: Final = {
    count: ctypes.CFUNCTYPE(ctypes.c_uint64, *[ctypes.c_uint64] * count) for count in range(7)
}


class OwnProcess:
    """This process, which a stray access ends."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None)
        self.page = self._libc.getpagesize()
        self._kept: list[object] = []

    def close(self) -> None:
        self._kept.clear()

    def call(self, function: str | int, *arguments: int) -> int:
        if isinstance(function, str):
            function = _address(self._libc[function])
        return _ANY[len(arguments)](function)(*arguments)

    def read(self, address: int, size: int) -> bytes:
        return ctypes.string_at(address, size)

    def write(self, address: int, data: bytes) -> None:
        ctypes.memmove(address, data, len(data))

    def load(self, compiled: Compiled) -> Mapping[str, int]:
        loaded: Executable = compiled.executable(1)
        self._kept.append(loaded)  # which keeps the code loaded
        return {name: loaded._checked.address(name) for name in FUNCTIONS}

    def allocator(self, allocate: Allocate, release: Release) -> tuple[int, int]:
        functions = (
            _ALLOCATE(lambda _, size, alignment: allocate(size, alignment)),
            _RELEASE(lambda _, address: release(address)),
        )
        self._kept.append(functions)
        return _address(functions[0]), _address(functions[1])


def _address(function: ctypes._CFunctionType) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


@dataclass(frozen=True)
class Machine:
    """Where models run: the targets that they may be compiled for, and what starts a process."""

    targets: Sequence[Target]
    start: Callable[[], Process]


def own_machine() -> Machine:
    """This machine: as often as not for the processor that it is, else for a level of x86-64 that
    it runs, where it is one.
    """
    host = host_target()
    levels = [
        each
        for each in X86_TARGETS
        if each.arch == host.arch
        and all(name in host.features for name in each.features if name.startswith("+"))
    ]
    return Machine([host, host, *levels], OwnProcess)

"""The run time of artifacts -> its objects. What all models and processors have comes with weft
(`python -m weft.compiler.driver.compile_run_time` writes it), or is compiled once for a process;
what chooses among the levels of processors is compiled once for a target. What differs between
models is data in other objects.
"""

from __future__ import annotations

import hashlib
import time
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from weft.compiler.abi.constants import ABI_VERSION
from weft.compiler.deferred import deferred
from weft.compiler.driver.options import Options
from weft.compiler.driver.workers import KernelCode
from weft.compiler.loop_to_llvm.run_time import emit_levels, emit_run_time
from weft.compiler.loop_to_llvm.runtime import Level
from weft.compiler.loop_to_llvm.runtime.standalone import is_standalone
from weft.compiler.machine.codegen.code_generator import CODEGEN_LEVEL, PROGRAM_LEVEL
from weft.compiler.machine.codegen.object_code import compile_object
from weft.compiler.machine.codegen.prebuilt import (
    digest_of,
    find_prebuilt,
    prebuilt_key,
    write_prebuilt,
)
from weft.compiler.machine.elf.rename_symbols import ANY_PREFIX, rename_symbols
from weft.compiler.machine.python.fast_call import entry_code
from weft.compiler.target.arm import AARCH64
from weft.compiler.target.features import baseline, feature_groups
from weft.compiler.target.target import Target
from weft.compiler.target.x86 import X86_64
from weft.compiler.version import VERSION

if TYPE_CHECKING:
    from weft.compiler.driver.compile_kernels import KernelStore
    from weft.compiler.machine.pjrt import plugin
else:
    plugin = deferred("weft.compiler.machine.pjrt.plugin")

_MOST_OBJECTS: Final = 64

_COMPILER: Final = Path(__file__).parents[1]

_SOURCES: Final = (
    _COMPILER / "abi",
    _COMPILER / "loop_to_llvm" / "run_time.py",
    _COMPILER / "loop_to_llvm" / "runtime",
    _COMPILER / "machine" / "codegen" / "code_generator.py",
    _COMPILER / "machine" / "codegen" / "optimize.py",
)
"""What the run time's code is made by."""

_PREBUILT: Final = (X86_64, AARCH64)
"""Architectures for which weft comes with it."""


class RunTimeTask(Struct, frozen=True):
    """All that decides what code of the run time is, for any processor of the architecture: of that
    which chooses among `levels` or, without them, of the rest.
    """

    target: Target
    prefix: str
    levels: tuple[Level, ...] = ()
    keep_texts: bool = False

    @property
    def cost(self) -> int:
        """Less than that of any kernel."""
        return 0

    @property
    def keys(self) -> tuple[str]:
        """A hash of all that decides what the code is, the compiler aside."""
        return (hashlib.sha256(repr(self).encode()).hexdigest(),)

    def key_of(self, code: KernelCode) -> str:
        """The key: there is one."""
        return self.keys[0]

    def compile(self) -> KernelCode:
        """The object, which this process compiles once."""
        start = time.perf_counter()
        code = _OBJECTS.get(self)
        if code is None:
            code = self.find_prebuilt() or self.compile_anew()
            self.remember(code)
        return KernelCode(code, "", [], [], seconds={"run time": time.perf_counter() - start})

    def compile_anew(self) -> bytes:
        """The object, which nobody else has."""
        if self.levels:  # code that runs once a context
            text = emit_levels(self.target, self.prefix, self.levels)
            return compile_object(text, self.target, PROGRAM_LEVEL)
        text = emit_run_time(self.target, self.prefix)
        return compile_object(text, self.target, CODEGEN_LEVEL)

    def find_prebuilt(self) -> bytes | None:
        """The object, if it comes with weft."""
        comes = self.target in _PREBUILT and self.prefix == ANY_PREFIX and not self.levels
        return find_prebuilt(*self._key()) if comes else None

    def write_prebuilt(self) -> None:
        """Has the object come with weft."""
        write_prebuilt(*self._key(), self.compile_anew())

    def _key(self) -> tuple[str, str]:
        return f"run_time.{self.target.triple}", prebuilt_key([self.keys[0], digest_of(_SOURCES)])

    def remember(self, code: bytes) -> None:
        """Keeps the object for other models of this process."""
        if len(_OBJECTS) >= _MOST_OBJECTS:
            _OBJECTS.clear()
        _OBJECTS[self] = code

    def is_known(self, store: KernelStore | None) -> bool:
        """Whether this process has the object, or has now found it beside weft or in the store."""
        if self not in _OBJECTS and (code := self.find_prebuilt()) is not None:
            self.remember(code)
        if self not in _OBJECTS and store is not None:
            data = store.find_kernel(*self.keys)
            if data is not None:
                self.remember(KernelCode.of_bytes(data).code)
        return self in _OBJECTS

    def object_for(self, prefix: str) -> bytes:
        """The object with the symbols of a model."""
        return _renamed(self.compile().code, self.prefix, prefix)


_renamed = lru_cache(maxsize=8)(rename_symbols)
"""Kept for the next model of the prefix."""


_OBJECTS: Final[dict[RunTimeTask, bytes]] = {}


def common_task(options: Options) -> RunTimeTask:
    """The task for what all models have on the architecture; where objects are ELF, of any prefix:
    there symbols get another name later.
    """
    return RunTimeTask(baseline(options.target), compiled_prefix(options.prefix, options.target))


def run_time_tasks(options: Options) -> dict[str, RunTimeTask]:
    """The tasks for all models with these options, by the names of the objects."""
    common = common_task(options)
    levels = (
        Level(common.prefix + each.prefix.removeprefix(options.prefix), feature_groups(each.target))
        for each in options.levels()
    )
    return {"runtime": common, "levels": replace(common, levels=tuple(levels))}


def compiled_prefix(prefix: str, target: Target) -> str:
    """What symbols start with in objects that are compiled for a model of that prefix: where they
    are ELF, other models can have them, too.
    """
    return prefix if is_standalone(target) else ANY_PREFIX


def write_prebuilt_objects() -> None:
    """Has all code that is the same for all models come with weft: the run time, and what Python
    and JAX call models by.
    """
    for target in _PREBUILT:
        RunTimeTask(target, ANY_PREFIX).write_prebuilt()
        plugin.plugin_code(target).write()
        for tensors in (False, True):
            entry_code(target, tensors=tensors).write()


def identity(options: Options) -> dict[str, object]:
    """What is known of an artifact before anything is compiled."""
    return {
        "abi": ABI_VERSION,
        "weft": VERSION,
        "prefix": options.prefix,
        "triple": options.target.triple,
        "cpu": options.target.cpu,
        "features": features(options),
        "bounds": {each.name: [each.least, each.most] for each in options.bounds},
    }


def features(options: Options) -> list[str]:
    """Those that the target has."""
    return [name for name in options.target.features if name.startswith("+")]


if __name__ == "__main__":
    write_prebuilt_objects()

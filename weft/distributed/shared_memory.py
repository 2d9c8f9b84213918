"""Ranks that share memory: the segment, and a table of communication for each of them. The code is
`weft.compiler.loop_to_llvm.transport`, compiled once in a process.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from functools import cache
from typing import Any, Final

from weft.compiler.abi.structs import COMMUNICATION
from weft.compiler.loop_to_llvm.transport import EXPORTS, emit_transport
from weft.compiler.loop_to_llvm.transport.segment import (
    ENDPOINT,
    HEAD,
    LINE,
    RANK,
    mailbox_slots,
    segment_bytes,
)
from weft.compiler.machine.codegen.host import host_target
from weft.compiler.machine.codegen.jit import LoadedCode, load_objects
from weft.compiler.machine.codegen.object_code import compile_object
from weft.compiler.target.wire import MEMORY, Wire

AREA: Final = 1 << 20
"""Bytes that a rank puts into the segment at a time: so many stay in a cache."""

SPINS: Final = 4000
"""How often a rank looks for another before it sleeps; less where ranks share processors."""

FEW_SPINS: Final = 100

_NO_RESERVE: Final = getattr(mmap, "MAP_NORESERVE", 0)
"""Mailboxes are large, and most of their memory is never used."""


class _Table(ctypes.Structure):
    _fields_ = COMMUNICATION.ctypes_fields


class _Endpoint(ctypes.Structure):
    _fields_ = (
        ("segment", ctypes.c_void_p),
        ("rank", ctypes.c_int32),
        ("ranks", ctypes.c_int32),
        ("area", ctypes.c_int64),
        ("limit", ctypes.c_int64),
        ("spins", ctypes.c_int64),
        ("slots", ctypes.c_int64),
        ("latency", ctypes.c_int64),
        ("byte", ctypes.c_int64),
    )


class Segment:
    """The memory of a number of ranks: of threads, or, where it has a descriptor, of processes."""

    def __init__(self, ranks: int, descriptor: int = -1):
        self.ranks = ranks
        kind = mmap.MAP_SHARED | _NO_RESERVE | (mmap.MAP_ANONYMOUS if descriptor < 0 else 0)
        self._memory = mmap.mmap(descriptor, segment_bytes(ranks, AREA), flags=kind)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))

    def leave(self, rank: int) -> None:
        """Notes that a rank takes part no more."""
        offset = LINE + RANK.size * rank + RANK.fields["left"].offset
        ctypes.c_int32.from_buffer(self._memory, offset).value = 1

    @property
    def lost(self) -> int | None:
        """The rank that ended the calls of all."""
        found = ctypes.c_int32.from_buffer(self._memory, HEAD.fields["lost"].offset).value
        return found - 1 if found else None

    def table(self, rank: int, limit: float, wire: Wire = MEMORY) -> Any:
        """A `weft_communication` of a rank that waits so many seconds for others, over a wire; it
        holds what it needs.
        """
        spins = SPINS if self.ranks <= (os.cpu_count() or 1) else FEW_SPINS
        numbers = (AREA, int(limit * 1e9), spins, mailbox_slots(self.ranks))
        slow = (round(wire.alpha * 1e9), round(1e15 / wire.beta))
        endpoint = _Endpoint(self.address, rank, self.ranks, *numbers, *slow)
        assert ctypes.sizeof(endpoint) == ENDPOINT.size, "an endpoint is as the code has it"
        code = _code()
        functions = map(code.address, EXPORTS)
        user = ctypes.addressof(endpoint)
        table = _Table(ctypes.sizeof(_Table), user, rank, self.ranks, *functions)
        table.held = (self, endpoint, code)  # which another thread may have compiled, too
        return table


@cache
def _code() -> LoadedCode:
    target = host_target(calibrated=False)
    return load_objects([compile_object(emit_transport(target), target)], EXPORTS)

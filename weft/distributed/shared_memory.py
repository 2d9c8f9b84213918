"""Ranks that share memory: the segment, and a table of communication for each of them. The code is
`weft.compiler.loop_to_llvm.transport`, compiled once in a process.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import threading
import weakref
from functools import cache
from typing import Any, Final

from weft.compiler.abi.structs import COMMUNICATION
from weft.compiler.loop_to_llvm.transport import EXPORTS, emit_transport
from weft.compiler.loop_to_llvm.transport.segment import (
    ENDPOINT,
    HEAD,
    LINE,
    PAGE,
    RANGE,
    RANGES,
    RANK,
    heap_bytes,
    heaps_start,
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

_LIBC: Final = ctypes.CDLL(None, use_errno=True)
_LIBC.mmap.restype = ctypes.c_int64
_LIBC.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_int64]
_LIBC.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_FIXED: Final = 0x10
_REMOVE: Final = 9
"""MAP_FIXED and MADV_REMOVE of Linux."""

_NOWHERE: Final = (1 << 64) - 1
"""Where an unused range begins."""

_HUGE: Final = 1 << 22
"""Bytes from which memory is to have large pages, as NumPy's has."""

_NO_RESERVE: Final = getattr(mmap, "MAP_NORESERVE", 0)
"""Mailboxes are large, and most of their memory is never used."""


class _Table(ctypes.Structure):
    _fields_ = COMMUNICATION.ctypes_fields
    heap: Heap | None = None


class _Range(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_uint64) for name in RANGE.fields)


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
        ("base", ctypes.c_void_p),
        ("ranges", ctypes.c_void_p),
    )


class Segment:
    """The memory of a number of ranks: of threads, or, where it has a descriptor, of processes."""

    def __init__(self, ranks: int, descriptor: int = -1):
        self.ranks, self.descriptor = ranks, descriptor
        anonymous = descriptor < 0
        kind = mmap.MAP_SHARED | _NO_RESERVE | (mmap.MAP_ANONYMOUS if anonymous else 0)
        size = heaps_start(ranks, AREA) if anonymous else segment_bytes(ranks, AREA)
        self._memory = mmap.mmap(descriptor, size, flags=kind)
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
        holds what it needs. Threads reach all of each other's memory, processes what `heap` of the
        table gives, which is None for threads.
        """
        spins = SPINS if self.ranks <= (os.cpu_count() or 1) else FEW_SPINS
        numbers = (AREA, int(limit * 1e9), spins, mailbox_slots(self.ranks))
        ranges = (_Range * RANGES)(*(_Range(begin=_NOWHERE) for _ in range(RANGES)))
        of_threads = self.descriptor < 0
        if of_threads:
            ranges[0] = _Range(0, _NOWHERE, 0)
        reach = (0 if of_threads else self.address, ctypes.addressof(ranges))
        endpoint = _Endpoint(self.address, rank, self.ranks, *numbers, *wire.units, *reach)
        assert ctypes.sizeof(endpoint) == ENDPOINT.size, "an endpoint is as the code has it"
        code = _code()
        functions = map(code.address, EXPORTS)
        user = ctypes.addressof(endpoint)
        table = _Table(ctypes.sizeof(_Table), user, rank, self.ranks, *functions)
        table.held = (self, endpoint, ranges, code)  # which another thread may have compiled, too
        table.heap = None if of_threads else Heap(self, rank, ranges)
        return table


class Heap:
    """A rank's part of a segment that processes share, in which it maps the beginnings of the
    workspaces that collectives use; `ranges` are those that others reach.
    """

    def __init__(self, segment: Segment, rank: int, ranges: Any):
        self._segment, self._ranges = segment, ranges
        self._start = heaps_start(segment.ranks, AREA) + rank * heap_bytes(segment.ranks)
        self._end = self._start + heap_bytes(segment.ranks)
        self.taken: dict[int, tuple[int, int]] = {}  # by the range's number
        self._lock = threading.Lock()

    def workspace(self, size: int, shared: int) -> Workspace | None:
        """So many bytes, of which others reach the first ones; None where the heap is full."""
        shared = -(-shared // PAGE) * PAGE
        with self._lock:
            free = [number for number in range(RANGES) if number not in self.taken]
            start = self._start
            for begin, end in sorted(self.taken.values()):
                if begin - start >= shared:
                    break
                start = end
            if not free or self._end - start < shared:
                return None
            made = Workspace(max(size, shared), shared, self._segment.descriptor, start)
            self.taken[free[0]] = (start, start + shared)
        found = self._ranges[free[0]]
        found.end, found.start = made.address + shared, start
        found.begin = made.address  # last: another thread may look for its buffers meanwhile
        weakref.finalize(made, self._release, free[0]).atexit = False
        return made

    def _release(self, number: int) -> None:
        self._ranges[number].begin = _NOWHERE
        with self._lock:
            begin, end = self.taken.pop(number)
        _call(_LIBC.madvise, self._segment.address + begin, end - begin, _REMOVE)


class Workspace:
    """Memory of which other processes reach the beginning, until nothing holds it."""

    def __init__(self, size: int, shared: int, descriptor: int, start: int):
        self._memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        if size - shared >= _HUGE:
            self._memory.madvise(mmap.MADV_HUGEPAGE)
        kind, access = mmap.MAP_SHARED | _FIXED, mmap.PROT_READ | mmap.PROT_WRITE
        _call(_LIBC.mmap, self.address, shared, access, kind, descriptor, start)


def _call(function: Any, *arguments: int) -> None:
    """Calls a function of libc that returns -1 where it fails. Raises OSError with its reason."""
    if ctypes.c_int64(function(*arguments)).value == -1:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


@cache
def _code() -> LoadedCode:
    target = host_target(calibrated=False)
    return load_objects([compile_object(emit_transport(target), target)], EXPORTS)

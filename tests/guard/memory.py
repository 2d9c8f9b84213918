"""Memory between inaccessible pages: what reads or writes beyond a buffer traps, and what writes
into the bytes between a buffer and its page is seen afterwards.

    | guard | ...poison... buffer | guard |    a buffer that ends at a page (side "after")
    | guard | buffer ...poison... | guard |    a buffer that starts at one (side "before")
"""

from __future__ import annotations

import ctypes
import mmap
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from compiler.program.guard_buffers import GUARD_PAGE
from dialects.weights import Array

_LIBC: Final = ctypes.CDLL(None, use_errno=True)
_LIBC.mmap.restype = ctypes.c_void_p
_LIBC.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long)
_LIBC.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
_LIBC.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
_NONE: Final = 0
_FAILED: Final = ctypes.c_void_p(-1).value
POISON: Final = 0xA5


class StrayWrite(Exception):
    """Bytes beside a buffer changed."""


@dataclass
class Region:
    """Pages with an inaccessible one on each side, of which `bytes` at `address` are a buffer."""

    name: str
    bytes: int
    side: str
    alignment: int = 1
    fill: int = POISON
    gaps: list[tuple[int, int]] = field(default_factory=list)
    address: int = 0

    def __post_init__(self) -> None:
        rounded = -(-self.bytes // self.alignment) * self.alignment
        pages = -(-rounded // GUARD_PAGE) * GUARD_PAGE
        self._length = pages + 2 * GUARD_PAGE
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        base = _LIBC.mmap(None, self._length, _NONE, flags, -1, 0)
        if base == _FAILED:
            raise MemoryError(f"{self.bytes} bytes for {self.name}")
        self._base = base
        self._first, self._end = base + GUARD_PAGE, base + GUARD_PAGE + pages
        if pages:
            _protect(self._first, pages, mmap.PROT_READ | mmap.PROT_WRITE)
        self.address = self._end - rounded if self.side == "after" else self._first
        self._outside = [
            (self._first, self.address - self._first),
            (self.address + self.bytes, self._end - self.address - self.bytes),
        ]
        ctypes.memset(self._first, POISON, pages)
        ctypes.memset(self.address, self.fill, self.bytes)

    def hold(self, array: Array) -> Region:
        """Fills the buffer with an array's elements; nobody may write them from now on."""
        dense = np.ascontiguousarray(array)
        ctypes.memmove(self.address, dense.ctypes.data, dense.nbytes)
        if self._end > self._first:
            _protect(self._first, self._end - self._first, mmap.PROT_READ)
        return self

    def array(self, dtype: np.dtype, shape: tuple[int, ...]) -> Array:
        """A copy of what the buffer holds."""
        return np.frombuffer(ctypes.string_at(self.address, self.bytes), dtype).reshape(shape)

    def guard(self, parts: list[tuple[int, int]]) -> None:
        """Leaves of the buffer accessible what lies on the pages of its parts (offset and bytes);
        bytes of these pages outside of all parts are checked.
        """
        start, end = self.address, self.address + self.bytes
        taken = sorted((start + offset, start + offset + size) for offset, size in parts)
        pages = sorted({(_down(low), _up(high)) for low, high in taken if high > low})
        for (_, above), (below, _) in zip([(0, start), *pages], [*pages, (end, 0)], strict=True):
            if below > above:
                _protect(above, below - above, _NONE)
        for low, high in pages:
            place = low
            for first, last in (each for each in taken if low <= each[0] < high):
                self._outside += [(place, first - place)] if first > place else []
                place = max(place, last)
            self._outside += [(place, high - place)] if high > place else []

    def check(self) -> None:
        """Raises StrayWrite where bytes beside the buffer, or beside its parts, were written."""
        for address, size in self._outside:
            found = np.frombuffer(ctypes.string_at(address, size), np.uint8)
            wanted = (
                POISON if not self.address <= address < self.address + self.bytes else self.fill
            )
            changed = np.flatnonzero(found != wanted)
            if changed.size:
                distance = address + int(changed[0]) - self.address
                raise StrayWrite(f"byte {distance} of {self.name} of {self.bytes} bytes")

    def free(self) -> None:
        """Gives the pages back."""
        _LIBC.munmap(self._base, self._length)


def _protect(address: int, size: int, protection: int) -> None:
    if _LIBC.mprotect(address, size, protection):
        raise OSError(ctypes.get_errno(), f"mprotect of {size} bytes")


def _down(address: int) -> int:
    return address // GUARD_PAGE * GUARD_PAGE


def _up(address: int) -> int:
    return -(-address // GUARD_PAGE) * GUARD_PAGE

"""Memory between inaccessible pages: what reads or writes beyond a buffer traps, and what writes
into the bytes between a buffer and its page is seen afterwards.

    | guard | ...poison... buffer | guard |    a buffer that ends at a page (side "after")
    | guard | buffer ...poison... | guard |    a buffer that starts at one (side "before")
"""

from __future__ import annotations

from dataclasses import dataclass, field
from mmap import MAP_ANONYMOUS, MAP_PRIVATE, PROT_READ, PROT_WRITE
from typing import Final

import numpy as np

from tests.guard.process import Process
from weft.dialects.weights import Array

_NONE: Final = 0
_FAILED: Final = 2**64 - 1
_NO_FILE: Final = 2**64 - 1
POISON: Final = 0xA5


class StrayWrite(Exception):
    """Bytes beside a buffer changed."""


@dataclass
class Region:
    """Pages with an inaccessible one on each side, of which `bytes` at `address` are a buffer."""

    process: Process
    name: str
    bytes: int
    side: str
    alignment: int = 1
    address: int = field(init=False)

    def __post_init__(self) -> None:
        page = self.process.page
        rounded = -(-self.bytes // self.alignment) * self.alignment
        pages = self._up(rounded)
        self._length = pages + 2 * page
        flags = MAP_PRIVATE | MAP_ANONYMOUS
        base = self.process.call("mmap", 0, self._length, _NONE, flags, _NO_FILE, 0)
        if base == _FAILED:
            raise MemoryError(f"{self.bytes} bytes for {self.name}")
        self._base = base
        self._first, self._end = base + page, base + page + pages
        if pages:
            self._protect(self._first, pages, PROT_READ | PROT_WRITE)
        self.address = self._end - rounded if self.side == "after" else self._first
        self._outside = [
            (self._first, self.address - self._first),
            (self.address + self.bytes, self._end - self.address - self.bytes),
        ]
        self.process.call("memset", self._first, POISON, pages)

    def hold(self, array: Array) -> Region:
        """Fills the buffer with an array's elements; nobody may write them from now on."""
        dense = np.ascontiguousarray(array)
        self.process.write(self.address, dense.tobytes())
        if self._end > self._first:
            self._protect(self._first, self._end - self._first, PROT_READ)
        return self

    def array(self, dtype: np.dtype, shape: tuple[int, ...]) -> Array:
        """A copy of what the buffer holds."""
        return np.frombuffer(self.process.read(self.address, self.bytes), dtype).reshape(shape)

    def guard(self, parts: list[tuple[int, int]]) -> None:
        """Leaves of the buffer accessible what lies on the pages of its parts (offset and bytes);
        bytes of these pages outside of all parts are checked.
        """
        start, end = self.address, self.address + self.bytes
        taken = sorted((start + offset, start + offset + size) for offset, size in parts)
        pages = sorted({(self._down(low), self._up(high)) for low, high in taken if high > low})
        for (_, above), (below, _) in zip([(0, start), *pages], [*pages, (end, 0)], strict=True):
            if below > above:
                self._protect(above, below - above, _NONE)
        for low, high in pages:
            place = low
            for first, last in (each for each in taken if low <= each[0] < high):
                self._outside += [(place, first - place)] if first > place else []
                place = max(place, last)
            self._outside += [(place, high - place)] if high > place else []

    def check(self) -> None:
        """Raises StrayWrite where bytes beside the buffer, or beside its parts, were written."""
        for address, size in self._outside:
            found = np.frombuffer(self.process.read(address, size), np.uint8)
            changed = np.flatnonzero(found != POISON)
            if changed.size:
                distance = address + int(changed[0]) - self.address
                raise StrayWrite(f"byte {distance} of {self.name} of {self.bytes} bytes")

    def free(self) -> None:
        """Gives the pages back."""
        self.process.call("munmap", self._base, self._length)

    def _protect(self, address: int, size: int, protection: int) -> None:
        if self.process.call("mprotect", address, size, protection) & 0xFFFFFFFF:
            raise OSError(f"mprotect of {size} bytes for {self.name}")

    def _down(self, address: int) -> int:
        return address // self.process.page * self.process.page

    def _up(self, address: int) -> int:
        return -(-address // self.process.page) * self.process.page

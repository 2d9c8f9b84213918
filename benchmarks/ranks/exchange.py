"""Collectives of f32 outside of programs, by this rank's table of communication."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from math import prod
from typing import Final

import numpy as np

from weft.compiler.abi.structs import COLLECTIVE
from weft.compiler.target.wire import Wire, ring
from weft.dialects.weights import Array
from weft.distributed.messages import CollectiveRecord
from weft.distributed.world import world

_FUNCTION: Final = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * 4)

OPERATIONS: Final = ("all_reduce", "all_gather", "reduce_scatter", "send", "recv")
ITEM_BYTES: Final = (4, 8, 4, 8, 1)
"""By the numbers that a `weft_collective` has."""


class Exchange:
    """Sums over all ranks."""

    def __init__(self) -> None:
        here = world()
        assert here.table is not None, "several ranks are needed: weft launch -n 2"
        self._table = here.table
        self._wait = _FUNCTION(here.table.wait)
        self._size, self._stride = ctypes.c_int64(here.ranks), ctypes.c_int64(1)

    def reduce(self, source: Array, target: Array) -> None:
        """Sums an array of all ranks, which may be the target itself."""
        what = CollectiveRecord(
            size=COLLECTIVE.size,
            tag=1,
            axes=1,
            count=source.size,
            sizes=ctypes.addressof(self._size),
            strides=ctypes.addressof(self._stride),
        )
        addresses = source.ctypes.data, target.ctypes.data
        assert not self._wait(self._table.user, ctypes.addressof(what), *addresses)

    def throttle(self, wire: Wire) -> None:
        """From now on this rank communicates as over a wire; all ranks are to do so together."""
        (endpoint,) = (each for each in self._table.held if hasattr(each, "latency"))
        endpoint.latency, endpoint.byte = wire.units

    def sent(self, run: Callable[[], object]) -> dict[str, tuple[int, int]]:
        """By operation, how often a run communicates on this rank, and the bytes that it sends,
        those of collectives on a ring.
        """
        found: dict[str, tuple[int, int]] = {}

        def wait(*arguments: int) -> int:
            what = CollectiveRecord.from_address(arguments[1])
            name, bytes = OPERATIONS[what.operation], what.count * ITEM_BYTES[what.dtype]
            if name in ("send", "recv"):
                sent = bytes if name == "send" else 0
            else:
                members = prod((ctypes.c_int64 * what.axes).from_address(what.sizes))
                sent = ring(name, members, bytes)[1]
            count, before = found.get(name, (0, 0))
            found[name] = count + 1, before + sent
            return self._wait(*arguments)

        counting = _FUNCTION(wait)
        self._table.wait, own = ctypes.cast(counting, ctypes.c_void_p).value, self._table.wait
        try:
            run()
        finally:
            self._table.wait = own
        return found

    def total(self, value: float) -> float:
        """The sum of a number, when all have come."""
        number = np.array([value], np.float32)
        self.reduce(number, number)
        return float(number[0])

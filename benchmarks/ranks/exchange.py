"""Collectives of f32 outside of programs, by this rank's table of communication."""

from __future__ import annotations

import ctypes
from typing import Final

import numpy as np

from weft.compiler.abi.structs import COLLECTIVE
from weft.compiler.target.wire import Wire
from weft.dialects.weights import Array
from weft.distributed.messages import CollectiveRecord
from weft.distributed.world import world

_FUNCTION: Final = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * 4)


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

    def total(self, value: float) -> float:
        """The sum of a number, when all have come."""
        number = np.array([value], np.float32)
        self.reduce(number, number)
        return float(number[0])

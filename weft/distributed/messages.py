"""Arrays that one rank gives to another by its table of communication, outside of programs."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from weft.compiler.abi.structs import COLLECTIVE
from weft.dialects.errors import RankError
from weft.dialects.graph.mesh.attributes import MeshAttr
from weft.dialects.weights import Array

SEND: Final = 3
RECV: Final = 4
_BYTES: Final = 4
_FIRST_TAG: Final = 3 << 14
"""The tag of the first array, which no message of a program has."""

_FUNCTION: Final = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * 4)


class CollectiveRecord(ctypes.Structure):
    """A `weft_collective`."""

    _fields_ = COLLECTIVE.ctypes_fields


def members(what: Any, rank: int) -> Iterator[int]:
    """The ranks of a rank's group, by their index, of a `weft_collective`."""
    sizes, strides = (
        (ctypes.c_int64 * what.axes).from_address(each) for each in (what.sizes, what.strides)
    )
    axes = list(zip(sizes, strides, strict=True))
    base = rank - sum(rank // stride % size * stride for size, stride in axes)
    for digits in np.ndindex(*sizes):
        yield base + sum(digit * stride for digit, (_, stride) in zip(digits, axes, strict=True))


class Messages:
    """What a rank sends to others along an axis of a mesh by its table, and receives of them."""

    def __init__(self, mesh: MeshAttr, axis: str, table: Any):
        self._table = table
        self._functions = [_FUNCTION(each) for each in (table.start, table.wait)]
        self._size = ctypes.c_int64(mesh.sizes[axis])
        self._stride = ctypes.c_int64(mesh.strides[axis])

    def send(self, peer: int, number: int, array: Array) -> None:
        """Sends an array, which has a number on both sides. Raises RankError as calls do."""
        self._move(SEND, peer, number, np.ascontiguousarray(array))

    def recv(self, peer: int, number: int, like: Array) -> Array:
        """The array that was sent, of the dtype and shape of another."""
        array = np.empty_like(like, order="C")
        self._move(RECV, peer, number, array)
        return array

    def _move(self, operation: int, peer: int, number: int, array: Array) -> None:
        what = CollectiveRecord(
            size=COLLECTIVE.size,
            tag=_FIRST_TAG + number,
            operation=operation,
            dtype=_BYTES,
            axes=1,
            count=array.nbytes,
            sizes=ctypes.addressof(self._size),
            strides=ctypes.addressof(self._stride),
            peer=peer,
        )
        address = array.ctypes.data
        for function in self._functions:
            status = function(self._table.user, ctypes.addressof(what), address, address)
            if status < 0:
                rule = "results require one program on all ranks"
                raise RankError(f"{rule}, got another on rank {~status}")
            if status > 0:
                rule = "results require every rank to take part in time"
                raise RankError(f"{rule}, got none of rank {status - 1}")

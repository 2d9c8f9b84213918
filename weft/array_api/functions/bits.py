"""NumPy's bits that are eight a byte."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.array.operators import axis_of
from weft.array.rearrangements import moveaxis
from weft.array_api.functions.padding import pad
from weft.array_api.operands import known, operand, refuse


def packbits(a: Any, /, axis: Any = None, bitorder: str = "big") -> Any:
    """Whether elements are zero or not as bits, eight a byte; the last one is filled with zeros.

    >>> np.packbits(i), np.packbits(i > 0, axis=1, bitorder="little")
    """
    a = operand(a)
    if a.dtype.kind not in "biu":
        raise refuse("packbits requires integers or bools", a.dtype)
    bits, position = _last(a != 0, axis)
    missing = -known(bits.shape[-1], "packbits") % 8
    wide = pad(bits.astype(np.uint8), [(0, 0)] * (bits.ndim - 1) + [(0, missing)])
    found = wide.reshape((*bits.shape[:-1], -1, 8)) << _shifts(bitorder)
    return moveaxis(found.sum(-1).astype(np.uint8), -1, position)


def unpackbits(a: Any, /, axis: Any = None, count: Any = None, bitorder: str = "big") -> Any:
    """The bits of bytes, as many as `count`, or all but so many for one below 0.

    >>> np.unpackbits(abs(i).astype(np.uint8)), np.unpackbits(np.packbits(i), count=11)
    """
    a = operand(a)
    if a.dtype != np.uint8:
        raise refuse("unpackbits requires bytes (uint8)", a.dtype)
    given, position = _last(a, axis)
    bits = (given.reshape((*given.shape, 1)) >> _shifts(bitorder)) & np.uint8(1)
    found = bits.reshape((*given.shape[:-1], -1))
    if count is not None:
        missing = max(0, int(count) - known(found.shape[-1], "unpackbits"))
        found = pad(found, [(0, 0)] * (found.ndim - 1) + [(0, missing)])[..., : int(count)]
    return moveaxis(found, -1, position)


def _last(a: Any, axis: Any) -> tuple[Any, int]:
    """The array with the axis that is asked for as its last one, and where it was."""
    if axis is None:
        return a.reshape(-1), -1
    position = axis_of(axis, a.ndim)
    return moveaxis(a, position, -1), position


def _shifts(order: str) -> Any:
    if order not in ("big", "little"):
        raise refuse("bits require the order 'big' or 'little'", repr(order))
    return np.arange(8, dtype=np.uint8)[:: -1 if order == "big" else 1]

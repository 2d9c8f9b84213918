"""NumPy's `pad`, and bits eight a byte, the last of which is padded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from weft.array.elementwise import floor, round
from weft.array.operators import axis_of
from weft.array.rearrangements import concat, moveaxis
from weft.array.selections import take
from weft.array_api.functions.statistics import median
from weft.array_api.operands import known, operand, refuse

_INSIDE = ("reflect", "symmetric", "wrap", "edge")
_OF_AXIS = ("maximum", "minimum", "mean", "median")
_KEYWORDS = {
    "constant": "constant_values", "linear_ramp": "end_values", "reflect": "reflect_type",
    "symmetric": "reflect_type", **dict.fromkeys(_OF_AXIS, "stat_length"),
}  # fmt: skip


def pad(array: Any, pad_width: Any, mode: Any = "constant", **kwargs: Any) -> Any:
    """Elements around an array: constants, those of its edges, reflected or repeated ones, or a
    maximum, minimum, mean, median or ramp of each axis.

    >>> np.pad(x, 1), np.pad(x, ((0, 1), (2, 0)), "edge"), np.pad(v, 2, mode="reflect")
    >>> np.pad(v, (1, 2), constant_values=7.0), np.pad(x, 1, "wrap"), np.pad(x, 2, "symmetric")
    >>> np.pad(x, 1, "maximum"), np.pad(x, 1, "mean", stat_length=2), np.pad(i, 2, "median")
    >>> np.pad(x, (1, 2), "linear_ramp", end_values=((1, 2), (0, 5))), np.pad(i, 3, "linear_ramp")
    >>> np.pad(v, 2, "reflect", reflect_type="odd"), np.pad(x, 1, "symmetric", reflect_type="odd")
    """
    array = operand(array)
    if mode not in (*_INSIDE, *_OF_AXIS, "constant", "empty", "linear_ramp"):
        raise refuse("pad requires a mode of NumPy's by name", mode)
    unknown = [name for name in kwargs if name != _KEYWORDS.get(mode)]
    if unknown:
        raise refuse(f"pad by {mode} requires keywords of that mode", unknown[0])
    if isinstance(pad_width, dict):
        by_axis = cast("dict[int, Any]", pad_width)
        pad_width = [by_axis.get(axis, (0, 0)) for axis in range(array.ndim)]
    widths = np.broadcast_to(np.asarray(pad_width), (array.ndim, 2)).tolist()
    default = None if mode in _OF_AXIS else 0
    given = next(iter(kwargs.values()), default)
    if mode in _INSIDE:
        odd = given == "odd"
        for axis, width in enumerate(widths):
            if any(width):
                array = _inside(array, axis, width, mode, odd)
        return array
    for axis, (width, pair) in enumerate(zip(widths, _pairs(given, array.ndim), strict=True)):
        if mode in ("constant", "empty"):
            ends: Any = [_repeated(array, axis, *each) for each in zip(width, pair, strict=True)]
        elif mode == "linear_ramp":
            ends = _ramps(array, axis, width, pair)
        else:
            found = _of_axis(array, axis, pair, mode)
            ends = [_repeated(array, axis, *each) for each in zip(width, found, strict=True)]
        array = concat([ends[0], array, ends[1]], axis) if any(width) else array.copy()
    return array


def _pairs(values: Any, ndim: int) -> list[Any]:
    """Two values of each axis."""
    if hasattr(values, "ndim") and not values.ndim or not isinstance(values, list | tuple):
        return [(values, values)] * ndim
    return np.broadcast_to(np.asarray(cast("Any", values), object), (ndim, 2)).tolist()


def _repeated(x: Any, axis: int, count: int, value: Any) -> Any:
    """A value, or one of each line along an axis, so many times."""
    shape = list(x.shape)
    shape[axis] = count
    return x.lifted(value).astype(x.dtype).broadcast_to(shape)


def _part(x: Any, axis: int, start: int, stop: int) -> Any:
    return x[(*(slice(None),) * axis, slice(start, stop))]


def _of_axis(x: Any, axis: int, lengths: Sequence[Any], mode: str) -> list[Any]:
    """A statistic of the first elements along an axis, and of the last ones."""
    size = known(x.shape[axis], "pad")
    counts = [size if length is None else min(int(length), size) for length in lengths]
    found: list[Any] = []
    for part in (_part(x, axis, 0, counts[0]), _part(x, axis, size - counts[1], size)):
        match mode:
            case "maximum":
                end = part.max(axis, keepdims=True)
            case "minimum":
                end = part.min(axis, keepdims=True)
            case "mean":
                end = part.mean(axis, keepdims=True)
            case _:
                end = median(part, axis, keepdims=True)
        found.append(round(end) if x.dtype.kind in "iu" else end)
    return found


def _ramps(x: Any, axis: int, width: Sequence[int], values: Sequence[Any]) -> list[Any]:
    """Steps of one size from a value to the first element along an axis, and from the last one."""
    size = known(x.shape[axis], "pad")
    ramps: list[Any] = []
    for side, (count, value) in enumerate(zip(width, values, strict=True)):
        first = side * (size - 1)
        edge = _part(x, axis, first, first + 1).as_float()
        steps = np.arange(count)[:: -1 if side else 1].astype(edge.dtype)
        steps = steps.reshape(-1, *(1,) * (x.ndim - axis - 1))
        start = edge.lifted(value).astype(edge.dtype)
        ramp = (edge - start) / max(count, 1) * steps + start
        ramps.append((floor(ramp) if x.dtype.kind in "iu" else ramp).astype(x.dtype))
    return ramps


def _inside(x: Any, axis: int, width: Sequence[int], mode: str, odd: bool) -> Any:
    """Elements of the array itself; odd ones are mirrored at the element on the edge, too."""
    size = known(x.shape[axis], "pad")
    found = take(x, np.pad(np.arange(size), width, cast("Any", mode)), axis)
    if not odd:
        return found
    if max(width) > size - (mode == "reflect"):
        raise refuse(f"odd padding requires a width below the axis of {size}", max(width))
    end = width[0] + size
    front, behind = _part(found, axis, 0, width[0]), _part(found, axis, end, end + width[1])
    first, last = _part(x, axis, 0, 1), _part(x, axis, size - 1, size)
    ends = [(2 * first - front).astype(x.dtype), (2 * last - behind).astype(x.dtype)]
    return concat([ends[0], x, ends[1]], axis)


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

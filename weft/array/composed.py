"""Functions of the array API standard of each element that are composed of others; on tensors with
values they are one kernel each.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from weft.array.composites import composite, leader
from weft.array.elementwise import (
    abs,
    atan,
    ceil,
    equal,
    exp,
    floor,
    isinf,
    isnan,
    less,
    lifted,
    log,
    log1p,
    logical_and,
    negative,
    round,
    sqrt,
    where,
)
from weft.array.operators import ArrayOperators

_numpy: Any = np  # whose overloads ask for more than arrays

_BITS = {2: np.int16, 4: np.int32, 8: np.int64}
"""Integers of as many bytes as floats."""


def _of_one(of_numpy: Callable[[Any], Any], function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def composed(x: Any) -> Any:
        return composite(function, x) if isinstance(x, ArrayOperators) else of_numpy(x)

    composed.__name__ = function.__name__.lstrip("_")
    composed.__doc__ = function.__doc__
    return composed


def _of_two(
    of_numpy: Callable[[Any, Any], Any], function: Callable[[Any, Any], Any]
) -> Callable[[Any, Any], Any]:
    def composed(x: Any, y: Any) -> Any:
        if type(x) is type(y) and isinstance(x, ArrayOperators):
            return composite(function, x, y)
        first = leader(x, y)
        if first is None:
            return of_numpy(x, y)
        like = next(each for each in (x, y) if isinstance(each, ArrayOperators))
        return composite(function, *(lifted(first, each, first.lifted(like)) for each in (x, y)))

    composed.__name__ = function.__name__.lstrip("_")
    composed.__doc__ = function.__doc__
    return composed


def _trunc(x: Any) -> Any:
    """The elements without what stands behind the point."""
    return x if x.dtype.kind in "biu" else where(less(x, 0), ceil(x), floor(x))


def _log2(x: Any) -> Any:
    """The logarithms to the base 2, exact for powers of it."""
    return _log_to(x, 2.0)


def _log10(x: Any) -> Any:
    """The logarithms to the base 10, exact for powers of it."""
    return _log_to(x, 10.0)


def _log_to(x: Any, base: float) -> Any:
    x = x.as_float()
    found = log(x) * (1.0 / float(_numpy.log(base)))
    if x.dtype.kind == "c":
        return found
    whole = round(found)
    slack = 1e-3 if x.dtype.itemsize > 2 else 8e-3
    near = abs(whole - found) <= abs(whole) * slack  # not of infinities: their difference is NaN
    exact = logical_and(equal(lifted(x, base) ** whole, x), near)
    correction = where(exact, whole - found, 0.0)
    return found + correction.op("stop_gradient", correction)


def _signbit(x: Any) -> Any:
    """Whether the sign of each element is set, that of -0.0 too."""
    if x.dtype.kind in "biu":
        return less(x, 0) if x.dtype.kind == "i" else x != x
    bits = x.op("bitcast", x.op("stop_gradient", x), to=np.dtype(_BITS[x.dtype.itemsize]))
    return less(bits, 0)


def _copysign(x: Any, y: Any) -> Any:
    """The elements of `x` with the signs of those of `y`."""
    x, y = (each.as_float() for each in x.promoted(y))
    return where(_signbit(x) == _signbit(y), x, negative(x))


def _hypot(x: Any, y: Any) -> Any:
    """The roots of sums of two squares, which do not overflow on the way."""
    x, y = (abs(each.as_float()) for each in x.promoted(y))
    swaps = less(x, y)  # one order, whose derivatives belong together at ties
    high, low = where(swaps, y, x), where(swaps, x, y)
    ratio = low / where(high == 0, 1.0, high)
    return where(isinf(high), high, where(isinf(low), low, high * sqrt(1.0 + ratio * ratio)))


def _logaddexp(x: Any, y: Any) -> Any:
    """`log(exp(x) + exp(y))`, which does not overflow on the way."""
    x, y = (each.as_float() for each in x.promoted(y))
    apart = where(x == y, 0.0, x - y)
    return where(apart > 0, x, y) + log1p(exp(negative(abs(apart))))


def _atan2(y: Any, x: Any) -> Any:
    """The angles of points `(x, y)`, from -pi to pi."""
    y, x = (each.as_float() for each in y.promoted(x))
    endless = logical_and(isinf(x), isinf(y))
    x, y = (where(endless, _copysign(lifted(x, 1.0), each), each) for each in (x, y))
    steep = abs(y) > abs(x)
    low, high = where(steep, x, y), where(steep, y, x)
    angle = atan(low / where(high == 0, 1.0, high))
    half, quarter = (_copysign(lifted(x, each), y) for each in (_numpy.pi, _numpy.pi / 2))
    flat = where(_signbit(x), angle + half, angle)
    return where(isnan(x), x, where(steep, quarter - angle, flat))


def _nextafter(x: Any, y: Any) -> Any:
    """The floats beside those of `x`, towards those of `y`; they have no slope."""
    x, y = (each.op("stop_gradient", each) for each in x.as_float().promoted(y))
    integer_dtype = np.dtype(_BITS[x.dtype.itemsize])
    bits = x.op("bitcast", x, to=integer_dtype)
    away = (y > x) == (x > 0)
    neighbor = x.op("bitcast", bits + where(away, 1, -1).astype(integer_dtype), to=x.dtype)
    least = _copysign(lifted(x, float(_numpy.finfo(x.dtype).smallest_subnormal)), y)
    moved = where(x == y, y, where(x == 0, least, neighbor))
    return where(isnan(x), x, where(isnan(y), y, moved))


trunc, signbit = _of_one(_numpy.trunc, _trunc), _of_one(_numpy.signbit, _signbit)
log2, log10 = _of_one(_numpy.log2, _log2), _of_one(_numpy.log10, _log10)
copysign, hypot = _of_two(_numpy.copysign, _copysign), _of_two(_numpy.hypot, _hypot)
logaddexp, atan2 = _of_two(_numpy.logaddexp, _logaddexp), _of_two(_numpy.arctan2, _atan2)
nextafter = _of_two(_numpy.nextafter, _nextafter)

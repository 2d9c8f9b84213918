"""NumPy's functions of each element that are made of others."""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np

from weft.array.composed import atan2, copysign, logaddexp, nextafter, trunc
from weft.array.elementwise import (
    abs,
    exp,
    floor_divide,
    isinf,
    isnan,
    lifted,
    log,
    logical_and,
    maximum,
    minimum,
    remainder,
    round,
    sin,
    where,
)
from weft.array.rearrangements import concat
from weft.array.reductions import all, any, cumulative_sum
from weft.array.selections import diff
from weft.array_api.operands import operand
from weft.tracing.control import while_loop

_LN2 = float(np.log(2.0))


def fabs(x: Any) -> Any:
    """The absolute values, as floats.

    >>> np.fabs(x - 0.5)
    """
    return abs(operand(x).as_float())


def rint(x: Any) -> Any:
    """The nearest whole numbers, halves to even ones.

    >>> np.rint(3 * x)
    """
    return round(operand(x).as_float())


def fix(x: Any, out: Any = None) -> Any:
    """The elements without what stands behind the point.

    >>> np.fix(3 * x - 1)
    """
    return trunc(x)


def cbrt(x: Any) -> Any:
    """The third roots.

    >>> np.cbrt(x - 0.5)
    """
    x = operand(x).as_float()
    size = abs(x)
    root = where(size == 0, 0.0, exp(log(where(size == 0, 1.0, size)) * (1.0 / 3.0)))
    root = root - (root * root * root - size) / where(size == 0, 1.0, 3.0 * root * root)
    return copysign(where(isinf(size), size, root), x)


def exp2(x: Any) -> Any:
    """Two to these powers.

    >>> np.exp2(x)
    """
    x = operand(x).as_float()
    return lifted(x, 2.0) ** x


def deg2rad(x: Any) -> Any:
    """Angles in degrees as radians.

    >>> np.deg2rad(x)
    """
    return operand(x).as_float() * (np.pi / 180.0)


def rad2deg(x: Any) -> Any:
    """Angles in radians as degrees.

    >>> np.rad2deg(x)
    """
    return operand(x).as_float() * (180.0 / np.pi)


radians, degrees = deg2rad, rad2deg


def float_power(x1: Any, x2: Any) -> Any:
    """Powers of float64.

    >>> np.float_power(i + 3, 2)
    """
    return operand(x1, x2).astype(np.float64) ** operand(x2, x1).astype(np.float64)


def fmax(x1: Any, x2: Any) -> Any:
    """The greater one of two elements, the other one beside NaN.

    >>> np.fmax(x, x[::-1])
    """
    x1, x2 = operand(x1, x2).promoted(operand(x2, x1))
    if x1.dtype.kind != "f":
        return maximum(x1, x2)
    return where(isnan(x1), x2, where(isnan(x2), x1, maximum(x1, x2)))


def fmin(x1: Any, x2: Any) -> Any:
    """The lesser one of two elements, the other one beside NaN.

    >>> np.fmin(x, x[::-1])
    """
    x1, x2 = operand(x1, x2).promoted(operand(x2, x1))
    if x1.dtype.kind != "f":
        return minimum(x1, x2)
    return where(isnan(x1), x2, where(isnan(x2), x1, minimum(x1, x2)))


def fmod(x1: Any, x2: Any) -> Any:
    """What is left of a division, with the sign of the dividend.

    >>> np.fmod(x - 0.5, 0.3)
    """
    x1, x2 = operand(x1, x2).promoted(operand(x2, x1))
    return x1.op("mod", x1, x2, fmod=True)


def modf(x: Any) -> Any:
    """What stands behind the point and what stands in front of it.

    >>> np.modf(3 * x - 1)
    """
    x = operand(x).as_float()
    whole = trunc(x)
    return copysign(where(isinf(x), 0.0, x - whole), x), whole


def frexp(x: Any) -> Any:
    """Fractions of at least one half and below one, and the powers of two that they are times of.

    >>> np.frexp(x * 40), np.frexp([0.0, -3.0, 1e-300, np.inf])
    """
    x = operand(x).as_float()
    wide = x.astype(np.float64)
    small = abs(wide) < 1e-300
    bits = where(small, wide * 2.0**60, wide).view(np.int64)
    power = ((bits >> 52) & 2047) - 1022 - where(small, 60, 0)
    power = where((x == 0) | isinf(x) | isnan(x), 0, power)
    half = power >> 1
    for each in (half, power - half):
        wide = wide * ((1023 - each) << 52).view(np.float64)
    return wide.astype(x.dtype), power.astype(np.int32)


def ldexp(x1: Any, x2: Any) -> Any:
    """`x1` times two to the powers `x2`.

    >>> np.ldexp(x, i)
    """
    x1 = operand(x1, x2).as_float()
    return x1 * (lifted(x1, 2.0) ** operand(x2, x1).astype(x1.dtype))


def divmod(x1: Any, x2: Any) -> Any:
    """Quotients that are rounded down, and what is left.

    >>> np.divmod(i, 3)
    """
    x1, x2 = operand(x1, x2), operand(x2, x1)
    return floor_divide(x1, x2), remainder(x1, x2)


def gcd(x1: Any, x2: Any) -> Any:
    """The greatest common divisors of integers.

    >>> np.gcd(i, 6)
    """
    x1, x2 = operand(x1, x2).promoted(operand(x2, x1))
    start = tuple(_both(abs(x1), abs(x2)))

    def step(state: Any) -> Any:
        high, low = state
        divides = low == 0
        rest = remainder(high, where(divides, 1, low))
        return where(divides, high, low), where(divides, low, rest)

    def goes_on(state: Any) -> Any:
        return any(state[1] != 0)

    return while_loop(goes_on, step, start)[0]


def _both(x: Any, y: Any) -> list[Any]:
    """Both with the shape that they are broadcast to."""
    zeros = x * 0 + y * 0
    return [x + zeros, y + zeros]


def lcm(x1: Any, x2: Any) -> Any:
    """The least common multiples of integers.

    >>> np.lcm(i, 6)
    """
    x1, x2 = operand(x1, x2).promoted(operand(x2, x1))
    divisor = gcd(x1, x2)
    return where(divisor == 0, 0, abs(floor_divide(x1, where(divisor == 0, 1, divisor)) * x2))


def heaviside(x1: Any, x2: Any) -> Any:
    """0 below zero, 1 above, `x2` at zero.

    >>> np.heaviside(i, 0.5)
    """
    x1, x2 = operand(x1, x2).promoted(operand(x2, x1))
    x1, x2 = x1.as_float(), x2.as_float()
    return where(isnan(x1), x1, where(x1 == 0, x2, (x1 > 0).astype(x1.dtype)))


def isneginf(x: Any, out: Any = None) -> Any:
    """Where elements are minus infinity.

    >>> np.isneginf(np.log(np.abs(1.0 * i)))
    """
    return logical_and(isinf(x), operand(x) < 0)


def isposinf(x: Any, out: Any = None) -> Any:
    """Where elements are plus infinity.

    >>> np.isposinf(-np.log(np.abs(1.0 * i)))
    """
    return logical_and(isinf(x), operand(x) > 0)


def isclose(a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Any:
    """Where elements are equal, but for tolerances.

    >>> np.isclose(x, x + 1e-9)
    """
    a, b = (each.as_float() for each in operand(a, b).promoted(operand(b, a)))
    ends = isinf(a) | isinf(b)
    near = (abs(a - b) <= atol + rtol * abs(b)) & ~ends | (a == b)
    return near | (isnan(a) & isnan(b)) if equal_nan else near


def allclose(
    a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> Any:
    """Whether all elements are equal, but for tolerances.

    >>> np.allclose(x, x + 1e-9)
    """
    return all(isclose(a, b, rtol, atol, equal_nan))


def array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> Any:
    """Whether shapes and all elements are equal.

    >>> np.array_equal(x, x)
    """
    a1, a2 = operand(a1, a2), operand(a2, a1)
    if tuple(a1.shape) != tuple(a2.shape):
        return False
    same = a1 == a2
    both = equal_nan and "f" == a1.dtype.kind == a2.dtype.kind
    return all(same | (isnan(a1) & isnan(a2)) if both else same)


def array_equiv(a1: Any, a2: Any) -> Any:
    """Whether all elements are equal where one is broadcast to the other.

    >>> np.array_equiv(v, x)
    """
    return all(operand(a1, a2) == operand(a2, a1))


def logaddexp2(x1: Any, x2: Any) -> Any:
    """The logarithm to base 2 of the sum of two powers of 2.

    >>> np.logaddexp2(x, x[::-1])
    """
    x1, x2 = operand(x1, x2).as_float(), operand(x2, x1).as_float()
    return logaddexp(x1 * _LN2, x2 * _LN2) / _LN2


def nan_to_num(
    x: Any, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None
) -> Any:
    """Numbers in place of NaN and infinities.

    >>> np.nan_to_num(np.log(1.0 * i))
    """
    x = operand(x)
    if x.dtype.kind != "f":
        return x.copy() if copy else x
    bounds = np.finfo(x.dtype)
    high = float(bounds.max) if posinf is None else posinf
    low = float(bounds.min) if neginf is None else neginf
    ends = where(isinf(x), where(x > 0, high, low), x)
    found = where(isnan(x), nan, ends)
    if not copy:
        x[...] = found
        return x
    return found


def sinc(x: Any) -> Any:
    """`sin(pi x) / (pi x)`, and 1 at 0.

    >>> np.sinc(i / 3)
    """
    x = operand(x).as_float() * np.pi
    safe = where(x == 0, 1.0, x)
    return where(x == 0, 1.0, sin(safe) / safe)


def spacing(x: Any) -> Any:
    """The distance to the next float away from zero.

    >>> np.spacing(x)
    """
    x = operand(x).as_float()
    x = x.op("stop_gradient", x)
    return copysign(nextafter(abs(x), lifted(x, np.inf)) - abs(x), x)


def bitwise_count(x: Any) -> Any:
    """How many bits of the absolute values are set.

    >>> np.bitwise_count(i)
    """
    x = operand(x)
    size = abs(x) if x.dtype.kind == "i" else x
    bits = [(size >> bit) & 1 for bit in range(8 * x.dtype.itemsize)]
    total: Any = builtins.sum(bits[1:], start=bits[0])
    return total.astype(np.uint8)


def unwrap(p: Any, discont: Any = None, axis: int = -1, *, period: float = 2 * np.pi) -> Any:
    """Angles without jumps of more than half a period.

    >>> np.unwrap(7 * v)
    """

    p = operand(p)
    position = axis % p.ndim
    step = diff(p, axis=position)
    half = period / 2
    wrapped = remainder(step + half, period) - half
    wrapped = where((wrapped == -half) & (step > 0), half, wrapped)
    limit = half if discont is None else builtins.max(discont, half)
    change = where(abs(step) < limit, 0.0, wrapped - step)
    front = (slice(None),) * position
    later = p[(*front, slice(1, None))] + cumulative_sum(change, axis=position)
    return concat([p[(*front, slice(None, 1))], later], position)


def real(val: Any) -> Any:
    """The real parts.

    >>> np.real(x), np.real(v + 2j)
    """
    return operand(val).real


def imag(val: Any) -> Any:
    """The imaginary parts.

    >>> np.imag(x), np.imag(v * 2j)
    """
    return operand(val).imag


def conjugate(x: Any) -> Any:
    """The numbers with the other imaginary parts.

    >>> np.conjugate(x), np.conj(v * 1j + 1)
    """
    return operand(x).conj()


conj = conjugate


def angle(z: Any, deg: bool = False) -> Any:
    """The angles of complex numbers, counted from the positive reals.

    >>> np.angle(v - 0.5 + 1j), np.angle(v * 1j, deg=True), np.angle(v - 0.5)
    """
    z = operand(z)
    found = atan2(z.imag, z.real)
    return found * (180.0 / np.pi) if deg else found


def real_if_close(a: Any, tol: float = 100) -> Any:
    """The elements themselves; complex numbers stay such, since their type cannot depend on them.

    >>> np.real_if_close(x)
    """
    return a


def isreal(x: Any) -> Any:
    """Whether each element has no imaginary part.

    >>> np.isreal(x), np.isreal(v + (v > 0.5) * 1j)
    """
    return operand(x).imag == 0


def iscomplex(x: Any) -> Any:
    """Whether each element has an imaginary part.

    >>> np.iscomplex(x), np.iscomplex(v + (v > 0.5) * 1j)
    """
    return operand(x).imag != 0


def isrealobj(x: Any) -> bool:
    """Whether the dtype is none of complex numbers.

    >>> np.isrealobj(x), np.isrealobj(x * 1j)
    """
    return not iscomplexobj(x)


def iscomplexobj(x: Any) -> bool:
    """Whether the dtype is one of complex numbers.

    >>> np.iscomplexobj(x), np.iscomplexobj(x * 1j)
    """
    return operand(x).dtype.kind == "c"

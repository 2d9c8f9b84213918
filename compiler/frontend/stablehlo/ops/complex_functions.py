"""Functions of complex numbers, which are pairs of reals; all but magnitudes are
computed in f64.
"""

from __future__ import annotations

import math

from msgspec import Struct

from weft.compiler.frontend.stablehlo.ops.elementwise import (
    atan2,
    copy_sign,
    is_negative,
)
from weft.dialects.graph.core.algebra import Term
from weft.dialects.graph.core.types import F32, Shape


class Pair(Struct, frozen=True, eq=False):
    """A complex tensor, with Python's operators."""

    real: Term
    imag: Term

    @property
    def shape(self) -> Shape:
        """The tensor's dims."""
        return self.real.shape

    def __add__(self, other: Pair) -> Pair:
        return Pair(self.real + other.real, self.imag + other.imag)

    def __sub__(self, other: Pair) -> Pair:
        return Pair(self.real - other.real, self.imag - other.imag)

    def __neg__(self) -> Pair:
        return Pair(-self.real, -self.imag)

    def __mul__(self, other: Pair) -> Pair:
        a, b, c, d = self.real, self.imag, other.real, other.imag
        return Pair(a * c - b * d, a * d + b * c)

    def __truediv__(self, other: Pair) -> Pair:
        """By Smith's method: the larger part of the divisor is divided by."""
        a, b, c, d = self.real, self.imag, other.real, other.imag
        swaps = c.math("abs") < d.math("abs")
        large, small = swaps.where(d, c), swaps.where(c, d)
        ratio = small / large
        bottom = large + small * ratio
        first, second = swaps.where(b, a), swaps.where(a, b)
        real = (first + second * ratio) / bottom
        imag = swaps.where(second * -1.0 + first * ratio, second - first * ratio) / bottom
        return Pair(real, imag)

    def shifted(self, number: float) -> Pair:
        """With a real number added."""
        return Pair(self.real + number, self.imag)

    def scaled(self, number: float) -> Pair:
        """Times a real number."""
        return Pair(self.real * number, self.imag * number)

    def times_i(self) -> Pair:
        """Times i."""
        return Pair(-self.imag, self.real)

    def over_i(self) -> Pair:
        """Divided by i, which is times -i."""
        return Pair(self.imag, -self.real)


def _is_nan(x: Term) -> Term:
    return x.math("is_nan")


def _infinite(z: Pair) -> Term:
    """Whether a part is infinite: functions have limits then, whatever the other part is."""
    return z.real.math("abs").equals(math.inf) | z.imag.math("abs").equals(math.inf)


def _defined(found: Term, holds: Term, limit: Term | float) -> Term:
    """What was found, or a limit that it has under a condition though its terms are no numbers."""
    return (holds & _is_nan(found)).where(limit, found)


def _times(size: Term, wave: Term) -> Term:
    """`size * wave`, in which 0 times what is no finite number is 0."""
    first, second = (_is_nan(each).where(0.0, each) for each in (size, wave))
    nothing = copy_sign(size.number(0.0), second)
    signed = is_negative(first).where(-nothing, nothing)
    return _defined(size * wave, size.equals(0) | wave.equals(0), signed)


def _wave(size: Term, phase: Term) -> Term:
    """`size * phase`, infinite where the size is though the angle be infinite or no number."""
    return _defined(_times(size, phase), size.math("abs").equals(math.inf), size)


def _grown(name: str, x: Term, wave: Term) -> Term:
    """A function by its name, as the size of a wave: NaN where the wave is, if `x` is finite and
    not 0. That the function overflows or is nearly 0 there is no limit.
    """
    inside = (x.math("abs") < math.inf) & x.equals(0).math("logical_not")
    return (inside & _is_nan(wave)).where(math.nan, x.math(name))


def _ordered(x: Term, y: Term) -> tuple[Term, Term]:
    """The greater and the lesser one of two, whose derivatives are those of one order at ties."""
    swaps = x < y
    return swaps.where(y, x), swaps.where(x, y)


def magnitude(z: Pair) -> Term:
    """`|z|`: numbers whose squares might leave the range are scaled, by a power of two."""
    x, y = z.real.math("abs"), z.imag.math("abs")
    large = x.maximum(y)
    safe, scale = (2.0**50, 2.0**90) if x.type.element == F32 else (2.0**400, 2.0**720)
    huge, tiny = large > safe, large < 1 / safe
    down, up = x.number(1 / scale), x.number(scale)
    factor = huge.where(down, tiny.where(up, 1.0))
    u, v = x * factor, y * factor
    squares = u * u + v * v
    zero = squares.equals(0)  # where the root has no derivative
    found = zero.where(1.0, squares).math("sqrt") * huge.where(up, tiny.where(down, 1.0))
    infinite = x.equals(math.inf) | y.equals(math.inf)
    return infinite.where(math.inf, zero.where(0.0, found))


def exponential(z: Pair) -> Pair:
    """`exp(z)`."""
    across, along = z.imag.math("cos"), z.imag.math("sin")
    size = _grown("exp", z.real, across)
    return Pair(_wave(size, across), _times(size, along))


def exponential_minus_one(z: Pair) -> Pair:
    """`exp(z) - 1`."""
    half = (z.imag * 0.5).math("sin")
    grown = z.real.math("expm1")
    real = grown * z.imag.math("cos") - half * half * 2.0
    real = _defined(real, z.real.math("abs").equals(math.inf), grown)
    wave = z.imag.math("sin")
    return Pair(real, _times(_grown("exp", z.real, wave), wave))


def logarithm(z: Pair) -> Pair:
    """`log(z)`; where `|z|` is near 1 by the difference of its square from 1."""
    x, y = z.real.math("abs"), z.imag.math("abs")
    large, small = _ordered(x, y)
    near = (large > 0.5) & (large < 2.0)
    safe = near.where(large, 1.0)
    other = near.where(small, 0.0)
    close = ((safe - 1.0) * (safe + 1.0) + other * other).math("log1p") * 0.5
    return Pair(near.where(close, magnitude(z).math("log")), atan2(z.imag, z.real))


def log_plus_one(z: Pair) -> Pair:
    """`log(1 + z)`."""
    x, y = z.real, z.imag
    small = (x.math("abs") < 0.5) & (y.math("abs") < 0.5)
    a, b = small.where(x, 0.0), small.where(y, 0.0)
    close = (a * (a + 2.0) + b * b).math("log1p") * 0.5
    found = logarithm(z.shifted(1.0))
    return Pair(small.where(close, found.real), found.imag)


def square_root(z: Pair) -> Pair:
    """`sqrt(z)`, its real part not negative."""
    x, y = z.real, z.imag
    root = ((magnitude(z) + x.math("abs")) * 0.5).math("sqrt")
    zero = root.equals(0)
    other = y.math("abs") / zero.where(1.0, root * 2.0)
    left = x < 0
    real, imag = left.where(other, root), left.where(root, other)
    infinite = y.math("abs").equals(math.inf)
    return Pair(
        infinite.where(math.inf, zero.where(root, real)), infinite.where(y, copy_sign(imag, y))
    )


def sine(z: Pair) -> Pair:
    """`sin(z)`."""
    x, y = z.real, z.imag
    wave = x.math("cos")
    return Pair(_times(x.math("sin"), y.math("cosh")), _wave(_grown("sinh", y, wave), wave))


def cosine(z: Pair) -> Pair:
    """`cos(z)`."""
    x, y = z.real, z.imag
    wave = x.math("cos")
    return Pair(_wave(_grown("cosh", y, wave), wave), -_times(x.math("sin"), y.math("sinh")))


def hyperbolic_sine(z: Pair) -> Pair:
    """`sinh(z)`."""
    return sine(z.times_i()).over_i()


def hyperbolic_cosine(z: Pair) -> Pair:
    """`cosh(z)`."""
    return cosine(z.times_i())


def hyperbolic_tangent(z: Pair) -> Pair:
    """`tanh(z)`, of large real parts by their limits."""
    x = z.real.maximum(-20.0).minimum(20.0)
    tangent, hyper = z.imag.math("tan"), x.math("tanh")
    bottom = (tangent * tangent) * (hyper * hyper) + 1.0
    slope = 1.0 / (x.math("cosh") * x.math("cosh"))
    real, imag = hyper * (tangent * tangent + 1.0) / bottom, tangent * slope / bottom
    infinite = z.real.math("abs").equals(math.inf)
    real = _defined(_defined(real, infinite, hyper), z.real.equals(0), z.real)
    imag = _defined(infinite.where(imag * 0.0, imag), infinite, 0.0)
    return Pair(real, _defined(imag, z.imag.equals(0), z.imag))


def tangent(z: Pair) -> Pair:
    """`tan(z)`."""
    return hyperbolic_tangent(z.times_i()).over_i()


def logistic(z: Pair) -> Pair:
    """`1 / (1 + exp(-z))`."""
    one = Pair(z.real * 0.0 + 1.0, z.imag * 0.0)
    return one / exponential(-z).shifted(1.0)


def reciprocal_root(z: Pair) -> Pair:
    """`1 / sqrt(z)`."""
    one = Pair(z.real * 0.0 + 1.0, z.imag * 0.0)
    return one / square_root(z)


def cube_root(z: Pair) -> Pair:
    """The root whose angle is a third of the number's."""
    zero = z.real.equals(0) & z.imag.equals(0)
    found = exponential(logarithm(Pair(zero.where(1.0, z.real), z.imag)).scaled(1 / 3))
    return Pair(zero.where(z.real, found.real), zero.where(z.imag, found.imag))


def angle(y: Pair, x: Pair) -> Pair:
    """`-i * log((x + i * y) / sqrt(x * x + y * y))`, which of reals is the angle of (x, y)."""
    return logarithm((x + y.times_i()) / square_root(squared(x) + squared(y))).over_i()


def power(z: Pair, w: Pair) -> Pair:
    """`z ** w`; 0 to a power is 0, and 1 to the power 0."""
    zero = z.real.equals(0) & z.imag.equals(0)
    none = w.real.equals(0) & w.imag.equals(0)
    found = exponential(w * logarithm(z))
    real = none.where(1.0, zero.where(found.real.number(0.0), found.real))
    return Pair(real, (none | zero).where(0.0, found.imag))


def sign(z: Pair) -> Pair:
    """`z / |z|`, and 0 of 0."""
    size = magnitude(z)
    zero = size.equals(0)
    safe = zero.where(1.0, size)
    return Pair(zero.where(0.0, z.real / safe), zero.where(0.0, z.imag / safe))


def inverse_hyperbolic_sine(z: Pair) -> Pair:
    """`asinh(z)`, by the real `asinh` of a product of roots."""
    return inverse_sine(z.times_i()).over_i()


def inverse_sine(z: Pair) -> Pair:
    """`asin(z)`, by Kahan's formulas."""
    low = square_root(Pair(1.0 - z.real, -z.imag))
    high = square_root(z.shifted(1.0))
    real = atan2(z.real, low.real * high.real - low.imag * high.imag)
    imag = copy_sign((low.real * high.imag - low.imag * high.real).math("asinh"), z.imag)
    x, y = z.real, z.imag
    infinite = _infinite(z)
    real = _defined(infinite.where(atan2(x, y.math("abs")), real), x.equals(0), x)
    return Pair(real, infinite.where(copy_sign(x.number(math.inf), y), imag))


def inverse_cosine(z: Pair) -> Pair:
    """`acos(z)`, by Kahan's formulas."""
    low = square_root(Pair(1.0 - z.real, -z.imag))
    high = square_root(z.shifted(1.0))
    real = atan2(low.real, high.real) * 2.0
    imag = (high.real * low.imag - high.imag * low.real).math("asinh")
    x, y = z.real, z.imag
    infinite = _infinite(z)
    real = _defined(infinite.where(atan2(y.math("abs"), x), real), x.equals(0), math.pi / 2)
    return Pair(real, infinite.where(copy_sign(x.number(math.inf), -y), imag))


def inverse_hyperbolic_cosine(z: Pair) -> Pair:
    """`acosh(z)`, by Kahan's formulas."""
    low, high = square_root(z.shifted(-1.0)), square_root(z.shifted(1.0))
    real = (low.real * high.real + low.imag * high.imag).math("asinh")
    imag, infinite = atan2(low.imag, high.real) * 2.0, _infinite(z)
    imag = _defined(infinite.where(atan2(z.imag, z.real), imag), z.real.equals(0), math.pi / 2)
    return Pair(infinite.where(math.inf, real), imag)


def inverse_hyperbolic_tangent(z: Pair) -> Pair:
    """`atanh(z)`."""
    x, y = z.real, z.imag
    bottom = (1.0 - x) * (1.0 - x) + y * y
    real = (x * 4.0 / bottom).math("log1p") * 0.25
    imag = atan2(y * 2.0, (1.0 - x) * (x + 1.0) - y * y) * 0.5
    infinite = _infinite(z)
    real = _defined(infinite.where(copy_sign(x.number(0.0), x), real), x.equals(0), x)
    limit = _is_nan(y).where(y, copy_sign(x.number(math.pi / 2), y))
    return Pair(real, infinite.where(limit, imag))


def inverse_tangent(z: Pair) -> Pair:
    """`atan(z)`."""
    return inverse_hyperbolic_tangent(z.times_i()).over_i()


def product(z: Pair, w: Pair) -> Pair:
    """`z * w`."""
    return z * w


def quotient(z: Pair, w: Pair) -> Pair:
    """`z / w`."""
    return z / w


def squared(z: Pair) -> Pair:
    """`z * z`."""
    return z * z


def conjugate(z: Pair) -> Pair:
    """The number with the other imaginary part."""
    return Pair(z.real, -z.imag)

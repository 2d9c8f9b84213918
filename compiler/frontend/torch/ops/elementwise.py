"""ATen's functions of each element: arithmetic and functions of floats."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Final

from weft.compiler.frontend.torch.operands import (
    AtenFunction,
    AtenTable,
    Operand,
    computed,
    element_of,
    entry,
    promoted,
    rank_among_types,
    result_element,
    term,
)
from weft.dialects.errors import UnsupportedError
from weft.dialects.graph.core.algebra import Term
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.types import BOOL, FLOATS, UI8, UNSIGNED

Function = Callable[[Term], Term]


def _is_bool(*operands: Operand) -> bool:
    return result_element(*operands) == BOOL


def add(b: GraphBuilder, x: Operand, other: Operand, alpha: Operand = 1) -> Term:
    """`x + alpha * other`; of bools whether one holds."""
    if _is_bool(x, other):
        first, second = promoted(b, x, other)
        return first | second
    if alpha == 1:
        return computed(b, lambda p, q: p + q, x, other)
    return computed(b, lambda p, q: p + q * term(b, alpha, q.type.element), x, other)


def sub(b: GraphBuilder, x: Operand, other: Operand, alpha: Operand = 1) -> Term:
    """`x - alpha * other`."""
    if alpha == 1:
        return computed(b, lambda p, q: p - q, x, other)
    return computed(b, lambda p, q: p - q * term(b, alpha, q.type.element), x, other)


def mul(b: GraphBuilder, x: Operand, other: Operand) -> Term:
    """`x * other`; of bools whether both hold."""
    if _is_bool(x, other):
        first, second = promoted(b, x, other)
        return first & second
    return computed(b, lambda p, q: p * q, x, other)


def div(b: GraphBuilder, x: Operand, other: Operand, rounding_mode: str | None = None) -> Term:
    """`x / other`, as floats, or rounded towards zero or down in the operands' type."""
    if rounding_mode is None:
        return computed(b, lambda p, q: p / q, x, other, floats=True)
    if rounding_mode == "trunc":
        return computed(b, lambda p, q: trunc(p / q), x, other)
    return computed(b, _floor_divide, x, other)


def _floor_divide(x: Term, y: Term) -> Term:
    """The quotient rounded down, as Python does it: exact where `x` is a multiple."""
    quotient = x / y
    if x.type.element in UNSIGNED:
        return quotient
    if x.type.element not in FLOATS:
        rest = x - quotient * y
        uneven = _not_equal(rest, 0) & _differ(rest < 0, y < 0)
        return uneven.where(quotient - 1, quotient)
    rest = x.of(x.b.mod(x.value, y.value, fmod=True))
    whole = (x - rest) / y
    whole = (_not_equal(rest, 0) & _differ(rest < 0, y < 0)).where(whole - 1.0, whole)
    floor = whole.math("floor")
    nearest = (whole - floor > 0.5).where(floor + 1.0, floor)
    return y.equals(0).where(quotient, whole.equals(0).where(quotient * 0.0, nearest))


def _not_equal(x: Term, y: Term | float) -> Term:
    return x.equals(y).math("logical_not")


def _differ(x: Term, y: Term) -> Term:
    return x.of(x.b.logical_xor(x.value, y.value))


def fmod(b: GraphBuilder, x: Operand, other: Operand) -> Term:
    """The remainder with the sign of `x`."""
    return computed(b, lambda p, q: p.of(b.mod(p.value, q.value, fmod=True)), x, other)


def _remainder(x: Term, y: Term) -> Term:
    rest = x.of(x.b.mod(x.value, y.value, fmod=True))
    if x.type.element in UNSIGNED:
        return rest
    return (_not_equal(rest, 0) & _differ(rest < 0, y < 0)).where(rest + y, rest)


def remainder(b: GraphBuilder, x: Operand, other: Operand) -> Term:
    """The remainder with the sign of `other`."""
    return computed(b, _remainder, x, other)


def power(b: GraphBuilder, x: Operand, exponent: Operand) -> Term:
    """`x ** exponent`; small whole exponents by products."""
    if isinstance(x, Term) and exponent in (0.5, 2, 3, -0.5, -1) and x.type.element in FLOATS:
        return computed(b, partial(_plain_power, exponent=float(exponent)), x)  # pyright: ignore[reportArgumentType]
    return computed(b, lambda p, q: p.of(b.pow(p.value, q.value)), x, exponent)


def _plain_power(x: Term, exponent: float) -> Term:
    if exponent == 2:
        return x * x
    if exponent == 3:
        return x * x * x
    root = x.math("sqrt") if abs(exponent) == 0.5 else x
    return root if exponent > 0 else root.math("reciprocal")


def trunc(x: Term) -> Term:
    """The elements without what stands behind the point."""
    if x.type.element not in FLOATS:
        return x
    return (x < 0).where(x.math("ceil"), x.math("floor"))


def _rounded(name: str, b: GraphBuilder, x: Term) -> Term:
    return x.math(name) if x.type.element in FLOATS else x


def round_decimals(b: GraphBuilder, x: Term, decimals: int) -> Term:
    """Rounded to so many digits behind the point."""
    scale = 10.0 ** abs(decimals)
    if decimals < 0:
        return computed(b, lambda y: (y / scale).math("round") * scale, x)
    return computed(b, lambda y: (y * scale).math("round") / scale, x)


def absolute(b: GraphBuilder, x: Term) -> Term:
    """The distance from zero."""
    return x if x.type.element == BOOL else x.math("abs")


def sign(b: GraphBuilder, x: Term) -> Term:
    """-1, 0 or 1; 0 of NaN."""
    if x.type.element == BOOL:
        return x
    found = x.math("sign")
    return found if x.type.element not in FLOATS else x.math("is_nan").where(0.0, found)


def log_to(base: float) -> Function:
    """The logarithm to a base: exact at whole results."""

    def function(x: Term) -> Term:
        found = x.math("log") * (1 / math.log(base))
        whole = found.math("round")
        close = (found - whole).math("abs") <= whole.math("abs") * 1e-3
        exact = x.of(x.b.pow(x.number(base).value, whole.value)).equals(x)
        return (close & exact).where(whole, found)

    return function


def atan2(b: GraphBuilder, x: Operand, other: Operand) -> Term:
    """The angle of the point `(other, x)`."""
    return computed(b, _angle, x, other, floats=True)


def is_negative(x: Term) -> Term:
    """Whether the sign is set, that of -0.0 too."""
    return (x < 0) | (x.equals(0) & ((1.0 / x) < 0))


def with_sign(x: Term, like: Term) -> Term:
    """The magnitude of `x` with another's sign."""
    size = x.math("abs")
    return is_negative(like).where(-size, size)


def _angle(y: Term, x: Term) -> Term:
    nan = x.math("is_nan") | y.math("is_nan")
    endless = x.of(x.b.is_inf(x.value, positive=True, negative=True))
    both = endless & x.of(x.b.is_inf(y.value, positive=True, negative=True))
    p, q = both.where(with_sign(x.number(1), x), x), both.where(with_sign(x.number(1), y), y)
    steep = q.math("abs") > p.math("abs")
    low, high = steep.where(p, q), steep.where(q, p)
    angle = (low / high.equals(0).where(1.0, high)).math("atan")
    half, quarter = (with_sign(x.number(each), y) for each in (math.pi, math.pi / 2))
    flat = is_negative(x).where(angle + half, angle)
    return nan.where(x + y, steep.where(quarter - angle, flat))


def _unary(name: str, b: GraphBuilder, x: Term) -> Term:
    return computed(b, lambda y: y.math(name), x, floats=True)


def _steps(function: Function, b: GraphBuilder, x: Term) -> Term:
    return computed(b, function, x, floats=True)


def extremum(name: str, b: GraphBuilder, x: Operand, other: Operand) -> Term:
    """The greater or lesser element; NaN where there is one."""
    first, second = promoted(b, x, other)
    if first.type.element == BOOL:
        return first | second if name == "max" else first & second
    return first.of(b.op(name, first.value, second.value).results[0])


def _ignoring_nan(name: str, b: GraphBuilder, x: Operand, other: Operand) -> Term:
    first, second = promoted(b, x, other)
    found = extremum(name, b, first, second)
    if first.type.element not in FLOATS:
        return found
    return first.math("is_nan").where(second, second.math("is_nan").where(first, found))


def clamp(b: GraphBuilder, x: Term, min: Operand | None = None, max: Operand | None = None) -> Term:
    """The elements brought between bounds, the upper one last."""
    bounds = [bound for bound in (min, max) if bound is not None]
    element = result_element(x, *bounds)
    found = term(b, x, element)
    if min is not None:
        found = found.maximum(term(b, min, element))
    return found if max is None else found.minimum(term(b, max, element))


def lerp(b: GraphBuilder, x: Term, end: Term, weight: Operand) -> Term:
    """`x + weight * (end - x)`, from the nearer end."""

    def between(p: Term, q: Term, k: Term) -> Term:
        near = k.math("abs") < 0.5
        return near.where(p + k * (q - p), q - (q - p) * (1.0 - k))

    return computed(b, between, x, end, weight)


def addcmul(b: GraphBuilder, x: Term, tensor1: Term, tensor2: Term, value: Operand = 1) -> Term:
    """`x + value * tensor1 * tensor2`."""
    return computed(
        b, lambda p, q, r: p + term(b, value, p.type.element) * q * r, x, tensor1, tensor2
    )


def addcdiv(b: GraphBuilder, x: Term, tensor1: Term, tensor2: Term, value: Operand = 1) -> Term:
    """`x + value * tensor1 / tensor2`."""
    return computed(
        b, lambda p, q, r: p + term(b, value, p.type.element) * q / r, x, tensor1, tensor2
    )


def reciprocal(b: GraphBuilder, x: Term) -> Term:
    """`1 / x`."""
    return _unary("reciprocal", b, x)


def reverse_sub(b: GraphBuilder, x: Operand, other: Operand, alpha: Operand = 1) -> Term:
    """`other - alpha * x`."""
    return sub(b, other, x, alpha)


def negative(b: GraphBuilder, x: Term) -> Term:
    """`-x`."""
    return -x


def to_numbers(x: Term) -> Term:
    """Bools as integers of a byte, which have an order."""
    return x.cast(UI8) if x.type.element == BOOL else x


_MATH: Final = (
    "exp", "log", "sqrt", "erf", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh",
    "tanh", "asinh", "acosh", "atanh", "sigmoid", "expm1", "log1p",
)  # fmt: skip
_STEPS: Final[dict[str, Function]] = {
    "rsqrt": lambda x: x.math("sqrt").math("reciprocal"),
    "exp2": lambda x: x.of(x.b.pow(x.number(2).value, x.value)),
    "log2": log_to(2.0),
    "log10": log_to(10.0),
    "sinc": lambda x: x.equals(0).where(1.0, (x * math.pi).math("sin") / (x * math.pi)),
    "logit": lambda x: (x / (1.0 - x)).math("log"),
}


def logit(b: GraphBuilder, x: Term, eps: float | None = None) -> Term:
    """`log(x / (1 - x))`, of elements brought to `[eps, 1 - eps]`."""

    def of(y: Term) -> Term:
        y = y if eps is None else y.maximum(eps).minimum(1 - eps)
        return (y / (1.0 - y)).math("log")

    return computed(b, of, x, floats=True)


def _table() -> dict[str, AtenFunction]:
    found: dict[str, AtenFunction] = {
        f"aten.{name}.default": partial(_unary, name) for name in _MATH
    }
    found |= {
        f"aten.{name}.default": partial(_steps, step)
        for name, step in _STEPS.items()
        if name != "logit"
    }
    for name in ("floor", "ceil", "round"):
        found[f"aten.{name}.default"] = partial(_rounded, name)
    found |= entry(lambda b, x: trunc(x), "trunc.default", "fix.default")
    return found


def require_numbers(x: Term, who: str) -> None:
    """Refuses bools, of which an operator is not defined."""
    if rank_among_types(element_of(x)) == 0:
        raise UnsupportedError(f"{who} requires numbers, got bools")


TABLE: Final[AtenTable] = _table() | {
    **entry(add, "add.Tensor", "add.Scalar"),
    **entry(sub, "sub.Tensor", "sub.Scalar"),
    **entry(reverse_sub, "rsub.Tensor", "rsub.Scalar"),
    **entry(mul, "mul.Tensor", "mul.Scalar"),
    **entry(
        div, "div.Tensor", "div.Scalar", "div.Tensor_mode", "div.Scalar_mode", "true_divide.Tensor"
    ),
    **entry(partial(div, rounding_mode="floor"), "floor_divide.default", "floor_divide.Scalar"),
    **entry(fmod, "fmod.Tensor", "fmod.Scalar"),
    **entry(remainder, "remainder.Tensor", "remainder.Scalar", "remainder.Scalar_Tensor"),
    **entry(power, "pow.Tensor_Tensor", "pow.Tensor_Scalar", "pow.Scalar"),
    **entry(atan2, "atan2.default"),
    **entry(round_decimals, "round.decimals"),
    **entry(absolute, "abs.default"),
    **entry(sign, "sign.default", "sgn.default"),
    **entry(negative, "neg.default", "_neg_view.default"),
    **entry(reciprocal, "reciprocal.default"),
    **entry(logit, "logit.default"),
    **entry(partial(extremum, "max"), "maximum.default"),
    **entry(partial(extremum, "min"), "minimum.default"),
    **entry(partial(_ignoring_nan, "max"), "fmax.default"),
    **entry(partial(_ignoring_nan, "min"), "fmin.default"),
    **entry(clamp, "clamp.default", "clamp.Tensor"),
    **entry(lambda b, x, min: clamp(b, x, min), "clamp_min.default", "clamp_min.Tensor"),
    **entry(lambda b, x, max: clamp(b, x, None, max), "clamp_max.default", "clamp_max.Tensor"),
    **entry(lerp, "lerp.Tensor", "lerp.Scalar"),
    **entry(addcmul, "addcmul.default"),
    **entry(addcdiv, "addcdiv.default"),
    "prims.fma.default": lambda b, x, y, z: add(b, mul(b, x, y), z),
    **entry(
        lambda b, x, other: computed(b, with_sign, x, other, floats=True),
        "copysign.Tensor", "copysign.Scalar",
    ),
}  # fmt: skip

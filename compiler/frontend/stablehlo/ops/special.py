"""CHLO's functions of floats. Those of f32 that are made of several are computed in f64, and of
halves in f32, and rounded once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

from xdsl.dialects.builtin import FloatAttr, IntegerAttr

from weft.compiler.frontend.stablehlo.node import HloImporter, Node
from weft.compiler.frontend.stablehlo.ops.bits import upper_product
from weft.compiler.frontend.stablehlo.ops.elementwise import (
    ELEMENTWISE,
    bits,
    compared,
    exact,
    from_bits,
    is_nan,
    named,
    of_terms,
)
from weft.compiler.frontend.stablehlo.ops.movement import broadcast, constant
from weft.compiler.frontend.stablehlo.ops.series import (
    digamma,
    lgamma,
    modified_bessel,
    polygamma,
    zeta,
)
from weft.dialects.errors import UnsupportedError
from weft.dialects.graph.core.algebra import Term
from weft.dialects.graph.core.types import F64, FLOATS
from weft.dialects.loop.scalar import width


def polynomial(x: Term, coefficients: Sequence[float]) -> Term:
    """Horner's rule, the highest power first."""
    total = x * 0.0 + coefficients[0]
    for coefficient in coefficients[1:]:
        total = total * x + coefficient
    return total


_ERFC_P = (
    2.46196981473530512524e-10, 5.64189564831068821977e-1, 7.46321056442269912687,
    4.86371970985681366614e1, 1.96520832956077098242e2, 5.26445194995477358631e2,
    9.34528527171957607540e2, 1.02755188689515710272e3, 5.57535335369399327526e2,
)  # fmt: skip
_ERFC_Q = (
    1.0, 1.32281951154744992508e1, 8.67072140885989742329e1, 3.54937778887819891062e2,
    9.75708501743205489753e2, 1.82390916687909736289e3, 2.24633760818710981792e3,
    1.65666309194161350182e3, 5.57535340817727675546e2,
)  # fmt: skip
_ERFC_R = (
    5.64189583547755073984e-1, 1.27536670759978104416, 5.01905042251180477414,
    6.16021097993053585195, 7.40974269950448939160, 2.97886665372100240670,
)  # fmt: skip
_ERFC_S = (
    1.0, 2.26052863220117276590, 9.39603524938001434673, 1.20489539808096656605e1,
    1.70814450747565897222e1, 9.60896809063285878198, 3.36907645100081516050,
)  # fmt: skip


def erfc(x: Term) -> Term:
    """`1 - erf(x)`, of large x by `exp(-x * x)` times a quotient of polynomials (Cephes)."""
    size = x.math("abs")
    far = size.maximum(1.0).minimum(30.0)
    # `exp(-x * x)` with the square in two parts, so that its rounding is not multiplied by x
    head = from_bits(_without_low_bits(far), F64)
    power = (-(head * head)).math("exp") * (-((far - head) * (far + head))).math("exp")
    middle = polynomial(far, _ERFC_P) / polynomial(far, _ERFC_Q)
    outer = polynomial(far, _ERFC_R) / polynomial(far, _ERFC_S)
    tail = power * (far < 8.0).where(middle, outer)
    tail = (x < 0).where(2.0 - tail, tail)
    return is_nan(x).where(x, (size < 1.0).where(1.0 - x.math("erf"), tail))


def _without_low_bits(x: Term) -> Term:
    number = bits(x, signed=False)
    mask = number.number(((1 << 64) - 1) ^ ((1 << 32) - 1))
    return number.of(number.b.bitwise_and(number.value, mask.value))


_CENTRE = (
    2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087,
    -0.00125372503, -0.00417768164, 0.246640727, 1.50140941,
)  # fmt: skip
_TAIL = (
    -0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773, -0.0076224613,
    0.00943887047, 1.00167406, 2.83297682,
)  # fmt: skip


def erf_inv(x: Term) -> Term:
    """The inverse of `erf`: Giles' approximation and three steps of Newton's method on `erfc`."""
    size = x.math("abs")
    inside = (size < 1.0).where(size, 0.0)
    w = -(-(inside * inside)).math("log1p")
    centre = polynomial(w - 2.5, _CENTRE)
    tail = polynomial(w.maximum(5.0).math("sqrt") - 3.0, _TAIL)
    y = (w < 5.0).where(centre, tail) * inside
    for _ in range(3):
        near = y.math("erf") - inside
        far = (1.0 - inside) - erfc(y)
        error = (inside < 0.5).where(near, far)
        y = y - error * (math.sqrt(math.pi) / 2) * (y * y).math("exp")
    y = inside.equals(0).where(x, (x < 0).where(-y, y))
    y = size.equals(1.0).where(x * math.inf, y)
    return (size > 1.0).where(x * math.nan, is_nan(x).where(x, y))


def next_after(x: Term, y: Term) -> Term:
    """The number beside `x` towards `y`."""
    element = x.type.element
    number, target = bits(x, signed=True), bits(y, signed=True)
    lowest = number.number(-(1 << (width(element) - 1)))
    sign_of_y = target.of(target.b.bitwise_and(target.value, lowest.value))
    least = target.of(target.b.bitwise_or(sign_of_y.value, target.number(1).value))
    shrinks = (x.math("abs") > y.math("abs")) | _differ(number, target)
    moved = number + shrinks.where(number.number(-1).expand(number.shape), number.number(1))
    found = x.equals(0).where(least, moved)
    found = x.equals(y).where(target, found)
    nan = is_nan(x) | is_nan(y)
    return nan.where(x + y, from_bits(found, element))


def _differ(one: Term, other: Term) -> Term:
    """Whether the signs of two integers differ."""
    return one.of(one.b.bitwise_xor(one.value, other.value)) < 0


def is_infinite(*, negative: bool, positive: bool) -> HloImporter:
    """Whether each element is an infinity of a sign that counts."""

    def build(node: Node) -> Sequence[Term]:
        x = node.only
        return [x.of(node.b.is_inf(x.value, negative=negative, positive=positive))]

    return build


def in_f64(function: Callable[..., Term]) -> HloImporter:
    """A formula that is computed in f64."""

    def build(node: Node) -> Sequence[Term]:
        element = node.operands[0].type.element
        if element not in FLOATS:
            raise UnsupportedError(f"requires floats, got {element}")
        return [exact(function)(*node.operands)]

    return build


def broadcasting(function: HloImporter) -> HloImporter:
    """An operator whose operands are broadcast, by their trailing dims or by those listed."""

    def build(node: Node) -> Sequence[Term]:
        rank = max(len(each.shape) for each in node.operands)
        listed = node.integers("broadcast_dimensions", [])
        operands: list[Term] = []
        for each in node.operands:
            if listed and len(each.shape) < rank:
                sizes = [1] * rank
                shape = [dim.constant or 0 for dim in each.shape]
                for dim, size in zip(listed, shape, strict=True):
                    sizes[dim] = size
                each = broadcast(each, listed, sizes)
            operands.append(each)
        node.operands = operands
        return function(node)

    return build


def squared(x: Term) -> Term:
    """`x * x`."""
    return x * x


def constant_like(node: Node) -> Sequence[Term]:
    """A tensor of one value."""
    value = node.written.get("value")
    if not isinstance(value, (FloatAttr, IntegerAttr)):
        raise UnsupportedError(f"requires a number, got {value}")
    return [node.number(value.value.data, node.result.element).expand(node.only.shape)]


def broadcast_compare(node: Node) -> Sequence[Term]:
    """A comparison of operands that are broadcast."""
    x, y = node.operands
    return [compared(node.word("comparison_direction"), x, y)]


_BROADCAST = (
    "add", "and", "atan2", "divide", "maximum", "minimum", "multiply", "or", "power", "remainder",
    "select", "shift_left", "shift_right_arithmetic", "shift_right_logical", "subtract", "xor",
)  # fmt: skip

NAMED = ("acos", "acosh", "asin", "asinh", "atan", "atanh", "cosh", "erf", "sinh", "tan")
"""Functions that are operators of the graph."""

FUNCTIONS = {
    **{name: named(name) for name in NAMED},
    "bessel_i1e": in_f64(partial(modified_bessel, 1, True)),
    "digamma": in_f64(digamma),
    "erf_inv": in_f64(erf_inv),
    "erfc": in_f64(erfc),
    "is_inf": is_infinite(negative=True, positive=True),
    "is_neg_inf": is_infinite(negative=True, positive=False),
    "is_pos_inf": is_infinite(negative=False, positive=True),
    "lgamma": in_f64(lgamma),
    "mulhi": of_terms(upper_product),
    "next_after": of_terms(next_after),
    "polygamma": in_f64(polygamma),
    "square": of_terms(squared),
    "zeta": in_f64(zeta),
}
"""By the name in CHLO: functions of each element."""

SPECIAL = {
    **FUNCTIONS,
    **{f"broadcast_{name}": broadcasting(ELEMENTWISE[name]) for name in _BROADCAST},
    "broadcast_compare": broadcasting(broadcast_compare),
    **{
        f"broadcast_{name}": broadcasting(FUNCTIONS[name])
        for name in ("next_after", "polygamma", "zeta")
    },
    "constant": constant,
    "constant_like": constant_like,
}
"""By the name in CHLO."""

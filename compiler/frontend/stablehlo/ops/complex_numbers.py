"""Complex numbers as two tensors of reals: operators that treat both alike, and functions.

Functions of complex64 are computed in f64 and rounded once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from weft.compiler.frontend.fourier import Transform
from weft.compiler.frontend.stablehlo.node import HloImporter, Node
from weft.compiler.frontend.stablehlo.ops.bits import recast
from weft.compiler.frontend.stablehlo.ops.complex_functions import (
    Pair,
    angle,
    conjugate,
    cosine,
    cube_root,
    exponential,
    exponential_minus_one,
    hyperbolic_cosine,
    hyperbolic_sine,
    hyperbolic_tangent,
    inverse_cosine,
    inverse_hyperbolic_cosine,
    inverse_hyperbolic_sine,
    inverse_hyperbolic_tangent,
    inverse_sine,
    inverse_tangent,
    log_plus_one,
    logarithm,
    logistic,
    magnitude,
    power,
    product,
    quotient,
    reciprocal_root,
    sign,
    sine,
    square_root,
    squared,
    tangent,
)
from weft.compiler.frontend.stablehlo.ops.complex_linalg import (
    complex_cholesky,
    complex_triangular_solve,
)
from weft.compiler.frontend.stablehlo.ops.elementwise import is_finite
from weft.compiler.frontend.stablehlo.ops.movement import constant, iota
from weft.compiler.frontend.stablehlo.types import Declared, declared, is_complex
from weft.dialects.expr import Expr
from weft.dialects.graph.core.algebra import Term, joined
from weft.dialects.graph.core.types import F64

IN_F64 = 32
"""Transforms of f32 up to this length are computed in f64."""


def _pairs(node: Node) -> list[Pair]:
    """The complex operands."""
    halves = iter(node.operands)
    return [Pair(first, next(halves)) for first in halves]


def of_pairs(function: Callable[..., Pair], *, exact: bool = True) -> HloImporter:
    """A function of complex operands: of complex64 in f64 where it is to be `exact`."""

    def build(node: Node) -> Sequence[Term]:
        element = node.operands[0].type.element
        work = F64 if exact else element
        pairs = [Pair(each.real.cast(work), each.imag.cast(work)) for each in _pairs(node)]
        found = function(*pairs)
        return [found.real.cast(element), found.imag.cast(element)]

    return build


def _abs(node: Node) -> Sequence[Term]:
    (z,) = _pairs(node)
    return [magnitude(z)]


def _compare(node: Node) -> Sequence[Term]:
    one, other = _pairs(node)
    direction = node.word("comparison_direction")
    same = one.real.equals(other.real) & one.imag.equals(other.imag)
    if direction in ("EQ", "NE"):
        return [same if direction == "EQ" else same.math("logical_not")]
    found = _less(one, other) if direction[0] == "L" else _less(other, one)
    return [found | same if direction[1] == "E" else found]


def _less(one: Pair, other: Pair) -> Term:
    """By the real parts, then by the imaginary ones."""
    second = one.real.equals(other.real) & (one.imag < other.imag)
    return (one.real < other.real) | second


def _extremum(node: Node) -> Sequence[Term]:
    one, other = _pairs(node)
    greatest = node.op.name == "stablehlo.maximum"
    chosen = _less(other, one) if greatest else _less(one, other)
    return [chosen.where(one.real, other.real), chosen.where(one.imag, other.imag)]


def _iota(node: Node) -> Sequence[Term]:
    (real,) = iota(RealNode(node.scope, node.op, node.b, []))
    return [real, real.number(0).expand(real.shape)]


def _bitcast(node: Node) -> Sequence[Term]:
    """Parts are a last dim of the reals that complex numbers are bits of."""
    real, imag = node.operands
    rank = len(real.shape)
    pairs = recast(joined([real.insert(rank), imag.insert(rank)], rank), node.result.element)
    axis = len(pairs.shape) - 1
    return [pairs.part(axis, part, 1).reshape(pairs.shape[:-1]) for part in (0, 1)]


def _convert(node: Node) -> Sequence[Term]:
    element = node.result.element
    if not is_complex(node.op.results[0].type):
        return [node.operands[0].cast(element)]
    if not is_complex(node.op.operands[0].type):
        real = node.operands[0].cast(element)
        return [real, real.number(0).expand(real.shape)]
    return [each.cast(element) for each in node.operands]


def _imag(node: Node) -> Sequence[Term]:
    """The imaginary part, which of reals is zero."""
    real, *imag = node.operands
    return imag or [real.number(0).expand(real.shape)]


def _is_finite(node: Node) -> Sequence[Term]:
    (z,) = _pairs(node)
    return [is_finite(z.real) & is_finite(z.imag)]


def _select(node: Node) -> Sequence[Term]:
    condition, a, b, c, d = node.operands
    return [condition.where(a, c), condition.where(b, d)]


def product_of_pairs(importer: HloImporter) -> HloImporter:
    """A product, of which real ones are made: four where both operands are complex."""

    def build(node: Node) -> Sequence[Term]:
        a, b, c, d = node.operands

        def times(x: Term, y: Term) -> Term:
            return importer(RealNode(node.scope, node.op, node.b, [x, y]))[0]

        return [times(a, c) - times(b, d), times(a, d) + times(b, c)]

    return build


def fft(node: Node) -> Sequence[Term]:
    """A Fourier transform along the last dims: short ones in f64, rounded once."""
    kind, lengths = node.word("fft_type"), node.integers("fft_length")
    element, rank = node.operands[0].type.element, len(node.operands[0].shape)
    sign = 1 if kind in ("IFFT", "IRFFT") else -1
    work = F64 if max(lengths, default=0) <= IN_F64 else element
    transform = Transform(lambda array: node.stored(array, "roots"), work, sign)
    parts = [each.cast(work) for each in node.operands]
    axes = list(zip(range(rank - len(lengths), rank), lengths, strict=True))
    for axis, length in axes if kind == "IRFFT" else reversed(axes):
        is_last = axis == rank - 1
        if kind == "IRFFT" and is_last:
            parts = [transform.real_inverse(parts, Expr.of(length))]
        else:
            kept = length // 2 + 1 if kind == "RFFT" and is_last else length
            found = transform(parts, Expr.of(kept), axis)
            parts = [each / length for each in found] if sign > 0 else list(found)
    return [each.cast(element) for each in parts]


_FUNCTIONS: dict[str, Callable[..., Pair]] = {
    "atan2": angle,
    "cbrt": cube_root,
    "cosine": cosine,
    "divide": quotient,
    "exponential": exponential,
    "exponential_minus_one": exponential_minus_one,
    "log": logarithm,
    "log_plus_one": log_plus_one,
    "logistic": logistic,
    "multiply": product,
    "power": power,
    "rsqrt": reciprocal_root,
    "sign": sign,
    "sine": sine,
    "sqrt": square_root,
    "tan": tangent,
    "tanh": hyperbolic_tangent,
}
_CHLO_FUNCTIONS: dict[str, Callable[..., Pair]] = {
    "acos": inverse_cosine,
    "acosh": inverse_hyperbolic_cosine,
    "asin": inverse_sine,
    "asinh": inverse_hyperbolic_sine,
    "atan": inverse_tangent,
    "atanh": inverse_hyperbolic_tangent,
    "conj": conjugate,
    "cosh": hyperbolic_cosine,
    "sinh": hyperbolic_sine,
    "square": squared,
    "tan": tangent,
}

COMPLEX: dict[str, HloImporter] = {
    **{f"stablehlo.{name}": of_pairs(function) for name, function in _FUNCTIONS.items()},
    **{f"chlo.{name}": of_pairs(function) for name, function in _CHLO_FUNCTIONS.items()},
    "stablehlo.abs": _abs,
    "stablehlo.bitcast_convert": _bitcast,
    "stablehlo.cholesky": complex_cholesky,
    "stablehlo.compare": _compare,
    "stablehlo.complex": lambda node: node.operands,
    "stablehlo.constant": constant,
    "stablehlo.convert": _convert,
    "stablehlo.fft": fft,
    "stablehlo.imag": _imag,
    "stablehlo.iota": _iota,
    "stablehlo.is_finite": _is_finite,
    "stablehlo.maximum": _extremum,
    "stablehlo.minimum": _extremum,
    "stablehlo.real": lambda node: [node.operands[0]],
    "stablehlo.select": _select,
    "stablehlo.triangular_solve": complex_triangular_solve,
}
"""Operators of complex numbers by their names."""

LINEAR = frozenset(
    f"stablehlo.{name}"
    for name in [
        "add",
        "broadcast",
        "broadcast_in_dim",
        "concatenate",
        "dynamic_broadcast_in_dim",
        "dynamic_reshape",
        "dynamic_slice",
        "dynamic_update_slice",
        "gather",
        "negate",
        "pad",
        "reshape",
        "reverse",
        "slice",
        "subtract",
        "transpose",
    ]
)
"""Operators that treat both parts alike."""

WHOLE = frozenset(
    f"stablehlo.{name}"
    for name in [
        "case",
        "composite",
        "custom_call",
        "get_tuple_element",
        "if",
        "map",
        "optimization_barrier",
        "sort",
        "tuple",
        "while",
    ]
)
"""Operators that take the parts one after the other, as so many operands."""


def by_parts(importer: HloImporter) -> HloImporter:
    """The operator on the real parts, then on the imaginary ones; reals are operands of both."""

    def build(node: Node) -> Sequence[Term]:
        found: list[Term] = []
        for part in (0, 1):
            remaining = iter(node.operands)
            operands: list[Term] = []
            for operand in node.op.operands:
                taken = [next(remaining) for _ in range(2 if is_complex(operand.type) else 1)]
                operands.append(taken[part % len(taken)])
            found += importer(RealNode(node.scope, node.op, node.b, operands, node.elementwise))
        count = len(found) // 2
        return [found[at + half * count] for at in range(count) for half in (0, 1)]

    return build


class RealNode(Node):
    """A node on one of the two parts of its complex operands."""

    @property
    def results(self) -> list[Declared]:
        """The types of one part of each result."""
        return [declared(result.type) for result in self.op.results]

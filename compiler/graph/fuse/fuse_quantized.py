"""graph -> graph: a product or convolution of dequantised bytes becomes one of the bytes.

    matmul((a - za) * sa, (w - zw) * sw)   ->   f32(integer_matmul(a, w) - ...) * (sa * sw)
    round(x / s)                           ->   round(x * (1 / s)), if x was computed of integers
    quantise(reshape(dequantise(q)))       ->   reshape(q), with the same parameters

Sums are exact then, where floats would round each. Runs before constants are folded, since weights
of bytes would become floats there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint

from weft.compiler.graph.fuse.dequantised import (
    Dequantised,
    dequantised,
    known_elements,
    requantised,
)
from weft.compiler.graph.match import erase_unused
from weft.dialects.context import weights_of
from weft.dialects.expr import product
from weft.dialects.graph import OPS_BY_NAME, GraphOp
from weft.dialects.graph.core.algebra import Term
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.elementwise import ElementwiseOp
from weft.dialects.graph.core.types import F32, I8, INTEGERS, type_of
from weft.dialects.graph.ops.arithmetic import DivOp, RoundOp
from weft.dialects.graph.ops.cast import CastOp
from weft.dialects.graph.ops.conv import ConvOp
from weft.dialects.graph.ops.matmul import GemmOp, MatmulOp
from weft.dialects.graph.quantized.exact_products import (
    WORD,
    Centred,
    exact_conv,
    exact_matmul,
)
from weft.dialects.weights import WeightStore

MOST_TERMS = (1 << 31) // (255 * 255)
"""Products of distances of bytes whose sum i32 holds, whatever they are."""


DEEPEST = 8
"""Elementwise operators between a product of bytes and the quantisation of its result."""


class FuseQuantizedPass(ModulePass):
    """Rewrites every such product. Leaves those whose scales or zero points differ along what is
    summed, sums of so many terms, or of a number that only the call knows, that i32 may not hold
    them, and convolutions in groups of few channels, which have no words of bytes.
    """

    name = "weft-fuse-quantized"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        weights = weights_of(ctx)
        for cast in [each for each in op.walk() if isinstance(each, CastOp)]:
            same = requantised(cast, weights)
            if same is not None:
                _replace(cast, same)
        for found in [each for each in op.walk() if isinstance(each, (MatmulOp, GemmOp, ConvOp))]:
            operands = [dequantised(value) for value in found.operands[:2]]
            if None in operands or not 0 < _terms(found) <= MOST_TERMS:
                continue
            b = GraphBuilder(InsertPoint.before(found), OPS_BY_NAME, found.location)
            factors = [each for each in operands if each is not None]
            if isinstance(found, ConvOp):
                result = _conv(b, found, factors, weights)
            elif isinstance(found, GemmOp):
                result = _gemm(b, found, factors, weights)
            else:
                result = _matmul(b, factors[0], factors[1], (False, False), weights)
            if result is not None:
                _replace(found, result.value)
        for found in [each for each in op.walk() if isinstance(each, RoundOp)]:
            _multiply_instead(found)


def _multiply_instead(rounding: RoundOp) -> None:
    """Steps of a result are counted by a product with the reciprocal of their size, where what is
    counted was computed of integers with scales, and rounded therefore: a division of a vector
    takes some 16 cycles.
    """
    quotient = rounding.operand.owner
    if not isinstance(quotient, DivOp) or not _is_of_integers(quotient.lhs):
        return
    b = GraphBuilder(InsertPoint.before(quotient), OPS_BY_NAME, quotient.location)
    steps, one = Term(b, quotient.rhs), b.constant_of(1.0, type_of(quotient.rhs).element)
    _replace(quotient, (Term(b, quotient.lhs) * (steps.of(one) / steps)).value)


def _is_of_integers(value: SSAValue, deepest: int = DEEPEST) -> bool:
    """Whether a number is computed, element by element, of integers among others."""
    op = value.owner
    if isinstance(op, CastOp):
        return type_of(op.operand).element in INTEGERS
    if not isinstance(op, ElementwiseOp) or not deepest:
        return False
    return any(_is_of_integers(each, deepest - 1) for each in op.operands)


def _terms(op: MatmulOp | GemmOp | ConvOp) -> int:
    """How many products each sum of a product of f32 has; 0 where that is not known."""
    if type_of(op.results[0]).element != F32 or not type_of(op.operands[1]).has_rank:
        return 0
    if isinstance(op, ConvOp):
        return product(type_of(op.filter).shape[1:]).constant or 0
    shape = type_of(op.operands[0]).shape
    last = 0 if isinstance(op, GemmOp) and op.transposes[0] else len(shape) - 1
    return shape[last].constant or 0


def _along(b: GraphBuilder, value: SSAValue, rank: int, axis: int | None) -> Term | None:
    """A parameter of a tensor of that rank that differs along one axis at most, as a vector or a
    scalar; None for others.
    """
    shape = type_of(value).shape
    dims = {n + rank - len(shape): dim for n, dim in enumerate(shape) if dim != 1}
    if not dims.keys() <= {axis}:
        return None
    return Term(b, value).reshape(tuple(dims.values()))


class _Factor(NamedTuple):
    """The bytes of a factor, its zero point and its scale along the axis that is not summed."""

    values: Term
    zero: Term | None
    scale: Term


def _factor(
    b: GraphBuilder, given: Dequantised, axis: int | None, weights: WeightStore
) -> _Factor | None:
    """A factor whose parameters differ along an axis at most; zero points that all are zero are
    none, and add no sums.
    """
    rank = type_of(given.values).rank
    levels = None if given.zero is None else known_elements(given.zero, weights)
    if levels is not None and not levels.any():
        given = given._replace(zero=None)
    scale = _along(b, given.scale, rank, axis)
    zero = None if given.zero is None else _along(b, given.zero, rank, axis)
    if scale is None or (zero is None and given.zero is not None):
        return None
    return _Factor(Term(b, given.values), zero, scale)


def _matmul(
    b: GraphBuilder,
    lhs: Dequantised,
    rhs: Dequantised,
    transposes: tuple[bool, bool],
    weights: WeightStore,
) -> Term | None:
    """The product, of operands that are transposes where it says so."""
    rank = type_of(rhs.values).rank
    columns = None if rank < 2 else rank - 2 if transposes[1] else rank - 1
    x, w = _factor(b, lhs, None, weights), _factor(b, rhs, columns, weights)
    if x is None or w is None:
        return None
    left, right = (
        each.values.transpose([1, 0]) if turn else each.values
        for each, turn in zip((x, w), transposes, strict=True)
    )
    sums = exact_matmul(Centred(left, x.zero), Centred(right, w.zero))
    return sums.cast(F32) * (x.scale * w.scale)


def _gemm(
    b: GraphBuilder, op: GemmOp, factors: Sequence[Dequantised], weights: WeightStore
) -> Term | None:
    result = _matmul(b, factors[0], factors[1], op.transposes, weights)
    if result is None:
        return None
    alpha, beta = op.scales
    result = result if alpha == 1.0 else result * alpha
    if op.c is None:
        return result
    addend = Term(b, op.c)
    return result + (addend if beta == 1.0 else addend * beta)


def _conv(
    b: GraphBuilder, op: ConvOp, factors: Sequence[Dequantised], weights: WeightStore
) -> Term | None:
    x, w = _factor(b, factors[0], None, weights), _factor(b, factors[1], 0, weights)
    if x is None or w is None:
        return None
    centred = w.values.type.element == I8 and w.zero is None
    if op.groups > 1 and not (centred and type_of(op.filter).shape[1] % WORD == 0):
        return None
    spatial = [1] * (type_of(op.image).rank - 2)
    outside = None if x.zero is None else known_elements(x.zero.value, weights)
    sums = exact_conv(
        Centred(x.values, x.zero),
        Centred(w.values, None if w.zero is None else _in_channels(w.zero, spatial)),
        None,
        0 if x.zero is None else None if outside is None else int(outside),
        {name: getattr(op, name) for name in ("group", "strides", "dilations", "pads")},
    )
    result = sums.cast(F32) * _in_channels(x.scale * w.scale, spatial)
    return result if op.bias is None else result + _in_channels(Term(b, op.bias), spatial)


def _in_channels(parameter: Term, spatial: Sequence[int]) -> Term:
    """A parameter of each channel, or of all, so that it broadcasts against images."""
    return parameter.reshape((*parameter.shape, *spatial)) if parameter.shape else parameter


def _replace(op: GraphOp, value: SSAValue) -> None:
    value.name_hint = op.results[0].name_hint
    op.results[0].replace_all_uses_with(value)
    erase_unused(op)

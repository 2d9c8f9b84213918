"""graph -> graph: a product with constant weights that are dequantised in blocks along its sum
reads their codes, as ONNX's DequantizeLinear with a block size stands before MatMul and Gemm.

    matmul(x, (f32(w) - f32(spread(z))) * spread(s))   ->   block_quantized_matmul(x, w', s', z')

Runs before constants are folded, since weights of a few bits would become floats there.
"""

from __future__ import annotations

from typing import NamedTuple

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint

from weft.compiler.graph.match import erase_unused
from weft.dialects.graph import OPS_BY_NAME, ConstantOp, ExpandOp, ReshapeOp, TransposeOp
from weft.dialects.graph.core.algebra import Term
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.types import F32, I4, I8, UI4, UI8, type_of
from weft.dialects.graph.ops.arithmetic import MulOp, SubOp
from weft.dialects.graph.ops.cast import CastOp
from weft.dialects.graph.ops.matmul import GemmOp, MatmulOp
from weft.dialects.graph.quantized.block_weights import BlockRows, fills_words, packed_bytes
from weft.dialects.graph.quantized.gguf_blocks import DequantizeGgufOp
from weft.dialects.graph.quantized.gguf_rows import rows_of

BITS: dict[Attribute, int] = {I4: 4, UI4: 4, I8: 8, UI8: 8}


class FuseBlockQuantizedPass(ModulePass):
    """Rewrites every such product. Leaves blocks along another axis, the last of which has less
    codes, or that fill no words, transposed rows, and weights that only a call gives.
    """

    name = "weft-fuse-block-quantized"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for found in [each for each in op.walk() if isinstance(each, (MatmulOp, GemmOp))]:
            transposes = found.transposes if isinstance(found, GemmOp) else (False, False)
            axis = 1 if transposes[1] else 0
            if transposes[0] or not _has_terms(found):
                continue
            b = GraphBuilder(InsertPoint.before(found), OPS_BY_NAME, found.location)
            rows = rows_of_blocks(b, found.operands[1], axis)
            if rows is None:
                continue
            result = rows.product(Term(b, found.operands[0]))
            if isinstance(found, GemmOp):
                result = _scaled(result, found)
            result.value.name_hint = found.result.name_hint
            found.result.replace_all_uses_with(result.value)
            erase_unused(found)


def _has_terms(found: MatmulOp | GemmOp) -> bool:
    """Whether a product is of floats, and of a constant number of terms."""
    x = type_of(found.operands[0])
    return type_of(found.result).element == F32 and x.has_rank and x.shape[-1].constant is not None


def rows_of_blocks(b: GraphBuilder, value: SSAValue, axis: int) -> BlockRows | None:
    """The codes that a matrix is dequantised from, its sums along an axis; None for others."""
    weights = block_weights(value, axis)
    if weights is not None:
        return _rows(b, weights, axis)
    stored = _stored_rows(value, axis)
    return None if stored is None else rows_of(Term(b, stored.operand), stored.format.data)


def _stored_rows(value: SSAValue, axis: int) -> DequantizeGgufOp | None:
    """What makes floats of a constant matrix of GGUF blocks that are along an axis."""
    owner = value.owner
    if axis == 0:
        if not isinstance(owner, TransposeOp) or list(owner.axes) != [1, 0]:
            return None
        owner = owner.operand.owner
    if not isinstance(owner, DequantizeGgufOp) or type_of(owner.operand).rank != 2:
        return None
    return owner if isinstance(owner.operand.owner, ConstantOp) else None


def _scaled(result: Term, gemm: GemmOp) -> Term:
    alpha, beta = gemm.scales
    result = result if alpha == 1.0 else result * alpha
    if gemm.c is None:
        return result
    addend = result.of(gemm.c)
    return result + (addend if beta == 1.0 else addend * beta)


class BlockWeights(NamedTuple):
    """A constant matrix of integers, and the scales and zero points of its blocks."""

    values: SSAValue
    scales: SSAValue
    zeros: SSAValue | None
    block: int


def block_weights(value: SSAValue, axis: int) -> BlockWeights | None:
    """What a matrix of floats is dequantised from in blocks along an axis; None for others."""
    if not isinstance(value.owner, MulOp) or len(type_of(value).static_shape or ()) != 2:
        return None
    for number, spread in (value.owner.operands, value.owner.operands[::-1]):
        if not isinstance(number.owner, CastOp) or type_of(number).element != F32:
            continue
        found = _integers(number.owner.operand, axis)
        scales = _parameters(spread, axis)
        if found is None or scales is None or not isinstance(found[0].owner, ConstantOp):
            continue
        if _go_together(found[0], scales, found[1], axis):
            block = _size(found[0], axis) // _size(scales, axis)
            return BlockWeights(found[0], scales, found[1], block)
    return None


def _integers(value: SSAValue, axis: int) -> tuple[SSAValue, SSAValue | None] | None:
    """Codes, and the zero points of their blocks that are subtracted from them, if there are."""
    if not isinstance(value.owner, SubOp):
        return value, None
    codes, zeros = (_integers_of(side) for side in value.owner.operands)
    points = None if zeros is None else _parameters(zeros, axis)
    return None if codes is None or points is None else (codes, points)


def _go_together(values: SSAValue, scales: SSAValue, zeros: SSAValue | None, axis: int) -> bool:
    """Whether codes and parameters are such that the operator takes them."""
    element = type_of(values).element
    alike = zeros is None or (
        type_of(zeros).element == element and type_of(zeros).dims == type_of(scales).dims
    )
    block = _size(values, axis) // _size(scales, axis)
    return element in BITS and alike and fills_words(BITS[element], block)


def _size(matrix: SSAValue, axis: int) -> int:
    return type_of(matrix).shape[axis].constant or 0


def _integers_of(value: SSAValue) -> SSAValue | None:
    """What was converted to i32: in fewer bits differences would overflow."""
    return value.owner.operand if isinstance(value.owner, CastOp) else None


def _parameters(value: SSAValue, axis: int) -> SSAValue | None:
    """The parameters of blocks, `[.., count, ..]`, each of which a matrix has in equal parts along
    an axis.
    """
    whole = value.owner
    parts = whole.operand.owner if isinstance(whole, ReshapeOp) else None
    column = parts.operand.owner if isinstance(parts, ExpandOp) else None
    if not isinstance(column, ReshapeOp) or not isinstance(parts, ExpandOp):
        return None
    given = type_of(column.operand).static_shape
    wide = type_of(parts.result).static_shape
    shape = type_of(value).static_shape
    if given is None or wide is None or shape is None or len(given) != 2 or len(wide) != 3:
        return None
    single = (*given[: axis + 1], 1, *given[axis + 1 :])
    spread = (*given[: axis + 1], wide[axis + 1], *given[axis + 1 :])
    product = (*given[:axis], given[axis] * wide[axis + 1], *given[axis + 1 :])
    if type_of(column.result).static_shape != single or wide != spread or shape != product:
        return None
    return column.operand


def _rows(b: GraphBuilder, weights: BlockWeights, axis: int) -> BlockRows:
    """A row of codes, and of parameters, for each column of the product."""
    values, scales = (
        Term(b, each) if axis else Term(b, each).transpose([1, 0])
        for each in (weights.values, weights.scales)
    )
    element = values.type.element
    zeros = None
    if weights.zeros is not None:
        zeros = Term(b, weights.zeros)
        zeros = _unsigned(zeros if axis else zeros.transpose([1, 0]))
    elif element in (UI4, UI8):
        zeros = values.of(b.constant_of(0, UI8)).expand(scales.shape)
    codes = packed_bytes(_unsigned(values), BITS[element])
    return BlockRows(codes, scales, zeros, bits=BITS[element], block=weights.block)


def _unsigned(x: Term) -> Term:
    """The same order as unsigned bytes: signed numbers count from half of the range."""
    element = x.type.element
    if element in (UI4, UI8):
        return x.cast(UI8)
    bits = x.of(x.b.bitcast(x.cast(I8).value, to=UI8))
    half = 1 << (BITS[element] - 1)
    flipped = bits.of(x.b.bitwise_xor(bits.value, bits.number(half).value))
    return flipped.of(x.b.bitwise_and(flipped.value, bits.number(2 * half - 1).value))

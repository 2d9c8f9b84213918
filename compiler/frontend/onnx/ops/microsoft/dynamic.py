"""onnxruntime's operators that quantise floats when they run: products and LSTMs of weights of
8 bits.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from xdsl.ir import SSAValue

from weft.compiler.frontend.onnx.node import OnnxNode
from weft.compiler.frontend.onnx.ops.microsoft.quantised import centred, of_columns, whole
from weft.compiler.frontend.onnx.ops.microsoft.signature import Signature, importers
from weft.compiler.frontend.onnx.ops.recurrent import (
    CELLS,
    Weights,
    import_recurrent,
    of_direction,
)
from weft.compiler.frontend.onnx.rules import ONE
from weft.dialects.expr import Expr
from weft.dialects.graph.core.algebra import Term, counted
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.types import F32, I32, I64, UI8
from weft.dialects.graph.quantized.exact_products import Centred, exact_matmul

STEPS = 255
"""Between the least and the greatest number of a byte."""


def quantised(x: Term) -> tuple[Centred, Term]:
    """Floats as bytes without sign and their zero point, and the scale: the range of all elements,
    and zero, on a byte.
    """
    axes = list(range(len(x.shape)))
    least, most = (
        x.of(x.b.op(name, x.value, axes=axes, keepdims=False).results[0])
        for name in ("reduce_min", "reduce_max")
    )
    least, most = least.minimum(0), most.maximum(0)
    span = most - least
    scale = span.equals(0).where(1, span / STEPS)
    zero = (0 - least / scale).maximum(0).minimum(STEPS).math("round")
    level = ((x / scale).math("round") + zero).maximum(0).minimum(STEPS)
    return Centred(level.cast(UI8), zero.cast(I32)), scale


class _Quantised(Struct, frozen=True):
    """Weights `[inputs, gates]` of 8 bits, with a scale and a zero point for all or each gate."""

    matrix: Term
    scale: Term
    zero: Term

    @property
    def inputs(self) -> Expr:
        return self.matrix.shape[0]

    def inside(self, b: GraphBuilder) -> _Quantised:
        return _Quantised(*(Term(b, each.value) for each in (self.matrix, self.scale, self.zero)))

    def product(self, rows: Term, first: Expr, count: Expr) -> Term:
        zero, scale = (
            each.part(0, first, count) if each.shape else each for each in (self.zero, self.scale)
        )
        levels, step = quantised(rows)
        sums = exact_matmul(levels, Centred(self.matrix.part(1, first, count), zero))
        return sums.cast(F32) * (step * scale)


def _weights_of(node: OnnxNode, position: int, at: int) -> Weights:
    """Inputs' weights are operand 1, the state's 2; their scales and zero points are at the end."""
    parameters = 6 + 2 * position
    scale, zero = (of_direction(node, parameters + each, at) for each in range(2))
    return _Quantised(of_direction(node, position, at), scale, zero)


def import_lstm(node: OnnxNode) -> Sequence[SSAValue]:
    """An LSTM whose products are of integers: inputs are quantised at once, states in each step.

    Steps that no example reaches do not count.
    """
    if node.optional(4) is not None:
        x, lengths = Term(node.b, node.operand(0)), Term(node.b, node.operand(4)).cast(I64)
        longest = x.of(x.b.reduce_max(lengths.value, axes=[0], keepdims=False))
        reached = (counted(x.b, x.shape[0]) < longest).insert(1, 2)
        node.operands = [reached.where(x, 0).value, *node.operands[1:]]
    return import_recurrent(CELLS["LSTM"], _weights_of, node)


def import_matmul_to_float(node: OnnxNode) -> Sequence[SSAValue]:
    """The product of integers, scaled, plus a bias."""
    return _scaled(node, centred(node, 0, 4), whole(node, 2), 3, 5)


def import_quantising_matmul(node: OnnxNode) -> Sequence[SSAValue]:
    """The product of floats, which are quantised at once, with integers, plus a bias."""
    rows, scale = quantised(Term(node.b, node.operand(0)))
    return _scaled(node, rows, scale, 2, 3)


def _scaled(
    node: OnnxNode, rows: Centred, scale: Term, of_columns_at: int, zero: int
) -> Sequence[SSAValue]:
    """Integers times the matrix that is operand 1, whose scale and zero point, before the bias, are
    at these positions.
    """
    factor = scale * of_columns(node, of_columns_at)
    result = exact_matmul(rows, centred(node, 1, zero)).cast(factor.type.element) * factor
    if node.optional(zero + 1) is not None:
        bias = node.reshape(node.operand(zero + 1), node.shape(1)[1:])
        result = result + result.of(bias)
    return [result.value]


_LSTM = (
    "X:F:sbi W:Q:dig R:Q:dhg B?:F:de sequence_lens?:L:b initial_h?:F:dbh initial_c?:F:dbh P?:F:dp "
    "W_scale:F:d|dg W_zero_point:Q:d|dg R_scale:F:d|dg R_zero_point:Q:d|dg"
)

IMPORTERS = importers(
    {
        "DynamicQuantizeLSTM": Signature(
            import_lstm,
            _LSTM,
            "activation_alpha activation_beta activations clip direction hidden_size! input_forget",
        ),
        "DynamicQuantizeMatMul": Signature(
            import_quantising_matmul,
            "a:S:.* b:Q:kn b_scale:S:-|1|n b_zero_point?:Q:-|1|n bias?:S:*",
        ),
        "MatMulIntegerToFloat": Signature(
            import_matmul_to_float,
            f"a:Q1:.* b:Q2:kn a_scale:S:{ONE} b_scale:S:-|1|n a_zero_point?:Q1:{ONE} "
            "b_zero_point?:Q2:-|1|n bias?:S:*",
        ),
    }
)

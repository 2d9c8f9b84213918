"""onnxruntime's operators on quantised tensors, each of which has a scale and a zero point."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from xdsl.ir import Attribute, SSAValue

from weft.compiler.frontend.onnx.node import Importer, OnnxNode, normal_axis
from weft.compiler.frontend.onnx.ops.microsoft.signature import Signature, importers
from weft.compiler.frontend.onnx.ops.quantize import (
    import_dequantize_linear,
    import_qlinear_conv,
    import_quantize_linear,
    quantized,
)
from weft.compiler.frontend.onnx.ops.windows import import_average_pool, import_max_pool
from weft.compiler.frontend.onnx.rules import ONE
from weft.dialects.errors import ModelError
from weft.dialects.expr import product
from weft.dialects.graph.core.algebra import Term, joined, size_term
from weft.dialects.graph.core.types import F32, I32
from weft.dialects.graph.quantized.exact_products import Centred, exact_matmul

# One operand ------------------------------------------------------------------------------------


def real(node: OnnxNode, position: int) -> Term:
    """A quantised operand as the numbers that it stands for: its scale and zero point follow it."""
    return levels(node, position, position + 2).cast(F32) * whole(node, position + 1)


def levels(node: OnnxNode, position: int, zero: int) -> Term:
    """A quantised operand's distances from its zero point, in i32."""
    value = Term(node.b, node.operand(position)).cast(I32)
    return value if node.optional(zero) is None else value - whole(node, zero).cast(I32)


def whole(node: OnnxNode, position: int) -> Term:
    """A parameter of a whole tensor, under no dims."""
    return Term(node.b, node.reshape(node.operand(position), []))


def centred(node: OnnxNode, position: int, zero: int) -> Centred:
    """A quantised operand with its zero point, of the whole tensor or of a matrix's columns."""
    point = None if node.optional(zero) is None else of_columns(node, zero)
    return Centred(Term(node.b, node.operand(position)), point)


def requantised(node: OnnxNode, value: Term, scale: int, element: Attribute) -> Sequence[SSAValue]:
    """Numbers as the nearest of a quantised type, by the scale at a position, behind which stands
    the zero point.
    """
    return _nearest(node, value / whole(node, scale), scale + 1, element)


def _nearest(node: OnnxNode, value: Term, zero: int, element: Attribute) -> Sequence[SSAValue]:
    """Numbers of steps as the nearest of a quantised type, whose zero point may be given."""
    point = None if node.optional(zero) is None else whole(node, zero).value
    return [quantized(node, value.value, point, element)]


def _nearest_shifted(
    node: OnnxNode, value: Term, zero: int, element: Attribute
) -> Sequence[SSAValue]:
    """The same, but what is rounded, ties to the even number, has the zero point in it."""
    if node.optional(zero) is not None:
        value = value + whole(node, zero).cast(F32)
    return [quantized(node, value.value, None, element)]


def import_unary(name: str, attributes: Sequence[str], node: OnnxNode) -> Sequence[SSAValue]:
    """A function of one operand, with parameters of the same names."""
    given = {each: node.real(each, 0.01) for each in attributes}
    value = real(node, 0)
    result = value.of(value.b.op(name, value.value, **given).results[0])
    return requantised(node, result, 3, node.type().element)


def import_softmax(node: OnnxNode) -> Sequence[SSAValue]:
    """Over one axis, or below opset 13 of ONNX over that and all behind it. As in onnxruntime, 1 is
    a whole number of steps, of the scale of the result or somewhat larger ones.
    """
    shape = node.shape()
    axis = normal_axis(node.integer("axis", -1), len(shape))
    value = real(node, 0)
    if node.integer("opset", 0) < 13:
        value = value.reshape((product(shape[:axis]), product(shape[axis:])))
        axis = 1
    result = value.of(value.b.softmax(value.value, axis=axis)).reshape(shape)
    steps = (1 / whole(node, 3)).math("floor")
    return _nearest(node, result * steps, 4, node.type().element)


# Two operands and more --------------------------------------------------------------------------


def import_add(node: OnnxNode) -> Sequence[SSAValue]:
    """The sum of two, each brought to the scale of the result."""
    parts = [
        levels(node, at, at + 2).cast(F32) * (whole(node, at + 1) / whole(node, 6)) for at in (0, 3)
    ]
    return _nearest_shifted(node, parts[0] + parts[1], 7, node.type().element)


def import_mul(node: OnnxNode) -> Sequence[SSAValue]:
    """The product of two, exact before it is brought to the scale of the result."""
    product_of_levels = levels(node, 0, 2) * levels(node, 3, 5)
    scale = whole(node, 1) * whole(node, 4) / whole(node, 6)
    return _nearest_shifted(node, product_of_levels.cast(F32) * scale, 7, node.type().element)


def import_where(node: OnnxNode) -> Sequence[SSAValue]:
    """One of two where the condition holds, else the other."""
    chosen = Term(node.b, node.operand(0)).where(real(node, 1), real(node, 4))
    return requantised(node, chosen, 7, node.type(1).element)


def import_concat(node: OnnxNode) -> Sequence[SSAValue]:
    """Tensors of scales of their own, one after the other; operands are the result's scale and zero
    point, then tensors, each with its own.
    """
    count, rest = divmod(len(node.operands) - 2, 3)
    if rest or count < 1:
        raise ModelError(f"requires a scale and a zero point for each tensor, got {count} and more")
    axis = normal_axis(node.attribute("axis").i, len(node.shape(2)))
    whole_of = joined([real(node, 2 + 3 * each) for each in range(count)], axis)
    return requantised(node, whole_of, 0, node.type(1).element)


def import_gemm(node: OnnxNode) -> Sequence[SSAValue]:
    """`alpha * a_scale * b_scale * (a @ b + c)` of matrices, quantised where the result has a zero
    point.
    """
    lhs, rhs = centred(node, 0, 2), centred(node, 3, 5)
    lhs = lhs.transposed() if node.flag("transA") else lhs
    rhs = rhs.transposed() if node.flag("transB") else rhs
    sums = exact_matmul(lhs, rhs)
    if node.optional(6) is not None:
        sums = sums + Term(node.b, node.operand(6))
    scale = whole(node, 1) * of_columns(node, 4) * node.real("alpha", 1.0)
    if node.optional(8) is None:
        return [(sums.cast(F32) * scale).value]
    value = sums.cast(F32) * (scale / whole(node, 7))
    return _nearest(node, value, 8, node.type(8).element)


def of_columns(node: OnnxNode, position: int) -> Term:
    """A parameter of a matrix's columns, of which a vector has one for each."""
    value = node.operand(position)
    return whole(node, position) if node.type(position).size == 1 else Term(node.b, value)


# Windows ----------------------------------------------------------------------------------------


def channels_first(importer: Importer, node: OnnxNode) -> Sequence[SSAValue]:
    """An operator on images whose channels are their last dim where the node says so."""
    return of_channels_last(importer, node) if node.flag("channels_last") else importer(node)


def of_channels_last(importer: Importer, node: OnnxNode) -> Sequence[SSAValue]:
    """An operator on images whose channels are their last dim."""
    rank = len(node.shape())
    image = Term(node.b, node.operand(0)).transpose([0, rank - 1, *range(1, rank - 1)])
    node.operands = [image.value, *node.operands[1:]]
    results = [Term(node.b, result) for result in importer(node)]
    return [result.transpose([0, *range(2, rank), 1]).value for result in results]


def import_pool(node: OnnxNode) -> Sequence[SSAValue]:
    """Means of the numbers in each window."""
    element = node.type().element
    node.operands = [real(node, 0).value, *node.operands[1:]]
    (mean,) = import_average_pool(node)
    return _nearest_shifted(node, Term(node.b, mean) / whole(node, 3), 4, element)


def import_global_pool(node: OnnxNode) -> Sequence[SSAValue]:
    """The mean of each channel, whose sum is exact."""
    shape = node.shape()
    total = levels(node, 0, 2).sum(range(2, len(shape)), keepdims=True).cast(F32)
    count = size_term(node.b, product(shape[2:]), F32)
    scale = whole(node, 1) / (whole(node, 3) * count)
    return _nearest(node, total * scale, 4, node.type().element)


def _scaled(name: str, dims: str = "*") -> str:
    """A quantised operand, its scale and its zero point, which may be absent."""
    return f"{name}:Q:{dims} {name}_scale:S:{ONE} {name}_zero_point?:Q:{ONE}"


_RESULT = f"y_scale:S:{ONE} y_zero_point?:Q:{ONE}"
_UNARY = f"{_scaled('x')} {_RESULT}"
_BINARY = f"{_scaled('a')} {_scaled('b')} {_RESULT}"
_WINDOW = "auto_pad kernel_shape pads strides"

IMPORTERS = importers(
    {
        "DequantizeLinear": Signature(
            import_dequantize_linear, "x:D:* scale:F:* zero?:D:*", "axis"
        ),
        "NhwcMaxPool": Signature(
            partial(of_channels_last, import_max_pool), "x:Q:*", f"{_WINDOW} ceil_mode dilations"
        ),
        "QGemm": Signature(
            import_gemm,
            f"a:Q1:mk a_scale:S:{ONE} a_zero_point:Q1:{ONE} b:Q2:.. b_scale:S:-|. "
            f"b_zero_point:Q2:-|. c?:L:* y_scale?:S:{ONE} y_zero_point?:Q3:{ONE}",
            "alpha transA transB",
        ),
        "QLinearAdd": Signature(import_add, _BINARY),
        "QLinearAveragePool": Signature(
            partial(channels_first, import_pool),
            _UNARY,
            f"{_WINDOW} ceil_mode channels_last count_include_pad",
        ),
        "QLinearConcat": Signature(
            import_concat, f"y_scale:S:{ONE} y_zero_point:Q:{ONE} ...", "axis!"
        ),
        "QLinearConv": Signature(
            partial(channels_first, import_qlinear_conv),
            f"x:Q1:* x_scale:S:{ONE} x_zero_point:Q1:{ONE} w:Q2:m* w_scale:S:-|1|m "
            f"w_zero_point:Q2:-|1|m y_scale:S:{ONE} y_zero_point:Q3:{ONE} b?:L:m",
            f"{_WINDOW} channels_last dilations group",
        ),
        "QLinearGlobalAveragePool": Signature(
            partial(channels_first, import_global_pool), _UNARY, "channels_last"
        ),
        "QLinearLeakyRelu": Signature(
            partial(import_unary, "leaky_relu", ("alpha",)), _UNARY, "alpha"
        ),
        "QLinearMul": Signature(import_mul, _BINARY),
        "QLinearSigmoid": Signature(partial(import_unary, "sigmoid", ()), _UNARY),
        "QLinearSoftmax": Signature(import_softmax, _UNARY, "axis opset!"),
        "QLinearWhere": Signature(
            import_where, f"condition:B:* {_scaled('x')} {_scaled('y')} {_RESULT}"
        ),
        "QuantizeLinear": Signature(import_quantize_linear, "x:F:* scale:F:* zero?:D:*", "axis"),
    }
)

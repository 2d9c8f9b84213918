"""ONNX operators on quantised tensors: scaled and shifted integers, and floats of few bits."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Attribute, SSAValue

from weft.compiler.frontend.onnx.node import (
    Importer,
    OnnxNode,
    dims_attr,
    normal_axis,
    onnx_element,
)
from weft.compiler.frontend.onnx.ops.casts import saturated
from weft.compiler.frontend.onnx.ops.windows import convolution, window_attributes
from weft.dialects.errors import ModelError
from weft.dialects.expr import Expr
from weft.dialects.graph.core.algebra import Term
from weft.dialects.graph.core.types import (
    F8E4M3FN,
    F8E4M3FNUZ,
    F8E5M2,
    F8E5M2FNUZ,
    F32,
    F64,
    FLOATS,
    I8,
    I32,
    NARROW_FLOATS,
    UI8,
    type_of,
)
from weft.dialects.graph.quantized.exact_products import Centred, exact_conv, exact_matmul

UNSHIFTED = (F8E4M3FN, F8E4M3FNUZ, F8E5M2, F8E5M2FNUZ)
"""Types whose zero points must be zero."""


def import_quantize_linear(node: OnnxNode) -> Sequence[SSAValue]:
    """`saturate(round(x / scale) + zero_point)`; floats are rounded by the conversion alone."""
    element = _quantized_element(node)
    scale, zero_point = _along_operand(node, 1), _zero_point(node, 2, element)
    division = _division_element(node)
    quotient = _quotient(node, node.operand(0), scale, division)
    return [quantized(node, quotient, zero_point, element, node.flag("saturate", default=True))]


def _quantized_element(node: OnnxNode) -> Attribute:
    """The zero point's type, else the one that the node states, else unsigned bytes."""
    stated = node.integer("output_dtype", 0)
    element = onnx_element(stated) if stated else None
    if node.optional(2) is None:
        return UI8 if element is None else element
    given = node.type(2).element
    if element not in (None, given):
        raise ModelError(f"requires a zero point of output_dtype {element}, got {given}")
    return given


def _division_element(node: OnnxNode) -> Attribute:
    """The type that the quotient is computed in: what `precision` says, else that of the scale."""
    precision = node.integer("precision", 0)
    element = onnx_element(precision) if precision else node.type(1).element
    return element if element in FLOATS else F32


def _quotient(node: OnnxNode, x: SSAValue, scale: SSAValue, element: Attribute) -> SSAValue:
    """The quotient in a type, which counts even where that has fewer bits than it is computed in:
    f32 has more than twice those of the others, so that it is rounded as if it were exact.
    """
    operands = [node.cast(each, element) for each in (x, scale)]
    if element in (F32, F64):
        return node.b.div(*operands)
    wide = node.b.div(*(node.cast(each, F32) for each in operands))
    return node.cast(node.cast(wide, element), F32)


def quantized(
    node: OnnxNode,
    quotient: SSAValue,
    zero_point: SSAValue | None,
    element: Attribute,
    saturate: bool = True,
) -> SSAValue:
    """A real number as the nearest of a quantised type, which counts from the zero point."""
    if element not in NARROW_FLOATS:
        quotient = node.b.round(quotient)
    if zero_point is not None:
        wide = F64 if type_of(quotient).element == F64 else F32
        quotient = node.b.add(node.cast(quotient, wide), node.cast(zero_point, wide))
    return saturated(node, quotient, element, saturate)


def import_dequantize_linear(node: OnnxNode) -> Sequence[SSAValue]:
    """`(x - zero_point) * scale`, computed in f32 at least."""
    element = node.type(0).element
    scale, zero_point = _along_operand(node, 1), _zero_point(node, 2, element)
    stated = node.integer("output_dtype", 0)
    result = onnx_element(stated) if stated else node.type(1).element
    wide = F64 if F64 in (result, node.type(1).element) else F32
    if zero_point is not None and element not in NARROW_FLOATS:
        value = node.cast(_centred(node, node.operand(0), zero_point), wide)
    else:
        value = node.cast(node.operand(0), wide)
        if zero_point is not None:
            value = node.b.sub(value, node.cast(zero_point, wide))
    return [node.cast(node.b.mul(value, node.cast(scale, wide)), result)]


def _zero_point(node: OnnxNode, position: int, element: Attribute) -> SSAValue | None:
    """The zero point along the operand; None where it is absent, or zero as it must be."""
    if node.optional(position) is None:
        return None
    if element not in UNSHIFTED:
        return _along_operand(node, position)
    given = node.constants.constant_array(node.operand(position))
    if given is not None and given.astype("float32").any():
        raise ModelError(f"requires zero points of zero for {element}, got {given.tolist()}")
    return None


def _along_operand(node: OnnxNode, position: int) -> SSAValue:
    """A scale or zero point so that it broadcasts against the first operand: one for the tensor,
    one for each index of an axis, or one for each block along it.
    """
    value, shape = node.operand(position), node.shape()
    dims = node.shape(position)
    block = node.integer("block_size", 0)
    if not block and dims in ((), (Expr.of(1),)):
        return node.reshape(value, [])
    axis = normal_axis(node.integer("axis", 1), len(shape))
    if block:
        return _repeated(node, value, axis, block)
    if len(dims) != 1:
        raise ModelError(f"requires a vector of scales without block_size, got {type_of(value)}")
    return node.reshape(value, [dims[0] if each == axis else 1 for each in range(len(shape))])


def _repeated(node: OnnxNode, value: SSAValue, axis: int, block: int) -> SSAValue:
    """Each element `block` times along the axis, as far as the first operand reaches."""
    wanted, dims = node.shape()[axis], list(type_of(value).shape)
    if len(dims) != len(node.shape()):
        raise ModelError(f"requires scales of rank {len(node.shape())}, got {type_of(value)}")
    for at, (dim, size) in enumerate(zip(dims, node.shape(), strict=True)):
        if at != axis and (dim - size).constant:
            raise ModelError(f"requires {size} scales along axis {at}, got {dim}")
    if wanted.ceildiv(block) != dims[axis]:
        rule = f"{wanted.ceildiv(block)} blocks of {block} along axis {axis}"
        raise ModelError(f"requires {rule}, got {dims[axis]}")
    column = node.reshape(value, [*dims[: axis + 1], 1, *dims[axis + 1 :]])
    row = [*dims[: axis + 1], Expr.of(block), *dims[axis + 1 :]]
    dims[axis] = dims[axis] * block
    whole = node.reshape(node.b.expand(column, shape=dims_attr(row)), dims)
    if dims[axis] == wanted:
        return whole
    dims[axis] = wanted
    rank = len(dims)
    return node.b.slice(
        whole, starts=dims_attr([0] * rank), sizes=dims_attr(dims), steps=[1] * rank
    )


# Sums of products ---------------------------------------------------------------------------------


def _centred(node: OnnxNode, value: SSAValue, zero_point: SSAValue | None) -> SSAValue:
    """Distances from the zero point, as i32."""
    wide = node.cast(value, I32)
    return wide if zero_point is None else node.b.sub(wide, node.cast(zero_point, I32))


def _per_row(node: OnnxNode, position: int, rank: int) -> SSAValue | None:
    """A parameter of a matrix's rows, of which a vector has one for each."""
    value = node.optional(position)
    if value is None or type_of(value).rank != 1:
        return value
    (count,) = type_of(value).shape
    return node.reshape(value, [] if count == 1 else [count, 1] if rank > 1 else [count])


def _per_column(node: OnnxNode, position: int) -> SSAValue | None:
    """A parameter of a matrix's columns, of which a vector has one for each."""
    value = node.optional(position)
    if value is None or type_of(value).shape != (Expr.of(1),):
        return value
    return node.reshape(value, [])


def _per_filter(node: OnnxNode, position: int, rank: int) -> SSAValue | None:
    """A parameter of filters, of which a vector has one for each."""
    value = node.optional(position)
    if value is None or type_of(value).rank == 0:
        return value
    (count,) = type_of(value).shape
    return node.reshape(value, [] if count == 1 else [count, *[1] * (rank - 1)])


def import_matmul_integer(node: OnnxNode) -> Sequence[SSAValue]:
    """`(a - a_zero_point) @ (b - b_zero_point)` in i32."""
    rows, columns = _per_row(node, 2, len(node.shape(0))), _per_column(node, 3)
    return [_product(node, (0, 1), rows, columns).value]


def _product(
    node: OnnxNode, positions: tuple[int, int], rows: SSAValue | None, columns: SSAValue | None
) -> Term:
    """The product of two operands that count from zero points of rows and of columns, in i32."""
    lhs, rhs = (node.operand(position) for position in positions)
    return exact_matmul(Centred.of(node.b, lhs, rows), Centred.of(node.b, rhs, columns))


def import_qlinear_matmul(node: OnnxNode) -> Sequence[SSAValue]:
    """The quantised product of quantised matrices; operands are (a, scale, zero point), (b, ...),
    (scale, zero point) of the result.
    """
    rank = len(node.shape(0))
    sums = _product(node, (0, 3), _per_row(node, 2, rank), _per_column(node, 5)).value
    scales = _per_row(node, 1, rank), _per_column(node, 4), _per_row(node, 6, rank)
    zero_point = _per_row(node, 7, rank)
    return [_requantized(node, sums, scales, zero_point, node.type(7).element)]


def import_conv_integer(node: OnnxNode) -> Sequence[SSAValue]:
    """The convolution of `x - x_zero_point` with `w - w_zero_point` in i32."""
    return [_convolution(node, (0, 1), (2, 3), None)]


def import_qlinear_conv(node: OnnxNode) -> Sequence[SSAValue]:
    """The quantised convolution of quantised operands; an addend is i32, of the products' scale."""
    rank = len(node.shape(3))
    sums = _convolution(node, (0, 3), (2, 5), node.optional(8))
    per_channel = _per_filter(node, 4, rank - 1)
    scales = _single(node, 1), per_channel, _single(node, 6)
    return [_requantized(node, sums, scales, _single(node, 7), node.type(7).element)]


def _convolution(
    node: OnnxNode, operands: tuple[int, int], zeros: tuple[int, int], bias: SSAValue | None
) -> SSAValue:
    """The convolution of an image with filters, each with a zero point if there is one, in i32."""
    image, filters = (node.operand(position) for position in operands)
    image_zero, filter_zero = _single(node, zeros[0]), _filter_zero(node, zeros[1], filters)
    kernel = node.shape(operands[1])[2:]
    is_centred = filter_zero is None and type_of(filters).element == I8
    if not is_centred and node.integer("group", 1) != 1:
        zero = _per_filter(node, zeros[1], type_of(filters).rank)
        centred = _centred(node, image, image_zero), _centred(node, filters, zero)
        return convolution(node, kernel, *centred, bias)
    known = None if image_zero is None else node.constants.constant_array(image_zero)
    outside = 0 if image_zero is None else None if known is None else int(known)
    return exact_conv(
        Centred.of(node.b, image, image_zero),
        Centred.of(node.b, filters, filter_zero),
        bias,
        outside,
        window_attributes(node, kernel),
    ).value


def _filter_zero(node: OnnxNode, position: int, filters: SSAValue) -> SSAValue | None:
    """The zero point of filters along the channels of the result, None where it is known as 0."""
    value = _per_filter(node, position, type_of(filters).rank - 1)
    known = None if value is None else node.constants.constant_array(value)
    return None if known is not None and not known.any() else value


def _single(node: OnnxNode, position: int) -> SSAValue | None:
    """A parameter of a whole tensor."""
    value = node.optional(position)
    return None if value is None else node.reshape(value, [])


def _requantized(
    node: OnnxNode,
    sums: SSAValue,
    scales: tuple[SSAValue | None, SSAValue | None, SSAValue | None],
    zero_point: SSAValue | None,
    element: Attribute,
) -> SSAValue:
    """Sums of products of quantised numbers, `sums * lhs * rhs / result`, quantised again."""
    lhs, rhs, result = (node.cast(each, F32) for each in scales if each is not None)
    scale = node.b.div(node.b.mul(lhs, rhs), result)
    return quantized(node, node.b.mul(node.cast(sums, F32), scale), zero_point, element)


IMPORTERS: dict[str, Importer] = {
    "ConvInteger": import_conv_integer,
    "DequantizeLinear": import_dequantize_linear,
    "MatMulInteger": import_matmul_integer,
    "QLinearConv": import_qlinear_conv,
    "QLinearMatMul": import_qlinear_matmul,
    "QuantizeLinear": import_quantize_linear,
}

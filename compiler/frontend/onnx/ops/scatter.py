"""ONNX operators that put elements at places: TensorScatter, MaxUnpool, Col2Im."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from weft.compiler.frontend.onnx.node import Importer, OnnxNode, normal_axis
from weft.compiler.frontend.onnx.ops.resize import choice
from weft.dialects.errors import ModelError
from weft.dialects.expr import Expr, product
from weft.dialects.graph.core.algebra import Term, counted, shape_attr, size_term
from weft.dialects.graph.core.bounds_check import require_inside
from weft.dialects.graph.core.broadcast import agreed_shape
from weft.dialects.graph.core.types import I64


def import_tensor_scatter(node: OnnxNode) -> Sequence[SSAValue]:
    """A cache in which each example's update is written along an axis, from its own index on."""
    cache, update = Term(node.b, node.operand(0)), Term(node.b, node.operand(1))
    mode = choice(node, "mode", "linear", ("linear", "circular"))
    rank = len(cache.shape)
    axis = normal_axis(node.integer("axis", -2), rank)
    if axis == 0:
        raise ModelError("requires an axis behind the batch, got 0")
    size = update.shape[axis]
    positions = counted(node.b, size).reshape([size if at == axis else 1 for at in range(rank)])
    if mode == "linear":
        node.require_most(size, cache.shape[axis], f"at most {{}} elements along axis {axis}")
    if node.optional(2) is not None:
        starts = Term(node.b, node.operand(2)).cast(I64)
        if mode == "linear":
            most = cache.shape[axis] - size
            rule = f"a position from 0 to {{}} along axis {axis}"
            _require_inside(node, starts, most, rule)
        positions = positions + starts.reshape((starts.shape[0], *[1] * (rank - 1)))
    if mode == "circular":
        positions = positions.modulo(size_term(node.b, cache.shape[axis], I64))
    indices = positions.expand(update.shape).value
    attributes = {"axis": axis, "reduction": "none"}
    return [node.b.scatter_elements(cache.value, indices, update.value, **attributes)]


def import_max_unpool(node: OnnxNode) -> Sequence[SSAValue]:
    """Zeros, but elements at the places in the whole tensor where a pooling found them."""
    x, positions = Term(node.b, node.operand(0)), Term(node.b, node.operand(1))
    kernel = list(node.attribute("kernel_shape").ints)
    rank = len(kernel)
    strides = node.integers("strides", [1] * rank)
    pads = node.integers("pads", [0] * (2 * rank))
    if not len(x.shape) - 2 == rank == len(strides) == len(pads) // 2:
        raise ModelError(f"requires a kernel of {len(x.shape) - 2} dims, got {kernel}")
    steps = zip(x.shape[2:], kernel, strides, pads, pads[rank:], strict=False)
    spatial = [(dim - 1) * stride + k - a - b for dim, k, stride, a, b in steps]
    shape = (*x.shape[:2], *spatial)
    size = product(x.shape)
    zeros = x.of(node.scalar(0, x.type.element)).expand([product(shape)])
    positions = positions.cast(I64)
    _require_inside(
        node, positions, product(shape) - 1, "an index from 0 to {} of the whole tensor"
    )
    flat = x.of(
        node.b.scatter_elements(
            zeros.value,
            positions.reshape([size]).value,
            x.reshape([size]).value,
            axis=0,
            reduction="none",
        )
    )
    return [_enlarged(flat.reshape(shape), node).value]


def _require_inside(node: OnnxNode, positions: Term, most: Expr, rule: str) -> None:
    """Refuses places below 0 or above `most`: now, where all is known, or else in each call."""
    constant, last = node.constants.constant_array(positions.value), most.constant
    if constant is None or last is None:
        require_inside(node.b, positions.value, Expr.of(0), most, rule, [most])
        return
    outside = constant[(constant < 0) | (constant > last)]
    if outside.size:
        raise ModelError(f"requires {rule.format(last)}, got {outside[0]}")


def _enlarged(x: Term, node: OnnxNode) -> Term:
    """Filled up with zeros behind each axis to the dims that the node asks for."""
    if node.optional(2) is None:
        return x
    wanted = node.found_dims(2)
    after = [size - dim for size, dim in zip(wanted, x.shape, strict=True)]
    pads = [Expr.of(0)] * len(after) + after
    return x.of(x.b.pad(x.value, pads=shape_attr(pads), mode="constant"))


def import_col2im(node: OnnxNode) -> Sequence[SSAValue]:
    """Columns `[n, channels * window, positions]` added up to an image."""
    columns = Term(node.b, node.operand(0))
    spatial, kernel = node.found_dims(1), node.found_dims(2)
    rank = len(spatial)
    strides, dilations = (
        node.integers("strides", [1] * rank),
        node.integers("dilations", [1] * rank),
    )
    pads = node.integers("pads", [0] * (2 * rank))
    positions = [
        (spatial[at] + pads[at] + pads[at + rank] - (kernel[at] - 1) * dilations[at] - 1)
        // strides[at]
        + 1
        for at in range(rank)
    ]
    batch, rows, count = node.shape_of(0, 3)
    for size in kernel:
        if size.constant is None:
            term = size_term(node.b, size, I64)
            node.require(term > 0, "a block of at least 1", [term])
    channels = rows // product(kernel)
    wanted = (batch, channels * product(kernel), product(positions))
    if agreed_shape([wanted, (batch, rows, count)]) is None:
        raise ModelError(
            f"requires a column for {product(positions)} positions, got {columns.type}"
        )
    whole = columns.of(node.assume(columns.value, wanted))
    windows = whole.reshape((batch, channels, *kernel, *positions))
    steps = {"strides": strides, "dilations": dilations, "pads": pads}
    return [node.b.fold(windows.value, spatial=shape_attr(spatial), **steps)]


IMPORTERS: dict[str, Importer] = {
    "Col2Im": import_col2im,
    "MaxUnpool": import_max_unpool,
    "TensorScatter": import_tensor_scatter,
}

"""ONNX operators whose result is known, or depends on shapes alone: Constant, Range, Shape, ..."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from onnx import AttributeProto, TensorProto
from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import Attribute, SSAValue

from weft.compiler.frontend.onnx.node import OnnxNode, dims_attr, only_element, onnx_element
from weft.compiler.frontend.onnx.tensor import tensor_array
from weft.dialects.errors import ModelError, UnsupportedError
from weft.dialects.expr import Expr, maximum
from weft.dialects.extent import exact_number
from weft.dialects.graph import ConstantOp, DimsOp
from weft.dialects.graph.core.dtypes import numpy_dtype
from weft.dialects.graph.core.types import F64, I64
from weft.dialects.weights import Array

MAX_CONSTANT = 1 << 28
"""Constants of more elements than this are not made while compiling."""


def import_constant(node: OnnxNode) -> Sequence[SSAValue]:
    """The value in whichever of the attributes it is."""
    names = [attribute.name for attribute in node.proto.attribute]
    if len(names) != 1:
        raise ModelError(f"requires one attribute with a value, got {', '.join(names) or 'none'}")
    return [node.given(_constant_array(node.proto.attribute[0], node.base_dir))]


def _constant_array(attribute: AttributeProto, base_dir: Path | None) -> Array:
    if attribute.name == "value":
        return tensor_array(attribute.t, base_dir)
    if attribute.name == "value_float":
        return np.array(attribute.f, np.float32)
    if attribute.name == "value_floats":
        return np.array(attribute.floats, np.float32)
    if attribute.name == "value_int":
        return np.array(attribute.i, np.int64)
    if attribute.name == "value_ints":
        return np.array(attribute.ints, np.int64)
    raise UnsupportedError(f"requires a dense tensor of numbers, got {attribute.name}")


def import_constant_of_shape(node: OnnxNode) -> Sequence[SSAValue]:
    """One value everywhere."""
    value: Array = np.zeros(1, np.float32)
    if node.has("value"):
        value = tensor_array(node.attribute("value").t, node.base_dir)
    return [filled(node, np.asarray(only_element(value, "a value")), node.found_dims(0))]


def filled(node: OnnxNode, value: Array, dims: Sequence[Expr]) -> SSAValue:
    """A tensor of one value: a constant where the dims are static, else that value expanded."""
    constants = [dim.constant for dim in dims]
    static = [dim for dim in constants if dim is not None]
    if any(dim < 0 for dim in static):
        raise ModelError(f"requires dims of 0 or more, got {static}")
    if len(static) == len(dims) and math.prod(static) <= MAX_CONSTANT:
        constant = ConstantOp.filled(value, static, node.b.location)
        return node.b.builder.insert(constant).results[0]
    return node.b.expand(node.constant(value), shape=dims_attr(dims))


def import_shape(node: OnnxNode) -> Sequence[SSAValue]:
    """The dims from `start` to `end`, both clamped to the rank."""
    dims = list(node.shape())
    return [dims_vector(node, dims[node.integer("start", 0) : node.integer("end", len(dims))])]


def import_size(node: OnnxNode) -> Sequence[SSAValue]:
    """The number of elements."""
    return [dims_scalar(node, node.type().size)]


def dims_vector(node: OnnxNode, dims: Sequence[Expr]) -> SSAValue:
    """Sizes as a vector of int64."""
    numbers = [dim.constant for dim in dims]
    if None not in numbers:
        return node.constant(np.array(numbers, np.int64))
    location = node.b.location
    return node.b.builder.insert(DimsOp.of(values=dims_attr(dims), location=location)).results[0]


def dims_scalar(node: OnnxNode, dim: Expr) -> SSAValue:
    """One size as an int64 of rank 0."""
    if dim.constant is not None:
        return node.constant(np.array(dim.constant, np.int64))
    op = DimsOp.of(values=[dim], scalar=UnitAttr(), location=node.b.location)
    return node.b.builder.insert(op).results[0]


def import_range(node: OnnxNode) -> Sequence[SSAValue]:
    """`start, start + delta, ...` below `limit`: a constant, or counted up to a symbolic size."""
    bounds = [_constant_number(node, position) for position in range(3)]
    start, limit, delta = bounds
    if delta == 0:
        raise ModelError("requires a delta other than 0, got 0")
    if start is not None and limit is not None and delta is not None:
        count = max(math.ceil(exact_number((limit - start) / delta, "a range")), 0)
        node.reserve(count)
        return [node.constant(_constant_range(start, count, delta, node.type().element))]
    if all(node.constants.dims(node.operand(position)) is not None for position in range(3)):
        return [_symbolic_range(node)]
    return [_found_range(node)]


def _constant_number(node: OnnxNode, position: int) -> int | float | None:
    array = node.constants.constant_array(node.operand(position))
    return None if array is None else only_element(array, "a bound").item()


def _constant_range(start: float, count: int, delta: float, element: Attribute) -> Array:
    if count > MAX_CONSTANT:
        raise UnsupportedError(f"requires a range of at most {MAX_CONSTANT} elements, got {count}")
    dtype = numpy_dtype(element)
    steps = np.arange(count).astype(dtype)
    return np.asarray(start, dtype) + steps * np.asarray(delta, dtype)


def _symbolic_range(node: OnnxNode) -> SSAValue:
    start, limit = node.size(0, "a start"), node.size(1, "a limit")
    step = node.number(2, "a delta")
    count = (limit - start).ceildiv(step) if step > 0 else (start - limit).ceildiv(-step)
    first, delta = (node.reshape(node.operand(position), []) for position in (0, 2))
    return node.b.range(first, delta, size=dims_attr([maximum([count, 0])]))


def _found_range(node: OnnxNode) -> SSAValue:
    """A range whose length depends on data; it is counted in f64."""
    b = node.b
    start, limit, delta = (node.reshape(node.operand(position), []) for position in range(3))
    first, last, step = (node.cast(value, F64) for value in (start, limit, delta))
    count = b.max(b.ceil(b.div(b.sub(last, first), step)), b.constant_of(0.0, F64))
    return b.range(start, delta, size=dims_attr([node.find(b.cast(count, to=I64))]))


def import_eye_like(node: OnnxNode) -> Sequence[SSAValue]:
    """Ones on a diagonal of a matrix of static shape."""
    rows, columns = node.static_shape()
    node.reserve(rows * columns)
    element = node.type().element
    if node.has("dtype"):
        element = onnx_element(node.integer("dtype", TensorProto.FLOAT))
    diagonal = node.integer("k", 0)
    return [node.constant(np.eye(rows, columns, diagonal, dtype=numpy_dtype(element)))]


IMPORTERS = {
    "Constant": import_constant,
    "ConstantOfShape": import_constant_of_shape,
    "EyeLike": import_eye_like,
    "Range": import_range,
    "Shape": import_shape,
    "Size": import_size,
}

"""What operators of classical machine learning have in common: rows of features, and numbers that
attributes hold.
"""

from __future__ import annotations

import numpy as np
from xdsl.ir import SSAValue

from weft.compiler.frontend.onnx.node import OnnxNode
from weft.compiler.frontend.onnx.tensor import tensor_array
from weft.dialects.errors import ModelError
from weft.dialects.expr import Expr
from weft.dialects.graph.core.types import F32, FLOATS, Shape, type_of
from weft.dialects.weights import Array

DOMAIN = "ai.onnx.ml"


def rows_of(node: OnnxNode) -> SSAValue:
    """The first operand as rows of features; a vector is one row. Integers become f32."""
    value, shape = node.operand(0), node.shape()
    if not 1 <= len(shape) <= 2:
        raise ModelError(f"requires rows of features, got {node.type()}")
    value = node.reshape(value, [1, *shape]) if len(shape) == 1 else value
    return value if type_of(value).element in FLOATS else node.cast(value, F32)


def float_rows(node: OnnxNode) -> SSAValue:
    """The rows in f32, in which these operators compute whatever they are handed."""
    return node.cast(rows_of(node), F32)


def dims_of(rows: SSAValue) -> tuple[Expr, Expr]:
    """How many rows there are, and how many features."""
    count, width = type_of(rows).shape
    return count, width


def floats_of(node: OnnxNode, name: str) -> Array:
    """The numbers of a list that may be absent, then none."""
    return np.array(node.attribute(name).floats if node.has(name) else [], np.float32)


def numbers_of(node: OnnxNode, name: str) -> Array:
    """The same of a list that may stand as a tensor, which has f64 too: `name_as_tensor`."""
    tensor = f"{name}_as_tensor"
    if node.has(tensor):
        return tensor_array(node.attribute(tensor).t, node.base_dir).reshape(-1)
    return floats_of(node, name)


def per_column(node: OnnxNode, name: str, numbers: Array, shape: Shape) -> SSAValue:
    """One number, or one for each column, as a constant that broadcasts."""
    if len(numbers) not in (1, shape[-1].constant):
        raise ModelError(f"requires one {name}, or one for each column, got {len(numbers)}")
    return node.constant(numbers)

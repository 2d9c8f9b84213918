"""ONNX's operators of classical machine learning, domain ai.onnx.ml."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.ir import SSAValue

from weft.compiler.frontend.onnx.node import Importer, OnnxNode
from weft.dialects.errors import ModelError
from weft.dialects.graph.core.types import F32

DOMAIN = "ai.onnx.ml"


def import_array_feature_extractor(node: OnnxNode) -> Sequence[SSAValue]:
    """The columns of those indices; of a vector, as a row."""
    shape = node.shape()
    value = node.operand(0) if len(shape) > 1 else node.reshape(node.operand(0), [1, *shape])
    indices = node.reshape(node.operand(1), [node.type(1).size])
    return [node.b.gather(value, indices, axis=max(len(shape), 2) - 1)]


def import_binarizer(node: OnnxNode) -> Sequence[SSAValue]:
    """1 above the threshold, else 0."""
    element = node.type().element
    threshold = node.scalar(node.real("threshold", 0.0), element)
    return [node.cast(node.b.greater(node.operand(0), threshold), element)]


def import_scaler(node: OnnxNode) -> Sequence[SSAValue]:
    """`(x - offset) * scale`, with one offset and scale, or one for each column."""
    value = node.cast(node.operand(0), F32)
    return [node.b.mul(node.b.sub(value, _row(node, "offset")), _row(node, "scale"))]


def _row(node: OnnxNode, name: str) -> SSAValue:
    numbers = np.array(node.attribute(name).floats, np.float32)
    if len(numbers) not in (1, node.shape()[-1].constant):
        raise ModelError(f"requires one {name}, or one for each column, got {len(numbers)}")
    return node.constant(numbers)


IMPORTERS: dict[str, Importer] = {
    f"{DOMAIN}.ArrayFeatureExtractor": import_array_feature_extractor,
    f"{DOMAIN}.Binarizer": import_binarizer,
    f"{DOMAIN}.Scaler": import_scaler,
}

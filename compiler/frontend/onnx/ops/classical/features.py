"""ONNX's operators on features: chosen, scaled, normalised, filled in and put side by side."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.ir import SSAValue

from weft.compiler.frontend.onnx.node import Importer, OnnxNode
from weft.compiler.frontend.onnx.ops.classical.rows import (
    DOMAIN,
    dims_of,
    float_rows,
    floats_of,
    per_column,
)
from weft.dialects.errors import ModelError, UnsupportedError
from weft.dialects.graph.core.types import F32, FLOATS, type_of


def import_array_feature_extractor(node: OnnxNode) -> Sequence[SSAValue]:
    """The columns of those indices; of a vector, as a row."""
    shape = node.shape()
    value = node.operand(0) if len(shape) > 1 else node.reshape(node.operand(0), [1, *shape])
    indices = node.reshape(node.operand(1), [node.type(1).size])
    return [node.b.gather(value, indices, axis=max(len(shape), 2) - 1)]


def import_dict_vectorizer(node: OnnxNode) -> Sequence[SSAValue]:
    """What the input's maps became."""
    return [node.operand(0)]


def import_binarizer(node: OnnxNode) -> Sequence[SSAValue]:
    """1 above the threshold, else 0."""
    element = node.type().element
    threshold = node.scalar(node.real("threshold", 0.0), element)
    return [node.cast(node.b.greater(node.operand(0), threshold), element)]


def import_scaler(node: OnnxNode) -> Sequence[SSAValue]:
    """`(x - offset) * scale`, with one offset and scale, or one for each column."""
    value = node.cast(node.operand(0), F32)
    offset, scale = (
        per_column(node, name, np.array(node.attribute(name).floats, np.float32), node.shape())
        for name in ("offset", "scale")
    )
    return [node.b.mul(node.b.sub(value, offset), scale)]


def import_normalizer(node: OnnxNode) -> Sequence[SSAValue]:
    """Each row over its norm, or as it is where that is zero. As in ONNX, MAX is the greatest
    feature, not that of the greatest magnitude.
    """
    norm, b, rows = node.text("norm", "MAX"), node.b, float_rows(node)
    reductions = {"MAX": "reduce_max", "L1": "reduce_l1", "L2": "reduce_l2"}
    if norm not in reductions:
        raise ModelError(f"requires a norm of MAX, L1 or L2, got {norm}")
    divisor = b.op(reductions[norm], rows, axes=[1], keepdims=True).results[0]
    zero = b.equal(divisor, node.scalar(0, F32))
    normal = b.div(rows, b.where(zero, node.scalar(1, F32), divisor))
    return [node.reshape(normal, node.shape())]


def import_imputer(node: OnnxNode) -> Sequence[SSAValue]:
    """Elements that equal one number, or are NaN where that is, become another of their column."""
    value, element, b = node.operand(0), node.type().element, node.b
    if element in FLOATS:
        numbers, replaced = floats_of(node, "imputed_value_floats"), "replaced_value_float"
        missing = node.real(replaced, 0.0)
    else:
        numbers = np.array(node.integers("imputed_value_int64s", []), np.int64)
        missing = node.integer("replaced_value_int64", 0)
    if not len(numbers):
        raise ModelError(f"requires imputed values of the type of {element}, got none")
    filled = node.cast(per_column(node, "imputed value", numbers, node.shape()), element)
    is_missing = (
        b.is_nan(value) if np.isnan(missing) else b.equal(value, node.scalar(missing, element))
    )
    return [b.where(is_missing, filled, value)]


def import_feature_vectorizer(node: OnnxNode) -> Sequence[SSAValue]:
    """Operands side by side in f32, each as many columns as `inputdimensions` says."""
    widths = node.integers("inputdimensions", [])
    if len(widths) != len(node.operands):
        raise ModelError(f"requires a width for each operand, got {len(widths)}")
    parts = [_as_wide(node, position, width) for position, width in enumerate(widths)]
    return [node.b.concat(*parts, axis=1)]


def _as_wide(node: OnnxNode, position: int, width: int) -> SSAValue:
    """An operand as rows of so many columns; a vector is one row."""
    shape, value = node.shape(position), node.cast(node.operand(position), F32)
    rows = node.reshape(value, [1, *shape]) if len(shape) == 1 else value
    if dims_of(rows)[1].constant != width:
        raise UnsupportedError(f"requires an operand of {width} columns, got {type_of(rows)}")
    return rows


def import_zip_map(node: OnnxNode) -> Sequence[SSAValue]:
    """The array of which ONNX makes maps: a column for each key, in the order of the keys."""
    keys = [name for name in ("classlabels_int64s", "classlabels_strings") if node.has(name)]
    if len(keys) != 1:
        raise ModelError(f"requires keys that are integers or strings, got {keys}")
    labels = node.attribute(keys[0])
    count, rows = len(labels.ints) + len(labels.strings), float_rows(node)
    width = dims_of(rows)[1].constant
    if width is not None and width != count:
        raise ModelError(f"requires a column for each of {count} keys, got {width}")
    return [rows]


IMPORTERS: dict[str, Importer] = {
    f"{DOMAIN}.{name}": importer
    for name, importer in {
        "ArrayFeatureExtractor": import_array_feature_extractor,
        "Binarizer": import_binarizer,
        "DictVectorizer": import_dict_vectorizer,
        "FeatureVectorizer": import_feature_vectorizer,
        "Imputer": import_imputer,
        "Normalizer": import_normalizer,
        "Scaler": import_scaler,
        "ZipMap": import_zip_map,
    }.items()
}

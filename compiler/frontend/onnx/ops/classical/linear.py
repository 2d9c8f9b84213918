"""ONNX LinearClassifier and LinearRegressor: products of rows with weights."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from weft.compiler.frontend.onnx.node import Importer, OnnxNode
from weft.compiler.frontend.onnx.ops.classical.rows import (
    DOMAIN,
    dims_of,
    float_rows,
    floats_of,
)
from weft.compiler.frontend.onnx.ops.classical.scores import (
    complemented,
    label_if,
    label_of,
    labels_of,
    require_untransformed,
    transformed,
)
from weft.dialects.errors import ModelError, UnsupportedError
from weft.dialects.graph.core.types import F32


def import_linear_regressor(node: OnnxNode) -> Sequence[SSAValue]:
    """`x @ w.T + b`, transformed."""
    scores, count = _scores(node, node.integer("targets", 1))
    if count == 1:
        require_untransformed(node)
    return [transformed(node, scores)]


def import_linear_classifier(node: OnnxNode) -> Sequence[SSAValue]:
    """The label of the greatest score, and the scores, transformed."""
    labels = labels_of(node)
    if not node.has("intercepts"):
        raise ModelError("requires intercepts, got none")
    scores, count = _scores(node, len(floats_of(node, "intercepts")))
    if count == 1:
        return _of_one_score(node, scores)
    if len(labels) != count:
        raise ModelError(f"requires a label for each of {count} scores, got {len(labels)}")
    return [label_of(node, labels, scores), transformed(node, scores)]


def _of_one_score(node: OnnxNode, score: SSAValue) -> Sequence[SSAValue]:
    """The second of two labels above zero; its score is the complement of the other's."""
    labels, name = labels_of(node), node.text("post_transform", "NONE")
    if len(labels) != 2 or name not in ("NONE", "LOGISTIC"):
        rule = "requires two labels and a post_transform of NONE or LOGISTIC for one score"
        raise UnsupportedError(f"{rule}, got {len(labels)} and {name}")
    rows, _ = dims_of(score)
    above = node.b.greater(node.reshape(score, [rows]), node.scalar(0, F32))
    return [label_if(node, labels, above), complemented(node, transformed(node, score))]


def _scores(node: OnnxNode, count: int) -> tuple[SSAValue, int]:
    """The rows' products with the weights, and how many there are for each."""
    rows, weights = float_rows(node), floats_of(node, "coefficients")
    width = dims_of(rows)[1].constant
    if count < 1 or len(weights) % count or width not in (None, len(weights) // count):
        rule = f"requires coefficients for {count} scores of {dims_of(rows)[1]} features"
        raise ModelError(f"{rule}, got {len(weights)}")
    scores = node.b.matmul(rows, node.constant(weights.reshape(count, -1).T))
    intercepts = floats_of(node, "intercepts")
    if len(intercepts) not in (0, count):
        raise ModelError(f"requires an intercept for each of {count} scores, got {len(intercepts)}")
    return (node.b.add(scores, node.constant(intercepts)) if len(intercepts) else scores), count


IMPORTERS: dict[str, Importer] = {
    f"{DOMAIN}.LinearClassifier": import_linear_classifier,
    f"{DOMAIN}.LinearRegressor": import_linear_regressor,
}

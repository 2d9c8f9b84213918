"""Scores of classes and targets: how they are transformed, and which label has won."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np
from xdsl.ir import SSAValue

from weft.compiler.frontend.onnx.node import OnnxNode
from weft.dialects.errors import ModelError, UnsupportedError
from weft.dialects.graph.core.types import F32, I64
from weft.dialects.weights import Array

NEGLIGIBLE = 1e-7
"""Scores nearer to zero stay zero in SOFTMAX_ZERO."""

WINITZKI = 0.147
"""The constant of Winitzki's approximation of the inverse error function, which ONNX names."""

LABELS = ("classlabels_int64s", "classlabels_ints")


def labels_of(node: OnnxNode) -> Array:
    """The labels of classes; of those that are strings the numbers, as which they are the first
    output.
    """
    if node.has("classlabels_strings"):
        node.give_strings(0)
        return node.text_numbers("classlabels_strings")
    given = [node.integers(name, []) for name in LABELS if node.has(name)]
    return np.array(given[0] if given else [], np.int64)


def label_of(node: OnnxNode, labels: Array, scores: SSAValue) -> SSAValue:
    """For each row the label of the greatest score, the first of equal ones."""
    winner = node.b.arg_max(scores, axis=1, keepdims=False, select_last_index=False)
    if np.array_equal(labels, np.arange(len(labels))):
        return winner
    return node.b.gather(node.constant(labels), winner, axis=0)


def label_if(node: OnnxNode, labels: Array, holds: SSAValue) -> SSAValue:
    """The second label where a bool of each row holds, else the first."""
    return node.b.where(holds, *(node.b.constant_of(each, I64) for each in labels[::-1]))


def transformed(node: OnnxNode, scores: SSAValue) -> SSAValue:
    """Several scores a row after the transformation that the node names."""
    return transformation(node)(node, scores)


def transformation(node: OnnxNode) -> Callable[[OnnxNode, SSAValue], SSAValue]:
    """The function that the node names; raises ModelError for another name."""
    name = node.text("post_transform", "NONE")
    if name not in _TRANSFORMATIONS:
        raise ModelError(f"requires a post_transform of {', '.join(_TRANSFORMATIONS)}, got {name}")
    return _TRANSFORMATIONS[name]


def require_untransformed(node: OnnxNode) -> None:
    """Raises UnsupportedError for a transformation of one score a row, of which ONNX does not say
    what it means.
    """
    name = node.text("post_transform", "NONE")
    if name != "NONE":
        raise UnsupportedError(f"requires a post_transform of NONE for one score, got {name}")


def complemented(node: OnnxNode, score: SSAValue) -> SSAValue:
    """One score a row as two: `[1 - s, s]`."""
    return _both(node, node.b.sub(node.scalar(1, F32), score), score)


def opposed(node: OnnxNode, score: SSAValue) -> SSAValue:
    """One score a row as two: `[-s, s]`."""
    return _both(node, node.b.neg(score), score)


def _both(node: OnnxNode, first: SSAValue, second: SSAValue) -> SSAValue:
    return node.b.concat(first, second, axis=1)


def _softmax_zero(node: OnnxNode, scores: SSAValue) -> SSAValue:
    """Softmax in which scores of zero, whose power counts as nothing, stay zero."""
    b = node.b
    greatest = b.op("reduce_max", scores, axes=[1], keepdims=True).results[0]
    counts = b.greater(b.abs(scores), node.scalar(NEGLIGIBLE, F32))
    rest = b.mul(scores, b.exp(b.neg(greatest)))
    powers = b.where(counts, b.exp(b.sub(scores, greatest)), rest)
    total = b.op("reduce_sum", powers, axes=[1], keepdims=True).results[0]
    return b.div(powers, total)


def _probit(node: OnnxNode, scores: SSAValue) -> SSAValue:
    """The inverse of the normal distribution, `sqrt(2) * erfinv(2 * x - 1)`, where `erfinv(y)` is
    `sqrt(sqrt(v * v - l / c) - v)` with `l = log(1 - y * y)` and `v = 2 / (pi * c) + l / 2`.
    """
    b = node.b

    def of(number: float) -> SSAValue:
        return node.scalar(number, F32)

    y = b.sub(b.mul(scores, of(2)), of(1))
    log = b.log(b.mul(b.sub(of(1), y), b.add(of(1), y)))
    v = b.add(b.mul(log, of(0.5)), of(2 / (math.pi * WINITZKI)))
    inner = b.sqrt(b.sub(b.mul(v, v), b.mul(log, of(1 / WINITZKI))))
    size = b.mul(b.sqrt(b.sub(inner, v)), of(math.sqrt(2)))
    return b.where(b.less(y, of(0)), b.neg(size), size)


_TRANSFORMATIONS: Mapping[str, Callable[[OnnxNode, SSAValue], SSAValue]] = {
    "NONE": lambda node, scores: scores,
    "LOGISTIC": lambda node, scores: node.b.sigmoid(scores),
    "SOFTMAX": lambda node, scores: node.b.softmax(scores, axis=1),
    "SOFTMAX_ZERO": _softmax_zero,
    "PROBIT": _probit,
}

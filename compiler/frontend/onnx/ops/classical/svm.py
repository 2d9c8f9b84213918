"""ONNX SVMClassifier and SVMRegressor: kernels of rows and support vectors are one product, and so
are the decisions between each two classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
from xdsl.ir import SSAValue

from weft.compiler.frontend.onnx.node import Importer, OnnxNode
from weft.compiler.frontend.onnx.ops.classical.rows import (
    DOMAIN,
    dims_of,
    float_rows,
    floats_of,
)
from weft.compiler.frontend.onnx.ops.classical.scores import (
    label_if,
    label_of,
    labels_of,
    opposed,
    require_untransformed,
    transformed,
)
from weft.dialects.errors import ModelError
from weft.dialects.graph.core.types import F32, I64
from weft.dialects.weights import Array

SURE = 1e-7
"""How near to 0 and 1 the probability of one of two classes comes."""


def import_svm_regressor(node: OnnxNode) -> Sequence[SSAValue]:
    """The sum of weighted kernels and `rho`; of one class 1 where that is above zero, else -1."""
    require_untransformed(node)
    count, weights = node.integer("n_supports", 0), floats_of(node, "coefficients")
    if count:
        values = _kernels(node, _vectors(node, count), node.text("kernel_type", "LINEAR"))
    else:
        values = float_rows(node)
    width = dims_of(values)[1].constant
    if width not in (None, len(weights)) or len(weights) < 1:
        raise ModelError(f"requires {width} coefficients, got {len(weights)}")
    products = node.b.matmul(values, node.constant(weights.reshape(-1, 1)))
    score = node.b.add(products, node.constant(_rho(node, 1)))
    if not node.flag("one_class"):
        return [score]
    above = node.b.greater(score, node.scalar(0, F32))
    return [node.b.where(above, node.scalar(1, F32), node.scalar(-1, F32))]


def import_svm_classifier(node: OnnxNode) -> Sequence[SSAValue]:
    """Each two classes decide between them; the class that wins most often, and the decisions."""
    labels = labels_of(node)
    counts = node.integers("vectors_per_class", [])
    if not sum(counts):
        return _linear(node, labels)
    if len(counts) != len(labels) or len(counts) < 2 or min(counts) < 0:
        raise ModelError(f"requires vectors of {len(labels)} classes, got {counts}")
    kernels = _kernels(node, _vectors(node, sum(counts)), node.text("kernel_type", "LINEAR"))
    pairs = list(combinations(range(len(counts)), 2))
    weights, rho = _pair_weights(node, counts, pairs), _rho(node, len(pairs))
    decisions = node.b.add(node.b.matmul(kernels, node.constant(weights)), node.constant(rho))
    if len(floats_of(node, "prob_a")):
        winner = _winner(node, labels, decisions, pairs)
        return [winner, transformed(node, _probabilities(node, decisions, pairs))]
    if len(pairs) == 1:
        return _of_two_classes(node, labels, decisions)
    return [_winner(node, labels, decisions, pairs), transformed(node, decisions)]


def _linear(node: OnnxNode, labels: Array) -> Sequence[SSAValue]:
    """A machine without support vectors has a row of coefficients and a score for each class, and
    the greatest wins. Of two classes it is the second, as onnxruntime has it, where the greatest is
    above zero, or one half where no coefficient is below zero.
    """
    b, rows, weights = node.b, float_rows(node), floats_of(node, "coefficients")
    width = dims_of(rows)[1].constant
    if (
        not len(weights)
        or len(weights) % len(labels)
        or width not in (None, len(weights) // len(labels))
    ):
        raise ModelError(f"requires {width} coefficients for each class, got {len(weights)}")
    products = b.matmul(rows, node.constant(weights.reshape(len(labels), -1).T))
    scores = b.add(products, node.constant(_rho(node, 1)))
    label = label_of(node, labels, scores)
    if len(labels) == 2 and not node.has("prob_a"):
        greatest = b.op("reduce_max", scores, axes=[1], keepdims=False).results[0]
        positive = weights.min() >= 0
        limit = node.scalar(0.5 if positive else 0, F32)
        passes = b.greater_equal(greatest, limit) if positive else b.greater(greatest, limit)
        label = b.where(passes, b.constant_of(labels[1], I64), label)
    return [label, transformed(node, scores)]


def _of_two_classes(node: OnnxNode, labels: Array, decision: SSAValue) -> Sequence[SSAValue]:
    """The first class wins above zero; the scores are the decision and its opposite."""
    rows, _ = dims_of(decision)
    first = node.b.greater(node.reshape(decision, [rows]), node.scalar(0, F32))
    require_untransformed(node)
    return [label_if(node, labels[::-1], first), opposed(node, decision)]


def _winner(
    node: OnnxNode, labels: Array, decisions: SSAValue, pairs: Sequence[tuple[int, int]]
) -> SSAValue:
    """The label with the most votes: a decision above zero is one for the pair's first class, any
    other one for its second.
    """
    votes = np.zeros((len(pairs), len(labels)), np.float32)
    for pair, (one, other) in enumerate(pairs):
        votes[pair, one], votes[pair, other] = 1, -1
    against = node.constant((votes < 0).sum(0, dtype=np.float32))
    held = node.cast(node.b.greater(decisions, node.scalar(0, F32)), F32)
    return label_of(node, labels, node.b.add(node.b.matmul(held, node.constant(votes)), against))


def _probabilities(
    node: OnnxNode, decisions: SSAValue, pairs: Sequence[tuple[int, int]]
) -> SSAValue:
    """Of each class: a decision says how probable the first of two is beside the second, and these
    are coupled.
    """
    b, slopes, offsets = node.b, floats_of(node, "prob_a"), floats_of(node, "prob_b")
    if not len(slopes) == len(offsets) == len(pairs):
        got = f"{len(slopes)} and {len(offsets)}"
        raise ModelError(f"requires prob_a and prob_b for {len(pairs)} pairs, got {got}")
    scaled = b.add(b.mul(decisions, node.constant(slopes)), node.constant(offsets))
    limits = (node.scalar(limit, F32) for limit in (SURE, 1 - SURE))
    first = b.clip(b.sigmoid(b.neg(scaled)), *limits)
    second = b.sub(node.scalar(1, F32), first)
    none = b.filled(0, first)
    count, classes = len(pairs), pairs[-1][1] + 1
    place = np.full((classes, classes), 2 * count)
    for number, (one, other) in enumerate(pairs):
        place[one, other], place[other, one] = number, count + number
    squares = b.gather(b.concat(first, second, none, axis=1), node.constant(place), axis=1)
    return b.couple_probabilities(squares, classes=[classes])


def _pair_weights(node: OnnxNode, counts: Sequence[int], pairs: Sequence[tuple[int, int]]) -> Array:
    """What each support vector adds to the decision of each pair: a vector has a coefficient for
    each other class, its own left out.
    """
    given = floats_of(node, "coefficients")
    if len(given) != (len(counts) - 1) * sum(counts):
        rule = f"requires {(len(counts) - 1) * sum(counts)} coefficients"
        raise ModelError(f"{rule}, got {len(given)}")
    coefficients = given.reshape(len(counts) - 1, -1)
    starts = np.cumsum([0, *counts])
    node.reserve(sum(counts) * len(pairs))
    weights = np.zeros((sum(counts), len(pairs)), np.float32)
    for pair, (one, other) in enumerate(pairs):
        first, second = slice(*starts[one : one + 2]), slice(*starts[other : other + 2])
        weights[first, pair] = coefficients[other - 1, first]
        weights[second, pair] = coefficients[one, second]
    return weights


def _vectors(node: OnnxNode, count: int) -> Array:
    """The support vectors as rows."""
    numbers = floats_of(node, "support_vectors")
    if count < 1 or len(numbers) % count:
        raise ModelError(f"requires {count} support vectors, got {len(numbers)} numbers")
    return numbers.reshape(count, -1)


def _rho(node: OnnxNode, count: int) -> Array:
    rho = floats_of(node, "rho")
    if len(rho) != count:
        raise ModelError(f"requires {count} numbers as rho, got {len(rho)}")
    return rho


def _kernels(node: OnnxNode, vectors: Array, name: str) -> SSAValue:
    """The kernel of each row and each support vector."""
    b, rows = node.b, float_rows(node)
    width = dims_of(rows)[1].constant
    if width not in (None, vectors.shape[1]):
        raise ModelError(f"requires support vectors of {width} features, got {vectors.shape[1]}")
    if name == "RBF":
        return _gaussian(node, rows, vectors)
    products = b.matmul(rows, node.constant(vectors.T))
    if name == "LINEAR":
        return products
    gamma, offset, degree = _parameters(node)
    scaled = b.add(b.mul(products, node.scalar(gamma, F32)), node.scalar(offset, F32))
    if name == "POLY":
        return b.pow(scaled, node.scalar(degree, F32))
    if name == "SIGMOID":
        return b.tanh(scaled)
    raise ModelError(f"requires a kernel of LINEAR, POLY, RBF or SIGMOID, got {name}")


def _gaussian(node: OnnxNode, rows: SSAValue, vectors: Array) -> SSAValue:
    """`exp(-gamma * |x - v| ** 2)`: the differences themselves, whose squares do not cancel."""
    b, (count, width) = node.b, dims_of(rows)
    apart = b.sub(node.reshape(rows, [count, 1, width]), node.constant(vectors))
    squares = b.op("reduce_sum_square", apart, axes=[2], keepdims=False).results[0]
    return b.exp(b.mul(squares, node.scalar(-_parameters(node)[0], F32)))


def _parameters(node: OnnxNode) -> tuple[float, float, float]:
    """gamma, the offset and the degree."""
    given = floats_of(node, "kernel_params")
    if len(given) != 3:
        raise ModelError(f"requires gamma, an offset and a degree, got {len(given)} numbers")
    gamma, offset, degree = (float(number) for number in given)
    return gamma, offset, degree


IMPORTERS: dict[str, Importer] = {
    f"{DOMAIN}.SVMClassifier": import_svm_classifier,
    f"{DOMAIN}.SVMRegressor": import_svm_regressor,
}

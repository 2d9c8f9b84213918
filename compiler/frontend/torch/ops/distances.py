"""ATen's distances between rows, and their derivatives."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from weft.compiler.frontend.torch.operands import AtenTable, entry, only_static
from weft.compiler.frontend.torch.ops import indexing
from weft.dialects.graph.core.algebra import Term
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.types import I64


def _norm(x: Term, p: float) -> Term:
    """Of differences along the last axis."""
    axis = [len(x.shape) - 1]
    size = x.math("abs")
    if p == 0:
        return size.equals(0).where(0.0, size.number(1)).sum(axis)
    if math.isinf(p):
        return x.of(x.b.reduce_max(size.value, axes=axis, keepdims=False))
    if p == 1:
        return size.sum(axis)
    if p == 2:
        return (x * x).sum(axis).math("sqrt")
    powers = x.of(x.b.pow(size.value, x.number(p).value)).sum(axis)
    return x.of(x.b.pow(powers.value, x.number(1 / p).value))


def _slopes(dy: Term, x: Term, norm: Term, p: float) -> Term:
    """The cotangents of differences from those of their norms; none at distances of 0."""
    size, sign = x.math("abs"), x.math("sign")
    dy, norm = dy.insert(len(dy.shape)), norm.insert(len(norm.shape))
    if p == 0:
        return x * 0.0
    if p == 1:
        return sign * dy
    if math.isinf(p):
        return size.equals(norm).where(sign * dy, 0.0)
    flat = norm.equals(0)
    safe = flat.where(1.0, norm)
    if p == 2:
        return flat.where(0.0, dy * x / safe)
    power = x.of(x.b.pow((size / safe).value, x.number(p - 1).value))
    return (flat | size.equals(0)).where(0.0, sign * power * dy)


def _differences(x1: Term, x2: Term) -> Term:
    return x1.insert(len(x1.shape) - 1) - x2.insert(len(x2.shape) - 2)


def cdist(b: GraphBuilder, x1: Term, x2: Term, p: float, compute_mode: int | None = None) -> Term:
    """The distance of each row of one matrix from each of another."""
    return _norm(_differences(x1, x2), float(p))


def cdist_backward(
    b: GraphBuilder, dy: Term, x1: Term, x2: Term, p: float, distances: Term
) -> Term:
    """The cotangents of the first matrix, one for each batch; without a batch of its own shape."""
    if 0 in dy.shape:
        return x1.number(0).expand(x1.shape)
    slopes = _slopes(dy, _differences(x1, x2), distances, float(p))
    return slopes.sum([len(slopes.shape) - 2])


def _pairs(b: GraphBuilder, x: Term) -> tuple[Term, Term]:
    """The rows of each pair of different ones."""
    (rows,) = only_static(x.shape[:1], "pdist")
    first, second = np.triu_indices(rows, 1)
    return tuple(Term(b, b.constant_of(each.astype(np.int64), I64)) for each in (first, second))  # pyright: ignore[reportReturnType]


def pdist(b: GraphBuilder, x: Term, p: float = 2) -> Term:
    """The distance of each row from each that comes after it."""
    first, second = _pairs(b, x)
    if 0 in first.shape:
        return x.number(0).expand([0])
    return _norm(x.take(first, 0) - x.take(second, 0), float(p))


def pdist_backward(b: GraphBuilder, dy: Term, x: Term, p: float, distances: Term) -> Term:
    """The cotangents of the rows."""
    first, second = _pairs(b, x)
    zeros = x.number(0).expand(x.shape)
    if 0 in first.shape:
        return zeros
    slopes = _slopes(dy, x.take(first, 0) - x.take(second, 0), distances, float(p))
    found = indexing.index_add(b, zeros, 0, first, slopes)
    return indexing.index_add(b, found, 0, second, -slopes)


TABLE: Final[AtenTable] = {
    **entry(cdist, "_cdist_forward.default"),
    **entry(cdist_backward, "_cdist_backward.default"),
    **entry(pdist, "_pdist_forward.default"),
    **entry(pdist_backward, "_pdist_backward.default"),
}

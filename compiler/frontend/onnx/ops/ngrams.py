"""ONNX TfIdfVectorizer: how often given sequences of numbers or of strings, which are numbers here,
occur, with gaps of several widths.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.ir import SSAValue

from weft.compiler.frontend.onnx.node import Importer, OnnxNode, dims_attr
from weft.compiler.frontend.onnx.ops.classical.labels import searched
from weft.dialects.errors import ModelError
from weft.dialects.expr import maximum
from weft.dialects.graph.core.algebra import Term, joined
from weft.dialects.graph.core.types import F32, I64, type_of
from weft.dialects.weights import Array


def import_tf_idf_vectorizer(node: OnnxNode) -> Sequence[SSAValue]:
    """A column for each sequence of the pool: its count, its weight where it occurs, or both."""
    mode = node.attribute("mode").s.decode(errors="replace")
    if mode not in ("TF", "IDF", "TFIDF"):
        raise ModelError(f"requires a mode of TF, IDF or TFIDF, got {mode}")
    if node.has("pool_strings") != node.has_strings(0):
        raise ModelError("requires a pool of the type of its operand, got another")
    names = ("min_gram_length", "max_gram_length", "ngram_counts")
    least, most, counts = (node.attribute(name) for name in names)
    if not 1 <= least.i <= most.i <= len(counts.ints):
        rule = f"lengths of sequences from 1 to {len(counts.ints)}"
        raise ModelError(f"requires {rule}, got {least.i} to {most.i}")
    if node.attribute("max_skip_count").i < 0:
        skipped = node.attribute("max_skip_count").i
        raise ModelError(f"requires a max_skip_count of at least 0, got {skipped}")
    shape = node.shape()
    if len(shape) not in (1, 2):
        raise ModelError(f"requires a vector or rows, got {node.type()}")
    rows = node.reshape(node.operand(0), shape if len(shape) == 2 else [1, *shape])
    pools, columns = _pools(node), np.array(node.attribute("ngram_indexes").ints, np.int64)
    if len(columns) != sum(len(pool) for pool in pools):
        raise ModelError(f"requires one index for each sequence of the pool, got {len(columns)}")
    counts = _in_columns(node, [_counts(node, rows, pool) for pool in pools], columns)
    result = _weighted(node, counts, columns, mode)
    return [result if len(shape) == 2 else node.reshape(result, type_of(result).shape[1:])]


def _pools(node: OnnxNode) -> list[Array]:
    """The sequences of each length from 1 up, as rows; the last level takes what remains."""
    strings = node.has("pool_strings")
    numbers = np.array([] if strings else node.attribute("pool_int64s").ints, np.int64)
    numbers = node.text_numbers("pool_strings") if strings else numbers
    starts = list(node.attribute("ngram_counts").ints)
    bounds = [*starts, len(numbers)]
    pools: list[Array] = []
    for length, (start, stop) in enumerate(zip(bounds, bounds[1:], strict=False), start=1):
        if not 0 <= start <= stop <= len(numbers) or (stop - start) % length:
            raise ModelError(
                f"requires ngram_counts that cut the pool into sequences, got {starts}"
            )
        pools.append(numbers[start:stop].reshape(-1, length))
    return pools


def _counts(node: OnnxNode, rows: SSAValue, pool: Array) -> SSAValue:
    """How often each sequence occurs in each row, with every gap that is allowed: each occurrence
    is found among the pool's, and counted.
    """
    b, (batch, extent), (count, length) = node.b, type_of(rows).shape, pool.shape
    shortest, longest = node.attribute("min_gram_length").i, node.attribute("max_gram_length").i
    if not shortest <= length <= longest or not count:
        return b.expand(node.scalar(0, F32), shape=dims_attr([batch, count]))
    tokens, inverse = np.unique(pool, return_inverse=True)
    numbers = _found(node, node.cast(rows, I64), tokens)
    levels, order = _prefixes(inverse.reshape(pool.shape), len(tokens) + 1)
    gaps = range(node.attribute("max_skip_count").i + 1) if length > 1 else range(1)
    found: list[Term] = []
    for distance in (gap + 1 for gap in gaps):
        positions = maximum([extent - (length - 1) * distance, 0])
        if positions == 0:
            break
        windows = [numbers.part(1, k * distance, positions) for k in range(length)]
        found.append(_sequences(node, windows, levels, len(tokens) + 1))
    if not found:
        return b.expand(node.scalar(0, F32), shape=dims_attr([batch, count]))
    place = joined(found, 1)
    distinct = int(order.max()) + 1
    index = (place < 0).where(distinct, place).value
    zeros = b.expand(node.scalar(0, F32), shape=dims_attr([batch, distinct + 1]))
    ones = b.expand(node.scalar(1, F32), shape=type_of(index).dims)
    counts = b.scatter_elements(zeros, index, ones, axis=1, reduction="add")
    return b.gather(counts, node.constant(order), axis=1)


def _prefixes(pool: Array, base: int) -> tuple[list[Array], Array]:
    """For each length from 2 on the codes of the sequences' distinct beginnings, in order: where
    the beginning before it stands there, times a base, and the next number. And where each whole
    sequence stands.
    """
    levels: list[Array] = []
    place = pool[:, 0]
    for position in range(1, pool.shape[1]):
        codes, place = np.unique(place * base + pool[:, position] + 1, return_inverse=True)
        levels.append(codes)
    return levels, place.reshape(-1).astype(np.int64)


def _sequences(node: OnnxNode, windows: Sequence[Term], levels: Sequence[Array], base: int) -> Term:
    """Which of the pool's sequences stands at each position, -1 for none."""
    place = windows[0]
    for codes, following in zip(levels, windows[1:], strict=True):
        place = _found(node, (place * base + following + 1).value, codes)
    return place


def _found(node: OnnxNode, value: SSAValue, keys: Array) -> Term:
    """Where each element stands among sorted keys, -1 for none."""
    fallback = node.b.constant_of(-1, I64)
    places = np.arange(len(keys), dtype=np.int64)
    return Term(node.b, searched(node, value, keys.astype(np.int64), places, fallback))


def _in_columns(node: OnnxNode, counts: Sequence[SSAValue], columns: Array) -> SSAValue:
    """The counts at their columns; those that no sequence has are zero."""
    if columns.size == 0 or columns.min() < 0 or len(set(columns.tolist())) < columns.size:
        raise ModelError(f"requires different indices of 0 or more, got {columns.tolist()}")
    width, batch = int(columns.max()) + 1, type_of(counts[0]).shape[0]
    node.reserve(width)
    zero = node.b.expand(node.scalar(0, F32), shape=dims_attr([batch, 1]))
    order = np.full(width, columns.size, np.int64)
    order[columns] = np.arange(columns.size)
    together = node.b.concat(*counts, zero, axis=1)
    return node.b.gather(together, node.constant(order), axis=1)


def _weighted(node: OnnxNode, counts: SSAValue, columns: Array, mode: str) -> SSAValue:
    if mode == "TF":
        return counts
    given = np.array(node.attribute("weights").floats, np.float32) if node.has("weights") else None
    weights = np.ones(int(columns.max()) + 1, np.float32)
    if given is not None:
        if len(given) != len(columns):
            raise ModelError(f"requires a weight for each sequence, got {len(given)}")
        weights[columns] = given
    if mode == "IDF":
        zero = node.scalar(0, F32)
        counts = node.cast(node.b.greater(counts, zero), F32)
    return node.b.mul(counts, node.constant(weights))


IMPORTERS: dict[str, Importer] = {"TfIdfVectorizer": import_tf_idf_vectorizer}

"""Forests as ONNX's three tree operators have them become the tables of `graph.tree_ensemble`.

Nodes are numbered: questions first, leaves behind them. ONNX has six comparisons and membership,
the tables have `<=` alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from msgspec.structs import replace
from xdsl.ir import SSAValue

from weft.compiler.frontend.onnx.node import OnnxNode
from weft.compiler.frontend.onnx.ops.classical.rows import dims_of
from weft.compiler.frontend.onnx.ops.classical.tree_tables import (
    Forest,
    Order,
    Questions,
    masks_of,
    moved_behind,
    ordered,
    with_links,
)
from weft.dialects.errors import ModelError
from weft.dialects.graph.core.dtypes import numpy_dtype
from weft.dialects.graph.core.types import type_of
from weft.dialects.weights import Array

LESS_EQUAL, LESS, GREATER_EQUAL, GREATER, EQUAL, NOT_EQUAL, MEMBER = range(7)
"""ONNX's numbers of a node's mode."""

AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")
"""How the trees' numbers for a target become one, by ONNX's numbers and names."""

AVERAGE, SUM, MIN, MAX = range(4)


def numbered(is_leaf: Array, index: Array, questions: int, leaves: int) -> Array:
    """The nodes that so many questions and leaves are, by their index among themselves. Raises
    ModelError for one that there is not.
    """
    counts = np.where(is_leaf, leaves, questions)
    outside = np.flatnonzero((index < 0) | (index >= counts))
    if len(outside):
        first = outside[0]
        what = "a leaf" if is_leaf[first] else "a node"
        raise ModelError(f"requires {what} out of {counts[first]}, got {index[first]}")
    return index + questions * is_leaf.astype(np.int64)


def walk(node: OnnxNode, forest: Forest, rows: SSAValue, aggregate: int) -> SSAValue:
    """For each row and target, the numbers of the leaves that the row comes to, as one."""
    node.reserve(forest.leaves.targets)
    _check_questions(forest.questions, rows)
    dtype = numpy_dtype(type_of(rows).element)
    forest = with_links(_compared_by_less_equal(forest, dtype))
    depths, tree_of_leaf = _explored(forest)
    order = ordered(forest)
    leaves = replace(forest.leaves, leaf=order.leaves[forest.leaves.leaf])
    forest, trees = replace(forest, leaves=leaves), tree_of_leaf[np.argsort(order.leaves)]
    weights, targets = _weights(node, forest, trees, aggregate)
    tables, bits = tables_of(forest.questions, order)
    masks = masks_of(forest, order)
    found = (masks.masks, masks.places, masks.spans) if masks is not None else ()
    ends = (order.roots.astype(np.int32), depths.astype(np.int32), weights, targets)
    total = node.b.op(
        "tree_ensemble", rows, *map(node.constant, (*tables, *ends, *found)),
        count=leaves.targets, combiner={MIN: "min", MAX: "max"}.get(aggregate, "add"),
        missing=bool(forest.questions.missing.any()), bits=bits,
    ).results[0]  # fmt: skip
    if aggregate != AVERAGE:
        return total
    return node.b.div(total, node.scalar(len(forest.roots), type_of(total).element))


def tables_of(asked: Questions, order: Order) -> tuple[Sequence[Array], int]:
    """Codes, in words of 32 bits or of 64, thresholds and leaves of the nodes, and how many bits of
    a code are below where no leads.
    """
    bits = 1 + int(asked.feature.max(initial=0)).bit_length()
    is_leaf = order.nodes >= len(asked)
    nodes = order.nodes[~is_leaf]
    codes, thresholds = order.no << bits, np.full(len(is_leaf), np.nan, asked.split.dtype)
    codes[~is_leaf] |= asked.feature[nodes] << 1 | asked.missing[nodes]
    thresholds[~is_leaf] = asked.split[nodes]
    leaves = np.where(is_leaf, np.cumsum(is_leaf) - 1, 0)
    word = np.int32 if len(codes) << bits < 1 << 31 else np.int64
    return (codes.astype(word), thresholds, leaves.astype(np.int32)), bits


def _check_questions(asked: Questions, rows: SSAValue) -> None:
    """Raises ModelError for modes and features that do not exist."""
    width = dims_of(rows)[1]
    unknown = asked.mode[(asked.mode < 0) | (asked.mode > MEMBER)]
    if len(unknown):
        raise ModelError(f"requires modes from 0 to {MEMBER}, got {unknown[0]}")
    limit = 1 << 30 if width.constant is None else width.constant
    outside = asked.feature[(asked.feature < 0) | (asked.feature >= limit)]
    if len(outside):
        raise ModelError(f"requires features out of {width}, got {outside[0]}")


# Comparisons --------------------------------------------------------------------------------------


def _compared_by_less_equal(forest: Forest, dtype: np.dtype[Any]) -> Forest:
    """Every question as one of `<=`, in the rows' dtype: `x < s` is `x <= t` with the number `t`
    below `s`, `x > s` has the answers of `x <= s` the other way round, and `x == s` takes two. NaN
    as a split has all answers false.
    """
    asked = replace(forest.questions, split=forest.questions.split.astype(dtype))
    forest = _with_second_questions(replace(forest, questions=asked))
    asked, mode = forest.questions, forest.questions.mode
    never = np.isnan(asked.split)
    below = _number_below(asked.split)
    split = np.where(np.isin(mode, (LESS, GREATER_EQUAL)), below, asked.split)
    turned = np.isin(mode, (GREATER, GREATER_EQUAL)) & ~never
    questions = Questions(
        feature=asked.feature,
        mode=np.zeros_like(mode),
        split=split,
        missing=np.where(turned, 1 - asked.missing, asked.missing),
        true=np.where(turned, asked.false, asked.true),
        false=np.where(turned, asked.true, asked.false),
    )
    return replace(forest, questions=questions)


def _number_below(split: Array) -> Array:
    """The greatest number below each; NaN, which nothing is less than, for the least of all."""
    lowest = split == -np.inf
    return np.where(lowest, np.nan, np.nextafter(split, -np.inf)).astype(split.dtype)


def _with_second_questions(forest: Forest) -> Forest:
    """`x == s` as `x <= s`, and where that is so `x >= s`; `x != s` with answers turned, where NaN
    is true.
    """
    asked, count = forest.questions, len(forest.questions)
    first = np.flatnonzero(np.isin(asked.mode, (EQUAL, NOT_EQUAL)))
    if not len(first):
        return forest
    second = count + np.arange(len(first))
    forest = moved_behind(forest, len(first))
    asked = forest.questions
    equal = asked.mode[first] == EQUAL
    yes = np.where(equal, asked.true[first], asked.false[first])
    no = np.where(equal, asked.false[first], asked.true[first])
    missing, true, false, mode = (
        each.copy() for each in (asked.missing, asked.true, asked.false, asked.mode)
    )
    missing[first] = np.where(equal, missing[first], 0)
    true[first], false[first], mode[first] = second, no, LESS_EQUAL
    # NaN comes to a second question where it counts as equal, hence as no less.
    questions = Questions(
        feature=np.append(asked.feature, asked.feature[first]),
        mode=np.append(mode, np.full(len(first), LESS)),
        split=np.append(asked.split, asked.split[first]),
        missing=np.append(missing, np.zeros(len(first), np.int64)),
        true=np.append(true, no),
        false=np.append(false, yes),
    )
    return replace(forest, questions=questions)


# Trees --------------------------------------------------------------------------------------------


def _explored(forest: Forest) -> tuple[Array, Array]:
    """How many questions each tree asks at most, and the tree that each leaf is of, -1 where it is
    of none or several. Raises ModelError where there is no end.
    """
    asked, trees = forest.questions, len(forest.roots)
    depths, tree_of_leaf = np.zeros(trees, np.int64), np.full(forest.leaves.count, -2)
    nodes, tree = forest.roots, np.arange(trees)
    for level in range(len(asked) + 2):
        is_leaf = nodes >= len(asked)
        _note_trees(tree_of_leaf, nodes[is_leaf] - len(asked), tree[is_leaf])
        nodes, tree = nodes[~is_leaf], tree[~is_leaf]
        if not len(nodes):
            return depths, np.maximum(tree_of_leaf, -1)
        depths[tree] = level + 1
        ends = np.append(asked.true[nodes], asked.false[nodes])
        stride = len(asked) + forest.leaves.count
        key = np.unique(np.append(tree, tree) * stride + ends)
        nodes, tree = key % stride, key // stride
    raise ModelError("requires trees, got nodes that lead back to themselves")


def _note_trees(tree_of_leaf: Array, leaves: Array, tree: Array) -> None:
    known = tree_of_leaf[leaves]
    tree_of_leaf[leaves] = np.where((known == -2) | (known == tree), tree, -1)
    again, counts = np.unique(leaves, return_counts=True)
    tree_of_leaf[again[counts > 1]] = -1


def _weights(node: OnnxNode, forest: Forest, tree_of_leaf: Array, how: int) -> tuple[Array, Array]:
    """What each leaf has for some neighbouring targets, and the first of them for each tree: one
    target where each tree is for one, as those of boosted classes are.
    """
    leaves, trees = forest.leaves, len(forest.roots)
    tree = tree_of_leaf[leaves.leaf]
    first, last = np.full(trees, leaves.targets), np.full(trees, -1)
    alone = bool((tree_of_leaf >= 0).all())
    if alone:
        np.minimum.at(first, tree, leaves.target)
        np.maximum.at(last, tree, leaves.target)
    width = max(1, int((last - first).max()) + 1) if alone else leaves.targets
    first = np.minimum(first, leaves.targets - width) if alone else np.zeros(trees, np.int64)
    node.reserve(leaves.count * width)
    limits = np.finfo(leaves.weight.dtype)
    absent = {MIN: limits.max, MAX: limits.min}.get(how, 0)
    table = np.full((leaves.count, width), absent, leaves.weight.dtype)
    place = leaves.leaf, leaves.target - first[tree]
    combine = {MIN: np.minimum, MAX: np.maximum}.get(how, np.add)
    combine.at(table, place, leaves.weight)
    return table, first.astype(np.int32)

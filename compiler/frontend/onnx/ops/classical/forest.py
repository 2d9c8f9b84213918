"""Forests as ONNX's three tree operators have them: all rows go down all trees together, one level
at a time.

Questions and leaves are tables. Where a row stands in a tree is an index into them; leaves are
behind the questions and lead to themselves.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct
from xdsl.ir import SSAValue

from weft.compiler.frontend.onnx.node import OnnxNode, dims_attr
from weft.compiler.frontend.onnx.ops.classical.rows import dims_of
from weft.dialects.errors import ModelError
from weft.dialects.graph.core.dtypes import numpy_dtype
from weft.dialects.graph.core.types import BOOL, I64, type_of
from weft.dialects.weights import Array

EQUAL, NOT_EQUAL, MEMBER = 4, 5, 6
COMPARISONS = ("less_equal", "less", "greater_equal", "greater", "equal")
"""Graph operators by ONNX's number of a node's mode; NOT_EQUAL is the negation of the last."""

AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")
"""How the trees' numbers for a target become one, by ONNX's numbers and names."""

AVERAGE, SUM, MIN, MAX = range(4)


class Lead(Struct, frozen=True):
    """Where an answer leads: to a leaf, or to a question."""

    is_leaf: bool
    index: int


class Question(Struct, frozen=True):
    """`row[feature] <mode> split`; what is missing, NaN, counts as true where it says so."""

    feature: int
    mode: int
    split: float
    missing: bool
    true: Lead
    false: Lead


class Forest(Struct, frozen=True):
    """All questions, where each tree begins, and what each leaf has for each target."""

    questions: Sequence[Question]
    roots: Sequence[Lead]
    weights: Array

    def node_index(self, lead: Lead) -> int:
        """The index into tables of questions and leaves."""
        count = len(self.weights) if lead.is_leaf else len(self.questions)
        if not 0 <= lead.index < count:
            what = "a leaf" if lead.is_leaf else "a node"
            raise ModelError(f"requires {what} out of {count}, got {lead.index}")
        return lead.index + len(self.questions) * lead.is_leaf

    @property
    def depth(self) -> int:
        """How many questions are asked at most; raises ModelError where there is no end."""
        level, depth = {self.node_index(root) for root in self.roots}, 0
        while inside := [position for position in level if position < len(self.questions)]:
            asked = [self.questions[position] for position in inside]
            level = {self.node_index(lead) for each in asked for lead in (each.true, each.false)}
            depth += 1
            if depth > len(self.questions):
                raise ModelError("requires trees, got nodes that lead back to themselves")
        return depth


def walk(node: OnnxNode, forest: Forest, rows: SSAValue, aggregate: int) -> SSAValue:
    """For each row and target, the numbers of the leaves that the row comes to, as one."""
    roots = np.array([[forest.node_index(root) for root in forest.roots]], np.int64)
    depth, shape = forest.depth, dims_attr([dims_of(rows)[0], len(forest.roots)])
    node_index = node.b.expand(node.constant(roots), shape=shape)
    for _ in range(depth):
        node_index = _step(node, forest, rows, node_index)
    leaf = node.b.sub(node_index, node.scalar(len(forest.questions), I64))
    given = _looked_up(node, forest.weights, leaf)
    name = {MIN: "reduce_min", MAX: "reduce_max"}.get(aggregate, "reduce_sum")
    total = node.b.op(name, given, axes=[1], keepdims=False).results[0]
    if aggregate != AVERAGE:
        return total
    return node.b.div(total, node.scalar(len(forest.roots), type_of(total).element))


def leaf_weights(
    node: OnnxNode, leaves: Array, targets: Array, weights: Array, shape: tuple[int, int], how: int
) -> Array:
    """What each leaf has for each target, as a table of that shape; what it does not name leaves
    the aggregate as it is.
    """
    node.reserve(shape[0] * shape[1])
    limits = np.finfo(weights.dtype)
    absent = {MIN: limits.max, MAX: limits.min}.get(how, 0)
    table = np.full(shape, absent, weights.dtype)
    if how in (MIN, MAX):
        combine = np.minimum if how == MIN else np.maximum
        combine.at(table, (leaves, targets), weights)
    else:
        np.add.at(table, (leaves, targets), weights)
    return table


def _looked_up(node: OnnxNode, table: Array, node_index: SSAValue) -> SSAValue:
    return node.b.gather(node.constant(table), node_index, axis=0)


def _step(node: OnnxNode, forest: Forest, rows: SSAValue, node_index: SSAValue) -> SSAValue:
    """Where each row stands one level further down."""
    b, asked, leaves = node.b, forest.questions, len(forest.weights)

    def of(numbers: list[int]) -> SSAValue:
        return _looked_up(node, np.array(numbers + [0] * leaves, np.int64), node_index)

    value = b.gather_elements(rows, of([each.feature for each in asked]), axis=1)
    splits = np.array([each.split for each in asked] + [0.0] * leaves)
    split = _looked_up(node, splits.astype(numpy_dtype(type_of(rows).element)), node_index)
    modes = [each.mode for each in asked]
    answer = _answer(node, set(modes), value, split, of(modes))
    if any(each.missing for each in asked):
        missing = node.cast(of([int(each.missing) for each in asked]), BOOL)
        answer = b.logical_or(answer, b.logical_and(b.is_nan(value), missing))
    ends = list(range(len(asked), len(asked) + leaves))
    true = np.array([*(forest.node_index(each.true) for each in asked), *ends], np.int64)
    false = np.array([*(forest.node_index(each.false) for each in asked), *ends], np.int64)
    return b.where(answer, _looked_up(node, true, node_index), _looked_up(node, false, node_index))


def _answer(
    node: OnnxNode, modes: set[int], value: SSAValue, split: SSAValue, mode: SSAValue
) -> SSAValue:
    """Whether the value compares with the split as the mode says."""
    answer: SSAValue | None = None
    for number in sorted(modes):
        this = node.b.op(COMPARISONS[min(number, EQUAL)], value, split).results[0]
        if number == NOT_EQUAL:
            this = node.b.logical_not(this)
        if answer is not None:
            this = node.b.where(node.b.equal(mode, node.scalar(number, I64)), this, answer)
        answer = this
    assert answer is not None, "a step is made where there are questions"
    return answer


def check_questions(node: OnnxNode, questions: Sequence[Question], rows: SSAValue) -> None:
    """Raises ModelError for modes and features that do not exist."""
    width = dims_of(rows)[1]
    for each in questions:
        if not 0 <= each.mode <= MEMBER:
            raise ModelError(f"requires modes from 0 to {MEMBER}, got {each.mode}")
        if each.feature < 0 or (width.constant is not None and each.feature >= width.constant):
            raise ModelError(f"requires features out of {width}, got {each.feature}")

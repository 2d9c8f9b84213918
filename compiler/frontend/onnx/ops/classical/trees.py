"""ONNX TreeEnsemble: all rows go down all trees together, one level at a time.

Questions and leaves are tables. Where a row stands in a tree is an index into them; leaves are
behind the questions and lead to themselves.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from xdsl.ir import SSAValue

from weft.compiler.frontend.onnx.node import Importer, OnnxNode, dims_attr
from weft.compiler.frontend.onnx.tensor import tensor_array
from weft.dialects.errors import ModelError, UnsupportedError
from weft.dialects.graph.core.dtypes import numpy_dtype
from weft.dialects.graph.core.types import BOOL, I64, type_of
from weft.dialects.weights import Array

EQUAL, NOT_EQUAL, MEMBER = 4, 5, 6
COMPARISONS = ("less_equal", "less", "greater_equal", "greater", "equal")
"""Graph operators by ONNX's number of a node's mode; NOT_EQUAL is the negation of the last."""

AVERAGE, SUM, MIN, MAX = range(4)


class _Lead(Struct, frozen=True):
    """Where an answer leads: to a leaf, or to a question."""

    is_leaf: bool
    index: int


class _Question(Struct, frozen=True):
    """`row[feature] <mode> split`; what is missing, NaN, counts as true where it says so."""

    feature: int
    mode: int
    split: float
    missing: bool
    true: _Lead
    false: _Lead


class _Forest(Struct, frozen=True):
    """All questions, and what each leaf adds to which target."""

    questions: Sequence[_Question]
    roots: Sequence[int]
    weights: Array
    targets: Array

    def node_index(self, lead: _Lead) -> int:
        """The index into tables of questions and leaves."""
        count = len(self.weights) if lead.is_leaf else len(self.questions)
        if not 0 <= lead.index < count:
            what = "a leaf" if lead.is_leaf else "a node"
            raise ModelError(f"requires {what} out of {count}, got {lead.index}")
        return lead.index + len(self.questions) * lead.is_leaf

    @property
    def depth(self) -> int:
        """How many questions are asked at most; raises ModelError where there is no end."""
        level, depth = {self.node_index(_Lead(False, root)) for root in self.roots}, 0
        while inside := [position for position in level if position < len(self.questions)]:
            asked = [self.questions[position] for position in inside]
            level = {self.node_index(lead) for each in asked for lead in (each.true, each.false)}
            depth += 1
            if depth > len(self.questions):
                raise ModelError("requires trees, got nodes that lead back to themselves")
        return depth


def import_tree_ensemble(node: OnnxNode) -> Sequence[SSAValue]:
    """For each row and target, the weights of the leaves that the row comes to, combined."""
    if node.integer("post_transform", 0):
        raise UnsupportedError("requires no post_transform, got one")
    forest = _Forest(
        _questions(node),
        node.attribute("tree_roots").ints,
        _tensor(node, "leaf_weights"),
        np.array(node.attribute("leaf_targetids").ints, np.int64),
    )
    if len(forest.targets) != len(forest.weights):
        raise ModelError(f"requires a target for each leaf, got {len(forest.targets)}")
    count, targets = node.attribute("n_targets").i, forest.targets
    if not targets.size or targets.min() < 0 or targets.max() >= count:
        rule = f"requires targets of leaves from 0 to {count - 1}"
        raise ModelError(f"{rule}, got {targets.tolist()[:8]}")
    node.reserve(count)
    roots = node.constant(np.array([forest.roots], np.int64))
    shape = dims_attr([node.shape()[0], len(forest.roots)])
    node_index = node.b.expand(roots, shape=shape)
    for _ in range(forest.depth):
        node_index = _step(node, forest, node_index)
    leaf = node.b.sub(node_index, node.scalar(len(forest.questions), I64))
    weights = _looked_up(node, forest.weights.astype(numpy_dtype(node.type().element)), leaf)
    return [_combined(node, weights, _looked_up(node, forest.targets, leaf))]


def _looked_up(node: OnnxNode, table: Array, node_index: SSAValue) -> SSAValue:
    return node.b.gather(node.constant(table), node_index, axis=0)


def _step(node: OnnxNode, forest: _Forest, node_index: SSAValue) -> SSAValue:
    """Where each row stands one level further down."""
    b, asked, leaves = node.b, forest.questions, len(forest.weights)

    def of(numbers: list[int]) -> SSAValue:
        return _looked_up(node, np.array(numbers + [0] * leaves, np.int64), node_index)

    value = b.gather_elements(node.operand(0), of([each.feature for each in asked]), axis=1)
    splits = np.array([each.split for each in asked] + [0.0] * leaves)
    split = _looked_up(node, splits.astype(numpy_dtype(node.type().element)), node_index)
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


def _combined(node: OnnxNode, weights: SSAValue, targets: SSAValue) -> SSAValue:
    """The weights of each target over the trees."""
    batch, trees = type_of(weights).shape
    count, how = node.attribute("n_targets").i, node.integer("aggregate_function", SUM)
    if how not in (AVERAGE, SUM, MIN, MAX):
        raise ModelError(f"requires an aggregate_function from 0 to 3, got {how}")
    element, b = node.type().element, node.b
    columns = node.constant(np.arange(count).reshape(1, 1, count))
    meant = b.equal(node.reshape(targets, [batch, trees, 1]), columns)
    limits = np.finfo(numpy_dtype(element))
    absent = float({MIN: limits.max, MAX: limits.min}.get(how, 0))
    given = b.where(meant, node.reshape(weights, [batch, trees, 1]), node.scalar(absent, element))
    name = {MIN: "reduce_min", MAX: "reduce_max"}.get(how, "reduce_sum")
    total = b.op(name, given, axes=[1], keepdims=False).results[0]
    trees_count = len(node.attribute("tree_roots").ints)
    return b.div(total, node.scalar(trees_count, element)) if how == AVERAGE else total


# Questions ----------------------------------------------------------------------------------------


def _tensor(node: OnnxNode, name: str) -> Array:
    return tensor_array(node.attribute(name).t, node.base_dir)


def _questions(node: OnnxNode) -> list[_Question]:
    """The nodes as they are stored; one of membership becomes one of equality for each member."""
    features = list(node.attribute("nodes_featureids").ints)
    columns = (
        features,
        [int(mode) for mode in _tensor(node, "nodes_modes").tolist()],
        [float(split) for split in _tensor(node, "nodes_splits").tolist()],
        [bool(x) for x in node.integers("nodes_missing_value_tracks_true", [0] * len(features))],
        _leads(node, "true"),
        _leads(node, "false"),
    )
    if len({len(column) for column in columns}) != 1:
        raise ModelError(f"requires nodes of equally many parts, got {[len(c) for c in columns]}")
    questions = [_Question(*parts) for parts in zip(*columns, strict=True)]
    width = node.shape()[1].constant
    for each in questions:
        if not 0 <= each.mode <= MEMBER:
            raise ModelError(f"requires modes from 0 to {MEMBER}, got {each.mode}")
        if each.feature < 0 or (width is not None and each.feature >= width):
            raise ModelError(f"requires features out of {node.shape()[1]}, got {each.feature}")
    return _with_members(node, questions)


def _leads(node: OnnxNode, answer: str) -> list[_Lead]:
    are_leaves = node.attribute(f"nodes_{answer}leafs").ints
    indices = node.attribute(f"nodes_{answer}nodeids").ints
    if len(are_leaves) != len(indices):
        rule = f"requires a node or leaf for each answer {answer}"
        raise ModelError(f"{rule}, got {len(are_leaves)} and {len(indices)}")
    return [_Lead(bool(leaf), index) for leaf, index in zip(are_leaves, indices, strict=True)]


def _with_members(node: OnnxNode, questions: Sequence[_Question]) -> list[_Question]:
    """Each question of membership as one for its first member, which continues with the others."""
    stored: list[float] = (
        _tensor(node, "membership_values").tolist() if node.has("membership_values") else []
    )
    members: list[list[float]] = [[]]
    for value in stored:
        members[-1:] = [members[-1], []] if np.isnan(value) else [[*members[-1], value]]
    asking = [position for position, each in enumerate(questions) if each.mode == MEMBER]
    if len(members) - 1 != len(asking):
        raise ModelError(f"requires members for {len(asking)} nodes, got {len(members) - 1}")
    expanded = list(questions)
    for position, values in zip(asking, members, strict=False):
        question = replace(questions[position], mode=EQUAL, split=np.nan)
        for value in values[:0:-1]:
            expanded.append(replace(question, split=value))
            question = replace(question, false=_Lead(False, len(expanded) - 1))
        expanded[position] = replace(question, split=values[0] if values else np.nan)
    return expanded


IMPORTERS: dict[str, Importer] = {"ai.onnx.ml.TreeEnsemble": import_tree_ensemble}

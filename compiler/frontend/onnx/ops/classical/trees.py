"""ONNX TreeEnsemble: trees whose leaves are stored apart from their nodes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec.structs import replace
from xdsl.ir import SSAValue

from weft.compiler.frontend.onnx.node import Importer, OnnxNode
from weft.compiler.frontend.onnx.ops.classical.forest import (
    AGGREGATES,
    EQUAL,
    MEMBER,
    SUM,
    numbered,
    walk,
)
from weft.compiler.frontend.onnx.ops.classical.rows import DOMAIN, rows_of
from weft.compiler.frontend.onnx.ops.classical.tree_tables import (
    Forest,
    Leaves,
    Questions,
    moved_behind,
)
from weft.compiler.frontend.onnx.tensor import tensor_array
from weft.dialects.errors import ModelError, UnsupportedError
from weft.dialects.graph.core.dtypes import numpy_dtype
from weft.dialects.graph.core.types import type_of
from weft.dialects.weights import Array


def import_tree_ensemble(node: OnnxNode) -> Sequence[SSAValue]:
    """For each row and target, the weights of the leaves that the row comes to, combined."""
    if node.integer("post_transform", 0):
        raise UnsupportedError("requires no post_transform, got one")
    how = node.integer("aggregate_function", SUM)
    if not 0 <= how < len(AGGREGATES):
        raise ModelError(f"requires an aggregate_function from 0 to 3, got {how}")
    rows = rows_of(node)
    leaves = _leaves(node, rows)
    questions = _questions(node, leaves.count)
    roots = _whole(node, "tree_roots")
    none = np.zeros(len(roots), bool)
    forest = Forest(questions, numbered(none, roots, len(questions), leaves.count), leaves)
    return [walk(node, _with_members(node, forest), rows, how)]


def _leaves(node: OnnxNode, rows: SSAValue) -> Leaves:
    """What each leaf has for its target."""
    weights = _tensor(node, "leaf_weights").astype(numpy_dtype(type_of(rows).element))
    targets = _whole(node, "leaf_targetids")
    if len(targets) != len(weights):
        raise ModelError(f"requires a target for each leaf, got {len(targets)}")
    count = node.attribute("n_targets").i
    if not targets.size or targets.min() < 0 or targets.max() >= count:
        rule = f"requires targets of leaves from 0 to {count - 1}"
        raise ModelError(f"{rule}, got {targets.tolist()[:8]}")
    return Leaves(len(weights), count, np.arange(len(weights)), targets, weights)


# Questions ----------------------------------------------------------------------------------------


def _tensor(node: OnnxNode, name: str) -> Array:
    return tensor_array(node.attribute(name).t, node.base_dir).reshape(-1)


def _whole(node: OnnxNode, name: str) -> Array:
    return np.array(node.attribute(name).ints, np.int64)


def _questions(node: OnnxNode, leaves: int) -> Questions:
    """The nodes as they are stored."""
    features = _whole(node, "nodes_featureids")
    missing = np.array(node.integers("nodes_missing_value_tracks_true", [0] * len(features)))
    columns = (
        features,
        _tensor(node, "nodes_modes").astype(np.int64),
        _tensor(node, "nodes_splits"),
        (missing != 0).astype(np.int64),
    )
    ends = [_whole(node, f"nodes_{answer}nodeids") for answer in ("true", "false")]
    lengths = [len(each) for each in (*columns, *ends)]
    if len(set(lengths)) != 1:
        raise ModelError(f"requires nodes of equally many parts, got {lengths}")
    leads = (_leads(node, answer, len(features), leaves) for answer in ("true", "false"))
    return Questions(*columns, *leads)


def _leads(node: OnnxNode, answer: str, questions: int, leaves: int) -> Array:
    are_leaves = _whole(node, f"nodes_{answer}leafs")
    indices = _whole(node, f"nodes_{answer}nodeids")
    if len(are_leaves) != len(indices):
        rule = f"requires a node or leaf for each answer {answer}"
        raise ModelError(f"{rule}, got {len(are_leaves)} and {len(indices)}")
    return numbered(are_leaves != 0, indices, questions, leaves)


def _with_members(node: OnnxNode, forest: Forest) -> Forest:
    """Each question of membership as one for its first member, which continues with the others."""
    members = _members(node)
    asking = np.flatnonzero(forest.questions.mode == MEMBER)
    if len(members) != len(asking):
        raise ModelError(f"requires members for {len(asking)} nodes, got {len(members)}")
    if not len(asking):
        return forest
    count, more = len(forest.questions), [max(0, len(each) - 1) for each in members]
    asked = moved_behind(forest, sum(more)).questions
    source = np.append(np.arange(count), np.repeat(asking, more))
    split, mode, false = asked.split[source], asked.mode[source], asked.false[source]
    mode[mode == MEMBER] = EQUAL
    ends = count + np.cumsum(more)
    parts = zip(asking.tolist(), members, ends.tolist(), more, strict=True)
    for position, values, end, others in parts:
        chain = [position, *range(end - others, end)]
        split[chain] = values or np.nan
        false[chain[:-1]] = chain[1:]
    questions = Questions(
        asked.feature[source], mode, split, asked.missing[source], asked.true[source], false
    )
    return replace(moved_behind(forest, sum(more)), questions=questions)


def _members(node: OnnxNode) -> list[list[float]]:
    """The members of each node that has some; NaN ends a list."""
    stored: list[float] = (
        _tensor(node, "membership_values").tolist() if node.has("membership_values") else []
    )
    members: list[list[float]] = [[]]
    for value in stored:
        members[-1:] = [members[-1], []] if np.isnan(value) else [[*members[-1], value]]
    return members[:-1]


IMPORTERS: dict[str, Importer] = {f"{DOMAIN}.TreeEnsemble": import_tree_ensemble}

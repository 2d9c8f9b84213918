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
    Forest,
    Lead,
    Question,
    check_questions,
    leaf_weights,
    walk,
)
from weft.compiler.frontend.onnx.ops.classical.rows import DOMAIN, rows_of
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
    roots = [Lead(False, root) for root in node.attribute("tree_roots").ints]
    forest = Forest(_questions(node, rows), roots, _weights(node, rows, how))
    return [walk(node, forest, rows, how)]


def _weights(node: OnnxNode, rows: SSAValue, how: int) -> Array:
    """What each leaf has for its target."""
    weights = _tensor(node, "leaf_weights").astype(numpy_dtype(type_of(rows).element))
    targets = np.array(node.attribute("leaf_targetids").ints, np.int64)
    if len(targets) != len(weights):
        raise ModelError(f"requires a target for each leaf, got {len(targets)}")
    count = node.attribute("n_targets").i
    if not targets.size or targets.min() < 0 or targets.max() >= count:
        rule = f"requires targets of leaves from 0 to {count - 1}"
        raise ModelError(f"{rule}, got {targets.tolist()[:8]}")
    shape = (len(weights), count)
    return leaf_weights(node, np.arange(len(weights)), targets, weights, shape, how)


# Questions ----------------------------------------------------------------------------------------


def _tensor(node: OnnxNode, name: str) -> Array:
    return tensor_array(node.attribute(name).t, node.base_dir)


def _questions(node: OnnxNode, rows: SSAValue) -> list[Question]:
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
    questions = [Question(*parts) for parts in zip(*columns, strict=True)]
    check_questions(node, questions, rows)
    return _with_members(node, questions)


def _leads(node: OnnxNode, answer: str) -> list[Lead]:
    are_leaves = node.attribute(f"nodes_{answer}leafs").ints
    indices = node.attribute(f"nodes_{answer}nodeids").ints
    if len(are_leaves) != len(indices):
        rule = f"requires a node or leaf for each answer {answer}"
        raise ModelError(f"{rule}, got {len(are_leaves)} and {len(indices)}")
    return [Lead(bool(leaf), index) for leaf, index in zip(are_leaves, indices, strict=True)]


def _with_members(node: OnnxNode, questions: Sequence[Question]) -> list[Question]:
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
            question = replace(question, false=Lead(False, len(expanded) - 1))
        expanded[position] = replace(question, split=values[0] if values else np.nan)
    return expanded


IMPORTERS: dict[str, Importer] = {f"{DOMAIN}.TreeEnsemble": import_tree_ensemble}

"""ONNX TreeEnsembleClassifier and TreeEnsembleRegressor: trees whose leaves are nodes, and whose
leaves' numbers are listed by tree and node.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from xdsl.ir import SSAValue

from weft.compiler.frontend.onnx.node import Importer, OnnxNode, decode
from weft.compiler.frontend.onnx.ops.classical.forest import (
    AGGREGATES,
    MAX,
    MIN,
    SUM,
    Forest,
    Lead,
    Question,
    check_questions,
    leaf_weights,
    walk,
)
from weft.compiler.frontend.onnx.ops.classical.rows import DOMAIN, dims_of, numbers_of, rows_of
from weft.compiler.frontend.onnx.ops.classical.scores import (
    complemented,
    label_if,
    label_of,
    labels_of,
    opposed,
    require_untransformed,
    transformed,
)
from weft.dialects.errors import ModelError, UnsupportedError
from weft.dialects.graph.core.types import F32
from weft.dialects.weights import Array

MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")
"""By the number that TreeEnsemble has for them."""

LEAF = "LEAF"

Name = tuple[int, int]
"""A node's tree and its number there."""


def import_tree_ensemble_regressor(node: OnnxNode) -> Sequence[SSAValue]:
    """The leaves' numbers for each target as one, and the base value."""
    how = node.text("aggregate_function", "SUM")
    if how not in AGGREGATES:
        raise ModelError(f"requires an aggregate_function of {', '.join(AGGREGATES)}, got {how}")
    count = node.attribute("n_targets").i
    if count == 1:
        require_untransformed(node)
    total = _total(node, "target", count, AGGREGATES.index(how))
    return [transformed(node, _with_base(node, total, count))]


def import_tree_ensemble_classifier(node: OnnxNode) -> Sequence[SSAValue]:
    """The label of the greatest sum of the leaves' numbers, and these sums, transformed."""
    labels, ids = labels_of(node), set(node.integers("class_ids", []))
    if len(labels) < 2:
        raise UnsupportedError(f"requires two labels at least, got {len(labels)}")
    if len(labels) == 2 and len(ids) == 1:
        return _of_one_class(node, labels, ids.pop())
    scores = _with_base(node, _total(node, "class", len(labels), SUM), len(labels))
    return [label_of(node, labels, scores), transformed(node, scores)]


def _of_one_class(node: OnnxNode, labels: Array, named: int) -> Sequence[SSAValue]:
    """Leaves that speak for one of two classes alone: where no weight is negative the sum is a
    probability, which wins above a half, and otherwise a margin, which wins above zero. As
    onnxruntime has it, it is that of the second class, whichever the leaves name.
    """
    if named != 0:
        raise UnsupportedError("requires leaves that name both classes or the first, got the other")
    score = _with_base(node, _total(node, "class", 1, SUM), 1)
    positive = bool((numbers_of(node, "class_weights") >= 0).all())
    rows, _ = dims_of(score)
    limit = node.scalar(0.5 if positive else 0.0, F32)
    label = label_if(node, labels, node.b.greater(node.reshape(score, [rows]), limit))
    name = node.text("post_transform", "NONE")
    if name == "PROBIT":
        raise UnsupportedError("requires a post_transform that is not PROBIT for one score, got it")
    if name == "LOGISTIC":
        return [label, transformed(node, opposed(node, score))]
    return [label, (complemented if positive else opposed)(node, score)]


def _with_base(node: OnnxNode, total: SSAValue, count: int) -> SSAValue:
    """The sums in f32, which is what these operators give, with the base values."""
    base = numbers_of(node, "base_values")
    if not len(base):
        return node.cast(total, F32)
    if len(base) != count:
        raise UnsupportedError(f"requires a base value for each of {count} scores, got {len(base)}")
    return node.b.add(node.cast(total, F32), node.constant(base.astype(np.float32)))


def _total(node: OnnxNode, role: str, count: int, how: int) -> SSAValue:
    """The numbers of the leaves that each row comes to; `role` is what they are listed for."""
    rows, names = rows_of(node), _names(node)
    modes = [decode(mode) for mode in node.attribute("nodes_modes").strings]
    unknown = sorted(set(modes) - {*MODES, LEAF})
    if unknown or len(modes) != len(names):
        raise ModelError(f"requires a mode of {', '.join(MODES)} or LEAF for each node, got others")
    leads = _leads(names, modes)
    questions = _questions(node, names, modes, leads)
    check_questions(node, questions, rows)
    weights = _weights(node, role, leads, count, how)
    forest = Forest(questions, _roots(node, names, modes, leads), weights)
    return walk(node, forest, rows, how)


def _names(node: OnnxNode) -> list[Name]:
    trees, numbers = node.integers("nodes_treeids", []), node.integers("nodes_nodeids", [])
    names = list(zip(trees, numbers, strict=False))
    if len(trees) != len(numbers) or len(set(names)) != len(names) or not names:
        raise ModelError(f"requires nodes that differ in tree or number, got {len(names)}")
    return names


def _leads(names: Sequence[Name], modes: Sequence[str]) -> Mapping[Name, Lead]:
    """Leaves and questions are counted apart, in the order in which they are listed."""
    leads: dict[Name, Lead] = {}
    counts = {True: 0, False: 0}
    for name, mode in zip(names, modes, strict=True):
        is_leaf = mode == LEAF
        leads[name] = Lead(is_leaf, counts[is_leaf])
        counts[is_leaf] += 1
    return leads


def _questions(
    node: OnnxNode, names: Sequence[Name], modes: Sequence[str], leads: Mapping[Name, Lead]
) -> list[Question]:
    """The nodes that are no leaves."""
    values = numbers_of(node, "nodes_values").tolist()
    missing = node.integers("nodes_missing_value_tracks_true", []) or [0] * len(names)
    features = node.integers("nodes_featureids", [])
    ends = [node.integers(f"nodes_{answer}nodeids", []) for answer in ("true", "false")]
    lengths = {len(each) for each in (values, missing, features, *ends)}
    if lengths != {len(names)}:
        raise ModelError(f"requires nodes of equally many parts, got {sorted(lengths)}")
    columns = zip(names, modes, features, values, missing, *ends, strict=True)
    return [
        Question(
            feature, MODES.index(mode), value, bool(tracks),
            _led(leads, (name[0], true)), _led(leads, (name[0], false)),
        )
        for name, mode, feature, value, tracks, true, false in columns
        if mode != LEAF
    ]  # fmt: skip


def _led(leads: Mapping[Name, Lead], name: Name) -> Lead:
    if name not in leads:
        raise ModelError(f"requires a node out of its tree, got {name[1]} in tree {name[0]}")
    return leads[name]


def _roots(
    node: OnnxNode, names: Sequence[Name], modes: Sequence[str], leads: Mapping[Name, Lead]
) -> list[Lead]:
    """In each tree the one node to which no other leads."""
    ends = [node.integers(f"nodes_{answer}nodeids", []) for answer in ("true", "false")]
    led = {
        (name[0], end)
        for name, mode, *both in zip(names, modes, *ends, strict=True)
        if mode != LEAF
        for end in both
    }
    roots = [name for name in names if name not in led]
    trees = {tree for tree, _ in names}
    if {tree for tree, _ in roots} != trees or len(roots) != len(trees):
        raise ModelError(f"requires a root for each of {len(trees)} trees, got {len(roots)}")
    return [leads[name] for name in roots]


def _weights(node: OnnxNode, role: str, leads: Mapping[Name, Lead], count: int, how: int) -> Array:
    """What each leaf has for each target or class."""
    trees, numbers = (node.integers(f"{role}_{what}ids", []) for what in ("tree", "node"))
    targets = np.array(node.integers(f"{role}_ids", []), np.int64)
    weights = numbers_of(node, f"{role}_weights")
    if len({len(trees), len(numbers), len(targets), len(weights)}) != 1 or not len(targets):
        raise ModelError(f"requires a tree, a node and a {role} for each weight, got others")
    if targets.min() < 0 or targets.max() >= count:
        raise ModelError(f"requires a {role} from 0 to {count - 1}, got {targets.tolist()[:8]}")
    named = [_led(leads, name) for name in zip(trees, numbers, strict=True)]
    if not all(lead.is_leaf for lead in named):
        raise ModelError("requires weights of leaves, got one of a node that is none")
    leaves = np.array([lead.index for lead in named], np.int64)
    shape = (sum(lead.is_leaf for lead in leads.values()), count)
    if how in (MIN, MAX) and len(set(zip(leaves, targets, strict=True))) < shape[0] * count:
        raise UnsupportedError(f"requires a weight of each leaf for each {role} in MIN and MAX")
    return leaf_weights(node, leaves, targets, weights, shape, how)


IMPORTERS: dict[str, Importer] = {
    f"{DOMAIN}.TreeEnsembleClassifier": import_tree_ensemble_classifier,
    f"{DOMAIN}.TreeEnsembleRegressor": import_tree_ensemble_regressor,
}

"""ONNX TreeEnsembleClassifier and TreeEnsembleRegressor: trees whose leaves are nodes, and whose
leaves' numbers are listed by tree and node.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct
from xdsl.ir import SSAValue

from weft.compiler.frontend.onnx.node import Importer, OnnxNode, decode
from weft.compiler.frontend.onnx.ops.classical.forest import (
    AGGREGATES,
    MAX,
    MIN,
    SUM,
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
from weft.compiler.frontend.onnx.ops.classical.tree_tables import Forest, Leaves, Questions
from weft.dialects.errors import ModelError, UnsupportedError
from weft.dialects.graph.core.types import F32
from weft.dialects.weights import Array

MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")
"""By the number that TreeEnsemble has for them."""

LEAF = "LEAF"


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
    rows, listed = rows_of(node), _listed(node)
    questions = _questions(node, listed)
    leaves = _leaves(node, role, listed, count, how)
    return walk(node, Forest(questions, _roots(listed, questions), leaves), rows, how)


class Listed(Struct, frozen=True):
    """The nodes in the order in which they are listed: the tree of each, its mode, -1 of a leaf,
    and its number in a forest. `keys` are the names, a tree and a number there, in order, and
    `order` where each of these is listed.
    """

    trees: Array
    tree_ids: Array
    node_ids: Array
    modes: Array
    numbers: Array
    keys: Array
    order: Array

    def named(self, trees: Array, nodes: Array) -> Array:
        """Where nodes of these names are listed. Raises ModelError for one that is not."""
        key = _keys(self.tree_ids, self.node_ids, trees, nodes)
        place = np.minimum(np.searchsorted(self.keys, key), len(self.keys) - 1)
        absent = np.flatnonzero(self.keys[place] != key)
        if len(absent):
            name = f"{nodes[absent[0]]} in tree {trees[absent[0]]}"
            raise ModelError(f"requires a node out of its tree, got {name}")
        return self.order[place]


def _keys(tree_ids: Array, node_ids: Array, trees: Array, nodes: Array) -> Array:
    """A number for each name; -1 where the tree or the node's number is unknown."""
    parts: list[Array] = []
    for known, given in ((tree_ids, trees), (node_ids, nodes)):
        place = np.minimum(np.searchsorted(known, given), len(known) - 1)
        parts.append(np.where(known[place] == given, place, -1))
    return np.where(np.minimum(*parts) < 0, -1, parts[0] * len(node_ids) + parts[1])


def _listed(node: OnnxNode) -> Listed:
    trees, nodes = _whole(node, "nodes_treeids"), _whole(node, "nodes_nodeids")
    if len(trees) != len(nodes) or not len(trees):
        raise ModelError(f"requires nodes that differ in tree or number, got {len(trees)}")
    tree_ids, node_ids = np.unique(trees), np.unique(nodes)
    keys = _keys(tree_ids, node_ids, trees, nodes)
    order = np.argsort(keys, kind="stable")
    if (np.diff(keys[order]) == 0).any():
        raise ModelError(f"requires nodes that differ in tree or number, got {len(trees)}")
    modes = _modes(node, len(trees))
    is_leaf = modes < 0
    among = np.where(is_leaf, np.cumsum(is_leaf), np.cumsum(~is_leaf)) - 1
    numbers = among + is_leaf * np.count_nonzero(~is_leaf)
    return Listed(trees, tree_ids, node_ids, modes, numbers, keys[order], order)


def _modes(node: OnnxNode, count: int) -> Array:
    """The number of each node's mode; -1 of a leaf."""
    known = {LEAF: -1, **{name: number for number, name in enumerate(MODES)}}
    given = [decode(mode) for mode in node.attribute("nodes_modes").strings]
    if len(given) != count or not known.keys() >= set(given):
        raise ModelError(f"requires a mode of {', '.join(MODES)} or LEAF for each node, got others")
    return np.array([known[name] for name in given], np.int64)


def _whole(node: OnnxNode, name: str) -> Array:
    return np.array(node.integers(name, []), np.int64)


def _questions(node: OnnxNode, listed: Listed) -> Questions:
    """The nodes that are no leaves."""
    values, features = numbers_of(node, "nodes_values"), _whole(node, "nodes_featureids")
    missing = _whole(node, "nodes_missing_value_tracks_true")
    missing = missing if len(missing) else np.zeros(len(listed.modes), np.int64)
    ends = [_whole(node, f"nodes_{answer}nodeids") for answer in ("true", "false")]
    lengths = {len(each) for each in (values, missing, features, *ends)}
    if lengths != {len(listed.modes)}:
        raise ModelError(f"requires nodes of equally many parts, got {sorted(lengths)}")
    asks = listed.modes >= 0
    trees = listed.trees[asks]
    leads = [listed.numbers[listed.named(trees, each[asks])] for each in ends]
    tracks = (missing[asks] != 0).astype(np.int64)
    return Questions(features[asks], listed.modes[asks], values[asks], tracks, *leads)


def _roots(listed: Listed, questions: Questions) -> Array:
    """In each tree the one node to which no other leads, in the order of the list."""
    led = np.zeros(len(listed.numbers), bool)
    led[questions.true] = led[questions.false] = True
    roots = ~led[listed.numbers]
    trees = listed.trees[roots]
    if len(np.unique(trees)) != len(listed.tree_ids) or len(trees) != len(listed.tree_ids):
        got = f"{len(listed.tree_ids)} trees, got {len(trees)}"
        raise ModelError(f"requires a root for each of {got}")
    return listed.numbers[roots]


def _leaves(node: OnnxNode, role: str, listed: Listed, count: int, how: int) -> Leaves:
    """What leaves have for targets or classes."""
    trees, nodes = (_whole(node, f"{role}_{what}ids") for what in ("tree", "node"))
    targets, weights = _whole(node, f"{role}_ids"), numbers_of(node, f"{role}_weights")
    if len({len(trees), len(nodes), len(targets), len(weights)}) != 1 or not len(targets):
        raise ModelError(f"requires a tree, a node and a {role} for each weight, got others")
    if targets.min() < 0 or targets.max() >= count:
        raise ModelError(f"requires a {role} from 0 to {count - 1}, got {targets.tolist()[:8]}")
    place = listed.named(trees, nodes)
    if (listed.modes[place] >= 0).any():
        raise ModelError("requires weights of leaves, got one of a node that is none")
    questions = int(np.count_nonzero(listed.modes >= 0))
    leaf, leaves = listed.numbers[place] - questions, len(listed.modes) - questions
    if how in (MIN, MAX) and len(np.unique(leaf * count + targets)) < leaves * count:
        raise UnsupportedError(f"requires a weight of each leaf for each {role} in MIN and MAX")
    return Leaves(leaves, count, leaf, targets, weights)


IMPORTERS: dict[str, Importer] = {
    f"{DOMAIN}.TreeEnsembleClassifier": import_tree_ensemble_classifier,
    f"{DOMAIN}.TreeEnsembleRegressor": import_tree_ensemble_regressor,
}

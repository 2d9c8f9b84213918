"""Forests as arrays, in the order in which rows go down them; masks that find leaves."""

from __future__ import annotations

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from weft.dialects.weights import Array

FEW_LEAVES, MOST_LEAVES = 32, 64
"""Of a tree, for which there are bits in a mask of 32 and of 64."""


class Questions(Struct, frozen=True):
    """`row[feature] <mode> split`, in arrays; what is missing, NaN, counts as true where it says
    so. `true` and `false` are the nodes that answers lead to.
    """

    feature: Array
    mode: Array
    split: Array
    missing: Array
    true: Array
    false: Array

    def __len__(self) -> int:
        return len(self.feature)


class Leaves(Struct, frozen=True):
    """How many leaves and targets there are, and what some leaves have for some targets."""

    count: int
    targets: int
    leaf: Array
    target: Array
    weight: Array


class Forest(Struct, frozen=True):
    """All questions, the node where each tree begins, and what leaves have."""

    questions: Questions
    roots: Array
    leaves: Leaves


def moved_behind(forest: Forest, more: int) -> Forest:
    """The forest with its leaves numbered so many further on."""
    count = len(forest.questions)

    def moved(nodes: Array) -> Array:
        return nodes + more * (nodes >= count)

    asked = forest.questions
    questions = replace(asked, true=moved(asked.true), false=moved(asked.false))
    return replace(forest, questions=questions, roots=moved(forest.roots))


# Order --------------------------------------------------------------------------------------------


def with_links(forest: Forest) -> Forest:
    """The forest with at most one question whose yes leads to a node: that of any other leads to a
    question that is never answered by yes, and whose no leads to the node.
    """
    asked, count = forest.questions, len(forest.questions)
    yes = np.flatnonzero(~_is_never(asked))
    first = np.unique(asked.true[yes], return_index=True)[1]
    shared = np.delete(yes, first)
    if not len(shared):
        return forest
    forest = moved_behind(forest, len(shared))
    asked, zeros = forest.questions, np.zeros(len(shared), np.int64)
    true, ends = asked.true.copy(), asked.true[shared]
    true[shared] = count + np.arange(len(shared))
    never = np.full(len(shared), np.nan, asked.split.dtype)
    columns = (asked.feature, asked.mode, asked.split, asked.missing, true, asked.false)
    links = (zeros, zeros, never, zeros, ends, ends)
    return replace(forest, questions=Questions(*map(np.append, columns, links)))


def _is_never(asked: Questions) -> Array:
    """Which questions are never answered by yes."""
    return np.isnan(asked.split) & (asked.missing == 0)


class Order(Struct, frozen=True):
    """The node at each place, behind a question those of yes, then those of no; the place where no
    leads from there, a leaf's own; where trees begin; and a number for each leaf, in this order.
    """

    nodes: Array
    no: Array
    roots: Array
    leaves: Array


def ordered(forest: Forest) -> Order:
    """The nodes that trees come to. No tree may have nodes that lead back to themselves, and each
    node be where one question's yes leads, at most.
    """
    count = len(forest.questions)
    nothing = count + forest.leaves.count
    yes, no = _children(forest)
    size, place = np.ones(nothing + 1, np.int64), np.full(nothing + 1, -1)
    size[nothing] = 0
    _, first = np.unique(forest.roots, return_index=True)
    roots = forest.roots[np.sort(first)]
    levels = [roots[~np.isin(roots, np.append(yes, no))]]
    while len(level := np.append(yes[levels[-1]], no[levels[-1]])):
        levels.append(level[level < nothing])
    for level in reversed(levels):
        size[level] += size[yes[level]] + size[no[level]]
    place[levels[0]] = np.cumsum(size[levels[0]]) - size[levels[0]]
    for level in levels:
        place[yes[level]] = place[level] + 1
        place[no[level]] = place[level] + 1 + size[yes[level]]
    known = np.flatnonzero(place[:nothing] >= 0)
    nodes = known[np.argsort(place[known])]
    is_leaf, lead = nodes >= count, np.arange(len(nodes))
    lead[~is_leaf] = place[forest.questions.false[nodes[~is_leaf]]]
    unmet = np.setdiff1d(np.arange(forest.leaves.count), nodes[is_leaf] - count)
    leaves = np.argsort(np.append(nodes[is_leaf] - count, unmet))
    return Order(nodes, lead, place[forest.roots], leaves)


def _children(forest: Forest) -> tuple[Array, Array]:
    """The nodes that stand behind each, those of yes and those of no: each behind one alone. Where
    there is none it is the number behind all nodes, which has none itself.
    """
    asked = forest.questions
    nothing = len(asked) + forest.leaves.count
    leads = np.full((2, nothing + 1), nothing)
    leads[:, : len(asked)] = np.where(_is_never(asked), nothing, asked.true), asked.false
    met, nodes = np.zeros(nothing + 1, bool), forest.roots
    while len(nodes):
        met[nodes] = True
        ends = np.unique(leads[:, nodes])
        nodes = ends[~met[ends] & (ends < nothing)]
    leads[:, ~met] = nothing
    _, first = np.unique(leads, return_index=True)
    behind = np.full(leads.size, nothing)
    behind[first] = leads.ravel()[first]
    yes, no = behind.reshape(leads.shape)
    return yes, no


# Masks --------------------------------------------------------------------------------------------


class Masks(Struct, frozen=True):
    """The tables of `graph.tree_ensemble` for trees of few leaves."""

    masks: Array
    places: Array
    spans: Array


def masks_of(forest: Forest, order: Order) -> Masks | None:
    """The masks of an ordered forest; None where a tree has too many leaves, or a node two ways to
    it.
    """
    is_leaf, roots = order.nodes >= len(forest.questions), order.roots
    places = np.flatnonzero(~is_leaf)
    before = np.append(0, np.cumsum(is_leaf))
    alone = len(np.unique(roots)) == len(roots) == len(order.nodes) - 2 * len(places)
    if not alone or not len(places):
        return None
    starts = before[roots]
    counts = np.diff(np.append(starts, before[-1]))
    if counts.max() > MOST_LEAVES:
        return None
    start = starts[np.searchsorted(roots, places, "right") - 1]
    first, end = before[places] - start, before[order.no[places]] - start
    masks = (_lowest(first) | ~_lowest(end)).view(np.int64)
    spans = np.stack([roots - starts, counts - 1, starts], 1)
    narrow = masks.astype(np.int32) if counts.max() <= FEW_LEAVES else masks
    return Masks(narrow, places.astype(np.int32), spans.astype(np.int32))


def _lowest(count: Array) -> Array:
    """Words of 64 bits of which so many are set, fewer than all."""
    return (np.uint64(1) << count.astype(np.uint64)) - np.uint64(1)

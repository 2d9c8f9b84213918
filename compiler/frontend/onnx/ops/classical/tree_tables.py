"""Forests as arrays, and those of small trees in an order in which masks find the leaves."""

from __future__ import annotations

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from weft.dialects.weights import Array

FEW_LEAVES, MOST_LEAVES = 32, 64
"""Of a tree, for which there are bits in a mask of 32 and of 64."""

MOST_NODES = 1 << 20
"""Of a forest whose trees are put in order."""


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


class Masked(Struct, frozen=True):
    """A forest whose trees stand one after the other, each with its leaves in the order of answers,
    those of true in front; how many leaves each tree has; and the tables of `graph.tree_ensemble`.
    """

    forest: Forest
    leaves: Array
    masks: Array
    spans: Array


def masked_forest(forest: Forest) -> Masked | None:
    """The forest with masks; None where a tree has too many leaves, or a node two ways to it."""
    asked, count = forest.questions, len(forest.questions)
    if count + forest.leaves.count > MOST_NODES:
        return None
    ordered = Ordered([], [], [], [])
    true, false = asked.true.tolist(), asked.false.tolist()
    for root in forest.roots.tolist():
        if not ordered.take(root, count, true, false):
            return None
    met = [*ordered.questions, *ordered.leaves]
    if len(met) != count + forest.leaves.count or len(set(met)) != len(met):
        return None
    place = np.zeros(count + forest.leaves.count, np.int64)
    place[met] = np.arange(len(place))
    order = np.array(ordered.questions, np.int64)
    columns = (asked.feature, asked.mode, asked.split, asked.missing)
    ends = (place[asked.true], place[asked.false])
    questions = Questions(*(each[order] for each in (*columns, *ends)))
    leaves = replace(forest.leaves, leaf=place[forest.leaves.leaf + count] - count)
    spans = np.array(ordered.spans, np.int64)
    counts = np.diff(np.append(spans[:, 2], forest.leaves.count))
    masks = np.array([*ordered.masks, *[(1 << MOST_LEAVES) - 1] * forest.leaves.count], np.uint64)
    wide = masks.view(np.int64)
    return Masked(
        Forest(questions, place[forest.roots], leaves),
        counts,
        wide.astype(np.int32) if counts.max() <= FEW_LEAVES else wide,
        spans.astype(np.int32),
    )


class Ordered(Struct):
    """Questions and leaves in the order in which trees have them, with masks and spans."""

    questions: list[int]
    leaves: list[int]
    masks: list[int]
    spans: list[list[int]]

    def take(self, root: int, count: int, true: list[int], false: list[int]) -> bool:
        """Whether a tree has few enough leaves; it is behind the others then."""
        first, leaf = len(self.questions), len(self.leaves)
        # A question comes back, as its negative, when the leaves of true are all there.
        waiting = [root]
        while waiting:
            node = waiting.pop()
            if node < 0:
                mask, before = self.masks[~node], leaf
                self.masks[~node] = _without(mask - before, len(self.leaves) - before)
            elif node >= count:
                self.leaves.append(node)
            else:
                waiting += [false[node], ~len(self.questions), true[node]]
                self.questions.append(node)
                self.masks.append(len(self.leaves))
            if len(self.leaves) - leaf > MOST_LEAVES:
                return False
        self.spans.append([first, len(self.questions) - first, leaf])
        return True


def _without(first: int, end: int) -> int:
    """All bits but those from the first up to the end."""
    return (1 << MOST_LEAVES) - 1 - ((1 << end) - (1 << first))

"""Axes that arrive when a model runs.

What reads elements in place takes scalars for each dim, 1 where it is among the axes (`FoundAxes`).
Any other operator becomes a branch for each choice of axes that there is (`choices`, `selector`):

    y = ReduceSum(x[2, 3], axes[1])  ->  %n = the number of the choice, or the call ends
                                         %y = graph.case %n { axes = [0] } or { axes = [1] }
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
from xdsl.ir import SSAValue

from weft.compiler.frontend.onnx.node import OnnxNode
from weft.dialects.errors import UnsupportedError
from weft.dialects.graph.core.algebra import Term
from weft.dialects.graph.core.types import I64

MOST_CHOICES = 32
"""Choices of axes for which one node has branches."""

Choice = tuple[int, ...]


class FoundAxes:
    """The axes, of a value of `rank` dims, that an operand lists while the model runs."""

    def __init__(self, node: OnnxNode, position: int, rank: int) -> None:
        self.node = node
        self.rank = rank
        given = node.scalars(position)
        self._axes = [(each < 0).where(each + rank, each) for each in given]
        zeros = [0] * rank
        self._members = self.placed([self._zero + 1 for _ in given], zeros) if given else []
        self.count = len(given)

    @property
    def _zero(self) -> Term:
        return Term(self.node.b, self.node.scalar(0, I64))

    def placed(self, values: Sequence[Term], defaults: Sequence[Term | int]) -> list[Term]:
        """For each dim the value of its axis, or the dim's default."""
        found: list[Term] = []
        for axis, default in enumerate(defaults):
            placed = default if isinstance(default, Term) else self._zero + default
            for each, value in zip(self._axes, values, strict=True):
                placed = each.equals(axis).where(value, placed)
            found.append(placed)
        return found

    def require(self, held: Term | None = None) -> None:
        """Ends a call whose axes are not those of dims, or not different; or where `held` does not
        hold, which says whether the node can do with them.
        """
        if not self.count:
            return
        total = self._members[0]
        for member in self._members[1:]:
            total = total + member
        differ = total.equals(self.count)
        rule = f"axes that differ, from {-self.rank} to {self.rank - 1}"
        rule = rule if held is None else f"{rule}, which its operands allow"
        self.node.require(differ if held is None else differ & held, rule)

    def choices(self) -> list[Choice]:
        """All that there are. Raises UnsupportedError for too many."""
        found = list(combinations(range(self.rank), self.count))
        if len(found) > MOST_CHOICES:
            rule = f"axes that are known while compiling, or at most {MOST_CHOICES} choices of them"
            raise UnsupportedError(f"requires {rule}, got {len(found)}")
        return found

    def selector(self, choices: Sequence[Choice]) -> SSAValue:
        """The number of the choice among these; a call ends where it is none of them."""
        table = np.full(1 << self.rank, -1, np.int64)
        for number, choice in enumerate(choices):
            table[sum(1 << axis for axis in choice)] = number
        mask = self._zero
        for axis, member in enumerate(self._members):
            mask = mask + member * (1 << axis)
        number = Term(self.node.b, self.node.constant(table)).take(mask, 0)
        self.require(number >= 0)
        return number.value

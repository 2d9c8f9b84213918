"""Where a program checks the sizes that its operators take to be equal: all that the inputs decide
once, when a call starts; what branches take for granted, or what is found on the way, in place.
"""

from __future__ import annotations

from collections.abc import Iterable

from xdsl.dialects.builtin import LocationAttr
from xdsl.ir import Block, Operation

from weft.dialects.expr import Expr
from weft.dialects.graph.core.assumptions import holds_in_loops
from weft.dialects.graph.core.op import GraphOp
from weft.dialects.graph.regions.branch import BranchOp
from weft.dialects.graph.regions.control import defined_sizes
from weft.dialects.graph.regions.repeat import ForOp, RepeatOp

Pair = tuple[Expr, Expr]


class SizeChecks:
    """The checks of a graph function's body."""

    def __init__(self, body: Block):
        ops = list(body.walk())
        self._found = {name for op in ops for name in defined_sizes(op)}
        loops = [op for op in ops if isinstance(op, RepeatOp)]
        self._found |= {op.index.data for op in loops}
        self._iterations = {op.index.data: op.iterations for op in loops if isinstance(op, ForOp)}
        certain = [op for op in ops if isinstance(op, GraphOp) and not _is_in_branch(op, body)]
        every = assumed(certain)
        self.first = {pair: at for pair, at in every.items() if not self._is_found(pair)}
        """What is checked when a call starts, and the operator that needs it first."""
        self._checked = set(self.first)

    def in_place(self, members: Iterable[GraphOp]) -> list[Pair]:
        """What is checked in front of these operators."""
        pairs = [pair for pair in assumed(members) if pair not in self._checked]
        return [pair for pair in pairs if not holds_in_loops(pair, self._mentioned(pair))]

    def _is_found(self, pair: Pair) -> bool:
        return any(not self._found.isdisjoint(size.symbols()) for size in pair)

    def _mentioned(self, pair: Pair) -> dict[str, Expr]:
        names = {name for size in pair for name in size.symbols()}
        return {name: count for name, count in self._iterations.items() if name in names}


def assumed(ops: Iterable[GraphOp]) -> dict[Pair, LocationAttr]:
    """The pairs of sizes that operators take to be equal, and where the first of each is from."""
    found: dict[Pair, LocationAttr] = {}
    for op in ops:
        for pair in op.assumptions():
            found.setdefault(pair, op.location)
    return found


def _is_in_branch(op: Operation, body: Block) -> bool:
    """Whether an operator of the body, or of a region inside, runs in some calls alone."""
    outer = op.parent_op()
    while outer is not None and outer is not body.parent_op():
        if isinstance(outer, BranchOp):
            return True
        outer = outer.parent_op()
    return False

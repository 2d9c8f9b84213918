"""Where a program checks the sizes that its operators take to be equal: all that the inputs decide
once, when a call starts; what branches take for granted, or what is found on the way, in place.
"""

from __future__ import annotations

from collections.abc import Iterable

from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation

from weft.dialects.errors import TypeInferenceError
from weft.dialects.expr import Equalities, Symbol
from weft.dialects.graph.core.assumptions import holds_in_loops
from weft.dialects.graph.core.op import GraphOp
from weft.dialects.graph.regions.branch import BranchOp
from weft.dialects.graph.regions.control import defined_sizes
from weft.dialects.graph.regions.repeat import ForOp, RepeatOp
from weft.dialects.loop.equal_sizes import Pair, noted_equal_sizes
from weft.dialects.loop.program import BOUNDS, bound_ranges


class SizeChecks:
    """The checks of a graph function's body. Raises TypeInferenceError for what the bounds of its
    sizes contradict in every call.
    """

    def __init__(self, function: FuncOp):
        body = function.body.block
        ops = list(body.walk())
        self._found = {name for op in ops for name in defined_sizes(op)}
        loops = [op for op in ops if isinstance(op, RepeatOp)]
        self._found |= {op.index.data for op in loops}
        self._iterations = {op.index.data: op.iterations for op in loops if isinstance(op, ForOp)}
        self._ranges = bound_ranges(function.attributes.get(BOUNDS))
        self.equal = Equalities()
        """What follows from the checks when a call starts."""
        self.first: dict[Pair, str] = {}
        """What is checked when a call starts, and the node that needs it first."""
        certain = [op for op in ops if isinstance(op, GraphOp) and not _is_in_branch(op, body)]
        for pair, node in (noted_equal_sizes(function) | assumed(certain)).items():
            if not self._is_found(pair) and not self._holds(pair):
                self._require_possible(pair, node)
                self.first[pair] = node
                self.equal.add(pair)

    def in_place(self, members: Iterable[GraphOp]) -> list[Pair]:
        """What is checked in front of these operators."""
        pairs = [pair for pair in assumed(members) if not self._holds(pair)]
        return [pair for pair in pairs if not holds_in_loops(pair, self._iterations)]

    def _holds(self, pair: Pair) -> bool:
        """Whether bounds, or what is checked first, prove the pair."""
        one, other = (size.simplify(self._ranges) for size in pair)
        return one == other or self.equal.hold((one, other))

    def _require_possible(self, pair: Pair, node: str) -> None:
        one, other = (self.equal.normal(size).simplify(self._ranges) for size in pair)
        low, high = (one - other).range(self._ranges)
        if (low is not None and low > 0) or (high is not None and high < 0):
            names = dict.fromkeys(name for size in pair for name in size.symbols())
            bounds = {name: self._ranges.get(Symbol(name)) for name in names}
            got = [f"{name} from {each[0]} to {each[1]}" for name, each in bounds.items() if each]
            if not got:
                named = [size for size in pair if size.constant is None]
                got = [f"{size} = {self.equal.normal(size)}" for size in named]
            got = got or [str(size) for size in pair]
            where = f", at {node}" if node else ""
            rule = f"graph function requires sizes {pair[0]} = {pair[1]}"
            raise TypeInferenceError(f"{rule}, got {' and '.join(got)}{where}")

    def _is_found(self, pair: Pair) -> bool:
        return any(not self._found.isdisjoint(size.symbols()) for size in pair)


def assumed(ops: Iterable[GraphOp]) -> dict[Pair, str]:
    """The pairs of sizes that operators take to be equal, and the node that the first of each comes
    from, empty where nothing says it.
    """
    found: dict[Pair, str] = {}
    for op in ops:
        for pair in op.assumptions():
            found.setdefault(pair, op.onnx_name or "")
    return found


def _is_in_branch(op: Operation, body: Block) -> bool:
    """Whether an operator of the body, or of a region inside, runs in some calls alone."""
    outer = op.parent_op()
    while outer is not None and outer is not body.parent_op():
        if isinstance(outer, BranchOp):
            return True
        outer = outer.parent_op()
    return False

"""graph -> graph: an index outside of its axis ends the call, in place of being moved into it.

    %y = graph.gather %x, %i {axis = 0}
->  %worst = graph.reduce_max of %i, counted from the least that may be, as unsigned numbers
    graph.assert %held "run requires an index from -7 to 6 along axis 0 ..., got {}" (%worst)
    %y = graph.gather %x, %i {axis = 0}
"""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint

from weft.dialects.graph import OPS_BY_NAME, ConstantOp
from weft.dialects.graph.core.algebra import Term
from weft.dialects.graph.core.bounds_check import require_inside
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.types import type_of
from weft.dialects.graph.reindexing.gather import IndexedOp, IndexRange


class CheckIndicesPass(ModulePass):
    """Puts a check in front of every operator that reads or writes at places that a tensor names;
    of equal indices and sizes of one block there is one.
    """

    name = "weft-check-indices"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        checked: set[tuple[object, SSAValue, IndexRange]] = set()
        for each in [inner for inner in op.walk() if isinstance(inner, IndexedOp)]:
            if each.MOVES_INDICES or not each.have_ranks:
                continue
            for range_ in each.index_ranges():
                key = (each.parent, each.indices, range_)
                if key not in checked and not _is_known(each, range_):
                    checked.add(key)
                    _check(each, range_)


def _is_known(op: IndexedOp, range_: IndexRange) -> bool:
    """Whether folding has checked the indices."""
    return range_.size.constant is not None and isinstance(op.indices.owner, ConstantOp)


def _check(op: IndexedOp, range_: IndexRange) -> None:
    b = GraphBuilder(InsertPoint.before(op), OPS_BY_NAME, op.location)
    indices = Term(b, op.indices)
    if range_.component is not None:
        indices = indices.part(type_of(op.indices).rank - 1, range_.component, 1)
    low, high = range_.bounds
    require_inside(b, indices.value, low, high, range_.rule, [low, high, range_.size])

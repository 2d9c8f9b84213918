"""Values that a program names so that they can be looked at."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import SSAValue
from xdsl.irdl import irdl_op_definition, prop_def

from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.elementwise import PassThroughOp


@irdl_op_definition
class WatchOp(PassThroughOp):
    """The operand itself, which has a name: `weft-probe` makes it a result of the function. Where
    nobody watches it folds to the operand.
    """

    name = "graph.watch"
    label: StringAttr = prop_def(StringAttr)

    def vjp(self, cotangents: Sequence[SSAValue], b: GraphBuilder) -> Sequence[SSAValue | None]:
        return [cotangents[0]]


OPS = (WatchOp,)

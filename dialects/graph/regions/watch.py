"""Values that a program names so that they can be looked at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import SSAValue
from xdsl.irdl import irdl_op_definition, prop_def

from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.elementwise import ANY_ELEMENT, UnaryOp
from weft.dialects.loop.builder import LoopBuilder
from weft.dialects.loop.scalar import Scalar
from weft.dialects.weights import Array


@irdl_op_definition
class WatchOp(UnaryOp):
    """The operand itself, which has a name: `weft-probe` makes it a result of the function. Where
    nobody watches it folds to the operand.
    """

    name = "graph.watch"
    label: StringAttr = prop_def(StringAttr)
    ELEMENTS: ClassVar = ANY_ELEMENT

    def reference(self, *operands: Array) -> Sequence[Array]:
        return [operands[0]]

    def compute(self, b: LoopBuilder, *operands: Scalar) -> Scalar:
        return operands[0]

    def fold(self) -> Sequence[SSAValue]:
        return [self.operand]

    def vjp(self, cotangents: Sequence[SSAValue], b: GraphBuilder) -> Sequence[SSAValue | None]:
        return [cotangents[0]]


OPS = (WatchOp,)

"""`graph.shard`: how a value is cut into the parts of ranks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.ir import SSAValue
from xdsl.irdl import irdl_op_definition, prop_def

from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.elementwise import ANY_ELEMENT, UnaryOp
from weft.dialects.graph.core.op import GraphOp
from weft.dialects.graph.mesh.attributes import ShardingAttr
from weft.dialects.loop.builder import LoopBuilder
from weft.dialects.loop.scalar import Scalar
from weft.dialects.weights import Array


@irdl_op_definition
class ShardOp(UnaryOp):
    """The operand itself, which `weft-partition` cuts as the attribute says. Its cotangent is cut
    alike.
    """

    name = "graph.shard"
    ELEMENTS: ClassVar = ANY_ELEMENT
    sharding: ShardingAttr = prop_def(ShardingAttr)

    def reference(self, *operands: Array) -> Sequence[Array]:
        return [operands[0]]

    def compute(self, b: LoopBuilder, *operands: Scalar) -> Scalar:
        return operands[0]

    def vjp(self, cotangents: Sequence[SSAValue], b: GraphBuilder) -> Sequence[SSAValue | None]:
        return [b.shard(cotangents[0], sharding=self.sharding)]


OPS: tuple[type[GraphOp], ...] = (ShardOp,)

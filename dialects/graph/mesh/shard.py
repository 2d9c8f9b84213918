"""`graph.shard`: how a value is cut into the parts of ranks. `graph.stage` and `graph.stage_of`:
which ranks compute what follows from a value.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def

from weft.dialects.expr import Expr
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.elementwise import ANY_ELEMENT, UnaryOp
from weft.dialects.graph.core.op import GraphOp
from weft.dialects.graph.core.sharding_rule import ShardingRule, broadcast_factors
from weft.dialects.graph.core.types import TensorType, type_of
from weft.dialects.graph.mesh.attributes import ShardingAttr
from weft.dialects.loop.builder import Buffers, LoopBuilder
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


@irdl_op_definition
class StageOp(UnaryOp):
    """The operand itself: what is computed of it is computed in this stage of a pipeline. Its
    cotangent goes back to the stage of the operand.
    """

    name = "graph.stage"
    ELEMENTS: ClassVar = ANY_ELEMENT
    index: IntegerAttr[Any] = prop_def(IntegerAttr)

    def reference(self, *operands: Array) -> Sequence[Array]:
        return [operands[0]]

    def compute(self, b: LoopBuilder, *operands: Scalar) -> Scalar:
        return operands[0]

    def vjp(self, cotangents: Sequence[SSAValue], b: GraphBuilder) -> Sequence[SSAValue | None]:
        return [b.stage_of(cotangents[0], self.operands[0])]


@irdl_op_definition
class StageOfOp(GraphOp):
    """The first operand, in the stage of a pipeline that computes the second, of the same type. No
    operator is moved past it.
    """

    name = "graph.stage_of"
    operand: SSAValue = operand_def(TensorType)
    like: SSAValue = operand_def(TensorType)
    result: SSAValue = result_def(TensorType)

    def infer(self) -> Sequence[TensorType]:
        one, other = self.tensor_types()
        self.require(one == other, "two operands of one type", f"{one} and {other}")
        return [one]

    def reference(self, *operands: Array) -> Sequence[Array]:
        return [operands[0]]

    def sharding_rule(self) -> ShardingRule | None:
        operands, result = broadcast_factors(
            [each.shape for each in self.tensor_types()], self.result_type.shape
        )
        return ShardingRule(operands, (result,))

    def vmap(
        self, operands: Sequence[SSAValue], size: Expr, b: GraphBuilder
    ) -> Sequence[SSAValue] | None:
        same = type_of(operands[0]) == type_of(operands[1])
        return [b.stage_of(*operands) if same else operands[0]]

    def lower(self, b: LoopBuilder, operands: Buffers, results: Buffers) -> None:
        with b.loops(self.result_type.shape) as index:
            b.store(results[0], index, b.load(operands[0], index))

    def vjp(self, cotangents: Sequence[SSAValue], b: GraphBuilder) -> Sequence[SSAValue | None]:
        return [b.stage_of(cotangents[0], self.operand), None]


OPS: tuple[type[GraphOp], ...] = (ShardOp, StageOp, StageOfOp)

"""Order that programs ask for where no value flows."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, result_def, var_operand_def

from weft.dialects.expr import Expr
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.op import GraphOp
from weft.dialects.graph.core.types import TensorType
from weft.dialects.loop.builder import Buffers, LoopBuilder
from weft.dialects.weights import Array


@irdl_op_definition
class AfterOp(GraphOp):
    """The first operand, which is there once the others have been computed.

        %y = graph.after %x, %a, %b : (T, A, B) -> T

    What reads `%y` runs behind what computes `%a` and `%b`. A kernel of its own copies the operand:
    no other operator joins it.
    """

    name = "graph.after"
    operand: SSAValue = operand_def(TensorType)
    others: Sequence[SSAValue] = var_operand_def(TensorType)
    result: SSAValue = result_def(TensorType)

    def infer(self) -> Sequence[TensorType]:
        return self.tensor_types()[:1]

    def reference(self, *operands: Array) -> Sequence[Array]:
        return [operands[0]]

    def fold(self) -> Sequence[SSAValue] | None:
        return None if self.others else [self.operand]

    def vmap(self, operands: Sequence[SSAValue], size: Expr, b: GraphBuilder) -> Sequence[SSAValue]:
        return [b.after(*operands)]

    def lower(self, b: LoopBuilder, operands: Buffers, results: Buffers) -> None:
        with b.loops(self.result_type.shape) as index:
            b.store(results[0], index, b.load(operands[0], index))

    def vjp(self, cotangents: Sequence[SSAValue], b: GraphBuilder) -> Sequence[SSAValue | None]:
        return [cotangents[0], *(None for _ in self.others)]


OPS = (AfterOp,)

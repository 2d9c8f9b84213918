"""The operator that replaces a strided box of a tensor."""

from __future__ import annotations

from collections.abc import Generator, Sequence

from xdsl.ir import SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, result_def

from weft.dialects.expr import Expr
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.op import GraphOp, ints
from weft.dialects.graph.core.sharding_rule import ShardingRule
from weft.dialects.graph.core.types import TensorType, type_of
from weft.dialects.graph.reindexing.slicing import StridedOp, exprs, numbers, positions
from weft.dialects.loop.builder import Buffers, LoopBuilder
from weft.dialects.weights import Array


@irdl_op_definition
class InsertSliceOp(StridedOp):
    """The operand, but `y[start + i * step] = updates[i]` along each axis.

    Starts count from the front and are in bounds; steps may be negative.
    """

    name = "graph.insert_slice"
    operand: SSAValue = operand_def(TensorType)
    updates: SSAValue = operand_def(TensorType)
    result: SSAValue = result_def(TensorType)

    def infer(self) -> Sequence[TensorType]:
        source, updates = self.tensor_types()
        same = source.element == updates.element
        self.require(same, f"updates of {source.element}", updates)
        if source.has_rank and updates.has_rank:
            self.require_box(source.shape, updates.shape)
        return [source]

    def assumptions(self) -> Sequence[tuple[Expr, Expr]]:
        return self.within(type_of(self.operand).shape, type_of(self.updates).shape)

    def reference(self, *operands: Array) -> Sequence[Array]:
        x, updates = operands
        result = x.copy()
        starts = numbers(self, self.starts)
        result[positions(starts, updates.shape, ints(self.steps))] = updates
        return [result]

    def sharding_rule(self) -> ShardingRule | None:
        kept = self.kept_axes(type_of(self.operand).shape, type_of(self.updates).shape)
        return ShardingRule((kept, kept), (kept,))

    def fold(self) -> Sequence[SSAValue] | None:
        """The whole tensor is replaced."""
        whole = type_of(self.operand) == type_of(self.updates)
        return [self.updates] if whole and all(s == 1 for s in ints(self.steps)) else None

    def vjp(self, cotangents: Sequence[SSAValue], b: GraphBuilder) -> Sequence[SSAValue | None]:
        attributes = {"starts": self.starts, "steps": self.steps}
        kept = b.insert_slice(cotangents[0], b.filled(0, self.updates), **attributes)
        taken = b.slice(cotangents[0], sizes=type_of(self.updates).dims, **attributes)
        return [kept, taken]

    def lower(self, b: LoopBuilder, operands: Buffers, results: Buffers) -> None:
        for starts, sizes in self._kept():
            with b.loops(sizes) as index:
                position = [start + i for start, i in zip(starts, index, strict=True)]
                b.store(results[0], position, b.load(operands[0], position))
        with b.loops(type_of(self.updates).shape) as index:
            b.store(results[0], self.inside(index), b.load(operands[1], index))

    def _kept(self) -> Generator[tuple[list[Expr], list[Expr]]]:
        """Starts and sizes of the parts to copy: all of the operand where the box has gaps, else
        what is in front of it and behind it along each axis, within it along those before.
        """
        dims, box = type_of(self.operand).shape, type_of(self.updates).shape
        starts, sizes = [Expr.of(0)] * len(dims), list(dims)
        if any(step != 1 for step in ints(self.steps)):
            yield starts, sizes
            return
        for axis, (start, size) in enumerate(zip(exprs(self.starts), box, strict=True)):
            for first, count in ((Expr.of(0), start), (start + size, dims[axis] - start - size)):
                if count != 0:
                    starts[axis], sizes[axis] = first, count
                    yield list(starts), list(sizes)
            starts[axis], sizes[axis] = start, size


OPS: tuple[type[GraphOp], ...] = (InsertSliceOp,)

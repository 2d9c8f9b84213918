"""Control flow on a batch: a condition that differs from sample to sample chooses between the
results of all branches, and ends the iterations of each sample apart.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence

from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint

from weft.dialects.errors import UnsupportedError
from weft.dialects.expr import Expr
from weft.dialects.graph import GraphOp
from weft.dialects.graph.core.batching import aligned, to_front
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.types import BOOL, I64, ShapeAttr, TensorType, type_of
from weft.dialects.graph.regions.branch import BranchOp, CaseOp, IfOp
from weft.dialects.graph.regions.control import ConditionOp, yielded
from weft.dialects.graph.regions.derivative import CheckpointOp, CustomVjpOp
from weft.dialects.graph.regions.effects import has_effects
from weft.dialects.graph.regions.fused import YieldOp
from weft.dialects.graph.regions.repeat import ForOp, WhileOp

Values = list[SSAValue]


class BatchedRegions(ABC):
    """Operators with regions, on what `Batching` knows of values."""

    ops: Mapping[str, type[GraphOp]]
    size: Expr
    fresh: Callable[[str], str]
    values: dict[SSAValue, SSAValue]

    @abstractmethod
    def value(self, sample: SSAValue) -> SSAValue:
        """What stands for a value."""

    @abstractmethod
    def has_axis(self, sample: SSAValue) -> bool:
        """Whether a value differs from sample to sample."""

    @abstractmethod
    def whole(self, sample: SSAValue, b: GraphBuilder) -> SSAValue:
        """What stands for a value, with the axis."""

    @abstractmethod
    def run(self, block: Block, b: GraphBuilder) -> None:
        """Inserts the operators of a block, but for its terminator."""

    @abstractmethod
    def refusal(self, op: Operation, rule: str) -> UnsupportedError:
        """An error that names the operator."""

    def builder_of(self, block: Block, b: GraphBuilder) -> GraphBuilder:
        """Inserts at the end of a block."""
        return GraphBuilder(InsertPoint.at_end(block), self.ops, b.location)

    def branch(self, op: BranchOp, b: GraphBuilder) -> Values:
        """`graph.if` and `graph.case`."""
        (condition,) = op.operands_
        if self.has_axis(condition):
            return self._chosen(op, condition, b)
        blocks = [Block() for _ in op.regions]
        for block, region in zip(blocks, op.regions, strict=True):
            self.run(region.block, self.builder_of(block, b))
        columns = zip(*(yielded(region) for region in op.regions), strict=True)
        axes = [any(map(self.has_axis, column)) for column in columns]
        for block, region in zip(blocks, op.regions, strict=True):
            self._hand_back(block, yielded(region), axes, b)
        given, sizes = self.value(condition), op.size_names
        new = (
            IfOp.of(given, *blocks, sizes=sizes, location=b.location)
            if isinstance(op, IfOp)
            else CaseOp.of(given, blocks, sizes, b.location)
        )
        return [*b.builder.insert(new).results]

    def _chosen(self, op: BranchOp, condition: SSAValue, b: GraphBuilder) -> Values:
        """The results of all branches, and of these those that the condition names."""
        if op.size_names:
            raise self.refusal(op, "branches whose results have the same sizes")
        if has_effects(op):
            raise self.refusal(op, "branches that do not act, or one condition for all samples")
        for region in op.regions:
            self.run(region.block, b)
        held, branches = self.value(condition), [yielded(region) for region in op.regions]
        if isinstance(op, IfOp):
            then, other = branches
            return [self._select(held, x, y, b) for x, y in zip(then, other, strict=True)]
        results = [self.whole(each, b) for each in branches[-1]]
        for number in reversed(range(len(branches) - 1)):
            is_number = b.equal(held, b.constant_of(number, type_of(held).element))
            pairs = zip(branches[number], results, strict=True)
            results = [_where(b, is_number, self.whole(new, b), old) for new, old in pairs]
        return results

    def _select(self, held: SSAValue, new: SSAValue, old: SSAValue, b: GraphBuilder) -> SSAValue:
        return _where(b, held, self.whole(new, b), self.whole(old, b))

    def counted_loop(self, op: ForOp, b: GraphBuilder) -> Values:
        """`graph.for`."""
        axes = self._state_axes(op.body, [self.has_axis(each) for each in op.operands_])
        body, axes_of_all = self._body(op.body, axes, b)
        carried = self._with_axes(op.operands_, axes, b)
        assert op.count.data is not None, "a loop lists its count"
        index, count = op.index.data, op.count.data[0]
        loop = ForOp.of(count, index, carried, body, op.size_names, b.location)
        results = b.builder.insert(loop).results
        return _stacks_in_front(results, axes_of_all, len(axes), b)

    def conditional_loop(self, op: WhileOp, b: GraphBuilder) -> Values:
        """`graph.while`."""
        axes = [self.has_axis(each) for each in op.operands_]
        axes = self._state_axes(op.body, axes)
        test = self._block_of(op.condition, axes)
        self.run(op.condition.block, self.builder_of(test, b))
        (held,) = yielded(op.condition)
        if self.has_axis(held):
            return self._masked_loop(op, b)
        test.add_op(ConditionOp.create(operands=[self.value(held)]))
        body, axes_of_all = self._body(op.body, axes, b)
        carried = self._with_axes(op.operands_, axes, b)
        names = op.index.data, op.count.data
        loop = WhileOp.of(*names, carried, test, body, op.size_names, b.location)
        results = b.builder.insert(loop).results
        return _stacks_in_front(results, axes_of_all, len(axes), b)

    def _masked_loop(self, op: WhileOp, b: GraphBuilder) -> Values:
        """Iterations go on as long as the condition holds of one sample; the state of a sample that
        it does not hold of stays. The state has that in front.
        """
        carried = len(op.operands_)
        if op.size_names or len(op.results) > carried:
            rule = "loops that end apart to stack nothing and to keep their sizes"
            raise self.refusal(op, f"{rule} (differentiate the function that vmap gave)")
        if has_effects(op):
            raise self.refusal(op, "loops that do not act, or one condition for all samples")
        state = self._with_axes(op.operands_, [True] * carried, b)
        active = self._holds(op.condition, state, b)
        types = [type_of(each) for each in (active, *state)]
        test, body = Block(arg_types=types), Block(arg_types=types)
        inner = self.builder_of(test, b)
        count = inner.reduce_sum(inner.cast(test.args[0], to=I64), axes=[0], keepdims=False)
        test.add_op(ConditionOp.create(operands=[inner.cast(count, to=BOOL)]))
        inner = self.builder_of(body, b)
        goes_on, *before = body.args
        self.values.update(zip(op.body.block.args, before, strict=True))
        self.run(op.body.block, inner)
        after = [self.whole(each, inner) for each in yielded(op.body)]
        after = [_where(inner, goes_on, *pair) for pair in zip(after, before, strict=True)]
        goes_on = inner.logical_and(goes_on, self._holds(op.condition, after, inner))
        body.add_op(YieldOp.create(operands=[goes_on, *after]))
        names = op.index.data, op.count.data
        loop = WhileOp.of(*names, [active, *state], test, body, location=b.location)
        return list(b.builder.insert(loop).results[1:])

    def _holds(self, condition: Region, state: Sequence[SSAValue], b: GraphBuilder) -> SSAValue:
        """Of which samples a loop's condition holds."""
        self.values.update(zip(condition.block.args, state, strict=True))
        self.run(condition.block, b)
        return self.whole(yielded(condition)[0], b)

    def checkpoint(self, op: CheckpointOp, b: GraphBuilder) -> Values:
        """`graph.checkpoint`."""
        body = Block()
        self.run(op.body.block, self.builder_of(body, b))
        results = yielded(op.body)
        self._hand_back(body, results, [self.has_axis(each) for each in results], b)
        return [*b.builder.insert(CheckpointOp.of(body, b.location)).results]

    def custom(self, op: CustomVjpOp, b: GraphBuilder) -> Values:
        """`graph.custom_vjp`, of which all operands and results get the axis."""
        regions: list[Block] = []
        for region in (op.body, op.derivative):
            everything = [True] * len(region.block.args)
            block = self._block_of(region, everything)
            self.run(region.block, self.builder_of(block, b))
            self._hand_back(block, yielded(region), [True] * len(yielded(region)), b)
            regions.append(block)
        operands = self._with_axes(op.operands_, [True] * len(op.operands_), b)
        body, derivative = regions
        new = CustomVjpOp.of(operands, body, derivative, op.saved, b.location)
        return [*b.builder.insert(new).results]

    def _state_axes(self, body: Region, axes: Sequence[bool]) -> list[bool]:
        """Which carried values differ from sample to sample in some iteration."""
        found = list(axes)
        while True:
            block = self._block_of(body, found)
            self.run(body.block, GraphBuilder(InsertPoint.at_end(block), self.ops))
            handed = [self.has_axis(each) for each in yielded(body)[: len(found)]]
            for inner in list(block.walk()):  # tried alone
                inner.drop_all_references()
            if all(axis or not new for axis, new in zip(found, handed, strict=True)):
                return found
            found = [axis or new for axis, new in zip(found, handed, strict=True)]

    def _body(
        self, region: Region, axes: Sequence[bool], b: GraphBuilder
    ) -> tuple[Block, list[bool]]:
        """A loop's body, and which of the values that it hands back have the axis."""
        block = self._block_of(region, axes)
        self.run(region.block, self.builder_of(block, b))
        handed = yielded(region)
        found = [*axes, *(self.has_axis(each) for each in handed[len(axes) :])]
        self._hand_back(block, handed, found, b)
        return block, found

    def _block_of(self, region: Region, axes: Sequence[bool]) -> Block:
        """A block with the arguments of a region, of which some have the axis."""
        arguments = region.block.args
        types = [
            self._batch_type(type_of(each)) if axis else type_of(each)
            for each, axis in zip(arguments, axes, strict=True)
        ]
        block = Block(arg_types=types)
        self.values.update(zip(arguments, block.args, strict=True))
        return block

    def _batch_type(self, sample: TensorType) -> TensorType:
        return TensorType(ShapeAttr((self.size, *sample.shape)), sample.element)

    def _with_axes(
        self, samples: Sequence[SSAValue], axes: Sequence[bool], b: GraphBuilder
    ) -> Values:
        return [
            self.whole(each, b) if axis else self.value(each)
            for each, axis in zip(samples, axes, strict=True)
        ]

    def _hand_back(
        self, block: Block, samples: Sequence[SSAValue], axes: Sequence[bool], b: GraphBuilder
    ) -> None:
        values = self._with_axes(samples, axes, self.builder_of(block, b))
        block.add_op(YieldOp.create(operands=values))


def _where(b: GraphBuilder, held: SSAValue, new: SSAValue, old: SSAValue) -> SSAValue:
    return b.where(aligned(b, held, type_of(new).rank - 1), new, old)


def _stacks_in_front(
    results: Sequence[SSAValue], axes: Sequence[bool], states: int, b: GraphBuilder
) -> Values:
    """A loop's results; of those that it stacks the batch is brought in front of the iterations."""
    stacks = zip(results[states:], axes[states:], strict=True)
    return [*results[:states], *(to_front(b, x, 1) if axis else x for x, axis in stacks)]

"""graph -> graph: operators on one sample become operators on a batch, whose samples lie along a
new first axis. What depends on no argument with that axis is computed once.

Each operator's facet `vmap` says how; a loop over the samples computes what has none. Sizes are the
same for all samples.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, NameLoc
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint
from xdsl.traits import IsTerminator

from weft.compiler.graph.batch.control import BatchedRegions
from weft.compiler.graph.differentiate.cotangents import fresh_sizes
from weft.dialects.errors import OptionError, UnsupportedError
from weft.dialects.expr import Expr
from weft.dialects.graph import OPS_BY_NAME, GraphOp, NativeCallOp
from weft.dialects.graph.core.batching import is_batched, spread
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.types import ShapeAttr, TensorType, type_of
from weft.dialects.graph.regions.branch import BranchOp
from weft.dialects.graph.regions.control import BindSizesOp
from weft.dialects.graph.regions.derivative import CheckpointOp, CustomVjpOp
from weft.dialects.graph.regions.fused import YieldOp
from weft.dialects.graph.regions.repeat import ForOp, WhileOp


def batch_block(
    b: GraphBuilder,
    block: Block,
    arguments: Sequence[SSAValue],
    results: Sequence[SSAValue],
    size: Expr,
    fresh: Callable[[str], str],
) -> list[SSAValue]:
    """Inserts what the operators of a block compute for `size` samples: of results those that
    depend on the sample have the new first axis, as have arguments of one rank more than the
    block's. `fresh` names sizes.

    Raises UnsupportedError that names the operator, and its line, whose results would have sizes
    that differ from sample to sample, or that acts.
    """
    batching = Batching(b.ops, size, fresh, dict(zip(block.args, arguments, strict=True)))
    batching.run(block, b)
    return [batching.value(each) for each in results]


@dataclass
class Batching(BatchedRegions):
    """The values of one sample, and what stands for each."""

    ops: Mapping[str, type[GraphOp]]
    size: Expr
    fresh: Callable[[str], str]
    values: dict[SSAValue, SSAValue]

    def value(self, sample: SSAValue) -> SSAValue:
        """What stands for a value; one of around stands for itself."""
        return self.values.get(sample, sample)

    def has_axis(self, sample: SSAValue) -> bool:
        """Whether a value differs from sample to sample."""
        return is_batched(self.value(sample), sample)

    def whole(self, sample: SSAValue, b: GraphBuilder) -> SSAValue:
        """What stands for a value, with the axis."""
        return spread(b, self.value(sample), sample, self.size)

    def run(self, block: Block, b: GraphBuilder) -> None:
        """Inserts the operators of a block, but for its terminator."""
        outer = b.location
        for op in (each for each in block.ops if not each.has_trait(IsTerminator)):
            b.location = op.location if isinstance(op.location, NameLoc) else outer
            self._operation(op, b)
        b.location = outer

    def _operation(self, op: Operation, b: GraphBuilder) -> None:
        if not self._varies(op):
            self._copy(op, b)
            return
        match op:
            case GraphOp():
                operands = [self.value(each) for each in op.operands]
                found = op.vmap(operands, self.size, b)
                results = self._loop(op, operands, b) if found is None else found
            case NativeCallOp():
                results = self._loop(op, [self.value(each) for each in op.operands], b)
            case BranchOp():
                results = self.branch(op, b)
            case ForOp():
                results = self.counted_loop(op, b)
            case WhileOp():
                results = self.conditional_loop(op, b)
            case CheckpointOp():
                results = self.checkpoint(op, b)
            case CustomVjpOp():
                results = self.custom(op, b)
            case BindSizesOp():
                raise self.refusal(op, "sizes that are the same for all samples")
            case _:
                raise self.refusal(op, "operators that compute")
        self.values.update(zip(op.results, results, strict=True))

    def _varies(self, op: Operation) -> bool:
        """Whether an operator reads, in its regions too, what differs from sample to sample."""
        return any(self.has_axis(each) for inner in op.walk() for each in inner.operands)

    def _copy(self, op: Operation, b: GraphBuilder) -> None:
        copy = op.clone(value_mapper=self.values)
        b.builder.insert(copy)
        self.values.update(zip(op.results, copy.results, strict=True))

    def _loop(
        self, op: GraphOp | NativeCallOp, operands: Sequence[SSAValue], b: GraphBuilder
    ) -> Sequence[SSAValue]:
        """One sample after the other."""
        index, body = self.fresh("sample"), Block()
        inner = self.builder_of(body, b)
        rows = [
            _row(inner, value, index) if is_batched(value, sample) else value
            for value, sample in zip(operands, op.operands, strict=True)
        ]
        copy = op.clone(value_mapper=dict(zip(op.operands, rows, strict=True)))
        inner.builder.insert(copy)
        body.add_op(YieldOp.create(operands=copy.results))
        return b.builder.insert(ForOp.of(self.size, index, [], body, location=b.location)).results

    def refusal(self, op: Operation, rule: str) -> UnsupportedError:
        """An error that names the operator."""
        location = op.location
        line = f"{location.desc.data}: " if isinstance(location, NameLoc) else ""
        return UnsupportedError(f"{line}vmap requires {rule}, got {op.name}")


@dataclass(frozen=True)
class VmapPass(ModulePass):
    """Makes a function of one sample one of a batch of `size` samples, a number or a name: along a
    new first axis of the arguments at the positions `batched` (of all by default), and of all
    results.
    """

    name = "weft-vmap"
    function: str = "main"
    size: str = "batch"
    batched: tuple[int, ...] | None = None

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        function = next((each for each in op.ops if _is_function(each, self.function)), None)
        if not isinstance(function, FuncOp):
            raise OptionError(
                f"{self.name} requires a function of the module, got @{self.function}"
            )
        size = Expr.of(int(self.size) if self.size.isdecimal() else self.size)
        before, block = function.body.block, Block()
        chosen = range(len(before.args)) if self.batched is None else self.batched
        for position, argument in enumerate(before.args):
            sample = type_of(argument)
            dims = ShapeAttr((size, *sample.shape)) if position in chosen else sample.dims
            added = block.insert_arg(TensorType(dims, sample.element), position)
            added.name_hint = argument.name_hint
        b = GraphBuilder(InsertPoint.at_end(block), OPS_BY_NAME)
        returned = function.get_return_op()
        assert returned is not None, "a function returns"
        fresh = fresh_sizes(before)
        samples = returned.arguments
        found = batch_block(b, before, block.args, samples, size, fresh)
        pairs = zip(found, samples, strict=True)
        block.add_op(ReturnOp(*(spread(b, value, sample, size) for value, sample in pairs)))
        function.detach_region(function.body)
        function.add_region(Region(block))
        function.update_function_type()


def _is_function(op: Operation, name: str) -> bool:
    return isinstance(op, FuncOp) and op.sym_name.data == name


def _row(b: GraphBuilder, value: SSAValue, index: str) -> SSAValue:
    """The sample of that number."""
    rest = type_of(value).shape[1:]
    starts = ShapeAttr((Expr.of(index), *(Expr.of(0) for _ in rest)))
    sizes = ShapeAttr((Expr.of(1), *rest))
    row = b.slice(value, sizes=sizes, starts=starts, steps=[1] * (1 + len(rest)))
    return b.reshape(row, shape=ShapeAttr(rest))

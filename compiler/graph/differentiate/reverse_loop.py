"""Reverse mode of loops: another loop runs the derivatives of the iterations, the last one first.
What they read of the iterations is stacked by the loop.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass

from msgspec import Struct
from xdsl.ir import Block, BlockArgument, SSAValue
from xdsl.rewriter import InsertPoint

from weft.compiler.graph.differentiate.residuals import Residuals, extend_results
from weft.compiler.graph.differentiate.reverse_branch import Arriving, end_block
from weft.compiler.graph.differentiate.reverse_path import (
    Contribution,
    Reversal,
    captured,
    is_float,
    path_between,
)
from weft.dialects.errors import UnsupportedError
from weft.dialects.expr import Expr
from weft.dialects.graph import OPS_BY_NAME, ForOp, ReshapeOp
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.op import ints
from weft.dialects.graph.core.types import ShapeAttr, TensorType, type_of
from weft.dialects.graph.ops.matmul import MatmulOp, merged_rows, transposed
from weft.dialects.graph.regions.control import replace_sizes, size_atoms, yielded
from weft.dialects.graph.regions.repeat import RepeatOp
from weft.dialects.graph.reindexing.movement import TransposeOp
from weft.dialects.graph.reindexing.slicing import SliceOp, exprs


def active_state(
    op: RepeatOp, reached: Container[SSAValue], sources: Sequence[SSAValue]
) -> list[int]:
    """The positions of carried floats that depend on an input in some iteration; `sources` are
    what the body reads from outside and does.
    """
    body, handed = op.repeated.block, yielded(op.repeated)
    found = {n for n, each in enumerate(op.operands_) if each in reached and is_float(each)}
    while True:
        inputs = [*sources, *(body.args[n] for n in found)]
        inner = path_between(body, filter(is_float, handed), inputs).reached
        state = enumerate(zip(body.args, handed, strict=False))
        more = {n for n, (_, value) in state if value in inner and is_float(value)} - found
        if not more:
            return sorted(found)
        found |= more


class _Row(Struct, frozen=True):
    """A value of one iteration that is a row of an outer value: `source[scale * i + offset]`."""

    slice: SliceOp
    scale: int
    offset: Expr


def _rows(op: RepeatOp, sources: Sequence[SSAValue]) -> list[_Row]:
    """The slices of a body that take one row for each iteration."""
    found: list[_Row] = []
    for each in op.repeated.block.ops:
        if isinstance(each, SliceOp) and each.operand in sources:
            (start, *starts), (size, *sizes) = exprs(each.starts), exprs(each.sizes)
            whole = sizes == list(type_of(each.operand).shape[1:]) and set(ints(each.steps)) == {1}
            for scale in (1, -1):
                offset = start - scale * Expr.of(op.index.data)
                free = op.inner_sizes().isdisjoint(offset.symbols())
                if size == 1 and whole and not any(each != 0 for each in starts) and free:
                    found.append(_Row(each, scale, offset))
    return found


class _Product(Struct, frozen=True):
    """The cotangent `lhs^T rhs` of a matrix in one iteration, or its transpose."""

    lhs: SSAValue
    rhs: SSAValue
    swapped: bool

    def of_all(self, b: GraphBuilder, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
        """The sum of all iterations, whose factors are stacked: one product of all their rows."""
        found = b.matmul(transposed(b, merged_rows(b, lhs)), merged_rows(b, rhs))
        return transposed(b, found) if self.swapped else found


def _product(slope: SSAValue) -> _Product | None:
    """The factors of a cotangent that is larger than both of them together."""
    outer = _unshaped(slope)
    swapped = isinstance(outer.owner, TransposeOp)
    found = _unshaped(outer.owner.operand) if isinstance(outer.owner, TransposeOp) else outer
    if not isinstance(found.owner, MatmulOp) or type_of(found).rank != 2:
        return None
    left, right = _unshaped(found.owner.lhs).owner, found.owner.rhs
    if not isinstance(left, TransposeOp) or type_of(right).rank != 2:
        return None
    more = type_of(found).size - type_of(left.operand).size - type_of(right).size
    return _Product(left.operand, right, swapped) if (more.constant or 0) > 0 else None


def _unshaped(value: SSAValue) -> SSAValue:
    """A value in front of reshapes to the shape that it has."""
    while isinstance(value.owner, ReshapeOp):
        if type_of(value.owner.operand).dims != type_of(value).dims:
            break
        value = value.owner.operand
    return value


class _Reverse:
    """The reverse of one loop in the making: a block that carries the cotangents of the state, and
    adds up those of what the body reads from outside. Cotangents of rows are stacked instead, and
    so are the factors of those of a large matrix, for one product behind the loop.
    """

    def __init__(
        self, reversal: Reversal, op: RepeatOp, reached: Container[SSAValue], b: GraphBuilder
    ) -> None:
        self.reversal, self.op, self.b = reversal, op, b
        self.body, self.handed = op.repeated.block, yielded(op.repeated)
        self.index = reversal.fresh(op.index.data)
        self.iteration = op.iterations - 1 - Expr.of(self.index)
        self.back = Block()
        self.inner = GraphBuilder(InsertPoint.at_end(self.back), b.ops, b.location)
        self.sources = [value for value in captured(op) if value in reached and is_float(value)]
        self.rows = _rows(op, self.sources)
        self.state = active_state(op, reached, self.sources)

    def argument(self, tensor_type: TensorType) -> BlockArgument:
        """A further carried value."""
        return self.back.insert_arg(tensor_type, len(self.back.args))

    def seeds(self, arriving: Arriving) -> list[tuple[SSAValue, SSAValue]]:
        """What an iteration yields, and its cotangents: carried ones, and rows of stacked ones."""
        found = [(self.handed[n], self.argument(type_of(self.body.args[n]))) for n in self.state]
        rows: list[tuple[SSAValue, SSAValue]] = []
        for n, each in enumerate(arriving):
            if n >= len(self.op.operands_) and each is not None and is_float(each):
                value = self.handed[n]
                rows.append((value, row_of(self.inner, each, self.iteration, type_of(value))))
        return [*found, *rows]

    def run(self, arriving: Arriving) -> list[Contribution]:
        """Builds the loop; returns the cotangents of what the forward one reads."""
        seeds = self.seeds(arriving)
        slopes = list(self.back.args)
        arguments = [self.body.args[n] for n in self.state]
        taken = [row.slice.result for row in self.rows]
        stops = [row.slice for row in self.rows]
        inputs = [*arguments, *self.sources, *taken]
        found = self.reversal.pull(self.inner, self.body, seeds, inputs, stops)
        factors = {value: _product(found[value]) for value in self.sources if value in found}
        products = {value: each for value, each in factors.items() if each is not None}
        totals = [value for value in factors if value not in products]
        rows = [row for row in self.rows if row.slice.result in found]
        yields = [found.get(each) or self.inner.filled(0.0, each) for each in arguments]
        for value in totals:
            yields.append(self.inner.add(self.argument(type_of(value)), found[value]))
        stacks = [found[row.slice.result] for row in rows]
        stacks += [factor for each in products.values() for factor in (each.lhs, each.rhs)]
        end_block(self.inner, [*yields, *stacks])
        _LoopResiduals(self.reversal, self.body, self.back, self.op, self.iteration).resolve()
        atoms = size_atoms({self.op.index.data: self.iteration})
        for each in self.back.ops:
            replace_sizes(each, atoms)
        starts = [
            arriving[n] or self.b.filled(0.0, slope)
            for n, slope in zip(self.state, slopes, strict=True)
        ]
        starts += [self.b.filled(0.0, value) for value in totals]
        location = self.b.location
        loop = ForOp.of(self.op.iterations, self.index, starts, self.back, location=location)
        results = list(self.b.builder.insert(loop).results)
        values = [*(self.op.operands_[n] for n in self.state), *totals]
        stacked = iter(results[len(values) :])
        gathered = [(row.slice.operand, self._gathered(row, next(stacked))) for row in rows]
        gathered += [
            (value, each.of_all(self.b, next(stacked), next(stacked)))
            for value, each in products.items()
        ]
        return [*zip(values, results, strict=False), *gathered]

    def _gathered(self, row: _Row, stack: SSAValue) -> SSAValue:
        """The rows of all iterations, which are stacked from the last one on, where they belong."""
        tensor_type, iterations = type_of(row.slice.operand), self.op.iterations
        rows = self.b.reshape(stack, shape=ShapeAttr((iterations, *tensor_type.shape[1:])))
        first = row.offset + row.scale * (iterations - 1)
        starts = ShapeAttr((first, *[Expr.of(0)] * (tensor_type.rank - 1)))
        steps = [-row.scale, *[1] * (tensor_type.rank - 1)]
        return self.b.scatter_slice(rows, shape=tensor_type.dims, starts=starts, steps=steps)


def reverse_loop(
    reversal: Reversal,
    op: RepeatOp,
    arriving: Arriving,
    reached: Container[SSAValue],
    b: GraphBuilder,
) -> list[Contribution]:
    """The loop of as many iterations whose body is the derivative of the body."""
    if op.size_names:
        node = f" of node '{op.onnx_name}'" if op.onnx_name else ""
        rule = "gradients require loops whose carried values keep their shapes"
        raise UnsupportedError(f"{rule}, got {op.name}{node} where {', '.join(op.size_names)} vary")
    if op.iterations == 0:  # rows of what nothing was stacked in would be out of range
        pairs = zip(op.operands_, arriving, strict=False)
        return [(value, each) for value, each in pairs if each is not None and value in reached]
    return _Reverse(reversal, op, reached, b).run(arriving)


def row_of(b: GraphBuilder, stack: SSAValue, number: Expr, tensor_type: TensorType) -> SSAValue:
    """The element of an iteration of that number in what is stacked."""
    rest = [Expr.of(0)] * tensor_type.rank
    starts, sizes = ShapeAttr((number, *rest)), ShapeAttr((Expr.of(1), *tensor_type.shape))
    row = b.slice(stack, starts=starts, sizes=sizes, steps=[1] * (tensor_type.rank + 1))
    return b.reshape(row, shape=tensor_type.dims)


@dataclass
class _LoopResiduals(Residuals):
    """What an iteration computes is stacked by the loop."""

    op: RepeatOp
    iteration: Expr

    @property
    def index(self) -> str:
        return self.op.index.data

    def keep(self, values: Sequence[SSAValue]) -> list[SSAValue]:
        last, first = self.forward.last_op, self.back.first_op
        assert last is not None, "a region ends in graph.yield"
        assert first is not None, "a region ends in graph.yield"
        last.operands = [*last.operands, *values]
        b = GraphBuilder(InsertPoint.before(first), OPS_BY_NAME, self.op.location)
        stacks = extend_results(self.op)
        return [
            row_of(b, stack, self.iteration, type_of(value))
            for stack, value in zip(stacks, values, strict=True)
        ]

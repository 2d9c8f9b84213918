"""graph -> loop, control flow: regions of graph operators become the program's branches and loops.

Each result and each carried value has a buffer outside of the branch or loop, and regions fill it.
A value whose size varies lives in a growable buffer, and its size in a cell beside it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from typing import TypeVar

from xdsl.dialects.builtin import LocationAttr
from xdsl.ir import Block, Operation, Region, SSAValue

from weft.dialects.expr import Atom, Expr, Symbol
from weft.dialects.graph import BindSizesOp, ControlOp, EffectOp, ForOp, IfOp, PrintOp, WhileOp
from weft.dialects.graph.core.dtypes import numpy_dtype
from weft.dialects.graph.core.types import I64, TensorType, type_of
from weft.dialects.graph.regions.branch import BranchOp
from weft.dialects.graph.regions.control import match_dims, yielded
from weft.dialects.graph.regions.effects import AssertOp
from weft.dialects.graph.regions.repeat import RepeatOp
from weft.dialects.loop import effects
from weft.dialects.loop import ops as loop
from weft.dialects.loop.builder import LoopBuilder
from weft.dialects.loop.dynamic import (
    BindSymbolOp,
    CopyOp,
    CurrentViewOp,
    ReallocOp,
    SubviewOp,
    root,
)
from weft.dialects.loop.ops import AllocOp
from weft.dialects.loop.scalar import Scalar
from weft.dialects.loop.types import BufferType, buffer, buffer_type_of
from weft.dialects.printed import annotated

Op = TypeVar("Op", bound=Operation)

Cells = Mapping[str, SSAValue]
"""By the name of a size, the buffer that holds its current value."""


def buffer_of(tensor_type: TensorType) -> BufferType:
    """The row-major buffer that holds a tensor."""
    return buffer(tensor_type.shape, tensor_type.element)


class ControlLowering(ABC):
    """Lowers control flow into `block`.

    `buffers` are those of the graph's values so far, `run_time_sizes` the sizes that no caller
    knows.
    """

    block: Block
    buffers: dict[SSAValue, SSAValue]
    run_time_sizes: set[str]
    location: LocationAttr | None
    """The node or line of the operator that is lowered, which errors of the program name."""
    max_iterations: int | None
    """How many iterations a loop may have before the program fails."""

    @abstractmethod
    def lower_block(self, block: Block) -> None:
        """Lowers the operators of a graph block, its terminator aside."""

    @abstractmethod
    def write_to(self, value: SSAValue, target: SSAValue) -> None:
        """Lets the operator that computes a value write it to the target, where it may."""

    @abstractmethod
    def is_one_kernel(self, op: Operation) -> bool:
        """Whether an operator of the block is a loop that becomes one kernel."""

    def add(self, op: Op) -> Op:
        """Adds an operation to the program."""
        if self.location is not None:
            op.location = self.location
        self.block.add_op(op)
        return op

    def lower_control(self, op: ControlOp) -> None:
        """Lowers a branch or a loop."""
        cells = {name: self._cell() for name in op.size_names}
        match op:
            case BranchOp():
                self._lower_branches(op, cells)
            case RepeatOp():
                self._lower_repeat(op, cells)
            case _:
                raise AssertionError(f"{op.name} is neither a branch nor a loop")

    def bind_sizes(self, op: BindSizesOp) -> None:
        """Gives sizes the values of a tensor's elements."""
        source = self.buffers[op.operand]
        scalar = buffer_type_of(source).rank == 0
        for position, name in enumerate(op.defined_sizes):
            self._bind(name, source, [] if scalar else [position])

    def lower_effect(self, op: EffectOp) -> None:
        """Prints values, or requires a condition."""
        if isinstance(op, PrintOp):
            tensor_types = [type_of(value) for value in op.values]
            words = [f"{numpy_dtype(each.element).name},{each.rank}" for each in tensor_types]
            buffers = [self.buffers[value] for value in op.values]
            self.add(effects.PrintOp.of(annotated(op.text.data, words), buffers))
            return
        assert isinstance(op, AssertOp), "an effect is one of two"
        held, *values = (self._builder.load(self.buffers[each], []) for each in op.operands)
        numbers = [each.value for each in values]
        self.add(effects.AssertOp.of(held.value, op.text.data, numbers))

    # Sizes in memory --------------------------------------------------------------------------

    @property
    def _builder(self) -> LoopBuilder:
        return LoopBuilder(self.block)

    def _cell(self) -> SSAValue:
        return self.add(AllocOp.of(buffer([], I64))).result

    def _store(self, cell: SSAValue, value: Expr) -> None:
        builder = self._builder
        builder.store(cell, [], builder.index(value, I64))

    def _bind(self, name: str, source: SSAValue, index: Sequence[int] = ()) -> None:
        """Names an integer of a buffer."""
        builder = self._builder
        self.add(BindSymbolOp.of(name, builder.subscript(builder.load(source, index))))

    def _bind_all(self, cells: Cells) -> None:
        for name, cell in cells.items():
            self._bind(name, cell)

    @contextmanager
    def _inside(self, block: Block) -> Generator[None]:
        outside, self.block = self.block, block
        yield
        self.block = outside

    # Buffers that regions fill ----------------------------------------------------------------

    def _holder(self, value: SSAValue, sizes: Iterable[str]) -> SSAValue:
        """The buffer of a result: growable, and empty at first, where its size is found inside."""
        tensor_type = type_of(value)
        if not mentions(tensor_type, sizes):
            if value in self.buffers:
                return self.buffers[value]
            alloc = AllocOp.of(buffer_of(tensor_type))
        else:
            nothing: dict[Atom, Expr] = {Symbol(name): Expr.of(0) for name in sizes}
            alloc = AllocOp.of(buffer_of(tensor_type).substitute(nothing), "growable")
        return self.add(alloc).result

    def _fill(
        self,
        holder: SSAValue,
        source: SSAValue,
        pattern: TensorType,
        tensor_type: TensorType,
        cells: Cells,
    ) -> None:
        """Copies a value into a holder; one that varies is made large enough, its sizes noted."""
        if source is holder:
            return
        if is_growable(holder):
            for name, dim in match_dims(pattern, tensor_type, list(cells)).items():
                self._store(cells[name], dim)
            holder = self.add(ReallocOp.of(holder, buffer_of(tensor_type))).result
        self.add(CopyOp.of(source, holder))

    def _held(self, holder: SSAValue, tensor_type: TensorType) -> SSAValue:
        """What a holder holds, under sizes that are bound here."""
        if not is_growable(holder):
            return holder
        return self.add(CurrentViewOp.of(holder, buffer_of(tensor_type))).result

    # Branches ---------------------------------------------------------------------------------

    def _lower_branches(self, op: BranchOp, cells: Cells) -> None:
        holders = [self._holder(result, op.size_names) for result in op.results_]
        selector = self._builder.load(self.buffers[op.operands_[0]], [])
        self._lower_choice(
            op, 0, selector, lambda block: self._lower_branch(op, block, holders, cells)
        )
        self._bind_all(cells)
        for result, holder in zip(op.results_, holders, strict=True):
            self.buffers[result] = self._held(holder, type_of(result))

    def _lower_choice(
        self, op: BranchOp, number: int, selector: Scalar, lower: Callable[[Block], None]
    ) -> None:
        """Lowers the regions from that number on, each but the last behind a test."""
        block = op.regions[number].block
        if number == len(op.regions) - 1:
            lower(block)
            return
        here = Scalar(self._builder.builder, selector.value, selector.element)
        holds = here if isinstance(op, IfOp) else here.compare("eq", number)
        branch = self.add(loop.IfOp.build(operands=[holds.value], regions=[[Block()], [Block()]]))
        with self._inside(branch.then.block):
            lower(block)
        with self._inside(branch.otherwise.block):
            self._lower_choice(op, number + 1, selector, lower)

    def _lower_branch(
        self, op: BranchOp, block: Block, holders: Sequence[SSAValue], cells: Cells
    ) -> None:
        last = block.last_op
        assert last is not None, "a region ends in graph.yield"
        for value, holder in zip(last.operands, holders, strict=True):
            if not is_growable(holder):
                self.write_to(value, holder)
        self.lower_block(block)
        for value, holder, result in zip(last.operands, holders, op.results_, strict=True):
            self._fill(holder, self.buffers[value], type_of(result), type_of(value), cells)

    # Loops ------------------------------------------------------------------------------------

    def prepare_states(self, block: Block) -> None:
        """Lets operators of a block write what only a loop of the block starts from where that loop
        keeps it; a loop that alone reads what one around it carries keeps it where that does.
        """
        for op in block.ops:
            if not isinstance(op, RepeatOp) or self.is_one_kernel(op):
                continue
            for init, argument, result in zip(
                op.operands_, op.repeated.block.args, op.results_, strict=False
            ):
                if not init.has_one_use() or mentions(type_of(argument), self.run_time_sizes):
                    continue
                around = block.parent_op()
                # A condition has arguments of its own for what the body reads afterwards.
                if isinstance(around, RepeatOp) and init.owner is block is around.repeated.block:
                    self.buffers[result] = self.buffers[init]
                else:
                    self.buffers[result] = self._holder(result, ())
                    self.write_to(init, self.buffers[result])

    def _lower_repeat(self, op: RepeatOp, cells: Cells) -> None:
        count = len(op.operands_)
        carried, stacked = op.results_[:count], op.results_[count:]
        states = [self._state(op, position, cells) for position in range(count)]
        unknown = [op.count.data] if isinstance(op, WhileOp) else []
        stacks = [self._holder(result, unknown) for result in stacked]
        if isinstance(op, ForOp):
            self._limit(op.iterations)
            repeated = loop.ForOp.of(0, op.iterations)
            self.add(repeated)
            with self._inside(repeated.body.block):
                self.add(BindSymbolOp.of(op.index.data, Expr.atom(repeated.index)))
                self._lower_iteration(op, states, stacks, cells)
        else:
            assert isinstance(op, WhileOp), "a loop is one of two"
            self._bind(op.count.data, self._lower_while(op, states, stacks, cells))
        self._bind_all(cells)
        for result, state in zip(carried, states, strict=True):
            self.buffers[result] = self._held(state, type_of(result))
        for result, stack in zip(stacked, stacks, strict=True):
            self.buffers[result] = self._held(stack, type_of(result))

    def _limit(self, iterations: Expr) -> None:
        """Fails where a loop has more iterations than it may."""
        most, extent = self.max_iterations, iterations.constant
        if most is None or (extent is not None and extent <= most):
            return
        number = self._builder.index(iterations, I64)
        text = f"run requires loops of at most {most} iterations, got {{}}"
        held = Scalar(self._builder.builder, number.value, I64).compare("le", most)
        self.add(effects.AssertOp.of(held.value, text, [number.value]))

    def _state(self, op: RepeatOp, position: int, cells: Cells) -> SSAValue:
        """The buffer of a carried value, holding what the loop starts from."""
        init, argument = op.operands_[position], op.repeated.block.args[position]
        holder = self._holder(op.results_[position], op.size_names)
        self._fill(holder, self.buffers[init], type_of(argument), type_of(init), cells)
        return holder

    def _lower_while(
        self, op: WhileOp, states: Sequence[SSAValue], stacks: Sequence[SSAValue], cells: Cells
    ) -> SSAValue:
        """Lowers the loop; returns the cell that counts its iterations."""
        counter = self._cell()
        self._store(counter, Expr.of(0))
        repeated = loop.WhileOp.create(regions=[Region(Block()), Region(Block())])
        self.add(repeated)
        block = op.condition.block
        with self._inside(repeated.condition.block):
            self._bind(op.index.data, counter)
            self._enter(block, states, cells)
            self.lower_block(block)
            holds = self._builder.load(self.buffers[yielded(op.condition)[0]], [])
            self.add(loop.ConditionOp.create(operands=[holds.value]))
        with self._inside(repeated.body.block):
            self._bind(op.index.data, counter)
            self._limit(Expr.of(op.index.data) + 1)
            self._lower_iteration(op, states, stacks, cells)
            self._store(counter, Expr.of(op.index.data) + 1)
        return counter

    def _enter(self, block: Block, states: Sequence[SSAValue], cells: Cells) -> None:
        """Gives a region's arguments the carried values."""
        self._bind_all(cells)
        for argument, state in zip(block.args, states, strict=True):
            self.buffers[argument] = self._held(state, type_of(argument))

    def _lower_iteration(
        self, op: RepeatOp, states: Sequence[SSAValue], stacks: Sequence[SSAValue], cells: Cells
    ) -> None:
        block = op.repeated.block
        self._enter(block, states, cells)
        values = yielded(op.repeated)
        index = Expr.of(op.index.data)
        rows = [
            self._row(stack, type_of(value), index)
            for stack, value in zip(stacks, values[len(states) :], strict=True)
        ]
        for row, value in zip(rows, values[len(states) :], strict=True):
            self.write_to(value, row)
        self.lower_block(block)
        for row, value in zip(rows, values[len(states) :], strict=True):
            if self.buffers[value] is not row:
                self.add(CopyOp.of(self.buffers[value], row))
        self._carry(op, states, cells)

    def _row(self, stack: SSAValue, tensor_type: TensorType, index: Expr) -> SSAValue:
        """The place of an iteration's element in what is stacked."""
        if is_growable(stack):
            grown = buffer([index + 1, *tensor_type.shape], tensor_type.element)
            stack = self.add(ReallocOp.of(stack, grown, keep=True)).result
        return self.add(SubviewOp.of(stack, index, buffer_of(tensor_type))).result

    def _carry(self, op: RepeatOp, states: Sequence[SSAValue], cells: Cells) -> None:
        """Copies what the body yields to the carried buffers, by way of others what is in one."""
        arguments = op.repeated.block.args
        values = list(yielded(op.repeated))[: len(states)]
        moved = [
            (position, value)
            for position, value in enumerate(values)
            if value is not arguments[position] and self.buffers[value] is not states[position]
        ]
        roots = {root(state) for state in states}
        sources: dict[int, SSAValue] = {}
        for position, value in moved:
            sources[position] = self.buffers[value]
            if root(sources[position]) in roots:
                aside = self.add(AllocOp.of(buffer_of(type_of(value)))).result
                self.add(CopyOp.of(sources[position], aside))
                sources[position] = aside
        for position, value in moved:
            pattern = type_of(arguments[position])
            self._fill(states[position], sources[position], pattern, type_of(value), cells)


def mentions(tensor_type: TensorType, sizes: Iterable[str]) -> bool:
    """Whether a dim depends on one of the sizes."""
    wanted = set(sizes)
    return any(not wanted.isdisjoint(dim.symbols()) for dim in tensor_type.shape)


def is_growable(holder: SSAValue) -> bool:
    """Whether the buffer is one whose memory grows."""
    alloc = holder.owner
    return isinstance(alloc, AllocOp) and alloc.scope.data == "growable"

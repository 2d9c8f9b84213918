"""The kernel of a loop over scalars (`scalar_loops`): its operators one after the other, with small
tensors on the stack, and large ones in the buffers of the results.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import Final

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Block, Operation, OpResult, SSAValue
from xdsl.rewriter import InsertPoint

from weft.compiler.graph_to_loop.lower_control import buffer_of
from weft.compiler.graph_to_loop.naive_kernels import bind_constant, kernel_stem, sizes_of
from weft.dialects.expr import Atom, Expr, Symbol, maximum
from weft.dialects.graph import ConstantOp, ForOp, GraphOp, IfOp
from weft.dialects.graph.core.types import type_of
from weft.dialects.graph.regions.control import yielded
from weft.dialects.graph.regions.fused import YieldOp
from weft.dialects.graph.reindexing.movement import AssumeOp, IndexMapOp
from weft.dialects.interval import Range
from weft.dialects.loop.builder import LoopBuilder
from weft.dialects.loop.copies import copying_store
from weft.dialects.loop.ops import AllocOp, LoadOp, StoreOp, enclosing_loops
from weft.dialects.loop.ops import ForOp as CountedOp
from weft.dialects.loop.program import KernelOp
from weft.dialects.loop.types import ExprsAttr, buffer_type_of

SMALL: Final = 64
"""Elements that a tensor has at most to be computed anew in each iteration."""

SHORT: Final = 256
"""Iterations that an operator's own loops have at most: of longer ones schedules make more."""


class Unfit(Exception):
    """The loop is none that becomes a kernel."""


def _is_small(value: SSAValue) -> bool:
    size = type_of(value).size.constant
    return size is not None and size <= SMALL


class ScalarLoopLowering:
    """Writes a loop as a kernel. Of what only moves elements, tensors of more than `views` are no
    buffers: what reads them reads what they come from. Raises Unfit for a loop that would have to
    copy large tensors, or to run operators with long loops of their own.
    """

    def __init__(self, loop: ForOp, outside: Sequence[SSAValue], views: int, *, strict: bool):
        self.loop, self.views = loop, views
        self.outside = outside
        operators = [op for op in loop.walk() if isinstance(op, GraphOp)]
        values = [*self.outside, *loop.results_]
        kernel = KernelOp.of(
            f"for_{kernel_stem(operators[:3])}",
            self._sizes([*values, *(each for op in operators for each in op.results)], operators),
            [buffer_of(type_of(each)) for each in values],
        )
        self.kernel, arguments = kernel, list(kernel.body.block.args)
        self.builder = LoopBuilder(kernel.body.block, strict=strict)
        self.results = arguments[len(self.outside) :]
        self.buffers: dict[SSAValue, SSAValue] = dict(zip(self.outside, arguments, strict=False))
        self.changeable: set[SSAValue] = set()
        """The large values in buffers that the loop fills itself."""
        self.lowered: set[Operation] = set()
        self.ranges: dict[Atom, Range] = {}

    def _sizes(self, values: Sequence[SSAValue], operators: Sequence[GraphOp]) -> list[str]:
        """The sizes of the program that the kernel needs."""
        loops = [op for op in self.loop.walk() if isinstance(op, ForOp)]
        inner = {op.index.data for op in loops}
        counts = [name for op in loops for name in op.iterations.symbols()]
        names = [*sizes_of(operators, [type_of(each) for each in values]), *counts]
        return [name for name in dict.fromkeys(names) if name not in inner]

    def run(self) -> KernelOp:
        """The kernel, in which nothing names an iteration's number."""
        self._loop(self.loop, self.results)
        known = {*self.kernel.symbol_names}
        for op in self.kernel.walk():
            exprs = [each for each in op.properties.values() if isinstance(each, ExprsAttr)]
            if not all(known.issuperset(dim.symbols()) for each in exprs for dim in each.data):
                raise Unfit
        _forward_scalars(self.kernel)
        return self.kernel

    def _is_view(self, op: Operation) -> bool:
        """Whether an operator does nothing but move, which those do that are lowered as all are."""
        if not isinstance(op, IndexMapOp) or isinstance(op, AssumeOp):
            return False
        if type(op).lower is not IndexMapOp.lower:
            return False
        size = type_of(op.result).size.constant
        return size is None or size > self.views

    def _readers(self, value: SSAValue) -> Iterator[Operation]:
        """The operators that read a value, also by way of others that only move elements."""
        for use in value.uses:
            yield use.operation
            if self._is_view(use.operation):
                yield from self._readers(use.operation.results[0])

    def _block(self, block: Block) -> None:
        for op in self._in_order(block):
            match op:
                case ConstantOp():
                    self._constant(op)
                case IndexMapOp() if self._is_view(op):
                    kind, source = type_of(op.result), self._buffer(op.operand)
                    self.buffers[op.result] = self.builder.view(
                        source, op.source_index, kind.shape, kind.element
                    )
                case GraphOp():
                    self._operator(op)
                case ForOp():
                    self._loop(op, None)
                case IfOp():
                    self._branch(op)
                case YieldOp():
                    pass
                case _:
                    raise Unfit
            self.lowered.add(op)

    def _in_order(self, block: Block) -> list[Operation]:
        """The operators of a block, each behind those that it needs, and what may change an operand
        in place behind all others that read it.
        """
        ops = list(block.ops)
        before: dict[Operation, set[Operation]] = {op: set() for op in ops}
        for op in ops:
            needed = {operand.owner for inner in op.walk() for operand in inner.operands}
            before[op].update(each for each in before if each in needed and each is not op)
            for value in _changed_in(op):
                users = map(block.find_ancestor_op_in_block, self._readers(value))
                before[op].update(each for each in users if each is not None and each is not op)
        before[ops[-1]].update(ops[:-1])
        try:
            return list(TopologicalSorter(before).static_order())
        except CycleError:
            raise Unfit from None

    def _operator(self, op: GraphOp) -> None:
        large = [result for result in op.results if not _is_small(result)]
        for result in op.results:
            if result not in large:
                self.buffers[result] = self._scratch(result)
        before = self.block.last_op
        operands = {operand: self._buffer(operand) for operand in op.operands}
        whole = None
        if large:
            changed = _changed_by(op)
            if changed is None:
                raise Unfit
            self._require_last_use(changed, op)
            self.buffers[large[0]] = operands[changed]
            self.changeable.add(large[0])
            whole = AllocOp.of(buffer_of(type_of(changed)))
            operands[changed] = whole.result
        op.lower(
            self.builder,
            [operands[operand] for operand in op.operands],
            [self.buffers[result] for result in op.results],
        )
        if whole is not None:
            _drop_copies(whole.result, self.buffers[large[0]])
        self._require_short(list(_behind(before, self.block)))

    def _buffer(self, value: SSAValue) -> SSAValue:
        if value not in self.buffers:
            assert isinstance(value.owner, ConstantOp), "what a loop reads is lowered, or a number"
            self._constant(value.owner)
        return self.buffers[value]

    def _constant(self, op: ConstantOp) -> None:
        """What is no single number is written down in front of all loops."""
        if op.literal is None:
            raise Unfit
        inner = self.builder.builder.insertion_point
        self.builder.builder.insertion_point = InsertPoint.at_start(self.kernel.body.block)
        bind_constant(self.builder, self.buffers, op.result, op)
        self.builder.builder.insertion_point = inner

    @property
    def block(self) -> Block:
        """Where operations are written now."""
        return self.builder.builder.insertion_point.block

    def _require_short(self, added: Sequence[Operation]) -> None:
        """Refuses long loops, and keeps what an operator remembers for itself on the stack."""
        for op in [inner for each in added for inner in each.walk()]:
            if isinstance(op, AllocOp) and op.scope.data == "workspace":
                size = buffer_type_of(op.result).size.constant
                if size is None or size > SMALL:
                    raise Unfit
                op.scope = StringAttr("scratch")
            if isinstance(op, (LoadOp, StoreOp)):
                count = Expr.of(1)
                for around in enclosing_loops(op):
                    if any(around is each or each.is_ancestor(around) for each in added):
                        count *= around.extent
                if (count.range(self.ranges)[1] or SHORT + 1) > SHORT:
                    raise Unfit

    def _scratch(self, value: SSAValue) -> SSAValue:
        tensor_type = type_of(value)
        dims = tensor_type.static_shape
        assert dims is not None, "a small tensor has constant dims"
        return self.builder.scratch(dims, tensor_type.element)

    def _copy(self, source: SSAValue, target: SSAValue) -> None:
        if source is not target:
            with self.builder.loops(buffer_type_of(target).shape) as index:
                self.builder.store(target, index, self.builder.load(source, index))

    # Loops and branches --------------------------------------------------------------------------

    def _loop(self, op: ForOp, targets: Sequence[SSAValue] | None) -> None:
        """Writes a loop that leaves its results in the targets, if there are any."""
        arguments, count = op.body.block.args, len(op.operands_)
        states = [
            self._state(op, position, None if targets is None else targets[position])
            for position in range(count)
        ]
        stacks = [
            self._stack(result, None if targets is None else targets[count + position])
            for position, result in enumerate(op.results_[count:])
        ]
        self.buffers |= dict(zip(arguments, states, strict=True))
        self.changeable.update(each for each in arguments if not _is_small(each))
        extent = self._extent(op)
        with self.builder.loops([extent], "ijklmnpq"[len(self.ranges) % 8]) as (index,):
            for atom in index.atoms():
                high = extent.range(self.ranges)[1]
                self.ranges[atom] = (0, None if high is None else high - 1)
            self.builder.sizes[Symbol(op.index.data)] = index
            self._block(op.body.block)
            values = yielded(op.body)
            for stack, value in zip(stacks, values[count:], strict=True):
                self._store_row(stack, index, value)
            self._carry(op, states)
            for atom in index.atoms():
                del self.ranges[atom]
        self.buffers |= dict(zip(op.results_, [*states, *stacks], strict=True))
        self.changeable.update(each for each in op.results_ if not _is_small(each))
        for position, target in enumerate(targets or ()):
            self._copy(self.buffers[op.results_[position]], target)

    def _extent(self, op: ForOp) -> Expr:
        assert op.count.data is not None, "a loop lists its count"
        count = op.count.data[0].substitute(self.builder.sizes)
        low = count.range(self.ranges)[0]
        return count if low is not None and low >= 0 else maximum([count, 0])

    def _state(self, op: ForOp, position: int, target: SSAValue | None) -> SSAValue:
        """The buffer of a carried value, with what the loop starts from. Small ones are on the
        stack, where nothing else can be.
        """
        init, argument = op.operands_[position], op.body.block.args[position]
        if _is_small(argument):
            state = self._scratch(argument)
        elif target is not None:
            state = target
        else:
            self._require_last_use(init, op)
            self._require_distinct(op.operands_)
            return self.buffers[init]
        self._copy(self._buffer(init), state)
        return state

    def _stack(self, result: SSAValue, target: SSAValue | None) -> SSAValue:
        if target is not None:
            return target
        if not _is_small(result):
            raise Unfit
        return self._scratch(result)

    def _store_row(self, stack: SSAValue, index: Expr, value: SSAValue) -> None:
        if not _is_small(value):
            raise Unfit
        with self.builder.loops(type_of(value).shape, "xyzw") as inner:
            element = self.builder.load(self._buffer(value), inner)
            self.builder.store(stack, [index, *inner], element)

    def _carry(self, op: ForOp, states: Sequence[SSAValue]) -> None:
        """Gives the carried buffers what an iteration yields, all at once."""
        values = [self._buffer(each) for each in yielded(op.body)[: len(states)]]
        for position, (argument, value) in enumerate(zip(op.body.block.args, values, strict=True)):
            if value is states[position]:
                continue
            if not _is_small(argument):
                raise Unfit  # large ones change places
            if value in states or self.builder.is_view(value):
                values[position] = self._scratch(argument)
                self._copy(value, values[position])
        for state, value in zip(states, values, strict=True):
            self._copy(value, state)

    def _branch(self, op: IfOp) -> None:
        results = {each: self._scratch(each) for each in op.results_ if _is_small(each)}
        condition = self.builder.load(self._buffer(op.operands_[0]), [])
        for region, holds in ((op.then, condition), (op.otherwise, ~condition)):
            with self.builder.when(holds):
                self._block(region.block)
                last = region.block.last_op
                assert last is not None, "a region ends in graph.yield"
                self._require_distinct(last.operands)
                for result, value in zip(op.results_, yielded(region), strict=True):
                    source = self._buffer(value)
                    if _is_small(result):
                        self._copy(source, results[result])
                        continue
                    self._require_last_use(value, last)
                    if results.setdefault(result, source) is not source:
                        raise Unfit
        self.buffers |= results
        self.changeable.update(each for each in op.results_ if not _is_small(each))

    # What is changed in place --------------------------------------------------------------------

    def _require_distinct(self, values: Sequence[SSAValue]) -> None:
        """Refuses to hand on one large value as two."""
        large = [each for each in values if not _is_small(each)]
        if len({*large}) < len(large):
            raise Unfit

    def _require_last_use(self, value: SSAValue, op: Operation) -> None:
        """Refuses an operator that changes a value in place which others still read, or which is
        none of the loop's own; from another iteration's point of view, all outside is read.
        """
        if value not in self.changeable:
            raise Unfit
        here = op
        while (block := here.parent) is not None:
            users = {block.find_ancestor_op_in_block(each) for each in self._readers(value)}
            if not users <= {here, None, *self.lowered}:
                raise Unfit
            owner = value.owner
            if (owner if isinstance(owner, Block) else owner.parent) is block:
                return
            around = block.parent_op()
            if not isinstance(around, IfOp):
                raise Unfit
            here = around


def _changed_by(op: GraphOp) -> SSAValue | None:
    """The operand that an operator's one result may be a changed form of, by its type."""
    if len(op.results) != 1:
        return None
    alike = [operand for operand in op.operands if operand.type == op.results[0].type]
    return alike[0] if len(alike) == 1 else None


def _changed_in(op: Operation) -> list[SSAValue]:
    """The large values that an operator changes."""
    if isinstance(op, ForOp):
        return [each for each in op.operands_ if not _is_small(each)]
    if isinstance(op, GraphOp) and op.results and not _is_small(op.results[0]):
        changed = _changed_by(op)
        return [] if changed is None else [changed]
    inner = (each for region in op.regions for each in region.block.ops)
    return [value for each in inner for value in _changed_in(each)]


def _behind(op: Operation | None, block: Block) -> Iterator[Operation]:
    """The operations of a block behind one, or all."""
    following = block.first_op if op is None else op.next_op
    while following is not None:
        yield following
        following = following.next_op


def _drop_copies(whole: SSAValue, target: SSAValue) -> None:
    """Removes what copies elements of a tensor to where they are already, as an operator does that
    makes a changed one. Raises Unfit where it reads them otherwise.
    """
    for load in [use.operation for use in whole.uses]:
        store = copying_store(load)
        if store is None or store.buffer is not target:
            raise Unfit
        chain: list[Operation] = [store]
        while chain[-1] is not load:
            value = chain[-1].operands[0]
            assert isinstance(value, OpResult), "a cast of what was loaded is stored"
            chain.append(value.op)
        around = load.parent_op()
        for op in chain:
            _erase(op)
        while isinstance(around, CountedOp) and around.body.block.is_empty:
            empty, around = around, around.parent_op()
            _erase(empty)


def _erase(op: Operation) -> None:
    op.detach()
    op.erase()


def _forward_scalars(kernel: KernelOp) -> None:
    """Replaces scratch of one element that is stored once by the stored value."""
    for alloc in [op for op in kernel.walk() if isinstance(op, AllocOp)]:
        stores = [use.operation for use in alloc.result.uses if isinstance(use.operation, StoreOp)]
        if buffer_type_of(alloc.result).size != 1 or len(stores) != 1:
            continue
        (store,) = stores
        block = store.parent
        assert block is not None, "a store stands in a block"
        loads = [use.operation for use in alloc.result.uses if use.operation is not store]
        order = {op: number for number, op in enumerate(block.ops)}
        places = [block.find_ancestor_op_in_block(each) for each in loads]
        if any(each is None or order[each] < order[store] for each in places):
            continue
        for load in loads:
            load.results[0].replace_all_uses_with(store.value)
            _erase(load)
        _erase(store)
        _erase(alloc)

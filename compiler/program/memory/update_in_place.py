"""program -> program: a call that changes a little of a buffer writes to that buffer.

    loop.for %i = 0 to n {                          loop.for %i = 0 to n {
      %y = loop.alloc workspace : ...                 loop.call @scatter_1(%k, %u, %x)
      loop.call @scatter(%x, %k, %u, %y)      =>    }
      loop.copy %y, %x
    }

Here `@scatter` starts by copying its first argument to its last, and `@scatter_1` does not. What a
iteration of a loop leaves behind is also written at once where it need not be copied first.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct
from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, IntAttr, ModuleOp, StringAttr
from xdsl.ir import Block, BlockArgument, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.utils.hints import isa

from weft.compiler.program.memory.buffer_uses import BufferUses, Order
from weft.compiler.program.memory.in_place import in_place_arguments
from weft.dialects.expr import Expr, product
from weft.dialects.loop.copies import copying_store, only_copies
from weft.dialects.loop.dynamic import CopyOp, root
from weft.dialects.loop.ops import AllocOp, StoreOp, enclosing_loops
from weft.dialects.loop.program import (
    ORIGIN,
    UPDATES,
    WEIGHTS,
    CallOp,
    KernelOp,
    ProgramOp,
    donated_pairs,
    size_ranges,
)

NameKernel = Callable[[KernelOp], object]
"""Names a kernel after what it does; handed in by the pipeline."""


class WriteStatesPass(ModulePass):
    """Lets calls in loops write to the buffers that their results would be copied to."""

    name = "weft-write-states"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        write_states(op)


class _Update(Struct, frozen=True):
    """A buffer that a call fills, and the older one that can take its place: nothing reads that
    after the call until `copy` makes it equal to the new buffer; or, without a copy, until it ends
    or is overwritten, the new one having ended.
    """

    fresh: SSAValue
    state: SSAValue
    copy: CopyOp | None

    def apply(self, uses: BufferUses) -> None:
        """Puts the older buffer in place of the new one."""
        alloc = self.fresh.owner
        assert isinstance(alloc, AllocOp), "what is replaced is an allocation"
        block = alloc.parent
        assert block is not None, "an allocation stands in a block"
        uses.join(self.fresh, self.state, block, self.copy)
        if self.copy is not None:
            Rewriter.erase_op(self.copy)
        older, order = self.state.owner, uses.order(block)
        moves = isinstance(older, AllocOp) and older.parent is block
        if isinstance(older, AllocOp) and moves and order(alloc) < order(older):
            older.detach()
            Rewriter.insert_op(older, InsertPoint.before(alloc))
            order.put(older, order(alloc))
        self.fresh.replace_all_uses_with(self.state)
        Rewriter.erase_op(alloc)


def write_states(module: ModuleOp) -> None:
    """Lets what an iteration of a loop leaves behind be written to where it is kept, for scheduled
    kernels that permit it.
    """
    kernels = {op.sym_name.data: op for op in module.ops if isinstance(op, KernelOp)}
    copies = [
        op for program in _programs(module) for op in program.walk() if isinstance(op, CopyOp)
    ]
    uses = BufferUses()
    for copy in copies:
        call = _filler(copy.source, uses)
        if call is None:
            continue
        update = _update(call, copy.target, copy.source, uses)
        if update is not None and update.copy is copy and _permits(call, update, kernels):
            update.apply(uses)


def _filler(fresh: SSAValue, uses: BufferUses) -> CallOp | None:
    """The call that fills an allocation first."""
    alloc = fresh.owner
    if not isinstance(alloc, AllocOp) or alloc.parent is None:
        return None
    positions = uses.positions(fresh, alloc.parent)
    first = uses.order(alloc.parent).at(positions[0]) if positions else None
    return first if isinstance(first, CallOp) else None


def _permits(call: CallOp, update: _Update, kernels: dict[str, KernelOp]) -> bool:
    """Whether a kernel may write to an operand of its own, if it has the older buffer for one."""
    arguments = list(call.arguments)
    operands = [n for n, each in enumerate(arguments) if root(each) is update.state]
    if not operands:
        return True
    permitted = in_place_arguments(kernels[call.kernel])
    results = [n for n, each in enumerate(arguments) if each is update.fresh]
    return len(operands) == len(results) == 1 and any(
        (pair.operand, pair.result) == (operands[0], results[0]) for pair in permitted
    )


def drop_copies(module: ModuleOp, name_kernel: NameKernel) -> None:
    """Gives naive kernels that start by copying an operand to a result one buffer for both, where
    nothing needs the operand afterwards, or the two are a donated input and its output.
    """
    kernels = {op.sym_name.data: op for op in module.ops if isinstance(op, KernelOp)}
    for program in _programs(module):
        _split_donated(program, kernels, name_kernel)
    uses = BufferUses()
    for program in _programs(module):
        for call in [op for op in program.walk() if isinstance(op, CallOp)]:
            _drop_copy(call, kernels, name_kernel, uses)
    called = {op.kernel for program in _programs(module) for op in program.walk()
              if isinstance(op, CallOp)}  # fmt: skip
    first = module.body.block.first_op
    assert first is not None, "a module has a program"
    made = [each for name, each in kernels.items() if name in called and each.parent is None]
    module.body.block.insert_ops_before(made, first)
    for name, kernel in kernels.items():
        if name not in called and kernel.parent is not None:
            Rewriter.erase_op(kernel)


def _drop_copy(
    call: CallOp, kernels: dict[str, KernelOp], name_kernel: NameKernel, uses: BufferUses
) -> None:
    kernel = kernels[call.kernel]
    for operand, result in _copied(kernel):
        state, fresh = call.arguments[operand], call.arguments[result]
        roots = [root(each) for each in call.arguments]
        if roots.count(root(state)) > 1 or roots.count(fresh) > 1:
            continue
        update = _update(call, state, fresh, uses)
        if update is None:
            continue
        changed = _updating_call(call, (operand, result), kernels, name_kernel)
        assert call.parent is not None, "a call stands in a block"
        order = uses.order(call.parent)
        order.put(changed, order(call))
        Rewriter.replace_op(call, changed, [])
        update.apply(uses)
        return


def _updating_call(
    call: CallOp, pair: tuple[int, int], kernels: dict[str, KernelOp], name_kernel: NameKernel
) -> CallOp:
    """The call of a kernel without the operand of a pair, whose result holds it already."""
    operand, result = pair
    updating = _without_copy(kernels[call.kernel], operand, result)
    name_kernel(updating)
    name = updating.sym_name.data
    kernels.setdefault(name, updating)
    arguments = [each for n, each in enumerate(call.arguments) if n != operand]
    changed = CallOp.of(name, call.sizes.data, arguments)
    changed.location = call.location
    changed.attributes |= call.attributes
    if ORIGIN in call.attributes:
        changed.attributes[UPDATES] = ArrayAttr([IntAttr(operand), IntAttr(result)])
    return changed


def _split_donated(
    program: ProgramOp, kernels: dict[str, KernelOp], name_kernel: NameKernel
) -> None:
    """Copies donated inputs to their outputs in front of kernels that start with that, which costs
    nothing where both have one memory.
    """
    arguments = program.body.block.args
    for source, target in donated_pairs(program):
        state, fresh = arguments[source], arguments[program.inputs.data + target]
        uses = BufferUses()
        positions = uses.positions(fresh, program.body.block)
        call = uses.order(program.body.block).at(positions[0]) if positions else None
        if not isinstance(call, CallOp) or state.type != fresh.type:
            continue
        roots = [root(each) for each in call.arguments]
        for operand, result in _copied(kernels[call.kernel]):
            own = call.arguments[operand] is state and call.arguments[result] is fresh
            if own and roots.count(state) == roots.count(fresh) == 1:
                changed = _updating_call(call, (operand, result), kernels, name_kernel)
                Rewriter.insert_op(CopyOp.of(state, fresh), InsertPoint.before(call))
                Rewriter.replace_op(call, changed, [])
                break


# Liveness -----------------------------------------------------------------------------------------


def _update(call: CallOp, state: SSAValue, fresh: SSAValue, uses: BufferUses) -> _Update | None:
    """The update that lets a call write to the older buffer, where that is right."""
    block, alloc = call.parent, fresh.owner
    if block is None or not isinstance(alloc, AllocOp) or alloc.parent is not block:
        return None
    if alloc.scope.data != "workspace" or state.type != fresh.type or not _may_hold(state):
        return None
    order = uses.order(block)
    at, own, other = order(call), uses.positions(fresh, block), uses.positions(state, block)
    if own[0] < at:
        return None
    later = bisect_right(other, at)
    if later == len(other):
        return _Update(fresh, state, None) if _ends_here(state, block) else None
    copy = order.at(other[later])
    if not isinstance(copy, CopyOp) or copy.target is not state or own[-1] > other[later]:
        return None
    if copy.source is fresh:
        return _Update(fresh, state, copy)
    return None if own[-1] == other[later] else _Update(fresh, state, None)


def _may_hold(state: SSAValue) -> bool:
    """Whether a program may write to a buffer: one of its own, or an output."""
    owner = state.owner
    if isinstance(owner, AllocOp):
        return owner.scope.data == "workspace"
    program = owner.parent_op() if isinstance(owner, Block) else None
    if not isinstance(program, ProgramOp) or not isinstance(state, BlockArgument):
        return False
    return state.index >= program.inputs.data


def _ends_here(state: SSAValue, block: Block) -> bool:
    """Whether a buffer is one of the block's own, so that no later iteration reads it."""
    return isinstance(state.owner, AllocOp) and state.owner.parent is block


def _programs(module: ModuleOp) -> list[ProgramOp]:
    return [op for op in module.ops if isinstance(op, ProgramOp)]


# Kernels ------------------------------------------------------------------------------------------


def _copied(kernel: KernelOp) -> Iterator[tuple[int, int]]:
    """The operands that a kernel copies, or parts of them, to a result first, with the results.
    Where it reads them otherwise, before it changes the result, the copies are the larger part: to
    change a result that is read would else take an intermediate buffer for nothing.
    """
    for operand in kernel.body.block.args:
        stores, reads = _copies_and_reads(operand)
        targets = {store.buffer for store in stores}
        if len(targets) != 1 or len(kernel.body.block.ops) == len(stores):
            continue  # or it does nothing else
        (target,) = targets
        if not isinstance(target, BlockArgument) or target.owner is not kernel.body.block:
            continue
        if operand.type == target.type and _are_first(stores, reads, kernel):
            yield operand.index, target.index


def _copies_and_reads(operand: BlockArgument) -> tuple[list[StoreOp], list[Operation]]:
    """The stores of the nests that copy parts of an operand, and what else reads it."""
    stores: list[StoreOp] = []
    reads: list[Operation] = []
    for user in [use.operation for use in operand.uses]:
        store = copying_store(user)
        if store is not None and isinstance(store.buffer, BlockArgument):
            stores.append(store)
        else:
            reads.append(user)
    return stores, reads


def _are_first(stores: Sequence[StoreOp], reads: Sequence[Operation], kernel: KernelOp) -> bool:
    """Whether nothing touches the target of copies before their nests, which do only that, and the
    nests that read otherwise.
    """
    order = Order(kernel.body.block)
    nests = [_top(store) for store in stores]
    others = {_top(use.operation) for use in stores[0].buffer.uses}.difference(nests)
    last = max(order(each) for each in (*nests, *map(_top, reads)))
    if not all(map(only_copies, nests)) or any(order(each) <= last for each in others):
        return False
    changes = [use.operation for use in stores[0].buffer.uses if _top(use.operation) in others]
    more = _iterations(stores) - _iterations(changes)
    return not reads or (more.range(size_ranges(kernel))[0] or -1) >= 0


def _iterations(ops: Sequence[Operation]) -> Expr:
    """How often all of some operations run."""
    return sum((product(loop.extent for loop in enclosing_loops(op)) for op in ops), Expr.of(0))


def _top(op: Operation) -> Operation:
    """The operation of a kernel's own block around another one."""
    while not isinstance(outer := op.parent_op(), KernelOp):
        assert outer is not None, "the operation lies in a kernel"
        op = outer
    return op


def _without_copy(kernel: KernelOp, operand: int, result: int) -> KernelOp:
    """The kernel without its operand, for a result that holds it already."""
    made = kernel.clone()
    made.properties["sym_name"] = StringAttr(kernel.sym_name.data.rpartition("_")[0])
    block = made.body.block
    stores, reads = _copies_and_reads(block.args[operand])
    for store in stores:
        nest = _top(store)
        nest.detach()
        nest.erase()
    if reads:
        block.args[operand].replace_all_uses_with(block.args[result])
    block.erase_arg(block.args[operand])
    weights = made.attributes.get(WEIGHTS)
    if isa(weights, ArrayAttr[IntAttr]):
        kept = [n.data - (n.data > operand) for n in weights if n.data != operand]
        made.attributes[WEIGHTS] = ArrayAttr(map(IntAttr, kept))
    return made

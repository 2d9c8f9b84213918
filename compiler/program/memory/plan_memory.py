"""program -> program: places the workspace's buffers in one arena by their lifetimes.

Buffers of constant size are placed best fit among the gaps that live buffers leave. Buffers of
symbolic size, and all where very many are alive at once, share slots: two buffers may use one slot
at different times, and a slot is as large as the greatest of its tenants. Buffers whose size is
found while the program runs share blocks of memory that grow. A result takes the place of an
operand that ends with it where the kernel permits that, or where it is summed over ranks. Buffers
of collectives are placed first, at the start of the arena, which other ranks may reach.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping

from xdsl.context import Context
from xdsl.dialects.builtin import IntAttr, ModuleOp, StringAttr
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass

from weft.compiler.program.memory.guard_buffers import guarded_offsets
from weft.compiler.program.memory.in_place import InPlace, in_place_arguments
from weft.compiler.program.memory.live_intervals import LiveIntervals
from weft.compiler.program.memory.slots import (
    Lifetime,
    Slot,
    share_blocks,
    share_by_size,
    share_slots,
)
from weft.dialects.expr import Expr
from weft.dialects.loop.communication import CommunicationOp, WaitOp, is_sum
from weft.dialects.loop.concurrent import branch_of
from weft.dialects.loop.dynamic import ReallocOp, aliased, root
from weft.dialects.loop.ops import AllocOp
from weft.dialects.loop.program import (
    COLLECTIVE_BYTES,
    WORKSPACE_BYTES,
    CallOp,
    KernelOp,
    ProgramOp,
)
from weft.dialects.loop.scalar import width
from weft.dialects.loop.types import BufferType, ExprsAttr, buffer_type_of
from weft.dialects.module_attributes import code_options

ALIGNMENT = 64
"""Bytes; a cache line, and the widest vector."""

MOST_MEETINGS = 256
FEW_MEETINGS = 1 << 21
"""Buffers that a buffer of constant size meets on average, and pairs in all, where each is placed
in the gap that fits best: that takes time for each pair.
"""


class PlanMemoryPass(ModulePass):
    """Gives every `loop.alloc workspace` of the program its offset,
    and the program the size of its arena.
    """

    name = "weft-plan-memory"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        guarded = code_options(op).guarded
        for program in op.ops:
            if isinstance(program, ProgramOp):
                plan_memory(program, kernels_of(op), guarded)


def kernels_of(module: ModuleOp) -> dict[str, KernelOp]:
    """The kernels of a module by name."""
    return {op.sym_name.data: op for op in module.ops if isinstance(op, KernelOp)}


def buffer_bytes(buffer_type: BufferType) -> Expr:
    """The bytes of a buffer's storage; a bool takes one."""
    return buffer_type.size * (max(8, width(buffer_type.element)) // 8)


def lifetimes(program: ProgramOp) -> list[Lifetime]:
    """The workspace and growable buffers of a program; a view keeps what it views alive, and a use
    in a loop or branch lasts as long as that, where the buffer comes from outside of it.
    """
    positions = number_operations(program)
    found: list[Lifetime] = []
    for op in program.body.walk():
        if isinstance(op, AllocOp) and op.scope.data in ("workspace", "growable"):
            uses = [positions[_in_block(user, op.parent)] for user in _users(op.result)]
            if op.scope.data == "growable":
                uses.append(positions[op])  # its memory may move here
            if uses:
                size = aligned(buffer_bytes(buffer_type_of(op.result)))
                first, last = min(use[0] for use in uses), max(use[1] for use in uses)
                branch = branch_of(op)
                branch_owner = None if branch is None else branch.parent_op()
                around = None if branch_owner is None else positions[branch_owner]
                found.append(Lifetime(op, size, first, last, branch=branch, around=around))
            else:
                found.append(Lifetime(op, Expr.of(0), *positions[op]))
    return found


def number_operations(program: ProgramOp) -> dict[Operation, tuple[int, int]]:
    """The position of each operation of a program, and of the last one inside it."""
    order = {op: number for number, op in enumerate(_in_order(program.body.block))}
    ends: dict[Operation, int] = {}
    for op, number in reversed(order.items()):
        inner = [block.last_op for region in op.regions for block in region.blocks]
        ends[op] = max([number, *(ends[last] for last in inner if last is not None)])
    return {op: (number, ends[op]) for op, number in order.items()}


def _in_order(block: Block) -> Iterator[Operation]:
    for op in block.ops:
        yield op
        for region in op.regions:
            yield from _in_order(region.block)


def _in_block(op: Operation, block: Block | None) -> Operation:
    """The operation, or the one around it, that stands in the block."""
    while op.parent is not block:
        outer = op.parent_op()
        assert outer is not None, "a buffer is used where it is known"
        op = outer
    return op


def _users(value: SSAValue) -> list[Operation]:
    users: list[Operation] = []
    for use in value.uses:
        if aliased(use.operation) is not None:
            users += _users(use.operation.results[0])
        if aliased(use.operation) is None or isinstance(use.operation, ReallocOp):
            users.append(use.operation)
    return users


def aligned(size: Expr) -> Expr:
    """The size rounded up to the arena's alignment."""
    return (size + (ALIGNMENT - 1)) // ALIGNMENT * ALIGNMENT


def plan_memory(program: ProgramOp, kernels: Mapping[str, KernelOp], guarded: str = "") -> Expr:
    """Places the program's workspace buffers; returns the arena's size in
    bytes, and notes it on the program. Where they are `guarded`, as a fuzzer wants it, no two share
    memory but those in place of each other.
    """
    # The arena is allocated before the program runs, so what depends on sizes that only the program
    # finds cannot be in it.
    known = set(program.symbol_names)
    for op in program.body.walk():
        if isinstance(op, AllocOp) and op.scope.data == "workspace":
            names = {name for dim in buffer_type_of(op.result).storage for name in dim.symbols()}
            if not names <= known:
                op.properties["scope"] = StringAttr("growable")
    found = _joined(lifetimes(program), program, kernels)
    growable = [life for life in found if life.alloc.scope.data == "growable"]
    found = [life for life in found if life.alloc.scope.data == "workspace"]
    blocks = [[life] for life in growable] if guarded else share_blocks(growable)
    for number, tenants in enumerate(blocks):
        for tenant in tenants:
            _assign_offset(tenant, Expr.of(number))
    reached = _reached(program)
    total = _assign_guarded(found, guarded) if guarded else _assign_all(found, reached)
    program.attributes[WORKSPACE_BYTES] = ExprsAttr((total,))
    if ends := [end for alloc in reached if (end := _constant_end(alloc)) is not None]:
        program.attributes[COLLECTIVE_BYTES] = IntAttr(max(ends))
    return total


def _reached(program: ProgramOp) -> set[AllocOp]:
    """The allocations that collectives read and write."""
    operands = [
        root(each).owner
        for op in program.body.walk()
        if isinstance(op, CommunicationOp)
        for each in op.operands
    ]
    return {each for each in operands if isinstance(each, AllocOp)}


def _constant_end(alloc: AllocOp) -> int | None:
    """Where a buffer of the arena ends; None for one elsewhere, or of an unknown size."""
    if alloc.scope.data != "workspace" or alloc.offset is None:
        return None
    return (alloc.offset.data[0] + buffer_bytes(buffer_type_of(alloc.result))).constant


def _assign_all(found: list[Lifetime], first: set[AllocOp]) -> Expr:
    """Places buffers of constant size, some before others, and behind them the slots of others;
    returns the end.
    """
    constant = [life for life in found if life.size.constant is not None]
    if _meetings(constant) > MOST_MEETINGS * len(constant) + FEW_MEETINGS:
        total = _assign_slots(share_by_size(constant), Expr.of(0))
    else:
        total = Expr.of(_assign_fixed(constant, first))
    return _assign_slots(share_slots([life for life in found if life.size.constant is None]), total)


def _assign_slots(slots: list[Slot], total: Expr) -> Expr:
    """Places slots one behind the other from an offset on; returns the end."""
    for slot in slots:
        for tenant in slot.tenants:
            _assign_offset(tenant, total)
        total = total + slot.size
    return total


def _meetings(found: list[Lifetime]) -> int:
    """How many pairs of buffers are alive at one time."""
    ends = sorted(life.reach[1] for life in found)
    firsts = sorted(life.reach[0] for life in found)
    return sum(number - bisect_left(ends, first) for number, first in enumerate(firsts))


def _assign_guarded(found: list[Lifetime], side: str) -> Expr:
    offsets, end = guarded_offsets([life.size for life in found], side)
    for life, offset in zip(found, offsets, strict=True):
        _assign_offset(life, offset)
    return end


def _assign_offset(life: Lifetime, offset: Expr) -> None:
    for alloc in (life.alloc, *life.followers):
        alloc.properties["offset"] = ExprsAttr((offset,))


def _joined(
    found: list[Lifetime], program: ProgramOp, kernels: Mapping[str, KernelOp]
) -> list[Lifetime]:
    """The lifetimes, with those of results that may take an operand's place joined to its own."""
    by_value = {life.alloc.result: life for life in found}
    joined: set[AllocOp] = set()
    permitted: dict[str, list[InPlace]] = {}
    for number, op in enumerate(_in_order(program.body.block)):
        if not isinstance(op, CallOp):
            continue
        if op.kernel not in permitted:
            kernel = kernels.get(op.kernel)
            permitted[op.kernel] = [] if kernel is None else in_place_arguments(kernel)
        roots = [root(argument) for argument in op.arguments]
        taken: list[Lifetime] = []  # by a result that nothing reads, which ends where it begins
        for pair in permitted[op.kernel]:
            operand = by_value.get(op.arguments[pair.operand])
            result = by_value.get(op.arguments[pair.result])
            if operand is None or result is None or operand is result:
                continue
            if any(each is operand for each in taken):
                continue
            if operand.branch is not branch_of(op):
                continue  # a branch at the same time may read it
            if roots.count(op.arguments[pair.operand]) > 1:
                continue  # read as another argument too, perhaps in another order
            if operand.last == number == result.first and operand.size == result.size:
                taken.append(operand)
                joined.add(_reuse_operand(operand, result, by_value))
    joined |= _join_sums(program, by_value)
    return [life for life in found if life.alloc not in joined]


def _join_sums(program: ProgramOp, by_value: dict[SSAValue, Lifetime]) -> set[AllocOp]:
    """Lets sums over ranks take the place of what they are sums of, where that ends with them, and
    nothing else reads it meanwhile.
    """
    joined: set[AllocOp] = set()
    starts: dict[int, int] = {}
    order = {op: number for number, op in enumerate(_in_order(program.body.block))}
    for op, number in order.items():
        if not (isinstance(op, CommunicationOp) and is_sum(op)):
            continue
        start = starts.setdefault(op.number.value.data, number)
        operand, result = by_value.get(op.source), by_value.get(op.target)
        if not isinstance(op, WaitOp) or operand is None or result is None:
            continue
        meanwhile = [each for each in _users(op.source) if start < order[each] < number]
        begins = result.first == start and not meanwhile
        if operand.last == number and begins and operand.size == result.size:
            joined.add(_reuse_operand(operand, result, by_value))
    return joined


def _reuse_operand(
    operand: Lifetime, result: Lifetime, by_value: dict[SSAValue, Lifetime]
) -> AllocOp:
    """Joins the lifetime of a result to that of the operand whose place it takes."""
    operand.last = result.last
    later = [result.alloc, *result.followers]
    operand.followers += later
    by_value |= {alloc.result: operand for alloc in later}
    return result.alloc


def _assign_fixed(found: list[Lifetime], first: set[AllocOp]) -> int:
    """Places buffers of constant size, those that go `first` and then the largest, each in the
    smallest gap that fits; returns the end.
    """

    def order(life: Lifetime) -> tuple[bool, int, int]:
        behind = first.isdisjoint((life.alloc, *life.followers))
        return behind, -(life.size.constant or 0), life.first

    placed = LiveIntervals[tuple[int, int, Lifetime]](
        1 + max((life.reach[1] for life in found), default=0)
    )
    end = 0
    for life in sorted(found, key=order):
        size = life.size.constant or 0
        near = placed.meeting(*life.reach)
        busy = sorted((start, stop) for start, stop, other in near if life.overlaps(other))
        offset = _best_gap(busy, size)
        _assign_offset(life, Expr.of(offset))
        placed.add(*life.reach, (offset, offset + size, life))
        end = max(end, offset + size)
    return end


def _best_gap(busy: list[tuple[int, int]], size: int) -> int:
    """Where a block of that size fits best between sorted busy
    ranges; behind them all if nowhere.
    """
    best: tuple[int, int] | None = None
    cursor = 0
    for start, stop in busy:
        gap = start - cursor
        if gap >= size and (best is None or gap < best[0]):
            best = (gap, cursor)
        cursor = max(cursor, stop)
    return cursor if best is None else best[1]

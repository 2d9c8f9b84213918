"""program -> program: places the workspace's buffers in one arena by their lifetimes.

Buffers of constant size are placed best fit among the gaps that live buffers leave. Buffers of
symbolic size share slots: two buffers may use one slot at different times, and a slot is as large
as the greatest of its tenants. A result takes the place of an operand that ends with it where the
kernel permits that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from compiler.program.in_place import InPlace, in_place_arguments
from dialects.expr import Expr, maximum
from dialects.loop.ops import AllocOp
from dialects.loop.program import WORKSPACE_BYTES, CallOp, KernelOp, ProgramOp, ViewOp
from dialects.loop.scalar import width
from dialects.loop.types import BufferType, ExprsAttr, buffer_type

ALIGNMENT = 64
"""Bytes; a cache line, and the widest vector."""


@dataclass(frozen=True)
class PlanMemoryPass(ModulePass):
    """Gives every `loop.alloc workspace` of the program its offset,
    and the program the size of its arena.
    """

    name = "weft-plan-memory"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for program in op.ops:
            if isinstance(program, ProgramOp):
                plan_memory(program, kernels_of(op))


def kernels_of(module: ModuleOp) -> dict[str, KernelOp]:
    """The kernels of a module by name."""
    return {op.sym_name.data: op for op in module.ops if isinstance(op, KernelOp)}


@dataclass
class Lifetime:
    """An allocation, its size in bytes, and the positions of its first and last use in the program;
    `followers` take its place after it, in place.
    """

    alloc: AllocOp
    size: Expr
    first: int
    last: int
    followers: list[AllocOp] = field(default_factory=list[AllocOp])

    def overlaps(self, other: Lifetime) -> bool:
        """Whether both are alive at some position."""
        return self.first <= other.last and other.first <= self.last


@dataclass
class _Slot:
    size: Expr
    tenants: list[Lifetime] = field(default_factory=list[Lifetime])


def buffer_bytes(kind: BufferType) -> Expr:
    """The bytes of a buffer's storage; a bool takes one."""
    return kind.size * (max(8, width(kind.element)) // 8)


def lifetimes(program: ProgramOp) -> list[Lifetime]:
    """The workspace buffers of a program; a view keeps what it views alive."""
    position: dict[Operation, int] = {}
    for number, op in enumerate(program.body.block.ops):
        for inner in op.walk():
            position[inner] = number
    found: list[Lifetime] = []
    for op in program.body.block.ops:
        if isinstance(op, AllocOp) and op.scope.data == "workspace":
            uses = [position[user] for user in _users(op.result)]
            if uses:
                found.append(
                    Lifetime(
                        op, aligned(buffer_bytes(buffer_type(op.result))), min(uses), max(uses)
                    )
                )
            else:
                found.append(Lifetime(op, Expr.of(0), position[op], position[op]))
    return found


def _users(value: SSAValue) -> list[Operation]:
    users: list[Operation] = []
    for use in value.uses:
        if isinstance(use.operation, ViewOp):
            users += _users(use.operation.result)
        else:
            users.append(use.operation)
    return users


def _root(value: SSAValue) -> SSAValue:
    """The buffer that a value is, or is a view of."""
    while isinstance(value.owner, ViewOp):
        value = value.owner.source
    return value


def aligned(size: Expr) -> Expr:
    """The size rounded up to the arena's alignment."""
    return (size + (ALIGNMENT - 1)) // ALIGNMENT * ALIGNMENT


def plan_memory(program: ProgramOp, kernels: Mapping[str, KernelOp]) -> Expr:
    """Places the program's workspace buffers; returns the arena's size in
    bytes, and notes it on the program.
    """
    found = _joined(lifetimes(program), program, kernels)
    fixed = [life for life in found if life.size.constant is not None]
    end = _place_fixed(fixed)
    total = Expr.of(end)
    for slot in _share_slots([life for life in found if life.size.constant is None]):
        for tenant in slot.tenants:
            _place(tenant, total)
        total = total + slot.size
    program.attributes[WORKSPACE_BYTES] = ExprsAttr((total,))
    return total


def _place(life: Lifetime, offset: Expr) -> None:
    for alloc in (life.alloc, *life.followers):
        alloc.properties["offset"] = ExprsAttr((offset,))


def _joined(
    found: list[Lifetime], program: ProgramOp, kernels: Mapping[str, KernelOp]
) -> list[Lifetime]:
    """The lifetimes, with those of results that may take an operand's place joined to its own."""
    by_value = {life.alloc.result: life for life in found}
    permitted: dict[str, list[InPlace]] = {}
    for number, op in enumerate(program.body.block.ops):
        if not isinstance(op, CallOp):
            continue
        if op.kernel not in permitted:
            kernel = kernels.get(op.kernel)
            permitted[op.kernel] = [] if kernel is None else in_place_arguments(kernel)
        roots = [_root(argument) for argument in op.arguments]
        for pair in permitted[op.kernel]:
            operand = by_value.get(op.arguments[pair.operand])
            result = by_value.get(op.arguments[pair.result])
            if operand is None or result is None or operand is result:
                continue
            if roots.count(op.arguments[pair.operand]) > 1:
                continue  # read as another argument too, perhaps in another order
            if operand.last == number == result.first and operand.size == result.size:
                operand.last = result.last
                operand.followers += [result.alloc, *result.followers]
                by_value |= {alloc.result: operand for alloc in operand.followers}
                found = [life for life in found if life is not result]
    return found


def _place_fixed(found: list[Lifetime]) -> int:
    """Places buffers of constant size, the largest first, each in the smallest
    gap that fits; returns the end.
    """
    placed: list[tuple[int, int, Lifetime]] = []
    end = 0
    for life in sorted(found, key=lambda life: (-(life.size.constant or 0), life.first)):
        size = life.size.constant or 0
        busy = sorted((start, stop) for start, stop, other in placed if life.overlaps(other))
        offset = _best_gap(busy, size)
        _place(life, Expr.of(offset))
        placed.append((offset, offset + size, life))
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


def _share_slots(found: list[Lifetime]) -> list[_Slot]:
    """Lets buffers of symbolic size follow each other in slots;
    a slot of provably enough room is preferred.
    """
    slots: list[_Slot] = []
    for life in sorted(found, key=lambda life: life.first):
        free = [slot for slot in slots if not any(life.overlaps(tenant) for tenant in slot.tenants)]
        chosen = next((slot for slot in free if maximum([slot.size, life.size]) == slot.size), None)
        chosen = chosen or next(
            (slot for slot in free if maximum([slot.size, life.size]) == life.size), None
        )
        if chosen is None:
            chosen = _Slot(life.size)
            slots.append(chosen)
        chosen.size = maximum([chosen.size, life.size])
        chosen.tenants.append(life)
    return slots

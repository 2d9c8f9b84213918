"""Memory that buffers use one after the other: which of what is free takes the next one."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable
from functools import partial
from heapq import heapify, heappop, heappush
from itertools import chain

from msgspec import Struct, field
from xdsl.ir import Block, Operation

from weft.dialects.expr import Expr, maximum
from weft.dialects.loop.ops import AllocOp


class Lifetime(Struct):
    """An allocation, its size in bytes, and the positions of its first and last use in the program;
    `followers` take its place after it, in place. `branch` is the one of several that run at the
    same time which alone uses it, if one does, and `around` the positions of all of them.
    """

    alloc: AllocOp
    size: Expr
    first: int
    last: int
    followers: list[AllocOp] = field(default_factory=list[AllocOp])
    branch: Block | None = None
    around: tuple[int, int] | None = None

    def overlaps(self, other: Lifetime) -> bool:
        """Whether both are alive at some position, or at the same time."""
        if self.is_on_other_branch(other):
            return True
        return self.first <= other.last and other.first <= self.last

    @property
    def reach(self) -> tuple[int, int]:
        """From where to where lifetimes that overlap it may be."""
        return self.around or (self.first, self.last)

    def is_on_other_branch(self, other: Lifetime) -> bool:
        """Whether both are buffers of branches that run at the same time."""
        one, two = self.branch, other.branch
        return (
            one is not two
            and one is not None
            and two is not None
            and (one.parent_op() is two.parent_op())
        )


class Slot(Struct):
    """Memory of buffers that follow each other: `last` is where the last of them ends, `branches`
    are those among them that alone use one.
    """

    size: Expr
    last: int = -1
    tenants: list[Lifetime] = field(default_factory=list[Lifetime])
    branches: dict[Operation | None, Block] = field(default_factory=dict[Operation | None, Block])

    def is_free(self, life: Lifetime) -> bool:
        """Whether a buffer that begins no earlier than all tenants may follow them."""
        branch_owner = None if life.branch is None else self.branches.get(life.branch.parent_op())
        return self.last < life.first and branch_owner in (None, life.branch)

    def add(self, life: Lifetime) -> None:
        """Gives it to a buffer."""
        self.tenants.append(life)
        self.last = max(self.last, life.last)
        if life.branch is not None:
            self.branches[life.branch.parent_op()] = life.branch


def share_blocks(found: list[Lifetime]) -> list[list[Lifetime]]:
    """Lets growable buffers follow each other in blocks of memory."""
    blocks, nothing = _Slots(), Expr.of(0)
    for life in sorted(found, key=lambda life: life.first):
        blocks.add(life, nothing, blocks.free(life, lambda _: True))
    return [block.tenants for block in blocks.all]


def share_slots(found: list[Lifetime]) -> list[Slot]:
    """Lets buffers of symbolic size follow each other in slots;
    a slot of provably enough room is preferred.
    """
    slots = _Slots()
    for life in sorted(found, key=lambda life: life.first):
        number = slots.free(life, partial(slots.covers, other=life.size))
        if number is None:
            number = slots.free(life, partial(slots.covers, life.size))
        sizes = [life.size] if number is None else [slots.all[number].size, life.size]
        slots.add(life, maximum(sizes), number)
    return slots.all


def share_by_size(found: list[Lifetime]) -> list[Slot]:
    """Lets buffers of constant size follow each other in slots: in the smallest that is large
    enough, else in the largest, which grows.
    """
    slots: list[Slot] = []
    used: list[tuple[int, int]] = []
    free: list[tuple[int, int]] = []
    for life in sorted(found, key=lambda life: life.first):
        while used and used[0][0] < life.first:
            number = heappop(used)[1]
            insort(free, (slots[number].size.constant or 0, number))
        start = bisect_left(free, (life.size.constant or 0, -1))
        positions = chain(range(start, len(free)), range(start - 1, -1, -1))
        position = next((n for n in positions if slots[free[n][1]].is_free(life)), None)
        if position is None:
            number = len(slots)
            slots.append(Slot(life.size))
        else:
            number = free.pop(position)[1]
        slots[number].size = maximum([slots[number].size, life.size])
        slots[number].add(life)
        heappush(used, (slots[number].last, number))
    return slots


class _Slots:
    """Slots in the order in which they were made; buffers come in the order in which they begin."""

    def __init__(self) -> None:
        self.all: list[Slot] = []
        self._used: list[tuple[int, int]] = []
        self._free: dict[Expr, list[int]] = {}
        self._covers: dict[tuple[Expr, Expr], bool] = {}

    def add(self, life: Lifetime, size: Expr, number: int | None) -> None:
        """Gives a buffer a slot that is free, or a new one, which has that size from now on."""
        if number is None:
            number = len(self.all)
            self.all.append(Slot(size))
        else:
            numbers = self._free[self.all[number].size]
            if numbers[0] == number:
                heappop(numbers)
            else:
                numbers.remove(number)
                heapify(numbers)
        self.all[number].size = size
        self.all[number].add(life)
        heappush(self._used, (self.all[number].last, number))

    def free(self, life: Lifetime, fits: Callable[[Expr], bool]) -> int | None:
        """The number of the first free slot of a size that fits."""
        while self._used and self._used[0][0] < life.first:
            number = heappop(self._used)[1]
            heappush(self._free.setdefault(self.all[number].size, []), number)
        firsts = (self._first(numbers, life) for size, numbers in self._free.items() if fits(size))
        return min((number for number in firsts if number is not None), default=None)

    def _first(self, numbers: list[int], life: Lifetime) -> int | None:
        if not numbers or self.all[numbers[0]].is_free(life):
            return numbers[0] if numbers else None
        # A branch that runs at the same time uses that one.
        return min((number for number in numbers if self.all[number].is_free(life)), default=None)

    def covers(self, size: Expr, other: Expr) -> bool:
        """Whether a size is provably never less than another."""
        if (size, other) not in self._covers:
            self._covers[size, other] = maximum([size, other]) == size
        return self._covers[size, other]

"""Where the buffers of a program lie, and which of them share bytes."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, Protocol

from msgspec import Struct
from xdsl.dialects.builtin import ArrayAttr, IntAttr
from xdsl.ir import BlockArgument, SSAValue
from xdsl.utils.hints import isa

from weft.compiler.validation.offsets import Offsets, is_multiple
from weft.dialects.errors import PlanError
from weft.dialects.expr import Expr
from weft.dialects.loop.ops import AllocOp
from weft.dialects.loop.program import DONATED, WORKSPACE_BYTES, ProgramOp, size_ranges
from weft.dialects.loop.scalar import width
from weft.dialects.loop.types import BufferType, ExprsAttr, buffer_type_of

ALIGNMENT: Final = 64
"""Bytes; what kernels may expect of every buffer."""


class Storage(Protocol):
    """Which buffers that hold something lie where another one is written."""

    def add(self, root: SSAValue) -> list[SSAValue]:
        """Notes that a buffer holds something now; returns those that it overwrites, which are
        forgotten.
        """
        ...

    def remove(self, root: SSAValue) -> None:
        """Notes that a buffer holds nothing any more."""
        ...

    def block(self, root: SSAValue) -> object:
        """The growable block of memory in which a buffer lies."""
        ...

    def sharing(self, root: SSAValue) -> list[SSAValue]:
        """The buffers that hold something in the growable block of a buffer, itself excluded."""
        ...

    def same_bytes(self, one: SSAValue, other: SSAValue) -> bool:
        """Whether two buffers are stored at one position and have one size."""
        ...

    def may_overlap(self, one: SSAValue, other: SSAValue) -> bool:
        """Whether two buffers may share a byte."""
        ...


class Unplanned:
    """The storage of a program without a plan: every buffer has memory of its own."""

    def add(self, root: SSAValue) -> list[SSAValue]:
        return []

    def remove(self, root: SSAValue) -> None:
        pass

    def block(self, root: SSAValue) -> object:
        return root

    def sharing(self, root: SSAValue) -> list[SSAValue]:
        return []

    def same_bytes(self, one: SSAValue, other: SSAValue) -> bool:
        return one is other

    def may_overlap(self, one: SSAValue, other: SSAValue) -> bool:
        return one is other


class _Fixed(Struct, frozen=True):
    """Bytes of the arena, from a constant offset to a constant end."""

    begin: int
    end: int


class _Symbolic(Struct, eq=False):
    """Bytes of the arena, of which the sizes of a call decide; there is one of each."""

    begin: Expr
    end: Expr
    key: int | None = None


_Range = _Fixed | _Symbolic | int | None
"""The bytes of an allocation in the arena, the number of its growable block, or neither for what
the caller gave.
"""


@dataclass
class Planned:
    """The storage of a program whose buffers a memory plan has placed."""

    program: ProgramOp
    ranges: dict[SSAValue, _Range] = field(default_factory=dict[SSAValue, "_Range"])

    def __post_init__(self) -> None:
        self._ranges = size_ranges(self.program)
        noted = self.program.attributes.get(WORKSPACE_BYTES)
        self._total = noted.data[0] if isinstance(noted, ExprsAttr) else None
        self._donors = _donors(self.program)
        self._partners: dict[SSAValue, list[SSAValue]] = {}
        for pair in self._donors.items():
            for one, other in (pair, pair[::-1]):
                self._partners.setdefault(one, []).append(other)
        # What holds something: in the arena, sorted, of the caller, and in growable blocks.
        self._keys: list[int] = []
        self._held: list[SSAValue] = []
        self._given: dict[SSAValue, None] = {}
        self._growable: dict[int, dict[SSAValue, None]] = {}
        self._symbolic: dict[tuple[Expr, Expr], _Symbolic] = {}
        self._found: dict[tuple[Expr, tuple[Expr, ...], int], _Fixed | _Symbolic] = {}
        self._inside: set[_Fixed | _Symbolic] = set()
        self._apart: dict[tuple[_Range, _Range], bool] = {}

    def _range_of(self, root: SSAValue) -> _Range:
        try:
            return self.ranges[root]  # asked for most of all, and a hash is slow
        except KeyError:
            owner = root.owner
            range_ = self.ranges[root] = self._find(owner) if isinstance(owner, AllocOp) else None
            return range_

    def _find(self, alloc: AllocOp) -> _Fixed | _Symbolic | int:
        """Reads a place. Raises PlanError where it is none."""
        name = alloc.result.name_hint or "?"
        if alloc.offset is None:
            raise PlanError(f"memory plan requires a place for each buffer, got none for %{name}")
        begin = alloc.offset.data[0]
        if alloc.scope.data == "growable":
            assert begin.constant is not None, "a growable buffer has the number of its block"
            return begin.constant
        range_ = self._bytes(begin, buffer_type_of(alloc.result))
        if not self._is_inside(range_):
            raise PlanError(
                f"memory plan requires buffers within the workspace of {self._total} bytes, "
                f"got {range_.begin} to {range_.end} for %{name}"
            )
        if not is_multiple(begin, ALIGNMENT):
            rule = f"memory plan requires offsets that are multiples of {ALIGNMENT}"
            raise PlanError(f"{rule}, got {begin} for %{name}")
        return range_

    def _bytes(self, begin: Expr, buffer_type: BufferType) -> _Fixed | _Symbolic:
        """The bytes of a buffer, up to where another one may begin."""
        element = max(8, width(buffer_type.element)) // 8
        key = (begin, buffer_type.storage, element)
        if key not in self._found:
            end = begin + (buffer_type.size * element + (ALIGNMENT - 1)) // ALIGNMENT * ALIGNMENT
            if begin.constant is None or end.constant is None:
                range_ = self._symbolic.setdefault((begin, end), _Symbolic(begin, end))
            else:
                range_ = _Fixed(begin.constant, end.constant)
            self._found[key] = range_
        return self._found[key]

    def _is_inside(self, range_: _Fixed | _Symbolic) -> bool:
        """Whether a place is in the workspace."""
        if range_ in self._inside:
            return True
        begin, end = Expr.of(range_.begin), Expr.of(range_.end)
        low = begin.constant is not None and begin.constant >= 0
        low = low or self._offsets.is_at_most(Expr.of(0), begin)
        if low and (self._total is None or self._offsets.is_at_most(end, self._total)):
            self._inside.add(range_)
        return range_ in self._inside

    @cached_property
    def _offsets(self) -> Offsets:
        """The offsets of buffers whose sizes vary, in order."""
        sizes: dict[Expr, list[Expr]] = {}
        for op in self.program.walk():
            if isinstance(op, AllocOp) and op.scope.data == "workspace" and op.offset is not None:
                begin = op.offset.data[0]
                range_ = self._bytes(begin, buffer_type_of(op.result))
                if isinstance(range_, _Symbolic):
                    sizes.setdefault(begin, []).append(range_.end - begin)
        return Offsets(sizes, self._total, self._ranges)

    def add(self, root: SSAValue) -> list[SSAValue]:
        range_ = self._range_of(root)
        if isinstance(range_, int):  # buffers in growable blocks are lost when these are reserved
            self._growable.setdefault(range_, {})[root] = None
            return []
        if range_ is None:
            over = [other for other in self._partners.get(root, ()) if other in self._given]
        else:
            over = self._near(range_, root)
        for other in over:
            self.remove(other)
        if range_ is None:
            self._given[root] = None
        elif not (isinstance(range_, _Fixed) and range_.begin == range_.end):
            self._hold(range_, root)
        return over

    def _hold(self, range_: _Fixed | _Symbolic, root: SSAValue) -> None:
        if self._number(range_, root) is None:
            number = bisect_right(self._keys, self._key(range_))
            self._keys.insert(number, self._key(range_))
            self._held.insert(number, root)

    def _key(self, range_: _Fixed | _Symbolic) -> int:
        """By what places are sorted: where they begin, for one example of sizes that vary."""
        if isinstance(range_, _Fixed):
            return range_.begin
        if range_.key is None:
            range_.key = self._offsets.example(range_.begin)
        return range_.key

    def _near(self, range_: _Fixed | _Symbolic, root: SSAValue) -> list[SSAValue]:
        """What lies where a buffer is to lie. What holds something lies apart from all else that
        does, so that behind what is before the place, or beyond what is after it, nothing meets it.
        """
        key = self._key(range_)
        first = bisect_left(self._keys, key)
        before = self._overlapping(root, key, range(first - 1, -1, -1))
        return before + self._overlapping(root, key, range(first, len(self._keys)))

    def _overlapping(self, root: SSAValue, key: int, numbers: Sequence[int]) -> list[SSAValue]:
        """Those of the buffers of these numbers that a buffer overlaps, up to the first that lie
        apart from it; of equal keys none tells of the others.
        """
        found: list[SSAValue] = []
        apart = False
        for number in numbers:
            if self._keys[number] != key:
                if apart:
                    break
                key, apart = self._keys[number], True
            other = self._held[number]
            if other is not root and self._meets(other, root):
                found.append(other)
                apart = False
        return found

    def _number(self, range_: _Fixed | _Symbolic, root: SSAValue) -> int | None:
        """Where a buffer stands among those that hold something."""
        key = self._key(range_)
        for number in range(bisect_left(self._keys, key), len(self._keys)):
            if self._keys[number] != key:
                return None
            if self._held[number] is root:
                return number
        return None

    def remove(self, root: SSAValue) -> None:
        range_ = self._range_of(root)
        if range_ is None:
            self._given.pop(root, None)
        elif isinstance(range_, int):
            self._growable.get(range_, {}).pop(root, None)
        elif (number := self._number(range_, root)) is not None:
            del self._keys[number], self._held[number]

    def block(self, root: SSAValue) -> object:
        range_ = self._range_of(root)
        return range_ if isinstance(range_, int) else root

    def sharing(self, root: SSAValue) -> list[SSAValue]:
        range_ = self._range_of(root)
        if not isinstance(range_, int):
            return []
        return [each for each in self._growable.get(range_, ()) if each is not root]

    def same_bytes(self, one: SSAValue, other: SSAValue) -> bool:
        if one is other or self._are_donated(one, other):
            return True
        match self._range_of(one), self._range_of(other):
            case _Fixed() as first, _Fixed() as second:
                return (first.begin, first.end) == (second.begin, second.end)
            case _Symbolic() as first, _Symbolic() as second:
                return first == second
            case _:
                return False

    def may_overlap(self, one: SSAValue, other: SSAValue) -> bool:
        return one is other or self._meets(one, other)

    def _meets(self, one: SSAValue, other: SSAValue) -> bool:
        first, second = self._range_of(one), self._range_of(other)
        if first is None or second is None:
            return first is second and self._are_donated(one, other)
        match first, second:
            case _Fixed() as first, _Fixed() as second:
                overlap = max(first.begin, second.begin), min(first.end, second.end)
                return overlap[0] < overlap[1]
            case int() as first, int() as second:
                return first == second
            case (_Fixed() | _Symbolic()) as first, (_Fixed() | _Symbolic()) as second:
                return first is second or not self._are_disjoint(first, second)
            case _:
                return False

    def _are_disjoint(self, one: _Fixed | _Symbolic, other: _Fixed | _Symbolic) -> bool:
        """Whether one of two places is proved to end before the other begins."""
        if (one, other) not in self._apart:
            orders = ((one, other), (other, one))
            self._apart[one, other] = any(
                self._offsets.is_at_most(Expr.of(first.end), Expr.of(second.begin))
                for first, second in orders
            )
        return self._apart[one, other]

    def _are_donated(self, one: SSAValue, other: SSAValue) -> bool:
        return self._donors.get(one) is other or self._donors.get(other) is one


def _donors(program: ProgramOp) -> dict[SSAValue, SSAValue]:
    """By an output that may lie where an input lies, that input."""
    pairs = program.attributes.get(DONATED)
    if not isa(pairs, ArrayAttr[ArrayAttr[IntAttr]]):
        return {}
    arguments = program.body.block.args
    outputs = arguments[program.inputs.data :]
    return {outputs[pair.data[1].data]: arguments[pair.data[0].data] for pair in pairs}


def is_input(root: SSAValue, program: ProgramOp) -> bool:
    """Whether a buffer is an argument that the program must not write."""
    if not isinstance(root, BlockArgument) or root.owner is not program.body.block:
        return False
    return root.index < program.inputs.data

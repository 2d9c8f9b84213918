"""Where the buffers of a program lie, and which of them share bytes."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Final, Protocol

from xdsl.dialects.builtin import ArrayAttr, IntAttr
from xdsl.ir import Block, SSAValue
from xdsl.utils.hints import isa

from dialects.errors import PlanError
from dialects.expr import Atom, Expr, Extremum, Quotient
from dialects.interval import Range
from dialects.loop.ops import AllocOp
from dialects.loop.program import DONATED, WORKSPACE_BYTES, ProgramOp, size_ranges
from dialects.loop.scalar import width
from dialects.loop.types import BufferType, ExprsAttr, buffer_type

ALIGNMENT: Final = 64
"""Bytes; what kernels may expect of every buffer."""

LARGE: Final = 1009
"""A size at which offsets that grow with sizes stand in order."""


class Storage(Protocol):
    """Which buffers that hold something lie where another one is written."""

    def add(self, root: SSAValue) -> list[SSAValue]:
        """Notes that a buffer holds something now; gives those that it overwrites, which are
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

    def same_place(self, one: SSAValue, other: SSAValue) -> bool:
        """Whether two buffers lie at one position and have one size."""
        ...

    def may_overlap(self, one: SSAValue, other: SSAValue) -> bool:
        """Whether two buffers may share a byte."""
        ...


class Apart:
    """The storage of a program without a plan: every buffer has memory of its own."""

    def add(self, root: SSAValue) -> list[SSAValue]:
        return []

    def remove(self, root: SSAValue) -> None:
        pass

    def block(self, root: SSAValue) -> object:
        return root

    def sharing(self, root: SSAValue) -> list[SSAValue]:
        return []

    def same_place(self, one: SSAValue, other: SSAValue) -> bool:
        return one is other

    def may_overlap(self, one: SSAValue, other: SSAValue) -> bool:
        return one is other


@dataclass(frozen=True)
class _Fixed:
    """Bytes of the arena, from a constant offset to a constant end."""

    begin: int
    end: int


@dataclass(frozen=True, eq=False)
class _Symbolic:
    """Bytes of the arena, of which the sizes of a call decide; there is one of each."""

    begin: Expr
    end: Expr


_Place = _Fixed | _Symbolic | int | None
"""The bytes of an allocation in the arena, the number of its growable block, or neither for what
the caller gave.
"""


@dataclass
class Planned:
    """The storage of a program whose buffers a memory plan has placed."""

    program: ProgramOp
    places: dict[SSAValue, _Place] = field(default_factory=dict[SSAValue, "_Place"])

    def __post_init__(self) -> None:
        self._ranges = size_ranges(self.program)
        noted = self.program.attributes.get(WORKSPACE_BYTES)
        self._total = noted.data[0] if isinstance(noted, ExprsAttr) else None
        self._donors = _donors(self.program)
        # Constant places that hold something: they lie apart, so that one order is by both ends.
        self._begins: list[int] = []
        self._ends: list[int] = []
        self._roots: list[SSAValue] = []
        self._others: dict[SSAValue, None] = {}
        self._symbolic: dict[tuple[Expr, Expr], _Symbolic] = {}
        self._found: dict[tuple[Expr, tuple[Expr, ...], int], _Fixed | _Symbolic] = {}
        self._inside: set[_Fixed | _Symbolic] = set()
        self._apart: dict[tuple[_Place, _Place], bool] = {}

    def _place(self, root: SSAValue) -> _Place:
        if root not in self.places:
            owner = root.owner
            self.places[root] = self._find(owner) if isinstance(owner, AllocOp) else None
        return self.places[root]

    def _find(self, alloc: AllocOp) -> _Fixed | _Symbolic | int:
        """Reads a place. Raises PlanError where it is none."""
        name = alloc.result.name_hint or "?"
        if alloc.offset is None:
            raise PlanError(f"memory plan requires a place for each buffer, got none for %{name}")
        begin = alloc.offset.data[0]
        if alloc.scope.data == "growing":
            assert begin.constant is not None, "a growable buffer has the number of its block"
            return begin.constant
        place = self._bytes(begin, buffer_type(alloc.result))
        if not self._is_inside(place):
            raise PlanError(
                f"memory plan requires buffers within the workspace of {self._total} bytes, "
                f"got {place.begin} to {place.end} for %{name}"
            )
        if not _is_multiple(begin, ALIGNMENT):
            rule = f"memory plan requires offsets that are multiples of {ALIGNMENT}"
            raise PlanError(f"{rule}, got {begin} for %{name}")
        return place

    def _bytes(self, begin: Expr, kind: BufferType) -> _Fixed | _Symbolic:
        """The bytes of a buffer, up to where another one may begin."""
        element = max(8, width(kind.element)) // 8
        key = (begin, kind.storage, element)
        if key not in self._found:
            end = begin + (kind.size * element + (ALIGNMENT - 1)) // ALIGNMENT * ALIGNMENT
            if begin.constant is None or end.constant is None:
                place = self._symbolic.setdefault((begin, end), _Symbolic(begin, end))
            else:
                place = _Fixed(begin.constant, end.constant)
            self._found[key] = place
        return self._found[key]

    def _is_inside(self, place: _Fixed | _Symbolic) -> bool:
        """Whether a place lies in the workspace."""
        if place in self._inside:
            return True
        begin, end = Expr.of(place.begin), Expr.of(place.end)
        low = begin.constant is not None and begin.constant >= 0
        low = low or self._order.is_at_most(Expr.of(0), begin)
        if low and (self._total is None or self._order.is_at_most(end, self._total)):
            self._inside.add(place)
        return place in self._inside

    @cached_property
    def _order(self) -> _Order:
        """The offsets of buffers whose sizes vary, in order."""
        sizes: dict[Expr, list[Expr]] = {}
        for op in self.program.walk():
            if isinstance(op, AllocOp) and op.scope.data == "workspace" and op.offset is not None:
                begin = op.offset.data[0]
                place = self._bytes(begin, buffer_type(op.result))
                if isinstance(place, _Symbolic):
                    sizes.setdefault(begin, []).append(place.end - begin)
        return _Order(sizes, self._total, self._ranges)

    def add(self, root: SSAValue) -> list[SSAValue]:
        place = self._place(root)
        if isinstance(place, int):  # buffers in growable blocks are lost when these are reserved
            self._others[root] = None
            return []
        over = [other for other in self._near(place, root) if other is not root]
        over += [other for other in self._others if other is not root and self._meets(other, root)]
        for other in over:
            self.remove(other)
        if not isinstance(place, _Fixed):
            self._others[root] = None
        elif place.begin < place.end and self._number(place, root) is None:
            number = bisect_left(self._begins, place.begin)
            self._begins.insert(number, place.begin)
            self._ends.insert(number, place.end)
            self._roots.insert(number, root)
        return over

    def _near(self, place: _Fixed | _Symbolic | None, root: SSAValue) -> list[SSAValue]:
        """The constant places that share bytes with another place."""
        if isinstance(place, _Symbolic):
            return [each for each in self._roots if self._meets(each, root)]
        if not isinstance(place, _Fixed) or place.begin == place.end:
            return []
        first = bisect_right(self._begins, place.begin)
        last = bisect_left(self._begins, place.end, first)
        near = self._roots[first:last]
        if first and self._ends[first - 1] > place.begin:
            near.append(self._roots[first - 1])
        return near

    def _number(self, place: _Fixed, root: SSAValue) -> int | None:
        """Where a buffer stands among those of constant place that hold something."""
        number = bisect_left(self._begins, place.begin)
        found = number < len(self._begins) and self._roots[number] is root
        return number if found else None

    def remove(self, root: SSAValue) -> None:
        place = self._place(root)
        if not isinstance(place, _Fixed):
            self._others.pop(root, None)
        elif (number := self._number(place, root)) is not None:
            for column in (self._begins, self._ends, self._roots):
                del column[number]

    def block(self, root: SSAValue) -> object:
        place = self._place(root)
        return place if isinstance(place, int) else root

    def sharing(self, root: SSAValue) -> list[SSAValue]:
        place = self._place(root)
        if not isinstance(place, int):
            return []
        return [each for each in self._others if each is not root and self._place(each) == place]

    def same_place(self, one: SSAValue, other: SSAValue) -> bool:
        if one is other or self._are_donated(one, other):
            return True
        match self._place(one), self._place(other):
            case _Fixed() as first, _Fixed() as second:
                return (first.begin, first.end) == (second.begin, second.end)
            case _Symbolic() as first, _Symbolic() as second:
                return first == second
            case _:
                return False

    def may_overlap(self, one: SSAValue, other: SSAValue) -> bool:
        return one is other or self._meets(one, other)

    def _meets(self, one: SSAValue, other: SSAValue) -> bool:
        first, second = self._place(one), self._place(other)
        if first is None or second is None:
            return first is second and self._are_donated(one, other)
        match first, second:
            case _Fixed() as first, _Fixed() as second:
                overlap = max(first.begin, second.begin), min(first.end, second.end)
                return overlap[0] < overlap[1]
            case int() as first, int() as second:
                return first == second
            case (_Fixed() | _Symbolic()) as first, (_Fixed() | _Symbolic()) as second:
                return first is second or not self._lie_apart(first, second)
            case _:
                return False

    def _lie_apart(self, one: _Fixed | _Symbolic, other: _Fixed | _Symbolic) -> bool:
        """Whether one of two places is proved to end before the other begins."""
        if (one, other) not in self._apart:
            orders = ((one, other), (other, one))
            self._apart[one, other] = any(
                self._order.is_at_most(Expr.of(first.end), Expr.of(second.begin))
                for first, second in orders
            )
        return self._apart[one, other]

    def _are_donated(self, one: SSAValue, other: SSAValue) -> bool:
        return self._donors.get(one) is other or self._donors.get(other) is one


class _Order:
    """Offsets in increasing order, as far as that is proved: one is at most the next where they are
    as far apart as a buffer that lies between, whose size is never negative, since extents are not.
    """

    def __init__(
        self,
        sizes: Mapping[Expr, list[Expr]],
        total: Expr | None,
        ranges: Mapping[Atom, Range],
    ):
        self._ranges = ranges
        found = [*sizes] if total is None else [*sizes, total]
        # Which order to prove is seen from one example.
        self._offsets = sorted(dict.fromkeys(found), key=self._example)
        self._numbers = {offset: number for number, offset in enumerate(self._offsets)}
        self._broken = [0]
        for low, high in pairwise(self._offsets):
            apart = any(_is_at_most(low + size, high, ranges) for size in sizes.get(low, ()))
            self._broken.append(self._broken[-1] + (not apart))

    def _example(self, offset: Expr) -> int:
        values: dict[Atom, int] = {}
        for atom in offset.atoms():
            low, high = self._ranges.get(atom, (None, None))
            values[atom] = max(low or 0, LARGE if high is None else min(high, LARGE))
        return offset.evaluate(values)

    def is_at_most(self, end: Expr, begin: Expr) -> bool:
        """Whether the end of a place is never behind an offset: it is not behind the first one that
        is not behind it, and from there on offsets increase.
        """
        if begin.constant is None or end.constant is None:
            number = self._numbers.get(begin)
            if number is not None and self._reaches(end, number):
                return True
        return _is_at_most(end, begin, self._ranges)

    def _reaches(self, end: Expr, number: int) -> bool:
        least = self._example(end)
        for lower in range(number, -1, -1):
            if self._broken[number] != self._broken[lower]:
                return False
            if self._example(self._offsets[lower]) < least:
                return False
            if _is_at_most(end, self._offsets[lower], self._ranges):
                return True
        return False


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
    arguments = program.body.block.args
    return isinstance(root.owner, Block) and root in arguments[: program.inputs.data]


def _is_at_most(low: Expr, high: Expr, ranges: Mapping[Atom, Range], depth: int = 3) -> bool:
    """Whether one size never exceeds another: a `max` counts as any one of its operands."""
    gap = high - low
    least, _ = gap.range(ranges)
    if least is not None:
        return least >= 0 or _by_operands(gap, ranges, depth)
    return _by_operands(gap, ranges, depth)


def _by_operands(gap: Expr, ranges: Mapping[Atom, Range], depth: int) -> bool:
    """Whether a gap is at least 0 since one is that is never greater: with one operand of a `max`
    in its place, or with a quotient by what it is at least.
    """
    return depth > 0 and any(
        _is_at_most(Expr.of(0), lower, ranges, depth - 1) for lower in _lower_bounds(gap)
    )


def _lower_bounds(gap: Expr) -> Iterator[Expr]:
    for monomial, factor in gap.terms.items():
        atom = monomial[0] if len(monomial) == 1 else None
        rest = gap - factor * Expr({monomial: 1})
        if isinstance(atom, Extremum) and atom.kind == ("max" if factor > 0 else "min"):
            yield from (rest + factor * each for each in atom.operands)
        elif isinstance(atom, Quotient) and (divisor := atom.divisor.constant or 0) > 0:
            # x - (c - 1) <= c * (x floordiv c) <= x
            least = atom.dividend - (divisor - 1 if factor > 0 else 0)
            if factor % divisor == 0:
                yield rest + factor // divisor * least


def _is_multiple(expr: Expr, number: int) -> bool:
    """Whether a number divides every value of an expression."""
    for monomial, factor in expr.terms.items():
        if factor % number == 0:
            continue
        atom = monomial[0] if len(monomial) == 1 else None
        if not isinstance(atom, Extremum):
            return False
        if not all(_is_multiple(factor * each, number) for each in atom.operands):
            return False
    return True

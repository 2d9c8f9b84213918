"""What a program requires of the extents of its buffers, and which of that compilation has proved.

An extent is at most `MOST`, and so are the bytes of a buffer, extents of 0 counted as 1. Then no
offset, stride or count of elements overflows 64 bits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property

from msgspec import Struct
from xdsl.dialects.builtin import LocationAttr, StringAttr
from xdsl.irdl import IRDLOperation, irdl_op_definition, prop_def

from weft.dialects.expr import Atom, Expr, Extremum, Quotient, Remainder, Symbol
from weft.dialects.expr.atoms import children_of
from weft.dialects.extent import MOST
from weft.dialects.interval import Range
from weft.dialects.loop.scalar import width
from weft.dialects.loop.types import BufferType

EXACT = 1 << 62
"""What stays below is computed in 64 bits as it is."""

Ranges = Mapping[Atom, Range]


@irdl_op_definition
class RequireExtentsOp(IRDLOperation):
    """The program fails where a buffer of this type would be too large:
    `loop.require_extents !loop.buffer<[n, m], f32> of "input 'x'"`.
    """

    name = "loop.require_extents"
    buffer_type: BufferType = prop_def(BufferType)
    who: StringAttr = prop_def(StringAttr)
    assembly_format = "$buffer_type `of` $who attr-dict"

    @staticmethod
    def of(buffer_type: BufferType, who: str, location: LocationAttr) -> RequireExtentsOp:
        """The check of a type; `who` names the buffer in the error's text."""
        properties = {"buffer_type": buffer_type, "who": StringAttr(who)}
        return RequireExtentsOp.create(properties=properties, location=location)


def element_bytes(buffer_type: BufferType) -> int:
    """How many bytes an element takes in memory; a bool takes one."""
    return max(8, width(buffer_type.element)) // 8


class Volume(Struct, frozen=True, dict=True):
    """The extents of a buffer's storage that depend on sizes, products by factor, and the bytes of
    what is constant.
    """

    dims: tuple[Expr, ...]
    bytes: int

    @staticmethod
    def of(buffer_type: BufferType) -> Volume:
        """That of a buffer."""
        total, dims = element_bytes(buffer_type), list[Expr]()
        for dim in buffer_type.storage:
            number, factors = _factors(dim)
            total *= number or 1
            dims += factors
        return Volume(tuple(dims), total)

    @cached_property
    def _count(self) -> Counter[Expr]:
        return Counter(self.dims)

    def names(self) -> set[str]:
        """The sizes that it depends on."""
        return {name for dim in self.dims for name in dim.symbols()}

    def implies(self, other: Volume) -> bool:
        """Whether the other is within the limits where this one is."""
        return other.bytes <= self.bytes and other._count <= self._count

    def is_proved(self, ranges: Ranges) -> bool:
        """Whether it is within the limits for all values in these ranges."""
        total = self.bytes
        for dim in self.dims:
            if not is_extent(dim, ranges):
                return False
            total *= max(1, dim.range(ranges)[1] or 1)
        return total <= MOST


def _factors(dim: Expr) -> tuple[int, list[Expr]]:
    """A number and expressions whose product the dim is. Those that no size makes positive, such as
    `-n floordiv 2`, are negated.
    """
    if dim.constant is not None:
        return dim.constant, []
    ((monomial, factor), *others) = dim.terms.items()
    factors: list[Expr] = []
    limits = size_limits(dim.symbols(), {})
    for each in map(Expr.atom, monomial):
        _, high = each.range(limits)
        negative = high is not None and high <= 0
        factors.append(-each if negative else each)
        factor = -factor if negative else factor
    return (1, [dim]) if others or factor < 0 else (factor, factors)


def is_extent(dim: Expr, ranges: Ranges) -> bool:
    """Whether a dim is proved to be from 0 to MOST."""
    low, high = dim.range(ranges)
    return low is not None and low >= 0 and high is not None and high <= MOST


def not_implied(volumes: Iterable[Volume], ranges: Ranges) -> list[Volume]:
    """Those that have to be checked: neither proved nor implied by others of these."""
    open_ = [each for each in dict.fromkeys(volumes) if not each.is_proved(ranges)]
    kept: set[Volume] = set()
    with_dim: dict[Expr | None, list[Volume]] = {}
    for each in sorted(open_, key=lambda each: (-len(each.dims), -each.bytes)):
        # What implies it has all of its dims.
        others = min((with_dim.get(dim, []) for dim in (None, *each.dims)), key=len)
        if not any(other.implies(each) for other in others):
            kept.add(each)
            for dim in dict.fromkeys((None, *each.dims)):
                with_dim.setdefault(dim, []).append(each)
    return [each for each in open_ if each in kept]


def size_limits(names: Iterable[str], bounds: Ranges) -> dict[Atom, Range]:
    """The ranges of sizes that have been checked to be extents, and to be within bounds."""
    ranges: dict[Atom, Range] = {}
    for name in names:
        low, high = bounds.get(Symbol(name), (0, MOST))
        ranges[Symbol(name)] = max(0, low or 0), MOST if high is None else min(high, MOST)
    return ranges


def parts(expr: Expr) -> Iterator[Expr]:
    """The expressions that a value is computed from by more than sums and products, innermost
    first, then the expression itself.
    """
    for monomial in expr.terms:
        for atom in monomial:
            for child in children_of(atom):
                yield from parts(child)
    yield expr


def is_exact(expr: Expr, ranges: Ranges) -> bool:
    """Whether no step of the computation of this expression can leave 64 bits, what it is computed
    from aside.
    """
    return _magnitude(expr, ranges) <= EXACT


def _magnitude(expr: Expr, ranges: Ranges) -> int:
    """The most that the value, and every sum of some of its terms, is away from 0."""
    total = 0
    for monomial, factor in expr.terms.items():
        term = abs(factor)
        for atom in monomial:
            term *= _atom_magnitude(atom, ranges)
        total += term
    return total


def _atom_magnitude(atom: Atom, ranges: Ranges) -> int:
    if isinstance(atom, Quotient):
        return _magnitude(atom.dividend, ranges)
    if isinstance(atom, Remainder):
        return _magnitude(atom.divisor, ranges)
    if isinstance(atom, Extremum):
        return max(_magnitude(each, ranges) for each in atom.operands)
    low, high = ranges.get(atom, (None, None))
    return 1 << 64 if low is None or high is None else max(abs(low), abs(high))


OPS = (RequireExtentsOp,)

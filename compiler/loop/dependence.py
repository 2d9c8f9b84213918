"""The dependence test: may two accesses touch one element?

Accesses are compared in logical subscripts. For each loop around both, a direction says how the
iteration of the second relates to that of the first: `=` the same, `<` a later one, `>` an earlier
one, `*` any. Two accesses are independent when for some dimension the difference of their
subscripts cannot be zero, by its bounds (Banerjee's test on symbolic bounds) or by the divisor that
its factors share. Whatever cannot be proved is a dependence: subscripts that are loaded from
memory, views under two shapes, `while`.

Different arguments and allocations never overlap. What a loop's body allocates belongs to one
iteration.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from itertools import combinations_with_replacement
from math import gcd

from msgspec import Struct
from xdsl.ir import Block, Operation, OpResult, SSAValue

from weft.compiler.loop.nest import (
    Bound,
    accesses_in,
    bounds_of,
    expand,
    extreme,
    is_defined_inside,
    ranges_around,
    ranges_of,
    root_buffer,
    subscripts,
    values_in,
)
from weft.compiler.loop.windows import keep_to_windows
from weft.dialects.expr import Atom, Expr, Extremum, Monomial, Quotient, Remainder
from weft.dialects.interval import Range
from weft.dialects.loop.ops import AccessOp, ForOp, StoreOp, WhileOp, enclosing_loops

Pair = tuple[AccessOp, AccessOp]


class Relation(Struct, frozen=True):
    """How the second access's iteration of a loop relates to the first's.

    The two loops are one and the same, or two that are asked about as if they were fused. A `limit`
    bounds how many iterations lie between.
    """

    first: ForOp
    second: ForOp
    direction: str
    limit: int | None = None


class _Distance(Struct, frozen=True):
    """How many iterations of a loop lie between two accesses."""

    loop: ForOp


class _Elsewhere(Struct, frozen=True):
    """A value as the second access sees it, in another iteration than the first."""

    value: SSAValue


def may_clash(first: AccessOp, second: AccessOp, relations: Sequence[Relation]) -> bool:
    """Whether both may touch one element, in iterations related so, and any of other loops."""
    if root_buffer(first.buffer) is not root_buffer(second.buffer):
        return False
    shared = _with_shared_loops(first, second, relations)
    related = _in_allocation(shared, root_buffer(first.buffer))
    if related is None:
        return False
    return first.buffer is not second.buffer or not _independent(first, second, related)


Site = tuple[SSAValue, tuple[Expr, ...], Block | None]


def site_of(access: AccessOp) -> Site:
    """All that decides what an access clashes with: its buffer, its subscripts and its block."""
    return access.buffer, subscripts(access), access.parent


def distinct(pairs: Iterable[Pair]) -> Iterator[Pair]:
    """The first of all pairs at the same two sites: a load and a store of one element, say, clash
    with what the store clashes with.
    """
    seen: set[tuple[Site, Site]] = set()
    for pair, sites in with_sites(pairs):
        if sites not in seen:
            seen.add(sites)
            yield pair


def with_sites(pairs: Iterable[Pair]) -> Iterator[tuple[Pair, tuple[Site, Site]]]:
    """Each pair with its sites, which are found once for each access."""
    known: dict[AccessOp, Site] = {}
    for pair in pairs:
        for access in pair:
            if access not in known:
                known[access] = site_of(access)
        yield pair, (known[pair[0]], known[pair[1]])


def _with_shared_loops(
    first: AccessOp, second: AccessOp, relations: Sequence[Relation]
) -> list[Relation]:
    """The relations, and `*` for the loops around both that they do not mention."""
    seconds = set(enclosing_loops(second))
    known = {relation.first for relation in relations}
    shared = [loop for loop in enclosing_loops(first) if loop in seconds and loop not in known]
    return [*relations, *(Relation(loop, loop, "*") for loop in shared)]


def _in_allocation(relations: Sequence[Relation], buffer: SSAValue) -> Sequence[Relation] | None:
    """The relations among iterations that see the same allocation; None where there are none."""
    if type(buffer) is not OpResult:
        return relations
    related: list[Relation] = []
    for each in relations:
        if each.first is each.second and allocated_in(buffer, each.first):
            if each.direction in "<>":
                return None
            related.append(Relation(each.first, each.second, "="))
        else:
            related.append(each)
    return related


def allocated_in(buffer: SSAValue, loop: ForOp) -> bool:
    """Whether each iteration of the loop has a buffer of its own."""
    return type(buffer) is OpResult and is_defined_inside(buffer, loop)


def _independent(first: AccessOp, second: AccessOp, relations: Sequence[Relation]) -> bool:
    # The cheap tests come first: the bounds below are expressions over all loops around both
    # accesses.
    here, elsewhere = subscripts(first), subscripts(second)
    alike = _alike(here, elsewhere, relations)
    if alike is not None:
        return alike
    fixed = {r.first.index for r in relations if r.direction == "=" and r.first is r.second}
    moved_on = (r.first for r in relations if r.direction in "<>" and r.first is r.second)
    if any(keep_to_windows([here], [elsewhere], loop, fixed) for loop in moved_on):
        return True  # the exact test would find that after much longer
    distances = [_distance_bound(relation) for relation in relations if relation.direction != "="]
    if any(_is_empty(bound) for bound in distances):
        return True
    # The second access is written over the loops of the first: the index of a common loop becomes
    # that of the first plus a distance, of which only the sign and the bound are known.
    shift: dict[Atom, Expr] = {
        relation.second.index: _shifted_index(relation) for relation in relations
    }
    related = {relation.second for relation in relations}
    private = bounds_of(loop for loop in enclosing_loops(second) if loop not in related)
    varying = _varying(first, second, elsewhere, relations)
    moved = [_substitute(bound, shift | varying) for bound in private]
    bounds = [_relaxed(bound) for bound in (*bounds_of(enclosing_loops(first)), *distances, *moved)]
    there = [expr.substitute(shift | varying) for expr in elsewhere]
    equations = _joined(list(zip(here, there, strict=True)))
    ranges = ranges_of(bounds)
    if any(_never_equal(left, right, bounds, ranges) for left, right in equations):
        return True
    # Of collapsed loops, quotient and remainder may each be equal for two elements that differ in
    # the other one; only the address, where both are put together again, shows it, or the quotient
    # without what is added to it.
    if not any(map(_quotients, here)):
        return False
    around = ranges_around(first), ranges_around(second)
    quotients = _alone(list(zip(here, elsewhere, strict=True)), *around)
    alone = [(left, right.substitute(shift | varying)) for left, right in quotients]
    return _are_disjoint(first, here, there, bounds, ranges) or any(
        _never_equal(left, right, bounds, ranges) for left, right in _joined(equations + alone)
    )


def _alike(
    here: Sequence[Expr], there: Sequence[Expr], relations: Sequence[Relation]
) -> bool | None:
    """The answer where it needs no bounds; else None.

    Accesses with two constant subscripts that differ are independent. Those with the same
    subscripts clash where all loops may be in the same iteration. They do not where a single loop
    in another iteration indexes one of the subscripts, and all else in it is the same.
    """
    numbers = ((left.constant, right.constant) for left, right in zip(here, there, strict=True))
    if any(None not in pair and pair[0] != pair[1] for pair in numbers):
        return True
    if any(relation.first is not relation.second for relation in relations):
        return None
    if here == there and all(relation.direction in "*=" for relation in relations):
        return False
    fixed = {r.first.index for r in relations if r.direction == "="}
    differing = {r.first.index for r in relations if r.direction in "<>"}
    equal = (left for left, right in zip(here, there, strict=True) if left == right)
    return True if any(_is_indexed_by_one(expr, differing, fixed) for expr in equal) else None


def _is_indexed_by_one(expr: Expr, differing: Set[Atom], fixed: Set[Atom]) -> bool:
    """Whether an expression differs wherever one of the `differing` indices does, since nothing
    else in it changes but sizes and `fixed`.
    """
    values = set(values_in(expr)) - fixed
    if len(values) != 1 or not values <= differing:
        return False
    (index,) = values
    return bool(expr.coefficient(index).constant) and expr.is_affine_in(index)


def _are_disjoint(
    access: AccessOp,
    here: Sequence[Expr],
    there: Sequence[Expr],
    bounds: Sequence[Bound],
    ranges: Mapping[Atom, Range],
) -> bool:
    """Whether two elements have different addresses. In the address the quotient and the remainder
    of a collapsed loop are one index again, and one element has one address.
    """
    left, right = (access.buffer_type.address(each).simplify(ranges) for each in (here, there))
    return _never_equal(left, right, bounds, ranges)


def _distance_bound(relation: Relation) -> Bound:
    furthest = expand(relation.first.extent) - 1
    if relation.limit is not None:
        most = furthest.range({})[1]
        furthest = Expr.of(relation.limit if most is None else min(relation.limit, most))
    least, greatest = {"<": (1, furthest), ">": (-furthest, -1), "*": (-furthest, furthest)}[
        relation.direction
    ]
    return Bound(_Distance(relation.first), Expr.of(least), Expr.of(greatest))


def _relaxed(bound: Bound) -> Bound:
    """The bound with each `min` of which an operand is constant replaced by that, where this makes
    it wider: the last tile of a loop counts as a whole one.
    """
    return Bound(bound.atom, _widened(bound.least, -1), _widened(bound.greatest, 1))


def _widened(value: Expr | None, sign: int) -> Expr | None:
    if value is None:
        return None
    total = Expr.of(0)
    for monomial, factor in value.terms.items():
        term, most = Expr({monomial: factor}), _most(monomial)
        total = total + (term if most is None or factor * sign < 0 else Expr.of(factor * most))
    return total


def _most(monomial: Monomial) -> int | None:
    """The least constant operand of a `min` that stands alone."""
    if len(monomial) != 1 or not isinstance(monomial[0], Extremum) or monomial[0].operator != "min":
        return None
    known = (operand.constant for operand in monomial[0].operands)
    return min((value for value in known if value is not None), default=None)


def _is_empty(bound: Bound) -> bool:
    assert bound.least is not None, "a distance has bounds"
    assert bound.greatest is not None, "a distance has bounds"
    _, most = (bound.greatest - bound.least).range({})
    return most is not None and most < 0


def _shifted_index(relation: Relation) -> Expr:
    """The second access's index in terms of the first's and the distance."""
    first, second = relation.first, relation.second
    offset = Expr.atom(first.index)
    if first is not second:
        offset = offset - expand(first.lower) + expand(second.lower)
    if relation.direction == "=":
        return offset
    return offset + Expr.atom(_Distance(first)) * first.step.data


def _varying(
    first: AccessOp, second: AccessOp, there: Sequence[Expr], relations: Sequence[Relation]
) -> dict[Atom, Expr]:
    """Values in the second access's subscripts that it may see changed: computed inside a loop that
    moved on.
    """
    moved = [r.first for r in relations if r.direction != "="]
    fixed = {loop.index for op in (first, second) for loop in enclosing_loops(op)}
    values = [value for expr in there for value in values_in(expr)]
    return {
        value: Expr.atom(_Elsewhere(value))
        for value in values
        if value not in fixed and _may_change(value, moved)
    }


def _may_change(value: SSAValue, moved: Sequence[ForOp]) -> bool:
    if any(is_defined_inside(value, loop) for loop in moved):
        return True
    block = value.owner.parent if isinstance(value.owner, Operation) else value.owner
    parent = None if block is None else block.parent_op()
    while parent is not None and not isinstance(parent, WhileOp):
        parent = parent.parent_op()
    return parent is not None


def _substitute(bound: Bound, values: dict[Atom, Expr]) -> Bound:
    least = None if bound.least is None else bound.least.substitute(values)
    greatest = None if bound.greatest is None else bound.greatest.substitute(values)
    return Bound(bound.atom, least, greatest)


def _joined(equations: list[tuple[Expr, Expr]]) -> list[tuple[Expr, Expr]]:
    """The equations, and those that make `f * x` of `x floordiv c` and `f * (x mod c)` in two of
    them.
    """
    joined = list(equations)
    for position, (left, right) in enumerate(joined):
        scale = _turn_of_remainder(left)
        if scale is None or len(joined) > 4 * len(equations):
            continue
        for other_left, other_right in joined[:]:
            whole = other_left * scale + left
            if _turn_of_remainder(whole) != scale and _quotients(other_left):
                joined.insert(position + 1, (whole, other_right * scale + right))
    return joined


def _alone(
    equations: Sequence[tuple[Expr, Expr]],
    first: Mapping[Atom, Range],
    second: Mapping[Atom, Range],
) -> Iterator[tuple[Expr, Expr]]:
    """What follows of equations for the quotients in them, by the ranges of either side:
    `x floordiv c` is equal where `16 * (x floordiv c) + i` is, of `i` below 16.
    """
    for left, right in equations:
        for monomial, factor in left.terms.items():
            if abs(factor) > 1 and any(isinstance(atom, Quotient) for atom in monomial):
                yield (left // factor).simplify(first), (right // factor).simplify(second)


def _turn_of_remainder(expr: Expr) -> Expr | None:
    """How far a remainder's term reaches before it starts anew: its factor times its divisor."""
    for monomial, factor in expr.terms.items():
        if len(monomial) == 1 and isinstance(monomial[0], Remainder):
            return monomial[0].divisor * factor
    return None


def _quotients(expr: Expr) -> bool:
    return any(isinstance(atom, Quotient) for monomial in expr.terms for atom in monomial)


def _never_equal(
    left: Expr, right: Expr, bounds: Sequence[Bound], ranges: Mapping[Atom, Range]
) -> bool:
    difference = (right - left).simplify(ranges)
    if difference.constant is not None:
        return difference.constant != 0
    low, high = difference.range(ranges)
    if (low is not None and low > 0) or (high is not None and high < 0):
        return True
    if _shared_divisor_excludes(difference) or _remainders_differ(left, right):
        return True
    return _bounds_exclude(difference, bounds)


def _remainders_differ(left: Expr, right: Expr) -> bool:
    """Whether both are remainders by one number, of indices that differ by no multiple of it."""
    pair = [next(iter(each.terms)) for each in (left, right) if len(each.terms) == 1]
    if len(pair) != 2 or any(len(monomial) != 1 for monomial in pair):
        return False
    (one,), (other,) = pair
    return (
        isinstance(one, Remainder)
        and isinstance(other, Remainder)
        and one.divisor == other.divisor
        and one.divisor.constant is not None
        and left.terms[one,] == right.terms[other,]
        and _shared_divisor_excludes(other.dividend - one.dividend, one.divisor.constant)
    )


def _shared_divisor_excludes(difference: Expr, further: int = 0) -> bool:
    factors = [factor for monomial, factor in difference.terms.items() if monomial]
    return difference.terms.get((), 0) % (gcd(*factors, further) or 1) != 0


def _bounds_exclude(difference: Expr, bounds: Sequence[Bound]) -> bool:
    greatest = extreme(difference, bounds, greatest=True)
    high = None if greatest is None else greatest.range({})[1]
    if high is not None and high < 0:
        return True
    least = extreme(difference, bounds, greatest=False)
    low = None if least is None else least.range({})[0]
    return low is not None and low > 0


def clashing_pairs(
    ops: Iterable[Operation], apart: Callable[[Sequence[AccessOp]], bool] = lambda _: False
) -> Iterator[Pair]:
    """Each pair of accesses of one buffer, of which one is a store; stores with themselves too.
    None of a buffer whose accesses are all told to be `apart`.
    """
    by_buffer: dict[SSAValue, list[AccessOp]] = {}
    for op in ops:
        for access in accesses_in(op):
            by_buffer.setdefault(root_buffer(access.buffer), []).append(access)
    for accesses in by_buffer.values():
        if any(isinstance(access, StoreOp) for access in accesses) and not apart(accesses):
            for pair in combinations_with_replacement(accesses, 2):
                if any(isinstance(access, StoreOp) for access in pair):
                    yield pair


def separated(accesses: Sequence[AccessOp], loops: Sequence[ForOp], fixed: set[Atom]) -> set[ForOp]:
    """Those of the loops around all accesses of a buffer in one iteration of which alone two may
    touch one element, where the indices that are `fixed` are the same: all pairs are asked at once.
    """
    if any(access.buffer is not accesses[0].buffer for access in accesses):
        return set()
    exprs, buffer = [*dict.fromkeys(map(subscripts, accesses))], root_buffer(accesses[0].buffer)
    found: set[ForOp] = set()
    for _ in loops:  # those that are found may fix what another's index is added to
        known = fixed | {loop.index for loop in found}
        new = [
            loop
            for loop in loops
            if loop not in found
            and (allocated_in(buffer, loop) or keep_to_windows(exprs, exprs, loop, known))
        ]
        if not new:
            break
        found.update(new)
    return found


def crossing_pairs(first: Iterable[Operation], second: Iterable[Operation]) -> Iterator[Pair]:
    """Each pair of accesses of one buffer, one of each group, of which one is a store."""
    by_buffer: dict[SSAValue, list[AccessOp]] = {}
    for op in second:
        for access in accesses_in(op):
            by_buffer.setdefault(root_buffer(access.buffer), []).append(access)
    for op in first:
        for access in accesses_in(op):
            for other in by_buffer.get(root_buffer(access.buffer), ()):
                if isinstance(access, StoreOp) or isinstance(other, StoreOp):
                    yield access, other

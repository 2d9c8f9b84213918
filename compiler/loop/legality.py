"""The dependence test that every primitive asks first: may two accesses touch one element?

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

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement, product
from math import gcd
from typing import NoReturn

from xdsl.ir import Operation, SSAValue

from compiler.loop.nest import (
    Bound,
    accesses_in,
    bounds_of,
    describe,
    expand,
    extreme,
    is_branch,
    is_defined_inside,
    is_simple,
    ranges_of,
    root_buffer,
    subscripts,
    update_of,
    values_in,
)
from dialects.errors import IllegalSchedule
from dialects.expr import Atom, Expr, Quotient, Remainder, atom_expr
from dialects.loop.ops import AccessOp, ForOp, StoreOp, WhileOp, enclosing_loops

Pair = tuple[AccessOp, AccessOp]


@dataclass(frozen=True)
class Relation:
    """How the second access's iteration of a loop relates to the first's.

    The two loops are one and the same, or two that are asked about as if they were fused. A `limit`
    bounds how many iterations lie between.
    """

    first: ForOp
    second: ForOp
    direction: str
    limit: int | None = None


@dataclass(frozen=True)
class _Distance:
    """How many iterations of a loop lie between two accesses."""

    loop: ForOp


@dataclass(frozen=True)
class _Elsewhere:
    """A value as the second access sees it, in another iteration than the first."""

    value: SSAValue


def may_clash(first: AccessOp, second: AccessOp, relations: Sequence[Relation]) -> bool:
    """Whether both may touch one element, in iterations related so, and any of other loops."""
    if root_buffer(first.buffer) is not root_buffer(second.buffer):
        return False
    shared = _with_shared_loops(first, second, relations)
    related = [_within_allocation(relation, first.buffer) for relation in shared]
    if any(relation is None for relation in related):
        return False
    if first.buffer is not second.buffer:
        return True
    return not _independent(first, second, [relation for relation in related if relation])


def _with_shared_loops(
    first: AccessOp, second: AccessOp, relations: Sequence[Relation]
) -> list[Relation]:
    """The relations, and `*` for the loops around both that they do not mention."""
    seconds = set(enclosing_loops(second))
    known = {relation.first for relation in relations}
    shared = [loop for loop in enclosing_loops(first) if loop in seconds and loop not in known]
    return [*relations, *(Relation(loop, loop, "*") for loop in shared)]


def _within_allocation(relation: Relation, buffer: SSAValue) -> Relation | None:
    """The relation among iterations that see the same allocation; None where there are none."""
    if relation.first is not relation.second or not _allocated_in(
        root_buffer(buffer), relation.first
    ):
        return relation
    return None if relation.direction in "<>" else Relation(relation.first, relation.second, "=")


def _allocated_in(buffer: SSAValue, loop: ForOp) -> bool:
    return isinstance(buffer.owner, Operation) and is_defined_inside(buffer, loop)


def _independent(first: AccessOp, second: AccessOp, relations: Sequence[Relation]) -> bool:
    distances = [_distance_bound(relation) for relation in relations if relation.direction != "="]
    if any(_is_empty(bound) for bound in distances):
        return True
    shift: dict[Atom, Expr] = {
        relation.second.index: _shifted_index(relation) for relation in relations
    }
    related = {relation.second for relation in relations}
    private = bounds_of(loop for loop in enclosing_loops(second) if loop not in related)
    varying = _varying(first, second, relations)
    moved = [_substitute(bound, shift | varying) for bound in private]
    bounds = [*bounds_of(enclosing_loops(first)), *distances, *moved]
    here = list(subscripts(first))
    there = [expr.substitute(shift | varying) for expr in subscripts(second)]
    equations = _joined(list(zip(here, there, strict=True)))
    return any(_never_equal(left, right, bounds) for left, right in equations)


def _distance_bound(relation: Relation) -> Bound:
    furthest = expand(relation.first.extent) - 1
    if relation.limit is not None:
        most = furthest.range({})[1]
        furthest = Expr.of(relation.limit if most is None else min(relation.limit, most))
    least, greatest = {"<": (1, furthest), ">": (-furthest, -1), "*": (-furthest, furthest)}[
        relation.direction
    ]
    return Bound(_Distance(relation.first), Expr.of(least), Expr.of(greatest))


def _is_empty(bound: Bound) -> bool:
    assert bound.least is not None, "a distance has bounds"
    assert bound.greatest is not None, "a distance has bounds"
    _, most = (bound.greatest - bound.least).range({})
    return most is not None and most < 0


def _shifted_index(relation: Relation) -> Expr:
    """The second access's index in terms of the first's and the distance."""
    first, second = relation.first, relation.second
    offset = atom_expr(first.index)
    if first is not second:
        offset = offset - expand(first.lower) + expand(second.lower)
    if relation.direction == "=":
        return offset
    return offset + atom_expr(_Distance(first)) * first.step.data


def _varying(first: AccessOp, second: AccessOp, relations: Sequence[Relation]) -> dict[Atom, Expr]:
    """Values that the second access may see changed: computed inside a loop that moved on."""
    moved = [r.first for r in relations if r.direction != "="]
    fixed = {loop.index for op in (first, second) for loop in enclosing_loops(op)}
    values = [value for expr in subscripts(second) for value in values_in(expr)]
    return {
        value: atom_expr(_Elsewhere(value))
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
    """The equations, and those that make `x` of `x floordiv c` and `x mod c` in two of them."""
    joined = list(equations)
    for position, (left, right) in enumerate(joined):
        divisor = _remainder_divisor(left)
        if divisor is None or len(joined) > 4 * len(equations):
            continue
        for other_left, other_right in joined[:]:
            whole = other_left * divisor + left
            if _remainder_divisor(whole) != divisor and _quotients(other_left):
                joined.insert(position + 1, (whole, other_right * divisor + right))
    return joined


def _remainder_divisor(expr: Expr) -> Expr | None:
    for monomial in expr.terms:
        if len(monomial) == 1 and isinstance(monomial[0], Remainder):
            return monomial[0].divisor
    return None


def _quotients(expr: Expr) -> bool:
    return any(isinstance(atom, Quotient) for monomial in expr.terms for atom in monomial)


def _never_equal(left: Expr, right: Expr, bounds: Sequence[Bound]) -> bool:
    ranges = ranges_of(bounds)
    difference = (right - left).simplify(ranges)
    if difference.constant is not None:
        return difference.constant != 0
    low, high = difference.range(ranges)
    if (low is not None and low > 0) or (high is not None and high < 0):
        return True
    return _shared_divisor_excludes(difference) or _bounds_exclude(difference, bounds)


def _shared_divisor_excludes(difference: Expr) -> bool:
    factors = [factor for monomial, factor in difference.terms.items() if monomial]
    return difference.terms.get((), 0) % gcd(*factors) != 0


def _bounds_exclude(difference: Expr, bounds: Sequence[Bound]) -> bool:
    greatest = extreme(difference, bounds, greatest=True)
    high = None if greatest is None else greatest.range({})[1]
    if high is not None and high < 0:
        return True
    least = extreme(difference, bounds, greatest=False)
    low = None if least is None else least.range({})[0]
    return low is not None and low > 0


def clashing_pairs(ops: Iterable[Operation]) -> Iterator[Pair]:
    """Each pair of accesses of one buffer, of which one is a store; stores with themselves too."""
    by_buffer: dict[SSAValue, list[AccessOp]] = {}
    for op in ops:
        for access in accesses_in(op):
            by_buffer.setdefault(root_buffer(access.buffer), []).append(access)
    for accesses in by_buffer.values():
        if any(isinstance(access, StoreOp) for access in accesses):
            for pair in combinations_with_replacement(accesses, 2):
                if any(isinstance(access, StoreOp) for access in pair):
                    yield pair


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


def refuse(who: str, rule: str, pair: Pair) -> NoReturn:
    """Raises with the two accesses that clash."""
    raise IllegalSchedule(f"{who} requires {rule}, got {describe(pair[0])} and {describe(pair[1])}")


def require_known(who: str, root: Operation) -> None:
    """Refuses operations whose effects the dependence test does not know."""
    for op in root.walk():
        if not is_simple(op) and not is_branch(op) and op.name != "loop.condition":
            raise IllegalSchedule(f"{who} requires operations of known effect, got {op.name}")


def carried_pair(loop: ForOp, limit: int | None = None) -> Pair | None:
    """Two accesses that touch one element in iterations of a loop at most `limit` apart."""
    outside = [Relation(outer, outer, "=") for outer in enclosing_loops(loop)]
    relations = [*outside, Relation(loop, loop, "<", limit)]
    for first, second in clashing_pairs([loop]):
        if may_clash(first, second, relations) or may_clash(second, first, relations):
            return first, second
    return None


def require_independent_iterations(who: str, loop: ForOp, limit: int | None = None) -> None:
    """Refuses a loop whose iterations may not run at the same time."""
    require_known(who, loop)
    pair = carried_pair(loop, limit)
    if pair is not None:
        refuse(who, f"independent iterations of loop %{loop.index.name_hint}", pair)


def require_order(who: str, loops: Sequence[ForOp], order: Sequence[ForOp]) -> None:
    """Refuses an interchange of perfectly nested loops that would run a dependence backwards."""
    outermost = loops[0]
    require_known(who, outermost)
    outside = [Relation(outer, outer, "=") for outer in enclosing_loops(loops[0])]
    loops, order, outside = _narrowed(loops, order, outside)
    positions = [loops.index(loop) for loop in order]
    for first, second in clashing_pairs([outermost]):
        for vector in _directions(first, second, loops, outside):
            reversed_ = _leading(vector) != _leading([vector[position] for position in positions])
            if reversed_ and not _reassociable(first, second, loops, vector):
                refuse(who, "an order that keeps every dependence", (first, second))


def _narrowed(
    loops: Sequence[ForOp], order: Sequence[ForOp], outside: list[Relation]
) -> tuple[Sequence[ForOp], Sequence[ForOp], list[Relation]]:
    """The loops that change places: without the outermost and innermost ones that stay."""
    while loops and loops[0] is order[0]:
        outside = [*outside, Relation(loops[0], loops[0], "=")]
        loops, order = loops[1:], order[1:]
    while loops and loops[-1] is order[-1]:
        loops, order = loops[:-1], order[:-1]
    return loops, order, outside


def _directions(
    first: AccessOp, second: AccessOp, loops: Sequence[ForOp], outside: Sequence[Relation]
) -> Iterator[tuple[str, ...]]:
    """Every vector of directions in which the two may clash."""
    groups = _coupled(first, second, loops)
    choices = [list(_group_directions(first, second, group, outside)) for group in groups]
    for choice in product(*choices):
        known = {loop: d for part in choice for loop, d in part.items()}
        yield tuple(known[loop] for loop in loops)


def _coupled(first: AccessOp, second: AccessOp, loops: Sequence[ForOp]) -> list[list[ForOp]]:
    """The loops in groups, so that no dimension's subscripts use the indices of two groups."""
    groups = [[loop] for loop in loops]
    for here, there in zip(subscripts(first), subscripts(second), strict=False):
        atoms = {*here.atoms(), *there.atoms()}
        joined = [group for group in groups if any(loop.index in atoms for loop in group)]
        rest = [group for group in groups if group not in joined]
        groups = [*rest, [loop for group in joined for loop in group]] if joined else rest
    return groups


def _group_directions(
    first: AccessOp, second: AccessOp, group: Sequence[ForOp], outside: Sequence[Relation]
) -> Iterator[dict[ForOp, str]]:
    if not _mention(first, second, group):
        directions = "=" if _allocated_in(root_buffer(first.buffer), group[0]) else "<=>"
        return ({group[0]: direction} for direction in directions)
    if _is_one_to_one(first, second, group, outside):
        return iter([dict.fromkeys(group, "=")])

    def refine(known: dict[ForOp, str]) -> Iterator[dict[ForOp, str]]:
        relations = [Relation(loop, loop, direction) for loop, direction in known.items()]
        if not may_clash(first, second, [*outside, *relations]):
            return
        if len(known) == len(group):
            yield known
            return
        for direction in "<=>":
            yield from refine({**known, group[len(known)]: direction})

    return refine({})


def _mention(first: AccessOp, second: AccessOp, group: Sequence[ForOp]) -> bool:
    """Whether a loop of the group moves either access, or bounds a loop that does."""
    indices = {loop.index for loop in group}
    inner = {
        operand
        for loop in enclosing_loops(first) + enclosing_loops(second)
        for operand in loop.operands_
    }
    atoms = {
        atom for access in (first, second) for expr in subscripts(access) for atom in expr.atoms()
    }
    return len(group) > 1 or bool(indices & (atoms | inner))


def _is_one_to_one(
    first: AccessOp, second: AccessOp, group: Sequence[ForOp], outside: Sequence[Relation]
) -> bool:
    """Whether both use the group's indices alike and as digits: they meet in one iteration only."""
    fixed = {relation.first.index for relation in outside if relation.direction == "="}
    indices: dict[Atom, ForOp] = {loop.index: loop for loop in group}
    counting = all(loop.lower == 0 and loop.step.data == 1 for loop in group)
    if first.buffer is not second.buffer or not counting:
        return False
    found: set[Atom] = set()
    for here, there in zip(subscripts(first), subscripts(second), strict=True):
        used = set(here.atoms()) & set(indices)
        values = set(values_in(here))
        if (
            used
            and here == there
            and values <= used | fixed
            and _are_digits(here, [indices[i] for i in used])
        ):
            found |= used
    return found == set(indices)


def _are_digits(expr: Expr, loops: Sequence[ForOp]) -> bool:
    """Whether an expression tells indices apart: each steps over all that smaller ones reach."""
    reach = 1
    for loop in sorted(loops, key=lambda loop: expr.coefficient(loop.index).constant or 0):
        step, extent = expr.coefficient(loop.index).constant, loop.extent.constant
        if step is None or step < reach or not expr.is_affine_in(loop.index):
            return False
        if extent is None:
            return loop is max(loops, key=lambda each: expr.coefficient(each.index).constant or 0)
        reach = step * extent
    return True


def _leading(vector: Sequence[str]) -> str:
    """The direction that decides which of two iterations runs first."""
    return next((direction for direction in vector if direction != "="), "=")


def _reassociable(
    first: AccessOp, second: AccessOp, loops: Sequence[ForOp], vector: Sequence[str]
) -> bool:
    """Whether both belong to updates of a kind that each loop between them may reassociate."""
    updates = update_of(first), update_of(second)
    if updates[0] is None or updates[1] is None or updates[0].kind != updates[1].kind:
        return False
    carriers = [loop for loop, direction in zip(loops, vector, strict=True) if direction != "="]
    kinds = {None if loop.reduction is None else loop.reduction.data for loop in carriers}
    return kinds == {updates[0].kind}


def require_distributable(
    who: str, loop: ForOp, before: Sequence[Operation], after: Sequence[Operation]
) -> None:
    """Refuses a fission that would run an access ahead of an earlier one it clashes with."""
    require_known(who, loop)
    outside = [Relation(outer, outer, "=") for outer in enclosing_loops(loop)]
    relations = [*outside, Relation(loop, loop, "<")]
    for late, early in crossing_pairs(before, after):
        if may_clash(early, late, relations):
            refuse(who, "no dependence of the first part on the second", (early, late))


def require_fusable(who: str, first: ForOp, second: ForOp) -> None:
    """Refuses a fusion that would run an access ahead of an earlier one that it clashes with."""
    require_known(who, first)
    require_known(who, second)
    outside = [Relation(outer, outer, "=") for outer in enclosing_loops(first)]
    relations = [*outside, Relation(first, second, ">")]
    for pair in crossing_pairs([first], [second]):
        if may_clash(*pair, relations):
            refuse(who, "that no iteration needs a later one of the first loop", pair)


def require_commuting(who: str, first: Sequence[Operation], second: Sequence[Operation]) -> None:
    """Refuses to swap two groups of neighbours that touch one element."""
    around = enclosing_loops(first[0]) if first else []
    relations = [Relation(outer, outer, "=") for outer in around]
    for pair in crossing_pairs(first, second):
        if may_clash(*pair, relations):
            refuse(who, "that neighbours which change places are independent", pair)

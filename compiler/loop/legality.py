"""What every primitive asks before it rewrites, answered by the dependence test.

Two accesses clash in vectors of directions, one for each loop. An order of the loops is legal where
it keeps the leading direction of every vector, the first that is not `=`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import NoReturn

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Operation, SSAValue

from weft.compiler.loop.dependence import (
    Pair,
    Relation,
    Site,
    allocated_in,
    clashing_pairs,
    crossing_pairs,
    distinct,
    may_clash,
    separated,
    site_of,
    with_sites,
)
from weft.compiler.loop.matchers import update_of
from weft.compiler.loop.nest import (
    combiner_of,
    describe,
    is_branch,
    is_simple,
    most_iterations,
    root_buffer,
    subscript_atoms,
    subscripts,
    value_name,
    values_in,
)
from weft.dialects.errors import IllegalSchedule
from weft.dialects.expr import Atom, Expr
from weft.dialects.loop.ops import AccessOp, ForOp, enclosing_loops


def refuse(who: str, rule: str, pair: Pair) -> NoReturn:
    """Raises with the two accesses that clash."""
    raise IllegalSchedule(f"{who} requires {rule}, got {describe(pair[0])} and {describe(pair[1])}")


def require_known(who: str, root: Operation) -> None:
    """Refuses operations whose effects the dependence test does not know."""
    for op in root.walk():
        if not is_simple(op) and not is_branch(op) and op.name != "loop.condition":
            raise IllegalSchedule(f"{who} requires operations of known effect, got {op.name}")


def require_only_accessed(who: str, buffer: SSAValue) -> list[AccessOp]:
    """The loads and stores of a buffer; refuses one that has other uses, such as a view."""
    accesses: list[AccessOp] = []
    for user in dict.fromkeys(use.operation for use in buffer.uses):
        if not isinstance(user, AccessOp):
            rule = f"that {value_name(buffer)} is only loaded and stored"
            raise IllegalSchedule(f"{who} requires {rule}, got {describe(user)}")
        accesses.append(user)
    return accesses


def carried_pair(loop: ForOp, limit: int | None = None) -> Pair | None:
    """Two accesses that touch one element in iterations of a loop at most `limit` apart."""
    outside = [Relation(outer, outer, "=") for outer in enclosing_loops(loop)]
    relations = [*outside, Relation(loop, loop, "<", limit)]
    fixed: set[Atom] = {each.first.index for each in outside}
    for first, second in distinct(
        clashing_pairs([loop], lambda accesses: bool(separated(accesses, [loop], fixed)))
    ):
        if may_clash(first, second, relations):
            return first, second
        if site_of(first) != site_of(second) and may_clash(second, first, relations):
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
    fixed: set[Atom] = {each.first.index for each in outside}
    backwards: dict[tuple[Site, Site], list[tuple[str, ...]]] = {}
    for (first, second), sites in with_sites(
        # Where one loop at most has a direction, it leads in any order.
        clashing_pairs(
            [outermost], lambda each: len(separated(each, loops, fixed)) >= len(loops) - 1
        )
    ):
        if sites not in backwards:
            backwards[sites] = [
                vector
                for vector in _directions(first, second, loops, outside)
                if _leading(vector) != _leading([vector[position] for position in positions])
            ]
        if any(not _reassociable(first, second, loops, each) for each in backwards[sites]):
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
        directions = "=" if allocated_in(root_buffer(first.buffer), group[0]) else "<=>"
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
    if len(group) > 1:
        return True
    index, accesses = group[0].index, (first, second)
    return any(index in subscript_atoms(access) for access in accesses) or any(
        index in loop.operands_ for access in accesses for loop in enclosing_loops(access)
    )


def _is_one_to_one(
    first: AccessOp, second: AccessOp, group: Sequence[ForOp], outside: Sequence[Relation]
) -> bool:
    """Whether both use the group's indices alike and as digits: they meet in one iteration only."""
    counting = all(loop.lower == 0 and loop.step.data == 1 for loop in group)
    if first.buffer is not second.buffer or not counting:
        return False
    fixed = {relation.first.index for relation in outside if relation.direction == "="}
    indices: dict[Atom, ForOp] = {loop.index: loop for loop in group}
    found: set[Atom] = set()
    for here, there in zip(subscripts(first), subscripts(second), strict=True):
        used = indices.keys() & set(here.atoms())
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
        step, extent = expr.coefficient(loop.index).constant, most_iterations(loop)
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
    if updates[0] is None or updates[1] is None or updates[0].combiner != updates[1].combiner:
        return False
    carriers = [loop for loop, direction in zip(loops, vector, strict=True) if direction != "="]
    combiners = {combiner_of(loop) for loop in carriers}
    return combiners == {updates[0].combiner}


def require_distributable(
    who: str, loop: ForOp, before: Sequence[Operation], after: Sequence[Operation]
) -> None:
    """Refuses a fission that would run an access ahead of an earlier one it clashes with."""
    require_known(who, loop)
    outside = [Relation(outer, outer, "=") for outer in enclosing_loops(loop)]
    relations = [*outside, Relation(loop, loop, "<")]
    for late, early in distinct(crossing_pairs(before, after)):
        if may_clash(early, late, relations):
            refuse(who, "no dependence of the first part on the second", (early, late))


def require_fusable(who: str, first: ForOp, second: ForOp) -> None:
    """Refuses a fusion that would run an access ahead of an earlier one that it clashes with."""
    require_known(who, first)
    require_known(who, second)
    outside = [Relation(outer, outer, "=") for outer in enclosing_loops(first)]
    relations = [*outside, Relation(first, second, ">")]
    for pair in distinct(crossing_pairs([first], [second])):
        if may_clash(*pair, relations):
            refuse(who, "that no iteration needs a later one of the first loop", pair)


def common_reduction(first: ForOp, second: ForOp) -> StringAttr | None:
    """The mark of the loop that two become: their own where it is one; that of one of them where
    the other's iterations depend neither on each other nor on the first's.
    """
    if first.reduction == second.reduction:
        return first.reduction
    marked, other = (first, second) if second.reduction is None else (second, first)
    if other.reduction is not None or carried_pair(other) is not None:
        return None
    outside = [Relation(outer, outer, "=") for outer in enclosing_loops(first)]
    relations = [*outside, Relation(first, second, "<")]
    pairs = distinct(crossing_pairs([first], [second]))
    apart = not any(may_clash(*pair, relations) for pair in pairs)
    return marked.reduction if apart else None


def require_commuting(who: str, first: Sequence[Operation], second: Sequence[Operation]) -> None:
    """Refuses to swap two groups of neighbours that touch one element."""
    around = enclosing_loops(first[0]) if first else []
    relations = [Relation(outer, outer, "=") for outer in around]
    for pair in distinct(crossing_pairs(first, second)):
        if may_clash(*pair, relations):
            refuse(who, "that neighbours which change places are independent", pair)

"""The primitives that prefetch."""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.dialects.builtin import IntAttr
from xdsl.ir import SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from weft.compiler.loop.nest import (
    describe,
    element_address,
    is_indexed_by_loops,
    is_inside,
    subscript_atoms,
    subscripts,
)
from weft.compiler.loop.primitives.recording import primitive
from weft.compiler.target.target import LINE
from weft.dialects.errors import IllegalSchedule
from weft.dialects.expr import Atom, Expr, product
from weft.dialects.loop.ops import AccessOp, AllocOp, ForOp, PrefetchOp, enclosing_loops
from weft.dialects.loop.scalar import width


@primitive
def prefetch(
    access: AccessOp,
    loop: ForOp,
    distance: int = 1,
    *,
    level: str = "L1",
    before: ForOp | None = None,
    around: ForOp | None = None,
) -> tuple[ForOp, ...]:
    """Prefetches what a load reads, or the lines that a store writes to, `distance` iterations
    later of a loop around it, into L1 or L2 (level="L2").

        for i:  for j:  y[i, j] = f(x[i, j])
        ->  for i:  for j:  prefetch x[i + 1, j];  y[i, j] = f(x[i, j])

    In front of each access; or, each line once, in front of a loop between, over all of them:

        ->  for i:  for p = 0 to n step 16:  prefetch x[i + 1, p]
                    for j:  y[i, j] = f(x[i, j])

    With a loop `around` it, the first iterations of its next iteration follow the last ones of the
    loop:

        ->  for i:  for k < 8:  prefetch x[i + (k + 1) floordiv 8, (k + 1) mod 8]

    Returns the loops made. No value changes, and nothing behind the buffer's end is read. Raises
    IllegalSchedule for a loop that is not around the access or does not index it, for an access
    that loaded values index, for a local buffer, for a loop between whose inner loops depend on
    each other, and for a loop of dynamic length `around`.
    """
    _require_forward(access, loop, distance, level)
    loops = _over_lines(access, loop, before) if before is not None else {}
    later = _later(loop, distance, around)
    later |= {old.index: Expr.atom(new.index) for old, new in loops.items()}
    point = InsertPoint.before(before or access)
    for new in loops.values():
        Rewriter.insert_op(new, point)
        point = InsertPoint.at_end(new.body.block)
    Rewriter.insert_op(_moved(access, later, level), point)
    return tuple(loops.values())


@primitive
def prefetch_shares(access: AccessOp, loop: ForOp, before: ForOp) -> ForOp:
    """Prefetches into L2 what an access touches in the next iteration of a loop around it, an equal
    share of its lines in front of each run of another loop inside of that one.

        for j:  for k < 8:  S(y[k, j])
                for i < 4:  T
        ->  for j:  for k < 8:  S(y[k, j])
                    for i < 4:  for p < 2:  prefetch y[2 * i + p, j + 1]
                                T

    In a step of a product of tiles they follow what it multiplies. Returns the loop over a share.
    It changes no value, and nothing behind the end of the buffer is read. Raises IllegalSchedule as
    `prefetch`, where the other loop is not inside, and where the access or what is around the other
    loop has loops of no constant length.
    """
    _require_forward(access, loop, 1, "L2")
    inside, around = (
        [each for each in enclosing_loops(op) if is_inside(each, loop) and each is not loop]
        for op in (access, before)
    )
    found = _over_lines(access, loop, inside[0]) if inside else {}
    runs = product(each.extent for each in around).constant
    counts = [(new.upper - new.lower).ceildiv(new.step.data) for new in found.values()]
    lines = product(counts).constant
    if not is_inside(before, loop) or not lines or not runs:
        got = f"{describe(before)} and {describe(loop)}"
        raise IllegalSchedule(f"prefetch_shares requires loops of known length inside, got {got}")
    run = Expr.of(0)
    for each in around:
        run = run * each.extent + (Expr.atom(each.index) - each.lower) // each.step.data
    share = ForOp.of(0, -(-lines // runs))
    share.index.name_hint = "p"
    line, later = run * share.extent + Expr.atom(share.index), _later(loop, 1, None)
    for (old, new), count in reversed([*zip(found.items(), counts, strict=True)]):
        later[old.index] = new.lower + new.step.data * (line % count)
        line = line // count
    step = before.parent_op()
    follows = isinstance(step, ForOp) and step.matrix is not None
    Rewriter.insert_op(share, InsertPoint.after(before) if follows else InsertPoint.before(before))
    Rewriter.insert_op(_moved(access, later, "L2"), InsertPoint.at_end(share.body.block))
    return share


def _moved(access: AccessOp, later: Mapping[Atom, Expr], level: str) -> PrefetchOp:
    """The prefetch of what an access touches with other indices."""
    op = PrefetchOp.of(access.buffer, [expr.substitute(later) for expr in subscripts(access)])
    if level == "L2":
        op.properties["locality"] = IntAttr(2)
    return op


def _require_forward(access: AccessOp, loop: ForOp, distance: int, level: str) -> None:
    """Refuses an access that a loop does not move forward through memory, or loaded values do, and
    another level of caches.
    """
    moves = loop.index in subscript_atoms(access) and is_indexed_by_loops(access)
    if not is_inside(access, loop) or not moves or distance < 1:
        got = f"{describe(access)} and {describe(loop)}"
        raise IllegalSchedule(f"prefetch requires an access that the loop moves forward, got {got}")
    if isinstance(access.buffer.owner, AllocOp):
        rule = "a buffer that is handed to the kernel"
        raise IllegalSchedule(f"prefetch requires {rule}, got {describe(access)}")
    if level not in ("L1", "L2"):
        raise IllegalSchedule(f"prefetch requires a level out of L1 and L2, got {level}")


def _later(loop: ForOp, distance: int, around: ForOp | None) -> dict[Atom, Expr]:
    """The indices some iterations later of a loop, or of two."""
    position = Expr.atom(loop.index) + distance * loop.step.data
    if around is None:
        return {loop.index: position}
    plain = loop.lower == 0 and loop.step.data == 1 and loop.extent.constant is not None
    if not plain or loop is around or not is_inside(loop, around):
        got = f"{describe(loop)} and {describe(around)}"
        raise IllegalSchedule(f"prefetch requires a loop of known length in another, got {got}")
    carry = position // loop.extent * around.step.data
    return {loop.index: position % loop.extent, around.index: Expr.atom(around.index) + carry}


def _over_lines(access: AccessOp, loop: ForOp, before: ForOp) -> dict[ForOp, ForOp]:
    """The loops from one on that index an access, each with one over the lines that it touches."""
    if not is_inside(access, before) or not is_inside(before, loop):
        got = f"{describe(before)} and {describe(access)}"
        raise IllegalSchedule(f"prefetch requires a loop between, got {got}")
    address = element_address(access)
    inside = [each for each in enclosing_loops(access) if each is before or is_inside(each, before)]
    indices: set[SSAValue] = {each.index for each in inside}
    moved = subscript_atoms(access)
    found: dict[ForOp, ForOp] = {}
    for each in inside:
        if each.index not in moved:
            continue
        bounds = {atom for bound in (each.lower, each.upper) for atom in bound.atoms()}
        if bounds & indices:
            rule = "loops that do not depend on each other"
            raise IllegalSchedule(f"prefetch requires {rule}, got {describe(each)}")
        apart = address.coefficient(each.index) if address.is_affine_in(each.index) else None
        distance = LINE if apart is None else apart.constant or LINE
        line = max(1, LINE * 8 // width(access.buffer_type.element) // abs(distance))
        new = ForOp.of(each.lower, each.upper, step=max(line, each.step.data))
        new.index.name_hint = "p"
        found[each] = new
    return found

"""The primitives that compute one nest among another one, of two iterations of a loop or of one."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation
from xdsl.rewriter import InsertPoint, Rewriter

from weft.compiler.loop.legality import (
    require_commuting,
    require_independent_iterations,
    require_only_accessed,
)
from weft.compiler.loop.nest import (
    bounds_of,
    describe,
    is_defined_inside,
    move_ops,
    new_loop,
    ranges_of,
    reallocate,
    redirect,
    rename_values,
    replace_index,
)
from weft.compiler.loop.primitives.packing import with_dim
from weft.compiler.loop.primitives.recording import primitive
from weft.compiler.loop.primitives.tiling import require_unmarked
from weft.dialects.errors import IllegalSchedule
from weft.dialects.expr import Expr, minimum
from weft.dialects.loop.ops import AllocOp, ForOp
from weft.dialects.loop.types import buffer_type_of

COPIES = 2
"""Of a local buffer: one is read while the next iteration fills the other one."""


@primitive
def pipeline(reduction: ForOp, epilogue: ForOp) -> ForOp:
    """Computes the last nest of an iteration among the reduction of the next one, some of it behind
    each iteration of that, so that a processor has operations of both at hand.

        for j < n:                       a = alloc [2, 32]
          a = alloc [32]                 for jf < 1:  for i < 32:  a[0, i] = 0
          for i < 32:  a[i] = 0                       for k < 8:  S(0, k, a[0])
          for k < 8:   S(j, k, a)    ->  for j < n - 1:
          for i < 32:  T(j, i, a)          for i < 32:  a[(j + 1) mod 2, i] = 0
                                           for k < 8:   S(j + 1, k, a[(j + 1) mod 2])
                                                        for i = 4*k to 4*k + 4:  T(j, i, a[j mod 2])
                                         for jl < 1:  for i < 32:  T(n - 1, i, a[(n - 1) mod 2])

    Returns the loop over the n - 1 iterations. Raises IllegalSchedule unless both nests end the
    body of a loop of independent iterations, two at least, and are of constant extent, and where
    the epilogue uses what the iteration computes in front of it, but for local buffers.
    """
    loop = epilogue.parent_op()
    if not isinstance(loop, ForOp) or reduction.next_op is not epilogue or epilogue.next_op:
        got = f"{describe(reduction)} and {describe(epilogue)}"
        raise IllegalSchedule(f"pipeline requires two nests that end a loop, got {got}")
    _require_counted("pipeline", loop, 2)
    _require_counted("pipeline", reduction, 1)
    _require_counted("pipeline", epilogue, 1)
    require_unmarked("pipeline", loop)
    require_unmarked("pipeline", epilogue)
    require_independent_iterations("pipeline", loop)
    for allocation in _shared_allocations(loop, epilogue):
        _double(allocation, loop)
    first, last = loop.clone(), loop.clone()
    Rewriter.insert_op(first, InsertPoint.before(loop))
    Rewriter.insert_op(last, InsertPoint.after(loop))
    return _overlap(first, loop, last)


@primitive
def compute_among(nest: ForOp, reduction: ForOp) -> None:
    """Computes the nest behind a reduction among it, some of it behind each iteration of that.

        for k < 8:   S(k)          ->   for k < 8:   S(k)
        for i < 32:  T(i)                            for i = 4*k to 4*k + 4:  T(i)

    Raises IllegalSchedule unless they follow each other and are of constant extent, and where one
    stores what the other accesses.
    """
    if reduction.next_op is not nest:
        got = f"{describe(nest)} and {describe(reduction)}"
        raise IllegalSchedule(f"compute_among requires a nest behind a reduction, got {got}")
    _require_counted("compute_among", reduction, 1)
    _require_counted("compute_among", nest, 1)
    require_unmarked("compute_among", nest)
    require_commuting("compute_among", [reduction], [nest])
    _move_parts(reduction, nest)


def _require_counted(who: str, loop: ForOp, least: int) -> None:
    extent = loop.extent.constant
    if extent is None or extent < least or loop.lower != 0 or loop.step.data != 1:
        rule = f"a loop of at least {least} iterations from zero"
        raise IllegalSchedule(f"{who} requires {rule}, got {describe(loop)} with {loop.extent}")


def _shared_allocations(loop: ForOp, epilogue: ForOp) -> list[AllocOp]:
    """The local buffers of an iteration that its epilogue uses."""
    found: dict[AllocOp, None] = {}
    for op in epilogue.walk():
        for operand in op.operands:
            if is_defined_inside(operand, epilogue) or not is_defined_inside(operand, loop):
                continue
            if operand is loop.index:
                continue
            owner = operand.owner
            if not isinstance(owner, AllocOp):
                rule = "an epilogue that uses buffers of the iteration alone"
                raise IllegalSchedule(f"pipeline requires {rule}, got {describe(op)}")
            require_only_accessed("pipeline", operand)
            found[owner] = None
    return list(found)


def _double(allocation: AllocOp, loop: ForOp) -> None:
    """Gives neighbouring iterations buffers of their own."""
    type = with_dim(buffer_type_of(allocation.result), Expr.of(COPIES))
    doubled = reallocate(allocation, type, before=loop)
    for access in require_only_accessed("pipeline", allocation.result):
        redirect(access, doubled.result, (Expr.atom(loop.index) % COPIES, *access.index))
    Rewriter.erase_op(allocation)


def _overlap(first: ForOp, loop: ForOp, last: ForOp) -> ForOp:
    """Makes of three copies of a loop the first iteration up to its epilogue; the other ones, each
    with the epilogue of the one before; and the last epilogue.
    """
    name = loop.index.name_hint or "i"
    count = loop.extent.constant or 0
    start, main, end = (
        new_loop(n, f"{name}{suffix}") for n, suffix in ((1, "f"), (count - 1, ""), (1, "l"))
    )
    for old, new in ((first, start), (loop, main), (last, end)):
        Rewriter.insert_op(new, InsertPoint.before(old))
        move_ops(list(old.body.block.ops), new.body.block)
    _erase(list(start.body.block.ops)[-1:])
    _erase(list(end.body.block.ops)[:-1])
    *_, reduction, epilogue = main.body.block.ops
    assert isinstance(reduction, ForOp), "the copy of a loop ends as the loop does"
    assert isinstance(epilogue, ForOp), "the copy of a loop ends as the loop does"
    replace_index(first.index, Expr.atom(start.index))
    replace_index(last.index, Expr.atom(end.index) + count - 1)
    rename_values(epilogue, {loop.index: last.index})
    replace_index(last.index, Expr.atom(main.index))
    replace_index(loop.index, Expr.atom(main.index) + 1)
    _erase([first, loop, last])
    _move_parts(reduction, epilogue)
    return main


def _erase(ops: Sequence[Operation]) -> None:
    for op in reversed(ops):
        Rewriter.erase_op(op)


def _move_parts(reduction: ForOp, epilogue: ForOp) -> None:
    """Moves some iterations of the epilogue behind each one of the reduction."""
    rows = epilogue.extent
    size = rows.ceildiv(reduction.extent)
    done = Expr.atom(reduction.index) * size
    ranges = ranges_of(bounds_of([reduction]), {})
    lower, upper = (minimum([count, rows]).simplify(ranges) for count in (done, done + size))
    part = ForOp.of(lower, upper)
    part.index.name_hint = epilogue.index.name_hint
    move_ops(list(epilogue.body.block.ops), part.body.block)
    epilogue.index.replace_all_uses_with(part.index)
    Rewriter.erase_op(epilogue)
    reduction.body.block.add_op(part)

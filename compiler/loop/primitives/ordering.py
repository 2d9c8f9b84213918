"""Primitives that change the order in which iterations run: reorder, distribute, hoist."""

from __future__ import annotations

from collections.abc import Iterable

from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from weft.compiler.loop.dependence import crossing_pairs
from weft.compiler.loop.legality import refuse, require_distributable, require_order
from weft.compiler.loop.nest import (
    describe,
    is_defined_inside,
    is_pure,
    move_ops,
    new_loop,
    only_loop,
    ranges_around,
    rename_values,
    replace_index,
)
from weft.compiler.loop.primitives.recording import primitive
from weft.compiler.loop.primitives.tiling import require_unmarked
from weft.dialects.errors import IllegalSchedule
from weft.dialects.expr import Expr
from weft.dialects.loop.ops import ForOp, LoadOp, enclosing_loops


@primitive
def reorder(*order: ForOp) -> tuple[ForOp, ...]:
    """Brings perfectly nested loops into the given order, the outermost first.

        for i:  for j:  for k:  C[i, j] += A[i, k] * B[k, j]   ->   for k:  for i:  for j:  ...

    Raises IllegalSchedule where the loops are not one perfect nest, where bounds depend on an index
    that would come later, and where a dependence would run backwards, except between updates of one
    element in loops that are all marked as reductions of that kind.
    """
    loops = _chain(order)
    for loop in loops:
        require_unmarked("reorder", loop)
    if loops == list(order):
        return order
    _require_constant_bounds(order)
    require_order("reorder", loops, order)
    _nest_anew(loops, order)
    return order


def _chain(order: Iterable[ForOp]) -> list[ForOp]:
    """The loops in the order in which they are nested now."""
    loops = sorted(order, key=lambda loop: len(enclosing_loops(loop)))
    for outer, inner in zip(loops, loops[1:], strict=False):
        if only_loop(outer.body.block) is not inner:
            got = f"{describe(outer)} around {describe(inner)}"
            raise IllegalSchedule(f"reorder requires perfectly nested loops, got {got}")
    return loops


def _require_constant_bounds(order: Iterable[ForOp]) -> None:
    later: set[SSAValue] = {loop.index for loop in order}
    for loop in order:
        if any(operand in later for operand in loop.operands_):
            rule = "bounds over outer indices only"
            raise IllegalSchedule(f"reorder requires {rule}, got {describe(loop)}")
        later.discard(loop.index)


def _nest_anew(loops: list[ForOp], order: tuple[ForOp, ...]) -> None:
    block, following = loops[0].parent, loops[0].next_op
    assert block is not None, "a loop under schedule is in a block"
    body = list(loops[-1].body.block.ops)
    for op in (*body, *reversed(loops)):
        op.detach()
    order[-1].body.block.add_ops(body)
    for outer, inner in zip(order, order[1:], strict=False):
        outer.body.block.add_op(inner)
    point = InsertPoint.at_end(block) if following is None else InsertPoint.before(following)
    Rewriter.insert_op(order[0], point)


@primitive
def distribute(loop: ForOp, before: Operation) -> ForOp:
    """Splits a loop in two: over the operations in front of `before`, and over the rest.

        for i:  S; T   ->   for i:  S
                            for i:  T

    Constants and index arithmetic that both need are copied. Returns the second loop. Raises
    IllegalSchedule where S in a later iteration depends on T, and where T uses another value that S
    computes.
    """
    require_unmarked("distribute", loop)
    ops = list(loop.body.block.ops)
    if before not in ops[1:]:
        rule = "an operation of the loop's body behind the first"
        raise IllegalSchedule(f"distribute requires {rule}, got {describe(before)}")
    cut = ops.index(before)
    first, second = ops[:cut], ops[cut:]
    require_distributable("distribute", loop, first, second)
    shared = _values_needed(first, second)
    tail = new_loop(loop.extent, loop.index.name_hint or "i", loop)
    Rewriter.insert_op(tail, InsertPoint.after(loop))
    copies: dict[SSAValue, SSAValue] = {loop.index: tail.index}
    copied = [op.clone(copies) for op in shared]
    tail.body.block.add_ops(copied)
    move_ops(second, tail.body.block)
    for op in [*copied, *second]:
        rename_values(op, copies)
    if loop.lower != 0 or loop.step.data != 1:
        replace_index(tail.index, loop.lower + Expr.atom(tail.index) * loop.step.data)
    return tail


def _values_needed(first: list[Operation], second: list[Operation]) -> list[Operation]:
    """The pure operations of the first part that the second needs as well."""
    defined: dict[SSAValue, Operation] = {result: op for op in first for result in op.results}
    pending = [value for op in second for inner in op.walk() for value in inner.operands]
    needed: set[Operation] = set()
    while pending:
        op = defined.get(pending.pop())
        if op is None or op in needed:
            continue
        if not is_pure(op):
            rule = "that the parts share only constants and index arithmetic"
            raise IllegalSchedule(f"distribute requires {rule}, got {describe(op)}")
        needed.add(op)
        pending += op.operands
    return [op for op in first if op in needed]


@primitive
def hoist(op: Operation) -> Operation:
    """Moves an operation that computes the same in every iteration in front of its loop.

        for j:  %x = load A[i]; S   ->   %x = load A[i]
                                         for j:  S

    Raises IllegalSchedule where its operands change within the loop, where the loop stores what it
    loads, and for a load where the loop may have no iteration at all.
    """
    loop = op.parent_op()
    if not isinstance(loop, ForOp) or not (is_pure(op) or isinstance(op, LoadOp)):
        raise IllegalSchedule(
            f"hoist requires a load or a pure operation of a loop, got {describe(op)}"
        )
    if any(is_defined_inside(operand, loop) for operand in op.operands):
        raise IllegalSchedule(
            f"hoist requires operands from outside of the loop, got {describe(op)}"
        )
    if isinstance(op, LoadOp):
        _require_constant_load(op, loop)
    op.detach()
    Rewriter.insert_op(op, InsertPoint.before(loop))
    return op


def _require_constant_load(load: LoadOp, loop: ForOp) -> None:
    if (loop.extent.range(ranges_around(loop))[0] or 0) < 1:
        got = f"{describe(loop)} with {loop.extent}"
        raise IllegalSchedule(f"hoist requires a loop that runs at least once, got {got}")
    for pair in crossing_pairs([load], [loop]):
        refuse("hoist", "that the loop does not store what is loaded", pair)

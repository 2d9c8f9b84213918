"""The primitive that keeps what a loop stores for its next iteration."""

from __future__ import annotations

from typing import NoReturn

from xdsl.ir import Operation
from xdsl.rewriter import InsertPoint, Rewriter

from weft.compiler.loop.nest import describe, is_indexed_by_loops
from weft.compiler.loop.primitives.recording import primitive
from weft.dialects.errors import IllegalSchedule
from weft.dialects.expr import Atom, Expr
from weft.dialects.loop.ops import AllocOp, ForOp, LoadOp, StoreOp
from weft.dialects.loop.program import size_ranges
from weft.dialects.loop.types import buffer


@primitive
def carry_store(load: LoadOp) -> None:
    """Replaces a load of what the iteration before has stored by a register that keeps it.

                                           s = y[0]
        for i < n:  y[i + 1] = f(y[i])  -> for i < n:  s = f(s);  y[i + 1] = s

    Raises IllegalSchedule unless the loop runs at least once, without marks, and stores to the
    buffer in one place: in every iteration, behind the load, where the next iteration loads, by
    indices of loops.
    """
    loop, block = load.parent_op(), load.parent
    if not isinstance(loop, ForOp) or loop.hints():
        _refuse("a loop without marks around the load", load)
    stores = [op for op in loop.walk() if isinstance(op, StoreOp) and op.buffer is load.buffer]
    if len(stores) != 1:
        _refuse("one store to the buffer in the loop", load)
    (store,) = stores
    if store.parent is not block or not load.is_before_in_block(store):
        _refuse("the store behind the load in every iteration", store)
    before: dict[Atom, Expr] = {loop.index: Expr.atom(loop.index) - loop.step.data}
    if not is_indexed_by_loops(load):
        _refuse("an element that indices of loops alone decide", load)
    if [each.substitute(before) for each in store.index] != list(load.index):
        _refuse("a store to where the next iteration loads", store)
    if (loop.extent.range(size_ranges(loop))[0] or 0) < 1:
        _refuse("a loop that runs at least once", loop)
    first: dict[Atom, Expr] = {loop.index: loop.lower}
    kept = AllocOp.of(buffer([], load.buffer_type.element), "scratch")
    kept.result.name_hint = "s"
    start = LoadOp.of(load.buffer, [each.substitute(first) for each in load.index])
    ahead = [kept, start, StoreOp.of(start.result, kept.result, [])]
    Rewriter.insert_op(ahead, InsertPoint.before(loop))
    Rewriter.insert_op(StoreOp.of(store.value, kept.result, []), InsertPoint.after(store))
    Rewriter.replace_op(load, LoadOp.of(kept.result, []))


def _refuse(rule: str, got: Operation) -> NoReturn:
    raise IllegalSchedule(f"carry_store requires {rule}, got {describe(got)}")

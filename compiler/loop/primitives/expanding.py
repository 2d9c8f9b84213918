"""The primitive that keeps a scalar of each iteration in an array."""

from __future__ import annotations

from typing import NoReturn

from xdsl.dialects.builtin import AnyFloat, IntegerType
from xdsl.ir import Operation
from xdsl.rewriter import InsertPoint, Rewriter

from weft.compiler.loop.nest import describe
from weft.compiler.loop.primitives.recording import primitive
from weft.dialects.errors import IllegalSchedule
from weft.dialects.expr import Expr
from weft.dialects.loop.ops import AllocOp, ForOp, LoadOp, StoreOp
from weft.dialects.loop.types import buffer


@primitive
def expand_scalar(op: Operation) -> LoadOp:
    """Keeps what an operation computes in each iteration in an element of that iteration's own.

                                            t = alloc [n]
        for i < n:  v = f(i);  S(v)   ->    for i < n:  t[i] = f(i);  S(t[i])

    The loop may then be distributed in front of the load, which is returned. Raises IllegalSchedule
    unless the operation has one result, a number, and is in a loop without marks that counts from 0
    by 1 to a constant.
    """
    loop = op.parent_op()
    if not isinstance(loop, ForOp) or loop.hints():
        _refuse("a loop without marks around the operation", op)
    if loop.extent.constant is None or loop.lower != 0 or loop.step.data != 1:
        _refuse("a loop that counts from 0 by 1 to a constant", loop)
    if len(op.results) != 1 or not isinstance(op.results[0].type, AnyFloat | IntegerType):
        _refuse("an operation that computes one number", op)
    (value,) = op.results
    kept = AllocOp.of(buffer([loop.extent], value.type), "scratch")
    kept.result.name_hint = "t"
    index = [Expr.atom(loop.index)]
    store, load = StoreOp.of(value, kept.result, index), LoadOp.of(kept.result, index)
    Rewriter.insert_op(kept, InsertPoint.before(loop))
    Rewriter.insert_op([store, load], InsertPoint.after(op))
    value.replace_uses_with_if(load.result, lambda use: use.operation is not store)
    return load


def _refuse(rule: str, got: Operation) -> NoReturn:
    raise IllegalSchedule(f"expand_scalar requires {rule}, got {describe(got)}")

"""Parallel loops: when they pay.

The run-time function is `weft.parallel_for(ctx, count, grain, body, argument)`, where
`body(argument, begin, end)` runs a part of the iterations. It runs up to `grain` iterations, or any
number on one thread, as one direct call.
"""

from __future__ import annotations

from llvmlite import ir
from xdsl.ir import Block, SSAValue

from weft.compiler.loop_to_llvm.scalar.elements import I64, POINTER, VOID
from weft.dialects.expr import Atom, Expr
from weft.dialects.loop.iteration_cost import GRAIN_OPERATIONS, iteration_cost
from weft.dialects.loop.ops import ForOp

BODY_TYPE = ir.FunctionType(VOID, [POINTER, I64, I64])


def grain(loop: ForOp) -> Expr:
    """How many iterations of a parallel loop are enough work for a thread."""
    cost = iteration_cost(loop)
    inner = {atom for atom in cost.atoms() if isinstance(atom, SSAValue)} - set(loop.operands_)
    # What is only known inside the loop, such as a loaded bound, counts as 1.
    cost = cost.substitute({atom: Expr.of(1) for atom in inner if _is_inside(atom, loop)})
    return Expr.of(GRAIN_OPERATIONS).ceildiv(cost)


def _is_inside(value: Atom, loop: ForOp) -> bool:
    assert isinstance(value, SSAValue)
    owner = value.owner
    parent = owner.parent_op() if isinstance(owner, Block) else owner
    while parent is not None and parent is not loop:
        parent = parent.parent_op()
    return parent is loop

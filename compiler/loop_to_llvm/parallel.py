"""Parallel loops: when they pay.

The run-time function is `weft.parallel_for(ctx, count, grain, body, argument)`, where
`body(argument, begin, end)` runs a part of the iterations. It runs up to `grain` iterations, or any
number on one thread, as one direct call.
"""

from __future__ import annotations

from llvmlite import ir
from xdsl.ir import Block, Operation, SSAValue

from weft.compiler.loop_to_llvm.scalar.elements import I64, POINTER, VOID
from weft.dialects.expr import Atom, Expr
from weft.dialects.loop.arithmetic import GeluOp, is_function
from weft.dialects.loop.ops import ForOp

GRAIN_OPERATIONS = 16384
"""How many operations a thread should get at least: a few microseconds, well above the cost of a
fork and join.
"""

FUNCTION_OPERATIONS = 12
"""What a call of a mathematical function counts as."""

GELU_OPERATIONS = FUNCTION_OPERATIONS + 6
"""What GELU counts as: the error function, and the constants, products and sum around it."""

BODY_TYPE = ir.FunctionType(VOID, [POINTER, I64, I64])


def iteration_cost(loop: ForOp) -> Expr:
    """About how many operations one iteration runs, at least 1; a vector operation counts once.

    Where an inner loop's extent depends on an index of the nest, that index counts as its upper
    bound.
    """
    return _block_cost(loop.body.block, {}) + 1


def _block_cost(block: Block, greatest: dict[Atom, Expr]) -> Expr:
    total = Expr.of(0)
    for op in block.ops:
        if isinstance(op, ForOp):
            total = total + _loop_cost(op, greatest)
        else:
            total = total + _operation_cost(op)
            for region in op.regions:
                total = total + _block_cost(region.block, greatest)
    return total


def _operation_cost(op: Operation) -> int:
    if isinstance(op, GeluOp):
        return GELU_OPERATIONS
    return FUNCTION_OPERATIONS if is_function(op) else 1


def _loop_cost(loop: ForOp, greatest: dict[Atom, Expr]) -> Expr:
    upper = loop.upper.substitute(greatest)
    extent = (upper - loop.lower.substitute(greatest)).ceildiv(loop.step.data)
    if loop.vector is not None:
        extent = extent.ceildiv(loop.vector.data)
    return extent * _block_cost(loop.body.block, greatest | {loop.index: upper})


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

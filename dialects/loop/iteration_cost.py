"""How much work an iteration of a loop is, and how much is worth another thread."""

from __future__ import annotations

from xdsl.ir import Block, Operation

from weft.dialects.expr import Atom, Expr
from weft.dialects.loop.arithmetic import GeluOp, ThreefryOp, is_function
from weft.dialects.loop.ops import ForOp

GRAIN_OPERATIONS = 16384
"""How many operations a thread should get at least: a few microseconds, well above the cost of a
fork and join.
"""

FUNCTION_OPERATIONS = 12
"""What a call of a mathematical function counts as."""

GELU_OPERATIONS = FUNCTION_OPERATIONS + 6
"""What GELU counts as: the error function, and the constants, products and sum around it."""

THREEFRY_OPERATIONS = 75
"""What random words count as: three operations in each of 20 rounds, and sums with the key."""


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
    if isinstance(op, ThreefryOp):
        return THREEFRY_OPERATIONS
    return FUNCTION_OPERATIONS if is_function(op) else 1


def _loop_cost(loop: ForOp, greatest: dict[Atom, Expr]) -> Expr:
    upper = loop.upper.substitute(greatest)
    extent = (upper - loop.lower.substitute(greatest)).ceildiv(loop.step.data)
    if loop.vector is not None:
        extent = extent.ceildiv(loop.vector.data)
    return extent * _block_cost(loop.body.block, greatest | {loop.index: upper})

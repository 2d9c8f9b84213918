"""Unroll and jam: how many vectors of a loop are computed interleaved, each operation for all of
them before the next.

A polynomial is a chain of dependent operations, with a constant each. Where registers are too few
for constants beside the vectors, they are loaded again for each vector; and the operations of one
vector fill the processor's queues before those of another can begin. In a loop over a multiple of a
vector's lanes each constant is loaded once for all of them.
"""

from __future__ import annotations

from xdsl.dialects import math

from weft.compiler.loop.nest import accesses_in
from weft.compiler.target.target import Target
from weft.dialects.loop.arithmetic import GeluOp
from weft.dialects.loop.ops import ForOp
from weft.dialects.loop.scalar import compute_type, width

POLYNOMIALS = (
    math.ExpOp,
    math.Exp2Op,
    math.ExpM1Op,
    math.LogOp,
    math.Log2Op,
    math.Log1pOp,
    math.TanhOp,
    math.ErfOp,
    GeluOp,
)
"""Functions of one long chain without a branch."""

LONG = 8
"""Jammed groups in a loop from which on the overhead of the loop counts, even where nothing else
gains.
"""

GROUP = 4
"""Interleaved vectors: their arguments, powers and sums fill the registers."""


def jam_factor(loop: ForOp, lanes: int, target: Target) -> int:
    """How many vectors of so many lanes the loop interleaves; a power of two."""
    if not target.has_few_registers or not target.has_fma:
        return 1
    if not any(isinstance(op, POLYNOMIALS) for op in loop.body.block.ops):
        return 1
    if not _is_of_one_width(loop):
        return 1
    (_, extent), group = loop.extent.range({}), GROUP
    while extent is not None and group > 1 and _is_wasteful(extent, group * lanes):
        group //= 2
    return group


def jam_factor_of_pass(loop: ForOp, lanes: int, target: Target) -> int:
    """The same for one of several passes over a row: long ones of few operations are jammed too."""
    long = (loop.extent.constant or 0) >= LONG * GROUP * lanes
    few = target.has_few_registers and target.has_fma
    return GROUP if long and few and _is_of_one_width(loop) else 1


def _is_of_one_width(loop: ForOp) -> bool:
    """Whether all that the loop accesses is computed with in numbers of one width."""
    accesses = accesses_in(loop)
    return len({width(compute_type(access.buffer_type.element)) for access in accesses}) == 1


def _is_wasteful(extent: int, lanes: int) -> bool:
    """Whether more than an eighth of the last vectors' lanes would be left empty."""
    return (-extent % lanes) * 8 > extent

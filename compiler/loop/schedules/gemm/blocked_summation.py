"""Blocked summation: long sums in registers as sums of the sums of blocks, since an addition loses
the more digits the larger the accumulator already is.

    for k:  acc += x[k] * y[k]   ->   for ko:  p = 0;  for ki:  p += x * y;  acc += p

The tile's own accumulators are in L1 while those of a block are in registers.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import NoneAttr
from xdsl.ir import SSAValue

from weft.compiler.loop.nest import most_iterations
from weft.compiler.loop.primitives import stage_accumulators, tile, tile_ragged
from weft.dialects.loop.ops import ForOp
from weft.dialects.loop.scalar import is_float
from weft.dialects.loop.types import buffer_type_of

FEW_EXECUTIONS = 2
"""So few executions of an inner loop in a block are one block each: a loop of so many terms was
split off for that.
"""


def block_long_sum(
    reductions: Sequence[ForOp], sums: SSAValue, most: int
) -> list[tuple[ForOp, ...]]:
    """Makes partial sums of about `most` terms each, where the nest of reductions, the outermost
    first, adds up more than that and is marked as a sum; returns the nests over a tile which
    initialise the partial sums and add them, none for a short sum or a tile of one.
    """
    combiner = reductions[0].reduction
    if combiner is None or combiner.data != "add" or not is_float(buffer_type_of(sums).element):
        return []
    terms = 1
    for loop in reversed(reductions):
        extent = most_iterations(loop)
        own = most // terms <= FEW_EXECUTIONS and extent != 1
        if extent is None or extent * terms > most or own:
            block = loop if own else block_of(loop, most // terms)
            layout = buffer_type_of(sums).layout
            staged = stage_accumulators(
                sums, block, layout=None if isinstance(layout, NoneAttr) else layout
            )
            return [nest for nest in (staged.load_in, staged.write_back) if nest]
        terms *= extent
    return []


def block_of(loop: ForOp, size: int) -> ForOp:
    """The loop over blocks of about that size: equal ones if some size from half of it on divides
    the extent, else of which the last may be shorter.
    """
    extent = loop.extent.constant
    if extent is None:
        return tile_ragged(loop, size).outer
    whole = [each for each in range(size, size // 2, -1) if extent % each == 0]
    if whole:
        return tile(loop, whole[0]).outer
    return tile_ragged(loop, -(-extent // -(-extent // size))).outer

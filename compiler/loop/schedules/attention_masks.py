"""Attention without what a mask forbids: the scores of a block of rows are computed up to the last
column that one of the rows may see, and the result is added up to the last one that counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import lcm

from xdsl.dialects.arith import SelectOp

from weft.compiler.loop.matchers import sum_of_products
from weft.compiler.loop.nest import (
    child_loops,
    combiner_of,
    indexed_dims,
    perfect_nest,
    stores_in,
)
from weft.compiler.loop.primitives import bound_loop, unroll, vectorize
from weft.compiler.loop.primitives.bounding import Search
from weft.compiler.loop.schedules.attention_products import tile_height
from weft.compiler.loop.schedules.innermost_loops import lanes_for
from weft.compiler.target.target import Target
from weft.dialects.errors import IllegalSchedule
from weft.dialects.loop.ops import ForOp

FEWEST = 4
"""Steps of a search from which on it costs less than it saves."""


def skip_masked(scores: ForOp, between: Sequence[ForOp], result: ForOp, target: Target) -> None:
    """Ends the loops of both products over columns where the rest is masked. Nothing is done where
    no select forbids scores, and in sums that keep their order, to which a zero times infinity
    matters.
    """
    size = lcm(target.lanes(4), tile_height(target))  # whole vectors, and whole tiles
    columns = perfect_nest(scores)[1]
    if (columns.extent.constant or FEWEST * size) < FEWEST * size:
        return
    search = _bound_scores(columns, between, scores, size)
    if search is None:
        return
    row, column = perfect_nest(result)[:2]
    k_loop = child_loops(column)[0]
    product = sum_of_products(k_loop)
    assert product is not None, "the last product of an attention is one"
    (powers,) = [load for load in product[:2] if indexed_dims(load, row)]
    searches = [search, bound_loop(k_loop, powers, result, size)]
    for lanes in (loop for each in searches for loop in each.lanes):
        if lanes.extent != 1:
            vectorize(lanes, lanes_for(lanes, target))
        unroll(lanes)


def _bound_scores(
    columns: ForOp, between: Sequence[ForOp], scores: ForOp, size: int
) -> Search | None:
    """Ends the loop over the columns of scores, if a select is all that reads them."""
    k_loop = child_loops(columns)[0]
    if combiner_of(k_loop) != "add":
        return None
    stored = {store.buffer for store in stores_in(columns)}
    for select in (op for nest in between for op in nest.walk() if isinstance(op, SelectOp)):
        users = [use.operation for buffer in stored for use in buffer.uses]
        if not any(user.parent is select.parent for user in users):
            continue
        try:
            return bound_loop(columns, select, scores, size)
        except IllegalSchedule:
            continue
    return None

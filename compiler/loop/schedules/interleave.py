"""Two loops as one that fills vectors, where results are contiguous along a short loop inside of a
long one: the vector's lanes are runs out of a few rows of the operand, shuffled together.

    for m < 22:  for n < 3:  y[m, n] = x[n, m]
    ->  for z < 48 vector(16) unroll:  y[z floordiv 3, z mod 3] = x[z mod 3, z floordiv 3];  ...

A tile holds whole vectors and whole turns of the short loop, so that all lanes are known.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import lcm

from weft.compiler.loop.matchers import is_straight_line
from weft.compiler.loop.nest import accesses_in, stores_in, subscripts
from weft.compiler.loop.primitives import collapse, reorder, tile, unroll, vectorize
from weft.compiler.loop.strides import stride
from weft.dialects.errors import IllegalSchedule
from weft.dialects.expr import Remainder
from weft.dialects.loop.ops import AccessOp, ForOp

VECTORS = 4
"""Vectors of a tile, where so many hold whole turns: enough independent work for the units."""


def interleave(nest: Sequence[ForOp], lanes: int) -> list[ForOp]:
    """Vectorises a nest along a pair of its loops, in whole vectors of so many lanes; returns the
    outermost loops of what it became, none, and does nothing, where it has no such pair.
    """
    pair = _pair(nest, lanes)
    if pair is None or not is_straight_line(nest[-1]):
        return []
    others = [loop for loop in nest if loop not in pair]
    try:
        reorder(*others, *pair)
    except IllegalSchedule:
        return []
    turn = lcm(lanes, pair[1].extent.constant or 1)
    joined = collapse(*pair)
    extent = joined.extent.constant
    if extent is not None and extent < turn:
        return [*others, unroll(vectorize(joined, lanes))][:1]
    turns = max(1, VECTORS * lanes // turn)
    size = turn if extent is not None and extent < turns * turn else turns * turn
    tiles = tile(joined, size)
    unroll(vectorize(tiles.inner, lanes))
    if tiles.remainder is None:
        return [*others, tiles.outer][:1]
    rest = vectorize(tiles.remainder, lanes)
    return others[:1] or [tiles.outer, rest]


def vectorize_turns(loop: ForOp, lanes: int) -> bool:
    """Vectorises a loop whose accesses go through a few rows in turn, `x[(i + c) mod n]`, in tiles
    of whole turns, so that all lanes are known; false, and does nothing, for another one.
    """
    counts = {
        atom.divisor.constant or 1
        for access in accesses_in(loop)
        for expr in subscripts(access)
        for monomial in expr.terms
        for atom in monomial
        if isinstance(atom, Remainder) and atom.dividend.coefficient(loop.index) == 1
    }
    turn = lcm(lanes, *(count for count in counts if count < lanes))
    if turn == lanes or (loop.extent.constant or turn) < turn:
        return False
    tiles = tile(loop, turn)
    unroll(vectorize(tiles.inner, lanes))
    if tiles.remainder is not None:
        rest = vectorize(tiles.remainder, lanes)
        if rest.extent.constant is not None:
            unroll(rest)
    return True


def _pair(nest: Sequence[ForOp], lanes: int) -> tuple[ForOp, ForOp] | None:
    """A long loop and a short one, along both of which all results are contiguous."""
    stores = stores_in(nest[-1])
    for inner in nest:
        count = inner.extent.constant or 0
        if not 1 < count < lanes or any(stride(each, inner) != 1 for each in stores):
            continue
        for outer in nest:
            if (
                outer is not inner
                and all(stride(each, outer) == count for each in stores)
                and (outer.extent.constant or lanes) * count >= lanes
                and all(_is_in_runs(each, outer, inner, lanes) for each in accesses_in(nest[-1]))
            ):
                return outer, inner
    return None


def _is_in_runs(access: AccessOp, outer: ForOp, inner: ForOp, lanes: int) -> bool:
    """Whether lanes are of runs along the long loop: of one for all, of one for each iteration of
    the short loop, each of a few lanes, or contiguous through both.
    """
    over, along = stride(access, outer), stride(access, inner)
    if over is None or along is None:
        return False
    in_rows = over == 1 and 2 * (inner.extent.constant or lanes) < lanes
    same = over == 0 and along in (0, 1)
    return in_rows or (over == 1 and along == 0) or same or over == along * inner.extent

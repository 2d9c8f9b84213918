"""Primitives that change how a loop counts, not its order: tile, tile_ragged, split_at, normalize,
collapse.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from xdsl.dialects.builtin import UnitAttr
from xdsl.rewriter import InsertPoint, Rewriter

from weft.compiler.loop.nest import (
    bounds_of,
    describe,
    most_iterations,
    move_ops,
    new_loop,
    only_loop,
    ranges_of,
    replace_index,
)
from weft.compiler.loop.primitives.recording import primitive
from weft.dialects.errors import IllegalSchedule
from weft.dialects.expr import Atom, Expr, minimum
from weft.dialects.interval import Range
from weft.dialects.loop.ops import ForOp, enclosing_loops
from weft.dialects.loop.program import size_ranges


class Tiles(NamedTuple):
    """The loop over whole tiles, the one inside a tile, and the remainder."""

    outer: ForOp
    inner: ForOp
    remainder: ForOp | None


@primitive
def tile(loop: ForOp, size: int, *, names: Sequence[str] | None = None) -> Tiles:
    """Splits a loop into tiles of `size` iterations and an exact remainder.

        for i < 100:  S(i)
        ->  for io < 16:  for ii < 6:  S(6*io + ii)
            for ir < 4:   S(96 + ir)

    A symbolic extent n gives n floordiv 6 tiles and a remainder of n mod 6. There is no remainder
    where the size divides the extent. Raises IllegalSchedule for a loop shorter than a tile, and
    for one that has marks already.
    """
    require_unmarked("tile", loop)
    if size < 1:
        raise IllegalSchedule(f"tile requires a size of at least 1, got {size}")
    tiles, rest = loop.extent // size, loop.extent % size
    if tiles == 0:
        got = f"{describe(loop)} with {loop.extent}"
        raise IllegalSchedule(f"tile requires at least {size} iterations, got {got}")
    base = loop.index.name_hint or "i"
    outer_name, inner_name, *more = names or (f"{base}o", f"{base}i")
    remainder = None
    if rest != 0:
        names = (base, *(more or (f"{base}r",)))
        loop, remainder = _split(loop, tiles * size, rest, names)
    outer, inner = new_loop(tiles, outer_name, loop), new_loop(size, inner_name, loop)
    position = Expr.atom(outer.index) * size + Expr.atom(inner.index)
    outer.body.block.add_op(inner)
    _take_over(loop, outer, inner, position)
    return Tiles(outer, inner, remainder)


@primitive
def tile_ragged(loop: ForOp, size: int, *, names: Sequence[str] | None = None) -> Tiles:
    """Splits a loop into tiles of at most `size` iterations, of which the last may be shorter.

        for i < n:  S(i)
        ->  for io < n ceildiv 8:  for ii < min(8, n - 8*io):  S(8*io + ii)

    One copy of the body, whatever the extent; `tile` makes two. Raises IllegalSchedule for a loop
    that has marks already.
    """
    require_unmarked("tile_ragged", loop)
    if size < 1:
        raise IllegalSchedule(f"tile_ragged requires a size of at least 1, got {size}")
    base = loop.index.name_hint or "i"
    outer_name, inner_name = names or (f"{base}o", f"{base}i")
    outer = new_loop(loop.extent.ceildiv(size), outer_name, loop)
    left = loop.extent - Expr.atom(outer.index) * size if size > 1 else Expr.of(1)
    ranges = ranges_of(bounds_of([*enclosing_loops(loop), outer]), size_ranges(loop))
    inner = new_loop(minimum([Expr.of(size), left]).simplify(ranges), inner_name, loop)
    outer.body.block.add_op(inner)
    _take_over(loop, outer, inner, Expr.atom(outer.index) * size + Expr.atom(inner.index))
    return Tiles(outer, inner, None)


@primitive
def split_at(
    loop: ForOp, point: Expr | int, *, names: Sequence[str] | None = None
) -> tuple[ForOp, ForOp]:
    """Splits a loop into its first `point` iterations and the others, which follow it.

        for i < n:  S(i)   ->   for i < p:  S(i)
                                for ir < n - p:  S(p + ir)

    Raises IllegalSchedule where the point may lie outside of the loop.
    """
    require_unmarked("split_at", loop)
    count, ranges = Expr.of(point), size_ranges(loop)
    left = loop.extent - count
    if not _is_size(count, ranges) or not _is_size(left, ranges):
        got = f"{count} of {loop.extent}"
        raise IllegalSchedule(f"split_at requires a point within the loop, got {got}")
    base = loop.index.name_hint or "i"
    return _split(loop, count, left, names or (base, f"{base}r"))


def _split(loop: ForOp, count: Expr, left: Expr, names: Sequence[str]) -> tuple[ForOp, ForOp]:
    clone = loop.clone()
    Rewriter.insert_op(clone, InsertPoint.after(loop))
    first, second = new_loop(count, names[0], loop), new_loop(left, names[1], loop)
    _take_over(loop, first, first, Expr.atom(first.index))
    _take_over(clone, second, second, count + Expr.atom(second.index))
    return first, second


@primitive
def normalize_loop(loop: ForOp) -> ForOp:
    """Makes a loop count from zero in steps of one.

    for i = 4 to 20 step 8:  S(i)   ->   for i < 2:  S(4 + 8*i)
    """
    if loop.lower == 0 and loop.step.data == 1:
        return loop
    require_unmarked("normalize_loop", loop)
    counter = new_loop(loop.extent, loop.index.name_hint or "i", loop)
    _take_over(loop, counter, counter, Expr.atom(counter.index))
    return counter


@primitive
def collapse(outer: ForOp, inner: ForOp, *, named: str | None = None) -> ForOp:
    """Makes one loop of two that are perfectly nested and rectangular.

        for i < m:  for j < 8:  X[i, j]   ->   for ij < 8*m:  X[ij floordiv 8, ij mod 8]

    In a row-major buffer that is the address ij again. A mark of reduction stays where both have it
    or the loop without it has one iteration; that both run in parallel stays too. Raises
    IllegalSchedule where anything stands between the loops, or the inner one's bounds depend on the
    outer index.
    """
    parallel = outer.parallel is not None and inner.parallel is not None
    for loop in (outer, inner):
        require_unmarked("collapse", loop, parallel=parallel)
    if only_loop(outer.body.block) is not inner:
        got = f"{describe(outer)} and {describe(inner)}"
        raise IllegalSchedule(f"collapse requires perfectly nested loops, got {got}")
    if outer.index in inner.operands_:
        raise IllegalSchedule(f"collapse requires rectangular loops, got {describe(inner)}")
    if most_iterations(inner) == 0:
        raise IllegalSchedule(f"collapse requires a loop that may run, got {describe(inner)}")
    outer, inner = normalize_loop(outer), normalize_loop(inner)
    names = (outer.index.name_hint or "i") + (inner.index.name_hint or "j")
    width = inner.extent
    merged = new_loop(outer.extent * width, named or names, inner if outer.extent == 1 else outer)
    if outer.reduction != inner.reduction and 1 not in (outer.extent, width):
        merged.properties.pop("reduction", None)
    if parallel:
        merged.properties["parallel"] = UnitAttr()
    Rewriter.insert_op(merged, InsertPoint.before(outer))
    move_ops(list(inner.body.block.ops), merged.body.block)
    position = Expr.atom(merged.index)
    replace_index(outer.index, position // width)
    replace_index(inner.index, position % width)
    Rewriter.erase_op(outer)
    return merged


def require_unmarked(who: str, loop: ForOp, *, parallel: bool = False) -> None:
    """Refuses to restructure a loop that already says how its iterations run; marks come last. That
    they may do so in `parallel` is no reason where the caller keeps it.
    """
    kept = ("reduction", "parallel") if parallel else "reduction"
    hints = [mark for mark in loop.hints() if not mark.startswith(kept)]
    if hints:
        raise IllegalSchedule(f"{who} requires a loop without marks, got {describe(loop)} {hints}")


def _is_size(count: Expr, ranges: Mapping[Atom, Range]) -> bool:
    """Whether a number of iterations is never negative, as a remainder is not."""
    low, _ = count.range(ranges)
    return low is not None and low >= 0


def _take_over(old: ForOp, head: ForOp, innermost: ForOp, count: Expr) -> None:
    """Replaces a loop by a nest, whose innermost runs the body at iteration `count`."""
    index = old.lower + count * old.step.data
    Rewriter.insert_op(head, InsertPoint.before(old))
    move_ops(list(old.body.block.ops), innermost.body.block)
    replace_index(old.index, index)
    Rewriter.erase_op(old)

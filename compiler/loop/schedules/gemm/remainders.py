"""Main loops of whole tiles, and remainders, of the loops over columns and rows of a reduction."""

from __future__ import annotations

from collections.abc import Sequence

from weft.compiler.loop.nest import perfect_nest
from weft.compiler.loop.primitives import reorder, split_at
from weft.dialects.loop.ops import ForOp


def split_columns(chain: Sequence[ForOp], size: int) -> list[list[ForOp]]:
    """The nest as a main loop of whole tiles of its outermost loop, and a remainder."""
    loop = chain[0]
    whole = loop.extent // size * size
    if whole == loop.extent or whole == 0:
        return [list(chain)]
    return [perfect_nest(part)[: len(chain)] for part in split_at(loop, whole)]


def split_blocks(chain: Sequence[ForOp], n: int, size: int) -> list[list[ForOp]]:
    """The nest as a main one of whole blocks of its loop `n`, and what is left."""
    parts = split_columns(reorder(chain[n], *chain[:n], *chain[n + 1 :]), size)
    return [list(reorder(*part[1 : n + 1], part[0], *part[n + 1 :])) for part in parts]


def split_rows(chain: Sequence[ForOp], most: int) -> list[list[ForOp]]:
    """The nest split at the rows, the last loop but one, which become the outermost for that and go
    back: tiles of `most` rows and a remainder, where possible of tiles of one row less. The
    remainder of a dynamic number of rows has ever smaller tiles.
    """
    if is_whole(chain[-2], most):
        return [list(chain)]
    parts = [list(reorder(chain[-2], *chain[:-2], chain[-1]))]
    extent = chain[-2].extent.constant
    if extent is not None and (taller := _taller_tiles(extent, most)):
        halves = split_at(parts[0][0], taller * most)
        parts = [perfect_nest(half)[: len(chain)] for half in halves]
    for size in () if len(parts) > 1 else _tile_sizes(most):
        if not is_whole(parts[-1][0], size):
            parts += split_columns(parts.pop(), size)
        if parts[-1][0].extent.constant is not None:
            break
    return [list(reorder(*part[1:-1], part[0], part[-1])) for part in parts]


def rows_of_tile(rows: ForOp, most: int) -> int:
    """How many rows a tile has of those that one part of a nest goes through."""
    extent = rows.extent.constant
    if extent is None:
        return next(size for size in _tile_sizes(most) if is_whole(rows, size))
    shorter = extent > most and extent % most != 0 and extent % (most - 1) == 0
    return most - 1 if shorter else min(extent, most)


def tile_heights(rows: int, most: int) -> list[tuple[float, int]]:
    """How many tiles a constant number of rows has of each height, as `split_rows` makes them."""
    whole, left = divmod(rows, most)
    if taller := _taller_tiles(rows, most):
        return [(taller, most), ((rows - taller * most) // (most - 1), most - 1)]
    return [(count, size) for count, size in ((whole, most), (1, left)) if count and size]


def expected_heights(rows: int, most: int) -> list[tuple[float, int]]:
    """The same of about so many rows, whose number only a call knows: any remainder is as likely as
    any other.
    """
    sizes = _tile_sizes(most)
    counts = dict.fromkeys(sizes, 0)
    apart = min(rows - 1, most // 2)
    numbers = range(rows - apart, rows + apart + 1)
    for left in numbers:
        for size in sizes:
            count, left = divmod(left, size)
            counts[size] += count
    return [(count / len(numbers), size) for size, count in counts.items() if count]


def is_whole(loop: ForOp, size: int) -> bool:
    """Whether tiles of a size leave no remainder of a loop."""
    return loop.extent % size == 0


def _taller_tiles(rows: int, most: int) -> int:
    """How many tiles of a constant number of rows have `most` of them where all others have one
    less; 0 where no such two sizes make up the rows, or no short remainder is left that would keep
    the units waiting.
    """
    tiles = -(-rows // most)
    taller = rows - tiles * (most - 1)
    few = 0 < rows % most <= most // 2
    return taller if few and 0 < taller < tiles else 0


def _tile_sizes(rows: int) -> list[int]:
    """Rows of a whole tile and of the smaller ones for the remainder, at most two of them; each is
    code of its own. Two tiles of few rows take longer than one: neither keeps the units busy.
    """
    return sorted({rows, max(1, rows // 2), *range(1, min(3, rows) + 1)}, reverse=True)

"""The size of a register tile, mr rows by vectors of nr columns: the default, and which others may
be tried.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from weft.compiler.loop.primitives.matrix import REGISTERS_ACROSS, TILE_ROWS
from weft.compiler.loop.schedules.gemm.plan import LONGEST_SUM
from weft.compiler.loop.schedules.gemm.problem import Problem
from weft.compiler.target.target import PAGE, Target

MOST_LOADS = 0.75
"""Loads for each multiply-add that do not hold it up."""

MOST_VECTORS = 4
"""Vectors of a row of a tile."""

MOST_ROWS = 14
"""Rows of a tile: more are more streams than are fetched ahead."""

LONGEST_UNROLL = 8
"""Iterations of an innermost reduction that is unrolled."""

EARLY_OPERANDS = 8
"""Registers that LLVM loads operands into early where a few terms of a sum are unrolled: beside as
many accumulators as fit it would have to spill some.
"""

EARLY_FACTORS = 3
"""More of them that it does so beside a product, whose terms each have two operands."""

LEAST_GAIN = 0.95
"""The share of the cycles of a tile of two vectors below which a wider one is taken."""


class Params(Struct, frozen=True):
    """The register tile: rows, and vectors a row. `stack_bytes` is the largest panel that is packed
    on the stack; so many rows as `copy_rows` pay for packing all of an operand. A sum of more terms
    than `sum_block` is summed in blocks of so many.
    """

    rows: int
    vectors: int
    stack_bytes: int = 128 * 1024
    copy_rows: int = 512
    sum_block: int = LONGEST_SUM

    @property
    def panel_rows(self) -> int:
        """So many rows pay for packing a panel at a time, which then stays in L2."""
        return self.copy_rows // 4


def unrolls_terms(problem: Problem, target: Target) -> bool:
    """Whether the last loop of a sum is to be unrolled, as over the taps of a window: to leave it
    after a few iterations takes a third of their time. Few registers hold too small a tile then.
    """
    last = problem.extents[-1].constant or 1
    return 1 < last <= LONGEST_UNROLL and not target.has_few_registers


def leaves_room(accumulators: int, target: Target) -> bool:
    """Whether a few terms may be unrolled beside so many vectors of accumulators."""
    return accumulators <= target.vector_registers - EARLY_OPERANDS


def default_params(
    target: Target, rows: int | None, columns: int | None, lanes: int, *, unrolled: bool = False
) -> Params:
    """The largest tile that fits the registers and divides the rows:
    `rows*vectors + vectors` values and some factors live, or the operands of terms that are to be
    `unrolled`. Of few rows it has as many vectors as keep the units busy.
    """
    vectors = 2 if columns is None or columns > lanes else 1
    most = _most_rows(target, vectors, unrolled)
    if rows is None:
        return Params(min(most, 8), vectors)
    if rows == 1:
        wide = 8 if columns is None else max(1, min(8, -(-columns // lanes)))
        return Params(1, wide)
    widest = vectors if columns is None else min(MOST_VECTORS, -(-columns // lanes))
    tiles = [
        Params(_even(rows, _most_rows(target, count, unrolled), _least_rows(target, count)), count)
        for count in range(vectors, max(vectors, widest) + 1)
    ]
    best = min(tiles, key=lambda tile: _cycles(tile, target, rows, columns, lanes))
    cycles, own = (_cycles(tile, target, rows, columns, lanes) for tile in (best, tiles[0]))
    return best if cycles < LEAST_GAIN * own else tiles[0]


def _cycles(tile: Params, target: Target, rows: int, columns: int | None, lanes: int) -> float:
    """The cycles that all tiles take for one term of their sums, where L1 has all that they load:
    until the units are through with the multiply-adds, the loads are done, or the accumulators of
    the term before are there, and one cycle more for what else is late.
    """

    def one(rows: int, vectors: int) -> float:
        work = rows * vectors / target.fma_ports
        loads = (rows + vectors) / (MOST_LOADS * target.fma_ports)
        return max(work, loads, target.fma_latency + 1) if rows and vectors else 0.0

    across = tile.vectors if columns is None else -(-columns // lanes)
    whole, left = divmod(across, tile.vectors)
    full, short = divmod(rows, tile.rows)
    return sum(
        count * times * one(height, width)
        for count, height in ((full, tile.rows), (1, short))
        for times, width in ((whole, tile.vectors), (1, left))
    )


def wide_params(
    target: Target, rows: int | None, columns: int | None, lanes: int, *, unrolled: bool = False
) -> Params:
    """A tile of twice as many vectors and fewer rows, where it loads less for each multiply-add and
    keeps the units busy: rows are read for twice as many columns, and fewer of them at a time. Of
    many rows it is the largest there is, if L1 has room for more lines a page apart.
    """
    default = default_params(target, rows, columns, lanes, unrolled=unrolled)
    vectors = 2 * default.vectors
    most = _most_rows(target, vectors, unrolled)
    if rows is None or (rows >= default.copy_rows and 2 * most * PAGE <= target.l1_bytes):
        wide = Params(most, vectors)
    else:  # tiles shorter than two thirds of the tallest read panels faster than L2 delivers them
        wide = Params(_even(rows, most, -(-2 * most // 3)), vectors)
    fits = wide.rows > 1 and wide.rows * vectors >= target.fma_latency * target.fma_ports
    return wide if fits and _loads(wide) < _loads(default) else default


def matrix_params(rows: int | None, columns: int | None, lanes: int) -> Params:
    """The tile of registers that hold tiles of matrices: two by two of sums, which load each factor
    twice for four products.
    """
    most = TILE_ROWS * REGISTERS_ACROSS
    vectors = REGISTERS_ACROSS if columns is None or columns > lanes else 1
    return Params(most if rows is None else _even(rows, most), vectors)


def narrow_params(target: Target, rows: int | None, columns: int | None, lanes: int) -> Params:
    """One vector a row, and rows that leave half of the registers to what they load."""
    most = target.vector_registers // 2
    return Params(min(most, 8) if rows is None else _even(rows, most), 1)


def tiles(
    target: Target, rows: int | None, columns: int | None, lanes: int, *, unrolled: bool = False
) -> Iterator[Params]:
    """The tiles that fit the registers and keep the units busy, or have all rows."""
    busy = target.fma_latency * target.fma_ports
    widest = MOST_VECTORS if columns is None else min(MOST_VECTORS, -(-columns // lanes))
    for vectors in range(1, widest + 1):
        most = min(_most_rows(target, vectors, unrolled), MOST_ROWS, rows or MOST_ROWS)
        for height in range(1, most + 1):
            if height * vectors >= busy or height == most:
                yield Params(height, vectors)


def _loads(tile: Params) -> float:
    """Loads for each multiply-add."""
    return (tile.vectors + tile.rows) / (tile.vectors * tile.rows)


def _most_rows(target: Target, vectors: int, unrolled: bool = False) -> int:
    """Rows of accumulators that fit the registers beside a row of vectors and factors, or beside
    what terms that are unrolled load early.
    """
    beside = EARLY_OPERANDS + EARLY_FACTORS if unrolled else vectors + target.factor_registers
    return max(1, (target.vector_registers - beside) // vectors)


def _least_rows(target: Target, vectors: int) -> int:
    """Rows whose accumulators keep the units busy with some to spare: of just as many as
    multiply-adds are under way, each waits for the one before it whenever anything else is late.
    """
    return 1 + target.fma_latency * target.fma_ports // vectors


def _even(rows: int, most: int, least: int = 1) -> int:
    """The largest tile that divides the rows, if that is at least half of the most, and has at
    least so many where there are; else tiles of about one size.
    """
    best = max(size for size in range(1, min(most, rows) + 1) if rows % size == 0)
    enough = best >= min(least, most, rows) and 2 * best >= min(most, rows)
    return best if enough else -(-rows // -(-rows // most))

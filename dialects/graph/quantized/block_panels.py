"""The loops of `graph.block_quantized_matmul` for many rows: a panel of unpacked weights stays in
a cache for a block of rows, as floats, or as words of two bf16 of which registers that hold tiles
of matrices read 16 rows at once. A float is the sum of three numbers of bf16, of which the products
that matter are multiplied each.

    for blocks of rows:  for tiles of columns:  for c:
        for words:  for lanes:  panel[.., lane] = unpack(codes[tile, word, lane])
        total[row, lane] += x[row, ..] * panel[.., lane]

Of words the next panel is unpacked behind the products of tiles of rows with this one, by shares.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from msgspec import Struct
from xdsl.ir import Attribute, SSAValue

from weft.dialects.expr import Expr, minimum
from weft.dialects.graph.core.types import F32, I32
from weft.dialects.graph.quantized.block_loops import LANES, BlockWeights
from weft.dialects.loop.builder import LoopBuilder
from weft.dialects.loop.scalar import Scalar

Columns = tuple[Expr, int]
"""The number of a tile of columns, and how many it has."""


class Panel(NamedTuple):
    """A buffer of panels, and which of them it is."""

    buffer: SSAValue
    copy: Expr


COPIES = 2
"""Of a panel of words: one is unpacked while the products of the other are computed."""

MANY_ROWS = 256
"""More share a panel for so long that L1 needs no room for what is unpacked of the next one."""

FEWEST_WORD_ROWS = 16
"""From which on rows are multiplied as words: those of one register."""

TILE_ROWS = 32
"""Rows of a tile of words, those of two registers; rows come in blocks of whole tiles."""

WORD_TERMS = 2

BF16_BITS = 16

FLOAT_PARTS = 3
"""Numbers of bf16 whose sum is any f32."""

FEWEST_PART_ROWS = 64
"""From which on their products are quicker than those of floats."""

NO_SIGN = 0x7FFFFFFF

PARTS_RANGE = (2.0**-40, 2.0**60)
"""Sizes of a row's greatest number, or of a weight's scale, whose parts are normal numbers where
they matter, and whose products are finite.
"""

ROW_WORDS = 16
"""Words of a row of a register, at most."""

PANEL_DEPTH = 256
"""Terms of a panel at most, but for a longer block: as floats they fill most of L1."""

WORD_DEPTH = 512
"""The same of words of one part: of fewer, sums are loaded and stored for as long as the products
of a tile take; of more, L1 does not keep the panel while tiles of rows pass.
"""

KEPT_BYTES = 1 << 20
"""Of rows that are multiplied with each panel: L2 keeps them while panels are unpacked."""

KEPT_WORD_BYTES = 1600 << 10
"""The same of words: processors that multiply tiles of these have 2 MB of L2."""

MOST_ROWS = 512
"""Of a block of them, whose sums are on the stack."""


class PanelProduct(Struct, frozen=True):
    """The product of rows with weights in blocks."""

    b: LoopBuilder
    x: SSAValue
    weights: BlockWeights
    y: SSAValue
    rows: Expr
    depth: Expr

    def emit(self) -> None:
        """Writes the loops."""
        b, most, x = self.b, self._rows_of_block(), self._prepared_rows()
        whole, left = self.rows // most, self.rows % most
        if whole == 1:
            self._multiply_block(x, Expr.of(0), Expr.of(most))
        elif whole != 0:
            with b.loops([whole], "r") as (block,):
                self._multiply_block(x, block * most, Expr.of(most))
        if left != 0:
            self._multiply_block(x, whole * most, left)

    @property
    @abstractmethod
    def _sum_type(self) -> Attribute:
        """The type of the sums."""

    @abstractmethod
    def _prepared_rows(self) -> SSAValue:
        """The rows as they are multiplied."""

    @abstractmethod
    def _panel(self, tile: Expr, c: Expr) -> Panel:
        """The weights of the `c`-th panel of a tile of columns."""

    @abstractmethod
    def _multiply(
        self,
        total: SSAValue,
        x: SSAValue,
        panel: Panel,
        position: tuple[Expr, Expr, Expr],
        columns: Columns | None = None,
    ) -> None:
        """Adds the products with the `c`-th panel of so many rows from the `first` on, which
        `position` says as `(first, rows, c)`; with the last one, whose `columns` are given, sums
        are stored.
        """

    def _store_rows(
        self, total: SSAValue, first: Expr, of: Expr, rows: Expr, columns: Columns
    ) -> None:
        """Stores so many rows of sums, `of` the given one on, in a block whose `first` is given."""
        b, (tile, width) = self.b, columns
        with b.loops([rows, width], "il") as (row, lane):
            value = b.load(total, [of + row, lane]).cast(self.weights.element)
            b.store(self.y, [first + of + row, tile * LANES + lane], value)

    def _multiply_block(self, x: SSAValue, first: Expr, rows: Expr) -> None:
        """The rows from the `first` on, no more than those of a block."""
        b, w, most = self.b, self.weights, self._rows_of_block()
        room = -(-min(most, rows.constant or most) // TILE_ROWS) * TILE_ROWS
        for count, width in w.tiles():
            with b.loops([count], "t") as (number,):
                tile = number + w.first_tile(width)
                total = b.scratch([room, LANES], self._sum_type, "total")
                zero = b.constant(0, self._sum_type)
                with b.loops([rows.ceildiv(TILE_ROWS) * TILE_ROWS, LANES], "il") as index:
                    b.store(total, index, zero)
                self._multiply_panels(total, x, (first, rows), (tile, width))

    def _multiply_panels(
        self, total: SSAValue, x: SSAValue, block: tuple[Expr, Expr], columns: Columns
    ) -> None:
        """Adds the products of a block of rows, `(first, rows)`, with the panels of a tile of
        columns, and stores the sums.
        """
        last = self.depth // self._panel_depth() - 1
        if last != 0:
            with self.b.loops([last], "c") as (c,):
                self._multiply(total, x, self._panel(columns[0], c), (*block, c))
        self._multiply(total, x, self._panel(columns[0], last), (*block, last), columns)

    def _unpacked(self, tile: Expr, c: Expr) -> Iterator[tuple[list[Expr], Expr]]:
        """Loops over the words of the `c`-th panel and their columns: the column's position in the
        weights, with the word's number, and its first term.
        """
        w = self.weights
        blocks = self._panel_depth() // w.block
        with self.b.loops([blocks, w.block_words, LANES], "dgl") as (number, g, lane):
            start = (number * w.block_words + g) * w.word_codes
            yield [tile, c * blocks + number, lane, g], start

    def _panel_depth(self) -> int:
        """The terms of a panel: as many blocks as divide them all."""
        block = self.weights.block
        blocks, most = (self.depth // block).constant or 1, max(1, self._most_depth() // block)
        return block * next(n for n in range(most, 0, -1) if blocks % n == 0)

    def _most_depth(self) -> int:
        """The terms of a panel at most, but for a longer block."""
        return PANEL_DEPTH

    @abstractmethod
    def _kept_rows(self, depth: int) -> int:
        """Rows that are kept as they are multiplied."""

    def _rows_of_block(self) -> int:
        """As many as L2 keeps, in whole tiles."""
        kept = self._kept_rows(self.depth.constant or PANEL_DEPTH)
        return max(TILE_ROWS, min(MOST_ROWS, kept) // TILE_ROWS * TILE_ROWS)


class FloatProduct(PanelProduct, frozen=True):
    """The product of floats."""

    @property
    def _sum_type(self) -> Attribute:
        return self.weights.element

    def _prepared_rows(self) -> SSAValue:
        return self.x

    def _kept_rows(self, depth: int) -> int:
        return KEPT_BYTES // (depth * (4 if self.weights.element == F32 else 8))

    def _panel(self, tile: Expr, c: Expr) -> Panel:
        b, w = self.b, self.weights
        panel = b.scratch([self._panel_depth(), LANES], w.element, "panel")
        for (*at, g), start in self._unpacked(tile, c):
            for n, weight in enumerate(w.weights((at[0], at[1], at[2]), g)):
                b.store(panel, [start + n, at[2]], weight)
        return Panel(panel, Expr.of(0))

    def _multiply(
        self,
        total: SSAValue,
        x: SSAValue,
        panel: Panel,
        position: tuple[Expr, Expr, Expr],
        columns: Columns | None = None,
    ) -> None:
        b, (first, rows, c), depth = self.b, position, self._panel_depth()
        with (
            b.loops([rows, LANES], "ml") as (row, lane),
            b.reduce([depth], "add", "k") as (k,),
        ):
            term = b.load(x, [first + row, c * depth + k]) * b.load(panel.buffer, [k, lane])
            b.store(total, [row, lane], b.load(total, [row, lane]) + term)
        if columns is not None:
            self._store_rows(total, first, Expr.of(0), rows, columns)


class WordProduct(PanelProduct, frozen=True):
    """The product of rows and weights in f32, of which each is the sum of so many numbers of bf16,
    its parts: what one leaves of it is rounded to the next. One is the number rounded to bf16.
    """

    row_parts: int = 1
    weight_parts: int = 1

    @property
    def _sum_type(self) -> Attribute:
        return F32

    @property
    def _steps(self) -> int:
        """Products of a row's part with a weight's that matter, which are those of a float's parts
        whose places add up to two at most.
        """
        return 1 if self.row_parts == 1 else 3 + self.weight_parts

    def _parts_of(self, step: Expr) -> tuple[Expr, Expr]:
        """The parts of a row, the last first, and of a weight that a step multiplies: each has one
        of them in common with the step before, and none of a row's is left twice.
        """
        row = minimum([(step + 1) // 2, self.row_parts - 1])
        return row, step // 2 % 2 + step // 5 * 2

    def _prepared_rows(self) -> SSAValue:
        """Words in the order of the registers: `[tile, group of words, part, row, word]`, the last
        part first. Tiles are filled up with the last row, of which no result is read.
        """
        b, size, parts = self.b, self._row_words(), self.row_parts
        groups = self.depth // (WORD_TERMS * size)
        shape = [self.rows.ceildiv(TILE_ROWS), groups, TILE_ROWS, size]
        words = b.temporary([*shape[:2], parts, *shape[2:]], I32, "words")
        with b.loops(shape, "mgiw") as (m, g, row, word):
            position = minimum([m * TILE_ROWS + row, self.rows - 1])
            k = (g * size + word) * WORD_TERMS
            pair = [b.load(self.x, [position, k + n]).cast(F32) for n in range(WORD_TERMS)]
            for part, value in enumerate(_words(pair, parts)):
                b.store(words, [m, g, parts - 1 - part, row, word], value)
        return words

    def _most_depth(self) -> int:
        if self.row_parts > 1:
            return PANEL_DEPTH // self.weight_parts
        few = self.rows.constant is not None and self.rows.constant <= MANY_ROWS
        return WORD_DEPTH // COPIES if few else WORD_DEPTH

    def _kept_rows(self, depth: int) -> int:
        row_bytes = depth * 4 * self.row_parts // WORD_TERMS
        # Results of an unknown size go through the caches, and take the place of sums.
        fewer = 1 if self.rows.constant is not None else 2
        return min(MOST_ROWS // max(fewer, self.row_parts), KEPT_WORD_BYTES // row_bytes)

    def _panels(self, copies: int) -> SSAValue:
        """Memory of so many panels."""
        shape = [copies, self.weight_parts, self._panel_depth() // WORD_TERMS, LANES]
        return self.b.scratch(shape, I32, "panel")

    def _panel(self, tile: Expr, c: Expr) -> Panel:
        panel = Panel(self._panels(1), Expr.of(0))
        for at, start in self._unpacked(tile, c):
            self._unpack_word(panel, at, start)
        return panel

    def _multiply_panels(
        self, total: SSAValue, x: SSAValue, block: tuple[Expr, Expr], columns: Columns
    ) -> None:
        """A known number of rows has a share of the next panel's words behind the products of each
        tile of rows, among which they are unpacked.
        """
        b, last = self.b, self.depth // self._panel_depth() - 1
        tiles = block[1].ceildiv(TILE_ROWS).constant
        if tiles is None or last == 0:
            super()._multiply_panels(total, x, block, columns)
            return
        panels = self._panels(COPIES)
        for at, start in self._unpacked(columns[0], Expr.of(0)):
            self._unpack_word(Panel(panels, Expr.of(0)), at, start)
        with b.loops([last], "c") as (c,):
            now, following = (Panel(panels, each % COPIES) for each in (c, c + 1))
            with b.loops([tiles], "m") as (m,):
                self._multiply_tile(total, x, now, (*block, c), m)
                self._unpack_share(following, columns[0], c + 1, (m, tiles))
        self._multiply(total, x, Panel(panels, last % COPIES), (*block, last), columns)

    def _unpack_share(self, panel: Panel, tile: Expr, c: Expr, share: tuple[Expr, int]) -> None:
        """Unpacks one of so many shares of the `c`-th panel's words."""
        w, depth, (number, shares) = self.weights, self._panel_depth(), share
        words = depth // w.word_codes
        size = -(-words // shares)
        with self.b.loops([size, LANES], "gl") as (g, lane):
            word = number * size + g
            if size * shares != words:
                word = minimum([word, words - 1])
            block = c * (depth // w.block) + word // w.block_words
            at = [tile, block, lane, word % w.block_words]
            self._unpack_word(panel, at, word * w.word_codes)

    def _unpack_word(self, panel: Panel, at: Sequence[Expr], start: Expr) -> None:
        """Unpacks a word of `(tile, block, column, word)`, whose first term is given."""
        tile, block, lane, g = at
        weights = [each.cast(F32) for each in self.weights.weights((tile, block, lane), g)]
        for n in range(0, len(weights), WORD_TERMS):
            place = (start + n) // WORD_TERMS
            for part, value in enumerate(_words(weights[n : n + WORD_TERMS], self.weight_parts)):
                self.b.store(panel.buffer, [panel.copy, part, place, lane], value)

    def _multiply(
        self,
        total: SSAValue,
        x: SSAValue,
        panel: Panel,
        position: tuple[Expr, Expr, Expr],
        columns: Columns | None = None,
    ) -> None:
        b, (first, rows, _) = self.b, position
        if columns is None:
            with b.loops([rows.ceildiv(TILE_ROWS)], "m") as (m,):
                self._multiply_tile(total, x, panel, position, m)
            return
        whole, left = rows // TILE_ROWS, rows % TILE_ROWS
        parts = (Expr.of(0), whole, Expr.of(TILE_ROWS)), (whole, minimum([left, 1]), left)
        for start, count, height in parts:
            if count != 0:
                with b.loops([count], "m") as (m,):
                    self._multiply_tile(total, x, panel, position, start + m)
                    of = (start + m) * TILE_ROWS
                    self._store_rows(total, first, of, height, columns)

    def _multiply_tile(
        self,
        total: SSAValue,
        x: SSAValue,
        panel: Panel,
        position: tuple[Expr, Expr, Expr],
        m: Expr,
    ) -> None:
        """Adds the products of the `m`-th tile of rows."""
        b, (first, _, c), size = self.b, position, self._row_words()
        groups = self._panel_depth() // WORD_TERMS // size
        with (
            b.reduce([groups, self._steps], "add", "gs") as (g, step),
            b.loops([TILE_ROWS, LANES], "il") as (row, lane),
            b.reduce([size], "add", "w") as (word,),
        ):
            of_row, of_weight = self._parts_of(step)
            place = [first // TILE_ROWS + m, c * groups + g, of_row, row, word]
            weight = b.load(panel.buffer, [panel.copy, of_weight, g * size + word, lane])
            at, product = [m * TILE_ROWS + row, lane], b.load(x, place).dot_bf16(weight)
            b.store(total, at, b.load(total, at) + product)

    def _row_words(self) -> int:
        """As many words as divide a panel's, and fill a row of a register."""
        words = self._panel_depth() // WORD_TERMS
        return next(n for n in range(ROW_WORDS, 0, -1) if words % n == 0)


def _words(pair: Sequence[Scalar], parts: int) -> Iterator[Scalar]:
    """The parts of two numbers, a word each."""
    low, high = pair
    word = low.pack_bf16(high)
    yield word
    for _ in range(parts - 1):
        low = low - word.shift_left(BF16_BITS).bitcast(F32)
        high = high - (word & -(1 << BF16_BITS)).bitcast(F32)
        word = low.pack_bf16(high)
        yield word


def have_parts(b: LoopBuilder, x: SSAValue, shape: Sequence[Expr]) -> Scalar:
    """Whether the greatest number of each row is zero or within `PARTS_RANGE`."""
    rows, depth = shape
    least, most = (int(np.float32(each).view(np.int32)) for each in PARTS_RANGE)
    greatest, outside = b.temporary([rows], I32, "greatest"), b.temporary([1], I32, "outside")
    with b.loops([rows], "m") as (row,):
        b.store(greatest, [row], b.constant(0, I32))
        with b.reduce([depth], "max", "k") as (k,):
            bits = b.load(x, [row, k]).bitcast(I32) & NO_SIGN
            b.store(greatest, [row], b.load(greatest, [row]).maximum(bits))
    b.store(outside, [0], b.constant(0, I32))
    with b.reduce([rows], "max", "m") as (row,):
        bits = b.load(greatest, [row])
        worst = (bits < least).select(bits, (bits > most).select(bits, b.constant(0, I32)))
        b.store(outside, [0], b.load(outside, [0]).maximum(worst))
    return b.load(outside, [0]).compare("eq", 0)

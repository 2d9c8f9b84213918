"""The loops of `graph.block_quantized_matmul` for many rows: a panel of unpacked weights stays in
a cache for a block of rows, as floats, or as words of two bf16 of which registers that hold tiles
of matrices read 16 rows at once.

    for blocks of rows:  for tiles of columns:  for c:
        for words:  for lanes:  panel[.., lane] = unpack(codes[tile, word, lane])
        total[row, lane] += x[row, ..] * panel[.., lane]
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator

from msgspec import Struct
from xdsl.ir import Attribute, SSAValue

from weft.dialects.expr import Expr, minimum
from weft.dialects.graph.core.types import F32, I32
from weft.dialects.graph.quantized.block_loops import LANES, BlockWeights
from weft.dialects.loop.builder import LoopBuilder

FEWEST_WORD_ROWS = 16
"""From which on rows are multiplied as words: those of one register."""

TILE_ROWS = 32
"""Rows of a tile of words, those of two registers; rows come in blocks of whole tiles."""

WORD_TERMS = 2

ROW_WORDS = 16
"""Words of a row of a register, at most."""

PANEL_DEPTH = 256
"""Terms of a panel at most, but for a longer block: as floats they fill most of L1."""

KEPT_BYTES = 1 << 20
"""Of rows that are multiplied with each panel: L2 keeps them while panels are unpacked."""

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
    def _panel(self, tile: Expr, first: Expr) -> SSAValue:
        """The weights of a tile of columns from a block on."""

    @abstractmethod
    def _multiply(
        self, total: SSAValue, x: SSAValue, panel: SSAValue, position: tuple[Expr, Expr, Expr]
    ) -> None:
        """Adds the products with the `c`-th panel of so many rows from the `first` on, which
        `position` says as `(first, rows, c)`.
        """

    def _multiply_block(self, x: SSAValue, first: Expr, rows: Expr) -> None:
        """The rows from the `first` on, no more than those of a block."""
        b, w, most = self.b, self.weights, self._rows_of_block()
        room = -(-min(most, rows.constant or most) // TILE_ROWS) * TILE_ROWS
        for count, width in w.tiles():
            with b.loops([count], "t") as (number,):
                tile, depth = number + w.first_tile(width), self._panel_depth()
                total = b.scratch([room, LANES], self._sum_type, "total")
                zero = b.constant(0, self._sum_type)
                with b.loops([rows.ceildiv(TILE_ROWS) * TILE_ROWS, LANES], "il") as index:
                    b.store(total, index, zero)
                with b.loops([self.depth // depth], "c") as (c,):
                    panel = self._panel(tile, c * (depth // w.block))
                    self._multiply(total, x, panel, (first, rows, c))
                with b.loops([rows, width], "il") as (row, lane):
                    position = [first + row, tile * LANES + lane]
                    b.store(self.y, position, b.load(total, [row, lane]).cast(w.element))

    def _unpacked(self, tile: Expr, first: Expr) -> Iterator[tuple[list[Expr], Expr]]:
        """Loops over the words of a panel, which begins with a block, and their columns: the
        column's position in the weights, with the word's number, and its first term.
        """
        w = self.weights
        shape = [self._panel_depth() // w.block, w.block_words, LANES]
        with self.b.loops(shape, "dgl") as (number, g, lane):
            start = (number * w.block_words + g) * w.word_codes
            yield [tile, first + number, lane, g], start

    def _panel_depth(self) -> int:
        """The terms of a panel: as many blocks as divide them all."""
        block = self.weights.block
        blocks, most = (self.depth // block).constant or 1, max(1, PANEL_DEPTH // block)
        return block * next(n for n in range(most, 0, -1) if blocks % n == 0)

    @abstractmethod
    def _row_bytes(self, depth: int) -> int:
        """Bytes of a row that is multiplied."""

    def _rows_of_block(self) -> int:
        """As many as L2 keeps, in whole tiles."""
        kept = KEPT_BYTES // self._row_bytes(self.depth.constant or PANEL_DEPTH)
        return max(TILE_ROWS, min(MOST_ROWS, kept // TILE_ROWS * TILE_ROWS))


class FloatProduct(PanelProduct, frozen=True):
    """The product of floats."""

    @property
    def _sum_type(self) -> Attribute:
        return self.weights.element

    def _prepared_rows(self) -> SSAValue:
        return self.x

    def _row_bytes(self, depth: int) -> int:
        return depth * (4 if self.weights.element == F32 else 8)

    def _panel(self, tile: Expr, first: Expr) -> SSAValue:
        b, w = self.b, self.weights
        panel = b.scratch([self._panel_depth(), LANES], w.element, "panel")
        for (*at, g), start in self._unpacked(tile, first):
            for n, weight in enumerate(w.weights((at[0], at[1], at[2]), g)):
                b.store(panel, [start + n, at[2]], weight)
        return panel

    def _multiply(
        self, total: SSAValue, x: SSAValue, panel: SSAValue, position: tuple[Expr, Expr, Expr]
    ) -> None:
        b, (first, rows, c), depth = self.b, position, self._panel_depth()
        with (
            b.loops([rows, LANES], "ml") as (row, lane),
            b.reduce([depth], "add", "k") as (k,),
        ):
            term = b.load(x, [first + row, c * depth + k]) * b.load(panel, [k, lane])
            b.store(total, [row, lane], b.load(total, [row, lane]) + term)


class WordProduct(PanelProduct, frozen=True):
    """The product of rows and weights that are rounded to bf16, in f32."""

    @property
    def _sum_type(self) -> Attribute:
        return F32

    def _prepared_rows(self) -> SSAValue:
        """Words in the order of the registers: `[tile, group of words, row, word]`. Tiles are
        filled up with the last row, of which no result is read.
        """
        b, size = self.b, self._row_words()
        shape = [
            self.rows.ceildiv(TILE_ROWS), self.depth // (WORD_TERMS * size), TILE_ROWS, size
        ]  # fmt: skip
        words = b.temporary(shape, I32, "words")
        with b.loops(shape, "mgiw") as (m, g, row, word):
            position = minimum([m * TILE_ROWS + row, self.rows - 1])
            k = (g * size + word) * WORD_TERMS
            low, high = (b.load(self.x, [position, k + n]).cast(F32) for n in range(WORD_TERMS))
            b.store(words, [m, g, row, word], low.pack_bf16(high))
        return words

    def _row_bytes(self, depth: int) -> int:
        return depth * 4 // WORD_TERMS

    def _panel(self, tile: Expr, first: Expr) -> SSAValue:
        b, w = self.b, self.weights
        panel = b.scratch([self._panel_depth() // WORD_TERMS, LANES], I32, "panel")
        for (*at, g), start in self._unpacked(tile, first):
            weights = [each.cast(F32) for each in w.weights((at[0], at[1], at[2]), g)]
            pairs = zip(weights[::WORD_TERMS], weights[1::WORD_TERMS], strict=True)
            for n, (low, high) in enumerate(pairs):
                b.store(panel, [start // WORD_TERMS + n, at[2]], low.pack_bf16(high))
        return panel

    def _multiply(
        self, total: SSAValue, x: SSAValue, panel: SSAValue, position: tuple[Expr, Expr, Expr]
    ) -> None:
        b, (first, rows, c), size = self.b, position, self._row_words()
        groups = self._panel_depth() // WORD_TERMS // size
        with (
            b.loops([rows.ceildiv(TILE_ROWS)], "m") as (m,),
            b.reduce([groups], "add", "g") as (g,),
            b.loops([TILE_ROWS, LANES], "il") as (row, lane),
            b.reduce([size], "add", "w") as (word,),
        ):
            at = [m * TILE_ROWS + row, lane]
            words = b.load(x, [first // TILE_ROWS + m, c * groups + g, row, word])
            product = words.dot_bf16(b.load(panel, [g * size + word, lane]))
            b.store(total, at, b.load(total, at) + product)

    def _row_words(self) -> int:
        """As many words as divide a panel's, and fill a row of a register."""
        words = self._panel_depth() // WORD_TERMS
        return next(n for n in range(ROW_WORDS, 0, -1) if words % n == 0)

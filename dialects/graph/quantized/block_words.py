"""The loops of `graph.block_quantized_matmul` in bf16: rows and unpacked weights are words of two
bf16, of which registers that hold tiles of matrices read 16 rows at once.

    for blocks of rows:  for tiles:  for c:
        for words:  for lanes:  panel[word, lane] = two weights
        for tiles of rows:  32 rows by 32 columns of sums
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct
from xdsl.ir import SSAValue

from weft.dialects.expr import Expr, ExprLike, minimum
from weft.dialects.graph.core.types import F32, I32
from weft.dialects.graph.quantized.block_loops import LANES, BlockWeights
from weft.dialects.loop.builder import LoopBuilder

FEWEST_ROWS = 16
"""From which on the rows are multiplied so: those of one register."""

TILE_ROWS = 32
"""Rows of a tile, those of two registers."""

WORD_TERMS = 2

ROW_WORDS = 16
"""Words of a row of a register, at most."""

PANEL_DEPTH = 256
"""Terms of a panel at most, but for a longer block."""

KEPT_BYTES = 1 << 20
"""Of rows that are multiplied with each panel: L2 keeps them while panels are unpacked."""

MOST_ROWS = 512
"""Of a block of them, whose sums are on the stack."""


class WordProduct(Struct, frozen=True):
    """The product of rows with weights in blocks, both rounded to bf16."""

    b: LoopBuilder
    x: SSAValue
    weights: BlockWeights
    y: SSAValue
    rows: Expr
    depth: Expr

    def emit(self) -> None:
        """Writes the loops."""
        b, most, words = self.b, self._rows_of_block(), self._packed_rows()
        whole, left = self.rows // most, self.rows % most
        if whole != 0:
            with b.loops([whole], "r") as (block,):
                self._multiply_block(words, block * most, Expr.of(most), most)
        if left != 0:
            self._multiply_block(words, whole * most, left, min(most, left.constant or most))

    def _multiply_block(self, words: SSAValue, first: Expr, rows: Expr, most: int) -> None:
        """The rows from the `first` on, a multiple of those of a tile; at most so many."""
        b, w = self.b, self.weights
        for count, width in w.tiles():
            with b.loops([count], "t") as (number,):
                tile, depth = number + w.first_tile(width), self._panel_depth()
                room = -(-most // TILE_ROWS) * TILE_ROWS
                total = b.scratch([room, LANES], F32, "total")
                tiles, panels = rows.ceildiv(TILE_ROWS), self.depth // depth
                if panels != 1:
                    self._clear(total, Expr.of(0), room)
                with b.loops([panels], "c") as (c,):
                    panel = b.scratch([depth // WORD_TERMS, LANES], I32, "panel")
                    self._unpack(panel, tile, c * (depth // w.block), depth)
                    with b.loops([tiles], "m") as (m,):
                        if panels == 1:
                            self._clear(total, m * TILE_ROWS, TILE_ROWS)
                        self._multiply_tile(total, words, panel, (first, m, c))
                with b.loops([rows, width], "il") as (row, lane):
                    place = [first + row, tile * LANES + lane]
                    b.store(self.y, place, b.load(total, [row, lane]))

    def _clear(self, total: SSAValue, first: Expr, rows: int) -> None:
        zero = self.b.constant(0, F32)
        with self.b.loops([rows, LANES], "il") as (row, lane):
            self.b.store(total, [first + row, lane], zero)

    def _multiply_tile(
        self, total: SSAValue, words: SSAValue, panel: SSAValue, at: tuple[Expr, Expr, Expr]
    ) -> None:
        """Adds the products of a tile of rows with a panel: of the `m`-th one behind the `first`
        row with the `c`-th one.
        """
        b, (first, m, c) = self.b, at
        size = self._row_words()
        groups = self._panel_depth() // WORD_TERMS // size
        with (
            b.reduce([groups], "add", "g") as (g,),
            b.loops([TILE_ROWS, LANES], "il") as (row, lane),
            b.reduce([size], "add", "w") as (word,),
        ):
            place = [m * TILE_ROWS + row, lane]
            x = b.load(words, [first // TILE_ROWS + m, c * groups + g, row, word])
            product = x.dot_bf16(b.load(panel, [g * size + word, lane]))
            b.store(total, place, b.load(total, place) + product)

    def _unpack(self, panel: SSAValue, tile: Expr, first: Expr, depth: int) -> None:
        """Words of the weights of so many terms from a block on."""
        b, w = self.b, self.weights
        with b.loops([depth // w.block, w.block_words, LANES], "dgl") as (number, g, lane):
            weights = list(w.weights((tile, first + number, lane), g))
            pairs = zip(weights[::WORD_TERMS], weights[1::WORD_TERMS], strict=True)
            start = (number * w.block_words + g) * (w.word_codes // WORD_TERMS)
            for n, (low, high) in enumerate(pairs):
                b.store(panel, [start + n, lane], low.pack_bf16(high))

    def _packed_rows(self) -> SSAValue:
        """Words of the rows, in the order of the registers: `[tile, group of words, row, word]`.
        Tiles are filled up with the last row, of which no result is read.
        """
        b, size = self.b, self._row_words()
        tiles = self.rows.ceildiv(TILE_ROWS)
        shape = [tiles, self.depth // (WORD_TERMS * size), TILE_ROWS, size]
        words = b.temporary(shape, I32, "words")
        with b.loops(shape, "mgiw") as (m, g, row, word):
            place = minimum([m * TILE_ROWS + row, self.rows - 1])
            k = (g * size + word) * WORD_TERMS
            low, high = (b.load(self.x, [place, k + n]) for n in range(WORD_TERMS))
            b.store(words, [m, g, row, word], low.pack_bf16(high))
        return words

    def _panel_depth(self) -> int:
        """The terms of a panel: as many blocks as divide them all."""
        return self.weights.panel_depth(PANEL_DEPTH, self.depth)

    def _row_words(self) -> int:
        """As many words as divide a panel's, and fill a row of a register."""
        words = self._panel_depth() // WORD_TERMS
        return next(n for n in range(ROW_WORDS, 0, -1) if words % n == 0)

    def _rows_of_block(self) -> int:
        """As many as L2 keeps, in whole tiles."""
        kept = KEPT_BYTES // (WORD_TERMS * (self.depth.constant or PANEL_DEPTH))
        return max(TILE_ROWS, min(MOST_ROWS, kept // TILE_ROWS * TILE_ROWS))

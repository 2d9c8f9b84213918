"""The loops of `graph.block_quantized_matmul`: words of codes become numbers in registers for few
rows, or factors of dot products of bytes. `block_panels` has those of many rows.

A tile has 32 columns, the lanes of a few vectors; each lane has a word of codes of its column.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from msgspec import Struct
from xdsl.ir import Attribute, SSAValue

from weft.dialects.expr import Expr, ExprLike
from weft.dialects.graph.core.types import BF16, F16, F32, I32, UI8
from weft.dialects.loop.builder import Buffers, LoopBuilder
from weft.dialects.loop.scalar import Scalar
from weft.dialects.loop.types import buffer_type_of

LANES = 32
"""Columns of a tile."""

WORD_BITS = 32
WORD_BYTES = 4

FEW_ROWS = 2
"""Up to which codes are unpacked for each row again."""

TILE_ROWS = 8
"""Rows that dot products are computed of together."""

OF_FLOATS = ("float", "parts")
"""Activations that are not rounded."""

DIGITS: Final[Mapping[Attribute, int]] = {F16: 11, BF16: 8}
F32_DIGITS = 24
"""Bits of a float's digits."""

STEPS = 127
"""Of a block of activations, on either side of zero."""


class BlockWeights(Struct, frozen=True):
    """Codes and parameters in tiles of columns, and how they are read."""

    b: LoopBuilder
    codes: SSAValue
    scales: SSAValue
    zeros: SSAValue | None
    minimum: SSAValue | None
    element: Attribute
    bits: int
    block: int
    columns: int

    @property
    def word_codes(self) -> int:
        """Codes of a word."""
        return WORD_BITS // self.bits

    @property
    def block_words(self) -> int:
        """Words of a block, in each column."""
        return self.block // self.word_codes

    @property
    def middle(self) -> int:
        """The zero point where none is given."""
        return 1 << (self.bits - 1)

    @property
    def parts(self) -> int:
        """Numbers of bf16 whose sum is any weight: two, of 16 bits, hold a code times a scale of
        few bits.
        """
        of_ui8 = self.zeros is None or buffer_type_of(self.zeros).element == UI8
        scale = DIGITS.get(buffer_type_of(self.scales).element, F32_DIGITS)
        narrow = self.bits + scale <= 2 * DIGITS[BF16]
        return 2 if of_ui8 and self.minimum is None and narrow else 3

    def tiles(self) -> Iterator[tuple[Expr, int]]:
        """How many tiles there are of a width, tiles of all 32 columns first."""
        whole, left = divmod(self.columns, LANES)
        if whole:
            yield Expr.of(whole), LANES
        if left:
            yield Expr.of(1), left

    def first_tile(self, width: int) -> int:
        """The first of the tiles of so many columns."""
        return 0 if width == LANES else self.columns // LANES

    def levels(self, at: tuple[Expr, Expr, Expr], word: Expr) -> list[Scalar]:
        """The distances of a word's codes from the zero point, as floats, of `(tile, block,
        column)`.
        """
        tile, _, lane = at
        stored, centred = self.b.load(self.codes, [tile, word, lane]), self.zeros is None
        fields = [
            stored.field(low, self.bits, centred=centred).cast(self.element)
            for low in range(0, WORD_BITS, self.bits)
        ]
        if self.zeros is None:
            return fields
        zero = self.b.load(self.zeros, at).cast(self.element)
        return [field - zero for field in fields]

    def weights(self, at: tuple[Expr, Expr, Expr], word: ExprLike) -> Iterator[Scalar]:
        """The weights of the `word`-th word of a block, `(tile, block, column)`."""
        _, block, _ = at
        scale = self.scale(at)
        least = None if self.minimum is None else self.b.load(self.minimum, at).cast(self.element)
        for level in self.levels(at, block * self.block_words + word):
            yield level * scale if least is None else level * scale - least

    def factors(self, tile: Expr, word: Expr, lane: Expr) -> list[Scalar]:
        """A word's codes as words of four unsigned bytes: every so many-th code of it."""
        word_bits = self.b.load(self.codes, [tile, word, lane])
        mask = ((1 << self.bits) - 1) * 0x01010101
        shifts = range(0, 8, self.bits)
        return [(word_bits.shift_right(low) & mask).bitcast(I32) for low in shifts]

    def zero(self, at: tuple[Expr, Expr, Expr]) -> Scalar:
        """The zero point of a block as i32."""
        if self.zeros is None:
            return self.b.constant(self.middle, I32)
        return self.b.load(self.zeros, at).cast(I32)

    def scale(self, at: tuple[Expr, Expr, Expr]) -> Scalar:
        """The scale of a block."""
        return self.b.load(self.scales, at).cast(self.element)


class BlockProduct(Struct, frozen=True):
    """The product of rows with weights in blocks."""

    b: LoopBuilder
    x: SSAValue
    weights: BlockWeights
    y: SSAValue
    rows: Expr
    depth: Expr

    @property
    def _blocks(self) -> Expr:
        return self.depth // self.weights.block

    def emit(self, mode: str) -> None:
        """Writes the loops for rows of bytes, or for a few rows of floats."""
        if mode in OF_FLOATS:
            self._unpack_in_registers(self._sums_of_blocks())
        else:
            self._of_bytes()

    def _fill(self, buffer: SSAValue, shape: list[int], element: Attribute) -> None:
        zero = self.b.constant(0, element)
        with self.b.loops(shape, "il"[-len(shape) :]) as index:
            self.b.store(buffer, index, zero)

    # Few rows

    def _unpack_in_registers(self, sums: SSAValue | None) -> None:
        """for tiles: for rows: for blocks: for words: for lanes: all codes of a word"""
        b, w = self.b, self.weights
        for count, width in w.tiles():
            with b.loops([count, self.rows], "tm") as (number, row):
                tile = number + w.first_tile(width)
                total = b.scratch([LANES], w.element, "total")
                self._fill(total, [LANES], w.element)
                with b.loops([self._blocks], "c") as (block,):
                    part = b.scratch([LANES], w.element, "part")
                    self._fill(part, [LANES], w.element)
                    self._add_words(part, tile, row, block)
                    with b.loops([LANES], "l") as (lane,):
                        at = tile, block, lane
                        value = b.load(total, [lane]) + b.load(part, [lane]) * w.scale(at)
                        if sums is not None and w.minimum is not None:
                            least = b.load(w.minimum, at).cast(w.element)
                            value = value - b.load(sums, [row, block]) * least
                        b.store(total, [lane], value)
                with b.loops([width], "l") as (lane,):
                    b.store(self.y, [row, tile * LANES + lane], b.load(total, [lane]))

    def _add_words(self, part: SSAValue, tile: Expr, row: Expr, block: Expr) -> None:
        """Adds the sum of each word: multiply-adds of several words run at the same time then."""
        b, w = self.b, self.weights
        with b.loops([w.block_words, LANES], "gl") as (g, lane):
            word = block * w.block_words + g
            first, *others = (
                b.load(self.x, [row, word * w.word_codes + n]) * level
                for n, level in enumerate(w.levels((tile, block, lane), word))
            )
            b.store(part, [lane], b.load(part, [lane]) + sum(others, start=first))

    def _sums_of_blocks(self) -> SSAValue | None:
        """The sum of each block of each row, where a minimum is multiplied with it."""
        b, w = self.b, self.weights
        if w.minimum is None:
            return None
        sums = b.temporary([self.rows, self._blocks], w.element, "sums")
        with b.loops([self.rows, self._blocks], "mc") as index:
            b.store(sums, index, b.constant(0, w.element))
            with b.reduce([w.block], "add", "k") as (k,):
                x = b.load(self.x, [index[0], index[1] * w.block + k])
                b.store(sums, index, b.load(sums, index) + x)
        return sums

    # Activations as bytes

    def _of_bytes(self) -> None:
        """for tiles: for tiles of rows: for blocks: for words: for rows: for lanes: dot products"""
        b, w = self.b, self.weights
        rows = self._quantized_rows()
        for count, width in w.tiles():
            with b.loops([count], "t") as (number,):
                tile = number + w.first_tile(width)
                whole, left = self.rows // TILE_ROWS, self.rows % TILE_ROWS
                if whole != 0:
                    with b.loops([whole], "m") as (m,):
                        self._tile_of_bytes(rows, tile, (m * TILE_ROWS, TILE_ROWS), width)
                if left != 0:
                    with b.loops([left], "m") as (m,):
                        self._tile_of_bytes(rows, tile, (whole * TILE_ROWS + m, 1), width)

    def _tile_of_bytes(
        self, rows: Buffers, tile: Expr, some: tuple[ExprLike, int], width: int
    ) -> None:
        b, (first, count), (words, steps, sums) = self.b, some, rows
        w, shape = self.weights, [count, LANES]
        total = b.scratch(shape, F32, "total")
        self._fill(total, shape, F32)
        with b.loops([self._blocks], "c") as (block,):
            part = b.scratch(shape, I32, "part")
            self._fill(part, shape, I32)
            with b.loops([w.block_words, *shape], "gil") as (g, row, lane):
                word = block * w.block_words + g
                value = b.load(part, [row, lane])
                factors = w.factors(tile, word, lane)
                for n, factor in enumerate(factors):
                    x = b.load(words, [first + row, word * len(factors) + n])
                    value = value.dot_bytes(factor, x)
                b.store(part, [row, lane], value)
            with b.loops(shape, "il") as (row, lane):
                at, place = (tile, block, lane), [first + row, block]
                exact = b.load(part, [row, lane]) - w.zero(at) * b.load(sums, place)
                step = b.load(steps, place)
                value = b.load(total, [row, lane]) + exact.cast(F32) * (
                    w.scale(at).cast(F32) * step
                )
                if w.minimum is not None:
                    rest = b.load(sums, place).cast(F32) * step
                    value = value - b.load(w.minimum, at).cast(F32) * rest
                b.store(total, [row, lane], value)
        with b.loops([count, width], "il") as (row, lane):
            value = b.load(total, [row, lane]).cast(w.element)
            b.store(self.y, [first + row, tile * LANES + lane], value)

    def _quantized_rows(self) -> Buffers:
        """Words of four steps, in the order of the codes' factors; the size of a step, and the sum
        of the steps, of each block.
        """
        b, w = self.b, self.weights
        words = b.temporary([self.rows, self.depth // WORD_BYTES], I32, "words")
        steps = b.temporary([self.rows, self._blocks], F32, "steps")
        sums = b.temporary([self.rows, self._blocks], I32, "sums")
        with b.loops([self.rows, self._blocks], "mc") as (row, block):
            numbers = b.scratch([w.block], I32, "numbers")
            self._round_block(numbers, steps, row, block)
            b.store(sums, [row, block], b.constant(0, I32))
            with b.reduce([w.block], "add", "k") as (k,):
                total = b.load(sums, [row, block]) + b.load(numbers, [k])
                b.store(sums, [row, block], total)
            count = 8 // w.bits
            with b.loops([w.block_words], "g") as (g,):
                for n in range(count):
                    word = self._packed(numbers, g * w.word_codes + n, count)
                    place = (block * w.block_words + g) * count + n
                    b.store(words, [row, place], word)
        return words, steps, sums

    def _round_block(self, numbers: SSAValue, steps: SSAValue, row: Expr, block: Expr) -> None:
        b, size = self.b, self.weights.block
        greatest = b.scratch([1], F32, "greatest")
        b.store(greatest, [0], b.constant(0, F32))
        with b.reduce([size], "max", "k") as (k,):
            x = b.load(self.x, [row, block * size + k]).cast(F32).math("absf")
            b.store(greatest, [0], b.load(greatest, [0]).maximum(x))
        most, zero = b.load(greatest, [0]), b.constant(0, F32)
        b.store(steps, [row, block], most / STEPS)
        inverse = (most > 0).select(b.constant(STEPS, F32) / most, zero)
        with b.loops([size], "k") as (k,):
            x = b.load(self.x, [row, block * size + k]).cast(F32) * inverse
            number = x.math("roundeven").maximum(-STEPS).minimum(STEPS)
            b.store(numbers, [k], number.cast(I32))

    def _packed(self, numbers: SSAValue, first: Expr, step: int) -> Scalar:
        """The lowest bytes of four numbers, so far apart."""
        b = self.b
        parts = [
            (b.load(numbers, [first + step * n]) & 255).shift_left(8 * n) for n in range(WORD_BYTES)
        ]
        return parts[0] | parts[1] | parts[2] | parts[3]

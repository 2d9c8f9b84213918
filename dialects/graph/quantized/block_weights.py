"""Weights in blocks as files have them, a row for each column of the product, brought into tiles
for `graph.block_quantized_matmul`. Of constant weights all of this is folded.
"""

from __future__ import annotations

from weft.dialects.expr import product
from weft.dialects.graph.core.algebra import Term, shape_attr
from weft.dialects.graph.core.types import F32
from weft.dialects.graph.quantized.block_loops import LANES, WORD_BITS, WORD_BYTES


class BlockRows:
    """Weights `(code - zero) * scale - minimum`: bytes of codes `[n, k * bits / 8]`, the lowest
    bits first, and parameters `[n, blocks]`.
    """

    def __init__(
        self,
        codes: Term,
        scales: Term,
        zeros: Term | None = None,
        minimum: Term | None = None,
        *,
        bits: int,
        block: int,
    ):
        self.codes, self.scales, self.zeros, self.minimum = codes, scales, zeros, minimum
        self.bits, self.block = bits, block

    def product(self, x: Term, activations: str = "float") -> Term:
        """`x @ w.T` in f32, `x` of any leading dims and as many terms as its last dim says, of
        which the last block may have less than its codes.
        """
        *lead, terms = x.shape
        padded = self.scales.shape[1] * self.block
        rows = x.reshape((product(lead), terms)).cast(F32)
        if terms != padded:
            behind = shape_attr([0, 0, 0, padded - terms])
            rows = rows.of(rows.b.pad(rows.value, pads=behind, mode="constant"))
        columns = self.codes.shape[0].constant
        assert columns is not None, "weights have a constant number of rows"
        parameters = [self.scales, self.zeros, self.minimum]
        result = x.b.block_quantized_matmul(
            rows.value,
            _in_tiles(_words(self.codes)).value,
            *(None if each is None else _in_tiles(each).value for each in parameters),
            bits=self.bits,
            block=self.block,
            columns=columns,
            activations=activations,
        )
        return x.of(result).reshape((*lead, columns))


def fills_words(bits: int, block: int) -> bool:
    """Whether blocks of codes are whole words, as the operator requires."""
    return block > 0 and block * bits % WORD_BITS == 0


def packed_bytes(codes: Term, bits: int) -> Term:
    """Codes of few bits, a byte each, in as few bytes as hold them, the lowest bits first."""
    count = 8 // bits
    rows, size = codes.shape
    if count == 1:
        return codes
    groups = codes.reshape((rows, size // count, count))
    total: Term | None = None
    for n in range(count):
        part = groups.part(2, n, 1)
        if total is None:
            total = part
            continue
        shift = part.number(bits * n).value
        moved = codes.b.bit_shift(part.value, shift, direction="LEFT")
        total = codes.of(codes.b.bitwise_or(total.value, moved))
    assert total is not None, "a byte has codes"
    return total.reshape((rows, size // count))


def _words(codes: Term) -> Term:
    """Four bytes each as one number."""
    rows, count = codes.shape
    quads = codes.reshape((rows, count // WORD_BYTES, WORD_BYTES))
    return codes.of(codes.b.pack_words(quads.value))


def _in_tiles(x: Term) -> Term:
    """`[n, c]` as `[n / 32, c, 32]`, with zeros behind the last row."""
    rows, count = x.shape
    tiles = rows.ceildiv(LANES)
    if tiles * LANES != rows:
        behind = shape_attr([0, 0, tiles * LANES - rows, 0])
        x = x.of(x.b.pad(x.value, pads=behind, mode="constant"))
    return x.reshape((tiles, LANES, count)).transpose([0, 2, 1])

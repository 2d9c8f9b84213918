"""Rows of GGUF blocks as what `graph.block_quantized_matmul` multiplies: codes that follow each
other along the sum, and parameters of each block, or part of one. Of constants all is folded.
"""

from __future__ import annotations

from collections.abc import Callable

from weft.dialects.graph.core.algebra import Term, joined
from weft.dialects.graph.quantized.block_weights import BlockRows, packed_bytes
from weft.dialects.graph.quantized.gguf_blocks import FORMATS, HAVE_MINIMA

HALF = 128


def rows_of(raw: Term, name: str) -> BlockRows:
    """The rows of a matrix `[n, bytes]` in a format of GGUF."""
    rows, size = raw.shape
    stored = FORMATS[name]
    count = size // stored.bytes
    scales = raw.of(raw.b.gguf_scales(raw.value, format=name, minimum=False))
    minimum = zeros = None
    if name in HAVE_MINIMA:
        minimum = raw.of(raw.b.gguf_scales(raw.value, format=name, minimum=True))
        zeros = raw.number(0).expand(minimum.shape)
    bits, codes = _CODES[name](raw.reshape((rows, count, stored.bytes)))
    packed = packed_bytes(codes.reshape((rows, count * stored.elements)), bits)
    block = stored.elements // stored.parts
    return BlockRows(packed, scales, zeros, minimum, bits=bits, block=block)


def _q4_0(blocks: Term) -> tuple[int, Term]:
    return 4, _nibbles(blocks.part(2, 2, 16), 2)


def _q8_0(blocks: Term) -> tuple[int, Term]:
    codes = blocks.part(2, 2, 32)
    return 8, codes.of(codes.b.bitwise_xor(codes.value, codes.number(HALF).value))


def _q4_k(blocks: Term) -> tuple[int, Term]:
    rows, count, _ = blocks.shape
    return 4, _nibbles(blocks.part(2, 16, 128).reshape((rows, count, 4, 32)), 3)


def _q6_k(blocks: Term) -> tuple[int, Term]:
    rows, count, _ = blocks.shape
    low = blocks.part(2, 0, 128).reshape((rows, count, 2, 2, 32))
    high = blocks.part(2, 128, 64).reshape((rows, count, 2, 1, 32))
    halves = joined([_and(low, 15), _right(low, 4)], 3)
    quarters = joined([_and(_right(high, shift), 3) for shift in (0, 2, 4, 6)], 3)
    shifted = quarters.b.bit_shift(quarters.value, quarters.number(4).value, direction="LEFT")
    codes = halves.of(halves.b.bitwise_or(halves.value, shifted))
    return 8, codes + (HALF - 32)


_CODES: dict[str, Callable[[Term], tuple[int, Term]]] = {
    "Q4_0": _q4_0,
    "Q8_0": _q8_0,
    "Q4_K": _q4_k,
    "Q6_K": _q6_k,
}
"""The bits of a code, and the codes of blocks `[n, blocks, bytes]`, a byte each."""


def _nibbles(x: Term, axis: int) -> Term:
    """The low halves of bytes along an axis, then the high ones."""
    return joined([_and(x, 15), _right(x, 4)], axis)


def _and(x: Term, mask: int) -> Term:
    return x.of(x.b.bitwise_and(x.value, x.number(mask).value))


def _right(x: Term, by: int) -> Term:
    return x.of(x.b.bit_shift(x.value, x.number(by).value, direction="RIGHT"))

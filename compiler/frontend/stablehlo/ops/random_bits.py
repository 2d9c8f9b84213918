"""Random bits by counters, with the bits that XLA's algorithms have: Threefry-2x32, and Philox-4x32
of 10 rounds, both by Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3" (2011).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from weft.compiler.frontend.stablehlo.node import HloImporter, Node
from weft.dialects.errors import UnsupportedError
from weft.dialects.graph.core.algebra import Term, counted, joined
from weft.dialects.graph.core.types import UI32, UI64
from weft.dialects.loop.scalar import width

_MULTIPLIERS: Final = (0xD2511F53, 0xCD9E8D57)
_WEYL: Final = (0x9E3779B9, 0xBB67AE85)
_PHILOX_STEPS: Final = 10
_HALF: Final = 32
"""Bits of a word of either generator."""


def rng_bit_generator(node: Node) -> Sequence[Term]:
    """The next state, and bits of the result's type: the state is a key and a counter of one or two
    words of 64 bits.
    """
    state, bits = node.only, node.results[1]
    if state.type.element != UI64:
        raise UnsupportedError(f"requires a state of ui64, got {state.type}")
    generate = threefry_bits if node.word("rng_algorithm") == "THREE_FRY" else philox_bits
    size = width(bits.element)
    wide, counter = generate(state, bits.static, max(size, _HALF))
    return [joined([state.part(0, 0, 1), *counter], 0), wide.cast(bits.element)]


def threefry_bits(state: Term, shape: tuple[int, ...], size: int) -> tuple[Term, list[Term]]:
    """Bits and the next counter. Of 32 bits there are two for each count: the first even dim, or
    the longest, takes both.
    """
    key, start = state.part(0, 0, 1), state.part(0, 1, 1)
    dims = shape or (1,)
    split = next((axis for axis, dim in enumerate(dims) if dim % 2 == 0), dims.index(max(dims)))
    halves = (*dims[:split], -(-dims[split] // 2), *dims[split + 1 :])
    counts = dims if size > _HALF else halves
    bits = _threefry(key, start + counted(state.b, math.prod(counts), UI64))
    following = [start + math.prod(counts)]
    if size > _HALF:
        return bits.reshape(shape), following
    pairs = joined([each.reshape(counts).insert(split + 1) for each in _words(bits)], split + 1)
    both = (*dims[:split], 2 * halves[split], *dims[split + 1 :])
    return pairs.reshape(both).part(split, 0, dims[split]).reshape(shape), following


def threefry_call(node: Node) -> Sequence[Term]:
    """Two words of bits of two words of a key and two of counts, which are broadcast."""
    key, count = (_joined_words(*node.operands[at : at + 2]) for at in (0, 2))
    return _words(_threefry(key, count))


def _threefry(key: Term, count: Term) -> Term:
    return key.of(key.b.threefry(key.value, count.value))


def philox_bits(state: Term, shape: tuple[int, ...], size: int) -> tuple[Term, list[Term]]:
    """Bits and the next counter: four words of 32 for each count. A state without an upper half of
    the counter has the key there.
    """
    key, start = state.part(0, 0, 1), state.part(0, 1, 1)
    has_upper = state.shape[0].constant == 3
    upper = state.part(0, 2, 1) if has_upper else key
    count = -(-math.prod(shape) * (size // _HALF) // 4)
    low = start + counted(state.b, count, UI64)
    high = upper + (low < start).cast(UI64)
    words = _philox(_words(key), (*_words(low), *_words(high)))
    parts = list(words)
    if size > _HALF:
        parts = [_joined_words(*words[:2]), _joined_words(*words[2:])]
    flat = joined([each.insert(1) for each in parts], 1).reshape([count * len(parts)])
    following = [start + count, upper + (start + count < start).cast(UI64)]
    return flat.part(0, 0, math.prod(shape)).reshape(shape), following[: 1 + has_upper]


def _philox(key: tuple[Term, Term], words: tuple[Term, ...]) -> tuple[Term, ...]:
    for _ in range(_PHILOX_STEPS):
        products = [
            _words(words[at].cast(UI64) * by) for at, by in zip((0, 2), _MULTIPLIERS, strict=True)
        ]
        (low, high), (other_low, other_high) = products
        words = (
            _xor(_xor(other_high, words[1]), key[0]), other_low,
            _xor(_xor(high, words[3]), key[1]), low,
        )  # fmt: skip
        key = (key[0] + _WEYL[0], key[1] + _WEYL[1])
    return words


def _words(x: Term) -> tuple[Term, Term]:
    """The lower and the upper half of 64 bits."""
    upper = x.of(x.b.bit_shift(x.value, x.number(_HALF).value, direction="RIGHT"))
    return x.cast(UI32), upper.cast(UI32)


def _joined_words(low: Term, high: Term) -> Term:
    wide = high.cast(UI64)
    upper = wide.of(wide.b.bit_shift(wide.value, wide.number(_HALF).value, direction="LEFT"))
    return upper + low.cast(UI64)


def _xor(x: Term, y: Term) -> Term:
    return x.of(x.b.bitwise_xor(x.value, y.value))


RANDOM: Final[dict[str, HloImporter]] = {"rng_bit_generator": rng_bit_generator}
"""By the name in StableHLO."""

"""Samples of products with weights in blocks."""
# pyright: basic

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
from hypothesis.strategies import SearchStrategy

from tests.support.sample import Sample, floats, integers
from weft.dialects.graph import GraphOp
from weft.dialects.graph.quantized.block_loops import LANES, OF_FLOATS, TILE_ROWS
from weft.dialects.graph.quantized.block_panels import FEWEST_WORD_ROWS
from weft.dialects.graph.quantized.block_quantized import (
    ACTIVATIONS,
    BlockQuantizedMatmulOp,
    PackWordsOp,
)
from weft.dialects.graph.quantized.gguf_blocks import (
    FORMATS,
    HAVE_MINIMA,
    DequantizeGgufOp,
    GgufScalesOp,
)


@st.composite
def product(draw) -> Sample:
    """Tiles that are whole or not, rows one by one and together, with every parameter there is."""
    bits, mode = draw(st.sampled_from([2, 4, 8])), draw(st.sampled_from(ACTIVATIONS))
    block, blocks = 32 // bits * draw(st.integers(1, 2)), draw(st.integers(1, 2))
    most = {"int8": TILE_ROWS + 1, "bf16": FEWEST_WORD_ROWS}.get(mode, 3)
    rows = draw(st.sampled_from(sorted({1, 3, most})))
    columns = draw(st.sampled_from([1, LANES, LANES + 3]))
    tiles = -(-columns // LANES)
    shape, words = (tiles, blocks, LANES), (tiles, blocks * block * bits // 32, LANES)
    as_float = mode in OF_FLOATS and draw(st.booleans())
    zero = floats(shape, 0, 3) if as_float else integers(shape, 0, 2**bits - 1, np.uint8)
    zeros, minimum = (draw(st.none() | each) for each in (zero, floats(shape)))
    operands = [
        draw(floats((rows, blocks * block))),
        draw(integers(words, 0, 2**32 - 1, np.uint32)),
    ]
    scales = draw(floats(shape, dtype=draw(st.sampled_from([np.float32, np.float16]))))
    attributes = {"bits": bits, "block": block, "columns": columns, "activations": mode}
    return Sample([*operands, scales, zeros, minimum], attributes)


@st.composite
def gguf(draw, *, of_scales: bool = False) -> Sample:
    """Rows of blocks whose scales, which are floats of two bytes, are small."""
    name = draw(st.sampled_from(sorted(FORMATS)))
    size, scales = FORMATS[name].bytes, {"Q4_K": (0, 2), "Q6_K": (208,)}.get(name, (0,))
    shape = draw(st.sampled_from([(1,), (3, 1), (2, 2)]))
    blocks = draw(integers((*shape, size), 0, 255, np.uint8))
    for place in scales:
        halves = draw(floats((*shape, 1), dtype=np.float16))
        blocks[..., place : place + 2] = halves.view(np.uint8)
    minimum = {"minimum": name in HAVE_MINIMA and draw(st.booleans())} if of_scales else {}
    return Sample([blocks.reshape(*shape[:-1], -1)], {"format": name, **minimum})


SAMPLES: dict[type[GraphOp], SearchStrategy[Sample]] = {
    BlockQuantizedMatmulOp: product(),
    DequantizeGgufOp: gguf(),
    GgufScalesOp: gguf(of_scales=True),
    PackWordsOp: st.sampled_from([(4,), (3, 4), (2, 3, 4)]).flatmap(
        lambda shape: integers(shape, 0, 255, np.uint8).map(lambda array: Sample([array]))
    ),
}

"""Products with weights in blocks whose rows of floats are multiplied as sums of bf16."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import weft
from weft.dialects.graph.quantized.block_loops import LANES
from weft.dialects.graph.quantized.block_panels import FEWEST_PART_ROWS

ROWS, DEPTH, BLOCK = FEWEST_PART_ROWS + 3, 128, 32


def products(bits: int, scales: NDArray[Any]) -> weft.Executable:
    """The product as sums of bf16, and that of floats, which scales remain that a call gives."""
    rng = np.random.default_rng(bits)
    codes = rng.integers(0, 2**32, (2, DEPTH * bits // 32, LANES), np.uint32)
    g = weft.Graph("products")
    x, words = g.input("x", "float32", (ROWS, DEPTH)), g.constant(codes)
    given = g.input("scales", str(scales.dtype), scales.shape)
    for mode, each in (("parts", g.constant(scales)), ("float", given)):
        sizes = {"bits": bits, "block": BLOCK, "columns": LANES + 5, "activations": mode}
        g.output(mode, g.op("block_quantized_matmul", x, words, each, **sizes))
    return weft.compile(g, threads=1)


def special() -> NDArray[np.float32]:
    """Rows of which one has no parts: an infinite number, a NaN, or all too small."""
    x = np.random.default_rng(1).standard_normal((3, ROWS, DEPTH)).astype(np.float32)
    x[0, 5, 7], x[1, 6, 8], x[2, 7] = np.inf, np.nan, x[2, 7] * np.float32(1e-30)
    return x


@pytest.mark.parametrize(("bits", "element"), [(4, np.float16), (8, np.float32)])
def test_parts_are_as_near_as_floats(bits: int, element: Any):
    scales = np.random.default_rng(3).uniform(0.5, 1.5, (2, DEPTH // BLOCK, LANES)).astype(element)
    compiled = products(bits, scales)
    x = np.random.default_rng(2).standard_normal((ROWS, DEPTH)).astype(np.float32)
    x[3], x[4, ::2] = 0, x[4, ::2] * np.float32(1e5)
    given, floats = compiled(x, scales)
    size = np.abs(floats).max(1, keepdims=True).clip(1e-30)
    assert not np.array_equal(given, floats)  # as bits, or parts would not have been multiplied
    np.testing.assert_allclose(given / size, floats / size, atol=2e-6)
    for x in special():
        given, floats = compiled(x, scales)
        np.testing.assert_array_equal(given, floats)

"""Block formats of GGUF: floats and products, against weft's own reading and the `gguf` package."""
# pyright: basic

from __future__ import annotations

import numpy as np
import pytest

import weft
from weft import Tensor
from weft.dialects.graph.quantized.gguf_blocks import FORMATS

RNG = np.random.default_rng(11)
ROWS, BLOCKS = 34, 2
SCALES = {"Q4_K": (0, 2), "Q6_K": (208,)}


def stored(name: str) -> np.ndarray:
    """Rows of blocks of any bytes, but that floats in them are small."""
    blocks = RNG.integers(0, 256, (ROWS, BLOCKS, FORMATS[name].bytes), dtype=np.uint8)
    for place in SCALES.get(name, (0,)):
        scales = RNG.uniform(-0.1, 0.1, (ROWS, BLOCKS, 1)).astype(np.float16)
        blocks[..., place : place + 2] = scales.view(np.uint8)
    return blocks.reshape(ROWS, -1)


def by_the_format(name: str, row: np.ndarray) -> list[float]:
    """One block as ggml documents it, an element at a time, in float64."""

    def half(at: int) -> float:
        return float(row[at : at + 2].view(np.float16)[0])

    bytes_, signed = row.astype(int), row.view(np.int8).astype(int)
    if name == "Q4_0":
        codes = [bytes_[2 + i % 16] >> (4 * (i // 16)) & 15 for i in range(32)]
        return [half(0) * (code - 8) for code in codes]
    if name == "Q8_0":
        return [half(0) * code for code in signed[2:]]
    if name == "Q4_K":
        packed = bytes_[4:16]
        pairs = [(packed[j] & 63, packed[j + 4] & 63) for j in range(4)]
        pairs += [
            (packed[j + 4] & 15 | packed[j - 4] >> 6 << 4, packed[j + 4] >> 4 | packed[j] >> 6 << 4)
            for j in range(4, 8)
        ]
        codes = [bytes_[16 + i // 64 * 32 + i % 32] >> (4 * (i // 32 % 2)) & 15 for i in range(256)]
        return [
            half(0) * pairs[i // 32][0] * code - half(2) * pairs[i // 32][1]
            for i, code in enumerate(codes)
        ]
    floats: list[float] = []
    for i in range(256):
        part, within = divmod(i % 128, 32)
        low = bytes_[i // 128 * 64 + part % 2 * 32 + within] >> (4 * (part // 2)) & 15
        high = bytes_[128 + i // 128 * 32 + within] >> (2 * part) & 3
        floats.append(half(208) * signed[192 + i // 16] * ((low | high << 4) - 32))
    return floats


@pytest.mark.parametrize("name", FORMATS)
def test_floats_are_those_of_the_format(name: str):
    raw = stored(name)
    size = FORMATS[name].bytes
    expected = [
        [
            each
            for at in range(0, row.size, size)
            for each in by_the_format(name, row[at : at + size])
        ]
        for row in raw
    ]
    floats = np.asarray(Tensor(raw).apply("dequantize_gguf", format=name))
    np.testing.assert_allclose(floats, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", FORMATS)
def test_floats_are_those_of_the_package(name: str):
    quants = pytest.importorskip("gguf.quants")
    types = pytest.importorskip("gguf").GGMLQuantizationType
    raw = stored(name)
    floats = np.asarray(Tensor(raw).apply("dequantize_gguf", format=name))
    np.testing.assert_allclose(floats, quants.dequantize(raw, types[name]), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", FORMATS)
def test_products_read_the_bytes(name: str):
    raw = stored(name)
    floats = np.asarray(Tensor(raw).apply("dequantize_gguf", format=name)).astype(np.float64)
    g = weft.Graph("product")
    x = g.input("x", "float32", ("m", floats.shape[1]))
    g.output("y", x @ g.op("dequantize_gguf", g.constant(raw), format=name).T)
    compiled = weft.compile(g)
    assert [each["name"].rpartition("_")[0] for each in compiled.metadata["kernels"]] == [
        "block_quantized_matmul"
    ]
    for count in (1, 5):
        x = RNG.standard_normal((count, floats.shape[1])).astype(np.float32)
        exact = x @ floats.T
        (actual,) = compiled(x)
        np.testing.assert_allclose(actual, exact, rtol=0, atol=3e-6 * np.abs(exact).max())

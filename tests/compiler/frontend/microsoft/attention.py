"""Samples of onnxruntime's attentions."""
# pyright: basic

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.compiler.frontend.microsoft.quantised import integers, scales
from tests.compiler.frontend.microsoft.samples import Array, Sample

RNG = np.random.default_rng(17)
BATCH, STEPS, KEYS, PAST, HEADS, SIZE = 2, 3, 5, 2, 2, 4
COLUMNS = HEADS * SIZE


def floats(*shape: int, dtype: Any = np.float32) -> Array:
    return RNG.standard_normal(shape).astype(dtype)


def ints(*numbers: int) -> Array:
    return np.array(numbers, np.int32)


def mask(*shape: int) -> Array:
    """Each row allows its last key at least."""
    allowed = RNG.integers(0, 2, shape).astype(np.int32)
    allowed[..., -1] = 1
    return allowed


def attention(
    masked: Array | None = None,
    *,
    past: bool = False,
    bias: Sequence[int] = (),
    size: int = SIZE,
    outputs: str = "y",
    tolerance: float = 1e-5,
    **attributes: Any,
) -> Sample:
    """An attention to itself, whose values may have heads of another size."""
    columns = 2 * COLUMNS + HEADS * size
    if size != SIZE:
        attributes |= {"qkv_hidden_sizes": [COLUMNS, COLUMNS, HEADS * size]}
    operands = {
        "x": floats(BATCH, STEPS, 5),
        "w": floats(5, columns),
        "b": floats(columns),
        "mask": masked,
        "past": floats(2, BATCH, HEADS, PAST, SIZE) if past else None,
        "bias": floats(*bias) if bias else None,
    }
    attributes |= {"num_heads": HEADS}
    varies = ("mask", "past", "bias")
    return Sample("Attention", operands, attributes, outputs, varies, tolerance=tolerance)


def multi_head(
    masked: Array | None = None,
    *,
    given: str = "",
    bias: Sequence[int] = (),
    keys: int = KEYS,
    size: int = SIZE,
    outputs: str = "y",
    **attributes: Any,
) -> Sample:
    """An attention to other rows, with biases (b), a past (p), or keys that are heads already
    (h).
    """
    columns = HEADS * size
    operands = {
        "q": floats(BATCH, STEPS, COLUMNS),
        "k": floats(BATCH, HEADS, keys, SIZE) if "h" in given else floats(BATCH, keys, COLUMNS),
        "v": floats(BATCH, HEADS, keys, SIZE) if "h" in given else floats(BATCH, keys, columns),
        "b": floats(2 * COLUMNS + columns) if "b" in given else None,
        "mask": masked,
        "bias": floats(*bias) if bias else None,
        "pk": floats(BATCH, HEADS, PAST, SIZE) if "p" in given else None,
        "pv": floats(BATCH, HEADS, PAST, size) if "p" in given else None,
    }
    attributes |= {"num_heads": HEADS}
    varies = ("k", "v", "mask", "bias", "pk", "pv")
    return Sample("MultiHeadAttention", operands, attributes, outputs, varies)


def quantised(
    masked: Array | None = None,
    *,
    of_weights: Any = np.int8,
    by_column: bool = False,
    past: bool = False,
    outputs: str = "y",
    **attributes: Any,
) -> Sample:
    """An attention to itself of integers of seven bits, see the samples of quantised operators."""
    many = [3 * COLUMNS] if by_column else []
    operands = {
        "x": integers(BATCH, STEPS, 5),
        "w": integers(5, 3 * COLUMNS, dtype=of_weights),
        "b": floats(3 * COLUMNS),
        "x_scale": np.array(0.02, np.float32),
        "w_scale": scales(*many),
        "mask": masked,
        "x_zero": np.array(120, np.uint8),
        "w_zero": np.asarray(np.full(many, 130 if of_weights == np.uint8 else 0, of_weights)),
        "past": floats(2, BATCH, HEADS, PAST, SIZE) if past else None,
    }
    attributes |= {"num_heads": HEADS}
    return Sample("QAttention", operands, attributes, outputs, ("mask", "past"))


def grouped(
    ends: Sequence[int],
    total: int,
    *,
    past: int = 0,
    steps: int = 1,
    groups: int = 1,
    given: str = "",
    dtype: Any = np.float32,
    **attributes: Any,
) -> Sample:
    """Four heads of queries, of steps behind a cache, with packed rows (q), rotary tables (r),
    places (p), a bias (b) or a sink (s); caches may be of 8 bits or 4.
    """
    batch, heads, width = len(ends), 4, 16

    def rows(count: int) -> Array:
        return floats(batch, steps, count * width, dtype=dtype)

    caches = [floats(batch, groups, past, width, dtype=dtype) if past else None for _ in range(2)]
    tables = [floats(9, width // 2, dtype=dtype) if "r" in given else None for _ in range(2)]
    operands = {
        "q": rows(heads + 2 * groups if "q" in given else heads),
        "k": None if "q" in given else rows(groups),
        "v": None if "q" in given else rows(groups),
        "pk": caches[0],
        "pv": caches[1],
        "ends": ints(*(end - 1 for end in ends)),
        "total": ints(total),
        "cos": tables[0],
        "sin": tables[1],
        "at": RNG.integers(0, 9, (batch, steps)) if "p" in given else None,
        "bias": floats(1, heads, steps, total, dtype=dtype) if "b" in given else None,
        "sink": floats(heads, dtype=dtype) if "s" in given else None,
    }
    attributes |= {"num_heads": heads, "kv_num_heads": groups, "do_rotary": int("r" in given)}
    if bits := attributes.get("kv_cache_bit_width"):
        shape = (batch, groups, past, width * bits // 8)
        element = np.uint8 if bits == 4 else np.int8
        one = attributes["k_quant_type"] == "PER_TENSOR"
        for name in ("pk", "pv"):
            operands[name] = RNG.integers(-128, 128, shape).astype(np.int8).view(element)
        for name in ("k_scale", "v_scale"):
            operands[name] = scales(*([1] if one else [1, groups, 1, width])) * 2.0 ** (8 - bits)
    varies = ("k", "v", "pk", "pv", "ends", "at", "bias", "sink")
    tolerance = 5e-3 if dtype == np.float16 else 1e-5
    return Sample("GroupQueryAttention", operands, attributes, "ykv", varies, tolerance=tolerance)


def quantised_caches(bits: int, of: str) -> dict[str, Any]:
    """The attributes of caches of so many bits, with scales of tensors or of channels."""
    return {"kv_cache_bit_width": bits, "k_quant_type": of, "v_quant_type": of}


FAMILIES: dict[str, list[Sample]] = {
    "attention": [
        attention(),
        attention(unidirectional=1, outputs="yp"),
        attention(scale=0.3, size=3),
        attention(past=True, unidirectional=1, outputs="yp"),
        attention(mask(BATCH, STEPS)),
        attention(mask(BATCH, STEPS), unidirectional=1, mask_filter_value=-5.0),
        attention(mask(BATCH, STEPS + PAST), past=True, outputs="yp"),
        attention(mask(BATCH, STEPS, STEPS)),
        attention(mask(BATCH, 1)),
        attention(ints(2, 3)),
        attention(ints(0, 3), tolerance=2e-3),  # scores beside -10000 have a thousandth as ulp
        attention(ints(2, 3, 1, 0)),
        attention(ints(1, 2), scale=200.0, tolerance=1e-3),  # some scores are far below others
        attention(bias=(1, HEADS, STEPS, STEPS)),
        attention(mask(BATCH, STEPS), bias=(BATCH, 1, STEPS, STEPS)),
    ],
    "multi-head attention": [
        multi_head(),
        multi_head(given="b", size=3),
        multi_head(given="h"),
        multi_head(given="hb", outputs="ykv"),
        multi_head(given="bp", outputs="ykv"),
        multi_head(given="p", outputs="ykv", scale=0.2),
        multi_head(ints(3, 5)),
        multi_head(mask(BATCH, KEYS), mask_filter_value=-3.0),
        multi_head(mask(BATCH, STEPS, KEYS)),
        multi_head(mask(BATCH, KEYS + PAST), given="p", outputs="ykv"),
        multi_head(bias=(1, HEADS, STEPS, KEYS)),
        multi_head(keys=STEPS, unidirectional=1),
        multi_head(given="bp", keys=STEPS, unidirectional=1, outputs="ykv"),
    ],
    "quantised attention": [
        quantised(),
        quantised(by_column=True),
        quantised(mask(BATCH, STEPS), of_weights=np.uint8),
        quantised(past=True, unidirectional=1, outputs="yp"),
    ],
    "grouped attention": [
        grouped([3], 3, steps=3),
        grouped([3, 3], 3, steps=3, groups=2, given="qr"),
        grouped([5, 5], 5, past=4, groups=2),
        grouped([5, 3], 5, past=4, groups=4, given="r"),
        grouped([5, 3], 5, past=6, given="qr", rotary_interleaved=1),
        grouped([6], 6, past=4, steps=2, given="rp", scale=0.3),
        grouped([7], 7, past=4, steps=3, local_window_size=2),
        grouped([7], 7, past=4, steps=3, groups=2, softcap=0.5, given="b"),
        grouped([5, 3], 5, past=4, smooth_softmax=1),
        grouped([5, 3], 5, past=4, groups=2, given="s"),
        grouped([5, 3], 5, past=4, groups=2, given="r", dtype=np.float16),
        grouped([5, 3], 5, past=4, groups=2, causal=0),
        grouped([5], 5, past=2, steps=3, given="b", causal=0),
        grouped([7], 7, past=7, steps=3, given="r", **quantised_caches(8, "PER_TENSOR")),
        grouped([5, 3], 5, past=6, groups=2, given="q", **quantised_caches(4, "PER_CHANNEL")),
    ],
}

"""Samples of onnxruntime's attentions."""
# pyright: basic

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.compiler.frontend.microsoft_quantised import integers, scales
from tests.compiler.frontend.microsoft_samples import Array, Sample

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
    return Sample("Attention", operands, attributes, outputs, ("mask", "past", "bias"))


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
        attention(ints(2, 3, 1, 0)),
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
}

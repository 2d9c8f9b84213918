"""Samples of onnxruntime's pieces of transformers."""
# pyright: basic

from __future__ import annotations

from typing import Any

import numpy as np

from tests.compiler.frontend.microsoft.quantised import integers, point, scales
from tests.compiler.frontend.microsoft.samples import Array, Sample

RNG = np.random.default_rng(13)
HALF: Any = np.float16


def floats(*shape: int, dtype: Any = np.float32) -> Array:
    return RNG.standard_normal(shape).astype(dtype)


def activation(op_type: str, *bias: int, dtype: Any = np.float32, **attributes: Any) -> Sample:
    """On more rows than a call says while compiling; halves are rounded once, not at each step."""
    operands = {"x": floats(3, 5, 8, dtype=dtype)}
    operands |= {"b": floats(*bias, dtype=dtype)} if bias else {}
    tolerance = 3e-3 if dtype == HALF else 1e-5
    dims = {"x": ["n", 5, 8]}
    return Sample(op_type, operands, attributes, dims=dims, tolerance=tolerance)


def skip_norm(given: str, *skip: int, dtype: Any = np.float32, **attributes: Any) -> Sample:
    """A norm of a sum with a shift (s) and a bias (b), which gives the sum too."""
    centred = "s" in given or "l" in given
    operands = {
        "x": floats(2, 3, 8, dtype=dtype),
        "skip": floats(*skip, dtype=dtype),
        "gamma": floats(8, dtype=dtype),
    }
    if centred:
        operands["beta"] = floats(8, dtype=dtype) if "s" in given else None
    if "b" in given:
        operands["bias"] = floats(8, dtype=dtype)
    name = "SkipLayerNormalization" if centred else "SkipSimplifiedLayerNormalization"
    tolerance = 5e-3 if dtype == HALF else 1e-5
    return Sample(name, operands, attributes, "y..t", ("skip",), tolerance=tolerance)


def embeddings(given: str, **attributes: Any) -> Sample:
    """With segments (s), a mask (m) and places of words (p)."""
    ids = {name: RNG.integers(0, 4, (2, 5)).astype(np.int32) for name in ("ids", "segments", "at")}
    mask = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 2]], np.int32)
    operands = {
        "ids": ids["ids"],
        "segments": ids["segments"] if "s" in given else None,
        "word": floats(9, 8),
        "position": floats(7, 8),
        "segment": floats(4, 8) if "s" in given else None,
        "gamma": floats(8),
        "beta": floats(8),
        "mask": mask if "m" in given else None,
        "at": ids["at"] if "p" in given else None,
    }
    dims = {name: ["b", "n"] for name in ("ids", "segments", "mask", "at")}
    varies = ("segments", "mask", "at")
    return Sample("EmbedLayerNormalization", operands, attributes, "yct", varies, dims)


def quantised_embeddings(dtype: Any, *, segments: bool) -> Sample:
    def table(*shape: int) -> Array:
        return integers(*shape, dtype=dtype)

    ids = RNG.integers(0, 4, (2, 5)).astype(np.int32)
    numbers = {"word": (9, 8), "position": (7, 8), "segment": (4, 8), "gamma": (8,), "beta": (8,)}
    operands = {"ids": ids, "segments": ids % 3 if segments else None}
    operands |= {name: table(*shape) for name, shape in numbers.items()}
    operands["mask"] = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], np.int32)
    operands |= {f"{name}_scale": np.asarray(scales()) for name in numbers}
    operands |= {f"{name}_zero": point(dtype) for name in numbers}
    if not segments:
        operands |= {f"segment{each}": None for each in ("", "_scale", "_zero")}
    varies = ("segments", "mask")
    return Sample("QEmbedLayerNormalization", operands, {"epsilon": 0.01}, "yc", varies)


def rotary(shape: tuple[int, ...], places: Array, columns: int, **attributes: Any) -> Sample:
    operands = {"x": floats(*shape), "p": places, "cos": floats(9, columns)}
    operands |= {"sin": floats(9, columns)}
    return Sample("RotaryEmbedding", operands, attributes, varies=("p",))


ROWS = np.array([[1, 2, 3], [5, 4, 0]])

FAMILIES: dict[str, list[Sample]] = {
    "layers": [
        activation("Gelu"),
        activation("Gelu", dtype=HALF),
        activation("BiasGelu", 8),
        activation("FastGelu"),
        activation("FastGelu", 8),
        activation("FastGelu", 8, dtype=HALF),
        activation("QuickGelu"),
        activation("QuickGelu", alpha=0.7),
        skip_norm("l", 2, 3, 8),
        skip_norm("sb", 1, 3, 8, epsilon=0.1),
        skip_norm("lb", 3, 8),
        skip_norm("s", 2, 3, 8, dtype=HALF),
        skip_norm("", 2, 3, 8),
        skip_norm("b", 2, 3, 8, epsilon=0.1),
        skip_norm("b", 2, 3, 8, dtype=HALF),
        Sample(
            "SimplifiedLayerNormalization",
            {"x": floats(2, 3, 8), "scale": floats(8)},
            {"epsilon": 0.01},
            domain="",
        ),
        Sample(
            "SimplifiedLayerNormalization",
            {"x": floats(2, 3, 8, dtype=HALF), "scale": floats(8)},
            {"axis": 2, "stash_type": 1},
            tolerance=1e-3,
            domain="",
        ),
        embeddings(""),
        embeddings("sm", epsilon=0.1),
        embeddings("smp"),
        quantised_embeddings(np.uint8, segments=True),
        quantised_embeddings(np.int8, segments=False),
    ],
    "rotary": [
        rotary((2, 3, 16), np.array([2]), 4),
        rotary((2, 3, 16), ROWS, 4, interleaved=1),
        rotary((2, 3, 20), ROWS, 4, num_heads=2, rotary_embedding_dim=8),
        rotary((2, 2, 3, 8), ROWS, 4),
        rotary((2, 2, 3, 10), np.array([1]), 4, num_heads=2, rotary_embedding_dim=8, interleaved=1),
    ],
    "adopted": [
        Sample("CDist", {"a": floats(5, 3), "b": floats(4, 3)}, varies=("b",), tolerance=1e-4),
        Sample("CDist", {"a": floats(5, 3), "b": floats(4, 3)}, {"metric": "euclidean"}),
        Sample("Trilu", {"x": floats(2, 4, 5)}),
        Sample("Trilu", {"x": floats(4, 5), "k": np.array(-1)}, {"upper": 0}),
        *(
            Sample("GridSample", {"x": floats(1, 2, 4, 5), "grid": floats(1, 3, 3, 2)}, given)
            for given in (
                {},
                {"mode": "bicubic", "padding_mode": "border"},
                {"mode": "nearest", "align_corners": 1, "padding_mode": "reflection"},
            )
        ),
    ],
}

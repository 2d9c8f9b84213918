"""Samples of onnxruntime's fused convolutions and products."""
# pyright: basic

from __future__ import annotations

from typing import Any

import numpy as np

from tests.compiler.frontend.microsoft.samples import Array, Sample

RNG = np.random.default_rng(11)


def floats(*shape: int, dtype: Any = np.float32) -> Array:
    return RNG.standard_normal(shape).astype(dtype)


def convolution(activation: str = "", *params: float, given: str = "bz", **attributes: Any):
    """A convolution with a bias (b) and an addend (z)."""
    if activation:
        attributes |= {"activation": activation}
    if params:
        attributes |= {"activation_params": list(params)}
    operands = {
        "x": floats(2, 4, 6, 5),
        "w": floats(6, 4, 3, 3),
        "b": floats(6) if "b" in given else None,
        "z": floats(2, 6, 4, 3) if "z" in given else None,
    }
    return Sample("FusedConv", operands, attributes, varies=("z",))


def gemm(activation: str = "", *, addend: bool = True, **attributes: Any):
    lhs = floats(*((7, 5) if attributes.get("transA") else (5, 7)))
    rhs = floats(*((3, 7) if attributes.get("transB") else (7, 3)))
    if activation:
        attributes |= {"activation": activation}
    return Sample("FusedGemm", {"a": lhs, "b": rhs, "c": floats(3) if addend else None}, attributes)


def product(lhs: tuple[int, ...], rhs: tuple[int, ...], dtype: Any = np.float32, **given: Any):
    operands = {"a": floats(*lhs, dtype=dtype), "b": floats(*rhs, dtype=dtype)}
    return Sample("FusedMatMul", operands, given, varies=("b",))


FAMILIES: dict[str, list[Sample]] = {
    "fused": [
        convolution(given=""),
        convolution("Relu"),
        convolution("Tanh", given="b"),
        convolution("Sigmoid", given="z"),
        convolution("LeakyRelu", 0.3),
        convolution("Clip", -0.5, 1.5),
        convolution("HardSigmoid", 0.15, 0.4),
        convolution("HardSwish", given="b"),
        gemm("Relu", alpha=0.5, beta=2.0),
        gemm("LeakyRelu", activation_alpha=0.3, transA=1),
        gemm("Elu", activation_alpha=0.7, transB=1),
        gemm("HardSigmoid", activation_alpha=0.15, activation_beta=0.4),
        gemm("Celu", activation_alpha=1.5),
        gemm("ThresholdedRelu", activation_alpha=0.7),
        gemm("Sigmoid", addend=False),
        gemm("Softplus"),
        gemm("Softsign"),
        gemm("Tanh"),
        product((2, 3, 4), (4, 5), alpha=0.25),
        product((2, 4, 3), (2, 5, 4), np.float64, transA=1, transB=1),
        product((3, 2, 4), (4, 2, 5), transBatchA=1, transBatchB=1),
        product((4, 2, 3), (5, 2, 4), transBatchA=1, transA=1, transBatchB=1, transB=1),
        product((4,), (2, 4, 5), transA=1),
        Sample("TransposeMatMul", {"a": floats(4, 3), "b": floats(4, 5)}, {"transA": 1}),
    ],
}

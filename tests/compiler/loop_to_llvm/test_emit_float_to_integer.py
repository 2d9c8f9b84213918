"""Floats to integers in vectors: saturated, NaN as 0."""

import math

import numpy as np
import pytest

from tests.compiler.loop_to_llvm.compiled_kernel import HOST, CompiledKernel, assembly

NUMBERS = [np.nan, np.inf, -np.inf, 1e30, -1e30, 0.0, -0.0, -0.9, 1e-40]
EDGES = [
    edge + step for edge in (-32768, -128, 127, 255, 32767, 65535) for step in (-1, -0.5, 0.5, 1)
]


def kernel(source: str, element: str, operation: str, lanes: int, count: int) -> str:
    return f"""
loop.kernel @k(%x: !loop.buffer<[{count}], {source}>, %y: !loop.buffer<[{count}], {element}>) {{
  loop.for %i = 0 to {count} vector({lanes}) {{
    %a = loop.load %x[%i] : !loop.buffer<[{count}], {source}>
    %b = arith.{operation} %a : {source} to i{element.removeprefix("ui").removeprefix("i")}
    loop.store %b, %y[%i] : !loop.buffer<[{count}], {element}>
  }}
}}"""


@pytest.mark.parametrize("source", ["f32", "f64"])
@pytest.mark.parametrize("bits", [8, 16, 32, 64])
@pytest.mark.parametrize("signed", [True, False])
def test_saturates(source: str, bits: int, signed: bool):
    rng = np.random.default_rng(0)
    x = np.array([*NUMBERS, *EDGES, *rng.uniform(-300, 300, 64), *rng.uniform(-9e4, 9e4, 64)])
    x = x.astype({"f32": np.float32, "f64": np.float64}[source])
    y = np.zeros(len(x), f"{'' if signed else 'u'}int{bits}")
    element, operation = (f"i{bits}", "fptosi") if signed else (f"ui{bits}", "fptoui")
    CompiledKernel(kernel(source, element, operation, HOST.lanes(4), len(x)))(x, y)
    assert y.tolist() == [saturated(number, np.iinfo(y.dtype)) for number in x.tolist()]


def saturated(number: float, info: np.iinfo) -> int:
    if math.isnan(number):
        return 0
    if math.isinf(number):
        return info.max if number > 0 else info.min
    return min(max(int(number), int(info.min)), int(info.max))


@pytest.mark.skipif(HOST.arch != "x86_64", reason="the names are those of x86")
def test_converts_all_lanes_at_once():
    text = assembly(kernel("f32", "ui8", "fptoui", HOST.lanes(4), 64))
    assert "cvttps2dq" in text
    assert "cvttss2si" not in text

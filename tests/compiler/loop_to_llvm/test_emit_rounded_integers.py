"""Rounded floats as integers of few bits: the same in vectors as one by one, at every extreme."""

import numpy as np
import pytest

from tests.compiler.loop_to_llvm.compiled_kernel import CompiledKernel, assembly
from tests.compiler.loop_to_llvm.test_emit_dot_product import BY_NAME

SIZE = 64
CONVERSIONS = {"i8": ("fptosi", np.int8), "ui8": ("fptoui", np.uint8), "i16": ("fptosi", np.int16)}


def kernel(element: str, offset: int, lanes: int = 16) -> str:
    """y[i] = element(roundeven(x[i]) + offset), saturated."""
    x, y = f"!loop.buffer<[{SIZE}], f32>", f"!loop.buffer<[{SIZE}], {element}>"
    conversion, stored = CONVERSIONS[element][0], element.removeprefix("u")
    return f"""
loop.kernel @k(%x: {x}, %y: {y}) {{
  loop.for %i = 0 to {SIZE} vector({lanes}) {{
    %a = loop.load %x[%i] : {x}
    %r = math.roundeven %a : f32
    %z = arith.constant {float(offset)} : f32
    %s = arith.addf %r, %z : f32
    %n = arith.{conversion} %s : f32 to {stored}
    loop.store %n, %y[%i] : {y}
  }}
}}"""


def numbers(low: int, high: int) -> np.ndarray:
    """Ties around zero and around both ends of a range, and what is far out of it."""
    near = [each + step for each in (low, 0, high) for step in np.arange(-3, 3, 0.5)]
    far = [4e6, 5e6, 8e6, 2e7, 3e9, 1e30, np.inf, np.nan, 0.49999997]
    both = [sign * each for each in far for sign in (1, -1)]
    return np.resize(np.array(near + both, np.float32), SIZE)


@pytest.mark.parametrize("offset", [0, 1, -5, 128, 255])
@pytest.mark.parametrize("element", CONVERSIONS)
def test_rounded_numbers_saturate_and_nan_is_zero(element: str, offset: int):
    dtype = CONVERSIONS[element][1]
    least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
    x, y = numbers(least - offset, most - offset), np.empty(SIZE, dtype)
    CompiledKernel(kernel(element, offset))(x, y)
    exact = np.clip(np.rint(x.astype(np.float64)) + offset, least, most)
    np.testing.assert_array_equal(y, np.where(np.isnan(x), 0, exact).astype(dtype))
    alone = np.empty_like(y)
    CompiledKernel(kernel(element, offset, lanes=1))(x, alone)
    np.testing.assert_array_equal(alone, y)


@pytest.mark.parametrize(("offset", "sums"), [(128, 1), (5, 2)])
def test_a_sum_rounds(offset: int, sums: int):
    code = assembly(kernel("ui8", offset), BY_NAME["x86-64-v4"])
    assert "rndscale" not in code
    assert code.count("vaddps") == sums * code.count("vpmovdb") > 0, "an even offset is in the sum"

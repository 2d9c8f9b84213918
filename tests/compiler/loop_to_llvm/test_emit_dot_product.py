"""Dot products of bytes: exact on every CPU level, in one instruction where there is one."""

import numpy as np
import pytest

from tests.compiler.loop_to_llvm.compiled_kernel import HOST, CompiledKernel, assembly
from weft.compiler.target import TARGETS
from weft.compiler.target.target import Target

BY_NAME = {target.name: target for target in TARGETS}
LEVELS = [HOST, *(BY_NAME[f"x86-64{level}"] for level in ("", "-v2", "-v3", "-v4"))]


def kernel(lanes: int, columns: int, first: str = "ui8", second: str = "i8") -> str:
    """`y[j] += sum_q x[q] * w[j, q]` over words of four bytes, for some lanes at a time."""
    extend = {"ui8": "extui", "i8": "extsi"}
    return f"""
loop.kernel @k(%x: !loop.buffer<[2, 5], {first}>, %w: !loop.buffer<[{columns}, 4], {second}>,
               %y: !loop.buffer<[2, {columns}], i32>) {{
  loop.for %i = 0 to 2 {{
    loop.for %j = 0 to {columns} vector({lanes}) {{
      loop.for %q = 0 to 4 unroll dot reduction(add) {{
        %a = loop.load %x[%i, %q + 1] : !loop.buffer<[2, 5], {first}>
        %b = loop.load %w[%j, %q] : !loop.buffer<[{columns}, 4], {second}>
        %s = loop.load %y[%i, %j] : !loop.buffer<[2, {columns}], i32>
        %c = arith.{extend[first]} %a : i8 to i32
        %d = arith.{extend[second]} %b : i8 to i32
        %p = arith.muli %c, %d : i32
        %t = arith.addi %s, %p : i32
        loop.store %t, %y[%i, %j] : !loop.buffer<[2, {columns}], i32>
      }}
    }}
  }}
}}"""


def extremes(shape: tuple[int, ...], dtype: type) -> np.ndarray:
    """Bytes, many of them the least or the greatest of their type."""
    info, rng = np.iinfo(dtype), np.random.default_rng(3)
    some = rng.integers(info.min, info.max, shape, endpoint=True)
    return np.where(rng.random(shape) < 0.5, rng.choice([info.min, info.max], shape), some).astype(
        dtype
    )


@pytest.mark.parametrize("target", LEVELS, ids=lambda each: each.name)
@pytest.mark.parametrize(("first", "second"), [("ui8", "i8"), ("i8", "ui8")])
@pytest.mark.parametrize("columns", [16, 21, 3])
def test_sums_are_exact(target: Target, first: str, second: str, columns: int):
    if not {each for each in target.features if each[0] == "+"} <= set(HOST.features):
        pytest.skip("this machine's CPU has not all of the features")
    dtypes = {"ui8": np.uint8, "i8": np.int8}
    x, w = extremes((2, 5), dtypes[first]), extremes((columns, 4), dtypes[second])
    y = np.arange(2 * columns, dtype=np.int32).reshape(2, columns)
    expected = y + x[:, 1:].astype(np.int32) @ w.T.astype(np.int32)
    CompiledKernel(kernel(target.lanes(4), columns, first, second), target=target)(x, w, y)
    np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize(
    ("name", "lanes", "instruction"),
    [
        ("x86-64", 4, "pmaddwd"),
        ("x86-64-v3", 8, "vpmaddwd"),
        ("x86-64-v4", 16, "vpmaddwd"),
        ("icelake-server", 16, "vpdpbusd"),
        ("sapphirerapids", 8, "vpdpbusd"),
    ],
)
def test_the_instruction(name: str, lanes: int, instruction: str):
    assert instruction in assembly(kernel(lanes, 16), BY_NAME[name])

"""Vector loops: remainders, masks, strides, gathers and layouts, against NumPy."""

import numpy as np
import pytest

from tests.compiler.loop_to_llvm.compiled_kernel import HOST, CompiledKernel, assembly, parse_kernel
from weft.compiler.loop_to_llvm.kernel import emit_kernel
from weft.compiler.target import TARGETS

BASELINES = [target for target in TARGETS if target.name in ("x86-64", "x86-64-v3")]


def add_kernel(extent: object, marks: str, symbols: str = "") -> str:
    return f"""
    loop.kernel @add{symbols}(%x: !loop.buffer<[{extent}], f32>,
                              %y: !loop.buffer<[{extent}], f32>) {{
      loop.for %i = 0 to {extent} {marks} {{
        %a = loop.load %x[%i] : !loop.buffer<[{extent}], f32>
        %b = arith.addf %a, %a : f32
        loop.store %b, %y[%i] : !loop.buffer<[{extent}], f32>
      }}
    }}"""


@pytest.mark.parametrize("marks", ["vector(16)", "unroll vector(16)", "parallel vector(8)"])
@pytest.mark.parametrize("extent", [0, 1, 7, 15, 16, 17, 31, 32, 33, 40])
def test_constant_extents_write_exactly_their_elements(extent: int, marks: str):
    x, y = np.arange(48, dtype=np.float32), np.full(48, -1, np.float32)
    CompiledKernel(add_kernel(extent, marks))(x, y)
    np.testing.assert_array_equal(y[:extent], 2 * x[:extent])
    assert (y[extent:] == -1).all()


@pytest.mark.parametrize("marks", ["", "vector(16)", "vector(8)", "parallel", "parallel vector(4)"])
def test_symbolic_extents_write_exactly_their_elements(marks: str):
    kernel = CompiledKernel(add_kernel("n", marks, "[n]"))
    for extent in range(41):
        x, y = np.arange(48, dtype=np.float32), np.full(48, -1, np.float32)
        kernel(x, y, sizes={"n": extent})
        np.testing.assert_array_equal(y[:extent], 2 * x[:extent])
        assert (y[extent:] == -1).all()


@pytest.mark.parametrize("target", BASELINES, ids=lambda target: target.name)
def test_narrow_targets_mask_too(target):
    kernel = CompiledKernel(add_kernel("n", "vector(16)", "[n]"), target=target)
    for extent in (0, 5, 16, 21):
        x, y = np.arange(48, dtype=np.float32), np.full(48, -1, np.float32)
        kernel(x, y, sizes={"n": extent})
        np.testing.assert_array_equal(y[:extent], 2 * x[:extent])
        assert (y[extent:] == -1).all()


@pytest.mark.parametrize("lanes", [8, 16])
def test_unrolled_vectors_of_a_bounded_extent_are_masked_without_a_branch(lanes: int):
    text = add_kernel("n", f"unroll vector({lanes})", "[n]").replace("0 to n", "0 to min(n, 24)")
    kernel = CompiledKernel(text)
    for extent in range(27):
        x, y = np.arange(48, dtype=np.float32), np.full(48, -1, np.float32)
        kernel(x, y, sizes={"n": extent})
        np.testing.assert_array_equal(y[: min(extent, 24)], 2 * x[: min(extent, 24)])
        assert (y[min(extent, 24) :] == -1).all()
    assert "br i1" not in emit_kernel(parse_kernel(text), HOST)


def copy_kernel(
    source: str, load: str, target: str, store: str, extent: object, symbols: str = ""
) -> str:
    return f"""
    loop.kernel @copy{symbols}(%x: {source}, %y: {target}) {{
      loop.for %i = 0 to {extent} vector(8) {{
        %a = loop.load %x[{load}] : {source}
        loop.store %a, %y[{store}] : {target}
      }}
    }}"""


@pytest.mark.parametrize("extent", [8, 13, 16, 21])
@pytest.mark.parametrize("stride", [2, 3, 4, 5, 7])
def test_strided_loads_take_every_nth_element(stride: int, extent: int):
    size = (extent - 1) * stride + 1
    source, target = f"!loop.buffer<[{size}], i32>", f"!loop.buffer<[{extent}], i32>"
    x, y = np.arange(size, dtype=np.int32), np.zeros(extent, np.int32)
    CompiledKernel(copy_kernel(source, f"{stride} * %i", target, "%i", extent))(x, y)
    np.testing.assert_array_equal(y, x[::stride])


@pytest.mark.parametrize("stride", [2, 3, 4])
def test_strided_loads_of_masked_lanes_are_shuffled(stride: int):
    source, target = f"!loop.buffer<[{stride} * n], f32>", "!loop.buffer<[n], f32>"
    text = copy_kernel(source, f"{stride} * %i", target, "%i", "n", "[n]")
    kernel = CompiledKernel(text)
    for n in range(20):
        x, y = np.arange(stride * n, dtype=np.float32), np.full(24, -1, np.float32)
        kernel(x, y, sizes={"n": n})
        np.testing.assert_array_equal(y[:n], x[::stride])
        assert (y[n:] == -1).all()
    assert "masked.gather" not in kernel.llvm


@pytest.mark.parametrize("extent", [8, 13])
def test_strided_stores_leave_the_elements_between(extent: int):
    source, target = f"!loop.buffer<[{extent}], f32>", f"!loop.buffer<[{3 * extent}], f32>"
    x, y = np.arange(extent, dtype=np.float32), np.full(3 * extent, -1, np.float32)
    CompiledKernel(copy_kernel(source, "%i", target, "3 * %i + 1", extent))(x, y)
    np.testing.assert_array_equal(y[1::3], x)
    assert (y[::3] == -1).all()
    assert (y[2::3] == -1).all()


@pytest.mark.parametrize("extent", [8, 13, 16, 21])
@pytest.mark.parametrize("times", [2, 3, 4, 8])
def test_repeating_loads_take_each_element_again(times: int, extent: int):
    size = -(-extent // times)
    source, target = f"!loop.buffer<[{size}], f32>", f"!loop.buffer<[{extent}], f32>"
    x, y = np.arange(size, dtype=np.float32), np.zeros(extent, np.float32)
    CompiledKernel(copy_kernel(source, f"(%i floordiv {times})", target, "%i", extent))(x, y)
    np.testing.assert_array_equal(y, x.repeat(times)[:extent])


def test_repeating_loads_read_a_vector_once():
    source, target = "!loop.buffer<[8], f32>", "!loop.buffer<[16], f32>"
    text = copy_kernel(source, "(%i floordiv 2)", target, "%i", 16)
    assert emit_kernel(parse_kernel(text), HOST).count("load <4 x float>") == 1


@pytest.mark.parametrize("extent", [24, 41])
@pytest.mark.parametrize("rows", [2, 3, 5])
def test_loads_out_of_several_rows_are_interleaved(rows: int, extent: int):
    columns = -(-extent // rows)
    source, target = f"!loop.buffer<[{rows}, {columns}], f32>", f"!loop.buffer<[{extent}], f32>"
    x, y = np.random.rand(rows, columns).astype(np.float32), np.zeros(extent, np.float32)
    index = f"(%i mod {rows}), (%i floordiv {rows})"
    CompiledKernel(copy_kernel(source, index, target, "%i", extent))(x, y)
    np.testing.assert_array_equal(y, x.T.reshape(-1)[:extent])


def test_no_lane_of_a_run_is_loaded_alone():
    source, target = "!loop.buffer<[2, 8], f32>", "!loop.buffer<[16], f32>"
    text = copy_kernel(source, "(%i mod 2), (%i floordiv 2)", target, "%i", 16)
    assert " = load float," not in emit_kernel(parse_kernel(text), HOST)


@pytest.mark.parametrize("extent", [8, 19])
def test_descending_loads_reverse(extent: int):
    buffer = f"!loop.buffer<[{extent}], f32>"
    x, y = np.arange(extent, dtype=np.float32), np.zeros(extent, np.float32)
    CompiledKernel(copy_kernel(buffer, f"{extent - 1} - %i", buffer, "%i", extent))(x, y)
    np.testing.assert_array_equal(y, x[::-1])


def test_columns_of_symbolic_rows_are_gathered_and_scattered():
    source, target = "!loop.buffer<[n, m], f32>", "!loop.buffer<[n, m], f32>"
    kernel = CompiledKernel(copy_kernel(source, "%i, m - 1", target, "%i, 0", "n", "[n, m]"))
    for n in (0, 3, 8, 11, 16):
        x, y = np.random.default_rng(n).random((n, 5), np.float32), np.zeros((n, 5), np.float32)
        kernel(x, y, sizes={"n": n, "m": 5})
        np.testing.assert_array_equal(y[:, 0], x[:, 4])
        assert (y[:, 1:] == 0).all()


@pytest.mark.parametrize("offset", [0, 3])
@pytest.mark.parametrize("panel", [4, 8, 16])
def test_vectors_that_cross_panels_are_put_together(panel: int, offset: int):
    outer, inner, panels = f"(d0 floordiv {panel})", f"(d0 mod {panel})", 32 // panel
    blocked = f"!loop.buffer<[32], f32, [{outer}, {inner}] in [{panels}, {panel}]>"
    stored = f"!loop.buffer<[32], f32, [{inner}, {outer}] in [{panel}, {panels}]>"
    x, y = np.arange(32, dtype=np.float32), np.zeros(32, np.float32)
    extent = 32 - offset
    CompiledKernel(copy_kernel(blocked, f"%i + {offset}", stored, "%i", extent))(x, y)
    np.testing.assert_array_equal(y.reshape(panel, -1).T.ravel()[:extent], x[offset:])


def test_loaded_subscripts_gather_and_scatter():
    text = """
    loop.kernel @permute[n](%x: !loop.buffer<[n], f32>, %p: !loop.buffer<[n], i64>,
                            %y: !loop.buffer<[n], f32>, %z: !loop.buffer<[n], f32>) {
      loop.for %i = 0 to n vector(8) {
        %k = loop.load %p[%i] : !loop.buffer<[n], i64>
        %j = arith.index_cast %k : i64 to index
        %a = loop.load %x[%j] : !loop.buffer<[n], f32>
        loop.store %a, %y[%i] : !loop.buffer<[n], f32>
        %b = loop.load %x[%i] : !loop.buffer<[n], f32>
        loop.store %b, %z[%j] : !loop.buffer<[n], f32>
      }
    }"""
    kernel = CompiledKernel(text)
    for n in (1, 8, 21):
        random = np.random.default_rng(n)
        x, p = random.random(n, np.float32), random.permutation(n)
        y, z = np.zeros(n, np.float32), np.zeros(n, np.float32)
        kernel(x, p, y, z, sizes={"n": n})
        np.testing.assert_array_equal(y, x[p])
        np.testing.assert_array_equal(z[p], x)


def test_index_values_vary_over_lanes():
    text = """
    loop.kernel @iota(%y: !loop.buffer<[21], i64>) {
      loop.for %i = 0 to 21 vector(8) {
        %v = loop.index 3 * (%i floordiv 2) + max(%i mod 5, 2) - 7
        %w = arith.index_cast %v : index to i64
        loop.store %w, %y[%i] : !loop.buffer<[21], i64>
      }
    }"""
    y = np.zeros(21, np.int64)
    CompiledKernel(text)(y)
    i = np.arange(21)
    np.testing.assert_array_equal(y, 3 * (i // 2) + np.maximum(i % 5, 2) - 7)


def test_division_of_negative_indices_rounds_down():
    text = """
    loop.kernel @floor(%y: !loop.buffer<[21], i64>, %z: !loop.buffer<[21], i64>) {
      loop.for %i = 0 to 21 {
        %v = loop.index (%i - 10) floordiv 4
        %w = arith.index_cast %v : index to i64
        loop.store %w, %y[%i] : !loop.buffer<[21], i64>
        %m = loop.index (%i - 10) mod 4
        %n = arith.index_cast %m : index to i64
        loop.store %n, %z[%i] : !loop.buffer<[21], i64>
      }
    }"""
    y, z = np.zeros(21, np.int64), np.zeros(21, np.int64)
    CompiledKernel(text)(y, z)
    i = np.arange(21) - 10
    np.testing.assert_array_equal(y, i // 4)
    np.testing.assert_array_equal(z, i % 4)


def test_uniform_values_are_spread_and_stored_once():
    text = """
    loop.kernel @scale(%x: !loop.buffer<[3, 12], f32>, %s: !loop.buffer<[3], f32>,
                       %y: !loop.buffer<[3, 12], f32>, %t: !loop.buffer<[3], f32>) {
      loop.for %r = 0 to 3 {
        loop.for %i = 0 to 12 vector(8) {
          %a = loop.load %x[%r, %i] : !loop.buffer<[3, 12], f32>
          %b = loop.load %s[%r] : !loop.buffer<[3], f32>
          loop.store %b, %t[%r] : !loop.buffer<[3], f32>
          %c = arith.mulf %b, %a : f32
          loop.store %c, %y[%r, %i] : !loop.buffer<[3, 12], f32>
        }
      }
    }"""
    random = np.random.default_rng(0)
    x, s = random.random((3, 12), np.float32), random.random(3, np.float32)
    y, t = np.zeros_like(x), np.zeros_like(s)
    CompiledKernel(text)(x, s, y, t)
    np.testing.assert_array_equal(y, x * s[:, None])
    np.testing.assert_array_equal(t, s)


def test_a_loop_inside_a_vector_loop_runs_once_for_all_lanes():
    text = """
    loop.kernel @columns(%x: !loop.buffer<[5, 13], f32>, %y: !loop.buffer<[13], f32>) {
      %zero = arith.constant 0.0 : f32
      loop.for %j = 0 to 13 vector(8) {
        loop.store %zero, %y[%j] : !loop.buffer<[13], f32>
        loop.for %i = 0 to 5 {
          %a = loop.load %x[%i, %j] : !loop.buffer<[5, 13], f32>
          %b = loop.load %y[%j] : !loop.buffer<[13], f32>
          %c = arith.addf %a, %b : f32
          loop.store %c, %y[%j] : !loop.buffer<[13], f32>
        }
      }
    }"""
    x, y = np.arange(65, dtype=np.float32).reshape(5, 13), np.zeros(13, np.float32)
    CompiledKernel(text)(x, y)
    np.testing.assert_array_equal(y, x.sum(0))


def test_stores_of_all_lanes_to_one_element_are_refused():
    text = """
    loop.kernel @sum(%x: !loop.buffer<[16], f32>, %y: !loop.buffer<[1], f32>) {
      loop.for %i = 0 to 16 vector(8) {
        %a = loop.load %x[%i] : !loop.buffer<[16], f32>
        loop.store %a, %y[0] : !loop.buffer<[1], f32>
      }
    }"""
    with pytest.raises(AssertionError, match="all of its lanes to one element"):
        CompiledKernel(text)


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_every_target_vectorises(target):
    text = assembly(add_kernel("n", "vector(16)", "[n]"), target)
    on_x86 = {16: "%xmm", 32: "%ymm", 64: "%zmm"}.get(target.vector_bytes)
    wide = {"aarch64": ".4s", "riscv64": "vfadd.vv", "wasm32": "f32x4.add"}.get(target.arch, on_x86)
    assert (wide in text) == (target.vector_bytes > 4)

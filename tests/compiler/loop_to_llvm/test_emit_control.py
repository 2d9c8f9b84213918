"""Loops, branches, parallel bodies and what they capture, against NumPy."""

import numpy as np
import pytest

from tests.compiler.loop_to_llvm.compiled_kernel import HOST, CompiledKernel, parse_kernel
from weft.compiler.loop_to_llvm.kernel import emit_kernel


def test_triangular_bounds_and_steps():
    text = """
    loop.kernel @triangle[n](%y: !loop.buffer<[n, n], f32>) {
      %one = arith.constant 1.0 : f32
      loop.for %i = 1 to n step 2 {
        loop.for %j = %i to min(%i + 3, n) {
          loop.store %one, %y[%i, %j] : !loop.buffer<[n, n], f32>
        }
      }
    }"""
    kernel = CompiledKernel(text)
    for n in range(9):
        y, expected = np.zeros((n, n), np.float32), np.zeros((n, n), np.float32)
        for i in range(1, n, 2):
            expected[i, i : i + 3] = 1
        kernel(y, sizes={"n": n})
        np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize(
    "marks", ["", "unroll", "vector(4)", "unroll vector(4)", "parallel vector(4)"]
)
def test_stepped_loops_touch_only_their_indices(marks: str):
    text = f"""
    loop.kernel @stepped(%y: !loop.buffer<[40], f32>) {{
      %one = arith.constant 1.0 : f32
      loop.for %i = 5 to 36 step 3 {marks} {{ loop.store %one, %y[%i] : !loop.buffer<[40], f32> }}
    }}"""
    y = np.zeros(40, np.float32)
    CompiledKernel(text)(y)
    np.testing.assert_array_equal(np.flatnonzero(y), np.arange(5, 36, 3))


def test_parallel_bodies_see_what_they_capture():
    text = """
    loop.kernel @capture[n, m](%x: !loop.buffer<[n, m], f32>, %s: !loop.buffer<[n], f32>,
                               %y: !loop.buffer<[n, m], f32>) {
      loop.for %i = 0 to n {
        %scale = loop.load %s[%i] : !loop.buffer<[n], f32>
        loop.for %j = 0 to m parallel {
          %a = loop.load %x[%i, %j] : !loop.buffer<[n, m], f32>
          %c = arith.mulf %a, %scale : f32
          loop.store %c, %y[%i, %j] : !loop.buffer<[n, m], f32>
        }
      }
    }"""
    kernel = CompiledKernel(text)
    assert "parallel_for" in kernel.llvm
    x, s = (
        np.random.default_rng(0).random((4, 7)).astype(np.float32),
        np.arange(4, dtype=np.float32),
    )
    y = np.zeros_like(x)
    kernel(x, s, y, sizes={"n": 4, "m": 7})
    np.testing.assert_array_equal(y, x * s[:, None])


def test_a_parallel_loop_inside_another_is_serial():
    text = """
    loop.kernel @nested[n](%y: !loop.buffer<[n, n], f32>) {
      %one = arith.constant 1.0 : f32
      loop.for %i = 0 to n parallel {
        loop.for %j = 0 to n parallel { loop.store %one, %y[%i, %j] : !loop.buffer<[n, n], f32> }
      }
    }"""
    kernel = CompiledKernel(text)
    assert kernel.llvm.count("define") == 2
    y = np.zeros((5, 5), np.float32)
    kernel(y, sizes={"n": 5})
    assert (y == 1).all()


def test_a_short_parallel_loop_is_not_outlined():
    text = """
    loop.kernel @short(%y: !loop.buffer<[100], f32>) {
      %one = arith.constant 1.0 : f32
      loop.for %i = 0 to 100 parallel { loop.store %one, %y[%i] : !loop.buffer<[100], f32> }
    }"""
    assert "parallel" not in CompiledKernel(text).llvm


def test_scratch_belongs_to_an_iteration():
    text = """
    loop.kernel @rows[n](%x: !loop.buffer<[n, 40], f32>, %y: !loop.buffer<[n, 40], f32>) {
      loop.for %i = 0 to n parallel {
        %t = loop.alloc scratch : !loop.buffer<[40], f32>
        loop.for %j = 0 to 40 vector(16) {
          %a = loop.load %x[%i, %j] : !loop.buffer<[n, 40], f32>
          loop.store %a, %t[%j] : !loop.buffer<[40], f32>
        }
        loop.for %j = 0 to 40 vector(16) {
          %a = loop.load %t[39 - %j] : !loop.buffer<[40], f32>
          loop.store %a, %y[%i, %j] : !loop.buffer<[n, 40], f32>
        }
      }
    }"""
    x = np.arange(120, dtype=np.float32).reshape(3, 40)
    y = np.zeros_like(x)
    CompiledKernel(text)(x, y, sizes={"n": 3})
    np.testing.assert_array_equal(y, x[:, ::-1])


def test_branches_take_one_way():
    text = """
    loop.kernel @sign(%x: !loop.buffer<[8], f32>, %y: !loop.buffer<[8], i8>) {
      %zero = arith.constant 0.0 : f32
      %plus = arith.constant 1 : i8
      %minus = arith.constant -1 : i8
      loop.for %i = 0 to 8 {
        %a = loop.load %x[%i] : !loop.buffer<[8], f32>
        %c = arith.cmpf ogt, %a, %zero : f32
        loop.if %c { loop.store %plus, %y[%i] : !loop.buffer<[8], i8> }
        else { loop.store %minus, %y[%i] : !loop.buffer<[8], i8> }
      }
    }"""
    x = np.array([1, -1, 0, 5, -3, 2, np.nan, 9], np.float32)
    y = np.zeros(8, np.int8)
    CompiledKernel(text)(x, y)
    np.testing.assert_array_equal(y, np.where(x > 0, 1, -1))


def test_while_repeats_until_its_condition_fails():
    text = """
    loop.kernel @collatz(%x: !loop.buffer<[2], i64>) {
      %one = arith.constant 1 : i64
      %two = arith.constant 2 : i64
      %three = arith.constant 3 : i64
      loop.while {
        %v = loop.load %x[0] : !loop.buffer<[2], i64>
        %c = arith.cmpi ne, %v, %one : i64
        loop.condition %c
      } do {
        %v = loop.load %x[0] : !loop.buffer<[2], i64>
        %h = arith.divsi %v, %two : i64
        %r = arith.remsi %v, %two : i64
        %odd = arith.cmpi eq, %r, %one : i64
        %t = arith.muli %v, %three : i64
        %u = arith.addi %t, %one : i64
        %w = arith.select %odd, %u, %h : i64
        loop.store %w, %x[0] : !loop.buffer<[2], i64>
        %n = loop.load %x[1] : !loop.buffer<[2], i64>
        %m = arith.addi %n, %one : i64
        loop.store %m, %x[1] : !loop.buffer<[2], i64>
      }
    }"""
    x = np.array([27, 0])
    CompiledKernel(text)(x)
    np.testing.assert_array_equal(x, [1, 111])


def test_loaded_bounds_limit_a_loop():
    text = """
    loop.kernel @ragged(%n: !loop.buffer<[4], i64>, %y: !loop.buffer<[4, 20], f32>) {
      %one = arith.constant 1.0 : f32
      loop.for %i = 0 to 4 parallel {
        %k = loop.load %n[%i] : !loop.buffer<[4], i64>
        %e = arith.index_cast %k : i64 to index
        loop.for %j = 0 to %e vector(8) { loop.store %one, %y[%i, %j] : !loop.buffer<[4, 20], f32> }
      }
    }"""
    n, y = np.array([0, 3, 8, 20]), np.zeros((4, 20), np.float32)
    CompiledKernel(text)(n, y)
    np.testing.assert_array_equal(y.sum(1), n)


@pytest.mark.parametrize("marks", ["", "vector(8)", "parallel", "parallel vector(8)"])
def test_bounds_that_cross_run_nothing(marks: str):
    text = f"""
    loop.kernel @crossed[n](%b: !loop.buffer<[2], i64>, %y: !loop.buffer<[n], f32>) {{
      %one = arith.constant 1.0 : f32
      %l = loop.load %b[0] : !loop.buffer<[2], i64>
      %u = loop.load %b[1] : !loop.buffer<[2], i64>
      %lower = arith.index_cast %l : i64 to index
      %upper = arith.index_cast %u : i64 to index
      loop.for %i = %lower to %upper {marks} {{ loop.store %one, %y[%i] : !loop.buffer<[n], f32> }}
    }}"""
    kernel = CompiledKernel(text)
    for lower, upper in ((10, 7), (20, 20), (19, 3), (3, 19)):
        y = np.zeros(40, np.float32)
        kernel(np.array([lower, upper]), y, sizes={"n": 40})
        np.testing.assert_array_equal(np.flatnonzero(y), np.arange(lower, upper))


def test_sizes_of_zero_divide_nothing():
    text = """
    loop.kernel @wrap[n, m](%x: !loop.buffer<[m], f32>, %y: !loop.buffer<[n], f32>) {
      loop.for %i = 0 to n {
        %a = loop.load %x[%i mod m] : !loop.buffer<[m], f32>
        loop.store %a, %y[%i] : !loop.buffer<[n], f32>
      }
      loop.for %i = 0 to n floordiv m {
        %a = loop.load %x[0] : !loop.buffer<[m], f32>
        loop.store %a, %y[%i * (n floordiv m)] : !loop.buffer<[n], f32>
      }
    }"""
    kernel = CompiledKernel(text)
    kernel(np.zeros(0, np.float32), np.zeros(0, np.float32), sizes={"n": 0, "m": 0})
    x, y = np.array([1, 2, 3], np.float32), np.zeros(8, np.float32)
    kernel(x, y, sizes={"n": 8, "m": 3})
    np.testing.assert_array_equal(y, [1, 2, 1, 1, 2, 3, 1, 2])


def test_equal_kernels_give_equal_text():
    text = """
    loop.kernel @weave[n, m](%p: !loop.buffer<[n], i64>, %y: !loop.buffer<[n, m], f32>) {
      %one = arith.constant 1.0 : f32
      loop.for %i = 0 to n {
        loop.for %j = 0 to m {
          %v = loop.load %p[%i] : !loop.buffer<[n], i64>
          %k = arith.index_cast %v : i64 to index
          %t = loop.index (%i + %k) * (%j + %i) * (n + %j) + min(%k * %i, %j * %i, m)
          loop.store %one, %y[%t mod n, (%t * %k) mod m] : !loop.buffer<[n, m], f32>
        }
      }
    }"""
    keep = [parse_kernel(text) for _ in range(8)]
    assert len({emit_kernel(kernel, HOST) for kernel in keep}) == 1

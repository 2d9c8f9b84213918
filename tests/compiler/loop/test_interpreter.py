"""The oracle itself, against NumPy and against mistakes that it has to notice."""

import math

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects.builtin import BFloat16Type, IntegerType, ModuleOp, Signedness, UnitAttr
from xdsl.ir import Block

from tests.compiler.loop.interpreter import run_kernel, run_program
from tests.compiler.loop.kernels import arguments_of, kernel, loops, matmul, prefix_sum
from weft.compiler.loop.primitives import pack, panels
from weft.dialects.expr import Expr
from weft.dialects.loop.builder import LoopBuilder
from weft.dialects.loop.ops import AllocOp, ConditionOp, WhileOp
from weft.dialects.loop.program import CallOp, KernelOp, ProgramOp, ViewOp, WeightOp
from weft.dialects.loop.scalar import BOOL, F32
from weft.dialects.loop.types import buffer
from weft.dialects.weights import WeightStore

I8 = IntegerType(8)
U8 = IntegerType(8, Signedness.UNSIGNED)


def elementwise(function, *elements, result=None) -> KernelOp:
    """y[i] = function(x0[i], x1[i], ...)."""

    def ew(b: LoopBuilder, *buffers):
        *sources, target = buffers
        with b.loops(["n"], "i") as (i,):
            value = function(*(b.load(source, (i,)) for source in sources))
            b.store(target, (i,), value.cast(target.type.element))

    operands = {f"x{p}": buffer(["n"], element) for p, element in enumerate(elements)}
    return kernel(ew, ["n"], **operands, y=buffer(["n"], result or elements[0]))


def evaluate(op: KernelOp, *arrays, dtype):
    return run_kernel(op, *arrays, np.zeros(len(arrays[0]), dtype), n=len(arrays[0]))[-1]


BYTES = st.lists(st.tuples(st.integers(0, 255), st.integers(0, 255)), min_size=2, max_size=6)
INTEGER_FUNCTIONS = {
    "add": (lambda a, b: a + b, lambda a, b: a + b),
    "sub": (lambda a, b: a - b, lambda a, b: a - b),
    "mul": (lambda a, b: a * b, lambda a, b: a * b),
    "max": (lambda a, b: a.maximum(b), np.maximum),
    "min": (lambda a, b: a.minimum(b), np.minimum),
    "and": (lambda a, b: a & b, np.bitwise_and),
    "xor": (lambda a, b: a ^ b, np.bitwise_xor),
    "invert": (lambda a, b: ~a, lambda a, b: ~a),
    "shift": (lambda a, b: a.shift_right(2), lambda a, b: a >> 2),
}


@given(pairs=BYTES, name=st.sampled_from(list(INTEGER_FUNCTIONS)), signed=st.booleans())
def test_integers_wrap_as_in_numpy(pairs, name: str, signed: bool):
    dtype = np.int8 if signed else np.uint8
    left, right = (np.array(side, np.uint8).view(dtype) for side in zip(*pairs, strict=True))
    function, expected = INTEGER_FUNCTIONS[name]
    element = I8 if signed else U8
    got = evaluate(elementwise(function, element, element), left, right, dtype=dtype)
    np.testing.assert_array_equal(got, expected(left, right))


@given(pairs=BYTES, signed=st.booleans())
def test_integer_division_rounds_towards_zero(pairs, signed: bool):
    dtype = np.int8 if signed else np.uint8
    left, right = (np.array(side, np.uint8).view(dtype) for side in zip(*pairs, strict=True))
    right = np.where(right == 0, 1, right).astype(dtype)
    element = I8 if signed else U8
    exact = np.trunc(left.astype(float) / right).astype(int).astype(dtype)
    divided = evaluate(elementwise(lambda a, b: a / b, element, element), left, right, dtype=dtype)
    np.testing.assert_array_equal(divided, exact)
    op = elementwise(lambda a, b: a.remainder(b), element, element)
    left_over = (left.astype(int) - exact.astype(int) * right).astype(dtype)
    np.testing.assert_array_equal(evaluate(op, left, right, dtype=dtype), left_over)


@pytest.mark.parametrize("predicate", ["eq", "ne", "lt", "le", "gt", "ge"])
@pytest.mark.parametrize("element", [I8, U8, F32], ids=["i8", "u8", "f32"])
def test_comparisons_agree_with_numpy(predicate: str, element):
    dtype = {I8: np.int8, U8: np.uint8, F32: np.float32}[element]
    left = np.array([0, 1, 127, 200, 3], np.uint8).view(np.uint8 if dtype == np.uint8 else np.int8)
    left, right = left.astype(dtype), left[::-1].astype(dtype)
    if element is F32:
        left[0] = np.nan
    op = elementwise(lambda a, b: a.compare(predicate, b), element, element, result=BOOL)
    names = {"eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal"}
    names |= {"gt": "greater", "ge": "greater_equal"}
    expected = getattr(np, names[predicate])(left, right)
    np.testing.assert_array_equal(evaluate(op, left, right, dtype=bool), expected)


def test_float_to_integer_saturates():
    x = np.array([1.9, -1.9, 300, -300, np.nan, np.inf], np.float32)
    for element, dtype, expected in (
        (I8, np.int8, [1, -1, 127, -128, 0, 127]),
        (U8, np.uint8, [1, 0, 255, 0, 0, 255]),
    ):
        got = evaluate(elementwise(lambda a: a, F32, result=element), x, dtype=dtype)
        np.testing.assert_array_equal(got, expected)


def test_bfloat16_is_computed_in_single_precision_and_rounded_once():
    x = np.array([1.0, 3.0, 257.0], ml_dtypes.bfloat16)
    op = elementwise(lambda a: a * 3 + 1, BFloat16Type())
    expected = (x.astype(np.float32) * 3 + 1).astype(ml_dtypes.bfloat16)
    np.testing.assert_array_equal(evaluate(op, x, dtype=ml_dtypes.bfloat16), expected)


MATH = {
    "exp": math.exp,
    "log": math.log,
    "sqrt": math.sqrt,
    "sin": math.sin,
    "cos": math.cos,
    "tanh": math.tanh,
    "erf": math.erf,
    "gelu": lambda value: value * (1 + math.erf(value / math.sqrt(2))) / 2,
    "floor": math.floor,
    "ceil": math.ceil,
    "roundeven": round,
    "absf": abs,
    "rsqrt": lambda value: value**-0.5,
}


@pytest.mark.parametrize("name", MATH)
def test_math_rounds_to_single_precision(name: str):
    x = np.array([0.25, 1.5, 2.5, 3.0], np.float32)
    got = evaluate(elementwise(lambda a: a.math(name), F32), x, dtype=np.float32)
    np.testing.assert_allclose(got, [MATH[name](float(v)) for v in x], rtol=3e-7)


def test_matmul_agrees_with_numpy():
    op = matmul()
    a, b, bias, out = arguments_of(op)
    np.testing.assert_array_equal(run_kernel(op, a, b, bias, out)[-1], np.maximum(a @ b + bias, 0))


def test_scramble_runs_parallel_loops_backwards():
    op = prefix_sum()
    arguments = arguments_of(op)
    forwards = run_kernel(op, *arguments)[1]
    loops(op, "i")[0].parallel = UnitAttr()
    assert not np.array_equal(run_kernel(op, *arguments, scramble=True)[1], forwards)


def test_subscripts_out_of_bounds_are_noticed():
    def beyond(b: LoopBuilder, x):
        with b.loops([4], "i") as (i,):
            b.store(x, (i - 1,), b.constant(0, F32))

    with pytest.raises(IndexError, match="below 4, got -1"):
        run_kernel(kernel(beyond, x=[4]), np.zeros(4, np.float32))


def test_padding_of_a_layout_holds_no_number():
    def padding(b: LoopBuilder, x, y):
        with b.loops([4], "i") as (i,):
            b.store(y, (i,), b.load(x, (i,)))

    op = kernel(padding, x=[5], y=[5])
    x, y = op.body.block.args
    pack(y, panels(y.type, 0, 4))
    zeros = np.zeros(5, np.float32)
    assert list(run_kernel(op, zeros + 1, zeros)[1]) == [1, 1, 1, 1, 0]


def test_fresh_buffers_hold_no_number():
    def fresh(b: LoopBuilder, y):
        t = b.temporary([2], F32)
        b.store(y, (0,), b.load(t, (0,)))

    assert np.isnan(run_kernel(kernel(fresh, y=[1]), np.zeros(1, np.float32))[0][0])


def test_while_and_if():
    def collatz(b: LoopBuilder, n, steps):
        loop = b.builder.insert(WhileOp.build(regions=[[Block()], [Block()]]))
        test, body = (LoopBuilder(region.block) for region in (loop.condition, loop.body))
        test.builder.insert(ConditionOp.build(operands=[(test.load(n, (0,)) > 1).value]))
        value = body.load(n, (0,))
        odd = body.load(n, (0,)).remainder(2).compare("eq", 1)
        body.store(n, (0,), value / 2)
        with body.when(odd):
            body.store(n, (0,), value * 3 + 1)
        body.store(steps, (0,), body.load(steps, (0,)) + 1)

    i32 = buffer([1], IntegerType(32))
    op = kernel(collatz, n=i32, steps=i32)
    n, steps = run_kernel(op, np.array([6], np.int32), np.array([0], np.int32))
    assert (n[0], steps[0]) == (1, 8)


def test_a_program_calls_kernels_with_weights_and_sizes():
    def scale(b: LoopBuilder, x, w, y):
        with b.loops(["n", 3], "ij") as (i, j):
            b.store(y, (i, j), b.load(x, (i, j)) * b.load(w, (j,)))

    op = kernel(scale, ["n"], x=["n", 3], w=[3], y=["n", 3])
    rows = Expr.of("batch")
    flat, shaped = buffer([rows * 3], F32), buffer([rows, 3], F32)
    program = ProgramOp.of("main", ["batch"], [flat, shaped], 1)
    x, y = program.body.block.args
    view = ViewOp.of(x, shaped)
    weight = WeightOp.of("w", buffer([3], F32))
    between = AllocOp.of(shaped)
    calls = [
        CallOp.of("scale", [rows], [view.result, weight.result, between.result]),
        CallOp.of("scale", [rows], [between.result, weight.result, y]),
    ]
    program.body.block.add_ops([view, weight, between, *calls])
    module = ModuleOp([op, program])
    weights = WeightStore()
    weights.add("w", np.array([1, 2, 3], np.float32))
    (got,) = run_program(module, np.arange(6, dtype=np.float32), weights=weights, batch=2)
    expected = np.arange(6, dtype=np.float32).reshape(2, 3) * np.array([1, 4, 9])
    np.testing.assert_array_equal(got, expected)

"""One table of dtypes in every mode: NumPy's own, eager tensors, traces and source."""

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from weft import Spec, Tensor
from weft.source.interpret import read_function
from weft.tracing.trace import record

DTYPES = ("bool", "uint8", "int32", "int64", "float16", "float32", "float64")
FEW = ("bool", "uint8", "int64", "float16", "float32")

BESIDE_NUMBERS = {
    "an int": lambda x: (x + 1, 1 * x, x // 2, x < 1),
    "a float": lambda x: (x * 0.5, 0.5 + x, x / 2.0, x > 0.5),
    "a quotient": lambda x: (x / 2, 1 / (x + 1)),
}

OF_ONE = {
    "sums": lambda x: (wnp.sum(x), wnp.sum(x, 0), wnp.prod(x), x.sum(), x.prod()),
    "means": lambda x: (wnp.mean(x), wnp.var(x), wnp.std(x, 0), x.mean()),
    "extrema": lambda x: (wnp.max(x), wnp.argmax(x), wnp.any(x), wnp.all(x)),
    "cumulative": lambda x: wnp.cumulative_sum(x),
    "functions": lambda x: (wnp.where(x > 0, x, 1), wnp.maximum(x, 1), wnp.zeros_like(x)),
}

OF_TWO = {
    "arithmetic": lambda x, y: (x + y, x * y, x / y, x == y),
    "choices": lambda x, y: (wnp.where(x > 0, x, y), wnp.maximum(x, y), wnp.concat([x, y])),
}


def leaves(found):
    return found if isinstance(found, tuple) else (found,)


def of_graph(module, places):
    block = module.body.block.first_op.body.block
    from weft.dialects.graph.core.dtypes import numpy_dtype
    from weft.dialects.graph.core.types import type_of

    found = [numpy_dtype(type_of(value).element) for value in block.last_op.operands]
    return found[:places]


def check(function, *arrays):
    with np.errstate(all="ignore"):
        wanted = [np.asarray(each).dtype for each in leaves(function(*arrays))]
    specs = [Spec(each.dtype.name, each.shape) for each in arrays]
    assert of_graph(record(function, *specs).module, len(wanted)) == wanted
    assert of_graph(read_function(function, specs, {}).module, len(wanted)) == wanted
    return wanted


def array(dtype):
    return np.array([1, 0, 1]).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_numbers_beside_tensors(dtype):
    for name, function in BESIDE_NUMBERS.items():
        if dtype == "bool" and name == "an int":
            continue  # NumPy subtracts and divides no bools either
        check(function, array(dtype))


@pytest.mark.parametrize("dtype", DTYPES)
def test_functions_of_one_tensor(dtype):
    for function in OF_ONE.values():
        check(function, array(dtype))


@pytest.mark.parametrize("first", FEW)
@pytest.mark.parametrize("second", FEW)
def test_two_tensors(first, second):
    for function in OF_TWO.values():
        if (first, second) != ("bool", "bool"):
            check(function, array(first), array(second))


@pytest.mark.parametrize("dtype", ["bool", "int32", "float32"])
def test_eager_tensors(dtype):
    for function in (*BESIDE_NUMBERS.values(), *OF_ONE.values()):
        if dtype == "bool" and function is BESIDE_NUMBERS["an int"]:
            continue
        wanted = check(function, array(dtype))
        assert [each.dtype for each in leaves(function(Tensor(array(dtype))))] == wanted
    wanted = check(OF_TWO["arithmetic"], array(dtype), array("float32"))
    found = OF_TWO["arithmetic"](Tensor(array(dtype)), Tensor(array("float32")))
    assert [each.dtype for each in found] == wanted


@pytest.mark.parametrize(
    "function",
    [np.add, np.multiply, np.maximum, np.minimum, lambda a, b: a * True + b],
)
def test_two_bools_are_numbers_of_one_bit(function):
    a, b = np.array([True, False, True]), np.array([True, True, False])
    expected = function(a, b), np.square(a)
    found = [function(weft.Tensor(a), weft.Tensor(b)).numpy(), np.square(weft.Tensor(a)).numpy()]
    for got in (found, weft.jit(lambda a, b: (function(a, b), np.square(a)))(a, b)):
        for mine, other in zip(got, expected, strict=True):
            np.testing.assert_array_equal(mine, other)
            assert mine.dtype == other.dtype

"""Tensors without elements: dims that are 0 in the model, and dims that turn out 0 in a call."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import ModelProto, helper, parser
from onnx.reference import ReferenceEvaluator

import weft

HEADER = '<ir_version: 10, opset_import: ["" : 21]>'
NETWORKS = {
    "relu": "(float[n,4] x) => (float[n,4] y) { y = Relu(x) }",
    "stretched": "(float[n,4] x, float[n,1] z) => (float[n,4] y) { y = Add(x, z) }",
    "softmax_of_no_rows": "(float[n,m] x) => (float[n,m] y) { y = Softmax(x) }",
    "sum_over_none": """(float[n,4] x) => (float[1,4] y)
        { a = Constant<value_ints=[0]>() y = ReduceSum(x, a) }""",
    "maximum_over_none": """(float[3,m] x) => (float[3] y)
        { a = Constant<value_ints=[1]>() y = ReduceMax<keepdims=0>(x, a) }""",
    "matmul_of_no_rows": "(float[n,8] x, float[8,16] z) => (float[n,16] y) { y = MatMul(x, z) }",
    "matmul_over_none": "(float[3,m] x, float[m,16] z) => (float[3,16] y) { y = MatMul(x, z) }",
    "attention": """(float[n,m,8] x) => (float[n,m,m] y)
        { t = Transpose<perm=[0,2,1]>(x) s = MatMul(x, t) y = Softmax(s) }""",
    "reshape": """(float[n,m,4] x) => (float[k,4] y)
        { s = Constant<value_ints=[-1,4]>() t = Reshape(x, s) y = Neg(t) }""",
    "transpose": "(float[n,m,4] x) => (float[m,4,n] y) { y = Transpose<perm=[1,2,0]>(x) }",
    "concat": """(float[n,4] x, float[m,4] z) => (float[k,4] y)
        { y = Concat<axis=0>(x, z) }""",
    "conv": "(float[n,3,8,8] x, float[4,3,3,3] w) => (float[n,4,6,6] y) { y = Conv(x, w) }",
    "pool": """(float[n,3,8,8] x) => (float[n,3,4,4] y)
        { y = MaxPool<kernel_shape=[2,2], strides=[2,2]>(x) }""",
    "layer_norm": """(float[n,m,8] x, float[8] w) => (float[n,m,8] y)
        { y = LayerNormalization(x, w) }""",
    "cumsum": """(float[n,4] x) => (float[n,4] y)
        { a = Constant<value_int=0>() y = CumSum(x, a) }""",
    "gather": "(float[5,4] x, int64[n] i) => (float[n,4] y) { y = Gather(x, i) }",
    "slice": """(float[n,4] x) => (float[k,4] y)
        { s = Constant<value_ints=[0]>() e = Constant<value_ints=[2]>() y = Slice(x, s, e) }""",
    "pad": """(float[n,4] x) => (float[k,6] y)
        { p = Constant<value_ints=[1,1,1,1]>() y = Pad(x, p) }""",
}
SIZES = ({"n": 0, "m": 3}, {"n": 3, "m": 0}, {"n": 0, "m": 0})


def network(name: str, **sizes: int) -> ModelProto:
    """The network of that name; dims by those names get the sizes."""
    model = parser.parse_model(f"{HEADER} agraph {NETWORKS[name]}")
    for value in model.graph.input:
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param in sizes:
                dim.dim_value = sizes[dim.dim_param]
    return model


def ones(model: ModelProto, **sizes: int) -> dict[str, np.ndarray]:
    """Inputs of the model."""
    return {
        value.name: np.ones(
            [dim.dim_value or sizes[dim.dim_param] for dim in value.type.tensor_type.shape.dim],
            helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type),
        )
        for value in model.graph.input
    }


def check(executable: weft.Executable, name: str, **sizes: int) -> None:
    inputs = ones(network(name), **sizes)
    with np.errstate(all="ignore"):
        expected = ReferenceEvaluator(network(name)).run(None, inputs)
    for actual, array in zip(executable.run(inputs).values(), expected, strict=True):
        assert actual.shape == array.shape
        np.testing.assert_allclose(actual, array, rtol=1e-5)


@pytest.mark.parametrize("name", NETWORKS)
def test_dims_may_be_zero_in_a_call(name):
    executable = weft.compile(network(name), threads=2)
    for sizes in SIZES:
        check(executable, name, **sizes)


@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("name", ["attention", "concat", "matmul_over_none", "maximum_over_none"])
def test_dims_may_be_zero_in_the_model(name, sizes):
    check(weft.compile(network(name, **sizes), threads=1), name, **sizes)


def test_a_dim_of_zero_beside_one_of_any_size():
    executable = weft.compile(network("layer_norm", m=0), threads=1)
    check(executable, "layer_norm", n=5, m=0)


@pytest.mark.parametrize("operator", ["Neg", "Transpose"])
@pytest.mark.parametrize("naive", [True, False])
def test_no_element_beside_a_huge_extent_takes_no_time(operator: str, naive: bool):
    """S3: loops over 2^44 rows of nothing."""
    text = f"{HEADER} agraph (float[n,m] x) => (float[k,l] y) {{ y = {operator}(x) }}"
    (y,) = weft.compile(parser.parse_model(text), naive=naive, cache=False)(
        np.empty((1 << 44, 0), np.float32)
    )
    assert y.size == 0

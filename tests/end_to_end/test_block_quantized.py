"""Products with weights of a few bits in blocks, from the file to the result: against float64, for
several levels of x86-64, and against onnxruntime.
"""
# pyright: basic

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import weft
from weft.compiler.machine.codegen.host import host_target
from weft.dialects.graph.quantized.block_panels import FEWEST_WORD_ROWS

RNG = np.random.default_rng(5)
COLUMNS, TERMS, BLOCK = 40, 96, 32
ROWS = (1, 3, 18)


def matmul_n_bits(bits: int, *, zeros: bool, level: int = 0, terms: int = TERMS):
    """The model, and its weights in float64, `[terms, columns]`."""
    blocks = -(-terms // BLOCK)
    levels = RNG.integers(0, 1 << bits, (COLUMNS, blocks, BLOCK))
    scales = RNG.uniform(0.01, 0.1, (COLUMNS, blocks)).astype(np.float32)
    points = RNG.integers(0, 1 << bits, (COLUMNS, blocks))
    given = {"w": packed(levels, bits), "scales": scales}
    if zeros:
        given["zeros"] = packed(points, bits)
    else:
        points = np.full_like(points, 1 << (bits - 1))
    real = (levels - points[:, :, None]) * scales[:, :, None].astype(np.float64)
    sizes = {"K": terms, "N": COLUMNS, "bits": bits, "block_size": BLOCK}
    node = helper.make_node(
        "MatMulNBits",
        ["x", *given],
        ["y"],
        domain="com.microsoft",
        accuracy_level=level,
        **sizes,
    )
    return model(node, given, terms), real.reshape(COLUMNS, -1)[:, :terms].T


def packed(levels: np.ndarray, bits: int) -> np.ndarray:
    """Numbers of a few bits in bytes along the last axis, the lowest bits first."""
    count = 8 // bits
    missing = -levels.shape[-1] % count
    levels = np.pad(levels, [(0, 0)] * (levels.ndim - 1) + [(0, missing)])
    fields = levels.reshape(*levels.shape[:-1], -1, count) << np.arange(0, 8, bits)
    return fields.sum(-1).astype(np.uint8)


def model(node: onnx.NodeProto, given: dict[str, np.ndarray], terms: int) -> onnx.ModelProto:
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["b", "m", terms])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["b", "m", COLUMNS])],
        [numpy_helper.from_array(array, name) for name, array in given.items()],
    )
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def rows_of(count: int, terms: int = TERMS) -> np.ndarray:
    return RNG.standard_normal((1, count, terms)).astype(np.float32)


@pytest.mark.parametrize("cpu", ["native", "x86-64-v3", "x86-64"])
@pytest.mark.parametrize("bits", [4, 8])
def test_float_activations_are_exact(cpu: str, bits: int):
    made, weights = matmul_n_bits(bits, zeros=cpu != "native")
    compiled = weft.compile(made, target=cpu)
    for count in ROWS:
        x = rows_of(count)
        exact = x.astype(np.float64) @ weights
        np.testing.assert_allclose(compiled(x)[0], exact, rtol=0, atol=2e-6 * np.abs(exact).max())


@pytest.mark.parametrize("cpu", ["native", "x86-64-v3", "x86-64"])
def test_activations_as_bytes_are_as_onnxruntimes(cpu: str):
    session = pytest.importorskip("onnxruntime").InferenceSession
    made, weights = matmul_n_bits(4, zeros=cpu != "native", level=4)
    compiled = weft.compile(made, target=cpu)
    peer = session(made.SerializeToString(), providers=["CPUExecutionProvider"])
    for count in ROWS:
        x = rows_of(count)
        exact = x.astype(np.float64) @ weights
        largest = np.abs(exact).max()
        np.testing.assert_allclose(compiled(x)[0], exact, rtol=0, atol=0.02 * largest)
        if count >= FEWEST_WORD_ROWS and compiled_of_bf16(cpu):
            continue
        theirs = peer.run(None, {"x": x})[0]
        np.testing.assert_allclose(compiled(x)[0], theirs, rtol=0, atol=2e-5 * largest)


def compiled_of_bf16(cpu: str) -> bool:
    """Whether many rows are rounded to bf16 instead of bytes."""
    return cpu == "native" and host_target().has_matrix_products(2)


@pytest.mark.parametrize("rows", [16, 33, 70])
def test_many_rows_are_rounded_to_bf16_where_tiles_of_it_are_multiplied(rows: int):
    if not compiled_of_bf16("native"):
        pytest.skip("this machine has no registers that hold tiles of bf16")
    made, weights = matmul_n_bits(4, zeros=True, level=4)
    x = rows_of(rows)
    near = [
        each.astype(np.float32).astype(ml_dtypes.bfloat16).astype(np.float64)
        for each in (x, weights)
    ]
    exact = near[0] @ near[1]
    one, two = (weft.compile(made, threads=threads)(x)[0] for threads in (1, 2))
    np.testing.assert_allclose(one, exact, rtol=0, atol=1e-5 * np.abs(exact).max())
    np.testing.assert_array_equal(one, two)


def test_last_blocks_may_have_less_terms():
    made, weights = matmul_n_bits(4, zeros=True, terms=70)
    x = rows_of(3, 70)
    exact = x.astype(np.float64) @ weights
    np.testing.assert_allclose(weft.compile(made)(x)[0], exact, rtol=1e-5, atol=1e-5)


def test_weights_stay_in_their_bits():
    made, _ = matmul_n_bits(4, zeros=False)
    compiled = weft.compile(made)
    held = sum(each["bytes"] for each in compiled.metadata["weights"])
    tiles = -(-COLUMNS // 32) * 32
    assert held == tiles * (TERMS // 2 + TERMS // BLOCK * 4)


def test_infinite_and_nan_activations_stay_so():
    made, weights = matmul_n_bits(4, zeros=False)
    compiled = weft.compile(made)
    x = rows_of(1)
    x[0, 0, 3] = np.inf
    with np.errstate(invalid="ignore"):
        exact = x.astype(np.float64) @ weights
    actual = compiled(x)[0]
    assert (np.isnan(actual) == np.isnan(exact)).all()
    assert (np.isinf(actual) == np.isinf(exact)).all()


TYPES = {
    (4, False): TensorProto.UINT4,
    (4, True): TensorProto.INT4,
    (8, False): TensorProto.UINT8,
    (8, True): TensorProto.INT8,
}


@pytest.mark.parametrize(
    ("bits", "signed", "zeros", "of_rows"),
    [
        (4, False, True, False),
        (4, True, False, True),
        (8, True, True, True),
        (8, False, False, False),
    ],
)
def test_weights_dequantised_in_blocks_stay_in_their_bits(bits, signed, zeros, of_rows):
    low = -(1 << (bits - 1)) if signed else 0
    axis = int(of_rows)
    shape = [COLUMNS, TERMS] if of_rows else [TERMS, COLUMNS]
    blocks = [n // BLOCK if at == axis else n for at, n in enumerate(shape)]
    levels = RNG.integers(low, low + (1 << bits), shape)
    points = RNG.integers(low, low + (1 << bits), blocks) * zeros
    scales = RNG.uniform(0.01, 0.1, blocks).astype(np.float32)
    real = levels - np.repeat(points, BLOCK, axis).astype(np.float64)
    real *= np.repeat(scales, BLOCK, axis)
    given = [
        helper.make_tensor("w", TYPES[bits, signed], shape, levels.ravel()),
        helper.make_tensor("s", TensorProto.FLOAT, blocks, scales.ravel()),
        helper.make_tensor("z", TYPES[bits, signed], blocks, points.ravel()),
    ][: 3 if zeros else 2]
    names = [each.name for each in given]
    product = {"op_type": "Gemm", "transB": 1} if of_rows else {"op_type": "MatMul"}
    graph = helper.make_graph(
        [
            helper.make_node("DequantizeLinear", names, ["f"], axis=axis, block_size=BLOCK),
            helper.make_node(inputs=["x", "f"], outputs=["y"], **product),
        ],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["m", TERMS])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["m", COLUMNS])],
        given,
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    compiled = weft.compile(made)
    held = max(each["bytes"] for each in compiled.metadata["weights"])
    assert held == -(-COLUMNS // 32) * 32 * TERMS * bits // 8
    x = rows_of(3)[0]
    exact = x.astype(np.float64) @ (real.T if of_rows else real)
    np.testing.assert_allclose(compiled(x)[0], exact, rtol=0, atol=2e-6 * np.abs(exact).max())


def test_terms_that_a_call_has_are_checked():
    made, weights = matmul_n_bits(4, zeros=False)
    made.graph.input[0].type.tensor_type.shape.dim[2].dim_param = "k"
    compiled = weft.compile(made)
    x = rows_of(3)
    np.testing.assert_allclose(compiled(x)[0], x.astype(np.float64) @ weights, rtol=0, atol=1e-4)
    with pytest.raises(weft.InputError):
        compiled(rows_of(3, TERMS - 8))

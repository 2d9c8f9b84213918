"""Models of bf16: products by the CPU's instructions, from file to result, against float64."""
# pyright: basic

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import weft
from weft.compiler.machine.codegen.host import host_target

BF16 = ml_dtypes.bfloat16
ROUNDED = 2.0**-8
"""Half a step of bf16, of the greatest result."""


def tensors(*shapes: tuple[int, ...]) -> list[np.ndarray]:
    rng = np.random.default_rng(11)
    return [rng.standard_normal(shape).astype(BF16) for shape in shapes]


def model(kind: str, x: np.ndarray, w: np.ndarray, *, stored: bool, **attributes) -> bytes:
    """An operator on `x` and `w`, which is a weight or an input."""
    given = {"x": x} if stored else {"x": x, "w": w}
    node = helper.make_node(kind, ["x", "w"], ["y"], **attributes)
    weight = helper.make_tensor("w", TensorProto.BFLOAT16, w.shape, w.tobytes(), raw=True)
    graph = helper.make_graph(
        [node],
        "g",
        [
            helper.make_tensor_value_info(name, TensorProto.BFLOAT16, each.shape)
            for name, each in given.items()
        ],
        [helper.make_tensor_value_info("y", TensorProto.BFLOAT16, None)],
        [weight] if stored else [],
    )
    whole = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10)
    return whole.SerializeToString()


@pytest.mark.parametrize("stored", [True, False])
@pytest.mark.parametrize(
    ("rows", "terms", "columns"),
    [(70, 64, 130), (37, 64, 515), (1, 96, 40), (35, 30, 33), (2, 7, 9)],
)
def test_products_are_near_and_the_same_on_two_threads(
    rows: int, terms: int, columns: int, stored: bool
):
    x, w = tensors((rows, terms), (columns, terms))
    given = model("Gemm", x, w, stored=stored, transB=1)
    arguments = (x,) if stored else (x, w)
    executables = [weft.compile(given, threads=n) for n in (1, 2)]
    results = [np.asarray(each(*arguments)[0]) for each in executables]
    schedules = {
        name for kernel in executables[0].metadata["kernels"] for name in kernel["schedules"]
    }
    assert rows < 8 or "contraction" in schedules, "a plan was applied"
    exact = x.astype(np.float64) @ w.astype(np.float64).T
    np.testing.assert_array_equal(results[0].view(np.uint16), results[1].view(np.uint16))
    np.testing.assert_allclose(
        results[0].astype(np.float64), exact, atol=ROUNDED * np.abs(exact).max()
    )


def test_what_follows_a_product_reads_sums_of_transposed_tiles():
    x, w, added, bias = tensors((48, 64), (600, 64), (600, 48), (48, 1))
    whole = onnx.load_from_string(model("Gemm", x, w, stored=False, transB=1))
    for name, each in (("added", added), ("bias", bias)):
        info = helper.make_tensor_value_info(name, TensorProto.BFLOAT16, each.shape)
        whole.graph.input.append(info)
    whole.graph.node[0].output[0] = "product"
    whole.graph.node.extend(
        [
            helper.make_node("Transpose", ["added"], ["turned"], perm=[1, 0]),
            helper.make_node("Add", ["product", "turned"], ["sum"]),
            helper.make_node("Add", ["sum", "bias"], ["y"]),
        ]
    )
    (found,) = weft.compile(whole.SerializeToString())(x, w, added, bias)
    x, w, added, bias = (each.astype(np.float64) for each in (x, w, added, bias))
    exact = x @ w.T + added.T + bias
    atol = 3 * ROUNDED * np.abs(exact).max()
    np.testing.assert_allclose(np.asarray(found).astype(np.float64), exact, atol=atol)


@pytest.mark.parametrize("stride", [1, 2])
def test_padded_convolutions_are_near(stride: int):
    x, w = tensors((1, 64, 9, 9), (48, 64, 3, 3))
    given = model("Conv", x, w, stored=True, pads=[1, 1, 1, 1], strides=[stride, stride])
    (result,) = weft.compile(given)(x)
    padded = np.pad(x.astype(np.float64), [(0, 0), (0, 0), (1, 1), (1, 1)])
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
    windows = windows[:, :, ::stride, ::stride]
    exact = np.einsum("ncijhw,ochw->noij", windows, w.astype(np.float64))
    atol = ROUNDED * np.abs(exact).max()
    np.testing.assert_allclose(np.asarray(result).astype(np.float64), exact, atol=atol)


@pytest.mark.skipif(not host_target().has_dot_products(2), reason="needs AVX512-BF16")
def test_strict_products_keep_what_is_too_small_for_a_normal_number():
    x, w = np.full((4, 64), 1e-39, BF16), np.ones((64, 32), BF16)
    given = model("MatMul", x, w, stored=True)
    quick, strict = (np.asarray(weft.compile(given, strict_fp=n)(x)[0]) for n in (False, True))
    assert not quick.any()
    np.testing.assert_array_equal(strict, (64 * x.astype(np.float32)).astype(BF16)[:, :32])

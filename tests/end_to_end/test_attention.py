"""Attention from ONNX to native code: one kernel, for heads, masks and lengths of any kind."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import weft
from tests.models.peer import run_onnxruntime
from weft.compiler.driver.options import Options
from weft.compiler.driver.pipeline import compile_model
from weft.compiler.driver.session import Session
from weft.compiler.machine.codegen.host import host_target
from weft.dialects.weights import Array


def spelled_out(
    rows: int | str, columns: int | str, mask: tuple[int | str, ...]
) -> onnx.ModelProto:
    """softmax(q k^T / 2 + mask) v, as exporters write it: heads are the third dim of each."""
    nodes = [
        helper.make_node("Transpose", ["q"], ["qh"], perm=[0, 2, 1, 3]),
        helper.make_node("Transpose", ["k"], ["kh"], perm=[0, 2, 3, 1]),
        helper.make_node("Transpose", ["v"], ["vh"], perm=[0, 2, 1, 3]),
        helper.make_node("MatMul", ["qh", "kh"], ["s"]),
        helper.make_node("Mul", ["s", "half"], ["scaled"]),
        helper.make_node("Add", ["scaled", "m"], ["masked"]),
        helper.make_node("Softmax", ["masked"], ["p"], axis=-1),
        helper.make_node("MatMul", ["p", "vh"], ["y"]),
    ]
    shapes: dict[str, tuple[int | str, ...]] = {
        "q": (2, rows, 3, 5),
        "k": (2, columns, 3, 5),
        "v": (2, columns, 3, 9),
        "m": mask,
    }
    return model(
        nodes, shapes, (2, 3, rows, 9), [numpy_helper.from_array(np.array(0.5, np.float32), "half")]
    )


def guarded(rows: int, columns: int) -> onnx.ModelProto:
    """Rows of scores without any that is allowed are zeros, as PyTorch's exporters write it."""
    nodes = [
        helper.make_node("MatMul", ["q", "k"], ["s"]),
        helper.make_node("Greater", ["m", "zero"], ["allowed"]),
        helper.make_node("Where", ["allowed", "zero", "lowest"], ["mask"]),
        helper.make_node("Add", ["s", "mask"], ["masked"]),
        helper.make_node("Softmax", ["masked"], ["p"], axis=-1),
        helper.make_node("IsNaN", ["p"], ["nothing"]),
        helper.make_node("Where", ["nothing", "zero", "p"], ["kept"]),
        helper.make_node("MatMul", ["kept", "v"], ["y"]),
    ]
    shapes: dict[str, tuple[int | str, ...]] = {
        "q": (2, 3, rows, 8),
        "k": (2, 3, 8, columns),
        "v": (2, 3, columns, 8),
        "m": (2, 1, rows, 1),
    }
    numbers = {"zero": 0.0, "lowest": -np.inf}
    weights = [numpy_helper.from_array(np.array(x, np.float32), n) for n, x in numbers.items()]
    return model(nodes, shapes, (2, 3, rows, 8), weights)


def as_one_node(rows: int, columns: int, heads: int, *, causal: bool) -> onnx.ModelProto:
    """ONNX's operator: 6 heads of queries, and fewer of keys and values."""
    nodes = [helper.make_node("Attention", ["q", "k", "v"], ["y"], is_causal=int(causal))]
    shapes: dict[str, tuple[int | str, ...]] = {
        "q": (1, 6, rows, 8),
        "k": (1, heads, columns, 8),
        "v": (1, heads, columns, 8),
    }
    return model(nodes, shapes, (1, 6, rows, 8), [])


def model(
    nodes: list[onnx.NodeProto],
    shapes: dict[str, tuple[int | str, ...]],
    result: tuple[int | str, ...],
    weights: list[onnx.TensorProto],
) -> onnx.ModelProto:
    """A model of f32 inputs with those shapes and the output y."""
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in shapes.items()
    ]
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, result)
    graph = helper.make_graph(nodes, "attention", inputs, [output], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=11)


def arrays_of(model: onnx.ModelProto, **sizes: int) -> dict[str, Array]:
    """Random inputs of a model, of those sizes where it leaves them open."""
    rng = np.random.default_rng(7)
    return {
        value.name: rng.standard_normal(
            [sizes.get(dim.dim_param, dim.dim_value) for dim in value.type.tensor_type.shape.dim]
        ).astype(np.float32)
        for value in model.graph.input
    }


MODELS = {
    "whole blocks": spelled_out(32, 16, (2, 1, 1, 16)),
    "rest of rows and columns": spelled_out(45, 37, (45, 37)),
    "fewer rows than a vector has lanes": spelled_out(17, 11, (1,)),
    "rows that see nothing": guarded(37, 24),
    "two columns": spelled_out(16, 2, (1,)),
    "causal": as_one_node(33, 33, 6, causal=True),
    "shared heads": as_one_node(20, 24, 2, causal=False),
}


@pytest.mark.parametrize("name", MODELS)
def test_attention_is_one_kernel_with_the_same_bits_on_any_number_of_threads(name: str) -> None:
    proto = MODELS[name]
    session = Session(Options(host_target()))
    compile_model(proto, session.options, session)
    assert ["attention"] in session.report.schedules.values()
    inputs = arrays_of(proto)
    first, second = (weft.compile(proto, threads=threads).run(inputs)["y"] for threads in (1, 2))
    np.testing.assert_array_equal(first, second)
    (expected,) = run_onnxruntime(proto, inputs)
    np.testing.assert_allclose(first, expected, rtol=2e-5, atol=2e-6)


def test_attention_of_lengths_that_a_call_knows() -> None:
    proto = spelled_out("m", "n", (2, 1, 1, "n"))
    session = Session(Options(host_target()))
    compile_model(proto, session.options, session)
    assert ["attention"] in session.report.schedules.values()
    executables = [weft.compile(proto, threads=threads) for threads in (1, 2)]
    for rows, columns in ((32, 16), (45, 37), (1, 3), (7, 130), (64, 1)):
        inputs = arrays_of(proto, m=rows, n=columns)
        first, second = (executable.run(inputs)["y"] for executable in executables)
        np.testing.assert_array_equal(first, second)
        (expected,) = run_onnxruntime(proto, inputs)
        np.testing.assert_allclose(first, expected, rtol=2e-5, atol=2e-6)


def test_rows_of_one_head_at_any_length() -> None:
    nodes = [
        helper.make_node("Transpose", ["k"], ["kt"], perm=[1, 0]),
        helper.make_node("MatMul", ["q", "kt"], ["s"]),
        helper.make_node("Softmax", ["s"], ["p"], axis=-1),
        helper.make_node("MatMul", ["p", "v"], ["y"]),
    ]
    proto = model(nodes, {"q": ("m", 20), "k": ("n", 20), "v": ("n", 8)}, ("m", 8), [])
    executables = [weft.compile(proto, threads=threads) for threads in (1, 2)]
    for rows, columns in ((75, 37), (3, 1)):
        inputs = arrays_of(proto, m=rows, n=columns)
        first, second = (executable.run(inputs)["y"] for executable in executables)
        np.testing.assert_array_equal(first, second)
        (expected,) = run_onnxruntime(proto, inputs)
        np.testing.assert_allclose(first, expected, rtol=2e-5, atol=2e-6)


def selected(rows: int, columns: int | str) -> onnx.ModelProto:
    """Scores that a mask does not allow are the least number."""
    nodes = [
        helper.make_node("MatMul", ["q", "k"], ["s"]),
        helper.make_node("Where", ["allowed", "s", "least"], ["masked"]),
        helper.make_node("Softmax", ["masked"], ["p"], axis=-1),
        helper.make_node("MatMul", ["p", "v"], ["y"]),
    ]
    shapes: dict[str, tuple[int | str, ...]] = {
        "q": (2, rows, 8),
        "k": (2, 8, columns),
        "v": (2, columns, 8),
        "allowed": (rows, columns),
    }
    least = np.array(np.finfo(np.float32).min, np.float32)
    proto = model(nodes, shapes, (2, rows, 8), [numpy_helper.from_array(least, "least")])
    proto.graph.input[3].type.tensor_type.elem_type = TensorProto.BOOL
    return proto


MASKS = {
    "causal": lambda i, j: j <= i,
    "window": lambda i, j: (j <= i) & (j > i - 9),
    "nothing": lambda i, j: (j < 0) & (i < 0),
    "rows that see nothing": lambda i, j: (j <= i) & (i % 7 != 0),
    "the last column": lambda i, j: (j == j.max()) | (i < 0),
    "all": lambda i, j: (j >= 0) & (i >= 0),
}


@pytest.mark.parametrize("columns", [128, 133, "n"])
def test_what_a_mask_forbids_is_not_computed_and_changes_nothing(columns: int | str) -> None:
    proto = selected(45, columns)
    session = Session(Options(host_target()))
    compile_model(proto, session.options, session)
    assert ["attention"] in session.report.schedules.values()
    executables = [weft.compile(proto, threads=threads) for threads in (1, 2)]
    for length in (128, 133, 7) if columns == "n" else (int(columns),):
        i, j = np.ogrid[:45, :length]
        inputs = arrays_of(proto, n=length)
        for name, mask in MASKS.items():
            inputs["allowed"] = np.ascontiguousarray(mask(i, j))
            first, second = (executable.run(inputs)["y"] for executable in executables)
            np.testing.assert_array_equal(first, second)
            (expected,) = run_onnxruntime(proto, inputs)
            np.testing.assert_allclose(first, expected, rtol=5e-5, atol=5e-6, err_msg=name)


def test_forbidden_scores_and_values_may_be_no_numbers() -> None:
    proto = selected(32, 128)
    inputs = arrays_of(proto)
    i, j = np.ogrid[:32, :128]
    inputs["allowed"] = np.ascontiguousarray(j <= i)
    expected = weft.compile(proto).run(inputs)["y"]
    inputs["k"][:, :, 100:] = np.nan
    np.testing.assert_array_equal(weft.compile(proto).run(inputs)["y"], expected)

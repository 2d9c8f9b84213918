"""Graphs built by hand, and what a caller adds to the compiler."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

import weft
from weft.compiler.graph.simplify.rewrites.expressions import Match, Rewrite, Value
from weft.compiler.graph.simplify.rewrites.expressions import graph as expression
from weft.compiler.loop.nest import perfect_nest
from weft.compiler.loop.primitives import parallelize
from weft.compiler.loop.schedules import Schedule
from weft.compiler.loop.schedules.innermost_loops import unscheduled
from weft.compiler.target.target import Target
from weft.dialects.graph import OPS_BY_NAME
from weft.dialects.graph.core.algebra import Term
from weft.dialects.loop.program import KernelOp

RNG = np.random.default_rng(0)
WEIGHT = RNG.standard_normal((4, 3)).astype(np.float32)


def _layer() -> weft.Graph:
    graph = weft.Graph("layer")
    x = graph.input("x", "float32", ("rows", 4))
    assert x.shape == ("rows", 4) or str(x.shape[0]) == "rows"
    y = graph.op("relu", x @ graph.constant(WEIGHT) + 1)
    assert str(y.shape[0]) == "rows"
    graph.output("y", y)
    return graph


def test_graph_by_hand_is_compiled_and_goes_on():
    graph = _layer()
    x = RNG.standard_normal((5, 4)).astype(np.float32)
    expected = np.maximum(x @ WEIGHT + 1, 0)
    exe = weft.compile(graph)
    assert [spec.name for spec in exe.outputs] == ["y"]
    np.testing.assert_allclose(exe(x)[0], expected, rtol=1e-5)
    mean, _ = graph.ops(
        "layer_norm_statistics", graph.input("z", "float32", (4,)), axis=-1, epsilon=0.0
    )
    graph.output("mean", mean)
    np.testing.assert_allclose(weft.compile(graph)(x, x[0])[1], x[0].mean(keepdims=True), rtol=1e-5)


def test_graph_calls_another_as_often_as_it_likes():
    graph = weft.Graph("model")
    x = graph.input("x", "float32", ("n", 4))
    inner = weft.Graph("block")
    inner.output("z", inner.call(_layer(), inner.input("x", "float32", (2, 4)))[0] * 2)
    (first,) = graph.call(_layer(), x)
    layer = _layer()
    (second,) = graph.call(layer, x * x)
    (third,) = graph.call(layer, graph.op("concat", x, x, axis=0))
    assert str(third.shape[0]) == "2*n" or str(third.shape[0]) == "2 * n"
    graph.output("first", first)
    graph.output("second", second)
    graph.output("third", third)
    graph.output("fourth", graph.call(inner, graph.input("y", "float32", (2, 4)))[0])
    x = RNG.standard_normal((5, 4)).astype(np.float32)
    results = weft.compile(graph)(x, x[:2])
    inputs = (x, x * x, np.concatenate([x, x]), x[:2])
    for result, each, factor in zip(results, inputs, (1, 1, 1, 2), strict=True):
        expected = factor * np.maximum(each @ WEIGHT + 1, 0)
        np.testing.assert_allclose(result, expected, rtol=1e-5)
    with pytest.raises(weft.TypeInferenceError, match=r"test_extension\.py:\d+: graph\.call req"):
        graph.call(layer, first)


def test_errors_name_the_line_of_the_program():
    graph = weft.Graph()
    x = graph.input("x", "float32", (2, 4))
    with pytest.raises(weft.TypeInferenceError, match=r"test_extension\.py:\d+: graph\.matmul"):
        graph.op("matmul", x, x)
    with pytest.raises(weft.UnsupportedError, match=r"test_extension\.py:\d+: .*got nonsense"):
        graph.op("nonsense", x)
    with pytest.raises(weft.WeftError, match=r"test_extension\.py:\d+: .*'x' twice"):
        graph.input("x", "float32", (2,))
    with pytest.raises(weft.WeftError, match="requires an output"):
        weft.compile(graph)
    graph.output("y", x + 1)
    with pytest.raises(weft.OptionError, match="outputs require a model in a file"):
        weft.compile(graph, outputs=["x"])


def _parallel_outermost(kernel: KernelOp, target: Target) -> Iterator[str]:
    for loop in unscheduled(kernel):
        parallelize(perfect_nest(loop)[0])
        yield "mine"


def test_schedule_of_an_extension_comes_first(tmp_path: Path):
    extension = weft.Extension(schedules=(Schedule("mine", _parallel_outermost),))
    graph = weft.Graph("sum")
    x = graph.input("x", "float32", (64, 64))
    graph.output("y", x + 1)
    exe = weft.compile(graph, extensions=(extension,), cache=weft.Cache(tmp_path))
    assert [kernel["schedules"] for kernel in exe.metadata["kernels"]] == [["forced"]]
    plain = weft.compile(graph, cache=weft.Cache(tmp_path))
    assert "forced" not in plain.metadata["kernels"][0]["schedules"]
    operand = RNG.standard_normal((64, 64)).astype(np.float32)
    np.testing.assert_array_equal(exe(operand)[0], plain(operand)[0])


def _by_logarithm(m: Match) -> Term:
    return (m["x"].math("log") * m["c"]).math("exp")


def test_rewrites_of_an_extension_are_applied_unless_they_round_otherwise_under_strict_fp():
    """The logarithm of what has overflowed shows whether it was computed; a rewrite may hand over
    to weft's own, and its operators may be computed of what it has found.
    """
    x, c = Value("x"), Value("c", is_constant=True)
    rewrites = (
        Rewrite("log exp x", expression.log(expression.exp(x)), x, exact=False),
        Rewrite("x ** c", expression.pow(x, c), _by_logarithm, exact=False),
    )
    extension = (weft.Extension(rewrites=rewrites),)
    graph = weft.Graph("power")
    power = graph.op("pow", graph.input("x", "float32", (3,)), graph.constant(np.float32(40)))
    graph.output("y", graph.op("log", power))
    base = np.float32([2, 3, 10])
    expected = 40 * np.log(base)
    (y,) = weft.compile(graph, extensions=extension)(base)
    np.testing.assert_allclose(y, expected, rtol=1e-6)
    for options in ({}, {"extensions": extension, "strict_fp": True}):
        (y,) = weft.compile(graph, **options)(base)
        np.testing.assert_allclose(y, [expected[0], expected[1], np.inf], rtol=1e-6)


def test_importer_of_an_extension_comes_before_wefts():
    value = helper.make_tensor_value_info
    node = helper.make_node("Twice", ["x"], ["y"], domain="com.example")
    graph = helper.make_graph(
        [node], "twice", [value("x", TensorProto.FLOAT, [3])], [value("y", TensorProto.FLOAT, [3])]
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.example", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    with pytest.raises(weft.UnsupportedError, match="Twice, com.example"):
        weft.compile(model)
    twice = weft.Extension(
        onnx={"com.example.Twice": lambda node: [node.b.add(node.operand(0), node.operand(0))]}
    )
    (y,) = weft.compile(model, extensions=(twice,))(np.ones(3, np.float32))
    assert y.tolist() == [2, 2, 2]
    with pytest.raises(weft.UnsupportedError, match="Twice, com.example"):
        weft.compile(model)


def test_no_operator_is_added_to_wefts_own():
    assert all(op.name.startswith("graph.") for op in OPS_BY_NAME.values())

"""Convolutions by Winograd's minimal filtering, as sums over taps that are far apart, and over
unfolded images, through the whole compiler.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, helper, numpy_helper

import weft
from benchmarks.operators import operator
from tests.models.peer import run_onnxruntime
from weft.compiler.driver.options import Options
from weft.compiler.driver.pipeline import plan_model
from weft.compiler.driver.session import Session
from weft.compiler.machine.codegen.host import host_target
from weft.dialects.graph.ops.winograd import POINTS, matrices


def convolution(height: int | str, width: int | str) -> ModelProto:
    """relu(conv(x) + skip) of 32 to 48 channels, for any batch."""
    draw = np.random.default_rng(0).standard_normal
    weights = {"w": draw((48, 32, 3, 3)) / 12, "b": draw(48)}
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], pads=[1, 0, 1, 1]),
        helper.make_node("Add", ["c", "skip"], ["sum"]),
        helper.make_node("Relu", ["sum"], ["y"]),
    ]
    result = ["n", 48, height, width - 1 if isinstance(width, int) else "narrower"]
    inputs = [
        helper.make_tensor_value_info("x", 1, ["n", 32, height, width]),
        helper.make_tensor_value_info("skip", 1, result),
    ]
    outputs = [helper.make_tensor_value_info("y", 1, result)]
    stored = [numpy_helper.from_array(a.astype(np.float32), n) for n, a in weights.items()]
    graph = helper.make_graph(nodes, "g", inputs, outputs, stored)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("size", POINTS)
def test_the_matrices_filter(size: int):
    at, g, bt = matrices(size)
    draw = np.random.default_rng(size).standard_normal
    x, w = draw(size + 2), draw(3)
    assert np.allclose(at @ ((g @ w) * (bt @ x)), np.correlate(x, w))


@pytest.mark.parametrize("size", POINTS)
def test_what_transforms_while_running_is_exact_in_f32(size: int):
    at, _, bt = matrices(size)
    assert all(np.array_equal(matrix, matrix.astype(np.float32)) for matrix in (at, bt))


def test_any_batch_and_ragged_tiles_are_the_direct_result_on_any_threads():
    model = convolution(17, 20)
    direct = weft.compile(model, strict_fp=True)
    fast = [weft.compile(model, threads=threads) for threads in (1, 3)]
    for batch in (1, 2):
        draw = np.random.default_rng(batch).standard_normal
        x = draw((batch, 32, 17, 20)).astype(np.float32)
        skip = draw((batch, 48, 17, 19)).astype(np.float32)
        one, many = (np.asarray(each(x, skip)) for each in fast)
        assert np.array_equal(one, many)
        np.testing.assert_allclose(one, np.asarray(direct(x, skip)), rtol=1e-4, atol=2e-5)


def test_any_height_and_width_are_the_direct_result_on_any_threads():
    model = convolution("h", "w")
    direct = weft.compile(model, strict_fp=True)
    fast = [weft.compile(model, threads=threads) for threads in (1, 3)]
    for height, width in ((17, 20), (1, 2), (4, 5), (8, 33)):
        draw = np.random.default_rng(height).standard_normal
        x = draw((2, 32, height, width)).astype(np.float32)
        skip = draw((2, 48, height, width - 1)).astype(np.float32)
        one, many = (np.asarray(each(x, skip)) for each in fast)
        assert np.array_equal(one, many)
        np.testing.assert_allclose(one, np.asarray(direct(x, skip)), rtol=1e-4, atol=2e-5)


def test_strict_arithmetic_keeps_the_direct_convolution():
    options = Options(host_target())
    source = convolution("h", 20).SerializeToString()
    sessions = Session(options), Session(replace(options, strict_fp=True))
    for session in sessions:
        plan_model(source, session)
    fast, strict = (session.report.graph for session in sessions)
    assert fast["graph.winograd_tiles"] == 1
    assert fast["graph.conv"] == 0
    assert strict["graph.conv"] == 1


def dilated(dilation: int, height: int | str, width: int | str) -> ModelProto:
    """relu(conv(x)) of 128 to 24 channels, its taps that far apart, for any batch."""
    draw = np.random.default_rng(0).standard_normal
    weights = {"w": draw((24, 128, 3, 3)) / 30, "b": draw(24)}
    steps = {"pads": [dilation] * 4, "dilations": [dilation] * 2}
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], **steps),
        helper.make_node("Relu", ["c"], ["y"]),
    ]
    inputs = [helper.make_tensor_value_info("x", 1, ["n", 128, height, width])]
    outputs = [helper.make_tensor_value_info("y", 1, ["n", 24, height, width])]
    stored = [numpy_helper.from_array(a.astype(np.float32), n) for n, a in weights.items()]
    graph = helper.make_graph(nodes, "g", inputs, outputs, stored)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize(("dilation", "height", "width"), [(6, 14, 15), (9, "h", "w")])
def test_taps_that_are_far_apart_are_the_direct_result_on_any_threads(dilation, height, width):
    model = dilated(dilation, height, width)
    direct = weft.compile(model, strict_fp=True)
    fast = [weft.compile(model, threads=threads) for threads in (1, 3)]
    for size in [(14, 15)] if height == 14 else [(14, 15), (9, 40), (1, 1)]:
        x = np.random.default_rng(1).standard_normal((2, 128, *size)).astype(np.float32)
        one, many = (np.asarray(each(x)) for each in fast)
        assert np.array_equal(one, many)
        np.testing.assert_allclose(one, np.asarray(direct(x)), rtol=1e-4, atol=2e-5)


UNFOLDED = {
    "a signal": ((2, 2, 9), (96, 2, 3), {"strides": [2], "pads": [1, 0]}),
    "an image": ((1, 3, 8, 5), (120, 3, 2, 3), {"dilations": [2, 1], "pads": [0, 1, 2, 0]}),
    "groups": ((2, 4, 6, 4), (160, 2, 2, 2), {"group": 2, "strides": [1, 3]}),
    "a volume": ((1, 1, 6, 5, 4), (240, 1, 2, 2, 2), {"dilations": [2, 2, 2]}),
}


@pytest.mark.parametrize("is_open", [False, True], ids=["constant", "open"])
@pytest.mark.parametrize("name", UNFOLDED)
def test_few_terms_over_an_unfolded_image_agree_with_onnxruntime(name: str, is_open: bool):
    image, filters, attributes = UNFOLDED[name]
    kwargs: dict[str, Any] = dict(attributes)
    out = [None] * len(image)
    case = operator("case", "Conv", [image], out, constants=[filters, filters[:1]], **kwargs)
    model, inputs = case.build(), case.inputs()
    if is_open:
        for axis in (0, *range(2, len(image))):
            model.graph.input[0].type.tensor_type.shape.dim[axis].dim_param = f"n{axis}"
    session = Session(Options(host_target()))
    plan_model(model, session)
    assert session.report.graph["graph.concat"] == 1
    (expected,) = run_onnxruntime(model, inputs)
    for threads in (1, 3):
        run = weft.compile(model, threads=threads)
        (answer,) = run.run(inputs).values()
        np.testing.assert_allclose(answer, expected, rtol=1e-5, atol=1e-5)

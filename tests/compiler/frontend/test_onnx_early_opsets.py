"""Opsets 1 to 6 -> newer ones: the answers that their text states, as no runtime takes them."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from onnx import NodeProto, helper

from tests.compiler.frontend.onnx_models import TARGET, floats, model_of, run
from weft.compiler.frontend.onnx.load import load_model
from weft.compiler.frontend.onnx.opset import normalise
from weft.dialects.errors import ModelError, UnsupportedError


def answers(
    node: NodeProto,
    inputs: Mapping[str, np.ndarray],
    opset: int,
    constants: Mapping[str, np.ndarray] | None = None,
    outputs: Sequence[str] = ("y",),
) -> Sequence[np.ndarray]:
    model = model_of([node], inputs, outputs, opset, constants)
    return run(normalise(load_model(model), to=TARGET).whole_proto(), inputs)


@pytest.mark.parametrize(
    ("attributes", "shape", "stretched"),
    [
        ({}, (2, 3, 4), (2, 3, 4)),
        ({"broadcast": 1}, (4,), (4,)),
        ({"broadcast": 1}, (3, 4), (3, 4)),
        ({"broadcast": 1, "axis": 1}, (3,), (3, 1)),
        ({"broadcast": 1, "axis": 0}, (2, 3), (2, 3, 1)),
        ({"broadcast": 1, "axis": -1}, (4,), (4,)),
        ({"broadcast": 1, "axis": -2}, (3,), (3, 1)),
    ],
)
@pytest.mark.parametrize("opset", [1, 6])
def test_operands_begin_at_the_axis(
    attributes: dict[str, Any], shape: Sequence[int], stretched: Sequence[int], opset: int
) -> None:
    x, z = floats(2, 3, 4), floats(*shape)
    node = helper.make_node("Sub", ["x", "z"], ["y"], **attributes)
    (y,) = answers(node, {"x": x, "z": z}, opset)
    np.testing.assert_array_equal(y, x - z.reshape(stretched))


@pytest.mark.parametrize("slope", [(3,), (1,)])
def test_slopes_are_one_for_each_channel_or_one(slope: tuple[int, ...]) -> None:
    x, slopes = floats(2, 3, 4), floats(*slope)
    node = helper.make_node("PRelu", ["x", "slopes"], ["y"])
    (y,) = answers(node, {"x": x}, 6, {"slopes": slopes})
    np.testing.assert_array_equal(y, np.where(x < 0, x * slopes[:, None], x))


def test_hints_for_memory_are_dropped() -> None:
    node = helper.make_node("Relu", ["x"], ["y"], consumed_inputs=[0])
    x = floats(3)
    np.testing.assert_array_equal(answers(node, {"x": x}, 1)[0], np.maximum(x, 0))


def test_shapes_and_types_become_inputs_and_numbers() -> None:
    reshape = helper.make_node("Reshape", ["x"], ["y"], shape=[0, -1])
    assert answers(reshape, {"x": floats(2, 3, 4)}, 4)[0].shape == (2, 12)
    cast = helper.make_node("Cast", ["x"], ["y"], to="INT32")
    assert answers(cast, {"x": floats(3)}, 5)[0].dtype == np.int32
    with pytest.raises(ModelError, match="element type, got 'INT33'"):
        answers(helper.make_node("Cast", ["x"], ["y"], to="INT33"), {"x": floats(3)}, 5)


def test_concat_joins_the_second_axis_by_default() -> None:
    node = helper.make_node("Concat", ["x", "x"], ["y"])
    assert answers(node, {"x": floats(2, 3)}, 3)[0].shape == (2, 6)


def test_selu_keeps_its_former_digits() -> None:
    x = np.array([2, -1], np.float32)
    (y,) = answers(helper.make_node("Selu", ["x"], ["y"]), {"x": x}, 1)
    np.testing.assert_allclose(y, [2 * 1.0507, 1.0507 * 1.6732 * np.expm1(-1.0)], rtol=1e-6)


def test_paddings_are_pads() -> None:
    node = helper.make_node("Pad", ["x"], ["y"], paddings=[0, 1, 2, 0], value=3.0)
    x = floats(2, 3)
    (y,) = answers(node, {"x": x}, 1)
    np.testing.assert_array_equal(y, np.pad(x, ((0, 2), (1, 0)), constant_values=3))


def test_lengths_of_parts_may_be_a_constant_input() -> None:
    node = helper.make_node("Split", ["x", "lengths"], ["y", "z"])
    lengths = {"lengths": np.array([1, 2], np.float32)}
    parts = answers(node, {"x": floats(3, 2)}, 1, lengths, ("y", "z"))
    assert [part.shape for part in parts] == [(1, 2), (2, 2)]
    with pytest.raises(UnsupportedError, match="constant lengths of its parts, got 'lengths'"):
        answers(node, {"x": floats(3, 2), **lengths}, 1, None, ("y", "z"))


@pytest.mark.parametrize("axis", [0, 2])
def test_tiles_repeat_one_axis(axis: int) -> None:
    x, numbers = (
        floats(2, 3, 4),
        {"tiles": np.array([3], np.float32), "axis": np.array([axis], np.float32)},
    )
    node = helper.make_node("Tile", ["x", "tiles", "axis"], ["y"])
    (y,) = answers(node, {"x": x}, 1, numbers)
    repeats = [3 if each == axis else 1 for each in range(3)]
    np.testing.assert_array_equal(y, np.tile(x, repeats))


def test_norms_are_whole() -> None:
    x = floats(1, 2, 5)
    node = helper.make_node("GlobalLpPool", ["x"], ["y"], p=3.0)
    want = (np.abs(x) ** 3).sum(axis=2, keepdims=True) ** (1 / 3)
    np.testing.assert_allclose(answers(node, {"x": x}, 1)[0], want, rtol=1e-5)
    with pytest.raises(UnsupportedError, match=r"a whole p, got 2\.5"):
        answers(helper.make_node("GlobalLpPool", ["x"], ["y"], p=2.5), {"x": x}, 1)


def test_upsample_scales_height_and_width() -> None:
    node = helper.make_node("Upsample", ["x"], ["y"], height_scale=2.0, width_scale=3.0)
    x = floats(1, 1, 2, 2)
    np.testing.assert_array_equal(answers(node, {"x": x}, 1)[0], x.repeat(2, 2).repeat(3, 3))


def test_gemm_addends_broadcast() -> None:
    x, w, c = floats(2, 3), floats(3, 4), floats(4)
    node = helper.make_node("Gemm", ["x", "w", "c"], ["y"], broadcast=1)
    np.testing.assert_allclose(answers(node, {"x": x}, 6, {"w": w, "c": c})[0], x @ w + c, 1e-5)


def batch_norm(outputs: Sequence[str] = ("y",), **attributes: Any) -> NodeProto:
    return helper.make_node(
        "BatchNormalization", ["x", "one", "b", "b", "one"], outputs, epsilon=0.0, **attributes
    )


STATISTICS: dict[str, np.ndarray] = {"one": np.ones(3, np.float32), "b": floats(3)}


def test_batch_norm_tests_where_it_says_so() -> None:
    x = floats(2, 3)
    for node in (batch_norm(is_test=1), batch_norm(["y", "m", "v"], is_test=1)):
        np.testing.assert_allclose(answers(node, {"x": x}, 6, STATISTICS)[0], x, rtol=1e-6)


def test_batch_norm_trains_where_statistics_are_outputs() -> None:
    model = model_of([batch_norm(["y", "m", "v"])], {"x": floats(2, 3)}, ["y"], 6, STATISTICS)
    (node,) = normalise(load_model(model)).proto.graph.node
    assert {each.name: each.i for each in node.attribute}["training_mode"] == 1


def test_batch_norm_that_may_train_or_test_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="requires is_test=1, or outputs of statistics"):
        answers(batch_norm(), {"x": floats(2, 3)}, 6, STATISTICS)
    with pytest.raises(ModelError, match=r"is_test=0 for its statistics, got a use of \['m'\]"):
        answers(batch_norm(["y", "m"], is_test=1), {"x": floats(2, 3)}, 6, STATISTICS, ("y", "m"))


def test_dropout_is_the_identity_where_it_tests() -> None:
    x = {"x": floats(3)}
    (y,) = answers(helper.make_node("Dropout", ["x"], ["y"], is_test=1), x, 6)
    np.testing.assert_array_equal(y, x["x"])
    with pytest.raises(UnsupportedError, match="requires is_test=1, got training"):
        answers(helper.make_node("Dropout", ["x"], ["y"]), x, 6)


def test_recurrent_networks_keep_their_weights() -> None:
    x, w, r = floats(2, 1, 3), floats(1, 6, 3), floats(1, 6, 2)
    old = helper.make_node(
        *("GRU", ["x", "w", "r"], ["y", "h"]), hidden_size=2, output_sequence=1, direction="foward"
    )
    new = helper.make_node("GRU", ["x", "w", "r"], ["y"], hidden_size=2)
    inputs, weights = {"x": x}, {"w": w, "r": r}
    (got,), (want,) = answers(old, inputs, 1, weights), answers(new, inputs, 7, weights)
    np.testing.assert_array_equal(got, want)

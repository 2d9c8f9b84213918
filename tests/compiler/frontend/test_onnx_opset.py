"""Old opsets -> newer ones: the same answers in onnxruntime, and no version step forgotten."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import AttributeProto, TensorProto, defs, helper

from tests.compiler.frontend.onnx_models import TARGET, floats, model_of, run
from weft.compiler.frontend.onnx.load import load_model
from weft.compiler.frontend.onnx.opset import newest_opset, normalise
from weft.compiler.frontend.onnx.opset.steps import UNCHANGED, UPGRADES
from weft.dialects.errors import ModelError, OptionError, UnsupportedError


def assert_same_answers(
    nodes: onnx.NodeProto | Sequence[onnx.NodeProto],
    inputs: Mapping[str, np.ndarray],
    opset: int,
    constants: Mapping[str, np.ndarray] | None = None,
    outputs: Sequence[str] = ("y",),
    target: int = TARGET,
) -> onnx.ModelProto:
    nodes = [nodes] if isinstance(nodes, onnx.NodeProto) else nodes
    model = model_of(nodes, inputs, outputs, opset, constants)
    after = normalise(load_model(model), to=target).whole_proto()
    assert after.opset_import[0].version == target
    for want, got in zip(run(model, inputs), run(after, inputs), strict=True):
        assert want.dtype == got.dtype
        np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-7)
    return after


def test_every_version_step_is_either_unchanged_or_has_an_upgrade() -> None:
    versions: dict[str, set[int]] = {}
    for schema in defs.get_all_schemas_with_history():
        if schema.domain == "":
            versions.setdefault(schema.name, set()).add(schema.since_version)
    steps = {(name, version) for name, each in versions.items() for version in each - {min(each)}}
    unchanged = {(name, version) for name, each in UNCHANGED.items() for version in each}
    assert not unchanged & set(UPGRADES)
    assert unchanged | set(UPGRADES) == steps


@pytest.mark.parametrize("name", sorted(UNCHANGED))
def test_unchanged_steps_keep_attributes_inputs_and_outputs(name: str) -> None:
    for version in UNCHANGED[name]:
        before, after = (defs.get_schema(name, each, "") for each in (version - 1, version))
        for key, attribute in before.attributes.items():
            kept = after.attributes[key]
            assert (attribute.type, attribute.required and kept.required) == (
                kept.type,
                kept.required,
            )
            assert attribute.default_value == kept.default_value
        assert len(before.inputs) <= len(after.inputs)
        added = [after.attributes[key] for key in set(after.attributes) - set(before.attributes)]
        assert not any(each.required for each in added)
        assert before.min_input >= after.min_input
        assert before.min_output >= after.min_output


@pytest.mark.parametrize("axes", [[0], [-1, 0]])
def test_squeeze_and_unsqueeze_axes_become_inputs(axes: list[int]) -> None:
    nodes = [
        helper.make_node("Squeeze", ["x"], ["s"], axes=axes),
        helper.make_node("Unsqueeze", ["s"], ["y"], axes=[1]),
    ]
    assert_same_answers(nodes, {"x": floats(1, 3, 1)}, 11)


def test_squeeze_without_axes_stays_without() -> None:
    after = assert_same_answers(helper.make_node("Squeeze", ["x"], ["y"]), {"x": floats(1, 3)}, 11)
    assert len(after.graph.node) == 1


@pytest.mark.parametrize(
    "op_type",
    ["ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2"]
    + ["ReduceLogSumExp", "ReduceSumSquare"],
)
@pytest.mark.parametrize("attributes", [{"axes": [0, 2]}, {"axes": [1], "keepdims": 0}, {}])
def test_reduction_axes_become_inputs(op_type: str, attributes: dict[str, Any]) -> None:
    node = helper.make_node(op_type, ["x"], ["y"], **attributes)
    assert_same_answers(node, {"x": floats(2, 3, 4)}, 11)


@pytest.mark.parametrize("op_type", ["Softmax", "LogSoftmax", "Hardmax"])
@pytest.mark.parametrize("axis", [0, 1, 2, -1, -2, None])
def test_softmax_family_keeps_its_coercion_to_a_matrix(op_type: str, axis: int | None) -> None:
    attributes: dict[str, Any] = {} if axis is None else {"axis": axis}
    node = helper.make_node(op_type, ["x"], ["y"], **attributes)
    assert_same_answers(node, {"x": floats(2, 3, 4)}, 11)


def test_softmax_over_the_last_axis_stays_one_node() -> None:
    node = helper.make_node("Softmax", ["x"], ["y"], name="probabilities")
    after = assert_same_answers(node, {"x": floats(2, 3)}, 9)
    assert [(each.op_type, each.name) for each in after.graph.node] == [
        ("Softmax", "probabilities")
    ]


def test_softmax_of_unknown_rank_is_coerced() -> None:
    nodes = [
        helper.make_node("Reshape", ["x", "shape"], ["r"]),
        helper.make_node("Softmax", ["r"], ["y"], axis=1),
    ]
    shape = np.array([2, 3, 4], np.int64)
    assert_same_answers(nodes, {"x": floats(6, 4), "shape": shape}, 12)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.float64])
@pytest.mark.parametrize("bounds", [{"min": -0.5, "max": 0.25}, {"max": 6.0}, {}])
def test_clip_bounds_become_inputs_of_the_data_type(
    dtype: type[Any], bounds: dict[str, Any]
) -> None:
    x = (3 * floats(4, 5)).astype(dtype)
    model = model_of([helper.make_node("Clip", ["x"], ["y"], **bounds)], {"x": x}, ["y"], 6 + 1)
    (got,) = run(normalise(load_model(model), to=TARGET).whole_proto(), {"x": x})
    assert got.dtype == dtype
    np.testing.assert_array_equal(
        got, np.clip(x, dtype(bounds.get("min", -np.inf)), dtype(bounds.get("max", np.inf)))
    )


def test_clip_finds_the_element_type_through_other_nodes() -> None:
    nodes = [
        helper.make_node("Cast", ["x"], ["half"], to=TensorProto.FLOAT16),
        helper.make_node("Neg", ["half"], ["n"]),
        helper.make_node("Clip", ["n"], ["y"], max=0.5),
    ]
    after = normalise(load_model(model_of(nodes, {"x": floats(3)}, ["y"], 7)), to=TARGET)
    constant = next(node for node in after.proto.graph.node if node.op_type == "Constant")
    assert constant.attribute[0].t.data_type == TensorProto.FLOAT16


@pytest.mark.parametrize(
    "attributes", [{"value": 1.5}, {"value": 0.0}, {"mode": "reflect"}, {"mode": "edge"}]
)
def test_pad_amounts_and_value_become_inputs(attributes: dict[str, Any]) -> None:
    node = helper.make_node("Pad", ["x"], ["y"], pads=[0, 1, 2, 1], **attributes)
    assert_same_answers(node, {"x": floats(3, 4)}, 7)


@pytest.mark.parametrize("attributes", [{"axes": [1, 0]}, {}])
def test_slice_bounds_become_inputs(attributes: dict[str, Any]) -> None:
    node = helper.make_node("Slice", ["x"], ["y"], starts=[1, -3], ends=[2**31, -1], **attributes)
    assert_same_answers(node, {"x": floats(4, 5)}, 9)


@pytest.mark.parametrize("opset", [7, 10])
def test_top_k_becomes_an_input(opset: int) -> None:
    if opset == 7:
        node = helper.make_node("TopK", ["x"], ["y", "i"], k=2, axis=0)
        assert_same_answers(node, {"x": floats(5, 3)}, 7, outputs=["y", "i"])
    else:
        node = helper.make_node("TopK", ["x", "k"], ["y", "i"])
        constants = {"k": np.array([2], np.int64)}
        assert_same_answers(node, {"x": floats(5, 3)}, 10, constants, outputs=["y", "i"])


@pytest.mark.parametrize("lengths", [{"split": [1, 3]}, {}])
def test_split_lengths_become_an_input_or_a_number_of_parts(lengths: dict[str, Any]) -> None:
    node = helper.make_node("Split", ["x"], ["y", "z"], axis=1, **lengths)
    assert_same_answers(node, {"x": floats(2, 4)}, 7, outputs=["y", "z"])


@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("opset", [7, 9])
def test_upsample_becomes_resize(mode: str, opset: int) -> None:
    scales = np.array([1, 1, 2, 1.5], np.float32)
    if opset == 7:
        node = helper.make_node("Upsample", ["x"], ["y"], mode=mode, scales=scales.tolist())
        after = assert_same_answers(node, {"x": floats(1, 2, 3, 4)}, 7)
    else:
        node = helper.make_node("Upsample", ["x", "scales"], ["y"], mode=mode)
        after = assert_same_answers(node, {"x": floats(1, 2, 3, 4)}, 9, {"scales": scales})
    assert "Resize" in {each.op_type for each in after.graph.node}


@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("scales", [(2, 3), (0.6, 0.5), (2, 0.6), (0.6, 1), (1, 2.7)])
def test_resize_10_states_its_coordinates(mode: str, scales: tuple[float, float]) -> None:
    node = helper.make_node("Resize", ["x", "scales"], ["y"], mode=mode)
    constants = {"scales": np.array([1, 1, *scales], np.float32)}
    assert_same_answers(node, {"x": floats(1, 2, 5, 6)}, 10, constants)


def test_resize_11_loses_inputs_without_effect() -> None:
    node = helper.make_node("Resize", ["x", "none", "none", "sizes"], ["y"], mode="linear")
    constants = {"none": np.zeros(0, np.float32), "sizes": np.array([1, 1, 7, 3], np.int64)}
    after = assert_same_answers(node, {"x": floats(1, 1, 4, 5)}, 11, constants)
    assert list(after.graph.node[0].input) == ["x", "", "", "sizes"]


@pytest.mark.parametrize("opset", [7, 10])
def test_dropout_stays_the_identity(opset: int) -> None:
    node = helper.make_node("Dropout", ["x"], ["y"], ratio=0.25)
    assert_same_answers(node, {"x": floats(3, 4)}, opset)


def test_dropout_mask_keeps_the_data_type_of_opset_7() -> None:
    node = helper.make_node("Dropout", ["x"], ["y", "mask"])
    model = model_of([node], {"x": floats(3)}, ["y", "mask"], 7)
    _, mask = run(normalise(load_model(model), to=TARGET).whole_proto(), {"x": floats(3)})
    assert mask.dtype == np.float32


def batch_norm_constants(*shape: int) -> dict[str, np.ndarray]:
    return {
        "scale": floats(*shape),
        "bias": floats(*shape),
        "mean": floats(*shape),
        "var": np.abs(floats(*shape)) + 0.5,
    }


@pytest.mark.parametrize(("opset", "attributes"), [(7, {"spatial": 1}), (9, {}), (14, {})])
def test_batch_norm_inference_is_kept(opset: int, attributes: dict[str, Any]) -> None:
    names = ["x", "scale", "bias", "mean", "var"]
    node = helper.make_node("BatchNormalization", names, ["y"], epsilon=0.01, **attributes)
    assert_same_answers(node, {"x": floats(2, 3, 4)}, opset, batch_norm_constants(3))


def test_batch_norm_per_element_becomes_one_over_a_matrix() -> None:
    names = ["x", "scale", "bias", "mean", "var"]
    node = helper.make_node("BatchNormalization", names, ["y"], spatial=0)
    assert_same_answers(node, {"x": floats(2, 3, 4)}, 7, batch_norm_constants(3, 4))


def test_batch_norm_in_training_states_its_mode() -> None:
    names, results = ["x", "scale", "bias", "mean", "var"], ["y", "m", "v", "sm", "sv"]
    node = helper.make_node("BatchNormalization", names, results)
    model = model_of([node], {"x": floats(2, 3)}, ["y", "m"], 9, batch_norm_constants(3))
    (after,) = normalise(load_model(model)).proto.graph.node
    assert list(after.output) == ["y", "m", "v"]
    assert [(each.name, each.i) for each in after.attribute] == [("training_mode", 1)]


def test_batch_norm_refuses_a_use_of_saved_statistics() -> None:
    names, results = ["x", "scale", "bias", "mean", "var"], ["y", "m", "v", "sm", "sv"]
    node = helper.make_node("BatchNormalization", names, results, name="norm")
    model = model_of([node], {"x": floats(2, 3)}, ["y", "sm"], 9, batch_norm_constants(3))
    with pytest.raises(UnsupportedError, match=r"node 'norm'.* saved_mean .* not used"):
        normalise(load_model(model))


def test_scatter_becomes_scatter_elements() -> None:
    node = helper.make_node("Scatter", ["x", "i", "u"], ["y"], axis=1)
    constants = {"i": np.array([[1, 3]], np.int64), "u": floats(1, 2)}
    assert_same_answers(node, {"x": floats(2, 5)}, 9, constants)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic", "nearest"])
def test_grid_sample_modes_are_renamed(mode: str) -> None:
    node = helper.make_node("GridSample", ["x", "grid"], ["y"], mode=mode)
    grid = np.random.default_rng(3).uniform(-1, 1, (1, 2, 3, 2)).astype(np.float32)
    assert_same_answers(node, {"x": floats(1, 2, 4, 5), "grid": grid}, 16)


def test_group_norm_repeats_scale_and_bias_over_channels() -> None:
    node = helper.make_node("GroupNormalization", ["x", "s", "b"], ["y"], num_groups=2)
    constants = {"s": floats(2), "b": floats(2)}
    x = floats(2, 6, 3)
    model = model_of([node], {"x": x}, ["y"], 18, constants)
    (got,) = run(normalise(load_model(model), to=TARGET).whole_proto(), {"x": x})
    groups = x.reshape(2, 2, 9)
    centred = groups - groups.mean(-1, keepdims=True)
    normal = centred / np.sqrt(groups.var(-1, keepdims=True) + 1e-5)
    want = normal * constants["s"][:, None] + constants["b"][:, None]
    np.testing.assert_allclose(got, want.reshape(2, 6, 3), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.float32])
def test_one_hot_9_ignores_negative_indices(dtype: type[Any]) -> None:
    node = helper.make_node("OneHot", ["x", "depth", "values"], ["y"])
    constants = {"depth": np.array(3, np.int64), "values": np.array([0, 5], np.float32)}
    x = np.array([0, -1, 2, 3], dtype)
    model = model_of([node], {"x": x}, ["y"], 9, constants)
    (got,) = run(normalise(load_model(model), to=TARGET).whole_proto(), {"x": x})
    np.testing.assert_array_equal(got, [[5, 0, 0], [0, 0, 0], [0, 0, 5], [0, 0, 0]])


def test_roi_align_keeps_its_former_coordinates() -> None:
    node = helper.make_node(
        "RoiAlign", ["x", "rois", "batch"], ["y"], output_height=2, output_width=2
    )
    constants = {"rois": np.array([[0.5, 0.25, 4, 5]], np.float32), "batch": np.zeros(1, np.int64)}
    assert_same_answers(node, {"x": floats(1, 1, 6, 6)}, 10, constants)


@pytest.mark.parametrize("attributes", [{"axis": 2}, {}])
def test_dft_axis_becomes_an_input(attributes: dict[str, Any]) -> None:
    node = helper.make_node("DFT", ["x"], ["y"], **attributes)
    assert_same_answers(node, {"x": floats(2, 4, 3, 1)}, 17)


def test_scan_over_a_batch_becomes_nested_scans() -> None:
    element = helper.make_tensor_value_info
    body = helper.make_graph(
        [helper.make_node("Add", ["s", "e"], ["t"]), helper.make_node("Identity", ["t"], ["o"])],
        "body",
        [element("s", TensorProto.FLOAT, [2]), element("e", TensorProto.FLOAT, [2])],
        [element("t", TensorProto.FLOAT, [2]), element("o", TensorProto.FLOAT, [2])],
    )
    for directions in ([0], [1]):
        node = helper.make_node(
            "Scan",
            ["", "init", "x"],
            ["last", "y"],
            body=body,
            num_scan_inputs=1,
            directions=directions,
        )
        inputs = {"init": floats(3, 2), "x": floats(3, 4, 2)}
        assert_same_answers(node, inputs, 8, outputs=["last", "y"])


def test_scans_that_nest_too_deep_once_expanded_are_refused() -> None:
    model = model_of([], {"x": floats(2, 2)}, ["y"], 8)
    graph = model.graph
    for _ in range(20):
        node = graph.node.add(op_type="Scan", input=["", "x"], output=["y"])
        node.attribute.add(name="num_scan_inputs", type=AttributeProto.INT, i=1)
        graph = node.attribute.add(name="body", type=AttributeProto.GRAPH).g
        graph.output.add(name="y")
    graph.node.add(op_type="Neg", input=["x"], output=["y"])
    with pytest.raises(UnsupportedError, match="less nesting"):
        normalise(load_model(model))


def test_nodes_in_subgraphs_are_upgraded() -> None:
    branches = [
        helper.make_graph(
            [helper.make_node(op_type, ["x"], [f"{op_type}_out"], axes=[0], keepdims=0)],
            op_type,
            [],
            [helper.make_tensor_value_info(f"{op_type}_out", TensorProto.FLOAT, [3])],
        )
        for op_type in ("ReduceSum", "ReduceMax")
    ]
    node = helper.make_node("If", ["c"], ["y"], then_branch=branches[0], else_branch=branches[1])
    for flag in (True, False):
        assert_same_answers(node, {"c": np.array(flag), "x": floats(2, 3)}, 11)


def test_light_model_gives_the_same_answer_at_a_newer_opset() -> None:
    x = {"x": floats(2, 3, 8, 8)}
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Clip", ["c"], ["r"], min=0.0, max=6.0),
        helper.make_node("MaxPool", ["r"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Dropout", ["p"], ["d", "unused"]),
        helper.make_node("ReduceMean", ["d"], ["m"], axes=[2, 3], keepdims=0),
        helper.make_node("Softmax", ["m"], ["y"]),
    ]
    assert_same_answers(nodes, x, 7, {"w": floats(4, 3, 3, 3)})


def test_new_nodes_are_named_after_their_origin() -> None:
    node = helper.make_node("Softmax", ["x"], ["y"], name="attention", axis=1)
    after = normalise(load_model(model_of([node], {"x": floats(2, 3, 4)}, ["y"], 9)))
    assert [each.name for each in after.proto.graph.node] == [
        "attention/Shape",
        "attention/Flatten",
        "attention",
        "attention/Reshape",
    ]


def test_the_loaded_model_is_left_as_it_was() -> None:
    node = helper.make_node("ReduceSum", ["x"], ["y"], axes=[0])
    model = load_model(model_of([node], {"x": floats(2)}, ["y"], 9))
    before = model.proto.SerializeToString()
    normalise(model)
    assert model.proto.SerializeToString() == before


def test_new_names_avoid_those_of_the_model() -> None:
    nodes = [
        helper.make_node("Neg", ["x"], ["y/axes"]),
        helper.make_node("ReduceSum", ["y/axes"], ["y"], axes=[0]),
    ]
    assert_same_answers(nodes, {"x": floats(2, 3)}, 11)


def test_normalise_refuses_to_go_back() -> None:
    model = model_of([helper.make_node("Neg", ["x"], ["y"])], {"x": floats(2)}, ["y"], 15)
    with pytest.raises(OptionError, match="opset of at least 15, got 13"):
        normalise(load_model(model), to=13)


@pytest.mark.parametrize(
    ("node", "message"),
    [
        (helper.make_node("Gelu", ["x"], ["y"]), "requires opset 20, got opset 13"),
        (helper.make_node("Add", ["x"], ["y"]), "requires 2 to 2 inputs, got 1"),
        (helper.make_node("Add", ["x", ""], ["y"]), "requires its input 'B', got an empty name"),
        (helper.make_node("Neg", ["x"], ["y"], axis=1), "got 'axis'"),
        (helper.make_node("Softmax", ["x"], ["y"], axis=1.5), "of type int, got float"),
        (helper.make_node("Concat", ["x"], ["y"]), "requires the attribute 'axis', got none"),
        (helper.make_node("Upsample", ["x", "x"], ["y"]), "requires an opset below 10, got 13"),
    ],
)
def test_nodes_that_break_their_schema_are_refused(node: onnx.NodeProto, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        normalise(load_model(model_of([node], {"x": floats(2)}, ["y"], 13)))


def test_unknown_operators_are_left_to_the_importer() -> None:
    model = model_of([helper.make_node("Frobnicate", ["x"], ["y"])], {"x": floats(2)}, ["y"], 13)
    (node,) = normalise(load_model(model)).proto.graph.node
    assert node.op_type == "Frobnicate"
    assert newest_opset() == defs.onnx_opset_version()

"""Functions of a model and bodies of composite operators: inlined, they mean the same."""

from collections.abc import Mapping

import numpy as np
import onnx
import pytest
from onnx import AttributeProto, helper

from tests.compiler.frontend.onnx_models import TARGET, floats, model_of, run
from weft.compiler.frontend.onnx.load import load_model
from weft.compiler.frontend.onnx.opset import (
    expand_function_op,
    fresh_names,
    newest_opset,
    normalise,
)
from weft.dialects.errors import BudgetError, ModelError


def scaled_sum(opset: int = 11) -> onnx.FunctionProto:
    """(a, b) -> scale * sum(a, axis 0) + b, with the scale an attribute of default 3."""
    nodes = [
        helper.make_node("ReduceSum", ["a"], ["t"], axes=[0], keepdims=0, name="sum"),
        helper.make_node("Constant", [], ["k"]),
        helper.make_node("Mul", ["t", "k"], ["u"]),
        helper.make_node("Add", ["u", "b"], ["r"]),
    ]
    reference = nodes[1].attribute.add(name="value_float", type=AttributeProto.FLOAT)
    reference.ref_attr_name = "scale"
    function = helper.make_function(
        "own", "ScaledSum", ["a", "b"], ["r"], nodes, [helper.make_opsetid("", opset)]
    )
    function.attribute_proto.append(helper.make_attribute("scale", 3.0))
    return function


def test_functions_are_inlined_each_at_its_own_opset() -> None:
    nodes = [
        helper.make_node("ScaledSum", ["x", "z"], ["p"], domain="own", name="first"),
        helper.make_node("ScaledSum", ["x", "p"], ["y"], domain="own", scale=0.5),
    ]
    x, z = floats(2, 3), floats(3)
    model = model_of(nodes, {"x": x, "z": z}, ["y"], 15, functions=[scaled_sum(12)])
    after = normalise(load_model(model), to=TARGET).whole_proto()
    assert not after.functions
    assert "first/sum" in {node.name for node in after.graph.node}
    (got,) = run(after, {"x": x, "z": z})
    np.testing.assert_allclose(got, 3.5 * x.sum(0) + z, rtol=1e-5)


@pytest.mark.parametrize("versions", [(11, 13), (13, 11), (13, 13, 11)])
@pytest.mark.parametrize("spelling", ["", "ai.onnx"])
@pytest.mark.parametrize("called", [False, True])
def test_nodes_bind_to_the_highest_version_that_is_imported(
    versions: tuple[int, ...], spelling: str, called: bool
) -> None:
    """onnx.proto, `opset_import`. Softmax flattens below opset 13 and takes one axis from it on."""
    x = floats(2, 3, 4)
    node = helper.make_node("Softmax", ["x"], ["y"], axis=1)
    (expected,) = run(model_of([node], {"x": x}, ["y"], 13), {"x": x})
    opsets = [helper.make_opsetid(spelling, versions[0])]
    opsets += [helper.make_opsetid("", version) for version in versions[1:]]
    function = helper.make_function("own", "Normal", ["x"], ["y"], [node], opsets)
    call = helper.make_node("Normal", ["x"], ["y"], domain="own")
    model = model_of([call] if called else [node], {"x": x}, ["y"], 13, functions=[function])
    del model.opset_import[:]
    model.opset_import.extend([*opsets, *(helper.make_opsetid("own", each) for each in (1, 2))])
    after = normalise(load_model(model), to=TARGET).whole_proto()
    assert {(each.domain, each.version) for each in after.opset_import} == {
        ("", TARGET),
        ("own", 2),
    }
    np.testing.assert_allclose(run(after, {"x": x})[0], expected, rtol=1e-6)


def test_a_function_may_pass_an_input_through() -> None:
    function = helper.make_function(
        "own", "Swap", ["a", "b"], ["b", "a"], [], [helper.make_opsetid("", 15)]
    )
    node = helper.make_node("Swap", ["x", "z"], ["y", "w"], domain="own")
    x, z = floats(2), floats(3)
    model = model_of([node], {"x": x, "z": z}, ["y", "w"], 15, functions=[function])
    got = run(normalise(load_model(model), to=TARGET).whole_proto(), {"x": x, "z": z})
    np.testing.assert_array_equal(got[0], z)
    np.testing.assert_array_equal(got[1], x)


def test_subgraphs_of_inlined_functions_get_names_of_their_own() -> None:
    branches = [
        helper.make_graph(
            [helper.make_node(op_type, ["a"], ["t"])], op_type, [], [onnx.ValueInfoProto(name="t")]
        )
        for op_type in ("Neg", "Abs")
    ]
    choose = helper.make_node("If", ["c"], ["r"], then_branch=branches[0], else_branch=branches[1])
    function = helper.make_function(
        "own", "Choose", ["c", "a"], ["r"], [choose], [helper.make_opsetid("", 15)]
    )
    nodes = [
        helper.make_node("Choose", ["c", "x"], ["p"], domain="own"),
        helper.make_node("Choose", ["c", "p"], ["y"], domain="own"),
    ]
    inputs = {"c": np.array(True), "x": floats(3)}
    model = model_of(nodes, inputs, ["y"], 15, functions=[function])
    (got,) = run(normalise(load_model(model), to=TARGET).whole_proto(), inputs)
    np.testing.assert_array_equal(got, inputs["x"])


def test_recursive_functions_are_refused() -> None:
    call = helper.make_node("Loopy", ["a"], ["r"], domain="own")
    imports = [helper.make_opsetid("", 15), helper.make_opsetid("own", 1)]
    function = helper.make_function("own", "Loopy", ["a"], ["r"], [call], imports)
    node = helper.make_node("Loopy", ["x"], ["y"], domain="own")
    model = model_of([node], {"x": floats(2)}, ["y"], 15, functions=[function])
    with pytest.raises(ModelError, match="'Loopy' requires a body without itself"):
        normalise(load_model(model))


def test_functions_that_grow_without_bound_are_refused() -> None:
    imports = [helper.make_opsetid("", 15), helper.make_opsetid("own", 1)]
    functions = []
    for level in range(8):
        op_type, domain = (f"F{level - 1}", "own") if level else ("Neg", "")
        chain = [
            helper.make_node(op_type, [f"v{step}"], [f"v{step + 1}"], domain=domain)
            for step in range(10)
        ]
        functions.append(helper.make_function("own", f"F{level}", ["v0"], ["v10"], chain, imports))
    node = helper.make_node("F7", ["x"], ["y"], domain="own")
    model = model_of([node], {"x": floats(2)}, ["y"], 15, functions=functions)
    with pytest.raises(BudgetError, match="got 100,000,000 with functions inlined"):
        normalise(load_model(model))


def expand(node: onnx.NodeProto, inputs: Mapping[str, np.ndarray]) -> onnx.ModelProto:
    """A model with the function body of one node in place of it."""
    model = model_of([node], inputs, list(node.output), TARGET)
    loaded = load_model(model)
    types = [value.type for value in loaded.proto.graph.input]
    body = expand_function_op(node, TARGET, fresh_names(loaded), types)
    assert body is not None
    return model_of(body, inputs, list(node.output), TARGET)


@pytest.mark.parametrize(
    ("node", "shapes"),
    [
        (helper.make_node("Mish", ["x"], ["y"]), [(2, 3)]),
        (helper.make_node("Celu", ["x"], ["y"], alpha=2.0), [(2, 3)]),
        (helper.make_node("HardSwish", ["x"], ["y"]), [(2, 3)]),
        (helper.make_node("LayerNormalization", ["x", "s"], ["y"]), [(2, 3), (3,)]),
        (helper.make_node("ReduceLogSumExp", ["x"], ["y"]), [(2, 3)]),
        (helper.make_node("MeanVarianceNormalization", ["x"], ["y"]), [(2, 3, 4, 5)]),
    ],
)
def test_function_bodies_of_composite_ops_mean_the_same(
    node: onnx.NodeProto, shapes: list[tuple[int, ...]]
) -> None:
    inputs = {name: floats(*shape) for name, shape in zip(node.input, shapes, strict=True)}
    (want,) = run(model_of([node], inputs, ["y"], TARGET), inputs)
    (got,) = run(expand(node, inputs), inputs)
    np.testing.assert_allclose(got, want, rtol=2e-4, atol=1e-5)


def test_an_operator_without_a_function_body_is_not_expanded() -> None:
    node = helper.make_node("MatMul", ["x", "z"], ["y"])
    model = load_model(model_of([node], {"x": floats(2, 3), "z": floats(3, 2)}, ["y"], TARGET))
    assert expand_function_op(node, TARGET, fresh_names(model)) is None


@pytest.mark.parametrize(
    ("node", "rule"),
    [
        (
            helper.make_node(
                "LinearAttention",
                ["q", "k", "v"],
                ["y", "s"],
                name="att",
                update_rule="odd",
                q_num_heads=2,
                kv_num_heads=2,
            ),
            "what its function body reads as",
        ),
        (
            helper.make_node("SequenceMap", ["q"], ["y"], name="map"),
            "inputs and attributes that ONNX can build its function body for",
        ),
    ],
)
def test_a_node_that_onnx_builds_no_sound_body_for_is_refused(
    node: onnx.NodeProto, rule: str
) -> None:
    inputs = {name: floats(1, 3, 4) for name in node.input}
    model = load_model(model_of([node], inputs, list(node.output), newest_opset()))
    types = [value.type for value in model.proto.graph.input]
    with pytest.raises(ModelError, match=f"'{node.name}'.* requires {rule}"):
        expand_function_op(node, newest_opset(), fresh_names(model), types)


def test_bodies_of_preview_operators_are_at_the_newest_opset() -> None:
    node = helper.make_node("FlexAttention", ["q", "k", "v"], ["y"], domain="ai.onnx.preview")
    inputs = {name: floats(1, 2, 3, 4) for name in node.input}
    q, k, v = inputs.values()
    weights = np.exp(q @ k.swapaxes(-1, -2) / 2)
    want = weights / weights.sum(-1, keepdims=True) @ v
    (got,) = run(expand(node, inputs), inputs)
    np.testing.assert_allclose(got, want, rtol=1e-4)

"""Importing ONNX: names, symbolic dims, constants, branches, function bodies, refusals."""
# pyright: basic

from itertools import product
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper, parser
from xdsl.dialects.builtin import NameLoc, StringAttr

from tests.compiler.frontend.graph_evaluator import evaluate
from tests.models.light import LIGHT, load_light
from tests.models.networks import NETWORKS
from tests.models.peer import run_onnxruntime
from weft.compiler.frontend.onnx.from_onnx import import_model
from weft.compiler.frontend.onnx.node import OnnxNode
from weft.compiler.frontend.onnx.ops.slicing import slice_range
from weft.dialects.errors import ModelError, OptionError, UnsupportedError, WeftError
from weft.dialects.expr import Atom, Expr, Symbol
from weft.dialects.graph import ConstantOp, GraphOp
from weft.dialects.graph.core.types import type_of


def model_of(text: str, opset: int = 21) -> ModelProto:
    """A model in ONNX's text syntax, without its header."""
    return parser.parse_model(f'<ir_version: 10, opset_import: ["" : {opset}]>\n{text}')


def block_of(model):
    """The block of the imported function `main`."""
    (function,) = model.module.ops
    return function.body.block


def names_of(model) -> list[str]:
    """The operators of the imported function, without constants."""
    ops = [op for op in block_of(model).ops if isinstance(op, GraphOp)]
    return [op.name for op in ops if not isinstance(op, ConstantOp)]


def result_shape(model) -> str:
    """The shape of the function's only result."""
    (value,) = block_of(model).last_op.operands
    return str(type_of(value)).partition("]")[0] + "]"


def test_module_is_valid_and_carries_the_names_of_the_model():
    model = import_model(model_of("agraph (float[2, 3] x) => (float[2, 3] y) { y = Relu(x) }"))
    model.module.verify()
    (function,) = model.module.ops
    attributes: Any = function.attributes
    assert function.properties["sym_name"] == StringAttr("main")
    assert [each.data for each in attributes["input_names"]] == ["x"]
    assert [each.data for each in attributes["output_names"]] == ["y"]
    assert attributes["model_name"].data == "agraph"
    assert (model.input_names, model.output_names, model.name) == (("x",), ("y",), "agraph")


def test_values_are_hinted_with_sanitised_names():
    model = model_of("agraph (float[2] x) => (float[2] y) { t = Relu(x) y = Neg(t) }")
    model.graph.node[0].output[0] = model.graph.node[1].input[0] = "/layer/0/Relu:out"
    text = str(import_model(model).module)
    assert "%layer_0_Relu_out = graph.relu %x" in text


def test_operators_bear_the_name_of_their_node():
    model = model_of("agraph (float[2] x) => (float[2] y) { t = Relu(x) y = Relu(t) }")
    model.graph.node[1].name = "head/relu"
    locations = [op.location for op in block_of(import_model(model)).ops]
    names = [each.desc.data for each in locations if isinstance(each, NameLoc)]
    assert names == ["Relu_0", "head/relu"]


def test_equal_dim_params_are_one_symbol():
    model = model_of("agraph (float[n, 4] x, float[n, 4] z) => (float[n, 4] y) { y = Add(x, z) }")
    assert result_shape(import_model(model)) == "[n, 4]"


def test_unnamed_dims_get_symbols_of_their_own():
    model = model_of("agraph (float[?, 4] x, float[1, ?] z) => (float[?, 4] y) { y = Relu(x) }")
    kinds = [str(type_of(argument)) for argument in block_of(import_model(model)).args]
    assert kinds == ["[x_dim0, 4] f32", "[1, z_dim1] f32"]


def test_dim_params_that_are_no_identifiers_are_renamed_apart():
    model = model_of("agraph (float[a_b, n, n] x, float[n] z) => (float[n] y) { y = Relu(z) }")
    dims = model.graph.input[0].type.tensor_type.shape.dim
    dims[1].dim_param, dims[2].dim_param = "a b", "max"
    imported = import_model(model)
    assert str(type_of(block_of(imported).args[0])) == "[a_b, a_b_1, max_1] f32"


def test_unused_initialisers_and_dead_nodes_are_left_out():
    model = model_of("""agraph (float[2] x) => (float[2] y) <float[100] w, float[2] b = {1, 2}>
        { dead = NonZero(x) y = Add(x, b) }""")
    model.graph.initializer.append(numpy_helper.from_array(np.ones(100, np.float32), "w"))
    imported = import_model(model)
    assert len(imported.weights) == 0
    assert names_of(imported) == ["graph.add"]


def test_large_initialisers_go_to_the_weight_store_once():
    model = model_of("agraph (float[100] x) => (float[100] y) { t = Add(x, w) y = Mul(t, w) }")
    weights = np.arange(100, dtype=np.float32)
    model.graph.initializer.append(numpy_helper.from_array(weights, "w"))
    imported = import_model(model)
    assert list(imported.weights) == ["w"]
    np.testing.assert_array_equal(imported.weights["w"], weights)


def test_inputs_with_an_initialiser_are_constants():
    model = model_of("""agraph (float[2] x, float[2] b) => (float[2] y)
        { y = Add(x, b) }""")
    model.graph.initializer.append(numpy_helper.from_array(np.ones(2, np.float32), "b"))
    assert import_model(model).input_names == ("x",)


# Shapes -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wanted", "shape"),
    [
        ([0, -1], "[batch, 12 * seq]"),
        ([-1, 12], "[batch * seq, 12]"),
        ([0, 0, 3, 4], "[batch, seq, 3, 4]"),
        ([0, 0, -1, 6], "[batch, seq, 2, 6]"),
        ([-1], "[12 * batch * seq]"),
    ],
)
def test_reshape_resolves_zero_and_minus_one(wanted, shape):
    model = model_of("agraph (float[batch, seq, 12] x) => (float y) { y = Reshape(x, s) }")
    model.graph.output[0].type.tensor_type.ClearField("shape")
    model.graph.initializer.append(numpy_helper.from_array(np.array(wanted, np.int64), "s"))
    assert result_shape(import_model(model)) == shape


def test_reshape_that_does_not_divide_is_refused():
    model = model_of("""agraph (float[3, 5] x) => (float[n] y)
        <int64[2] s = {-1, 4}> { y = Reshape(x, s) }""")
    with pytest.raises(UnsupportedError, match=r"divides the operand's size, got \[3, 5\]"):
        import_model(model)


def test_reshape_to_an_unknown_rank_is_refused():
    model = model_of("""agraph (float[4] x, int64[n] s) => (float[] y) { y = Reshape(x, s) }""")
    with pytest.raises(UnsupportedError, match=r"requires a vector of known length, got \[n\]"):
        import_model(model)


def test_layer_normalization_gives_its_statistics_where_they_are_read():
    model = model_of("""agraph (float[2, 5] x, float[5] w) => (float[2, 5] y, float[2, 1] d)
        { y, mean, d = LayerNormalization(x, w) }""")
    imported = import_model(model)
    assert names_of(imported) == ["graph.layer_norm", "graph.layer_norm_statistics"]
    x, w = np.arange(10, dtype=np.float32).reshape(2, 5), np.ones(5, np.float32)
    y, d = evaluate(imported, x, w)
    np.testing.assert_allclose(d, 1 / np.sqrt(x.var(1, keepdims=True) + 1e-5), rtol=1e-6)
    np.testing.assert_allclose(y, (x - x.mean(1, keepdims=True)) * d, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("step", [1, 2, 3, -1, -2])
def test_slices_of_a_symbolic_dim_choose_what_onnx_says(step):
    starts = (0, 1, 4, -1, -4, 2**40, -(2**40))
    ends = (0, 2, 5, -1, -3, 2**31, 2**63 - 1, -(2**63))
    for start, end, extent in product(starts, ends, range(7)):
        first, count = slice_range(Expr.of("n"), Expr.of(start), Expr.of(end), step)
        sizes: dict[Atom, int] = {Symbol("n"): extent}
        clamped = max(start, -extent) if step < 0 and extent else start
        chosen = range(extent)[clamped:end:step]
        assert count.evaluate(sizes) == len(chosen)
        assert not chosen or first.evaluate(sizes) == chosen[0]


@pytest.mark.parametrize("step", [1, 2, -1, -2])
def test_slice_bounds_may_be_of_either_sign(step):
    n, k = Expr.of("n"), Expr.of("k")
    starts = (Expr.of(0), Expr.of(-1), n - 1, n - 2, n - 3, k - 2)
    ends = (n, n - 1, n - 2, n - 4, k - 3, Expr.of(-(2**63)))
    slices = {(start, end): slice_range(n, start, end, step) for start in starts for end in ends}
    for ((start, end), (first, count)), extent, other in product(
        slices.items(), range(5), range(4)
    ):
        sizes: dict[Atom, int] = {Symbol("n"): extent, Symbol("k"): other}
        begin, stop = start.evaluate(sizes), end.evaluate(sizes)
        clamped = max(begin, -extent) if step < 0 and extent else begin
        chosen = range(extent)[clamped:stop:step]
        assert count.evaluate(sizes) == len(chosen)
        assert not chosen or first.evaluate(sizes) == chosen[0]


def test_all_but_one_is_one_size_however_it_is_written():
    n, zero, one = Expr.of("n"), Expr.of(0), Expr.of(1)
    _, size = slice_range(n, zero, n - 1, 1)
    assert slice_range(n, zero, -one, 1)[1] == size
    assert slice_range(n, one, n, 1)[1] == size


def test_same_padding_of_symbolic_dims_keeps_them():
    model = model_of("""agraph (float[1, 1, h, w] x) => (float[a, b, c, d] y)
        { y = MaxPool<kernel_shape = [3, 3], auto_pad = "SAME_UPPER">(x) }""")
    assert result_shape(import_model(model)) == "[1, 1, h, w]"


def test_reshape_by_computed_dims_is_symbolic():
    model = model_of("""agraph (float[batch, seq, 12] x) => (float[n, m] y)
        <int64[1] zero = {0}, int64[1] last = {-1}> {
            s = Shape(x)
            b = Gather(s, zero)
            t = Concat<axis = 0>(b, last)
            y = Reshape(x, t)
        }""")
    assert result_shape(import_model(model)) == "[batch, 12 * seq]"


# What is refused ----------------------------------------------------------------------------------


def test_all_unsupported_nodes_are_reported_together():
    model = model_of("""agraph (uint8[2] x) => (uint8[n, m] y, uint8[2] w)
        { y = com.acme.Fancy(x) z = Identity(x) u = com.acme.Fancy(z) w = com.acme.Fancy(u) }""")
    model.opset_import.append(helper.make_opsetid("com.acme", 1))
    for index, node in enumerate(model.graph.node):
        node.name = f"node{index}"
    with pytest.raises(UnsupportedError) as raised:
        import_model(model)
    message = str(raised.value)
    assert "'node0' (Fancy, com.acme)" in message
    assert "'node2' (Fancy, com.acme)" in message
    assert "'node3' (Fancy, com.acme)" in message
    assert "node1" not in message
    assert "\n" not in message


def test_other_domains_are_reported_with_their_name():
    model = model_of("agraph (float[2] x) => (float[2] y) { y = com.acme.Fancy(x) }")
    model.opset_import.append(helper.make_opsetid("com.acme", 1))
    with pytest.raises(UnsupportedError, match=r"node 'Fancy_0' \(Fancy, com.acme\)"):
        import_model(model)


def test_operands_that_do_not_fit_are_the_models_mistake():
    model = model_of("agraph (float[2] x, float[3] z) => (float[3] y) { y = Add(x, z) }")
    with pytest.raises(ModelError, match=r"'Add_0'.*dims are equal or 1, got \[2\] and \[3\]"):
        import_model(model)


def test_sequences_are_refused():
    model = model_of("agraph (float[2] x) => (float[2] y) { y = Relu(x) }")
    sequence = helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, [2])
    model.graph.input.append(sequence)
    with pytest.raises(UnsupportedError, match="input 's' requires a tensor type, got sequence"):
        import_model(model)


def test_inputs_of_unknown_rank_are_refused():
    model = model_of("agraph (float[] x) => (float[] y) { y = Relu(x) }")
    with pytest.raises(UnsupportedError, match="input 'x' requires a known rank"):
        import_model(model)


# Branches, bodies, extensions ---------------------------------------------------------------------

BRANCHES = """agraph (float[2] x) => (float[2] y) <bool c = {%d}> {
    y = If (c) <
        then_branch = yes () => (float[2] t) { t = Neg(x) },
        else_branch = no () => (float[2] t) { u = Relu(x) t = Relu(u) }
    >
}"""


@pytest.mark.parametrize(("condition", "ops"), [(1, ["neg"]), (0, ["relu", "relu"])])
def test_if_with_a_constant_condition_is_its_branch(condition, ops):
    imported = import_model(model_of(BRANCHES % condition))
    assert names_of(imported) == [f"graph.{op}" for op in ops]


def test_operator_without_importer_is_its_function_body():
    x = np.array([-2, -0.1, 0.3, 2], np.float32)
    model = model_of("agraph (float[4] x) => (float[4] y) { y = Shrink<lambd = 0.5>(x) }")
    (y,) = evaluate(import_model(model), x)
    np.testing.assert_array_equal(y, np.array([-2, 0, 0, 2], np.float32))


def test_callers_may_hand_in_importers():
    def import_fancy(node: OnnxNode):
        return [node.b.add(node.operand(0), node.operand(0))]

    model = model_of("agraph (float[2] x) => (float[2] y) { y = NonZero(x) }")
    imported = import_model(model, composites={"NonZero": import_fancy})
    assert names_of(imported) == ["graph.add"]


def test_symbolic_sizes_evaluate_at_any_size():
    model = model_of("""agraph (float[b, s] x) => (float[b, s] y)
        { d = Shape(x) z = ConstantOfShape<value = float[1] {2}>(d) y = Add(x, z) }""")
    imported = import_model(model)
    for shape in ((1, 1), (3, 2)):
        (y,) = evaluate(imported, np.ones(shape, np.float32))
        np.testing.assert_array_equal(y, np.full(shape, 3, np.float32))


def test_expr_of_shape_is_known():
    model = model_of("""agraph (float[b, s] x) => (float[n] y) <int64[1] k = {3}> {
        n = Size(x) s = Mul(n, k) one = ConstantOfShape(s) y = Identity(one) }""")
    assert result_shape(import_model(model)) == f"[{3 * Expr.of('b') * Expr.of('s')}]"


# Networks -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("network", NETWORKS, ids=lambda network: network.name)
def test_networks_evaluate_like_onnxruntime(network):
    proto, inputs = network.build(), network.make_inputs(1)
    imported = import_model(proto)
    outputs = evaluate(imported, *(inputs[name] for name in imported.input_names))
    for output, expected in zip(outputs, run_onnxruntime(proto, inputs), strict=True):
        assert np.abs(output - expected).max() <= 1e-5 * np.abs(expected).max()


@pytest.mark.parametrize("name", LIGHT)
def test_light_models_are_imported(name):
    imported = import_model(load_light(name))
    imported.module.verify()
    assert result_shape(imported).startswith("[1, 1000")


INNER = "agraph (float[2] x) => (float[2] z) { y = Relu(x)  w = Exp(y)  z = Neg(w) }"


def test_any_value_may_be_an_output_and_what_it_does_not_need_is_left_out():
    imported = import_model(model_of(INNER), outputs=("y", "x"))
    assert imported.output_names == ("y", "x")
    assert [op.name for op in block_of(imported).ops] == ["graph.relu", "func.return"]


def test_unknown_outputs_are_listed_with_what_was_meant():
    with pytest.raises(OptionError, match="requires? values of the graph, got yy, nothing; close"):
        import_model(model_of(INNER), outputs=("yy", "nothing"))


BODY = "b (int64 i, bool c, float[2] s) => (bool d, float[2] t) { d = Identity(c) t = Neg(s) }"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("y = Constant ()", "requires one attribute with a value, got none"),
        ("y = Constant <value_int = 1, value_float = 1.0> ()", "got value_int, value_float"),
        ("y = Multinomial (x)", r"operand 0 requires 2 dims, got .*\[2\]"),
        ("y = NonMaxSuppression (x, x)", r"operand 0 requires dims \[b, n, 4\]"),
        ("y = RNN <hidden_size = 1> (x, x, x)", r"operand 0 requires dims \[s, b, i\]"),
        (
            "n = Constant <value_ints = [0, 0]> () y = RoiAlign <sampling_ratio = 2> (x, x, n)",
            r"operand 0 requires dims \[n, c, h, w\]",
        ),
        (
            f"n = Constant <value_int = 3> () y = Loop <body = {BODY}> (n, , x, x)",
            "requires a body of 4 inputs, got 3",
        ),
        (
            "y = Scan <num_scan_inputs = 3, body = b (float s) => (float t) { t = Neg(s) }> (x)",
            "num_scan_inputs requires 1 to 1, got 3",
        ),
        (
            "y = Scan <num_scan_inputs = 1, scan_input_axes = [0, 0],"
            " body = b (float s) => (float t) { t = Neg(s) }> (x)",
            "scan_input_axes requires 1 integers, got 2",
        ),
    ],
)
def test_nodes_that_break_a_rule_are_named(body: str, message: str):
    model = model_of(f"agraph (float[2] x) => (float[n] y) {{ {body} }}")
    with pytest.raises(WeftError, match=message) as error:
        import_model(model)
    assert "node " in str(error.value)


def test_a_node_that_is_refused_leaves_what_it_would_read_free_to_be_erased():
    """A box of no boxes ended in a ValueError of xDSL's, not in the reason."""
    model = model_of(
        """agraph (float[1, n, 4] b, float[1, 2, n] s) => (int64[k, 3] y) <int64[1] m = {-1}> {
        y = NonMaxSuppression(b, s, m) }"""
    )
    with pytest.raises(WeftError, match="NonMaxSuppression_0.* requires"):
        import_model(model)

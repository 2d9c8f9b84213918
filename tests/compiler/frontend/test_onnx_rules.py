"""Rules of ONNX that its schemas do not state: dims of operands, ranges of axes, values of
attributes, imports of domains. Each was found by mutants of ONNX files (issue 19, B2).
"""
# pyright: basic

import numpy as np
import pytest
from onnx import AttributeProto, ModelProto, TensorProto, defs, helper, numpy_helper

import weft
from tests.compiler.frontend.test_from_onnx import model_of
from weft.compiler.frontend.onnx.from_onnx import import_model
from weft.compiler.frontend.onnx.rules import CHOICES, DIMS
from weft.dialects.errors import InputError, ModelError, UnsupportedError, WeftError

ML = "ai.onnx.ml"

I64_1x4 = np.zeros((1, 4), np.int64)
I32_1x3 = np.zeros((1, 3), np.int32)


def model_with(op_type: str, shapes: list[object], opset: int = 24, **attributes) -> ModelProto:
    """One node whose operands are inputs of these shapes, or these arrays of integers."""
    node = helper.make_node(op_type, [], ["y"], **attributes)
    graph = helper.make_graph([node], "graph", [], [helper.make_empty_tensor_value_info("y")])
    for position, shape in enumerate(shapes):
        name = f"x{position}" if shape is not None else ""
        graph.node[0].input.append(name)
        if isinstance(shape, np.ndarray):
            graph.initializer.append(numpy_helper.from_array(shape, name))
        elif shape is not None:
            graph.input.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def numbers(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


@pytest.mark.parametrize(
    ("op_type", "shapes", "attributes", "message"),
    [
        ("ReduceSum", [(2, 3), np.array(1)], {}, r"operand 1 requires dims \[\?\], got \[\]"),
        ("Tile", [(2, 3), numbers(2)], {}, r"operand 1 requires dims \[2\], got \[1\]"),
        ("CumSum", [(2, 3), numbers()], {}, r"operand 1 requires dims \[\] or \[1\], got \[0\]"),
        ("Slice", [(4, 5), numbers(0, 1), numbers(2, 3), numbers()], {}, r"operand 3 .*\[2\]"),
        ("AffineGrid", [(1, 2, 3), numbers(1)], {}, r"operand 1 requires dims \[4\] or \[5\]"),
        ("CenterCropPad", [(4, 5), numbers(3)], {}, r"operand 1 requires dims \[2\], got \[1\]"),
        (
            "Col2Im",
            [(1, 8, 4), numbers(4, 4), numbers(2)],
            {},
            r"operand 2 requires dims \[2\], got \[1\]",
        ),
        (
            "LSTM",
            [(2, 1, 3), (1, 8, 3), (1, 8, 2), (16,)],
            {"hidden_size": 2},
            r"operand 3 requires dims \[1, t\], got \[16\]",
        ),
        (
            "RNN",
            [(2, 1, 3), (1, 2, 3), (1, 2, 2), (1, 4), None, (1, 2, 2)],
            {"hidden_size": 2},
            r"operand 5 requires dims \[1, 1, 2\], got \[1, 2, 2\]",
        ),
        (
            "RNN",
            [(2, 1, 3), (1, 2, 3), (1, 2, 2)],
            {"hidden_size": 3},
            "requires weights of hidden_size 3",
        ),
        ("Attention", [(1, 2, 3, 4)] * 3 + [(5,)], {}, "a mask of at most 3 positions, got 5"),
        ("MaxUnpool", [(1, 1, 2, 2), I64_1x4], {"kernel_shape": [2, 2]}, "operand 1 requires"),
        ("NegativeLogLikelihoodLoss", [(3, 5, 2), I32_1x3], {}, r"requires dims \[3, \.\.\.\]"),
        ("NegativeLogLikelihoodLoss", [(3, 5), I32_1x3.T], {}, r"requires dims \[3, \.\.\.\]"),
        ("Pad", [(2, 3), numbers(1, 1, 1, 1), None, numbers(1, -1)], {}, "requires axes that diff"),
        (
            "Slice",
            [(2, 3), numbers(0, 0), numbers(1, 1), numbers(0, -2)],
            {},
            r"requires axes that differ, got \[0, 0\]",
        ),
    ],
)
def test_b2_operands_of_other_dims_are_refused(op_type, shapes, attributes, message):
    """B2: mutant 724 of seed 20, and others of the sweep over ranks."""
    with pytest.raises(ModelError, match=message):
        import_model(model_with(op_type, shapes, **attributes))


def test_dims_are_of_operators_and_operands_that_onnx_has():
    for name, patterns in DIMS.items():
        path, _, layout = name.partition(" ")
        domain, _, op_type = path.rpartition(".")
        schema = defs.get_schema(op_type, domain=domain)
        assert len(patterns) <= len(schema.inputs), name
        assert not layout or "layout" in schema.attributes, name
        assert all(way for pattern in patterns for way in pattern.split("|")), name


def test_choices_are_of_attributes_that_onnx_has():
    for op_type, choices in CHOICES.items():
        assert set(choices) <= set(defs.get_schema(op_type).attributes), op_type


@pytest.mark.parametrize(
    ("op_type", "shapes", "attributes"),
    [
        ("NegativeLogLikelihoodLoss", [(3, 5), np.zeros(3, np.int64)], {"reduction": "zz"}),
        ("Attention", [(1, 2, 3, 4)] * 3, {"qk_matmul_output_mode": 7}),
        ("HannWindow", [np.array(4)], {"periodic": 2}),
        ("Attention", [(1, 2, 3, 4)] * 3, {"softcap": -1.0}),
        ("Attention", [(1, 2, 3, 4)] * 3, {"left_window_size": -7}),
    ],
)
def test_b2_values_of_attributes_without_a_meaning_are_refused(op_type, shapes, attributes):
    """B2: mutant 686 of seed 21, and 17 of seed 22."""
    (name,) = attributes
    with pytest.raises(UnsupportedError, match=f"requires {name} (out of|of at least)"):
        import_model(model_with(op_type, shapes, 26, **attributes))


@pytest.mark.parametrize(
    ("op_type", "opset", "axis", "message"),
    [
        ("Flatten", 9, -1, "an axis from 0 below opset 11"),
        ("Flatten", 11, -4, "axis from -3 to"),
        ("Softmax", 11, 3, "an axis from -3 to 2, got 3"),
        ("LogSoftmax", 1, -4, "an axis from -3 to 2, got -4"),
        ("Hardmax", 11, 3, "an axis from -3 to 2, got 3"),
    ],
)
def test_b2_axes_are_in_the_range_of_their_opset(op_type, opset, axis, message):
    """B2: mutant 775 of seed 20, and others of the sweep over axes."""
    with pytest.raises(ModelError, match=message):
        import_model(model_with(op_type, [(2, 3, 4)], opset, axis=axis))


@pytest.mark.parametrize("axis", [-3, 2])
def test_b2_an_axis_of_former_broadcasting_leaves_room(axis):
    """B2: the sum would have had more axes than the first operand."""
    model = model_with("Add", [(2, 3), (3,)], 6, axis=axis, broadcast=1)
    with pytest.raises(ModelError, match="an axis from -2 to 1"):
        import_model(model)


def test_b2_domains_are_imported():
    """B2: mutant 141 of seed 21, whose evaluation failed without a word of what was wrong."""
    model = model_with("Binarizer", [(2,)])
    model.graph.node[0].domain = ML
    with pytest.raises(ModelError, match="requires an opset import for its domain, got none"):
        import_model(model)


def test_b2_operators_of_other_domains_keep_their_schemas():
    """B2: mutants 530 and 730 of seed 21."""
    model = model_with("Binarizer", [(2,)], perm=1)
    model.graph.node[0].domain = ML
    model.opset_import.append(helper.make_opsetid(ML, 3))
    with pytest.raises(ModelError, match="requires attributes of Binarizer at opset 1, got 'perm'"):
        import_model(model)
    del model.graph.node[0].attribute[:]
    model.opset_import[1].version = 99
    with pytest.raises(UnsupportedError, match="an opset of its domain up to"):
        import_model(model)


def test_b2_an_initialiser_has_the_dims_of_its_input():
    """B2: as onnxruntime, by the sweep over ranks."""
    model = model_with("Neg", [np.zeros((2, 3), np.float32)])
    model.graph.input.append(helper.make_tensor_value_info("x0", TensorProto.FLOAT, ["n", 3]))
    import_model(model)
    model.graph.input[0].type.tensor_type.shape.dim[1].dim_value = 4
    with pytest.raises(ModelError, match=r"requires the type of its initialiser, got 1 \[0, 4\]"):
        import_model(model)


def test_b2_a_call_checks_whether_a_reshape_keeps_the_size():
    """B2: mutant 360 of seed 21, refused though every call may be right."""
    model = model_of(
        "agraph (float[2, n] x) => (float[3, 2] y)"
        "{ s = Constant <value_ints = [3, 2]> () y = Reshape(x, s) }"
    )
    compiled = weft.compile(model)
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_array_equal(compiled.run({"x": x})["y"], x.reshape(3, 2))
    with pytest.raises(InputError, match="requires sizes"):
        compiled.run({"x": x[:, :2]})


def test_b2_rules_that_a_call_may_keep_are_checked_by_each_call():
    """B2: mutant 952 of seed 21; the sizes may be equal, which weft cannot know."""
    model = model_of(
        "agraph (float[n, 2] x, float[m, 2] z) => (float[n, k] y) { y = Concat <axis = 1> (x, z) }"
    )
    run = weft.compile(model)
    x = np.ones((3, 2), np.float32)
    assert run(x, x)[0].shape == (3, 4)
    with pytest.raises(InputError, match="sizes m = n"):
        run(x, x[:2])


def test_outputs_are_what_outputs_declare():
    """A converter to float16 leaves a second declaration of an output behind."""
    model = model_of("agraph (float[n] x) => (float[n] y) { y = Neg (x) }")
    stale = helper.make_tensor_value_info("y", TensorProto.FLOAT16, ["n"])
    model.graph.value_info.append(stale)
    import_model(model)
    model.graph.output[0].CopyFrom(stale)
    with pytest.raises(ModelError, match="output 'y' requires the type that its node gives"):
        import_model(model)


def test_b2_items_of_an_error_are_short_whatever_comes_first():
    """B2: mutant 123 of seed 21, whose first item held the rule and a node of its own length."""
    node = helper.make_node("NoSuch" + "h" * 500, ["x0"], ["y"], "n" * 500)
    model = model_with("Neg", [(2,)])
    model.graph.node[0].CopyFrom(node)
    with pytest.raises(WeftError) as error:
        import_model(model)
    assert max(map(len, str(error.value).split("; "))) <= 300


def test_b2_strings_have_the_dims_that_are_declared():
    """B2: mutant 876 of seed 21."""
    text = 'agraph () => (string[2, n] y) { y = Constant <value_strings = ["a", "b"]> () }'
    with pytest.raises(ModelError, match=r"string \[2, n\] declared and string \[2\] given"):
        import_model(model_of(text))


def test_b2_paths_of_cycles_are_short():
    """B2: mutant 447 of seed 21 of the other models."""
    names = [f"{'v' * 20}{number}" for number in range(60)]
    nodes = [
        helper.make_node("Neg", [before], [name], "n" * 20)
        for before, name in zip(names[-1:] + names, names, strict=False)
    ]
    model = model_with("Neg", [(2,)])
    model.graph.node.extend(nodes)
    with pytest.raises(ModelError, match="nodes without a cycle") as error:
        import_model(model)
    assert len(str(error.value)) <= 300


def test_b2_a_number_of_no_type_is_refused():
    """B2: mutants 256 and 455 of seed 21 of the other models, which ended in a ValueError."""
    model = model_of("agraph (float[2] x) => (float[2] y) { c = Cast <to = 1> (x) y = Neg(c) }")
    model.graph.node[0].attribute[0].i = 2**31 + 1
    with pytest.raises(ModelError, match="requires a known element type, got 2147483649"):
        import_model(model)


@pytest.mark.parametrize(("fmod", "opset"), [(1, 13), (0, 28)])
def test_floats_have_remainders(fmod, opset):
    import_model(model_with("Mod", [(2,), (2,)], opset, fmod=fmod))


def test_b2_remainders_of_floats_are_asked_for_below_opset_28():
    """B2: mutant 207 of seed 21 of the other models."""
    with pytest.raises(ModelError, match="requires fmod=1 of floats below opset 28"):
        import_model(model_with("Mod", [(2,), (2,)], 13))


@pytest.mark.parametrize(
    ("op_type", "shapes", "attributes", "message"),
    [
        (
            "DeformConv",
            [(1, 1, 4, 4), (1, 1, 2, 2), (1, 8, 3, 4)],
            {},
            r"requires offsets for \[3, 3\] positions",
        ),
        (
            "DeformConv",
            [(1, 1, 4, 4), (1, 1, 2, 2), (1, 8, 3, 3)],
            {"strides": [1]},
            "requires 2 strides and dilations, got 1 and 2",
        ),
        ("Conv", [(1, 1, 4), (1, 1, 2)], {"strides": [0]}, "strides and dilations above 0"),
        ("Conv", [(1, 1, 4), (1, 1, 2)], {"kernel_shape": numbers()}, "kernel_shape that is the"),
        (
            "TfIdfVectorizer",
            [np.zeros(4, np.int32)],
            {
                "min_gram_length": 2,
                "max_gram_length": 3,
                "max_skip_count": 0,
                "mode": "TF",
                "ngram_counts": [0, 1],
                "ngram_indexes": [0, 1],
                "pool_int64s": [1, 2, 3],
            },
            "lengths of sequences from 1 to 2, got 2 to 3",
        ),
    ],
)
def test_b2_attributes_that_contradict_operands_are_refused(op_type, shapes, attributes, message):
    """B2: mutants 64, 293 and 416 of seed 22, and others of the sweep over attributes."""
    lists = {name: each for name, each in attributes.items() if not isinstance(each, np.ndarray)}
    model = model_with(op_type, shapes, **lists)
    for name in attributes.keys() - lists.keys():
        model.graph.node[0].attribute.add(name=name, type=AttributeProto.INTS)
    with pytest.raises(ModelError, match=message):
        import_model(model)


def test_s6_neighbours_of_channels_are_extents():
    """S6: the sweep over attributes; the table of extents could not hold the size."""
    with pytest.raises(WeftError, match="extent too large"):
        import_model(model_with("LRN", [(2, 3, 4, 4)], size=2**62))

"""What ONNX files declare of values is what their nodes give, or it is refused or warned of."""

import pytest

from tests.compiler.frontend.test_from_onnx import model_of
from weft.compiler.frontend.onnx.from_onnx import import_model
from weft.dialects.errors import ModelError, ModelWarning

BODY = "g (int64 i, bool c, {0}[2] s) => (bool d, {1} t) {{ d = Identity(c) t = Neg(s) }}"
LOOP = """agraph (float[2] x) => (float[2] y)
    { n = Constant <value_int = 3> () y = Loop <body = BODY> (n, , x) }"""
IF = "agraph (bool b, float[2] x) => (float[2] y) { y = If (b) <%s, %s> }"

CONTRADICTIONS = [
    (
        "agraph (float[2, 3] x) => (int64[2, 3] y) { y = Relu(x) }",
        r"output 'y' requires the type that its node gives, got int64 \[2, 3\] declared and "
        r"float \[2, 3\] given",
    ),
    (
        "agraph (float[2] x) => (seq(float[2]) y) { y = Relu(x) }",
        "'y' .*, got a sequence declared and float",
    ),
    (
        "agraph (float[2] x) => (float[2] y) { y = SequenceConstruct(x, x) }",
        "'y' .* declared and a sequence of 2 given",
    ),
    (
        "agraph (float[2] x) => (float[2] y) <int64[2] z> { z = Relu(x) y = Neg(z) }",
        "value 'z' .*, got int64|requires an input 'z'",
    ),
    (
        LOOP.replace("BODY", BODY.format("float", "double[2]")),
        r"output 't' .*, got double \[2\] declared and float \[2\] given",
    ),
    (
        LOOP.replace("BODY", BODY.format("double", "float[2]")),
        r"input 's' .*, got double \[2\] declared|requires an input",
    ),
    (
        "agraph (float[2] x) => (string[2] y) { y = Relu(x) }",
        r"output 'y' .*, got string \[2\] declared and strings not given",
    ),
    (
        'agraph () => (optional(float[2]) y) { y = Constant <value_strings = ["a", "b"]> () }',
        r"output 'y' .*, got an optional declared and string \[2\] given",
    ),
    (
        'agraph () => (seq(string[2]) y) { y = Constant <value_strings = ["a", "b"]> () }',
        r"output 'y' .*, got a sequence declared and string \[2\] given",
    ),
    (
        IF
        % (
            "then_branch = g () => (float[2] u) { u = Relu(x) }",
            "else_branch = h () => (int64[2] v) { v = Cast <to = 7> (x) }",
        ),
        r"If requires branches that give values of the same types, got float \[2\] and int64",
    ),
    (
        IF
        % (
            "then_branch = g () => (float[2] u, float[2] w) { u = Relu(x) w = Neg(x) }",
            "else_branch = h () => (float[2] v) { v = Neg(x) }",
        ),
        "If requires branches of equally many outputs, got 2 and 1",
    ),
    (
        "agraph (float[2] x) => (optional(float[2]) y) { y = Relu(x) }",
        r"output 'y' .*, got an optional declared and float \[2\] given",
    ),
    (
        "agraph (float[2] x, int64[2] k) => (float[2] y) { y = Add(x, k) }",
        r"node 0 \(Add\) requires inputs of one type, got tensor\(float\) and tensor\(int64\)",
    ),
    (
        "agraph (bool[2] x) => (bool[2] y) { y = Relu(x) }",
        r"node 0 \(Relu\) requires an input 'x' of a type that opset 21 has for it, got tensor\(bo",
    ),
]


@pytest.mark.parametrize(("text", "message"), CONTRADICTIONS)
def test_contradictions_are_refused(text: str, message: str):
    """Wrong declarations (B2): both facts are named."""
    with pytest.raises(ModelError, match=message):
        import_model(model_of(text))


STALE = [
    (
        "agraph (float[2, 3] x) => (float[6] y) { y = Relu(x) }",
        r"'y' .*, got float \[6\] declared and float \[2, 3\] given, which counts",
    ),
    (
        "agraph (float[n, 3] x) => (float[0, 1] y) { y = Relu(x) }",
        r"'y' .*, got float \[0, 1\] declared and float \[n, 3\] given, which counts",
    ),
    (
        "agraph (float[2] x) => (float[2] y) <float[2, 2] z> { z = Relu(x) y = Neg(z) }",
        r"value 'z' .*, got float \[2, 2\] declared and float \[2\] given, which counts",
    ),
]


@pytest.mark.parametrize(("text", "message"), STALE)
def test_dims_that_were_left_behind_are_a_warning(text: str, message: str):
    with pytest.warns(ModelWarning, match=message):
        assert import_model(model_of(text)).output_names == ("y",)


@pytest.mark.parametrize(
    "text",
    [
        "agraph (float[n, 3] x) => (float[m, k] y) { y = Relu(x) }",
        "agraph (float[n, 3] x) => (float[2, 3] y) { y = Relu(x) }",
        "agraph (float[2] x) => (float[2] y) <float[7] z> { z = Relu(x) y = Neg(z) }",
        "agraph (float[2] x) => (float[n] y) { y = Relu(x) }",
    ],
)
def test_names_and_sizes_that_were_left_behind_are_not(text: str):
    assert import_model(model_of(text)).output_names == ("y",)


def test_a_value_without_a_type_has_that_of_its_node():
    model = model_of("agraph (float[2] x) => (float[2] y) { y = Relu(x) }")
    model.graph.output[0].ClearField("type")
    assert import_model(model).output_names == ("y",)


def test_what_an_initialiser_is_declared_as_among_values_does_not_count():
    """onnxruntime's converter to halves changes the declaration alone where an operator needs
    floats.
    """
    model = model_of("agraph (float[2] x) => (float[2] y) <float16[2] w> { y = Add(x, w) }")
    model.graph.initializer.add(name="w", data_type=1, dims=[2], raw_data=bytes(8))
    assert import_model(model).output_names == ("y",)


def test_an_input_has_the_type_of_its_initialiser():
    model = model_of("agraph (float[2] x, int64[2] w) => (float[2] y) { y = Relu(x) }")
    model.graph.initializer.add(name="w", data_type=1, dims=[2], raw_data=bytes(8))
    with pytest.raises(ModelError, match="input 'w' requires the type of its initialiser, got 7"):
        import_model(model)

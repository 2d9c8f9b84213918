"""Strings that a call brings, and such that stand in the model and are given: beside onnxruntime,
through every kind of NumPy array, through an artifact.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, parser

import weft
from tests.models.peer import run_onnxruntime
from weft.dialects.errors import InputError

HEADER = '<ir_version: 10, opset_import: ["" : 21, "ai.onnx.ml" : 4, "com.microsoft" : 1]>\n'
CITIES = [
    "oslo",
    "",
    "rome",
    "os",
    "osloo",
    "Zürich",
    "oslo\0",
    "東京",
    "x" * 300,
    "zurich",
    "bern",
]


def model_of(text: str) -> ModelProto:
    return parser.parse_model(HEADER + text)


def cities(count: int = 90) -> Any:
    return np.array([CITIES[(7 * i * i + i) % len(CITIES)] for i in range(count)], np.object_)


def agree(text: str, **inputs: Any) -> None:
    """Compares every output with onnxruntime's, called by name and by position."""
    model = model_of(text)
    executable = weft.compile(model, threads=1)
    expected = run_onnxruntime(model, inputs)
    for results in (executable(**inputs), executable(*inputs.values())):
        for given, wanted in zip(results, expected, strict=True):
            assert given.shape == wanted.shape
            assert given.dtype == wanted.dtype
            np.testing.assert_array_equal(given, wanted)


ENCODERS = """agraph (string[n] x, int64[n] i) => (int64[n] a, float[n] b, string[n] c, string[n] d,
    int64[n] e, string[n] f, float[n, 4] g) {
  a = ai.onnx.ml.LabelEncoder <keys_strings = ["oslo", "rome", "東京", ""],
    values_int64s = [5, 7, -2, 9], default_int64 = 33> (x)
  b = ai.onnx.ml.LabelEncoder <keys_strings = ["Zürich", "bern"], values_floats = [0.5, 2.0]> (x)
  c = ai.onnx.ml.LabelEncoder <keys_strings = ["oslo", "rome"], values_strings = ["north", "south"],
    default_string = "elsewhere"> (x)
  d = ai.onnx.ml.LabelEncoder <keys_int64s = [0, 3], values_strings = ["none", "three"]> (i)
  e = ai.onnx.ml.CategoryMapper <cats_int64s = [4, 6], cats_strings = ["oslo", "osloo"]> (x)
  f = ai.onnx.ml.CategoryMapper <cats_int64s = [0, 1], cats_strings = ["zero", "one"]> (i)
  g = ai.onnx.ml.OneHotEncoder <cats_strings = ["rome", "oslo", "os", ""]> (x)
}"""


def test_keys_and_categories_that_are_strings_agree_with_onnxruntime() -> None:
    agree(ENCODERS, x=cities(), i=np.arange(90) % 5)


MOVED = """agraph (string[n, 1] x, string[n, 1] y) => (float[n, 2, 3] hot, bool[n, 1] same,
    string[m, n] turned) {
  both = Concat <axis = 1> (x, y)
  hot = ai.onnx.ml.OneHotEncoder <cats_strings = ["rome", "oslo", "bern"]> (both)
  rome = Constant <value_string = "rome"> ()
  same = Equal(y, rome)
  names = ai.onnx.ml.LabelEncoder <keys_strings = ["rome"], values_strings = ["Roma"],
    default_string = "?"> (both)
  turned = Transpose <perm = [1, 0]> (names)
}"""


def test_strings_move_between_operators_as_others_do() -> None:
    agree(MOVED, x=cities().reshape(-1, 1), y=cities()[::-1].reshape(-1, 1))


COUNTED = """agraph (string[n, 6] x) => (float[n, 5] y, string[m] names) {
  y = TfIdfVectorizer <mode = "TF", min_gram_length = 1, max_gram_length = 2, max_skip_count = 1,
    ngram_counts = [0, 3], ngram_indexes = [4, 0, 1, 2, 3],
    pool_strings = ["rome", "oslo", "", "rome", "bern", "oslo", "os"]> (x)
  some = ai.onnx.ml.LabelEncoder <keys_strings = ["rome", "os", "oslo"],
    values_strings = ["Ä", "z", "B"], default_string = "a"> (x)
  names = Unique (some)
}"""


def test_sequences_of_strings_are_counted_and_known_ones_sorted() -> None:
    agree(COUNTED, x=cities(60).reshape(-1, 6))


LABELS = """agraph (float[n, 2] x) => (string[n] label, float[n, 3] scores) {
  label, scores = ai.onnx.ml.LinearClassifier <classlabels_strings = ["b", "a", "c"],
    coefficients = [1.0, -1.0, -1.0, 1.0, 0.5, 0.5], intercepts = [0.0, 0.1, 0.2],
    post_transform = "SOFTMAX"> (x)
}"""


def test_classes_that_are_strings_are_given_as_such(tmp_path: Path) -> None:
    model, x = model_of(LABELS), np.linspace(-2, 2, 40, dtype=np.float32).reshape(20, 2)
    expected = run_onnxruntime(model, {"x": x})
    executable = weft.compile(model, threads=1)
    executable.export(tmp_path / "liblabels.so")
    for run in (executable, weft.load(tmp_path / "liblabels.so")):
        label, scores = run(x)
        assert label.tolist() == expected[0].tolist()
        np.testing.assert_allclose(scores, expected[1], rtol=1e-5)
        assert run.run({"x": x})["label"].tolist() == label.tolist()


ONE = """agraph (string[n] x) => (int64[n] y) {
  y = ai.onnx.ml.LabelEncoder <keys_strings = ["oslo", "rome"], values_int64s = [5, 7]> (x)
}"""


def test_arrays_of_every_kind_of_strings_are_taken() -> None:
    run = weft.compile(model_of(ONE), threads=1)
    kinds = [np.object_, "U8", np.dtypes.StringDType()]
    for array in (
        *(np.array(["rome", "?", "oslo"], kind) for kind in kinds),
        ["rome", "?", "oslo"],
    ):
        assert run(array)[0].tolist() == [7, -1, 5]
    assert run(np.array([], np.object_))[0].shape == (0,)
    for array in ([1, 2], np.array([None], np.object_), np.array(["\ud800"], np.object_)):
        with pytest.raises(InputError, match="input 'x' requires strings, got"):
            run(array)


def test_an_artifact_takes_ends_and_bytes(tmp_path: Path) -> None:
    executable = weft.compile(model_of(ONE), threads=1)
    names = [(each.name, each.dtype) for each in executable.inputs]
    assert names == [("x.ends", "int64"), ("x.bytes", "uint8")]
    ends, data = np.array([4, 8, 8]), np.frombuffer(b"romeoslo", np.uint8)
    assert executable(**{"x.ends": ends, "x.bytes": data})[0].tolist() == [7, 5, -1]
    hostile = np.array([2**62, -5, 4, 1])
    assert executable(**{"x.ends": hostile, "x.bytes": data})[0].tolist() == [-1, -1, 7, -1]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("(string[n] x) => (float[n] y) { y = Cast <to = 1> (x) }", "known while compiling"),
        (
            "(string[n] x) => (int64[n] y) "
            "{ y = ai.onnx.ml.LabelEncoder <keys_int64s = [1], values_int64s = [2]> (x) }",
            "keys of the type of its operand",
        ),
        (
            "(string[n] x) => (int64[n] y) { y = ai.onnx.ml.CategoryMapper"
            ' <cats_int64s = [1], cats_strings = ["a", "b"]> (x) }',
            "a string for each number, got 2 and 1",
        ),
        (
            "(int64[n] x) => (float[n, 1] y) { y = ai.onnx.ml.OneHotEncoder"
            ' <cats_strings = ["a"]> (x) }',
            "categories of the type of its operand",
        ),
    ],
)
def test_nodes_that_do_not_fit_their_strings_are_refused(body: str, said: str) -> None:
    with pytest.raises(weft.WeftError, match=said):
        weft.compile(model_of(f"agraph {body}"))


def map_model(body: str) -> ModelProto:
    """A model over a map, which ONNX's text has no syntax for."""
    model = model_of(f"agraph (float x) => (float[1, 3] y) {{ {body} }}")
    number = helper.make_tensor_type_proto(TensorProto.FLOAT, [])
    kind = helper.make_map_type_proto(TensorProto.STRING, number)
    model.graph.input[0].CopyFrom(helper.make_value_info("x", kind))
    return model


def test_maps_are_rows_with_a_column_for_each_key() -> None:
    model = map_model('y = ai.onnx.ml.DictVectorizer <string_vocabulary = ["c", "a", "b"]> (x)')
    run = weft.compile(model, threads=1)
    row = {"a": 1.5, "b": -2.0, "z": 9.0}
    (expected,) = run_onnxruntime(model, {"x": row})
    assert run(row)[0].tolist() == expected.tolist() == [[0.0, 1.5, -2.0]]
    assert run(x=[row, {}, {"c": 1}])[0].tolist() == [[0.0, 1.5, -2.0], [0, 0, 0], [1, 0, 0]]
    assert run(np.array([[1, 2, 3]], np.float32))[0].tolist() == [[1, 2, 3]]


def test_maps_that_something_else_reads_are_refused() -> None:
    with pytest.raises(weft.WeftError, match="'x' requires DictVectorizers of the same keys"):
        weft.compile(map_model("y = Identity(x)"))

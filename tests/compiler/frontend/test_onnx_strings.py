"""Strings are decided while compiling, or refused by name."""

from pathlib import Path

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, parser

import weft
from weft.compiler.adapters.onnx_backend import prepare
from weft.compiler.frontend.onnx.from_onnx import import_model
from weft.dialects.errors import ModelError, UnsupportedError
from weft.dialects.graph import ConstantOp, GraphOp

HEADER = '<ir_version: 10, opset_import: ["" : 22, "ai.onnx.ml" : 4]>\n'


def model_of(text: str, **constants: list[str]) -> ModelProto:
    """A model in ONNX's text syntax, with constants of strings."""
    model = parser.parse_model(HEADER + text)
    for name, texts in constants.items():
        stored = TensorProto(name=name, data_type=TensorProto.STRING, dims=[len(texts)])
        stored.string_data.extend(each.encode() for each in texts)
        model.graph.initializer.append(stored)
    return model


def names_of(model: ModelProto) -> list[str]:
    """The operators that are left, without constants."""
    (function,) = import_model(model).module.ops
    ops = [op for op in function.walk() if isinstance(op, GraphOp)]
    return [op.name for op in ops if not isinstance(op, ConstantOp)]


CHOICE = """agraph (float[2] x) => (float[2] y) {
    joined = StringConcat(left, right)
    same = Equal(joined, wanted)
    z = Neg(x)
    y = Where(same, x, z)
}"""


def test_comparisons_of_constants_become_bools() -> None:
    model = model_of(CHOICE, left=["a", "ü"], right=["b", "c"], wanted=["ab", "c"])
    assert names_of(model) == ["graph.neg", "graph.where"]
    (y,) = prepare(model).run([np.array([1, 2], np.float32)])
    assert y.tolist() == [1, -2]


LABELS = """agraph (string[n] x) => (int64[n] y) {
    y = ai.onnx.ml.LabelEncoder <keys_strings = ["a", "b"], values_int64s = [5, 7]> (x)
}"""


def test_the_backend_takes_strings_for_constants() -> None:
    prepared = prepare(model_of(LABELS))
    for texts, numbers in ((["b", "a"], [7, 5]), (["a", "a"], [5, 5]), (["c"], [-1])):
        (y,) = prepared.run([np.array(texts, np.object_)])
        assert y.tolist() == numbers


def test_all_inputs_and_nodes_that_are_refused_are_listed() -> None:
    text = """agraph (string[2] x, seq(float[2]) z, uint8[2] f) => (uint8[2] y, float[2] n) {
        n = Cast <to = 1> (x) y = com.acme.Fancy(f) }"""
    model = model_of(text)
    model.opset_import.append(helper.make_opsetid("com.acme", 1))
    with pytest.raises(UnsupportedError) as refusal:
        import_model(model)
    for part in (
        "known while compiling, got those of 'x'",
        "'z' requires a tensor",
        "got Fancy",
    ):
        assert part in str(refusal.value)


def test_strings_of_other_domains_are_refused() -> None:
    model = model_of("agraph () => (string[2] s) { s = x.StringConcat(left, right) }", left=["a"])
    model.graph.initializer.append(helper.make_tensor("right", TensorProto.STRING, [1], ["b"]))
    model.opset_import.append(helper.make_opsetid("x", 1))
    with pytest.raises(UnsupportedError, match="requires an operator that it has, got StringConc"):
        import_model(model)


def test_strings_are_not_raw_bytes() -> None:
    model = model_of("agraph () => (string[1] s) { s = Identity(left) }", left=["a"])
    model.graph.initializer[0].raw_data = b"a"
    with pytest.raises(ModelError, match="tensor 'left' requires strings as such, got raw bytes"):
        import_model(model)


def test_strings_that_are_known_are_outputs(tmp_path: Path) -> None:
    text = """agraph (float[n] x) => (string[2] s, float[n] y, string t) {
        s = StringConcat(left, right) y = Neg(x) t = Identity(last) }"""
    last = helper.make_tensor("last", TensorProto.STRING, [], ["end"])
    model = model_of(text, left=["a", "b"], right=["c", "d"])
    model.graph.initializer.append(last)
    run = weft.compile(model)
    run.export(tmp_path / "strings.so")
    for each in (run, weft.load(tmp_path / "strings.so")):
        named = each.run({"x": np.ones(3, np.float32)})
        assert list(named) == ["s", "y", "t"]
        texts, numbers, end = each(np.ones(3, np.float32))
        assert (texts.tolist(), end.item()) == (["ac", "bd"], "end")
        assert numbers.tolist() == [-1, -1, -1]
        texts[0] = "changed"
        assert each(np.ones(3, np.float32))[0][0] == "ac"


def test_nodes_that_make_strings_of_numbers_are_refused_by_name() -> None:
    model = model_of("agraph (float[2] x) => (bool[2] y) { t = Cast <to = 8> (x) y = Equal(t, c) }")
    model.graph.node[0].name = "text"
    model.graph.initializer.extend(model_of(CHOICE, c=["a", "b"]).graph.initializer)
    with pytest.raises(UnsupportedError, match=r"node 'text' .* known while compiling.* got \[2\]"):
        import_model(model)


def test_what_cannot_be_evaluated_is_refused_by_name() -> None:
    text = 'agraph () => (bool[n] y) { y = RegexFullMatch <pattern = "("> (x) }'
    model = model_of(text, x=["a"])
    model.graph.node[0].name = "match"
    with pytest.raises(ModelError, match="node 'match' .* operands that it can be evaluated on"):
        import_model(model)


def test_lists_of_strings_hold_utf_8() -> None:
    model = model_of("agraph () => (bool[n] y) { y = Equal(x, x) }", x=["a"])
    model.graph.initializer[0].string_data[0] = b"\xff"
    with pytest.raises(ModelError, match="requires UTF-8"):
        import_model(model)

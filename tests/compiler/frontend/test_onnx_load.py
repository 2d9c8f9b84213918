"""Loading ONNX: weights are not copied, and a damaged or dangerous model is one clear error."""

import os
import random
import tracemalloc
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from weft.compiler.frontend.onnx.load import load_model
from weft.compiler.frontend.onnx.opset import normalise
from weft.compiler.frontend.onnx.tensor import DTYPES, tensor_array
from weft.dialects.errors import ModelError, UnsupportedError, WeftError

FLOAT = TensorProto.FLOAT
LIGHT = Path(onnx.__file__).parent / "backend/test/data/light"


def value(name: str, *shape: int | str | None) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, FLOAT, shape)


def small_model(
    nodes: Sequence[onnx.NodeProto] | None = None,
    initializers: Sequence[onnx.TensorProto] = (),
    opset: int = 13,
    ir_version: int = 8,
) -> onnx.ModelProto:
    nodes = [helper.make_node("Neg", ["x"], ["y"], name="negate")] if nodes is None else nodes
    graph = helper.make_graph(nodes, "g", [value("x", 2, 3)], [value("y", 2, 3)], initializers)
    imports = [helper.make_opsetid("", opset)]
    return helper.make_model(graph, opset_imports=imports, ir_version=ir_version)


def weighted_model(weight: np.ndarray) -> onnx.ModelProto:
    nodes = [helper.make_node("Add", ["x", "w"], ["y"], name="add")]
    return small_model(nodes, [numpy_helper.from_array(weight, "w")])


def error_of(model: onnx.ModelProto | bytes, kind: type[WeftError] = ModelError) -> str:
    with pytest.raises(kind) as caught:
        load_model(model)
    return str(caught.value)


def test_a_file_bytes_and_a_proto_load_alike(tmp_path: Path) -> None:
    weight = np.arange(6, dtype=np.float32).reshape(2, 3)
    model = weighted_model(weight)
    path = tmp_path / "m.onnx"
    path.write_bytes(model.SerializeToString())
    for source in (str(path), path, model.SerializeToString(), model):
        loaded = load_model(source)
        np.testing.assert_array_equal(loaded.array("w"), weight)
        assert [node.name for node in loaded.proto.graph.node] == ["add"]
        assert not loaded.proto.graph.initializer
    assert load_model(path).name == str(path)
    assert load_model(path).base_dir == tmp_path
    assert model.graph.initializer[0].name == "w"


def test_weights_of_a_file_are_mapped_and_not_copied(tmp_path: Path) -> None:
    weight = np.random.default_rng(0).standard_normal((512, 1024)).astype(np.float32)
    path = tmp_path / "m.onnx"
    path.write_bytes(weighted_model(weight).SerializeToString())
    load_model(path)
    tracemalloc.start()
    array = load_model(path).array("w")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    np.testing.assert_array_equal(array, weight)
    assert peak < weight.nbytes // 4
    assert not array.flags.writeable
    assert not array.flags.owndata


def test_weights_of_a_proto_are_copied_once() -> None:
    node = helper.make_node("Constant", [], ["c"], value=ones("", 1000))
    use = helper.make_node("Add", ["w", "c"], ["y"])
    loaded = load_model(small_model([node, use], [ones("w", 1000)]))
    for name in ("w", "c"):
        assert np.shares_memory(loaded.array(name), loaded.array(name)), name


def ones(name: str, count: int) -> onnx.TensorProto:
    return numpy_helper.from_array(np.ones(count, np.float32), name)


def test_large_constant_nodes_become_initializers() -> None:
    big = np.arange(1000, dtype=np.float32)
    nodes = [
        helper.make_node("Constant", [], ["c"], value=numpy_helper.from_array(big)),
        helper.make_node("Constant", [], ["d"], value=numpy_helper.from_array(big[:1])),
        helper.make_node("Add", ["c", "d"], ["e"]),
        helper.make_node("Add", ["x", "e"], ["y"]),
    ]
    for source in (small_model(nodes), small_model(nodes).SerializeToString()):
        loaded = load_model(source)
        assert list(loaded.initializers) == ["c"]
        np.testing.assert_array_equal(loaded.array("c"), big)
        assert [each.op_type for each in loaded.proto.graph.node] == ["Constant", "Add", "Add"]


def test_initializers_of_old_models_are_not_inputs() -> None:
    model = weighted_model(np.zeros((2, 3), np.float32))
    model.ir_version = 3
    model.graph.input.append(value("w", 2, 3))
    assert [each.name for each in load_model(model).proto.graph.input] == ["x"]


def test_the_other_spelling_of_the_default_domain_is_understood() -> None:
    model = small_model([helper.make_node("Neg", ["x"], ["y"], domain="ai.onnx")])
    model.opset_import[0].domain = "ai.onnx"
    assert load_model(model).proto.graph.node[0].domain == ""


def test_unsorted_nodes_are_sorted() -> None:
    nodes = [
        helper.make_node("Neg", ["b"], ["y"], name="third"),
        helper.make_node("Neg", ["a"], ["b"], name="second"),
        helper.make_node("Neg", ["x"], ["a"], name="first"),
    ]
    names = [node.name for node in load_model(small_model(nodes)).proto.graph.node]
    assert names == ["first", "second", "third"]


def test_captured_values_count_when_nodes_are_sorted() -> None:
    branch = helper.make_graph([helper.make_node("Neg", ["a"], ["t"])], "b", [], [value("t")])
    nodes = [
        helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=branch),
        helper.make_node("Abs", ["x"], ["a"]),
        helper.make_node("Constant", [], ["c"], value=numpy_helper.from_array(np.array(True))),
    ]
    types = [node.op_type for node in load_model(small_model(nodes)).proto.graph.node]
    assert types.index("Abs") < types.index("If")
    assert types.index("Constant") < types.index("If")


@pytest.mark.parametrize("number", [number for number in DTYPES if number != TensorProto.STRING])
@pytest.mark.parametrize("raw", [True, False])
def test_every_element_type_is_read_as_onnx_reads_it(number: int, raw: bool) -> None:
    dtype = DTYPES[number]
    numbers = np.random.default_rng(number).integers(0, 2, (3, 5))
    if number == TensorProto.FLOAT8E8M0:
        numbers += 1  # this type has powers of two and no zero
    array = numbers.astype(np.float32).astype(dtype)
    tensor = numpy_helper.from_array(array, "t")
    assert tensor.data_type == number
    if not raw:
        tensor = helper.make_tensor("t", number, (3, 5), numbers.ravel().tolist())
    got = tensor_array(tensor)
    assert got.dtype == dtype
    np.testing.assert_array_equal(got.real.astype(np.float32), numbers)


@pytest.mark.parametrize("kind", [ml_dtypes.int4, ml_dtypes.uint4, ml_dtypes.int2])
def test_packed_integers_keep_their_order_and_sign(kind: type[Any]) -> None:
    info = ml_dtypes.iinfo(kind)
    numbers = np.arange(info.min, info.max + 1).astype(kind)
    tensor = numpy_helper.from_array(numbers, "t")
    np.testing.assert_array_equal(tensor_array(tensor), numbers)


def test_strings_are_read() -> None:
    tensor = TensorProto(name="t", data_type=TensorProto.STRING, dims=(2,))
    tensor.string_data.extend([b"a", b"bc"])
    assert tensor_array(tensor).tolist() == [b"a", b"bc"]


def external_model(folder: Path, **entries: str) -> Path:
    tensor = TensorProto(name="w", data_type=FLOAT, dims=[2, 3])
    tensor.data_location = TensorProto.EXTERNAL
    for key, text in entries.items():
        tensor.external_data.add(key=key, value=text)
    model = small_model([helper.make_node("Add", ["x", "w"], ["y"])], [tensor])
    path = folder / "m.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def test_external_data_is_mapped(tmp_path: Path) -> None:
    weight = np.arange(6, dtype=np.float32)
    (tmp_path / "w.bin").write_bytes(b"abcd" + weight.tobytes())
    array = load_model(external_model(tmp_path, location="w.bin", offset="4")).array("w")
    np.testing.assert_array_equal(array.ravel(), weight)
    base = array
    while base.base is not None and not isinstance(base, np.memmap):
        base = base.base
    assert isinstance(base, np.memmap)


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"location": "../w.bin"}, "inside the model's folder, got '../w.bin'"),
        ({"location": "/etc/passwd"}, "inside the model's folder, got '/etc/passwd'"),
        ({"location": "C:\\w.bin"}, "inside the model's folder"),
        ({"location": ""}, "inside the model's folder, got ''"),
        ({"location": "missing.bin"}, "requires its external file, got no 'missing.bin'"),
        ({"location": "."}, "requires a regular external file"),
        ({"location": "link.bin"}, "no link out of the model's folder, got 'link.bin'"),
        ({"location": "w.bin", "offset": "1"}, "within 'w.bin', got bytes 1 to 25 of 24"),
        ({"location": "w.bin", "offset": "-4"}, "decimal offset"),
        ({"location": "w.bin", "offset": "9" * 30}, "decimal offset"),
        ({"location": "w.bin", "length": "8"}, "requires 24 bytes for its shape, got a length"),
    ],
)
def test_external_data_may_not_leave_its_place(
    tmp_path: Path, entries: dict[str, str], message: str
) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "secret.bin").write_bytes(bytes(24))
    (folder / "w.bin").write_bytes(bytes(24))
    os.symlink(tmp_path / "secret.bin", folder / "link.bin")
    with pytest.raises(ModelError) as caught:
        load_model(external_model(folder, **entries))
    assert message in str(caught.value)


def test_bytes_have_no_external_data_without_a_folder(tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(bytes(24))
    data = external_model(tmp_path, location="w.bin").read_bytes()
    assert "requires a model read from a file for its external data, got bytes" in error_of(data)
    assert load_model(data, base_dir=tmp_path).array("w").shape == (2, 3)


def test_an_absent_file_is_named() -> None:
    with pytest.raises(ModelError, match=r"/no/such\.onnx: .* got: No such file"):
        load_model("/no/such.onnx")


def nested(depth: int) -> onnx.ModelProto:
    """A Neg inside as many Loops; grown in place, as protobuf copies no message of this depth."""
    model = small_model([])
    graph = model.graph
    for _ in range(depth):
        node = graph.node.add(op_type="Loop", input=["", "", "x"], output=["y"])
        body = node.attribute.add(name="body", type=onnx.AttributeProto.GRAPH)
        graph = body.g
        graph.output.add(name="y")
    graph.node.add(op_type="Neg", input=["x"], output=["y"])
    return model


def broken(change: Callable[[onnx.ModelProto], object]) -> onnx.ModelProto:
    model = weighted_model(np.zeros((2, 3), np.float32))
    change(model)
    return model


NODE = helper.make_node
RULES: list[tuple[str, onnx.ModelProto, type[WeftError], str]] = [
    ("no graph", onnx.ModelProto(ir_version=8), ModelError, "requires a graph, got none"),
    ("empty graph", broken(lambda m: m.graph.Clear()), UnsupportedError, "at least one output"),
    ("no op type", small_model([NODE("", ["x"], ["y"])]), ModelError, "op type requires a name"),
    (
        "undefined input",
        small_model([NODE("Neg", ["q"], ["y"], name="n")]),
        ModelError,
        "node 'n' (Neg) requires values that are defined, got 'q'",
    ),
    ("undefined output", small_model([NODE("Neg", ["x"], ["z"])]), ModelError, "got 'y'"),
    (
        "two definitions",
        small_model([NODE("Neg", ["x"], ["y"]), NODE("Abs", ["x"], ["y"])]),
        ModelError,
        "node 1 (Abs) requires a name of its own, got 'y' a second time",
    ),
    (
        "redefined input",
        small_model([NODE("Neg", ["x"], ["x"]), NODE("Neg", ["x"], ["y"])]),
        ModelError,
        "got 'x' a second time",
    ),
    (
        "cycle",
        small_model(
            [NODE("Add", ["x", "b"], ["a"], name="p"), NODE("Neg", ["a"], ["b"], name="q")]
            + [NODE("Neg", ["b"], ["y"])]
        ),
        ModelError,
        "without a cycle, got node 'p' (Add) -> node 'q' (Neg) -> node 'p' (Add)",
    ),
    (
        "two initialisers",
        broken(lambda m: m.graph.initializer.append(m.graph.initializer[0])),
        ModelError,
        "got 'w' a second time",
    ),
    (
        "two inputs",
        broken(lambda m: m.graph.input.append(value("x", 1))),
        ModelError,
        "graph input requires a name of its own, got 'x' a second time",
    ),
    (
        "element type",
        broken(lambda m: setattr(m.graph.initializer[0], "data_type", 99)),
        ModelError,
        "tensor 'w' requires a known element type, got 99",
    ),
    (
        "negative dimension",
        broken(lambda m: m.graph.input.append(value("z", -3))),
        UnsupportedError,
        "input 'z' requires dimensions of at least 0, or names of those that vary, got [-3]",
    ),
    (
        "huge dimensions",
        broken(lambda m: m.graph.input.append(value("z", 2**40, 2**40))),
        UnsupportedError,
        "extent too large",
    ),
    (
        "huge behind a zero",
        broken(lambda m: m.graph.input.append(value("z", 0, 2**62, 2**62))),
        UnsupportedError,
        "extent too large",
    ),
    (
        "too few bytes",
        broken(lambda m: setattr(m.graph.initializer[0], "raw_data", b"1234")),
        ModelError,
        "tensor 'w' requires 24 bytes for its shape 2x3, got 4",
    ),
    ("old opset", small_model(opset=0), UnsupportedError, "an opset from 1 to"),
    ("new opset", small_model(opset=999), UnsupportedError, "got 999"),
    (
        "no opset",
        broken(lambda m: m.ClearField("opset_import")),
        ModelError,
        "requires an opset import for its default domain",
    ),
    (
        "a second opset that is too new",
        broken(lambda m: m.opset_import.append(helper.make_opsetid("ai.onnx", 99))),
        UnsupportedError,
        "got 99",
    ),
    ("new IR", small_model(ir_version=99), UnsupportedError, "IR version of at most"),
    ("deep nesting", nested(70), ModelError, "at most 24 nested graphs"),
    (
        "sparse",
        broken(lambda m: m.graph.sparse_initializer.add()),
        UnsupportedError,
        "dense initialisers",
    ),
    (
        "attribute type",
        broken(lambda m: m.graph.node[0].attribute.add(name="a")),
        ModelError,
        "node 'add' (Add), attribute 'a' requires a known type, got 0",
    ),
    (
        "input type",
        broken(lambda m: m.graph.input.add(name="z")),
        ModelError,
        "input 'z' requires a type",
    ),
]


@pytest.mark.parametrize(
    ("model", "kind", "message"), [rule[1:] for rule in RULES], ids=[rule[0] for rule in RULES]
)
def test_a_broken_rule_is_named(
    model: onnx.ModelProto, kind: type[WeftError], message: str
) -> None:
    text = error_of(model, kind)
    assert message in text
    assert text.startswith("<model>: ")
    assert "\n" not in text


def test_names_must_be_utf8() -> None:
    data = small_model([NODE("Neg", ["x"], ["y"], name="QQQQ")]).SerializeToString()
    assert "UTF-8" in error_of(data.replace(b"QQQQ", b"\xff\xfe\xfd\xfc"))


def test_names_with_line_breaks_stay_on_one_line() -> None:
    text = error_of(small_model([NODE("Neg", ["q\n\x1b[2J"], ["y"])]))
    assert text.endswith(r"got 'q\n\x1b[2J'")


def test_nesting_that_protobuf_refuses_is_a_clear_error() -> None:
    assert "nested less than 100 deep" in error_of(nested(40).SerializeToString())


def test_nesting_within_the_limit_loads() -> None:
    loaded = load_model(nested(20).SerializeToString())
    assert len(normalise(loaded).proto.graph.node) == 1


def test_training_information_is_ignored() -> None:
    model = small_model()
    model.training_info.add().algorithm.name = "sgd"
    assert load_model(model).proto.graph.node[0].name == "negate"


def mutations(data: bytes, count: int, head: int) -> list[bytes]:
    """Truncations and bit flips within the first `head` bytes, the same ones in every run."""
    chance = random.Random(5)
    mutants: list[bytes] = []
    for index in range(count):
        if index % 2:
            mutants.append(data[: chance.randrange(len(data))])
            continue
        damaged = bytearray(data)
        for _ in range(chance.randint(1, 4)):
            damaged[chance.randrange(min(head, len(data)))] ^= 1 << chance.randrange(8)
        mutants.append(bytes(damaged))
    return mutants


def load_all(mutants: Sequence[bytes]) -> tuple[int, int]:
    """How many load and how many raise WeftError; any other exception fails the test."""
    loaded = refused = 0
    for data in mutants:
        try:
            model = normalise(load_model(data))
            for name in model.initializers:
                model.array(name)
            loaded += 1
        except WeftError:
            refused += 1
    return loaded, refused


def test_damaged_small_models_raise_only_weft_errors() -> None:
    branch = helper.make_graph([NODE("Neg", ["s"], ["t"])], "b", [], [value("t")])
    nodes = [
        NODE("ReduceSum", ["x"], ["s"], axes=[0], name="sum"),
        NODE("Softmax", ["s"], ["p"], axis=1),
        NODE("If", ["c"], ["q"], then_branch=branch, else_branch=branch),
        NODE("Clip", ["q", "", "w"], ["r"]),
        NODE("Add", ["r", "p"], ["y"]),
    ]
    constants = [
        numpy_helper.from_array(np.array(1, np.float32), "w"),
        numpy_helper.from_array(np.array(True), "c"),
    ]
    data = small_model(nodes, constants, opset=12).SerializeToString()
    assert load_all([data]) == (1, 0)
    loaded, refused = load_all(mutations(data, 3000, len(data)))
    assert loaded > 100
    assert refused > 100


def test_damaged_light_models_raise_only_weft_errors() -> None:
    data = (LIGHT / "light_squeezenet.onnx").read_bytes()
    loaded, refused = load_all(mutations(data, 200, 4000))
    assert loaded > 0
    assert refused > 100


@pytest.mark.parametrize("path", sorted(LIGHT.glob("*.onnx")), ids=lambda path: path.stem)
def test_light_models_load_and_normalise(path: Path) -> None:
    model = normalise(load_model(path))
    assert len(model.proto.graph.input) == 1
    assert model.initializers

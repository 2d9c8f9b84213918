"""Programs that are kept for other weights: the next version of a model is compiled as if nothing
were kept, to the bit, without being scheduled or emitted again where its weights allow that.
"""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import ModelProto, numpy_helper

from tests.compiler.driver.test_replaced_weights import convolutions, normalized, products
from tests.models.graph_writer import GraphWriter
from weft.compilation import options_of
from weft.compiler.driver import pipeline
from weft.compiler.driver.kept_programs import program_key
from weft.compiler.driver.pipeline import compile_model, read_graph
from weft.compiler.driver.session import Session
from weft.compiler.machine.artifact.artifact import Compiled
from weft.dialects.weights import WeightStore


class Kept(dict[str, bytes]):
    """A store in memory; one without programs compiles a model as ever."""

    def __init__(self, *, programs: bool = True):
        super().__init__()
        self.programs = programs

    def find_kernel(self, key: str) -> bytes | None:
        return self.get(key)

    def keep_kernel(self, key: str, data: bytes) -> None:
        if self.programs or b'"transpositions"' not in data:
            self[key] = data


def tied() -> ModelProto:
    """A table that is a factor too, transposed, and a shape that decides how the graph looks."""
    net = GraphWriter("tied", seed=5)
    table = net.weight("table", (1100, 64), 0.3)
    rows = net.op("Gather", table, net.input("ids", (6,), 7))
    shape = net.stored("shape", np.array([2, 3, 64], np.int64))
    rows = net.op("Mul", net.op("Reshape", rows, shape), net.weight("scale", (3, 1), 0.3, 1.0))
    net.output(net.op("MatMul", rows, net.op("Transpose", table, perm=[1, 0])), "y", (2, 3, 1100))
    return net.model


def untied() -> ModelProto:
    """The same with a factor of its own, in which the transposed table may be."""
    net = GraphWriter("untied", seed=5)
    table = net.weight("table", (1100, 64), 0.3)
    rows = net.op("Gather", table, net.input("ids", (6,), 7))
    factor = net.stored("factor", np.ascontiguousarray(tensor(net.model, "table").T))
    net.output(net.op("MatMul", rows, factor), "y", (6, 1100))
    return net.model


def quantized() -> ModelProto:
    """A product of bytes, whose zero points and scales are tensors of the model."""
    net = GraphWriter("quantized", seed=6)
    x = net.input("x", (4, 64))
    zero = net.stored("zero", np.array(3, np.uint8))
    bytes_ = net.op("QuantizeLinear", x, net.stored("x.scale", np.array(0.02, np.float32)), zero)
    weight = net.stored("weight", np.random.default_rng(6).integers(-99, 99, (64, 32), np.int8))
    shift = net.stored("weight.zero", np.zeros(32, np.int8))
    sums = net.op("MatMulInteger", bytes_, weight, zero, shift)
    floats = net.op("Mul", net.op("Cast", sums, to=1), net.weight("scale", (32,), 0.1, 1.0))
    net.output(floats, "y", (4, 32))
    return net.model


MODELS: dict[str, Callable[[], ModelProto]] = {
    each.__name__: each for each in (convolutions, products, normalized, tied, untied, quantized)
}


def tensor(model: ModelProto, name: str) -> np.ndarray:
    (found,) = (each for each in model.graph.initializer if each.name == name)
    return numpy_helper.to_array(found)


def changed(model: ModelProto, values: dict[str, np.ndarray]) -> ModelProto:
    """The model with other values of some tensors."""
    made = ModelProto.FromString(model.SerializeToString())
    for each in made.graph.initializer:
        if each.name in values:
            each.CopyFrom(numpy_helper.from_array(values[each.name], each.name))
    return made


def compiled(model: ModelProto, store: Kept) -> Compiled:
    options = options_of(model.SerializeToString())
    return compile_model(
        model.SerializeToString(), options, Session(options, store=store, verify_each=False)
    )


def content(made: Compiled) -> tuple[object, ...]:
    weights = [made.weights.prepare(each).tobytes() for each in made.weights.sources]
    return made.objects, made.note, made.exports, made.libc, made.signature, weights


def others(model: ModelProto, names: list[str], how: str, seed: int) -> dict[str, np.ndarray]:
    """Other values of these tensors, of a certain sort."""
    random = np.random.default_rng(seed)
    alike = {each.name: numpy_helper.to_array(each) for each in model.graph.initializer}
    found: dict[str, np.ndarray] = {}
    for name in names:
        old = alike[name]
        new = (random.random(old.shape) + 0.5).astype(old.dtype)
        same = [x for other, x in alike.items() if other != name and x.shape == old.shape]
        if how == "equal" and same and same[0].dtype == old.dtype:
            new = same[0]
        elif how == "zero":
            new = np.zeros_like(old)
        elif how == "subnormal" and old.dtype == np.float32:
            new = np.where(random.random(old.shape) < 0.2, np.float32(1e-40), new)
        elif how == "unusual" and old.dtype == np.float32:
            new = np.where(random.random(old.shape) < 0.2, np.float32(np.nan), new)
        found[name] = np.asarray(new, old.dtype).reshape(old.shape)
    return found


STORES = Kept(), Kept(programs=False)


@pytest.mark.parametrize("name", MODELS)
def test_other_weights_take_the_program_that_was_kept(name: str, monkeypatch: pytest.MonkeyPatch):
    model, (kept, plain) = MODELS[name](), STORES
    compiled(model, kept)
    fixed = {"shape", "zero", "weight.zero", "x.scale", "two", "factor", "ones", "zeros"}
    floats = [x.name for x in model.graph.initializer if x.data_type == 1 and x.name not in fixed]
    large = [each for each in floats if tensor(model, each).size > 16]
    version = changed(model, others(model, [each for each in large if each != "table"], "", 1))
    expected = content(compiled(version, plain))
    if name != "normalized":  # whose weights were equal, and are not any more
        monkeypatch.setattr(pipeline, "lower", None)
    assert content(compiled(version, kept)) == expected


@settings(max_examples=25)
@given(data=st.data())
def test_any_change_of_weights_gives_what_a_compilation_gives(data: st.DataObject):
    model, (kept, plain) = MODELS[data.draw(st.sampled_from(sorted(MODELS)))](), STORES
    compiled(model, kept)
    names = sorted(each.name for each in model.graph.initializer if each.name != "shape")
    some = data.draw(st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True))
    how = data.draw(st.sampled_from(["random", "equal", "zero", "subnormal", "unusual"]))
    version = changed(model, others(model, some, how, data.draw(st.integers(0, 99))))
    assert content(compiled(version, kept)) == content(compiled(version, plain))


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("tied", {"shape": np.array([3, 2, 64], np.int64), "scale": np.ones((2, 1), np.float32)}),
        ("tied", {"scale": np.full((3, 1), 2.5, np.float32)}),
        ("untied", {"factor": np.full((64, 1100), 0.5, np.float32)}),
        ("quantized", {"zero": np.array(7, np.uint8)}),
        ("quantized", {"x.scale": np.array(0.04, np.float32)}),
    ],
)
def test_what_decides_something_is_compiled_anew(name: str, values: dict[str, np.ndarray]):
    model, kept, plain = MODELS[name](), Kept(), Kept(programs=False)
    compiled(model, kept)
    version = changed(model, values)
    if "shape" in values:
        del version.graph.output[0].type.tensor_type.shape.dim[:]
    found = content(compiled(version, kept))
    assert found == content(compiled(version, plain))
    assert found != content(compiled(model, kept))


def test_nobody_reads_values_behind_the_graph():
    store = WeightStore()
    store.add("w", np.ones(40, np.float32))
    with store.closed(), pytest.raises(AssertionError, match="read no values"):
        store["w"]
    assert store["w"].shape == store.shape("w")


def test_a_key_tells_graphs_types_and_options_apart():
    options = options_of(b"")
    keys: set[str | None] = set()
    for model in map(ModelProto.SerializeToString, [tied(), untied(), products()]):
        for each in (options, options.changed(strict_fp=True), options.changed(naive=True)):
            session = Session(each, store=Kept(), verify_each=False)
            imported = read_graph(model, session)
            keys.add(program_key(imported.module, imported.weights, session))
            array = imported.weights.add("another", np.ones(17, np.float64))
            assert array == "another"
            keys.add(program_key(imported.module, imported.weights, session))
    assert len(keys) == 18
    assert None not in keys


def test_names_of_nodes_are_part_of_a_key():
    model, kept, plain = tied(), Kept(), Kept(programs=False)
    before = compiled(model, kept)
    model.graph.node[0].name = "renamed"
    after = compiled(model, kept)
    assert content(after) == content(compiled(model, plain))
    assert before.metadata["calls"] != after.metadata["calls"]


@pytest.mark.parametrize("where", ["file", "caller"])
def test_programs_that_hold_values_have_no_key(where: str):
    options = options_of(b"").changed(weights=where)
    session = Session(options, store=Kept(), verify_each=False)
    imported = read_graph(products().SerializeToString(), session)
    assert program_key(imported.module, imported.weights, session) is None

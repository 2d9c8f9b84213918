"""Compiled functions that are found again: the same function anew stands for another process."""

from collections import namedtuple
from types import ModuleType

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from weft import nn
from weft.source import interpret
from weft.tracing import trace as recording

X = np.ones((2, 3), np.float32)
WEIGHT = np.arange(9, dtype=np.float32).reshape(3, 3)
SCALE = 2.0
ROOTS, TURN = np.array([1j, 2.0, -1j]), weft.Tensor(np.array([0.5j, 1.0, 2j]))


@pytest.fixture
def readings(monkeypatch, tmp_path) -> list[object]:
    """A cache of its own, and the functions that were read since."""
    monkeypatch.setenv("WEFT_CACHE_DIR", str(tmp_path / "cache"))
    found, read = list[object](), interpret.read_function

    def noted(function, *arguments, **named):
        found.append(function)
        return read(function, *arguments, **named)

    monkeypatch.setattr(interpret, "read_function", noted)
    return found


def layer(x, bias=np.full(3, 0.5, np.float32)):  # noqa: B008
    return {"y": wnp.tanh(x @ WEIGHT) * SCALE + bias, "count": 3}


def test_a_function_is_read_once(readings):
    first, again = weft.jit(layer)(X), weft.jit(layer)(X)
    assert readings == [layer]
    np.testing.assert_array_equal(first["y"], again["y"])
    assert first["count"] == again["count"] == 3
    weft.jit(layer)(X[:1])
    assert readings == [layer, layer]


def test_a_found_function_reads_its_surroundings_in_each_call(readings, monkeypatch):
    weft.jit(layer)(X)
    found = weft.jit(layer)
    found(X)
    monkeypatch.setitem(layer.__globals__, "WEIGHT", WEIGHT * 0)
    np.testing.assert_array_equal(found(X)["y"], np.full((2, 3), 0.5))
    assert readings == [layer]
    monkeypatch.setitem(layer.__globals__, "SCALE", 4.0)
    assert found(X)["y"] is not None
    assert "SCALE is 4.0, was 2.0" in found.explain()
    assert readings == [layer, layer]


def test_arrays_that_are_part_of_the_code_are_compared(readings):
    weft.jit(layer)(X)
    layer.__defaults__[0][:] = 1.5
    try:
        found = weft.jit(layer)(X)["y"]
    finally:
        layer.__defaults__[0][:] = 0.5
    assert readings == [layer, layer]
    np.testing.assert_allclose(found, np.tanh(X @ WEIGHT) * 2 + 1.5, rtol=1e-6)


def test_a_module_is_found_by_the_types_of_its_parameters(readings):
    models = [nn.Sequential(nn.Dense(3, 4), nn.ReLU()) for _ in range(2)]

    def of(model):
        return weft.jit(lambda x: model(x) * 2)

    for model in models:
        expected = model(wnp.asarray(X)).numpy() * 2
        np.testing.assert_allclose(np.asarray(of(model)(X)), expected, rtol=1e-5)
    assert len(readings) == 1


def test_a_module_whose_state_changes_is_read_again(readings):
    model = nn.BatchNorm(3)

    def trained(x):
        return model(x)

    for _ in range(2):
        before = {key: value.numpy().copy() for key, value in model.buffers().items()}
        weft.jit(trained)(X * np.arange(2, dtype=np.float32)[:, None])
        assert any((value.numpy() != before[key]).any() for key, value in model.buffers().items())
    assert len(readings) == 2


def test_a_result_that_is_an_object_is_read_again(readings):
    marker = object()

    def marked(x):
        return x + 1, marker

    assert [weft.jit(marked)(X)[1] for _ in range(2)] == [marker, marker]
    assert len(readings) == 2


def test_prints_happen_in_calls_of_found_functions(readings, capfd):
    def shown(x):
        print("sum", x.sum())
        return x

    weft.jit(shown)(X)
    weft.jit(shown)(X)
    assert capfd.readouterr().out == "sum 6.0\nsum 6.0\n"
    assert len(readings) == 1


def turned(x, z=1j):
    return {"z": [x * ROOTS * z, 3j], "back": wnp.fft.ifft(TURN * ROOTS).real}


@pytest.mark.parametrize("name", ["ROOTS", "TURN"])
@pytest.mark.parametrize("wrap", [np.asarray, weft.Tensor])
def test_a_found_function_reads_complex_numbers_in_each_call(readings, monkeypatch, name, wrap):
    def check(function):
        found, wanted = function(wrap(ROOTS * 2)), turned(ROOTS * 2)
        assert found["z"][1] == 3j
        for got, right in ((found["z"][0], wanted["z"][0]), (found["back"], wanted["back"])):
            assert type(got) is type(wrap(np.asarray(right)))
            np.testing.assert_allclose(np.asarray(got), np.asarray(right), atol=1e-12)

    check(weft.jit(turned))
    found = weft.jit(turned)
    check(found)
    monkeypatch.setitem(turned.__globals__, name, turned.__globals__[name] * 1.5)
    check(found)
    check(weft.jit(turned))
    assert readings == [turned]


def test_a_found_trace_takes_and_returns_the_same_trees(monkeypatch, tmp_path):
    monkeypatch.setenv("WEFT_CACHE_DIR", str(tmp_path / "cache"))
    calls, record = list[object](), recording.record
    monkeypatch.setattr(recording, "record", lambda *a, **n: calls.append(a) or record(*a, **n))

    def function(pair, w):
        return {"all": (pair["z"] * w + TURN, w.sum()), "none": None}

    given = {"z": ROOTS}, np.ones(3)
    first, again = weft.trace(function, *given), weft.trace(function, *given)
    assert len(calls) == 1
    for each in (first, again):
        found = each(*given)
        np.testing.assert_allclose(found["all"][0], ROOTS + np.asarray(TURN))
        assert found["all"][0].dtype == np.complex128
        assert (found["all"][1], found["none"]) == (3.0, None)
        with pytest.raises(weft.InputError, match="arguments like its examples"):
            each(ROOTS, np.ones(3))
    assert str(first.imported().module) == str(again.imported().module)
    other = TURN * 2
    monkeypatch.setitem(function.__globals__, "TURN", other)
    found = weft.trace(function, *given)(*given)
    np.testing.assert_allclose(found["all"][0], ROOTS + np.asarray(other))


def test_a_found_step_has_the_same_graph_and_complex_state(monkeypatch, tmp_path):
    monkeypatch.setenv("WEFT_CACHE_DIR", str(tmp_path / "cache"))

    def update(state, x):
        return {"z": state["z"] * 1j + x}, x.sum()

    steps = [weft.step(update, {"z": ROOTS}, X[0], donate=(0,)) for _ in range(2)]
    for each in steps:
        found, _ = each({"z": weft.Tensor(ROOTS)}, X[0])
        np.testing.assert_allclose(np.asarray(found["z"]), ROOTS * 1j + X[0])
    first, again = (str(each.imported().module) for each in steps)
    assert first == again


def test_trees_of_a_class_without_a_name_are_not_kept(monkeypatch, tmp_path):
    monkeypatch.setenv("WEFT_CACHE_DIR", str(tmp_path / "cache"))
    local = namedtuple("local", "first second")

    def swapped(pair):
        return type(pair)(pair.second, pair.first)

    for _ in range(2):
        found = weft.step(swapped, local(X, X + 1))(local(X, X + 1))
        assert isinstance(found, local)
        np.testing.assert_array_equal(np.asarray(found.first), X + 1)


def test_a_trace_is_found_and_watched(monkeypatch, tmp_path):
    monkeypatch.setenv("WEFT_CACHE_DIR", str(tmp_path / "cache"))
    calls = []

    def function(x):
        return weft.watch(x * 2, "double") + 1

    def counted(x):
        calls.append(1)
        return function(x)

    first, again = weft.trace(function, X), weft.trace(function, X)
    np.testing.assert_array_equal(first(X), again(X))
    np.testing.assert_array_equal(again.watch("double")(X)[1], X * 2)
    weft.trace(counted, X)
    weft.trace(counted, X)
    assert len(calls) == 2, "what changes its surroundings is run each time"


class Scaled:
    scale = 2.0

    def __init__(self):
        self.weight = 3.0

    def factor(self):
        return self.scale * self.weight + getattr(self, "bias", 0.0)


class Slotted:
    __slots__ = ("extra", "scale")

    def __init__(self):
        self.scale = 2.0


def helper(x, factor=2.0):
    return x * factor


def larger(x, factor=2.0):
    return x * factor * 10.0


SCALED, SLOTTED, SETTINGS = Scaled(), Slotted(), ModuleType("settings")
SETTINGS.scale = 2.0


@pytest.mark.parametrize(
    ("function", "holder", "name", "value"),
    [
        (lambda x: x * SCALED.factor(), SCALED, "bias", 1.0),
        (lambda x: x * SCALED.factor(), SCALED, "scale", 5.0),
        (lambda x: x * SCALED.factor(), SCALED, "factor", lambda: 7.0),
        (lambda x: x * SCALED.factor(), Scaled, "bias", 1.0),
        (lambda x: x * SCALED.factor(), Scaled, "scale", 5.0),
        (lambda x: x * SCALED.factor(), Scaled, "factor", lambda self: 7.0 * self.weight),
        (lambda x: x * Scaled.scale, Scaled, "scale", 5.0),
        (lambda x: x + hasattr(SLOTTED, "extra"), SLOTTED, "extra", 1.0),
        (lambda x: x * SETTINGS.scale, SETTINGS, "scale", 5.0),
        (lambda x: helper(x), helper, "__defaults__", (5.0,)),
        (lambda x: helper(x), helper, "__code__", larger.__code__),
    ],
    ids=[
        "attribute", "shadow", "own method", "class attribute", "inherited", "method", "of a class",
        "slot", "module", "defaults", "code",
    ],
)  # fmt: skip
def test_what_changes_around_a_function_is_seen_also_where_it_was_found(
    readings, monkeypatch, function, holder, name, value
):
    compiled, found = weft.jit(function), weft.jit(function)
    np.testing.assert_array_equal(compiled(X), function(X))
    np.testing.assert_array_equal(found(X), function(X))
    assert len(readings) == 1, "the second was found"
    monkeypatch.setattr(holder, name, value, raising=False)
    np.testing.assert_array_equal(compiled(X), function(X))
    np.testing.assert_array_equal(found(X), function(X))

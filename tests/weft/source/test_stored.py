"""Compiled functions that are found again: the same function anew stands for another process."""

from collections import namedtuple

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from weft import nn
from weft.source import interpret

X = np.ones((2, 3), np.float32)
WEIGHT = np.arange(9, dtype=np.float32).reshape(3, 3)
SCALE = 2.0


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
    np.testing.assert_array_equal(first(X)[0], again(X)[0])
    np.testing.assert_array_equal(again.watch("double")(X)[1], X * 2)
    weft.trace(counted, X)
    weft.trace(counted, X)
    assert len(calls) == 2, "what changes its surroundings is run each time"

"""Programs as graph files, before anything is optimised."""

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from weft.dialects.errors import OptionError

X = np.linspace(0.1, 0.9, 6).reshape(2, 3)


def program(x):
    """A branch, a loop, a derivative's rule and a large constant."""
    ruled = weft.custom_jvp(wnp.exp, lambda p, d: (wnp.exp(p[0]), d[0] * p[0] * 7))
    y = weft.fori_loop(0, 3, lambda _, s: wnp.tanh(s) * 1.5, x)
    y = weft.cond(y.sum() > 0, lambda y: y + 1, lambda y: y - 1, y)
    return (ruled(y) @ np.ones((3, 40))).sum() + (x * x).sum()


def graph():
    built = weft.Graph("layer")
    x = built.input("x", "float64", ("rows", 3))
    built.output("y", built.op("relu", x @ built.constant(np.ones((3, 2)))))
    return built


def step(state, x):
    return {"w": state["w"] - 0.1 * x.sum(0)}, (x * state["w"]).sum()


W = {"w": np.ones(3)}
PROGRAMS = {
    "a graph": (graph, (), {"x": X}),
    "a trace": (lambda: weft.trace(program, X), (), {"x": X}),
    "a jitted function": (
        lambda: weft.jit(program), (weft.Spec("float64", ("rows", 3)),), {"x": X},
    ),
    "a step": (lambda: weft.step(step, W, X, donate=(0,)), (), {"state.w": W["w"], "x": X}),
}  # fmt: skip


@pytest.mark.parametrize("kind", PROGRAMS)
def test_a_saved_program_compiles_again(kind, tmp_path):
    make, specs, inputs = PROGRAMS[kind]
    made = make()
    weft.save_graph(made, tmp_path / "saved.mlir", specs)
    loaded = weft.compile(tmp_path / "saved.mlir", naive=True)
    assert [each.name for each in loaded.inputs] == list(inputs)
    found = loaded(*(np.array(each) for each in inputs.values()))
    if kind == "a step":
        state, value = step(W, X)
        wanted = (state["w"], value)
    else:
        wanted = (np.maximum(X @ np.ones((3, 2)), 0),) if kind == "a graph" else (program(X),)
    for got, right in zip(found, wanted, strict=True):
        np.testing.assert_allclose(got, right)


def test_a_saved_program_is_differentiated_and_bucketed_when_it_is_loaded(tmp_path):
    spec = weft.Spec("float64", ("rows", 3))
    weft.save_graph(lambda x: (wnp.sin(x) * x).sum(), tmp_path / "loss.mlir", (spec,))
    value, slopes = weft.compile(tmp_path / "loss.mlir", naive=True, gradients=["x"])(X)
    np.testing.assert_allclose(value, (np.sin(X) * X).sum())
    np.testing.assert_allclose(slopes, np.cos(X) * X + np.sin(X))
    options = {"gradients": ["x"], "buckets": ["rows=2,4"], "bounds": ["rows=1..4"]}
    value, slopes = weft.compile(tmp_path / "loss.mlir", naive=True, **options)(X)
    np.testing.assert_allclose(value, (np.sin(X) * X).sum())
    np.testing.assert_allclose(slopes, np.cos(X) * X + np.sin(X))


def test_a_path_of_another_suffix_is_refused(tmp_path):
    with pytest.raises(OptionError, match=r"ends with \.mlir, got .*saved\.onnx"):
        weft.save_graph(graph(), tmp_path / "saved.onnx")

"""A training step of a multilayer perceptron on one rank, and data- and tensor-parallel on 2 and 4
ranks: the same losses, parameters and gradients.
"""
# pyright: basic

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from weft import Mesh, P, nn


def network(parameters, x):
    hidden = wnp.maximum(x @ parameters["w1"] + parameters["b1"], 0)
    return hidden @ parameters["w2"] + parameters["b2"]


def loss_of(parameters, x, y):
    error = network(parameters, x) - y
    return (error * error).mean()


def train(state, x, y):
    loss, gradients = weft.value_and_grad(loss_of)(state["parameters"], x, y)
    moved = {k: 0.9 * state["sums"][k] + gradients[k] for k in gradients}
    parameters = {k: p - 0.1 * moved[k] for k, p in state["parameters"].items()}
    return {"parameters": parameters, "sums": moved}, loss, gradients


def arrays():
    numbers = np.random.default_rng(3)
    shapes = {"w1": (6, 8), "b1": (8,), "w2": (8, 4), "b2": (4,)}
    parameters = {k: numbers.normal(0, 0.5, s).astype(np.float32) for k, s in shapes.items()}
    sums = {k: np.zeros_like(p) for k, p in parameters.items()}
    x = numbers.normal(0, 1, (8, 6)).astype(np.float32)
    y = numbers.normal(0, 1, (8, 4)).astype(np.float32)
    return {"parameters": parameters, "sums": sums}, x, y


def stepped(mesh: Mesh | None, shardings: dict[str, P] | None):
    return weft.step(
        train, *arrays(), donate=[0], mesh=mesh, shardings=shardings, threads=1, target="x86-64"
    )


def run(mesh: Mesh | None, shardings: dict[str, P] | None, steps: int = 3):
    """The losses and first gradients of some steps, and the parameters that a rank has at the end;
    with those of the step as they were called.
    """
    state, x, y = arrays()
    step = stepped(mesh, shardings)
    losses, first = [], None
    for _ in range(steps):
        state, loss, gradients = step(state, x, y)
        losses.append(float(loss))
        first = first or {k: np.asarray(g) for k, g in gradients.items()}
    return losses, first, {k: np.asarray(p) for k, p in state["parameters"].items()}


TENSOR = {
    "state.parameters.w1": P(None, "model"),
    "state.parameters.b1": P("model"),
    "state.parameters.w2": P("model"),
}


@pytest.fixture(scope="module")
def alone():
    return run(None, None)


@pytest.mark.parametrize(
    ("mesh", "shardings"),
    [
        (Mesh(data=2), {"x": P("data"), "y": P("data")}),
        (Mesh(model=2), TENSOR),
        (Mesh(data=2, model=2), {"x": P("data"), "y": P("data"), **TENSOR}),
        (Mesh(data=4), {"x": P("data"), "state.sums.w1": P(None, "data"),
                        "state.parameters.w1": P()}),
    ],
    ids=["data", "model", "both", "sharded state"],
)  # fmt: skip
def test_ranks_train_as_one(mesh: Mesh, shardings: dict[str, P], alone):
    losses, gradients, parameters = alone
    found = weft.simulate(mesh.ranks, run, mesh, shardings)
    assert all(each[0] == found[0][0] for each in found)
    for number, (own, first, last) in enumerate(found):
        np.testing.assert_allclose(own, losses, rtol=1e-5)
        for name, gradient in gradients.items():
            np.testing.assert_allclose(first[name], gradient, rtol=1e-5, atol=1e-6)
        for name, parameter in parameters.items():
            part = cut(parameter, shardings.get(f"state.parameters.{name}"), mesh, number)
            np.testing.assert_allclose(last[name], part, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("norm", [0.05, 50.0], ids=["clipped", "not clipped"])
@pytest.mark.parametrize(
    ("mesh", "shardings"),
    [
        (Mesh(data=4), {"x": P("data"), "y": P("data")}),
        (Mesh(data=2, model=2), {"x": P("data"), "y": P("data"), **TENSOR}),
        (Mesh(data=2), {"x": P("data"), "y": P("data"), "state.sums.w1": P(None, "data"),
                        "state.sums.w2": P("data"),
                        "state.parameters.w1": P(), "state.parameters.w2": P()}),
    ],
    ids=["data", "both", "sharded state"],
)  # fmt: skip
def test_gradients_are_clipped_by_the_norm_of_all(mesh: Mesh, shardings: dict, norm: float):
    """By that of what ranks have in parts: of one rank's own part of a gradient it is less."""

    def clipped(state, x, y):
        loss, gradients = weft.value_and_grad(loss_of)(state["parameters"], x, y)
        gradients = weft.optim.clip_by_norm(gradients, norm)
        sums = {k: 0.9 * state["sums"][k] + gradients[k] for k in gradients}
        parameters = {k: p - sums[k] for k, p in state["parameters"].items()}
        return {"parameters": parameters, "sums": sums}, loss

    def losses(mesh=None, shardings=None):
        state, x, y = arrays()
        step = weft.step(
            clipped, state, x, y, donate=[0], mesh=mesh, shardings=shardings, threads=1
        )
        found = []
        for _ in range(4):
            state, loss = step(state, x, y)
            found.append(float(loss))
        return found

    alone = losses()
    for each in weft.simulate(mesh.ranks, losses, mesh, shardings):
        np.testing.assert_allclose(each, alone, rtol=1e-5)


def test_a_checkpoint_goes_on_on_another_mesh(tmp_path: Path, alone):
    """A step on a mesh that cuts the state, all of which one rank writes; the next on others."""
    path = tmp_path / "state.safetensors"

    def first():
        state, x, y = arrays()
        step = stepped(Mesh(data=2, model=2), {"x": P("data"), "y": P("data"), **TENSOR})
        state = step(state, x, y)[0]
        (whole,) = step.whole(state)
        if weft.rank() == 3:
            nn.save_tree(path, whole)

    def second():
        state, x, y = arrays()
        state = nn.load_tree(path, state)
        return float(stepped(Mesh(data=2), {"x": P("data"), "y": P("data")})(state, x, y)[1])

    weft.simulate(4, first)
    np.testing.assert_allclose(weft.simulate(2, second), [alone[0][1]] * 2, rtol=1e-5)


def cut(array, sharding, mesh: Mesh, number: int):
    for axis, axes in enumerate(sharding.dims if sharding else ()):
        for name in axes:
            names = list(mesh.axes)
            behind = [mesh.axes[each] for each in names[names.index(name) + 1 :]]
            stride = int(np.prod(behind))
            index = number // stride % mesh.axes[name]
            array = np.split(array, mesh.axes[name], axis)[index]
    return array


def test_ranks_draw_parts_of_what_one_rank_draws():
    x, key = np.ones((8, 6), np.float32), weft.random.key(7)
    cuts = {"x": P("data", "model")}

    def step_of(**meshed):
        step = weft.step(
            lambda key, x: x * weft.random.normal(key, x.shape), key, x,
            threads=1, target="x86-64", naive=True, **meshed,
        )  # fmt: skip
        return np.asarray(step(key, x)).tobytes()

    found = weft.simulate(4, lambda: step_of(mesh=Mesh(data=2, model=2), shardings=cuts))
    assert found == [step_of()] * 4


def test_a_constraint_is_the_tensor_itself_on_one_rank():
    x = np.arange(4, dtype=np.float32)
    assert wnp.shard(x, P("data")) is x
    exe = weft.trace(lambda x: wnp.shard(x, P("data")) * 2, x)
    assert exe(x).tolist() == [0, 2, 4, 6]


def test_a_step_refuses_another_number_of_ranks():
    state, x, y = arrays()
    with pytest.raises(weft.OptionError, match=r"requires 2 ranks, got 1 \(weft launch -n 2"):
        weft.step(train, state, x, y, mesh=Mesh(data=2), target="x86-64")


def test_ranks_with_parts_of_a_batch_norm_meet_for_running_statistics_alone():
    x = np.random.default_rng(3).normal(size=(8, 3, 2, 2)).astype(np.float32)
    x += np.arange(8, dtype=np.float32).reshape(8, 1, 1, 1)

    def step_of(**meshed):
        norm = nn.BatchNorm(3, parts=2)
        return weft.step(
            lambda p, x: norm.apply_updating(p, x), norm.parameters() | norm.buffers(), x,
            threads=1, target="x86-64", naive=True, **meshed,
        )  # fmt: skip

    given = nn.BatchNorm(3).parameters() | nn.BatchNorm(3).buffers()
    expected, buffers = step_of()(given, x)

    def run():
        step = step_of(mesh=Mesh(data=2), shardings={"x": P("data")})
        return *step(given, x), step.executable.metadata["mesh"]["collectives"]

    for found, after, collectives in weft.simulate(2, run):
        np.testing.assert_allclose(found, expected, atol=1e-5)
        for name, value in buffers.items():
            np.testing.assert_allclose(after[name], value, rtol=1e-5)
        operations = [(each["operation"], each["bytes"]) for each in collectives]
        sums = ("all_reduce", 24)  # of running means and variances
        assert operations == [sums, ("all_gather", x.nbytes)]

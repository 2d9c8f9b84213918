"""A step of training is one compiled call that updates its parameters in place."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import weft
from weft import Tensor, nn, optim

RNG = np.random.default_rng(0)
X = Tensor(RNG.normal(size=(16, 8)).astype(np.float32))
Y = Tensor(RNG.integers(0, 4, 16))


def network() -> nn.Module:
    with nn.seed(0):
        return nn.Sequential(nn.Dense(8, 12), nn.ReLU(), nn.Dense(12, 4))


def step_of(module: nn.Module, optimizer: optim.Optimizer):
    def step(parameters, state, x, y):
        def loss(parameters):
            return nn.cross_entropy(module.apply(parameters, x), y)

        value, slopes = weft.value_and_grad(loss)(parameters)
        return value, *optimizer.update(parameters, slopes, state)

    return step


OPTIMIZERS = {
    "sgd": optim.sgd(0.1),
    "momentum": optim.sgd(0.1, 0.9),
    "nesterov": optim.sgd(0.1, 0.9, nesterov=True),
    "adam": optim.adam(0.01),
    "adamw": optim.adamw(lambda step: 0.01 / step, decay=0.1),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_fifty_steps_eager_and_compiled(name: str):
    module, optimizer = network(), OPTIMIZERS[name]
    step, parameters = step_of(module, optimizer), module.parameters()
    state = optimizer.init(parameters)
    running = weft.step(step, parameters, state, X, Y, donate=(0, 1)).start(parameters, state)
    for _ in range(50):
        value, parameters, state = step(parameters, state, X, Y)
        assert float(running(X, Y)) == pytest.approx(float(value), abs=1e-4)
    after = running.state[0]
    for key, value in parameters.items():
        np.testing.assert_allclose(after[key], value, atol=1e-4)


def test_optimizers_are_torchs():
    torch = pytest.importorskip("torch")
    start = RNG.normal(size=5).astype(np.float32)
    theirs = {
        "sgd": torch.optim.SGD, "adam": torch.optim.Adam,
        "momentum": lambda p, lr: torch.optim.SGD(p, lr, momentum=0.9),
        "nesterov": lambda p, lr: torch.optim.SGD(p, lr, momentum=0.9, nesterov=True),
        "adamw": lambda p, lr: torch.optim.AdamW(p, lr, weight_decay=0.1),
    }  # fmt: skip
    ours = OPTIMIZERS | {"adamw": optim.adamw(0.01, decay=0.1)}
    for name, optimizer in ours.items():
        w = Tensor(start)
        state, other = optimizer.init(w), torch.tensor(start, requires_grad=True)
        step = theirs[name]([other], lr=0.01 if "adam" in name else 0.1)
        for _ in range(5):
            w, state = optimizer.update(w, weft.grad(lambda w: (w * w * w).sum())(w), state)
            step.zero_grad()
            (other * other * other).sum().backward()
            step.step()
        np.testing.assert_allclose(w, other.detach().numpy(), rtol=1e-4, atol=1e-5)


def test_donated_tensors_are_used_up_and_shared_memory_is_kept():
    compiled = weft.step(lambda w, x: (w + x, (w * x).sum()), X, X, donate=(0,))
    w = Tensor(np.array(X))
    address = w.numpy().ctypes.data
    after, _ = compiled(w, X)
    assert after.numpy().ctypes.data == address
    with pytest.raises(weft.WeftError, match=r"test_step\.py:\d+: a tensor that was donated"):
        w + 1.0
    view = after.reshape(-1)
    before = view.tolist()
    compiled(after, X)
    assert view.tolist() == before


def test_what_is_read_again_is_not_overwritten_too_early():
    def step(w, x):
        moved = w + x
        return moved[::-1] @ w.T, moved

    x = RNG.normal(size=(6, 6)).astype(np.float32)
    compiled = weft.step(step, x, x, donate=(0,))
    product, moved = compiled(x, x)
    np.testing.assert_allclose(moved, x + x)
    np.testing.assert_allclose(product, (x + x)[::-1] @ x.T, rtol=1e-5, atol=1e-5)


def test_what_is_read_through_another_shape_is_not_overwritten_too_early():
    """W1's kind: the kernel that writes the new `x` in place of the old one reads that twice."""

    x = RNG.normal(size=(8, 3)).astype(np.float32)
    g = RNG.normal(size=(8, 8)).astype(np.float32)
    compiled = weft.step(lambda x, g: x + g @ x.reshape((3, 8)).T, x, g, donate=(0,))
    np.testing.assert_allclose(compiled(x, g), x + g @ x.reshape(3, 8).T, rtol=1e-4, atol=1e-5)


def test_refusals():
    with pytest.raises(ValueError, match=r"nesterov requires a momentum, got 0\.0"):
        optim.sgd(0.1, nesterov=True)
    with pytest.raises(weft.WeftError, match=r"test_step\.py:\d+: a donated argument requires"):
        weft.step(lambda w: w.sum(), X, donate=(0,))
    compiled = weft.step(lambda tree: tree["w"] * 2.0, {"w": X})
    with pytest.raises(weft.WeftError, match=r"test_step\.py:\d+: a step requires trees"):
        compiled([X])


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_a_loop_in_c_trains(tmp_path: Path):
    pytest.importorskip("sklearn")
    examples = Path(__file__).parents[2] / "examples"
    path = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, examples / "train_in_c.py"]
    subprocess.run(command, cwd=tmp_path, env=path, check=True)
    flags = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-I.", "-Wl,-rpath,."]
    command = ["cc", *flags, examples / "c" / "train.c", "libstep.so", "-o", "train"]
    subprocess.run(command, cwd=tmp_path, check=True)
    command = ["./train", "digits.bin"]
    printed = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True)
    first, last = map(float, printed.stdout.split())
    assert first == pytest.approx(np.log(10), rel=0.1)
    assert last < 0.1


def noted(parameters, x):
    hidden = weft.watch(x @ parameters["w"], "hidden")
    return (hidden * hidden).sum(), {"w": parameters["w"] * weft.numpy.log(x[0, 0])}


def test_values_inside_of_a_step_are_watched():
    parameters = {"w": Tensor(RNG.normal(size=(8, 3)).astype(np.float32))}
    x = Tensor(np.ones((2, 8), np.float32))
    step = weft.step(noted, parameters, x, donate=(0,))
    (loss, after), values = step.watch("hidden")(parameters, x)
    np.testing.assert_allclose(values["hidden"], np.asarray(x) @ np.asarray(parameters["w"]), 1e-5)
    expected, given = step(parameters, x)
    assert float(loss) == pytest.approx(float(expected), rel=1e-6)  # sums in another order
    np.testing.assert_array_equal(after["w"], given["w"])


def test_a_trapped_step_names_what_makes_an_infinity():
    parameters, x = {"w": Tensor(np.ones((8, 3), np.float32))}, Tensor(np.ones((2, 8), np.float32))
    running = weft.step(noted, parameters, x, donate=(0,), trap_nan=True).start(parameters)
    assert float(running(x)) == pytest.approx(2 * 3 * 64)
    np.testing.assert_array_equal(running.state[0]["w"], np.zeros((8, 3)))
    with pytest.raises(weft.InputError, match="an infinity of .*test_step.py"):
        running(Tensor(np.zeros((2, 8), np.float32)))

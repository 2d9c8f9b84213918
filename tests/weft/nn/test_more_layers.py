"""Layers, losses, optimisers and data against NumPy; `test_torch.py` has them against PyTorch."""

import numpy as np
import pytest

import weft
import weft.nn as nn
import weft.numpy as wnp
from weft import Tensor
from weft.dialects.errors import WeftError
from weft.dialects.graph.core.evaluate import evaluate_block
from weft.tracing.trace import record
from weft.trees import leaves_of, tree_map

RNG = np.random.default_rng(0)


def evaluated(function, *arguments):
    """What a function gives, as a graph that is evaluated."""
    graph = record(function, *arguments).recording
    return evaluate_block(graph.block, leaves_of(arguments), {}, graph.weights)


def of(layer, *arguments):
    """The one tensor that a layer gives."""
    return evaluated(layer, *arguments)[0]


def test_convolutions_of_one_axis_and_three():
    x = RNG.normal(size=(1, 1, 7)).astype(np.float32)
    layer = nn.Conv1d(1, 1, 3)
    expected = np.correlate(x[0, 0], np.asarray(layer.weight)[0, 0], "valid")
    np.testing.assert_allclose(of(layer, x)[0, 0], expected, rtol=1e-5)
    cube = RNG.normal(size=(1, 2, 3, 4, 3)).astype(np.float32)
    layer = nn.Conv3d(2, 2, [3, 4, 3], bias=False)
    expected = np.tensordot(np.asarray(layer.weight), cube[0], 4)
    np.testing.assert_allclose(of(layer, cube)[0, :, 0, 0, 0], expected, rtol=1e-4)


def test_a_transposed_convolution_is_the_transpose():
    there = nn.Conv2d(2, 3, 3, 2, 1, bias=False)
    back = nn.ConvTranspose2d(3, 2, 3, 2, 1, bias=False)
    back.weight = there.weight
    x = RNG.normal(size=(1, 2, 5, 7)).astype(np.float32)
    y = RNG.normal(size=(1, 3, 3, 4)).astype(np.float32)
    np.testing.assert_allclose((of(there, x) * y).sum(), (of(back, y) * x).sum(), rtol=1e-4)


def test_pools_and_other_sizes():
    x = np.arange(10.0).reshape(1, 1, 10)
    np.testing.assert_array_equal(of(nn.MaxPool1d(3, 2), x)[0, 0], [2, 4, 6, 8])
    np.testing.assert_array_equal(of(nn.AvgPool1d(2), x)[0, 0], [0.5, 2.5, 4.5, 6.5, 8.5])
    means = [x[0, 0, 10 * n // 4 : -(-10 * (n + 1) // 4)].mean() for n in range(4)]
    np.testing.assert_allclose(of(nn.AdaptiveAvgPool1d(4), x)[0, 0], means)
    np.testing.assert_array_equal(of(nn.AdaptiveMaxPool1d(3), x)[0, 0], [3, 6, 9])
    np.testing.assert_array_equal(of(nn.Upsample(scale=2), x[..., :2])[0, 0], [0, 0, 1, 1])
    found = of(nn.Upsample(5, mode="linear", align_corners=True), x[..., :3])
    np.testing.assert_allclose(found[0, 0], [0, 0.5, 1, 1.5, 2])
    with pytest.raises(ValueError, match="mode nearest or linear, got 'cubic'"):
        nn.Upsample(2, mode="cubic")


def test_norms_of_groups():
    x = RNG.normal(size=(2, 4, 3)).astype(np.float32)
    groups = x.reshape(2, 2, 6)
    expected = (groups - groups.mean(-1, keepdims=True)) / groups.std(-1, keepdims=True)
    np.testing.assert_allclose(of(nn.GroupNorm(2, 4), x), expected.reshape(x.shape), atol=1e-4)
    expected = (x - x.mean(-1, keepdims=True)) / x.std(-1, keepdims=True)
    np.testing.assert_allclose(of(nn.InstanceNorm1d(4), x), expected, atol=1e-3)


def test_gated_recurrent_units():
    layer, x = nn.GRU(3, 2), RNG.normal(size=(2, 4, 3)).astype(np.float32)
    states, last = evaluated(layer, x)
    w, u, b = (np.asarray(each) for each in (layer.input_weight, layer.hidden_weight, layer.bias))
    h = np.zeros((2, 2))
    for row in x.transpose(1, 0, 2):
        given, product = row @ w + b, h @ u
        reset, update = (1 / (1 + np.exp(-(given + product)[:, k : k + 2])) for k in (0, 2))
        fresh = np.tanh(given[:, 4:] + reset * (product[:, 4:] + np.asarray(layer.hidden_bias)))
        h = (1 - update) * fresh + update * h
    np.testing.assert_allclose(last, h, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(states[:, -1], h, rtol=1e-5, atol=1e-6)


def test_transformers_look_back_alone():
    x, memory = (RNG.normal(size=(1, 4, 8)).astype(np.float32) for _ in range(2))
    model = nn.Transformer(8, 2, 1, 1, inner=16, norm_first=True)
    before = of(model, memory, x)
    other = x.copy()
    other[:, -1] += 1
    after = of(model, memory, other)
    np.testing.assert_array_equal(before[:, :-1], after[:, :-1])
    assert (before[:, -1] != after[:, -1]).any()


def test_losses_and_reductions():
    x, y = RNG.normal(size=(2, 4, 3))
    size = abs(x - y)
    each = np.where(size < 1, size**2 / 2, size - 0.5)
    found = evaluated(
        lambda x, y: tuple(nn.smooth_l1_loss(x, y, reduction=r) for r in ("mean", "sum", "none")),
        x, y,
    )  # fmt: skip
    for actual, expected in zip(found, (each.mean(), each.sum(), each), strict=True):
        np.testing.assert_allclose(actual, expected)
    p, labels = np.array([0.2, 0.9]), np.array([0.0, 1.0])
    np.testing.assert_allclose(of(nn.BCELoss(), p, labels), -np.log([0.8, 0.9]).mean())
    with pytest.raises(
        ValueError, match="a reduction out of mean, sum, none, batchmean, got 'most'"
    ):
        nn.kl_div(x, y, reduction="most")


def test_ctc_loss_adds_up_alignments():
    logits = RNG.normal(size=(3, 1, 3))
    logarithms = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    paths = ["011", "110", "101"[:0] or "100", "001", "010", "111"]
    expected = -np.log(sum(
        np.exp(sum(logarithms[t, 0, int(c)] for t, c in enumerate(path))) for path in paths
    ))  # fmt: skip
    found = of(nn.ctc_loss, logarithms, np.array([[1]]), np.array([3]), np.array([1]))
    np.testing.assert_allclose(found, expected)


def quadratic(x):
    return ((x - 3.0) ** 2).sum()


@pytest.mark.parametrize("name", ["rmsprop", "adagrad", "adadelta", "adamax", "lion", "lamb"])
def test_optimizers_go_down(name: str):
    optimizer = getattr(weft.optim, name)(0.1)
    x, state = np.zeros(2), optimizer.init(np.zeros(2))

    def step(x, state):
        return optimizer.update(x, weft.grad(quadratic)(x), state)

    graph = record(step, x, state).recording
    leaves = [x, *map(np.asarray, leaves_of(state))]
    first = quadratic(x)
    for _ in range(3):
        leaves = evaluate_block(graph.block, leaves, {}, graph.weights)
    assert quadratic(leaves[0]) < first
    with pytest.raises(TypeError, match=f"{name} takes .*, got speed"):
        getattr(weft.optim, name)(0.1, speed=1)


def test_lbfgs_finds_the_least_value():
    found, value = weft.optim.lbfgs(
        lambda p: (1 - p["x"][0]) ** 2 + 10 * (p["x"][1] - p["x"][0] ** 2) ** 2,
        {"x": Tensor([-1.0, 1.0])},
    )
    np.testing.assert_allclose(found["x"], [1, 1], atol=1e-5)
    assert float(value) < 1e-10


def test_gradients_of_several_steps_and_averaged_parameters():
    optimizer = weft.optim.accumulated(weft.optim.averaged(weft.optim.sgd(1.0), 0.5), 2)

    def three(x):
        state = optimizer.init(np.zeros(2))
        seen = []
        for gradient in (1.0, 3.0, 5.0):
            x, state = optimizer.update(x, x * 0 + gradient, state)
            seen.append(x)
        return (*seen, state["inner"]["mean_parameters"])

    *seen, mean = evaluated(three, np.zeros(2))
    np.testing.assert_array_equal(np.stack(seen)[:, 0], [0, -2, -2])
    np.testing.assert_array_equal(mean, [-1, -1])


def test_scaled_losses_skip_what_is_not_finite():
    scaler, optimizer = weft.optim.LossScaler(4.0, 1), weft.optim.sgd(0.5)

    def step(x, factor, scaling, state):
        value, slope = scaler.value_and_grad(lambda x, f: (x * x * f).sum())(scaling, x, factor)
        return value, *scaler.update(optimizer, x, slope, state, scaling)

    scaling, state = scaler.init(), optimizer.init(np.zeros(1))
    states = [tree_map(np.asarray, each) for each in (scaling, state)]
    for factor, wanted, scale in ((1.0, 0.0, 8.0), (np.inf, 2.0, 2.0)):
        found = evaluated(step, np.array([2.0], np.float32), np.float32(factor), *states)
        assert found[1][0] == wanted
        assert found[3] == scale
    assert weft.optim.in_dtype({"x": Tensor([1.0])}, np.float16)["x"].dtype == np.float16


def test_schedules():
    rate = weft.optim.schedules.warmup(3, weft.optim.schedules.cosine(1.0, 4))
    rates = [float(rate(np.float32(step))) for step in (1, 3, 4, 6, 9)]
    np.testing.assert_allclose(rates, [0.25, 0.75, 1.0, 0.5, 0.0], atol=1e-6)
    steps = weft.optim.schedules.multistep(1.0, [3])(Tensor(np.float32([3.0, 4.0])))
    assert steps.dtype == np.float32  # or parameters of float32 would not stay so
    np.testing.assert_allclose(steps, [1.0, 0.1], atol=1e-6)


def test_checkpoints_of_trees(tmp_path):
    optimizer = weft.optim.adam(0.1)
    parameters = {"layers.0.weight": Tensor(np.ones((2, 3), np.float32))}
    tree = {"parameters": parameters, "state": optimizer.init(parameters), "step": Tensor(3)}
    nn.save_tree(tmp_path / "run.safetensors", tree)
    found = nn.load_tree(tmp_path / "run.safetensors", tree)
    for x, y in zip(leaves_of(found), leaves_of(tree), strict=True):
        np.testing.assert_array_equal(x, y)
    with pytest.raises(WeftError, match="step missing, none unknown|none missing, step unknown"):
        nn.load_tree(tmp_path / "run.safetensors", {**tree, "step": None})
    with pytest.raises(WeftError, match=r"step requires int32 of \[\], got int64 of \[\]"):
        nn.load_tree(tmp_path / "run.safetensors", {**tree, "step": np.int32(0)})


@pytest.mark.parametrize("prefetch", [0, 2])
def test_batches(prefetch: int):
    x, y = np.arange(10), np.arange(10) * 2
    loader = nn.DataLoader((x, y), 4, shuffle=True, seed=1, prefetch=prefetch)
    walks = [[tuple(map(list, batch)) for batch in loader] for _ in range(2)]
    assert len(loader) == len(walks[0]) == 3
    for walk in walks:
        assert sorted(sum((a for a, _ in walk), [])) == list(range(10))
        assert all(list(np.array(a) * 2) == b for a, b in walk)
    assert walks[0] != walks[1]
    examples = [{"x": np.full(2, n)} for n in range(5)]
    rows = nn.DataLoader(examples, 2, drop_last=True, transform=lambda b: b["x"] + 1,
                         prefetch=prefetch)  # fmt: skip
    np.testing.assert_array_equal(list(rows), [[[1, 1], [2, 2]], [[3, 3], [4, 4]]])
    for batch in rows:
        assert batch.shape == (2, 2)
        break  # the thread ends
    bad = nn.DataLoader(examples, transform=lambda batch: 1 / 0, prefetch=prefetch)
    with pytest.raises(ZeroDivisionError):
        next(iter(bad))


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Dense(3, 4), nn.ReLU(), nn.Dense(5, 2))
        self.others = nn.ModuleList([nn.Dropout(0.1)])
        self.named = nn.ModuleDict({"last": nn.Identity()})

    def construct(self, x):
        return self.layers(x)


def test_modules_are_shown_as_trees():
    assert repr(Network()).splitlines()[:4] == [
        "Network(", "  (layers): Sequential(",
        "    (layers.0): Dense(weight=[3, 4], bias=[4])", "    (layers.1): ReLU()",
    ]  # fmt: skip
    assert "(others.0): Dropout(rate=0.1)" in repr(Network())
    assert [path for path, _ in Network().modules()][-2:] == ["others.0", "named.last"]


def test_errors_name_the_module():
    x = np.ones((1, 3), np.float32)
    for call in (Network(), weft.jit(Network()), lambda x: weft.trace(Network(), x)):
        with pytest.raises(WeftError, match=r"\(in layers\.layers\.2, Dense\)"):
            call(Tensor(x))
    assert wnp.asarray(x).shape == (1, 3)

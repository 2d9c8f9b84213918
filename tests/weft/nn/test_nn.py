"""Modules: their parameters, their layers against torch or NumPy, eager and traced alike."""

import numpy as np
import pytest

import weft
import weft.numpy as wnp
import weft.random
from weft import Tensor, nn

RNG = np.random.default_rng(0)


def drawn(*shape: int) -> Tensor:
    return Tensor(RNG.normal(size=shape).astype(np.float32))


class Network(nn.Cell):
    def __init__(self):
        super().__init__()
        self.flatten = nn.Flatten()
        self.dense_relu_sequential = nn.SequentialCell(nn.Dense(28 * 28, 512), nn.ReLU())

    def construct(self, x):
        x = self.flatten(x)
        return self.dense_relu_sequential(x)


def test_the_seeds_network_runs_eager_traced_and_from_source():
    network, x = Network(), drawn(3, 28, 28)
    logits = network(x)
    weight, bias = network.parameters().values()
    expected = np.maximum(np.asarray(x).reshape(3, -1) @ weight.numpy() + bias.numpy(), 0)
    np.testing.assert_allclose(logits, expected, atol=1e-5)
    traced = weft.trace(network, x)(x)
    np.testing.assert_allclose(traced, expected, atol=1e-5)
    np.testing.assert_allclose(weft.jit(network)(x), expected, atol=1e-5)


def test_state_goes_through_files(tmp_path):
    first, second = (nn.Sequential(nn.Dense(4, 8), nn.BatchNorm(8)) for _ in range(2))
    x = drawn(5, 4)
    first(x)
    first.save(tmp_path / "state.safetensors")
    second.load(tmp_path / "state.safetensors")
    names = ["layers.0.bias", "layers.0.weight", "layers.1.bias", "layers.1.running_mean"]
    assert sorted(second.state_dict())[:4] == names
    assert set(second.buffers()) == {"layers.1.running_mean", "layers.1.running_var"}
    np.testing.assert_array_equal(first.eval()(x), second.eval()(x))


def test_a_state_of_another_module_is_refused():
    module = nn.Dense(3, 2)
    with pytest.raises(weft.WeftError, match=r"bias missing, extra unknown"):
        module.load_state_dict({"weight": np.zeros((3, 2)), "extra": np.zeros(1)})
    with pytest.raises(weft.WeftError, match=r"weight requires the shape \[3, 2\], got \[2, 3\]"):
        module.load_state_dict({"weight": np.zeros((2, 3)), "bias": np.zeros(2)})
    with pytest.raises(weft.WeftError, match="names of its tensors, got weigth"):
        module.apply({"weigth": np.zeros((3, 2))}, drawn(1, 3))


def test_seeds_decide_parameters():
    def weights(seed: int):
        with nn.seed(seed):
            return nn.Dense(4, 4).weight.numpy()

    np.testing.assert_array_equal(weights(1), weights(1))
    assert (weights(1) != weights(2)).any()


LAYERS = {
    "dense": (lambda: nn.Dense(6, 5), (4, 6)),
    "conv": (lambda: nn.Conv2d(2, 4, 3, stride=2, padding=1), (3, 2, 8, 8)),
    "groups": (lambda: nn.Conv2d(4, 4, 3, padding=1, groups=2, bias=False), (2, 4, 6, 6)),
    "max pool": (lambda: nn.MaxPool2d(2), (2, 3, 6, 6)),
    "average pool": (lambda: nn.AvgPool2d(3, 2, 1), (2, 3, 7, 7)),
    "layer norm": (lambda: nn.LayerNorm(6), (4, 6)),
    "rms norm": (lambda: nn.RMSNorm(6), (4, 6)),
    "batch norm": (lambda: nn.BatchNorm(3), (4, 3, 5, 5)),
    "attention": (lambda: nn.MultiHeadAttention(8, 2), (2, 5, 8)),
    "lstm": (lambda: _First(nn.LSTM(4, 6)), (3, 5, 4)),
    "activations": (
        lambda: nn.Sequential(nn.GELU(), nn.SiLU(), nn.Tanh(), nn.Sigmoid(), nn.Softmax()), (3, 4)
    ),
}  # fmt: skip


class _First(nn.Module):
    """The first of a module's results."""

    def __init__(self, inner: nn.Module):
        super().__init__()
        self.inner = inner

    def construct(self, x):
        return self.inner(x)[0]


@pytest.mark.parametrize("name", LAYERS)
def test_layers_and_their_gradients_are_the_same_eager_and_traced(name: str):
    make, shape = LAYERS[name]
    module, x = make(), drawn(*shape)
    parameters = module.parameters() | {"x": x}

    def loss(tree):
        own = {key: value for key, value in tree.items() if key != "x"}
        y = module.apply(own, tree["x"])
        return (y * wnp.sin(y)).sum()

    def both(tree):
        return weft.value_and_grad(loss)(tree)

    value, slopes = both(parameters)
    found, traced = weft.trace(both, parameters)(parameters)
    for got, expected in zip((found, *traced.values()), (value, *slopes.values()), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-3, atol=2e-4)


def test_layers_are_torchs():
    torch = pytest.importorskip("torch")
    x = RNG.normal(size=(2, 4, 9, 9)).astype(np.float32)
    conv, norm = nn.Conv2d(4, 6, 3, 2, 1), nn.BatchNorm(4)
    theirs = torch.nn.Conv2d(4, 6, 3, 2, 1)
    with torch.no_grad():
        theirs.weight.copy_(torch.from_numpy(np.array(conv.weight)))
        theirs.bias.zero_()
    other = torch.nn.BatchNorm2d(4)
    expected = theirs(other(torch.from_numpy(x))).detach().numpy()
    np.testing.assert_allclose(conv(norm(Tensor(x))), expected, atol=1e-4)
    np.testing.assert_allclose(norm.running_var, other.running_var.numpy(), rtol=1e-4)


def test_batch_norm_of_parts_is_that_of_each():
    x = RNG.normal(size=(6, 4, 3, 3)).astype(np.float32) + np.arange(6).reshape(6, 1, 1, 1)
    norm, others = nn.BatchNorm(4, parts=2), [nn.BatchNorm(4), nn.BatchNorm(4)]
    halves = [
        np.asarray(other(Tensor(half))) for other, half in zip(others, np.split(x, 2), strict=True)
    ]
    np.testing.assert_allclose(norm(Tensor(x)), np.concatenate(halves), atol=1e-5)
    for name in ("running_mean", "running_var"):
        means = np.mean([np.asarray(getattr(other, name)) for other in others], 0)
        np.testing.assert_allclose(getattr(norm, name), means, rtol=1e-5)
    norm.training = others[0].training = False
    others[0].running_mean, others[0].running_var = norm.running_mean, norm.running_var
    np.testing.assert_allclose(norm(Tensor(x)), others[0](Tensor(x)), atol=1e-6)
    with pytest.raises(weft.WeftError, match="reshape"):
        nn.BatchNorm(4, parts=4)(Tensor(x))


def test_attention_does_not_look_ahead():
    attention, x = nn.MultiHeadAttention(8, 2), drawn(1, 6, 8)
    whole = np.asarray(attention(x, causal=True))
    part = np.asarray(attention(x[:, :4], causal=True))
    np.testing.assert_allclose(whole[:, :4], part, atol=1e-5)


@pytest.mark.parametrize("causal", [False, True])
def test_attention_by_a_mask(causal: bool):
    mask = np.array([[True, True, False], [False, False, False], [True, False, True]])
    query, key, value = (RNG.normal(size=(2, 3, 4)).astype(np.float32) for _ in range(3))
    got = nn.scaled_dot_product_attention(
        Tensor(query), Tensor(key), Tensor(value), mask=mask, causal=causal
    )
    seen = np.tril(mask) if causal else mask
    weights = np.exp(query @ key.swapaxes(1, 2) * 0.5) * seen
    wanted = weights / np.maximum(weights.sum(-1, keepdims=True), 1e-9) @ value
    np.testing.assert_allclose(got, wanted, atol=1e-5)
    assert (np.asarray(got)[:, 1] == 0).all()


def test_dropout_is_a_function_of_its_key():
    dropout, x = nn.Dropout(0.25), Tensor(np.ones((1000, 10), np.float32))
    key = weft.random.key(5)
    y = np.asarray(dropout(x, key))
    assert set(np.unique(y)) == {np.float32(0), np.float32(1 / 0.75)}
    assert abs((y == 0).mean() - 0.25) < 0.02
    np.testing.assert_array_equal(dropout(x, key), y)
    assert (np.asarray(dropout(x, weft.random.fold_in(key, 1))) != y).any()
    traced = weft.trace(lambda key, x: dropout(x, key), key, x)(np.asarray(key), x)
    np.testing.assert_array_equal(traced, y)
    assert dropout.eval()(x) is x


def test_losses():
    logits, labels = RNG.normal(size=(6, 4)).astype(np.float32), RNG.integers(0, 4, 6)
    e = np.exp(logits)
    expected = -np.log((e / e.sum(1, keepdims=True))[np.arange(6), labels]).mean()
    x, y = Tensor(logits), Tensor(labels)
    assert float(nn.cross_entropy(x, y)) == pytest.approx(expected, rel=1e-5)
    assert float(nn.nll_loss(wnp.log_softmax(x), y)) == pytest.approx(expected, rel=1e-5)
    assert float(nn.mse_loss(x, x + 2.0)) == pytest.approx(4.0)
    assert float(nn.l1_loss(x, x - 3.0)) == pytest.approx(3.0)
    assert float(nn.huber_loss(x, x + 3.0)) == pytest.approx(2.5)
    binary = nn.binary_cross_entropy_with_logits(Tensor([0.0]), Tensor([1.0]))
    assert float(binary) == pytest.approx(np.log(2))


def test_gradients_of_an_lstm_are_torchs():
    torch = pytest.importorskip("torch")
    module, x = nn.LSTM(3, 5), RNG.normal(size=(2, 4, 3)).astype(np.float32)

    def loss(parameters):
        return wnp.sin(module.apply(parameters, Tensor(x))[0]).sum()

    own = module.parameters()
    value, slopes = weft.value_and_grad(loss)(own)
    theirs = torch.nn.LSTM(3, 5, batch_first=True)
    weights = {"weight_ih_l0": "input_weight", "weight_hh_l0": "hidden_weight"}
    with torch.no_grad():
        for name, ours in weights.items():
            getattr(theirs, name).copy_(torch.from_numpy(np.array(own[ours]).T))
        theirs.bias_ih_l0.copy_(torch.from_numpy(np.array(own["bias"])))
        theirs.bias_hh_l0.zero_()
    expected = torch.sin(theirs(torch.from_numpy(x))[0]).sum()
    expected.backward()
    assert float(value) == pytest.approx(float(expected.detach()), rel=1e-5)
    for name, ours in weights.items():
        slope = getattr(theirs, name).grad.numpy().T
        np.testing.assert_allclose(slopes[ours], slope, rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(slopes["bias"], theirs.bias_ih_l0.grad.numpy(), rtol=1e-3, atol=1e-5)


def test_a_module_whose_tensors_were_donated_takes_others():
    module = nn.Dense(2, 3)
    parameters = module.parameters()
    step = weft.step(
        lambda p: ({name: 2 * each for name, each in p.items()}, p["bias"]), parameters, donate=(0,)
    )
    doubled, _ = step(parameters)
    with pytest.raises(weft.WeftError, match=r"weight requires the shape \[2, 3\], got \[3, 2\]"):
        module.load_state_dict(doubled | {"weight": np.zeros((3, 2), np.float32)})
    module.load_state_dict(doubled)
    assert module(np.ones((4, 2), np.float32)).shape == (4, 3)

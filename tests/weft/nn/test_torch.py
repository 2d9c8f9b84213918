"""Layers, losses and optimisers beside PyTorch's of the same parameters, where it is installed."""

import numpy as np
import pytest

import weft
import weft.nn as nn
from weft import Tensor

torch = pytest.importorskip("torch")
RNG = np.random.default_rng(0)


def f32(*shape):
    return RNG.normal(size=shape).astype(np.float32)


LAYERS = {
    "Conv1d": (lambda: nn.Conv1d(4, 6, 3, 2, 1, groups=2),
               lambda: torch.nn.Conv1d(4, 6, 3, 2, 1, groups=2), f32(2, 4, 11)),
    "Conv3d": (lambda: nn.Conv3d(2, 3, 2, padding=1),
               lambda: torch.nn.Conv3d(2, 3, 2, padding=1), f32(2, 2, 4, 5, 3)),
    "ConvTranspose1d": (lambda: nn.ConvTranspose1d(4, 6, 3, 2, 1, output_padding=1),
                        lambda: torch.nn.ConvTranspose1d(4, 6, 3, 2, 1, 1), f32(2, 4, 7)),
    "ConvTranspose2d": (lambda: nn.ConvTranspose2d(4, 6, 3, 2, groups=2),
                        lambda: torch.nn.ConvTranspose2d(4, 6, 3, 2, groups=2), f32(2, 4, 5, 4)),
    "ConvTranspose3d": (lambda: nn.ConvTranspose3d(2, 3, 2),
                        lambda: torch.nn.ConvTranspose3d(2, 3, 2), f32(1, 2, 3, 2, 3)),
    "MaxPool1d": (lambda: nn.MaxPool1d(3, 2, 1, True), lambda: torch.nn.MaxPool1d(
        3, 2, 1, ceil_mode=True), f32(2, 3, 8)),
    "MaxPool3d": (lambda: nn.MaxPool3d(2), lambda: torch.nn.MaxPool3d(2), f32(1, 2, 4, 5, 4)),
    "AvgPool1d": (lambda: nn.AvgPool1d(3, 2, 1), lambda: torch.nn.AvgPool1d(3, 2, 1), f32(2, 3, 8)),
    "AvgPool3d": (lambda: nn.AvgPool3d(2), lambda: torch.nn.AvgPool3d(2), f32(1, 2, 4, 4, 5)),
    "AdaptiveAvgPool2d": (lambda: nn.AdaptiveAvgPool2d([3, 4]),
                          lambda: torch.nn.AdaptiveAvgPool2d([3, 4]), f32(2, 3, 7, 8)),
    "AdaptiveMaxPool1d": (lambda: nn.AdaptiveMaxPool1d(3),
                          lambda: torch.nn.AdaptiveMaxPool1d(3), f32(2, 3, 8)),
    "Upsample": (lambda: nn.Upsample(scale=2), lambda: torch.nn.Upsample(scale_factor=2),
                 f32(2, 3, 4, 5)),
    "Upsample linear": (lambda: nn.Upsample([5, 7], mode="bilinear"),
                        lambda: torch.nn.Upsample([5, 7], mode="bilinear"), f32(1, 2, 4, 3)),
    "Upsample corners": (lambda: nn.Upsample(7, mode="linear", align_corners=True),
                         lambda: torch.nn.Upsample(7, mode="linear", align_corners=True),
                         f32(1, 2, 4)),
    "PixelShuffle": (lambda: nn.PixelShuffle(2), lambda: torch.nn.PixelShuffle(2), f32(1, 8, 2, 3)),
    "GroupNorm": (lambda: nn.GroupNorm(2, 4), lambda: torch.nn.GroupNorm(2, 4), f32(3, 4, 5)),
    "InstanceNorm": (lambda: nn.InstanceNorm2d(4),
                     lambda: torch.nn.InstanceNorm2d(4, affine=True), f32(3, 4, 5, 2)),
    "PReLU": (lambda: nn.PReLU(4), lambda: torch.nn.PReLU(4), f32(3, 4, 5)),
    **{name: (getattr(nn, name), getattr(torch.nn, name), f32(3, 6)) for name in (
        "ReLU", "ReLU6", "LeakyReLU", "Sigmoid", "Tanh", "LogSigmoid", "GELU", "SiLU", "Mish",
        "GLU", "ELU", "SELU", "CELU", "Softplus", "Softsign", "Hardtanh", "Hardsigmoid",
        "Hardswish", "Softshrink", "Hardshrink", "Tanhshrink",
    )},
}  # fmt: skip


@pytest.mark.parametrize("name", LAYERS)
def test_layer(name: str):
    ours, theirs, x = LAYERS[name]
    layer, other = ours(), theirs()
    with torch.no_grad():
        for key, value in layer.parameters().items():
            getattr(other, key).copy_(torch.tensor(np.asarray(value)))
    given = torch.tensor(x, requires_grad=True)
    expected = other(given)
    expected.square().sum().backward()
    slope = weft.grad(lambda x: (layer(x) ** 2).sum())(Tensor(x))
    np.testing.assert_allclose(layer(Tensor(x)), expected.detach().numpy(), rtol=2e-5, atol=2e-6)
    np.testing.assert_allclose(slope, given.grad.numpy(), rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("name", ["RNN", "GRU"])
def test_recurrent(name: str):
    layer, other, x = (
        getattr(nn, name)(3, 4),
        getattr(torch.nn, name)(3, 4, batch_first=True),
        f32(2, 5, 3),
    )
    hidden = np.zeros(other.bias_hh_l0.shape, np.float32)
    if name == "GRU":
        hidden[8:] = np.asarray(layer.hidden_bias)
    with torch.no_grad():
        for theirs, value in zip(other.parameters(), (
            np.asarray(layer.input_weight).T, np.asarray(layer.hidden_weight).T,
            np.asarray(layer.bias), hidden,
        ), strict=True):  # fmt: skip
            theirs.copy_(torch.tensor(value.copy()))
    expected, last = other(torch.tensor(x))
    states, state = layer(Tensor(x))
    np.testing.assert_allclose(states, expected.detach().numpy(), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(state, last.detach().numpy()[0], rtol=1e-5, atol=1e-6)


def copied(layer, other, decoder=False):
    """The parameters of a transformer's layer of torch's in one of ours."""

    def dense(ours, weight, bias):
        ours.weight, ours.bias = Tensor(weight.detach().numpy().T), Tensor(bias.detach().numpy())

    pairs = [(layer.attention, other.self_attn)]
    pairs += [(layer.memory_attention, other.multihead_attn)] if decoder else []
    for ours, theirs in pairs:
        weights, biases = theirs.in_proj_weight.chunk(3), theirs.in_proj_bias.chunk(3)
        for part, *pair in zip((ours.query, ours.key, ours.value), weights, biases, strict=True):
            dense(part, *pair)
        dense(ours.output, theirs.out_proj.weight, theirs.out_proj.bias)
    dense(layer.linear1, other.linear1.weight, other.linear1.bias)
    dense(layer.linear2, other.linear2.weight, other.linear2.bias)


@pytest.mark.parametrize("first", [False, True])
def test_transformer_layers(first: bool):
    x, memory = f32(2, 5, 8), f32(2, 3, 8)
    options = {"dropout": 0.0, "norm_first": first, "batch_first": True}
    other = torch.nn.TransformerEncoderLayer(8, 2, 16, **options)
    layer = nn.TransformerEncoderLayer(8, 2, 16, norm_first=first)
    copied(layer, other)
    expected = other(torch.tensor(x)).detach().numpy()
    np.testing.assert_allclose(layer(Tensor(x)), expected, rtol=1e-4, atol=1e-5)
    other = torch.nn.TransformerDecoderLayer(8, 2, 16, **options)
    layer = nn.TransformerDecoderLayer(8, 2, 16, norm_first=first)
    copied(layer, other, decoder=True)
    causal = torch.nn.Transformer.generate_square_subsequent_mask(5)
    expected = other(torch.tensor(x), torch.tensor(memory), tgt_mask=causal).detach().numpy()
    np.testing.assert_allclose(layer(Tensor(x), Tensor(memory)), expected, rtol=1e-4, atol=1e-5)


SIGNS = np.where(RNG.random(4) < 0.5, -1, 1).astype(np.float32)
LOSSES = {
    "BCELoss": (np.abs(f32(4, 3)) / 5, (RNG.random((4, 3)) < 0.5).astype(np.float32)),
    "BCEWithLogitsLoss": (f32(4, 3), (RNG.random((4, 3)) < 0.5).astype(np.float32)),
    "CosineEmbeddingLoss": (f32(4, 3), f32(4, 3), SIGNS),
    "CrossEntropyLoss": (f32(4, 3), RNG.integers(0, 3, 4)),
    "GaussianNLLLoss": (f32(4, 3), f32(4, 3), np.abs(f32(4, 3))),
    "HingeEmbeddingLoss": (f32(4), SIGNS),
    "HuberLoss": (f32(4, 3), f32(4, 3)),
    "KLDivLoss": (f32(4, 3), np.abs(f32(4, 3))),
    "L1Loss": (f32(4, 3), f32(4, 3)),
    "MSELoss": (f32(4, 3), f32(4, 3)),
    "MarginRankingLoss": (f32(4), f32(4), SIGNS),
    "MultiLabelSoftMarginLoss": (f32(4, 3), (RNG.random((4, 3)) < 0.5).astype(np.float32)),
    "MultiMarginLoss": (f32(4, 3), RNG.integers(0, 3, 4)),
    "NLLLoss": (f32(4, 3), RNG.integers(0, 3, 4)),
    "PoissonNLLLoss": (f32(4, 3), np.abs(f32(4, 3))),
    "SmoothL1Loss": (f32(4, 3), f32(4, 3)),
    "SoftMarginLoss": (f32(4), SIGNS),
    "TripletMarginLoss": (f32(4, 3), f32(4, 3), f32(4, 3)),
    "TripletMarginWithDistanceLoss": (f32(4, 3), f32(4, 3), f32(4, 3)),
    "MultiLabelMarginLoss": (f32(2, 4), np.array([[2, 0, -1, 1], [3, -1, -1, -1]])),
}


WEIGHTS = np.array([0.5, 2.0, 1.5], np.float32)
LABELS = np.array([[2, 0, 1], [-100, 1, 1]])
SHARES = np.array([[0.2, 0.5, 0.3], [0.1, 0.1, 0.8], [1, 0, 0], [0, 0.5, 0.5]], np.float32)
SETTINGS = {
    "BCELoss": {"weight": WEIGHTS}, "BCEWithLogitsLoss": {"weight": WEIGHTS, "pos_weight": WEIGHTS},
    "CosineEmbeddingLoss": {"margin": 0.3}, "GaussianNLLLoss": {"full": True, "eps": 0.1},
    "CrossEntropyLoss": {"weight": WEIGHTS, "ignore_index": 1, "label_smoothing": 0.2},
    "HingeEmbeddingLoss": {"margin": 0.5}, "HuberLoss": {"delta": 0.5},
    "MarginRankingLoss": {"margin": 0.2}, "MultiLabelSoftMarginLoss": {"weight": WEIGHTS},
    "MultiMarginLoss": {"p": 2, "margin": 0.5, "weight": WEIGHTS},
    "NLLLoss": {"weight": WEIGHTS, "ignore_index": 1},
    "PoissonNLLLoss": {"log_input": False, "full": True, "eps": 0.1},
    "SmoothL1Loss": {"beta": 0.5}, "TripletMarginLoss": {"p": 1, "eps": 0.1, "swap": True},
}  # fmt: skip


@pytest.mark.parametrize("name", LOSSES)
def test_loss(name: str):
    """With torch's defaults, and with other parameters by each reduction."""
    operands = LOSSES[name]
    if name == "PoissonNLLLoss":
        operands = (abs(operands[0]) + 0.1, operands[1] * 3)
    reduction = {"reduction": "sum" if name == "MSELoss" else "none"}
    cases = [{}, reduction | SETTINGS.get(name, {})]
    cases += [SETTINGS[name]] if name in ("CrossEntropyLoss", "NLLLoss") else []
    for given in cases:
        settings = {key: torch.tensor(each) if isinstance(each, np.ndarray) else each
                    for key, each in given.items()}  # fmt: skip
        expected = getattr(torch.nn, name)(**settings)(*map(torch.tensor, operands))
        found = getattr(nn, name)(**given)(*map(Tensor, operands))
        np.testing.assert_allclose(found, expected, rtol=2e-5, atol=1e-6)


def test_classes_of_several_axes_and_probabilities():
    for kind, labels in (("CrossEntropyLoss", LABELS), ("NLLLoss", LABELS)):
        logits = f32(2, 3, 3)
        expected = getattr(torch.nn, kind)(torch.tensor(WEIGHTS))(
            torch.tensor(logits).movedim(-1, 1), torch.tensor(labels)
        )
        found = getattr(nn, kind)(WEIGHTS)(Tensor(logits), Tensor(labels))
        np.testing.assert_allclose(found, expected.numpy(), rtol=1e-5)
    logits, settings = f32(4, 3), {"label_smoothing": 0.1}
    expected = torch.nn.CrossEntropyLoss(torch.tensor(WEIGHTS), **settings)(
        torch.tensor(logits), torch.tensor(SHARES)
    )
    jitted = weft.jit(lambda x, y: nn.cross_entropy(x, y, weight=WEIGHTS, **settings))
    for loss in (nn.CrossEntropyLoss(WEIGHTS, **settings), jitted):
        np.testing.assert_allclose(loss(Tensor(logits), Tensor(SHARES)), expected, rtol=1e-5)
    expected = torch.nn.KLDivLoss(reduction="batchmean", log_target=True)(
        torch.tensor(logits), torch.tensor(-abs(logits))
    )
    found = nn.KLDivLoss(reduction="batchmean", log_target=True)(logits, Tensor(-abs(logits)))
    np.testing.assert_allclose(found, expected.numpy(), rtol=1e-5)
    with pytest.raises(TypeError, match="HuberLoss takes delta, reduction, got size"):
        nn.HuberLoss(size=1)
    with pytest.raises(
        ValueError, match="mse_loss requires a reduction out of .*, got 'batchmean'"
    ):
        nn.mse_loss(logits, logits, reduction="batchmean")


def test_losses_of_many_classes():
    x, labels = f32(6, 8), np.array([0, 3, 4, 9, 11, 2])
    other = torch.nn.AdaptiveLogSoftmaxWithLoss(8, 12, [3, 7], 2.0, True)
    ours = nn.AdaptiveLogSoftmaxWithLoss(8, 12, [3, 7], 2.0, True)
    state = {key: Tensor(value.detach().numpy().T.copy()) for key, value in zip(
        ours.parameters(), other.parameters(), strict=True)}  # fmt: skip
    ours.load_state_dict(state)
    given = torch.tensor(x, requires_grad=True)
    output, loss = other(given, torch.tensor(labels))
    loss.backward()
    traced = weft.trace(lambda x, labels: ours(x, labels), Tensor(x), Tensor(labels))
    for call in (ours, traced):
        found = call(Tensor(x), Tensor(labels))
        np.testing.assert_allclose(found.output, output.detach().numpy(), rtol=1e-5)
        np.testing.assert_allclose(found.loss, loss.detach().numpy(), rtol=1e-5)
    slope = weft.grad(lambda x: ours(x, Tensor(labels)).loss)(Tensor(x))
    np.testing.assert_allclose(slope, given.grad.numpy(), rtol=1e-4, atol=1e-6)
    everything = other.log_prob(given)
    np.testing.assert_allclose(ours.log_prob(Tensor(x)), everything.detach(), rtol=1e-5)
    np.testing.assert_array_equal(ours.predict(Tensor(x)), everything.argmax(1))
    np.testing.assert_allclose(ours(Tensor(x[3]), Tensor(labels[3])).output, found.output[3], 1e-5)
    with pytest.raises(ValueError, match="rise from 1 to 11, got"):
        nn.AdaptiveLogSoftmaxWithLoss(8, 12, [3, 3])
    expected = torch.nn.CrossEntropyLoss(reduction="sum")
    layer, targets = nn.LinearCrossEntropyLoss(8, 5, (2,), True, reduction="sum"), labels[:4] % 5
    targets = np.stack([targets, targets[::-1]], 1)
    weight, bias = (np.array(each) for each in layer.parameters().values())
    logits = torch.tensor((x[:4] @ weight + bias).reshape(4, 5, 2))
    found = layer(Tensor(x[:4]), Tensor(targets))
    np.testing.assert_allclose(found, expected(logits, torch.tensor(targets)), rtol=1e-5)


@pytest.mark.parametrize("name", torch.nn.modules.loss.__all__)
def test_every_loss_of_torch_is_here(name: str):
    if name != "NLLLoss2d":  # an old name of NLLLoss
        assert hasattr(nn, name)


def test_ctc_loss():
    logits, targets = f32(9, 3, 5), RNG.integers(1, 5, (3, 4))
    targets[1, 1] = targets[1, 0]
    inputs, lengths = np.array([9, 8, 7]), np.array([4, 3, 2])
    given = torch.tensor(logits, requires_grad=True)
    expected = torch.nn.CTCLoss()(
        given.log_softmax(2), *map(torch.tensor, (targets, inputs, lengths))
    )
    expected.backward()

    def loss(x):
        return nn.CTCLoss()(weft.numpy.log_softmax(x), *map(Tensor, (targets, inputs, lengths)))

    np.testing.assert_allclose(loss(Tensor(logits)), expected.detach().numpy(), rtol=1e-5)
    slope = weft.jit(weft.grad(loss))(logits)
    np.testing.assert_allclose(slope, given.grad.numpy(), rtol=1e-3, atol=1e-5)


OPTIMIZERS = {
    "rmsprop": ("RMSprop", {}, {}),
    "rmsprop of all": ("RMSprop", {"momentum": 0.9, "centered": True, "decay": 0.1},
                       {"momentum": 0.9, "centered": True, "weight_decay": 0.1}),
    "adagrad": ("Adagrad", {"rate_decay": 0.1, "decay": 0.1},
                {"lr_decay": 0.1, "weight_decay": 0.1}),
    "adadelta": ("Adadelta", {}, {}),
    "adamax": ("Adamax", {}, {}),
}  # fmt: skip


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizer(name: str):
    theirs, settings, named = OPTIMIZERS[name]
    start, centre = f32(3, 2), f32(3, 2)
    optimizer = getattr(weft.optim, name.split()[0])(0.05, **settings)
    parameters = {"x": Tensor(start)}
    state = optimizer.init(parameters)
    x = torch.tensor(start, requires_grad=True)
    other = getattr(torch.optim, theirs)([x], lr=0.05, **named)
    for _ in range(5):
        slope = {"x": (parameters["x"] - centre) * 2}
        parameters, state = optimizer.update(parameters, slope, state)
        other.zero_grad()
        ((x - torch.tensor(centre)) ** 2).sum().backward()
        other.step()
        np.testing.assert_allclose(parameters["x"], x.detach().numpy(), rtol=1e-5, atol=1e-6)


SCHEDULES = {
    "exponential": (lambda s: s.exponential(1.0, 0.9), lambda o, s: s.ExponentialLR(o, 0.9)),
    "steps": (lambda s: s.exponential(1.0, 0.5, 3), lambda o, s: s.StepLR(o, 3, 0.5)),
    "multistep": (lambda s: s.multistep(1.0, [2, 5]), lambda o, s: s.MultiStepLR(o, [2, 5])),
    "linear": (lambda s: s.linear(0.25, 1.0, 4), lambda o, s: s.LinearLR(o, 0.25, 1.0, 4)),
    "polynomial": (lambda s: s.polynomial(1.0, 0.0, 6, 2.0), lambda o, s: s.PolynomialLR(o, 6, 2)),
    "cosine": (lambda s: s.cosine(1.0, 9), lambda o, s: s.CosineAnnealingLR(o, 9)),
    "one_cycle": (lambda s: s.one_cycle(1.0, 10), lambda o, s: s.OneCycleLR(o, 1.0, 10)),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedule(name: str):
    ours, theirs = SCHEDULES[name]
    rate = ours(weft.optim.schedules)
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    schedule = theirs(optimizer, torch.optim.lr_scheduler)
    for step in range(1, 9):
        found = float(rate(np.float32(step)))
        np.testing.assert_allclose(found, optimizer.param_groups[0]["lr"], rtol=1e-4, atol=1e-6)
        optimizer.step()
        schedule.step()

"""Tensors that are not plain ones of contiguous memory, as inputs; kinks; integers that operators
need as constants.
"""

import warnings

import pytest

torch = pytest.importorskip("torch", minversion="2.13", reason="the front end is PyTorch's")

from torch import nn  # noqa: E402
from torch._dynamo.testing import CompileCounterWithBackend  # noqa: E402
from torch.testing._internal.two_tensor import TwoTensor  # noqa: E402

from weft.dialects.errors import ModelWarning  # noqa: E402

STRICT = {"fallback": "error"}


class Labelled(torch.Tensor):
    """A subclass without rules of its own."""


@pytest.fixture(autouse=True)
def fresh():
    torch.compiler.reset()
    torch.manual_seed(0)


def compiled(function, **named):
    return torch.compile(function, backend="weft", options=STRICT, **named)


def inference_tensor():
    with torch.inference_mode():
        return torch.randn(4)


@pytest.mark.parametrize(
    "make",
    [
        lambda: nn.Parameter(torch.randn(4)),
        lambda: torch.randn(4, dtype=torch.complex64).conj().imag,  # stored as its negative
        lambda: torch.randn(4).as_subclass(Labelled),
        inference_tensor,
        lambda: torch.randn(6)[2:],
    ],
)
def test_tensors_of_all_sorts_come_in(make):
    x = make()
    found, wanted = compiled(lambda x: x * 2 + 1)(x), x * 2 + 1
    assert type(found) is type(wanted)
    torch.testing.assert_close(found, wanted)


def test_a_pair_of_tensors_is_taken_apart():
    x = TwoTensor(torch.randn(3), torch.randn(3))
    found, wanted = compiled(lambda x: x.sin())(x), TwoTensor(x.a.sin(), x.b.sin())
    torch.testing.assert_close(found.a, wanted.a)
    torch.testing.assert_close(found.b, wanted.b)


def test_attention_is_computed_by_weft_not_by_torch():
    layer = nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True)
    fast, x = compiled(layer), torch.randn(2, 5, 8)
    torch.testing.assert_close(fast(x), layer(x), rtol=1e-4, atol=1e-5)
    with torch.profiler.profile() as profile:
        fast(x)
    assert not [event.name for event in profile.events() if "attention" in event.name]


@pytest.mark.parametrize("norm_first", [False, True])
def test_an_encoder_in_inference_is_taken_apart(norm_first):
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, norm_first=norm_first).eval()
    fast, x = compiled(layer), torch.randn(2, 5, 8)
    padding = torch.arange(5) > torch.tensor([[2], [4]])
    causal = torch.ones(5, 5, dtype=torch.bool).triu(1)
    with torch.no_grad():
        for masks in ({}, {"src_key_padding_mask": padding}, {"src_mask": causal}):
            kept = ~masks.get("src_key_padding_mask", torch.zeros(2, 5, dtype=torch.bool))
            torch.testing.assert_close(fast(x, **masks)[kept], layer(x, **masks)[kept])


def test_gradients_across_kinks_are_exact_in_f64():
    """A block of mobilenet_v2's: where rounding takes an activation across 0 or 6, its gradient
    differs as a whole, so only f64 tells gradients that are wrong from those that are rounded.
    """
    layers = [nn.Conv2d(4, 8, 3, padding=1, groups=4), nn.BatchNorm2d(8), nn.ReLU6()]
    model = nn.Sequential(*layers, nn.Conv2d(8, 4, 1), nn.BatchNorm2d(4)).double()
    fast, x = compiled(model), torch.randn(2, 4, 9, 9, dtype=torch.float64)
    wanted = torch.autograd.grad((model(x) * x.exp()).sum(), list(model.parameters()))
    found = torch.autograd.grad((fast(x) * x.exp()).sum(), list(model.parameters()))
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-9)


def test_integers_that_an_operator_needs_are_specialized():
    def counts(x, bins, low, high, stride):
        y = torch.nn.functional.conv1d(x[None, None], x[None, None, :3], stride=stride)
        return torch.histc(x, bins, low, high), y

    counter = CompileCounterWithBackend("weft")
    fast = torch.compile(counts, backend=counter, dynamic=True)
    for size, low in ((12, -2), (15, -2), (12, -3)):
        x = torch.randn(size)
        for one, other in zip(fast(x, 5, low, 3, 2), counts(x, 5, low, 3, 2), strict=True):
            torch.testing.assert_close(one, other)
    assert counter.frame_count == 2  # one for each range


def test_sizes_that_an_operator_needs_are_specialized():
    """The channels of groups, while batch and length stay symbols."""

    def grouped(x, filters):
        return torch.nn.functional.conv1d(x, filters, groups=2)

    counter = CompileCounterWithBackend("weft")
    fast = torch.compile(grouped, backend=counter, dynamic=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ModelWarning)  # nothing stays in torch
        for batch, length in ((2, 9), (3, 9), (5, 12)):
            x, filters = torch.randn(batch, 8, length), torch.randn(6, 4, 3)
            x.requires_grad_()
            one, other = fast(x, filters), grouped(x, filters)
            torch.testing.assert_close(one, other)
            slopes = (torch.autograd.grad(each.sum(), x) for each in (one, other))
            torch.testing.assert_close(*slopes)
    assert counter.frame_count == 1


def test_sizes_that_were_seen_to_vary_stay_symbols():
    """Where an operator needs them as constants, it stays in torch from the second size on."""
    counter = CompileCounterWithBackend("weft")
    fast = torch.compile(torch.nn.functional.pdist, backend=counter, dynamic=True)
    x = torch.randn(5, 3)
    torch.testing.assert_close(fast(x), torch.nn.functional.pdist(x))
    for size in (6, 7, 8):
        x = torch.randn(size, 3)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", ModelWarning)
            torch.testing.assert_close(fast(x), torch.nn.functional.pdist(x))
        assert bool(caught) == (size == 6)
    assert counter.frame_count == 2


def test_a_correction_that_varies_is_taken():
    def variance(x, correction):
        return x.var(correction=correction)

    fast, x = compiled(variance, dynamic=True), torch.randn(12)
    for correction in (2, 3):
        torch.testing.assert_close(fast(x, correction), variance(x, correction))


@pytest.mark.parametrize("factor", [2, 1.7])
def test_images_grow_by_factors(factor):
    grow = nn.Upsample(scale_factor=factor)
    fast = compiled(grow, dynamic=True)
    for size in (4, 5, 10):  # in floats 1.7 * 10 is 17, and a product of fractions is not
        x = torch.randn(1, 2, size, size + 1)
        torch.testing.assert_close(fast(x), grow(x), rtol=0, atol=0)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: (x.diagonal(1), torch.diagonal_scatter(x, x[0, :-1], 1)),
        lambda x: (torch.as_strided(x, (x.shape[0] - 1, 2), (x.shape[1] + 1, 1), 1),),
        lambda x: (
            nn.functional.adaptive_avg_pool2d(x[None], (3, 2)),
            nn.functional.avg_pool2d(x[None], 3, 2, 1, ceil_mode=True, divisor_override=5),
            nn.functional.interpolate(x[None, None], (3, 4), mode="bicubic", antialias=True),
        ),
        lambda x: (
            torch.bucketize(x, x[0]),
            x.chunk(2, 1)[0],
            x.long().median(1).values,
            torch.arange(3.7, dtype=torch.int64),
        ),
    ],
)
def test_operators_with_sizes_that_vary(function):
    fast = compiled(function, dynamic=True)
    for rows in (5, 6):
        x = torch.arange(rows * (rows + 1.0)).reshape(rows, -1)
        for one, other in zip(fast(x), function(x), strict=True):
            torch.testing.assert_close(one, other)


def test_windows_that_stick_out_of_sizes_that_vary():
    def pooled(x):
        return nn.functional.avg_pool1d(x, 4, 3, 1, ceil_mode=True)

    fast = compiled(pooled, dynamic=True)
    for size in (8, 9, 10):
        x = torch.randn(2, 3, size, requires_grad=True)
        found, wanted = (torch.autograd.grad(f(x).sin().sum(), x)[0] for f in (fast, pooled))
        torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize(
    "padded",
    [
        lambda x: nn.functional.pad(x, (3, 2, 0, 1), mode="reflect"),
        lambda x: nn.functional.pad(x, (3, -1, 1, 0), mode="replicate"),
    ],
)
def test_borders_of_sizes_that_vary(padded):
    fast = compiled(padded, dynamic=True)
    for size in (5, 6):
        x = torch.randn(1, 2, size, size + 1, requires_grad=True)
        found, wanted = (torch.autograd.grad(f(x).sin().sum(), x)[0] for f in (fast, padded))
        torch.testing.assert_close(found, wanted)

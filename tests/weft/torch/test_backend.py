"""`torch.compile(backend="weft")` against eager mode: results, gradients, strides, aliases."""

import subprocess
import sys
import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch", minversion="2.13", reason="the front end is PyTorch's")

from torch import nn  # noqa: E402

import weft.torch  # noqa: E402
from weft.dialects.errors import ModelWarning  # noqa: E402

STRICT = {"fallback": "error"}


@pytest.fixture(autouse=True)
def fresh():
    torch.compiler.reset()
    torch.manual_seed(0)


def compiled(function, **options):
    return torch.compile(function, backend="weft", options={**STRICT, **options})


def assert_same(found, wanted, tolerance=1e-5):
    torch.testing.assert_close(found, wanted, rtol=tolerance, atol=tolerance)
    assert found.stride() == wanted.stride()


def network():
    return nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 3))


def test_import_of_weft_does_not_import_torch():
    program = "import sys, weft, weft.cli.main; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_inference_and_gradients_are_eagers():
    model, x = network(), torch.randn(5, 6)
    fast = compiled(model)
    with torch.no_grad():
        assert_same(fast(x), model(x))
    fast(x).square().sum().backward()
    found = [parameter.grad.clone() for parameter in model.parameters()]
    model.zero_grad()
    model(x).square().sum().backward()
    for one, parameter in zip(found, model.parameters(), strict=True):
        assert_same(one, parameter.grad, 1e-4)


def test_one_compilation_serves_all_sizes_from_2_up():
    counter = torch._dynamo.testing.CompileCounterWithBackend("weft")
    fast = torch.compile(lambda x: (x.sum(0), x.shape[0] * 2, x[1:]), backend=counter, dynamic=True)
    for rows in (4, 7, 9):
        x = torch.randn(rows, 3)
        total, size, rest = fast(x)
        assert_same(total, x.sum(0))
        assert size == 2 * rows
        assert_same(rest, x[1:])
    assert counter.frame_count == 1


def test_a_size_that_is_no_dim_of_a_tensor_is_brought_along():
    x = torch.randn(3)
    fast = torch.compile(lambda x, n: x.repeat(n), backend="weft", dynamic=True, options=STRICT)
    for count in (2, 4):
        assert_same(fast(x, count), x.repeat(count))


def test_dropout_draws_what_eager_mode_draws():
    layer = nn.Sequential(nn.Linear(4, 16), nn.Dropout(0.5), nn.ReLU(), nn.Dropout(0.25))
    x, fast = torch.randn(6, 4), compiled(layer)
    torch.manual_seed(7)
    wanted = layer(x)
    torch.manual_seed(7)
    assert_same(fast(x), wanted)


def test_channels_last_stays_channels_last():
    model = nn.Conv2d(3, 4, 3, padding=1).to(memory_format=torch.channels_last)
    x = torch.randn(2, 3, 6, 6).to(memory_format=torch.channels_last)
    with torch.no_grad():
        assert_same(compiled(model)(x), model(x))


def test_mutated_inputs_and_buffers_change():
    def count(x, total):
        total += x.sum()
        return x.mul_(2) + 1

    x, total = torch.randn(4), torch.zeros(())
    y, other = x.clone(), total.clone()
    assert_same(compiled(count)(x, total), count(y, other))
    assert_same(x, y)
    assert_same(total, other)
    model = nn.BatchNorm1d(3).train()
    twin = nn.BatchNorm1d(3).train()
    assert_same(compiled(model)(z := torch.randn(8, 3)), twin(z))
    assert_same(model.running_var, twin.running_var)


def test_outputs_that_alias_inputs_are_views_of_them():
    x = torch.randn(3, 4)
    same, view, new = compiled(lambda x: (x, x.T, x + 1))(x)
    assert same.data_ptr() == x.data_ptr() == view.data_ptr()
    assert view.stride() == (1, 4)
    assert new.data_ptr() != x.data_ptr()


@pytest.mark.parametrize("x", [torch.randn(4, 6).T, torch.randn(8, 8)[::2, 1:7], torch.randn(())])
def test_views_and_scalars_come_in(x):
    assert_same(compiled(lambda x: x * 2 + 1)(x), x * 2 + 1)


def test_weights_that_change_behind_versions_are_seen():
    model, x = nn.Linear(3, 2), torch.randn(4, 3)
    fast = compiled(model)
    with torch.no_grad():
        fast(x)
        model.weight.data.add_(1.0)
        assert_same(fast(x), model(x))
        model.bias.detach().numpy()[:] = 3.0
        assert_same(fast(x), model(x))
        model.load_state_dict(nn.Linear(3, 2).state_dict())
        assert_same(fast(x), model(x))


def test_frozen_weights_change_by_refresh_alone():
    model, x = nn.Linear(3, 2).eval(), torch.randn(4, 3)
    fast = compiled(model, freeze=True)
    with torch.no_grad():
        before = fast(x)
        model.weight.mul_(2.0)
        assert_same(fast(x), before)
        assert weft.torch.refresh(model) == 1
        assert_same(fast(x), model(x))


def test_autocast_is_explicit():
    model, x = nn.Linear(8, 4), torch.randn(3, 8)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        found, wanted = compiled(model)(x), model(x)
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(found, wanted, rtol=2e-2, atol=2e-2)


def test_what_weft_lacks_stays_in_torch_with_a_report():
    def mixed(x):
        return torch.linalg.svdvals(x).sum() + torch.fft.fft(x).real.sum()

    x = torch.randn(3, 3)
    with pytest.warns(ModelWarning, match="stay in torch.*_linalg_svd"):
        assert_same(torch.compile(mixed, backend="weft")(x), mixed(x), 1e-4)
    report = weft.torch.explain(mixed, x)
    assert {each.target for each in report.refused} >= {"aten._linalg_svd.default"}
    assert "test_backend.py" in report.refused[0].line


def test_fallback_error_lists_everything_in_one_sentence():
    def mixed(x):
        return torch.linalg.svdvals(x).sum() + torch.linalg.eigvalsh(x).sum()

    with pytest.raises(Exception, match=r"weft requires operators that it has; \d stay in torch"):
        compiled(mixed)(torch.eye(3))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"fallback": "silent"}, "fallback requires one of"),
        ({"fast": 1}, "requires options out of"),
    ],
)
def test_options_that_do_not_exist_are_refused(options, message):
    with pytest.raises(Exception, match=message):
        torch.compile(lambda x: x + 1, backend="weft", options=options)(torch.ones(2))


def test_attention_is_eagers_with_its_gradients():
    q, k, v = (torch.randn(1, 2, 5, 4, requires_grad=True) for _ in range(3))

    def attend(q, k, v):
        return nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)

    found = torch.autograd.grad(compiled(attend)(q, k, v).sum(), (q, k, v))
    wanted = torch.autograd.grad(attend(q, k, v).sum(), (q, k, v))
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_a_training_loop_is_eagers():
    def losses(wrap):
        torch.manual_seed(3)
        model, x, y = network(), torch.randn(16, 6), torch.randn(16, 3)
        step, optimiser = wrap(model), torch.optim.AdamW(model.parameters(), 0.01)
        found = []
        for _ in range(4):
            optimiser.zero_grad()
            loss = nn.functional.mse_loss(step(x), y)
            loss.backward()
            optimiser.step()
            found.append(loss.item())
        return found

    np.testing.assert_allclose(losses(compiled), losses(lambda model: model), rtol=1e-4)


def test_graph_breaks_make_several_graphs():
    def broken(x):
        y = x * 2
        torch._dynamo.graph_break()
        return y + 1

    with warnings.catch_warnings():
        warnings.simplefilter("error", ModelWarning)
        assert_same(compiled(broken)(torch.ones(3)), torch.full((3,), 3.0))

"""Functions made of functions: gradients and their kin, on tensors with values and traced."""

import math

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from weft import Tensor
from weft.dialects.graph.core.evaluate import evaluate_block
from weft.tracing.trace import record
from weft.trees import flatten, leaves_of

RNG = np.random.default_rng(0)
X, W = RNG.normal(size=4), RNG.normal(size=(3, 4))


def traced(function, *arguments):
    """What a function gives as a graph that is evaluated."""
    recorded = record(function, *arguments)
    recorded.module.verify()
    return evaluate_block(
        recorded.recording.block, leaves_of(arguments), {}, recorded.recording.weights
    )


def at_once(function, *arguments):
    """What a function gives for tensors with values."""
    return [np.asarray(leaf) for leaf in leaves_of(function(*map(Tensor, arguments)))]


BOTH = pytest.mark.parametrize("run", [traced, at_once])


def layer(x, w):
    return wnp.tanh(w @ x)


def energy(x, w):
    y = layer(x, w)
    return (y * y).sum() + wnp.exp(x).sum()


SLOPES = 1 - np.tanh(W @ X) ** 2


@BOTH
def test_vjp_takes_cotangents_of_all_results(run):
    def pulled(x, w, seed):
        y, back = weft.vjp(layer, x, w)
        return y, *back(seed)

    seed = RNG.normal(size=3)
    y, dx, dw = run(pulled, X, W, seed)
    np.testing.assert_allclose(y, np.tanh(W @ X))
    np.testing.assert_allclose(dx, W.T @ (SLOPES * seed))
    np.testing.assert_allclose(dw, np.outer(SLOPES * seed, X))


@BOTH
def test_jvp_is_the_change_along_a_direction(run):
    direction, other = RNG.normal(size=4), RNG.normal(size=(3, 4))
    y, change = run(lambda x, w, d, e: weft.jvp(layer, (x, w), (d, e)), X, W, direction, other)
    np.testing.assert_allclose(y, np.tanh(W @ X))
    np.testing.assert_allclose(change, SLOPES * (W @ direction + other @ X))


@BOTH
def test_jacobian_and_hessian(run):
    dx, dw = run(weft.jacobian(layer, (0, 1)), X, W)
    np.testing.assert_allclose(dx, SLOPES[:, None] * W)
    assert dw.shape == (3, 3, 4)
    np.testing.assert_allclose(dw, np.einsum("i,ij,k->ijk", SLOPES, np.eye(3), X))
    (second,) = run(weft.hessian(energy), X, W)
    slopes = run(weft.jacobian(weft.grad(energy)), X, W)[0]
    np.testing.assert_allclose(second, slopes)
    np.testing.assert_allclose(second, second.T, atol=1e-12)
    y = np.tanh(W @ X)
    curvature = 2 * SLOPES**2 - 4 * y**2 * SLOPES
    np.testing.assert_allclose(second, (W.T * curvature) @ W + np.diag(np.exp(X)))
    (slope,) = run(weft.jacobian(lambda x: x * x), np.float64(1.5))
    assert slope.shape == ()
    assert slope == 3.0


def test_a_jacobian_for_any_size_is_a_loop():
    exe = weft.trace(weft.jacobian(lambda x: wnp.sin(x) * x), weft.Spec("float64", ("n",)))
    for size in (1, 5):
        x = RNG.normal(size=size)
        np.testing.assert_allclose(exe(x), np.diag(np.cos(x) * x + np.sin(x)), atol=1e-14)


@BOTH
def test_gradients_hand_on_what_else_a_function_gives(run):
    def with_parts(x, w):
        y = layer(x, w)
        return y.sum(), (y, {"w": w})

    gradient, y, w = run(weft.grad(with_parts, has_aux=True), X, W)
    np.testing.assert_allclose(gradient, W.T @ SLOPES)
    np.testing.assert_allclose(y, np.tanh(W @ X))
    np.testing.assert_array_equal(w, W)
    value, *_ = run(weft.value_and_grad(with_parts, 1, has_aux=True), X, W)
    np.testing.assert_allclose(value, np.tanh(W @ X).sum())


@BOTH
def test_only_the_arguments_are_differentiated(run):
    """What the function reads besides is a constant, also where it is an argument's value."""
    (slope,) = run(lambda x: weft.grad(lambda y: (x * y).sum())(x), X)
    np.testing.assert_allclose(slope, X)
    (slope,) = run(weft.grad(lambda x: (weft.stop_gradient(x) * x).sum()), X)
    np.testing.assert_allclose(slope, X)


@BOTH
def test_a_checkpoint_has_the_same_derivatives(run):
    block = weft.checkpoint(layer)
    again = run(weft.grad(lambda x, w: (block(x, w) * x[:3]).sum(), (0, 1)), X, W)
    plain = run(weft.grad(lambda x, w: (layer(x, w) * x[:3]).sum(), (0, 1)), X, W)
    for got, want in zip(again, plain, strict=True):
        np.testing.assert_allclose(got, want)


@BOTH
def test_a_rule_takes_the_place_of_a_derivative(run):
    clipped = weft.custom_vjp(
        lambda x, w: layer(x, w),
        lambda x, w: (layer(x, w), (x, w)),
        lambda saved, seed: (saved[0] * 7.0, saved[1] * seed.sum()),
    )
    value, (dx, dw) = (lambda found: (found[0], found[1:]))(
        run(weft.value_and_grad(lambda x, w: (clipped(x, w) * 2.0).sum(), (0, 1)), X, W)
    )
    np.testing.assert_allclose(value, 2 * np.tanh(W @ X).sum())
    np.testing.assert_allclose(dx, 7 * X)
    np.testing.assert_allclose(dw, 6 * W)
    (plain,) = run(lambda x, w: clipped(x, w), X, W)
    np.testing.assert_allclose(plain, np.tanh(W @ X))


@BOTH
def test_a_rule_is_differentiated_again(run):
    cube = weft.custom_vjp(
        lambda x: x * x * x,
        lambda x: (x * x * x, x * x),
        lambda square, seed: (seed * square * 3.0,),
    )
    (second,) = run(weft.grad(weft.grad(cube)), np.float64(1.5))
    np.testing.assert_allclose(second, 9.0)


def test_check_grad_finds_a_wrong_rule():
    assert weft.check_grad(energy, X, W, argnums=(0, 1)) < 1e-7
    wrong = weft.custom_vjp(wnp.sin, lambda x: (wnp.sin(x), x), lambda x, seed: (seed * x,))
    with pytest.raises(weft.WeftError, match="within 1e-06 of differences"):
        weft.check_grad(lambda x: wrong(x).sum(), X)


@BOTH
@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: weft.grad(lambda y: y)(x), "requires one float"),
        (lambda x: weft.grad(lambda y: y.sum())(wnp.argmax(x)), "arguments of floats, got int64"),
        (lambda x: weft.grad(lambda y: y.sum(), 1)(x), "positions of 1 arguments, got 1"),
        (lambda x: weft.vjp(lambda y: y, x)[1](x[:2]), "a cotangent requires the shape"),
        (lambda x: weft.vjp(lambda y: y, x)[1]((x, x)), "the structure of what the function gave"),
        (lambda x: weft.jvp(lambda y: y, (x,), ()), "a direction for each of 1 tensors, got 0"),
        (lambda x: weft.jacobian(lambda y: (y, y))(x), "a jacobian requires one tensor"),
    ],
)
def test_errors_name_the_line(run, function, message: str):
    with pytest.raises(weft.WeftError, match=rf"test_derivatives\.py:\d+: .*{message}"):
        run(function, X)


ROWS = RNG.normal(size=(5, 4))
FLOWS = {
    "scan": lambda x, rows: scanned(x, rows),
    "while": lambda x, rows: wnp.sin(
        weft.while_loop(lambda s: s.sum() < 20.0, lambda s: s * s + wnp.abs(s) + 0.1, x)
    ).sum(),
    "cond": lambda x, rows: weft.cond(
        x.sum() > rows.sum(), lambda y: wnp.exp(y) * x, lambda y: y * rows[0], x
    ).sum(),
    "fori": lambda x, rows: weft.fori_loop(0, 4, lambda i, s: wnp.sin(s) * x + rows[1], x).sum(),
}


def scanned(x, rows):
    def body(state, row):
        state = wnp.tanh(state * row + x)
        return state, state * row

    last, outputs = weft.scan(body, x, rows)
    return (last * last).sum() + outputs.sum()


@pytest.mark.parametrize("name", FLOWS)
def test_derivatives_of_control_flow_by_functions(name: str):
    function = FLOWS[name]
    assert weft.check_grad(function, X, ROWS, argnums=(0, 1)) < 1e-6
    second = weft.check_grad(
        lambda x, rows: (weft.grad(function)(x, rows) ** 2.0).sum(), X, ROWS, tolerance=1e-5
    )
    assert second < 1e-5


def test_derivatives_in_and_of_source_mode():
    @weft.jit
    def grown(x):
        while x.sum() < 10.0:
            x = x * x + x + 0.1
        return wnp.sin(x).sum()

    @weft.jit
    def slope(x):
        return weft.grad(lambda y: wnp.sin(y * y).sum())(x)

    x, step = np.array([0.3, 0.5]), np.array([1e-6, 0.0])
    expected = (np.asarray(grown(x + step)) - np.asarray(grown(x - step))) / 2e-6
    np.testing.assert_allclose(np.asarray(weft.grad(grown)(x))[0], expected, rtol=1e-6)
    np.testing.assert_allclose(np.asarray(slope(x)), 2 * x * np.cos(x * x), rtol=1e-12)


def test_a_deep_network_computes_again_what_is_cheap():
    """Values of 64 KiB and more, read again behind several products."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(128, 128)).astype(np.float32)
    weights = [rng.normal(size=(128, 128)).astype(np.float32) * 0.08 for _ in range(6)]

    def loss(weights, x):
        for weight in weights:
            x = x @ weight
            x = x - x.mean(-1, keepdims=True)
            x = wnp.maximum(x / wnp.sqrt((x * x).mean(-1, keepdims=True) + 1e-3), 0.0)
        return (x * x).mean()

    step = weft.value_and_grad(loss)
    deep, naive = (weft.trace(step, weights, x, naive=flag) for flag in (False, True))
    for got, want in zip(*(flatten(run(weights, x))[0] for run in (deep, naive)), strict=True):
        np.testing.assert_allclose(got[1], want[1], rtol=2e-4, atol=2e-6)
    assert deep.metadata["workspace_bytes"] < 0.7 * naive.metadata["workspace_bytes"]


@BOTH
def test_a_rule_along_directions(run):
    ruled = weft.custom_jvp(wnp.exp, lambda x, d: (wnp.exp(x[0]), d[0] * x[0] * 7))
    (slope,) = run(weft.grad(lambda x: (ruled(x) * 2).sum()), X)
    np.testing.assert_allclose(slope, 14 * X)
    y, change = run(lambda x: weft.jvp(ruled, (x,), (x,)), X)
    np.testing.assert_allclose(y, np.exp(X))
    np.testing.assert_allclose(change, 7 * X * X)


@BOTH
def test_what_else_a_function_gives_is_handed_on(run):
    def measured(x):
        return (x * x).sum(), {"twice": x * 2}

    _, pulled, twice = run(lambda x: (y := weft.vjp(measured, x, has_aux=True))[:1] + (
        y[1](wnp.asarray(2.0)), y[2]), X)  # fmt: skip
    np.testing.assert_allclose(pulled, 4 * X)
    np.testing.assert_allclose(twice, 2 * X)
    _, change, twice = run(lambda x: weft.jvp(measured, (x,), (x,), has_aux=True), X)
    np.testing.assert_allclose(change, 2 * (X * X).sum())
    second, twice = run(weft.hessian(measured, has_aux=True), X)
    np.testing.assert_allclose(second, 2 * np.eye(4))
    np.testing.assert_allclose(twice, 2 * X)


def _root(x):
    return wnp.sum(wnp.sqrt(x))


@pytest.mark.parametrize(
    "call",
    [
        lambda x: weft.grad(_root, trap_nan=True)(x),
        lambda x: weft.vjp(_root, x, trap_nan=True),
        lambda x: weft.jvp(_root, (x,), (x,), trap_nan=True),
        lambda x: weft.hessian(_root, trap_nan=True)(x),
        lambda x: weft.vmap(_root, trap_nan=True)(x.reshape(1, 2)),
    ],
)
def test_trap_nan_names_the_operator(call):
    call(np.asarray([1.0, 4.0]))
    with pytest.raises(weft.InputError, match=r"got nan of graph\.sqrt at .*test_derivatives\.py"):
        call(np.asarray([1.0, -4.0]))


def test_trap_nan_looks_at_what_a_pullback_computes():
    _, back = weft.vjp(_root, np.asarray([1.0, 0.0]), trap_nan=True)
    with pytest.raises(weft.InputError, match="got an infinity"):
        back(np.asarray(1.0))
    with pytest.raises(weft.WeftError, match="requires tensors with values"):
        weft.trace(weft.grad(_root, trap_nan=True), np.ones(2))


@pytest.mark.parametrize("number", [float, math.cos, lambda x: x.item(), lambda x: x.tolist()])
def test_numbers_of_python_would_lose_a_derivative(number):
    with pytest.raises(weft.WeftError, match=r"test_derivatives\.py:\d+: .* is not being differ"):
        weft.grad(lambda x: number(x) * x)(Tensor(2.0))
    slope = weft.grad(lambda x: number(weft.stop_gradient(x)) * x)(Tensor(2.0))
    assert float(slope) == number(Tensor(2.0))

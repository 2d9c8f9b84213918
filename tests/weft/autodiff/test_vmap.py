"""`vmap`: a function of one sample on a batch, in every mode, beside one sample at a time."""

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from weft import Tensor
from weft.dialects.errors import UnsupportedError, WeftError
from weft.dialects.graph.core.evaluate import evaluate_block
from weft.tracing.trace import record
from weft.trees import leaves_of, tree_map

RNG = np.random.default_rng(0)
X, W = RNG.normal(size=(3, 4)), RNG.normal(size=(2, 4))


def traced(function, *arguments):
    """What a function gives as a graph that is evaluated."""
    recorded = record(function, *arguments)
    recorded.module.verify()
    return evaluate_block(
        recorded.recording.block, leaves_of(arguments), {}, recorded.recording.weights
    )


def at_once(function, *arguments):
    """What a function gives for tensors with values."""
    given = [tree_map(Tensor, each) for each in arguments]
    return [np.asarray(leaf) for leaf in leaves_of(function(*given))]


BOTH = pytest.mark.parametrize("run", [traced, at_once])


def check(run, function, *arguments):
    """The function of one sample on a batch, beside one sample after the other."""
    found = run(weft.vmap(function), *arguments)
    recorded = record(function, *(tree_map(lambda x: x[0], each) for each in arguments))
    graph = recorded.recording
    rows = [
        evaluate_block(graph.block, [x[n] for x in leaves_of(arguments)], {}, graph.weights)
        for n in range(len(leaves_of(arguments)[0]))
    ]
    for actual, column in zip(found, zip(*rows, strict=True), strict=True):
        np.testing.assert_allclose(actual, np.stack(column), rtol=1e-10)


def layer(w, x):
    return wnp.tanh(w @ x)


def energy(x):
    return (layer(W, x) ** 2).sum() + wnp.exp(x).sum()


@BOTH
def test_axes_of_arguments_and_results(run):
    expected = np.tanh(X @ W.T)
    (found,) = run(weft.vmap(layer, (None, 0)), W, X)
    np.testing.assert_allclose(found, expected)
    (found,) = run(weft.vmap(layer, in_axes=(None, -1), out_axes=1), W, X.T.copy())
    np.testing.assert_allclose(found, expected.T)
    (found,) = run(weft.vmap(layer, in_axes=(0, None)), np.stack([W, 2 * W]), X[0])
    np.testing.assert_allclose(found, np.tanh(np.stack([W, 2 * W]) @ X[0]))


@BOTH
def test_trees_and_what_is_the_same_for_all_samples(run):
    def step(state, rate):
        return {"x": state["x"] * rate, "rate": rate + 1.0, "one": 1.0}

    mapped = weft.vmap(step, ({"x": 0}, None), {"x": 0, "rate": None, "one": 0})
    x, rate, one = run(mapped, {"x": X}, np.float64(2))
    np.testing.assert_allclose(x, X * 2)
    assert rate == 3
    np.testing.assert_array_equal(one, np.ones(3))


@BOTH
def test_of_derivatives(run):
    check(run, energy, X)
    check(run, weft.grad(energy), X)
    check(run, lambda x, d: weft.jvp(energy, (x,), (d,))[1], X, X[::-1].copy())
    check(run, weft.hessian(energy), X)


@BOTH
def test_is_differentiated(run):
    (found,) = run(weft.grad(lambda w, x: weft.vmap(layer, (None, 0))(w, x).sum()), W, X)
    np.testing.assert_allclose(found, (1 - np.tanh(X @ W.T) ** 2).T @ X)

    def weighted(w, batch):  # which the mapped function reads of its surroundings
        return weft.vmap(lambda x: (w @ x).sum())(batch).sum()

    (found,) = run(weft.grad(weighted), W, X)
    np.testing.assert_allclose(found, np.broadcast_to(X.sum(0), (2, 4)))
    numbers = np.array([2, 0, 2])
    (found,) = run(
        weft.grad(lambda x: weft.vmap(lambda row, n: row[n] ** 2)(x, wnp.asarray(numbers)).sum()), X
    )
    expected = np.zeros_like(X)
    expected[np.arange(3), numbers] = 2 * X[np.arange(3), numbers]
    np.testing.assert_allclose(found, expected)


@BOTH
def test_within_each_other(run):
    pairs = weft.vmap(weft.vmap(lambda a, b: a @ b, (None, 0)), (0, None))
    np.testing.assert_allclose(run(pairs, X, W)[0], X @ W.T)


@BOTH
def test_conditions_that_differ_choose_between_results(run):
    def chosen(x):
        return weft.cond(x.sum() > 0, lambda a: a * 2, lambda a: a - 1, x)

    def switched(x):
        return weft.switch(wnp.sign(x[0]).astype(np.int64) + 1, [wnp.exp, wnp.sin, wnp.cos], x)

    for function in (chosen, switched):
        check(run, function, X)
        check(run, weft.grad(lambda x, f=function: (f(x) ** 2).sum()), X)

    def alike(x, held):
        return weft.cond(held, lambda a: a * 2, lambda a: wnp.ones_like(a), x)

    found = run(lambda x, held: weft.vmap(alike, (0, None))(x, held), X, np.bool_(False))
    np.testing.assert_array_equal(found[0], np.ones((3, 4)))


@BOTH
def test_loops_end_for_each_sample_apart(run):
    def doubled(x):
        return weft.while_loop(
            lambda s: s[0] < 20, lambda s: (s[0] * 2, s[1] + 1), (abs(x).sum(), 0)
        )

    check(run, doubled, X)
    check(run, lambda x: weft.fori_loop(0, 3, lambda i, y: y * x + i, x), X)

    def running(x):
        return weft.scan(lambda state, row: (state + row, state * row), 0.0 * x[0], x)

    check(run, running, X)
    check(run, weft.grad(lambda x: (running(x)[1] ** 2).sum()), X)


@BOTH
def test_of_rules_and_checkpoints(run):
    clipped = weft.custom_vjp(wnp.exp, lambda x: (wnp.exp(x), x), lambda x, d: (d * 7,))
    slope = weft.vmap(weft.grad(lambda x: clipped(x).sum()))
    np.testing.assert_array_equal(run(slope, X)[0], np.full((3, 4), 7.0))
    check(run, weft.checkpoint(energy), X)


def test_in_source_mode():
    @weft.jit
    def classified(batch, w):
        def one(x):
            y = w @ x
            if y.sum() > 0:
                y = y * 2
            while y.sum() < 3:
                y = y + 0.5
            return y

        return weft.vmap(one)(batch)

    expected = []
    for x in X:
        y = W @ x
        y = y * 2 if y.sum() > 0 else y
        while y.sum() < 3:
            y = y + 0.5
        expected.append(y)
    np.testing.assert_allclose(classified(X, W), np.stack(expected))
    np.testing.assert_allclose(
        weft.jit(weft.vmap(energy))(X), [float(energy(Tensor(x))) for x in X]
    )


def test_a_batch_of_any_size():
    found = weft.trace(weft.vmap(energy), weft.Spec("float64", ("n", 4)))
    for batch in (X, np.concatenate([X, X])):
        np.testing.assert_allclose(found(batch), [float(energy(Tensor(x))) for x in batch])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: weft.vmap(energy, (0, 0))(X), "in_axes of vmap requires"),
        (lambda: weft.vmap(layer)(W, X), "vmap requires batches of one size, got 2 and 3"),
        (lambda: weft.vmap(layer, None)(W, X), "vmap requires batches of one size, got none"),
        (lambda: weft.vmap(energy, out_axes=None)(X), "the same for all samples, got one that"),
        (lambda: weft.vmap(lambda x: x[x > 0])(X), "sizes that are the same for all samples"),
        (lambda: weft.vmap(lambda x: float(x[0]))(X), "requires a value, got a tensor"),
    ],
)  # fmt: skip
def test_refuses(call, message):
    with pytest.raises((WeftError, UnsupportedError), match=message) as caught:
        call()
    assert "test_vmap.py:" in str(caught.value)


def test_refuses_an_axis_that_is_not_there():
    with pytest.raises(np.exceptions.AxisError, match="within 2 axes, got 2"):
        weft.vmap(energy, 2)(X)


def test_what_a_function_hands_on_may_be_anything():
    def energies(x):
        return wnp.sum(x * x), {"half": x / 2, "name": "energy"}

    values, aux = weft.vmap(energies, has_aux=True)(X)
    np.testing.assert_allclose(values, (X * X).sum(1))
    np.testing.assert_allclose(aux["half"], X / 2)
    assert aux["name"] == "energy"
    traced = weft.trace(lambda x: weft.vmap(lambda y: (y.sum(), y + 1), has_aux=True)(x)[1], X)
    np.testing.assert_allclose(traced(X), X + 1)

"""Modules, optimisers and `with` in functions that are compiled from their source."""

from contextlib import contextmanager, nullcontext

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from weft import Tensor, nn, optim
from weft.source.interpret import read_function

RNG = np.random.default_rng(0)
X = Tensor(RNG.normal(size=(8, 3, 4, 4)).astype(np.float32))
LABELS = Tensor(RNG.integers(0, 5, 8))


class Normalised(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = [nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm(4), nn.GELU(), nn.Flatten()]
        self.head = {"last": nn.Dense(64, 5)}

    def construct(self, x):
        for layer in self.features:
            x = layer(x)
        return self.head["last"](x)


def network() -> Normalised:
    with nn.seed(0):
        return Normalised()


def same(got, expected) -> None:
    assert list(got) == list(expected)
    for name, value in expected.items():
        assert got[name].dtype == value.dtype
        np.testing.assert_allclose(got[name].numpy(), value.numpy(), rtol=2e-5, atol=1e-5)


def test_a_step_with_buffers_and_a_schedule_is_the_same_from_source():
    model, optimizer = network(), optim.sgd(lambda n: 0.1 / n, momentum=0.9, nesterov=True)

    def step(parameters, buffers, state, x, labels):
        def loss(parameters):
            scores, after = model.apply_updating(parameters | buffers, x)
            return nn.cross_entropy(scores, labels), after

        (value, after), slopes = weft.value_and_grad(loss, has_aux=True)(parameters)
        slopes = optim.clip_by_norm(slopes, 1.0)
        return value, *optimizer.update(parameters, slopes, state), after

    compiled = weft.jit(step)
    eager = own = (model.parameters(), model.buffers(), optimizer.init(model.parameters()))
    before = model.state_dict()
    for _ in range(3):
        loss, parameters, state, buffers = step(*eager, X, LABELS)
        value, own_parameters, own_state, own_buffers = compiled(*own, X, LABELS)
        eager, own = (parameters, buffers, state), (own_parameters, own_buffers, own_state)
        assert float(value) == pytest.approx(float(loss), rel=1e-5)
        same(own_parameters, parameters)
        same(own_buffers, buffers)
    assert len(compiled.compilations) == 1
    for name, value in model.state_dict().items():  # the module itself is as it was
        assert value is before[name]


def test_parameters_are_read_again_and_parts_are_watched():
    model = network().eval()
    compiled = weft.jit(
        lambda x: (model(x), sum((w * w).sum() for w in model.parameters().values()))
    )
    expected = model(X).numpy(), sum(float((w * w).sum()) for w in model.parameters().values())
    np.testing.assert_allclose(compiled(X)[0].numpy(), expected[0], rtol=1e-4, atol=1e-5)
    assert float(compiled(X)[1]) == pytest.approx(expected[1], rel=1e-4)
    model.load_state_dict({name: value * 2.0 for name, value in model.state_dict().items()})
    np.testing.assert_allclose(compiled(X)[0].numpy(), model(X).numpy(), rtol=1e-4, atol=1e-4)
    assert len(compiled.compilations) == 1
    model.features.insert(1, nn.ReLU())
    np.testing.assert_allclose(compiled(X)[0].numpy(), model(X).numpy(), rtol=1e-4, atol=1e-4)
    assert len(compiled.compilations) == 2


class Scaled:
    """A context manager that counts on its own."""

    def __init__(self, factor, log):
        self.factor, self.log = factor, log

    def __enter__(self):
        self.log.append("in")
        return self.factor

    def __exit__(self, kind, error, trace):
        self.log.append("out" if kind is None else kind.__name__)
        return kind is KeyError


@contextmanager
def doubled(log, x):
    log.append("begin")
    try:
        yield x * 2
    finally:
        log.append("end")


def logged(x, key):
    log = []
    with Scaled(3.0, log) as factor:
        x = x * factor - {"a": 1.0}[key]
    with doubled(log, x) as y, doubled(log, y) as fourfold, nullcontext(1.0) as one:
        x = fourfold + one
    return x, log


def leaves_early(x):
    with doubled([], x) as y:
        y = y + 1
        if x.sum() > 2:
            return y
        y = y - 1
    return y * 3


def test_with_reads_classes_and_generators():
    x = np.array([1.0, 2.0])
    for key in "ab":
        (got, log), (expected, wanted) = weft.jit(logged)(x, key), logged(x, key)
        np.testing.assert_array_equal(got, expected)
        assert log == wanted
    compiled = weft.jit(leaves_early)
    for each in (x, -x):
        np.testing.assert_array_equal(compiled(each), leaves_early(each))
    assert len(compiled.compilations) == 1


@contextmanager
def twice():
    yield 1
    yield 2


def test_with_refuses_what_it_cannot_read():
    def opened(x):
        with memoryview(b"bytes"):
            return x

    def again(x):
        with twice() as one:
            return x * one

    for function, rule in ((opened, "whose source can be read"), (again, "one yield")):
        with pytest.raises(weft.SourceError, match=rule):
            read_function(function, [weft.Spec("float64", (2,))], {})


class Layer:
    def __init__(self, weight):
        self.weight = weight

    def product(self, x):
        return getattr(self, "weight") @ x + getattr(self, "bias", 0.0)  # noqa: B009


def test_methods_and_getattr_do_not_compile_again():
    layer, x = Layer(np.eye(3)), np.arange(3.0)
    compiled = weft.jit(lambda x: layer.product(x) if hasattr(layer, "weight") else x)
    np.testing.assert_array_equal(compiled(x), x)
    layer.weight = 2 * np.eye(3)
    np.testing.assert_array_equal(compiled(x), 2 * x)
    assert len(compiled.compilations) == 1
    given = {"weight": Tensor(np.ones((2, 2))), "bias": Tensor(np.zeros(2))}
    dense = nn.Dense(2, 2)
    applied = weft.jit(lambda x: dense.apply(given, x))
    assert [applied(np.ones((1, 2))).tolist() for _ in range(2)] == [[[2, 2]]] * 2
    given["bias"] = Tensor(np.ones(2))
    assert applied(np.ones((1, 2))).tolist() == [[3, 3]]
    layer.bias = 1.0
    np.testing.assert_array_equal(compiled(x), 2 * x + 1)
    del layer.bias
    np.testing.assert_array_equal(compiled(x), 2 * x)
    assert len(compiled.compilations) == 2


def test_activations_are_those_of_tensors():
    zeros = Tensor(np.zeros(3, np.float32))

    def slope(x):
        return weft.grad(lambda x: (nn.relu(x) + wnp.abs(x)).sum())(x)

    assert weft.jit(slope)(zeros).tolist() == slope(zeros).tolist() == [0, 0, 0]

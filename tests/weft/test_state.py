"""The state of modules, such as running statistics, in every mode."""

import numpy as np
import pytest

import weft
from weft import Tensor, nn, optim
from weft.eager.tape import is_recorded

X = np.random.default_rng(0).normal(size=(6, 2, 3)).astype(np.float32)
V = np.array([1.0, 2.0, 3.0], np.float32)


def network():
    with nn.seed(0):
        return nn.Sequential(nn.BatchNorm(2), nn.ReLU())


def held(module):
    return {name: each.numpy().copy() for name, each in module.buffers().items()}


def same(got, wanted):
    assert list(got) == list(wanted)
    for name, value in wanted.items():
        np.testing.assert_allclose(got[name], value, rtol=1e-5, atol=1e-6)


class Counter(nn.Module):
    """A module whose result depends on how often it was called."""

    def __init__(self):
        super().__init__()
        self.buffer("count", Tensor(np.float32(1)))

    def construct(self, x):
        y = x * self.count
        self.count = self.count + 1.0
        return y


class Failing(Counter):
    def construct(self, x):
        y = super().construct(x)
        return y + {}["absent"]


def of_eager(model, x):
    model(Tensor(x))


def of_jit(model, x):
    weft.jit(lambda x: model(x), naive=True)(x)


def of_grad(model, x):
    weft.grad(lambda x: (model(x) ** 2).sum())(Tensor(x))


def of_jit_of_grad(model, x):
    weft.jit(weft.grad(lambda x: (model(x) ** 2).sum()), naive=True)(Tensor(x))


def of_grad_of_jit(model, x):
    weft.grad(weft.jit(lambda x: (model(x) ** 2).sum(), naive=True))(Tensor(x))


MODES = (of_eager, of_jit, of_grad, of_jit_of_grad, of_grad_of_jit)


@pytest.mark.parametrize("mode", MODES[1:])
def test_w4_calls_leave_the_same_state_in_every_mode(mode):
    """w4"""
    expected, model = network(), network()
    for x in (X, X + 1):
        of_eager(expected, x)
        mode(model, x)
        same(held(model), held(expected))
    assert all(type(each) is Tensor for each in model.state_dict().values())
    model(Tensor(X))  # which is usable


def test_w4_a_compiled_call_reads_and_gives_the_state_every_time():
    """w4"""
    counter = Counter()
    compiled = weft.jit(counter, naive=True)
    assert [float(compiled(V)[0]) for _ in range(3)] == [1, 2, 3]
    counter.count = Tensor(np.float32(10))
    assert float(compiled(V)[0]) == 10
    assert float(counter.count.item()) == 11
    assert len(compiled.compilations) == 1


def test_w4_a_derivative_starts_from_the_state_of_its_call():
    """w4"""
    for loss in (
        lambda counter: lambda x: (counter(x) ** 2).sum(),
        lambda counter: weft.jit(lambda x: (counter(x) ** 2).sum(), naive=True),
    ):
        counter = Counter()
        gradient = weft.grad(loss(counter))
        for n in (1, 2):
            np.testing.assert_allclose(gradient(Tensor(V)).numpy(), 2 * V * n**2)
        assert counter.count.item() == 3
        # or the next call would go on with this one's record
        assert not is_recorded(counter.count)


def test_w4_state_goes_through_branches_and_loops_of_programs():
    """w4"""

    class Branching(Counter):
        def construct(self, x):
            for _ in range(200):
                self.count = self.count + x[0]
            if x.sum() > 0:
                self.count = self.count * 2.0
            return x

    eager, compiled = Branching(), Branching()
    program = weft.jit(compiled, naive=True)
    for x in (V, -V):
        eager(Tensor(x))
        program(x)
        assert compiled.count.item() == eager.count.item()
    assert len(program.compilations) == 1


@pytest.mark.parametrize("mode", [*MODES, lambda model, x: weft.trace(model, x)])
def test_w4_an_error_leaves_a_module_as_it_was(mode):
    """w4"""
    model = Failing()
    before = model.count
    with pytest.raises(KeyError):
        mode(model, V)
    assert model.count is before


def test_w4_an_inner_error_that_is_caught_takes_back_the_inner_module_alone():
    """w4"""

    class Careful(Counter):
        def __init__(self):
            super().__init__()
            self.inner = Failing()

        def construct(self, x):
            x = super().construct(x)
            try:
                return self.inner(x)
            except KeyError:
                return x

    model = Careful()
    model(Tensor(V))
    assert (model.count.item(), model.inner.count.item()) == (2, 1)


ARTIFACTS = {
    "trace": lambda model: weft.trace(model, X),
    "step": lambda model: weft.step(lambda x: model(x).sum(), X),
    "compile": lambda model: weft.compile(model, [X]),
    "a gradient": lambda model: weft.trace(weft.grad(lambda x: model(x).sum()), X),
    "a loop": lambda model: weft.trace(
        lambda x: weft.scan(lambda s, _: (model(s), None), x, length=2)[0], X
    ),
}


@pytest.mark.parametrize("kind", ARTIFACTS)
def test_w4_artifacts_have_no_place_for_state(kind):
    """w4"""
    model = network()
    before = model.state_dict()
    with pytest.raises(weft.WeftError, match=r"a change of running_mean of BatchNorm") as error:
        ARTIFACTS[kind](model)
    assert "apply_updating" in str(error.value)
    assert all(value is before[name] for name, value in model.state_dict().items())
    model(Tensor(X))


def test_w4_state_that_is_handed_in_and_out_goes_everywhere():
    """w4: the way out that errors name."""
    model, expected = network(), network()
    of_eager(expected, X)
    traced = weft.trace(lambda b, x: model.apply_updating(b, x)[1], model.buffers(), X, naive=True)
    same(traced({name: each.numpy() for name, each in model.buffers().items()}, X), held(expected))
    optimizer = optim.sgd(0.1)

    def train(parameters, buffers, state, x):
        def loss(parameters):
            y, after = model.apply_updating(parameters | buffers, x)
            return (y * y).sum(), after

        (value, after), slopes = weft.value_and_grad(loss, has_aux=True)(parameters)
        return value, *optimizer.update(parameters, slopes, state), after

    parts = model.parameters(), model.buffers(), optimizer.init(model.parameters())
    *_, after = weft.step(train, *parts, X)(*parts, X)
    same({name: each.numpy() for name, each in after.items()}, held(expected))


def test_w4_branches_that_are_functions_refuse_to_change_state():
    """w4"""
    counter = Counter()
    before = counter.count
    chosen = weft.jit(lambda x: weft.cond(x[0] > 0, counter, lambda x: x, x), naive=True)
    with pytest.raises(weft.SourceError, match="a change of count of Counter"):
        chosen(V)
    assert counter.count is before


def test_w4_parameters_stay_as_they_are():
    """w4"""

    class Changing(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = Tensor(V)

        def construct(self, x):
            self.weight = self.weight * 2.0
            return x * self.weight

    with pytest.raises(weft.SourceError, match="an object that this call has made"):
        weft.jit(Changing())(V)

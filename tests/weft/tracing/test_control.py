"""Control flow as functions: the same results and gradients from Python and from the graph."""

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from weft import Tensor

X = np.array([0.5, -1.5, 1.9])


def newton(x):
    """The root of x[2], which is doubled until it is at least 16 first."""
    grown = weft.while_loop(lambda y: y < 16.0, lambda y: y * 2.0, x[2])
    return weft.fori_loop(0, 6, lambda _, y: 0.5 * (y + grown / y), grown)


def clipped(x):
    return weft.cond(x.sum() > 0.0, lambda x: x * x, lambda x: -x, x).sum()


def chosen(x):
    ways = [wnp.sin, wnp.cos, lambda x: x * x * x]
    return sum(weft.switch(wnp.asarray(n) + (x[0] > 9.0), ways, x).sum() for n in (-1, 0, 1, 7))


def recurrence(x):
    state, all_of = weft.scan(lambda h, row: (wnp.tanh(h + row), h * row), 0.1 * x[0], x)
    return state + all_of.sum()


def triangle(x):
    def body(i, pair):
        return pair[0] + x * i, {"last": pair[1]["last"] * x}

    total, rest = weft.fori_loop(1, 4, body, (x * 0.0, {"last": x}))
    return (total * rest["last"]).sum()


def bound_of_the_call(x):
    return weft.fori_loop(0, (x > 0.0).astype(np.int64).sum(), lambda i, y: y * x[0], x[2])


PROGRAMS = (newton, clipped, chosen, recurrence, triangle, bound_of_the_call)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_eager_and_traced_agree(program):
    both = weft.value_and_grad(program)
    value, slope = both(Tensor(X))
    traced_value, traced_slope = weft.trace(both, X)(X)
    np.testing.assert_allclose(traced_value, value, rtol=1e-12)
    np.testing.assert_allclose(traced_slope, slope, rtol=1e-10, atol=1e-12)
    nudge = 1e-6 * np.eye(3)
    differences = [
        (float(program(Tensor(X + each))) - float(program(Tensor(X - each)))) / 2e-6
        for each in nudge
    ]
    np.testing.assert_allclose(slope, differences, rtol=1e-5, atol=1e-7)


def test_loops_stay_loops():
    from weft.tracing.trace import record

    text = str(record(newton, X).module)
    assert text.count("graph.while") == text.count("graph.for") == 1


@pytest.mark.parametrize(
    ("program", "message"),
    [
        (lambda x: weft.while_loop(lambda y: y[0] < 9.0, lambda y: y[:2], x), "state of one type"),
        (
            lambda x: weft.while_loop(
                lambda y: y[0] < 9.0, lambda y: y, x, shape_invariants=weft.Spec("float32", (9,))
            ),
            "sizes that the state has",
        ),
        (
            lambda x: weft.while_loop(lambda y: y[0] < 9.0, lambda y: y, x, shape_invariants=3),
            "a tree of weft.Spec",
        ),
        (lambda x: weft.cond(x[0] > 0, lambda: x, lambda: x[0]), "results of one structure"),
        (lambda x: weft.fori_loop(0, 3, lambda i, y: (y, y), x), "state of one structure"),
        (lambda x: weft.scan(lambda h, _: (h, h), x), "rows or a length"),
    ],
)
def test_refusals_name_the_line(program, message: str):
    with pytest.raises(weft.WeftError, match=rf"test_control\.py:\d+: .*{message}"):
        weft.trace(program, X)


def _doubled(x):
    """An array that grows until it has ten elements, which only its values tell."""
    state = weft.while_loop(
        lambda state: state[1] < 10,
        lambda state: (wnp.concat([state[0], state[0]]), state[1] * 2),
        (x, wnp.sum(wnp.ones_like(x)).astype("int64")),
        shape_invariants=(weft.Spec("float64", ("m",)), weft.Spec("int64")),
    )
    return state[0]


def test_sizes_of_a_state_vary_where_a_spec_names_them():
    x = np.arange(3.0)
    for result in (_doubled(wnp.asarray(x)), weft.trace(_doubled, x)(x), weft.jit(_doubled)(x)):
        np.testing.assert_array_equal(result, np.tile(x, 4))


def test_a_loop_ends_after_so_many_iterations():
    def grown(x):
        return weft.while_loop(lambda y: y < 100.0, lambda y: y * 2.0, x, maximum_iterations=3)

    for start, end in ((1.0, 8.0), (90.0, 180.0), (300.0, 300.0)):
        x = np.asarray(start)
        assert [float(f(x)) for f in (grown, weft.trace(grown, x), weft.jit(grown))] == [end] * 3
    assert float(weft.grad(grown)(np.asarray(1.0))) == 8.0

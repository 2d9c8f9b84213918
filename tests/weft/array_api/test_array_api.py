"""weft.numpy has the array API standard's functions: at once, traced and from source."""

from dataclasses import dataclass, field

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from weft import Tensor
from weft.tracing.trace import record

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(4, 3)), RNG.normal(size=(4, 3))
N, M = np.array([[5, -3, 0], [2, 7, -8]]), np.array([1, 2, 3])
SQUARE = RNG.normal(size=(2, 4, 4))
POSITIVE = SQUARE @ SQUARE.mT + np.eye(4)

CASES = {
    "log10": (lambda xp, x: xp.log10(xp.abs(x)), X),
    "log2": (lambda xp, x: xp.log2(x), 2.0 ** np.arange(-5, 6)),
    "log of ends": (lambda xp, x: (xp.log2(x), xp.log10(x)), np.array([0.0, -0.0, np.inf, 5e-324])),
    "unsigned": (lambda xp, n: (-n, xp.negative(n)), np.array([0, 1, 255], np.uint8)),
    "atan2": (lambda xp, x, y: xp.atan2(x, y), np.array([0.0, -0.0, 1, -1, np.inf, 0.0, -2]),
              np.array([-1.0, -1.0, 0.0, -0.0, -np.inf, 0.0, 3])),
    "hypot": (lambda xp, x, y: xp.hypot(x, y), X * 1e200, Y * 1e200),
    "logaddexp": (lambda xp, x, y: xp.logaddexp(x, y), X * 500, Y * 500),
    "signs": (lambda xp, x: (xp.signbit(x), xp.copysign(x, -x), xp.trunc(x)), X * 3),
    "nextafter": (lambda xp, x, y: xp.nextafter(x, y), np.array([0.0, 1.0, -1.0]), np.ones(3)),
    "bits": (lambda xp, n, m: (n & m, n | m, n ^ m, ~n, m << 2, n >> 1), N, M),
    "divmod": (lambda xp, n, m: divmod(n, m), N, M),
    "grids": (lambda xp, m: tuple(xp.meshgrid(m, m[:2], indexing="ij")), M),
    "moves": (lambda xp, x: (xp.roll(x, 2, axis=0), xp.roll(x, -1), xp.moveaxis(x, 0, 1)), X),
    "copies": (lambda xp, x: (xp.tile(x, (2, 1, 2)), xp.repeat(x, 3, axis=1)), X),
    "flips": (lambda xp, x: (xp.flip(x), xp.flip(x, axis=(0,)), *xp.unstack(x, axis=1)), X),
    "orders": (lambda xp, n: (xp.sort(n, axis=1), xp.argsort(n, axis=0, stable=True)), N),
    "search": (lambda xp, m, n: xp.searchsorted(m, n, side="right"), M, N),
    "places": (lambda xp, n: (*xp.nonzero(n), xp.count_nonzero(n, axis=0)), N),
    "sets": (lambda xp, n: xp.unique_all(n), N % 3),
    "running": (lambda xp, x: xp.cumulative_prod(x, axis=1, include_initial=True), X),
    "differences": (lambda xp, x: xp.diff(x, axis=0, n=2), X),
    "products": (lambda xp, x, y: (xp.vecdot(x, y), xp.tensordot(x, y, axes=([0], [0]))), X, Y),
    "several arrays": (lambda xp, x, m: (x[m, m - 1], x[[0, 1], 2], x[:, None, [1]]), X, M),
    "apart": (lambda xp, a: (a[0, :, [1, 2]], a[[1, 0], :, 0], a[:, 1, [3]]), SQUARE),
    "a mask": (lambda xp, x: (x[x > 0], x[x[:, 0] > 0]), X),
}  # fmt: skip


def leaves(found):
    return found if isinstance(found, tuple) else (found,)


@pytest.mark.parametrize("name", CASES)
def test_functions_are_numpys_in_every_mode(name: str):
    function, *arrays = CASES[name]

    def program(*tensors):
        return function(wnp, *tensors)

    with np.errstate(divide="ignore"):
        wanted = leaves(function(np, *arrays))
    eager = leaves(program(*map(Tensor, arrays)))
    compiled = leaves(weft.trace(program, *arrays)(*arrays))
    for found in (eager, compiled):
        for got, expected in zip(found, wanted, strict=True):
            assert got.dtype == np.asarray(expected).dtype
            np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-12)


def test_some_are_read_from_source():
    @weft.jit
    def program(x):
        order = wnp.argsort(x[:, 0])
        return wnp.unique_values(wnp.round(x)), wnp.atan2(x, wnp.roll(x, 1, 0))[order, 1]

    values, angles = program(X)
    np.testing.assert_array_equal(values, np.unique(np.round(X)))
    np.testing.assert_allclose(angles, np.arctan2(X, np.roll(X, 1, 0))[np.argsort(X[:, 0]), 1])


def test_what_is_apart_comes_first_from_source_too():
    def program(a, places):
        return a[0, :, places], a[:, None, 1, places], a[places, :, places]

    arrays = SQUARE, np.array([1, 0])
    for got, wanted in zip(weft.jit(program)(*arrays), program(*arrays), strict=True):
        np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("name", ["atan2", "hypot", "logaddexp"])
def test_gradients_of_composed_functions(name: str):
    weft.check_grad(lambda x, y: getattr(wnp, name)(x, y).sum(), X, np.abs(Y) + 0.1)


def algebra(xp, a, x, positive):
    return (
        xp.linalg.inv(a), xp.linalg.det(a), *xp.linalg.slogdet(a), xp.linalg.solve(a, x),
        xp.linalg.cholesky(positive), xp.linalg.matrix_norm(a, ord=1), xp.linalg.trace(a, offset=1),
    )  # fmt: skip


def test_linear_algebra():
    arrays = SQUARE, X, POSITIVE
    found = weft.trace(lambda *tensors: algebra(wnp, *tensors), *arrays)(*arrays)
    for got, wanted in zip(found, algebra(np, *arrays), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-9, atol=1e-12)


def test_elimination_is_differentiated():
    a, x = SQUARE[0], X
    slopes = weft.trace(weft.grad(lambda a: wnp.linalg.solve(a, x).sum()), a)(a)
    inverse = np.linalg.inv(a)
    np.testing.assert_allclose(slopes, -inverse.T @ np.ones_like(x) @ (inverse @ x).T, rtol=1e-8)


def test_indices_hand_cotangents_to_places_that_are_named_twice():
    slopes = weft.grad(lambda x: x[[0, 0, 1], [1, 1, 2]].sum())(Tensor(X))
    assert (slopes[0, 1].item(), slopes[1, 2].item(), float(slopes.sum())) == (2.0, 1.0, 3.0)


def test_dtypes_and_devices():
    x = Tensor(X)
    assert x.__array_namespace__() is wnp
    assert x.to_device("cpu") is x
    assert wnp.result_type(Tensor(M), wnp.float32) == np.float64
    assert wnp.finfo(x).eps == np.finfo(np.float64).eps
    assert wnp.isdtype(Tensor(M).dtype, "signed integer")
    assert wnp.__array_namespace_info__().dtypes(kind="bool") == {"bool": np.dtype("bool")}
    with pytest.raises(weft.WeftError, match="device"):
        wnp.zeros(3, device="gpu")


def test_sizes_may_be_unknown():
    def program(x):
        return wnp.roll(x, 1, 0), wnp.sort(x, axis=0), wnp.linalg.inv(x.mT @ x)

    compiled = weft.trace(program, weft.Spec("float64", ("n", 3)))
    for rows in (4, 9):
        x = RNG.normal(size=(rows, 3))
        for got, wanted in zip(compiled(x), program(x), strict=True):
            np.testing.assert_allclose(got, wanted)
    assert "graph.solve" in str(record(program, weft.Spec("float64", ("n", 3))).module)


@dataclass
class Walk:
    place: object
    seen: list = field(default_factory=list)

    def step(self, by):
        self.place = self.place + by
        self.seen.append(self.place)


def test_lists_that_a_loop_or_an_object_fills_are_stacked():
    def program(x):
        walk, filled = Walk(x), []
        for row in range(30):
            filled.append(x * row)
        walk.step(x)
        walk.step(x)
        return wnp.stack(filled), wnp.stack(walk.seen)

    for got, wanted in zip(weft.jit(program)(X[0]), program(X[0]), strict=True):
        np.testing.assert_array_equal(got, wanted)


def test_conditions_that_were_read_twice_do_not_read_values():
    @weft.jit
    def power(matrix):
        v, last, rounds = wnp.ones((4,), dtype=np.float64), 0.0, 0
        while True:
            w = matrix @ v
            new = wnp.sqrt(wnp.sum(w * w))
            v, rounds = w / new, rounds + 1
            if abs(new - last) < 1e-9 or rounds >= 500:
                break
            last = new
        return new

    assert power(np.eye(4) + 0.1) == pytest.approx(1.4)

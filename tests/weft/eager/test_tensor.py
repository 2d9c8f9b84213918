"""Tensors with values compute what NumPy computes, with kernels compiled for all sizes."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import weft
import weft.numpy as wnp
from weft import Tensor, grad, value_and_grad
from weft.eager.kernels import COUNT

RNG = np.random.default_rng(0)


def drawn(*shape: int, dtype: str = "float32") -> Tensor:
    return Tensor(RNG.normal(size=shape).astype(dtype))


def first_example(x1, x2):
    return wnp.log(x1) + x1 * x2 - wnp.sin(x2)


def test_the_first_example_and_its_gradient():
    value, gradient = value_and_grad(first_example, (0, 1))(Tensor(2.0), Tensor(5.0))
    assert float(value) == pytest.approx(11.652071, abs=1e-6)
    assert [*map(float, gradient)] == [pytest.approx(5.5), pytest.approx(1.716338, abs=1e-6)]


def test_no_size_is_compiled_twice():
    def program(rows: int, columns: int) -> Tensor:
        x, w = drawn(rows, columns), drawn(columns, 3)
        y = wnp.softmax(wnp.tanh(x @ w) * 2.0 + x[:, :1], -1)
        return y.sum(0) - y.max()

    program(5, 4)
    before = COUNT.made
    for rows, columns in ((1, 9), (7, 2), (64, 33)):
        program(rows, columns)
    assert before == COUNT.made


def test_a_second_process_starts_warm(tmp_path):
    text = (
        "import sys, weft; from weft.eager.kernels import COUNT\n"
        "x = weft.Tensor([1.5, 2.5]); print((x * x + 1.0).tolist(), weft.grad(lambda x:"
        " (x * x).sum())(x).tolist(), COUNT.made, 'weft.compiler.driver.pipeline' in sys.modules)"
    )
    environment = {"WEFT_CACHE_DIR": str(tmp_path), "PYTHONPATH": ":".join(sys.path)}
    first, second = (
        subprocess.run(
            [sys.executable, "-c", text],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for _ in range(2)
    )
    assert first.split()[:2] == ["[3.25,", "7.25]"]
    assert second == first.replace("True", "False")


def broadcast_pairs():
    return hnp.mutually_broadcastable_shapes(num_shapes=2, max_dims=3, max_side=4, min_side=1)


BINARY = {
    "add": np.add, "subtract": np.subtract, "multiply": np.multiply, "maximum": np.maximum,
    "less": np.less, "equal": np.equal, "divide": np.divide,
}  # fmt: skip


@settings(deadline=None)
@given(broadcast_pairs(), st.sampled_from(sorted(BINARY)))
def test_operands_are_broadcast_as_in_numpy(shapes, name: str):
    rng = np.random.default_rng(1)
    x, y = (rng.normal(size=shape).astype(np.float32) for shape in shapes.input_shapes)
    got = getattr(wnp, name)(Tensor(x), Tensor(y))
    assert isinstance(got, Tensor)
    np.testing.assert_allclose(np.asarray(got), BINARY[name](x, y), rtol=1e-6)


@settings(deadline=None)
@given(st.data())
def test_gradients_of_broadcast_operands_have_their_shapes(data: st.DataObject):
    shapes = data.draw(broadcast_pairs()).input_shapes
    rng = np.random.default_rng(2)
    x, y = (Tensor(rng.normal(size=shape)) for shape in shapes)
    dx, dy = grad(lambda x, y: (x * y).sum(), (0, 1))(x, y)
    ones = np.ones(np.broadcast_shapes(*shapes))
    for got, other, shape in ((dx, y, shapes[0]), (dy, x, shapes[1])):
        whole = ones * np.asarray(other)
        front = whole.ndim - len(shape)
        axes = tuple(axis for axis in range(whole.ndim) if axis < front or shape[axis - front] == 1)
        assert got.shape == shape
        np.testing.assert_allclose(got, whole.sum(axes).reshape(shape), rtol=1e-12)


INDICES = [1, -1, slice(1, None), slice(None, None, -2), (0, 1), (..., 2), (None, 1), [2, 0, 2],
           (slice(None), [1, 1]), (..., [0, 3]), np.array([True, False, True])]  # fmt: skip


@pytest.mark.parametrize("index", INDICES, ids=str)
def test_parts_and_their_gradients(index):
    x = RNG.normal(size=(3, 4, 5))
    np.testing.assert_array_equal(Tensor(x)[index], x[index])
    found = grad(lambda x: (x[index] * x[index]).sum())(Tensor(x))
    expected = np.zeros_like(x)
    np.add.at(expected, index, 2 * x[index])
    np.testing.assert_allclose(found, expected)


def test_short_ways_are_numpys():
    x = RNG.normal(size=(3, 4)).astype(np.float32)
    t, mask = Tensor(x), Tensor(x > 0)
    pairs = [
        (wnp.concat([t, t], -1), np.concatenate([x, x], -1)),
        (wnp.concat([t, t], None), np.concatenate([x, x], None)),
        (wnp.stack([t, t], 2), np.stack([x, x], 2)),
        (wnp.stack([t, t], -2), np.stack([x, x], -2)),
        (wnp.clip(t, -0.5, 1), np.clip(x, -0.5, 1)),
        (wnp.var(t, 1, correction=1.0), np.var(x, 1, ddof=1)),
        (wnp.std(t, keepdims=True), np.std(x, keepdims=True)),
        (wnp.std(t, (0,), correction=1.0), np.std(x, 0, ddof=1)),
        (wnp.argmin(t), np.argmin(x)),
        (wnp.argmax(mask, 0), np.argmax(x > 0, 0)),
        (wnp.take(t, Tensor([1, 0]), -1), np.take(x, [1, 0], -1)),
        (wnp.einsum("ij, kj -> ik", t, t), np.einsum("ij,kj->ik", x, x)),
        (wnp.tensordot(t, Tensor(x[:, :2]), axes=((0,), (0,))), x.T @ x[:, :2]),
        (wnp.roll(t, (1, 7), (0, 1)), np.roll(x, (1, 7), (0, 1))),
        (grad(lambda x: (wnp.roll(x, 1, 1) * t).sum())(t), np.roll(x, -1, 1)),
        (wnp.linalg.diagonal(t, offset=2), np.diagonal(x, 2)),
        (wnp.linalg.diagonal(t, offset=-1), np.diagonal(x, -1)),
        (wnp.searchsorted(wnp.sort(t[0]), t), np.searchsorted(np.sort(x[0]), x)),
        (t[mask], x[x > 0]),
        (t[mask[:, 1]], x[x[:, 1] > 0]),
        (wnp.linspace(0.1, 0.7, 5), np.linspace(0.1, 0.7, 5)),
        (wnp.full_like(t, 2.5), np.full_like(x, 2.5)),
        (wnp.full_like(t, 2.5, dtype=np.int32), np.full_like(x, 2.5, np.int32)),
        (1.0 / (wnp.zeros_like(t) * -0.0), np.full_like(x, -np.inf)),
        (1.0 / (t * 0.0), np.copysign(np.float32(np.inf), x)),
    ]
    for got, expected in pairs:
        assert (got.dtype, got.shape) == (expected.dtype, expected.shape)
        np.testing.assert_allclose(got, expected, rtol=2e-6)


def test_python_takes_values():
    x = Tensor([[3, 4], [5, 6]])
    assert (len(x), x.shape, x.ndim, x.dtype) == (2, (2, 2), 2, np.int64)
    assert (int(x[0, 0]), float(x[0, 1]), bool(x[0, 0] > 2), x[1, 1].item()) == (3, 4.0, True, 6)
    assert [row.tolist() for row in x] == [[3, 4], [5, 6]]
    assert list(range(10))[x[0, 0]] == 3
    assert repr(Tensor(np.float32(1.5))) == "Tensor(1.5, dtype=float32)"
    assert f"{Tensor(1.25):.1f}" == "1.2"


def test_dtypes_are_promoted_as_in_traces():
    i, f = Tensor(np.arange(3)), Tensor(np.ones(3, np.float32))
    assert (i + f).dtype == np.float64
    assert (2 * f + 1.5).dtype == np.float32
    assert (i + 1).dtype == np.int64
    assert (i / 2).dtype == np.float64
    assert (i // 2).tolist() == [0, 0, 1]
    assert (f > 0).sum().item() == 3
    assert ((-i) % 3).tolist() == [0, 2, 1]
    assert (np.ones(3) * f).dtype == np.float64
    assert isinstance(np.ones(3) * f, Tensor)


def test_arrays_and_other_libraries_share_memory():
    x = drawn(3, 4)
    view = np.asarray(x)
    assert np.shares_memory(view, x.numpy())
    assert not view.flags.writeable
    source = np.arange(4.0)
    assert np.shares_memory(np.from_dlpack(Tensor.of(source)), source)
    assert np.shares_memory(wnp.from_dlpack(source).numpy(), source)
    copied = Tensor(source)
    source[0] = 9.0
    assert copied[0].item() == 0.0


def test_control_flow_of_python_is_differentiated():
    def power(x, limit: float):
        steps = 0
        while x < limit:
            x, steps = x * x, steps + 1
        return x * float(steps)

    assert float(grad(power)(Tensor(1.5), 20.0)) == pytest.approx(3 * 8 * 1.5**7)


def test_second_and_third_derivatives():
    def f(x):
        return wnp.sin(x) * x * x

    x = 0.7
    second, third = grad(grad(f)), grad(grad(grad(f)))
    assert float(second(Tensor(x))) == pytest.approx(
        2 * np.sin(x) + 4 * x * np.cos(x) - x * x * np.sin(x)
    )
    assert float(third(Tensor(x))) == pytest.approx(
        6 * np.cos(x) - 6 * x * np.sin(x) - x * x * np.cos(x)
    )


def test_an_inner_gradient_is_part_of_the_outer():
    def f(x, y):
        return (x * grad(lambda z: (z * z * y).sum())(x)).sum()

    dx, dy = grad(f, (0, 1))(Tensor(3.0), Tensor(5.0))
    assert (float(dx), float(dy)) == (pytest.approx(60.0), pytest.approx(18.0))


def test_trees_have_gradients_like_them():
    parameters = {"hidden": [Tensor(2.0), Tensor(3.0)], "out": Tensor(4.0)}

    def f(tree):
        return tree["hidden"][0] * tree["hidden"][1] * tree["out"]

    slopes = grad(f)(parameters)
    assert [*map(float, slopes["hidden"])] == [12.0, 8.0]
    assert float(slopes["out"]) == 6.0


@pytest.mark.parametrize(
    ("act", "kind", "message"),
    [
        (lambda x: x + Tensor(np.ones(5)), weft.WeftError, "dims are equal or 1, got"),
        (lambda x: x @ x, weft.WeftError, "inner dims are equal"),
        (lambda x: x.__setitem__(0, [1.0] * 9), weft.WeftError, "elements that fit"),
        (lambda x: x[7], IndexError, "out of bounds"),
        (lambda x: x[[7]], IndexError, "index 7 is out of bounds"),
        (lambda x: grad(lambda x: x * x)(x), weft.WeftError, "one float"),
        (lambda x: grad(wnp.sum)(x.astype(np.int32)), weft.WeftError, "arguments of floats"),
        (lambda x: x.reshape(5), weft.WeftError, "reshape"),
        (lambda x: Tensor("text"), weft.WeftError, "requires numbers"),
        (lambda x: wnp.tensordot(x, x[:1], axes=1), weft.WeftError, "inner dims are equal"),
        (lambda x: x[Tensor([True, False])], IndexError, "boolean index"),
        (lambda x: weft.nn.LayerNorm(4)(x.astype(np.float64)), weft.WeftError, "one element type"),
    ],
)
def test_errors_name_the_line(act, kind: type[Exception], message: str):
    with pytest.raises(kind, match=rf"(?s)test_tensor\.py:\d+: .*{message}"):
        act(drawn(3, 4))

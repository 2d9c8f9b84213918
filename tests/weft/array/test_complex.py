"""Complex arrays and Fourier transforms in every mode. Graphs of traces and of source are evaluated
by the operators' references; native code gets one program of each, and a sample of the functions on
values: `WHOLE_COMPLEX=1 pytest tests/weft/array/test_complex.py` compiles all of them.
"""

import os

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from weft import Spec, Tensor
from weft.dialects.graph.core.evaluate import evaluate_block
from weft.source.interpret import read_function
from weft.tracing.trace import record

WHOLE = "WHOLE_COMPLEX" in os.environ

RNG = np.random.default_rng(3)
X = np.array([1.5, 2, -3, 0.5])
Z = RNG.normal(size=5) + 1j * RNG.normal(size=5)
C = np.array([1 + 1j, 2.0])


def writes(np, x):
    z = x.astype(complex)
    z[0] = 9
    z.real[1] = 4
    part = z.real
    part *= 2
    view = z[1:3]
    view += 1j
    square = z.reshape(2, 2)
    square[1, 1] = -1j
    z.imag = x
    other = np.conj(z)
    other[other.imag > 2.5] = 0
    return x, z, other, square.T


def functions(np, x):
    z, w = x + 1j * x[::-1], np.exp(1j * x)
    return (
        z * w, z / w, z**2, abs(z), z.std(0), z.prod(), z @ w, np.where(x > 1, z, 0), z == w,
        np.sort_complex(z), np.kron(z, w), np.linalg.norm(z), np.stack([z, x]), np.full(2, 1j),
        np.sum(z, where=x > 0), np.trapezoid(z),
    )  # fmt: skip


def more_functions(np, x):
    z, w = x + 1j * x[::-1], np.exp(1j * x)
    return (
        z**2.5, 2.0**z, z.var(), z.mean(), np.vdot(z, w), np.einsum("i,i->", z, w),
        np.convolve(z, w), np.angle(z, deg=True), np.log10(z), np.maximum(z, w), np.round(z, 1),
        np.linalg.inv(np.outer(z, z) + np.eye(4)), np.sign(z),
    )  # fmt: skip


def same(got, wanted):
    assert len(got) == len(wanted)
    for each, right in zip(got, wanted, strict=True):
        assert np.asarray(each).dtype == right.dtype
        np.testing.assert_allclose(np.asarray(each), right, rtol=1e-9, atol=1e-12)


def of_graph(function, *arrays):
    """What a trace gives by the references, complex leaves as NumPy's."""
    traced = record(function, *arrays, whole=True)
    block = traced.module.body.block.first_op.body.block
    inputs = [x.view(float).reshape(*x.shape, 2) if x.dtype.kind == "c" else x for x in arrays]
    found = evaluate_block(block, inputs, {}, traced.recording.weights)
    pairs = zip(found, traced.are_complex, strict=True)
    return [np.asarray(x)[..., 0] + 1j * np.asarray(x)[..., 1] if c else x for x, c in pairs]


def sampled(function, array):
    """What a function gives for an array: on values, or by the references."""
    if not WHOLE:
        return of_graph(lambda x: function(x), array)
    found = function(Tensor(array))
    return [np.asarray(each) for each in (found if isinstance(found, tuple) else (found,))]


@pytest.mark.parametrize("program", [writes, functions, more_functions])
def test_programs_are_numpys_on_values_and_in_traces(program):
    wanted = [np.asarray(each) for each in program(np, X.copy())]
    if WHOLE or program is not more_functions:
        same(program(wnp, Tensor(X)), wanted)
    arrays = () if program is writes else (X,)
    traced = (lambda x: program(wnp, x)) if arrays else (lambda: program(wnp, wnp.asarray(X)))
    if arrays:
        same(of_graph(traced, *arrays), wanted)
    else:
        same(traced(), wanted)


def in_source(x, z):
    total, rows = 0j, np.zeros((2, 5), dtype=complex)
    for i in range(40):
        total = total * 0.1 + x[i % 4] * 1j
    rows[0] = z.T.conj()
    rows[1, 1:] += C[0]
    if x[0] > 1:
        rows = rows * 1j
    elif x[1] > 5:
        rows = rows + 1
    rows *= 2j
    return rows, total, [abs(c) for c in z], len(z), C * x[:2], np.fft.ifft(np.fft.fft(z)), 3j


def test_source_mode_carries_complex_numbers_through_loops_and_branches():
    found, wanted = weft.jit(in_source)(X, Z), in_source(X, Z)
    assert found[3] == 5
    assert found[6] == 3j
    for got, right in zip(found, wanted, strict=True):
        np.testing.assert_allclose(got, right, rtol=1e-12)
    tensors = weft.jit(in_source)(Tensor(X), Tensor(Z))
    np.testing.assert_allclose(tensors[0], wanted[0])
    assert type(tensors[0]) is type(Tensor(Z))


def test_artifacts_have_pairs_and_traces_take_complex_arrays():
    run = weft.trace(lambda z, w: {"product": z * w["x"], "size": abs(z)}, Z, {"x": X[:1]})
    assert [str(spec.dims) for spec in run.inputs] == ["(5, 2)", "(1,)"]
    found = run(Z, {"x": X[:1]})
    np.testing.assert_allclose(found["product"], Z * X[0])
    assert found["product"].dtype == np.complex128
    np.testing.assert_allclose(found["size"], abs(Z))
    program = read_function(lambda z: z * 2, [Spec("complex64", ("n",))], {})
    assert "%z: !graph.tensor<[n, 2], f32>" in str(program.module)


@pytest.mark.parametrize("size", [1, 2, 7, 12, 34, 600, 1021])
def test_transforms_of_any_size(size):
    x = RNG.normal(size=(2, size))

    def transforms(np, x):
        z = x + 1j * x[::-1]
        yield from (np.fft.fft(z), np.fft.ifft(z, norm="ortho"), np.fft.rfft(x, norm="forward"))
        yield np.fft.irfft(np.fft.rfft(x), size)

    same(of_graph(lambda x: tuple(transforms(wnp, x)), x), list(transforms(np, x)))


def test_transforms_of_sizes_that_a_call_names():
    h = record(lambda x: wnp.fft.fft(x, norm="ortho"), Spec("float64", ("n",)), whole=True)
    block = h.module.body.block.first_op.body.block
    (found,) = evaluate_block(block, [X], {}, h.recording.weights)
    np.testing.assert_allclose(found[..., 0] + 1j * found[..., 1], np.fft.fft(X, norm="ortho"))


def test_derivatives_and_batches():
    def loss(np, z):
        return (abs(np.fft.fft(z)) ** 3).sum() + np.exp(z * 1j).real.sum()

    slopes = np.asarray(weft.grad(lambda z: loss(wnp, z))(Tensor(Z)))
    step = 1e-6
    for at in range(5):
        for turn in (1, 1j):
            move = step * turn * (np.arange(5) == at)
            wanted = (loss(np, Z + move) - loss(np, Z - move)) / (2 * step)
            got = slopes[at].real if turn == 1 else slopes[at].imag
            np.testing.assert_allclose(got, wanted, rtol=1e-6)
    batch = np.stack([Z, Z * 1j])
    gradients = weft.vmap(weft.grad(lambda z: loss(wnp, z)))(Tensor(batch))
    np.testing.assert_allclose(np.asarray(gradients)[0], slopes)


def test_sizes_of_numbers_whose_parts_are_equal_have_their_slopes():
    tied = Tensor(np.array([1 + 1j, -2 + 2j, 0j]))
    slopes = np.asarray(weft.grad(lambda z: abs(z).sum())(tied))
    np.testing.assert_allclose(slopes, np.array([1 + 1j, -1 + 1j, 0]) / np.sqrt(2))
    ones = Tensor(np.ones(2))
    for slope in weft.grad(lambda x, y: wnp.hypot(x, y).sum(), (0, 1))(ones, ones):
        np.testing.assert_allclose(slope, np.sqrt([0.5, 0.5]))


A = RNG.normal(size=(4, 4)) + 1j * RNG.normal(size=(4, 4))
HERMITIAN = A + A.conj().T


@pytest.mark.parametrize("matrix", [HERMITIAN, np.kron(np.eye(2), [[0, -1j], [1j, 0]])])
def test_hermitian_matrices(matrix):
    values, vectors = sampled(wnp.linalg.eigh, matrix)
    np.testing.assert_allclose(values, np.linalg.eigvalsh(matrix), atol=1e-12)
    np.testing.assert_allclose(matrix @ vectors, vectors * values, atol=1e-12)
    np.testing.assert_allclose(vectors.conj().T @ vectors, np.eye(4), atol=1e-12)


REAL = np.diag([-3.0, -2, -1]) + np.diag([3.0, 2], -1)


@pytest.mark.parametrize("matrix", [
    A, np.pad(REAL, (0, 1)), np.eye(4)[[1, 2, 3, 0]], *((A.real, REAL) if WHOLE else ()),
])  # fmt: skip
def test_eigenvalues_of_any_matrix(matrix):
    values, vectors = (np.asarray(each) for each in wnp.linalg.eig(Tensor(matrix)))
    np.testing.assert_allclose(matrix @ vectors, vectors * values, atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=0), 1)
    own = np.linalg.eigvals(matrix)
    assert all(np.abs(values - each).min() < 1e-12 for each in own)


def test_factors_of_complex_matrices():
    q, r = sampled(wnp.linalg.qr, A)
    np.testing.assert_allclose(q @ r, A, atol=1e-12)
    np.testing.assert_allclose(q.conj().T @ q, np.eye(4), atol=1e-12)
    positive = A @ A.conj().T
    np.testing.assert_allclose(wnp.linalg.cholesky(Tensor(positive)), np.linalg.cholesky(positive))


@pytest.mark.parametrize(("call", "rule"), [
    (lambda z: wnp.floor(z), "floor requires real numbers, got complex128"),
    (lambda z: wnp.fft.rfft(z), "rfft requires real numbers"),
    (lambda z: z % 2, "% requires real numbers"),
    (lambda z: float(z[0]), "float requires a real number"),
    (lambda z: weft.grad(lambda z: z.sum())(z), "a gradient requires one float"),
    (lambda z: wnp.fft.fft(z, 0), "at least one element"),
])  # fmt: skip
def test_what_complex_numbers_lack_is_refused_with_the_line(call, rule):
    with pytest.raises((weft.WeftError, TypeError), match=rf"test_complex.py:\d+: .*{rule}"):
        call(Tensor(Z))


def test_a_conversion_to_reals_warns_as_numpys_does():
    with pytest.warns(np.exceptions.ComplexWarning, match="discards the imaginary part"):
        assert Tensor(Z).astype(float).dtype == np.float64

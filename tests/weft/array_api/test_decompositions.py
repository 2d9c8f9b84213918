"""Eigenvalues and singular values, and what is made of them, against NumPy; evaluated as graphs."""

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from weft.autodiff.gradient_check import check_grad
from weft.dialects.errors import WeftError
from weft.dialects.graph.core.evaluate import evaluate_block
from weft.tracing.trace import record
from weft.trees import leaves_of

RNG = np.random.default_rng(0)
A, M = RNG.normal(size=(4, 3)), RNG.normal(size=(4, 3))
linalg = wnp.linalg


def evaluated(function, *arguments):
    graph = record(function, *arguments).recording
    return evaluate_block(graph.block, leaves_of(arguments), {}, graph.weights)


def complex_ones(*shape):
    return RNG.normal(size=shape) + 1j * RNG.normal(size=shape)


COMPLEX = complex_ones(3, 2)


def evaluated_of_complex(function, a):
    """What the graph of a function of a complex matrix gives."""
    trace = record(function, a, whole=True)
    pairs = np.stack([a.real, a.imag], -1)
    found = evaluate_block(trace.recording.block, [pairs], {}, trace.recording.weights)
    return [
        each[..., 0] + 1j * each[..., 1] if is_complex else each
        for each, is_complex in zip(found, trace.are_complex, strict=True)
    ]


RANK_1 = np.outer(COMPLEX[:, 0], COMPLEX[:2, 1])


@pytest.mark.parametrize("a", [
    COMPLEX.T, np.linalg.qr(complex_ones(3, 3))[0], RANK_1, np.kron(np.eye(2), [[0, -1j], [1j, 0]]),
], ids=["wide", "unitary", "rank 1", "equal"])  # fmt: skip
def test_singular_vectors_of_complex_matrices(a):
    u, s, vh = evaluated_of_complex(linalg.svd, a)
    np.testing.assert_allclose(s, np.linalg.svdvals(a), atol=1e-12)
    np.testing.assert_allclose((u[:, : len(s)] * s) @ vh[: len(s)], a, atol=1e-12)
    for square in (u, vh):
        np.testing.assert_allclose(square @ square.conj().T, np.eye(len(square)), atol=1e-12)


def test_complex_matrices_of_lower_rank():
    rank, inverse = evaluated_of_complex(
        lambda a: (linalg.matrix_rank(a), linalg.pinv(a, 1e-12)), RANK_1
    )
    assert rank == 1
    np.testing.assert_allclose(inverse, np.linalg.pinv(RANK_1, 1e-12), atol=1e-11)


def test_least_squares_and_factors_of_complex_matrices():
    b = complex_ones(3)
    x, residuals, _, _, q, r = evaluated_of_complex(
        lambda a: (*linalg.lstsq(a, b), *linalg.qr(a)), COMPLEX
    )
    wanted = np.linalg.lstsq(COMPLEX, b)
    np.testing.assert_allclose(x, wanted[0], atol=1e-12)
    np.testing.assert_allclose(residuals, wanted[1])
    for found, own in zip((q, r), np.linalg.qr(COMPLEX), strict=True):
        np.testing.assert_allclose(found, own, atol=1e-12)


def of_complex(a):
    """What depends on products of vectors, whose angles are free."""
    u, s, vh = linalg.svd(a, False)
    products = (u @ vh).real * M[:3, :2], linalg.pinv(a).imag * M.T[:2, :3]
    return (s**3).sum() + products[0].sum() + products[1].sum()


def test_derivatives_of_complex_decompositions():
    a, direction = COMPLEX, complex_ones(3, 2)
    (slope,) = evaluated_of_complex(weft.grad(of_complex), a)
    ends = [evaluated_of_complex(of_complex, a + step * direction)[0] for step in (1e-6, -1e-6)]
    along = (slope.real * direction.real + slope.imag * direction.imag).sum()
    np.testing.assert_allclose(along, (ends[0] - ends[1]) / 2e-6, rtol=1e-7)


STACK = RNG.normal(size=(2, 3, 3, 2))


def test_stacks_of_matrices():
    given = [
        linalg.svdvals, linalg.pinv, linalg.matrix_rank, linalg.cond,
        lambda a: abs(linalg.qr(a)[1]), lambda a: linalg.eigvalsh(a[..., :2, :]),
        lambda a: linalg.pinv(a, rtol=weft.Tensor([[0.1] * 3, [0.5] * 3])),
    ]  # fmt: skip
    found = evaluated(lambda a: tuple(each(a) for each in given), STACK)
    own = np.linalg
    wanted = [
        own.svdvals(STACK), own.pinv(STACK), own.matrix_rank(STACK), own.cond(STACK),
        abs(own.qr(STACK)[1]), own.eigvalsh(STACK[..., :2, :]),
        own.pinv(STACK, rtol=np.array([[0.1] * 3, [0.5] * 3])),
    ]  # fmt: skip
    for got, right in zip(found, wanted, strict=True):
        np.testing.assert_allclose(got, right, atol=1e-12)


@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (3, 0), (2, 0, 0), (0, 2, 2)], ids=str)
@pytest.mark.parametrize("name", ["svd", "qr", "eigh", "pinv", "inv", "slogdet", "matrix_rank"])
def test_matrices_without_elements(name: str, shape):
    a = np.zeros(shape)
    try:
        wanted = getattr(np.linalg, name)(a)
    except np.linalg.LinAlgError as error:
        with pytest.raises(np.linalg.LinAlgError, match=str(error)[:20]):
            getattr(linalg, name)(weft.Tensor(a))
        return
    found = getattr(linalg, name)(weft.Tensor(a))
    for got, right in zip(leaves_of(found), leaves_of(wanted), strict=True):
        assert (got.shape, got.dtype) == (np.shape(right), np.asarray(right).dtype)


@pytest.mark.parametrize("shape", [(1, 1), (4, 4), (5, 3), (3, 5)], ids=str)
def test_singular_values_and_vectors(shape):
    a = RNG.normal(size=shape)
    u, s, vh = evaluated(linalg.svd, a)
    np.testing.assert_allclose(s, np.linalg.svdvals(a))
    count = len(s)
    np.testing.assert_allclose((u[:, :count] * s) @ vh[:count], a, atol=1e-12)
    np.testing.assert_allclose(u.T @ u, np.eye(shape[0]), atol=1e-12)
    np.testing.assert_allclose(vh @ vh.T, np.eye(shape[1]), atol=1e-12)


def test_matrices_of_lower_rank():
    a = np.outer(A[:, 0], M[:, 0]) + np.outer(A[:, 1], M[:, 1])
    u, s, vh = evaluated(lambda a: linalg.svd(a, False), a)
    np.testing.assert_allclose(s, np.linalg.svdvals(a), atol=1e-12)
    np.testing.assert_allclose(u.T @ u, np.eye(4), atol=1e-12)
    rank, inverse, x = evaluated(
        lambda a: (linalg.matrix_rank(a), linalg.pinv(a, 1e-12), linalg.lstsq(a, a[:, 0])[0]), a
    )
    assert rank == 2
    np.testing.assert_allclose(inverse, np.linalg.pinv(a, 1e-12), atol=1e-10)
    np.testing.assert_allclose(x, np.linalg.lstsq(a, a[:, 0])[0], atol=1e-10)


def test_eigenvalues_of_more_rows():
    a = RNG.normal(size=(11, 11))
    a = a + a.T
    values, vectors = evaluated(linalg.eigh, a)
    np.testing.assert_allclose(values, np.linalg.eigvalsh(a), atol=1e-11)
    np.testing.assert_allclose((vectors * values) @ vectors.T, a, atol=1e-11)
    with pytest.raises(WeftError, match=r"test_decompositions.py:\d+: eigh requires a square"):
        evaluated(linalg.eigh, a[:3])


def test_eigenvalues_of_equal_diagonals():
    links = np.roll(np.eye(6), 1, 0) + np.roll(np.eye(6), -1, 0)
    (values, _) = evaluated(linalg.eigh, np.eye(6) - links / 2)
    np.testing.assert_allclose(values, np.linalg.eigvalsh(np.eye(6) - links / 2), atol=1e-12)


def of_symmetric(a):
    values, vectors = linalg.eigh(a + a.T)
    return (values**3).sum() + (abs(vectors) * M[:2, :2]).sum()


def of_rectangular(a):
    u, s, vh = linalg.svd(a, False)
    terms = (s**3).sum(), (abs(u) * M[:3, :2]).sum(), (abs(vh) * M[:2, :2]).sum()
    inverse, factor = linalg.pinv(a), abs(linalg.qr(a)[0])
    return sum(terms) + (inverse * M[:2]).sum() + (factor * M[:3, :2]).sum()


def test_derivatives():
    check_grad(of_symmetric, A[:2, :2], directions=1)
    check_grad(of_rectangular, A[:3, :2], directions=1)


def test_the_derivative_of_an_inverse_of_equal_singular_values():
    slope = evaluated(weft.grad(lambda a: linalg.pinv(a).sum()), np.eye(2))[0]
    np.testing.assert_allclose(slope, -np.ones((2, 2)))


def test_dtypes_stay():
    a = A[:3].astype(np.float32)
    found = evaluated(lambda a: (*linalg.svd(a), *linalg.eigh(a), linalg.pinv(a), linalg.qr(a)), a)
    assert {each.dtype.name for each in found} == {"float32"}


def test_a_matrix_for_each_sample():
    stack = RNG.normal(size=(3, 3, 2))
    (found,) = evaluated(weft.vmap(linalg.svdvals), stack)
    np.testing.assert_allclose(found, np.linalg.svdvals(stack))

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

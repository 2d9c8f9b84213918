"""Programs that go from element to element are one kernel for each nest of loops, and what Python
makes of them.
"""

import numpy as np
import pytest

import weft

NUMBERS = np.random.default_rng(5)


def sorted_by_swaps(x):
    x = x.copy()
    for i in range(x.shape[0]):
        for j in range(x.shape[0] - 1 - i):
            if x[j] > x[j + 1]:
                kept = x[j]
                x[j] = x[j + 1]
                x[j + 1] = kept
    return x


def product(a, b):
    c = np.zeros((a.shape[0], b.shape[1]))
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            for k in range(a.shape[1]):
                c[i, j] += a[i, k] * b[k, j]
    return c


def shortest_paths(d):
    d = d.copy()
    for k in range(d.shape[0]):
        for i in range(d.shape[0]):
            for j in range(d.shape[0]):
                d[i, j] = min(d[i, j], d[i, k] + d[k, j])
    return d


def knapsack(weights, values):
    best = np.zeros(120, np.int64)
    for i in range(weights.shape[0]):
        for j in range(119, -1, -1):
            if weights[i] <= j:
                best[j] = max(best[j], best[j - weights[i]] + values[i])
    return best


def factor(a):
    lower = np.zeros_like(a)
    for i in range(a.shape[0]):
        for j in range(i + 1):
            rest = a[i, j]
            for k in range(j):
                rest -= lower[i, k] * lower[j, k]
            if i == j:
                lower[i, j] = np.sqrt(rest)
            else:
                lower[i, j] = rest / lower[j, j]
    return lower


def counted(levels):
    counts = np.zeros(80, np.int64)
    for i in range(levels.shape[0]):
        counts[levels[i]] += 1
    return counts


def likeliest(emission, transition):
    """Viterbi's algorithm."""
    steps, states = emission.shape
    score, came = np.zeros((steps, states)), np.zeros((steps, states), np.int64)
    for j in range(states):
        score[0, j] = emission[0, j]
    for i in range(1, steps):
        for j in range(states):
            best, number = -np.inf, 0
            for k in range(states):
                value = score[i - 1, k] + transition[k, j]
                if value > best:
                    best, number = value, k
            score[i, j] = best + emission[i, j]
            came[i, j] = number
    return score, came


def eliminated(a, b):
    """A system's solution, rows changing places."""
    a, b, n = a.copy(), b.copy(), b.shape[0]
    for c in range(n):
        pivot = c
        for r in range(c + 1, n):
            if abs(a[r, c]) > abs(a[pivot, c]):
                pivot = r
        for k in range(n):
            kept = a[c, k]
            a[c, k] = a[pivot, k]
            a[pivot, k] = kept
        kept = b[c]
        b[c] = b[pivot]
        b[pivot] = kept
        for r in range(c + 1, n):
            share = a[r, c] / a[c, c]
            for k in range(c, n):
                a[r, k] -= share * a[c, k]
            b[r] -= share * b[c]
    x = np.zeros(n)
    for r in range(n - 1, -1, -1):
        rest = b[r]
        for k in range(r + 1, n):
            rest -= a[r, k] * x[k]
        x[r] = rest / a[r, r]
    return x


def filtered(x):
    y, low, high = np.zeros_like(x), 0.0, 1.0
    for i in range(x.shape[0]):
        low, high = high, 0.5 * low + x[i]
        y[i] = low
    return y, high


SQUARE = NUMBERS.normal(size=(20, 20))
PROGRAMS = {
    sorted_by_swaps: [NUMBERS.normal(size=70)],
    product: [NUMBERS.normal(size=(24, 20)), NUMBERS.normal(size=(20, 33))],
    shortest_paths: [NUMBERS.uniform(1, 9, size=(24, 24))],
    knapsack: [NUMBERS.integers(1, 30, 32), NUMBERS.integers(1, 90, 32)],
    factor: [SQUARE @ SQUARE.T + np.eye(20)],
    counted: [NUMBERS.integers(-80, 80, 300)],
    likeliest: [NUMBERS.normal(size=(40, 20)), NUMBERS.normal(size=(20, 20))],
    eliminated: [SQUARE, NUMBERS.normal(size=20)],
    filtered: [NUMBERS.normal(size=90)],
}


@pytest.mark.parametrize("function", PROGRAMS, ids=lambda each: each.__name__)
def test_loops_are_kernels(function):
    arguments = PROGRAMS[function]
    compiled = weft.jit(function)
    got, wanted = compiled(*arguments), function(*arguments)
    several = isinstance(wanted, tuple)
    for value, want in zip(got if several else [got], wanted if several else [wanted], strict=True):
        np.testing.assert_allclose(value, want, rtol=1e-9, atol=1e-12)
    metadata = compiled.compilations[0].executable.metadata
    assert not metadata["repeats"], "no loop is the program's"
    assert len(metadata["kernels"]) <= 6

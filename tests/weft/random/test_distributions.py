"""Distributions against SciPy's, by moments and the test of Kolmogorov and Smirnov, with fixed
keys.
"""

import numpy as np
import pytest
from scipy import stats

import weft
import weft.numpy as wnp
import weft.random as wr
from weft.dialects.graph.core.evaluate import evaluate_block
from weft.tracing.trace import record

COUNT = 20_000
KEY = wr.key(3)
N = (COUNT,)


def drawn(function, *arguments):
    """What a function of the key gives, as a graph that is evaluated."""
    recorded = record(function, KEY, *arguments)
    graph = recorded.recording
    found = evaluate_block(graph.block, [KEY.numpy(), *arguments], {}, graph.weights)
    return found[0] if len(found) == 1 else found


CONTINUOUS = {
    "uniform": (lambda key: wr.uniform(key, N, low=-1.0, high=3.0), stats.uniform(-1, 4)),
    "normal": (lambda key: wr.normal(key, N), stats.norm()),
    "exponential": (lambda key: wr.exponential(key, N), stats.expon()),
    "gumbel": (lambda key: wr.gumbel(key, N), stats.gumbel_r()),
    "laplace": (lambda key: wr.laplace(key, N), stats.laplace()),
    "logistic": (lambda key: wr.logistic(key, N), stats.logistic()),
    "cauchy": (lambda key: wr.cauchy(key, N), stats.cauchy()),
    "rayleigh": (lambda key: wr.rayleigh(key, N), stats.rayleigh()),
    "pareto": (lambda key: wr.pareto(key, 3.0, N), stats.pareto(3)),
    "weibull": (lambda key: wr.weibull(key, 2.0, 1.5, N), stats.weibull_min(1.5, scale=2)),
    "lognormal": (lambda key: wr.lognormal(key, 0.5, N), stats.lognorm(0.5)),
    "truncated_normal": (lambda key: wr.truncated_normal(key, -0.5, 2.0, N),
                         stats.truncnorm(-0.5, 2)),
    "tail": (lambda key: wr.truncated_normal(key, 4.0, 9.0, N), stats.truncnorm(4, 9)),
    "gamma": (lambda key: wr.gamma(key, 2.5, N), stats.gamma(2.5)),
    "gamma_below_1": (lambda key: wr.gamma(key, 0.3, N, np.float64), stats.gamma(0.3)),
    "beta": (lambda key: wr.beta(key, 2.0, 0.7, N), stats.beta(2, 0.7)),
    "chisquare": (lambda key: wr.chisquare(key, 3.0, N), stats.chi2(3)),
    "student_t": (lambda key: wr.student_t(key, 4.0, N), stats.t(4)),
    "dirichlet": (lambda key: wr.dirichlet(key, np.array([1.0, 2.0, 3.0]), N)[:, 1],
                  stats.beta(2, 4)),
}  # fmt: skip

DISCRETE = {
    "randint": (lambda key: wr.randint(key, -3, 5, N), stats.randint(-3, 5)),
    "bernoulli": (lambda key: wr.bernoulli(key, 0.3, N).astype(np.int64), stats.bernoulli(0.3)),
    "geometric": (lambda key: wr.geometric(key, 0.3, N), stats.geom(0.3)),
    "poisson": (lambda key: wr.poisson(key, 3.0, N), stats.poisson(3)),
    "poisson_of_many": (lambda key: wr.poisson(key, 50.0, N), stats.poisson(50)),
    "choice": (lambda key: wr.choice(key, 6, N), stats.randint(0, 6)),
    "rademacher": (lambda key: (wr.rademacher(key, N) + 1) / 2, stats.bernoulli(0.5)),
}


@pytest.mark.parametrize("name", CONTINUOUS)
def test_continuous_distributions(name: str):
    draw, expected = CONTINUOUS[name]
    found = drawn(draw).astype(np.float64)
    assert found.shape == N
    assert stats.kstest(found, expected.cdf).pvalue > 1e-3
    if np.isfinite(expected.var()):
        error = 4 * np.sqrt(expected.var() / COUNT)
        assert abs(found.mean() - expected.mean()) < error


@pytest.mark.parametrize("name", DISCRETE)
def test_discrete_distributions(name: str):
    draw, expected = DISCRETE[name]
    found = drawn(draw)
    low, high = (int(each) for each in expected.ppf([0.001, 0.999]))
    classes = np.arange(low, high + 1)
    counts = np.array([(found == each).sum() for each in classes])
    wanted = expected.pmf(classes) * COUNT
    kept = wanted > 5
    rest = COUNT - counts[kept].sum(), COUNT - wanted[kept].sum()
    statistic = ((counts - wanted)[kept] ** 2 / wanted[kept]).sum()
    statistic += (rest[0] - rest[1]) ** 2 / rest[1] if rest[1] > 5 else 0
    assert stats.chi2(max(1, kept.sum() - 1)).sf(statistic) > 1e-3


def test_classes_by_their_logits():
    probabilities = np.array([0.1, 0.6, 0.3])
    draws = (
        lambda key, p: wr.categorical(key, wnp.log(p), shape=N),
        lambda key, p: wr.choice(key, 3, N, p=p),
    )
    for draw in draws:
        counts = np.bincount(drawn(draw, probabilities), minlength=3)
        assert stats.chisquare(counts, probabilities * COUNT).pvalue > 1e-3
    counts = drawn(lambda key, p: wr.multinomial(key, COUNT, p), probabilities)
    assert counts.sum() == COUNT
    assert stats.chisquare(counts, probabilities * COUNT).pvalue > 1e-3
    logits = np.log([[0.9, 1e-9], [0.1, 1.0]])
    columns = drawn(lambda key, x: wr.categorical(key, x, axis=0), logits)
    assert columns.shape == (2,)
    assert columns[1] == 1


def test_vectors_of_a_covariance():
    covariance = np.array([[2.0, 0.6], [0.6, 1.0]])
    found = drawn(
        lambda key, mean, c: wr.multivariate_normal(key, mean, c, N, np.float64),
        np.array([1.0, -1.0]),
        covariance,
    )
    np.testing.assert_allclose(found.mean(0), [1, -1], atol=0.05)
    np.testing.assert_allclose(np.cov(found.T), covariance, atol=0.06)


def test_permutations_and_choices_without_replacement():
    x, p = np.arange(20.0).reshape(10, 2), np.array([0.5, 0.5, 0.0, 0.0])

    def several(key, x, p):
        firsts = weft.vmap(lambda key: wr.permutation(key, 4)[0])(wr.split(key, 200))
        return (
            wr.permutation(key, 100), wr.permutation(key, x), firsts,
            wr.choice(key, 10, (4,), replace=False), wr.choice(key, 4, (2,), replace=False, p=p),
        )  # fmt: skip

    order, rows, firsts, chosen, likely = drawn(several, x, p)
    assert sorted(order) == list(range(100))
    assert (order != np.arange(100)).any()
    assert sorted(map(tuple, rows)) == sorted(map(tuple, x))
    assert stats.chisquare(np.bincount(firsts, minlength=4)).pvalue > 1e-3
    assert len({*chosen}) == 4
    assert sorted(likely) == [0, 1]
    with pytest.raises(ValueError, match="at most 3, got 4"):
        wr.choice(KEY, 3, (4,), replace=False)


def test_keys_give_numbers_of_their_own():
    def several(key):
        return tuple(wr.uniform(each, N) for each in (key, *wr.split(key)))

    numbers = drawn(several)
    for x, y in ((0, 1), (0, 2), (1, 2)):
        assert abs(np.corrcoef(numbers[x], numbers[y])[0, 1]) < 0.03


def test_the_same_bits_eager_and_compiled_for_any_number_of_threads():
    def several(key):
        return wr.randint(key, -9, 9, (9000,)), wr.normal(key, (9000,))

    one, two = (weft.jit(several, threads=threads)(KEY) for threads in (1, 2))
    for x, y in zip(one, two, strict=True):
        np.testing.assert_array_equal(x, y)
    np.testing.assert_array_equal(drawn(several)[0], one[0])
    np.testing.assert_array_equal(wr.normal(KEY, (9000,)), one[1])


def test_derivatives_go_through_parameters():
    def mean(key, scale):
        return wr.weibull(key, scale, 2.0, (1000,), np.float64).mean()

    slope = drawn(lambda key, scale: weft.grad(lambda x: mean(key, x))(scale), np.float64(2))
    np.testing.assert_allclose(slope, drawn(lambda key: mean(key, 1.0)), rtol=1e-9)


def test_an_empty_range():
    with pytest.raises(ValueError, match="low < high, got 3 and 3"):
        wr.randint(KEY, 3, 3)

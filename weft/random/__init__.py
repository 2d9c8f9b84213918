"""Random numbers as functions of a key: the same key gives the same numbers, eager or compiled, for
any number of threads.
"""

from weft.random.continuous import (
    beta,
    cauchy,
    chisquare,
    dirichlet,
    exponential,
    gamma,
    gumbel,
    laplace,
    logistic,
    lognormal,
    multivariate_normal,
    pareto,
    rayleigh,
    student_t,
    truncated_normal,
    weibull,
)
from weft.random.discrete import (
    bernoulli,
    categorical,
    choice,
    geometric,
    multinomial,
    permutation,
    poisson,
    rademacher,
)
from weft.random.generator import fold_in, kept, key, normal, randint, split, uniform

__all__ = [
    "bernoulli", "beta", "categorical", "cauchy", "chisquare", "choice", "dirichlet",
    "exponential", "fold_in", "gamma", "geometric", "gumbel", "kept", "key", "laplace", "logistic",
    "lognormal", "multinomial", "multivariate_normal", "normal", "pareto", "permutation", "poisson",
    "rademacher", "randint", "rayleigh", "split", "student_t", "truncated_normal", "uniform",
    "weibull",
]  # fmt: skip

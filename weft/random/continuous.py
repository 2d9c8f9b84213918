"""Continuous distributions. Most are quantiles (inverses of distribution functions) of uniform
numbers, so derivatives go through their parameters; those of `gamma` come by rejection.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

import weft.numpy as wnp
from weft.array.composites import composite, leader
from weft.random.generator import Shape, described, folded, normal, normal_of, open_uniform_of
from weft.tracing.control import while_loop

Distribution = Callable[..., Any]

_QUANTILES: Final[Mapping[str, Callable[[Any], Any]]] = {
    "exponential": lambda u: -wnp.log(u),
    "gumbel": lambda u: -wnp.log(-wnp.log(u)),
    "laplace": lambda u: wnp.where(u < 0.5, wnp.log(2 * u), -wnp.log(2 - 2 * u)),
    "logistic": lambda u: wnp.log(u) - wnp.log(1 - u),
    "cauchy": lambda u: wnp.tan((u - 0.5) * math.pi),
    "rayleigh": lambda u: wnp.sqrt(-2 * wnp.log(u)),
}
"""From a uniform number to one of the distribution, of scale 1 around 0."""


def _standard(name: str) -> Distribution:
    def draw(key: Any, shape: Shape = (), dtype: Any = np.float32) -> Any:
        return composite(_quantile, key, **described(shape, dtype), name=name)

    draw.__name__ = draw.__qualname__ = name
    draw.__doc__ = f"Numbers of the {name} distribution, of scale 1 around 0."
    return draw


def _quantile(key: Any, shape: Any, dtype: str, name: str) -> Any:
    return _QUANTILES[name](open_uniform_of(key, shape, dtype))


exponential, gumbel, laplace = map(_standard, ("exponential", "gumbel", "laplace"))
logistic, cauchy, rayleigh = map(_standard, ("logistic", "cauchy", "rayleigh"))


def pareto(key: Any, shape_parameter: Any, shape: Shape = (), dtype: Any = np.float32) -> Any:
    """Numbers of at least 1, whose tail falls with the power `shape_parameter`."""
    return wnp.exp(exponential(key, shape, dtype) / shape_parameter)


def weibull(
    key: Any, scale: Any, shape_parameter: Any, shape: Shape = (), dtype: Any = np.float32
) -> Any:
    """Roots, of the degree `shape_parameter`, of exponential numbers, scaled."""
    return scale * exponential(key, shape, dtype) ** (1.0 / shape_parameter)


def lognormal(key: Any, sigma: Any = 1.0, shape: Shape = (), dtype: Any = np.float32) -> Any:
    """Exponentials of normal numbers of the deviation `sigma`."""
    return wnp.exp(normal(key, shape, dtype) * sigma)


def truncated_normal(
    key: Any, low: Any, high: Any, shape: Shape = (), dtype: Any = np.float32
) -> Any:
    """Normal numbers between two bounds, of which no other is drawn."""
    bounds = (each if isinstance(each, int | float) else each.astype(dtype) for each in (low, high))
    first = leader(key, low, high)
    low, high = (first.constant(np.asarray(x, dtype)) if isinstance(x, int | float) else x
                 for x in bounds)  # fmt: skip
    return composite(_truncated, key, low, high, **described(shape, dtype))


def multivariate_normal(
    key: Any, mean: Any, covariance: Any, shape: Shape = (), dtype: Any = np.float32
) -> Any:
    """Vectors of that mean and covariance, which is positive definite."""
    dims = described(shape, dtype)["shape"]
    independent = normal(key, (*dims, mean.shape[-1]), dtype)
    factor = wnp.linalg.cholesky(covariance)
    return mean + (factor @ independent[..., None])[..., 0]


def gamma(key: Any, a: Any, shape: Shape | None = None, dtype: Any = np.float32) -> Any:
    """Numbers of the gamma distribution of shape parameter `a` and scale 1, by rejection
    (Marsaglia and Tsang, 2000). They have no derivative.
    """
    a = _parameter(key, a, dtype)
    return composite(_gamma, key, a, **described(a.shape if shape is None else shape, dtype))


def beta(key: Any, a: Any, b: Any, shape: Shape | None = None, dtype: Any = np.float32) -> Any:
    """Numbers from 0 to 1: a gamma number over the sum of two."""
    a, b = (_parameter(key, each, dtype) for each in (a, b))
    dims = (a + b).shape if shape is None else shape
    first = gamma(folded_in(key, 0), a, dims, dtype)
    return first / (first + gamma(folded_in(key, 1), b, dims, dtype))


def dirichlet(key: Any, alpha: Any, shape: Shape = (), dtype: Any = np.float32) -> Any:
    """Vectors of numbers that add up to 1: gamma numbers of `alpha[n]` over their sum."""
    alpha = _parameter(key, alpha, dtype)
    found = gamma(key, alpha, (*described(shape, dtype)["shape"], *alpha.shape), dtype)
    return found / found.sum(-1, keepdims=True)


def chisquare(key: Any, df: Any, shape: Shape | None = None, dtype: Any = np.float32) -> Any:
    """Sums of the squares of `df` normal numbers."""
    return gamma(key, _parameter(key, df, dtype) * 0.5, shape, dtype) * 2.0


def student_t(key: Any, df: Any, shape: Shape | None = None, dtype: Any = np.float32) -> Any:
    """Normal numbers over the root of a mean of squares of `df` others."""
    df = _parameter(key, df, dtype)
    dims = df.shape if shape is None else shape
    squares = chisquare(folded_in(key, 0), df, dims, dtype)
    return normal(folded_in(key, 1), dims, dtype) * wnp.sqrt(df / squares)


def folded_in(key: Any, number: int) -> Any:
    """The key of a part of a distribution."""
    return composite(folded, key, key.constant(np.uint64(number)))


def any_left(state: Any) -> Any:
    """Whether an element has no number yet: the state of a rejection ends in which have one."""
    return wnp.logical_not(wnp.all(state[-1]))


def _parameter(key: Any, value: Any, dtype: Any) -> Any:
    """A parameter as a tensor."""
    first = leader(key, value)
    return first.lifted(value).astype(dtype)


def _gamma(key: Any, a: Any, shape: Any, dtype: str) -> Any:
    a = a.broadcast_to(shape)
    small = a < 1.0  # then the number of a + 1 is scaled down
    d = wnp.where(small, a + 1.0, a) - 1.0 / 3.0
    c = 1.0 / wnp.sqrt(9.0 * d)

    def attempt(state: Any) -> Any:
        number, found, done = state
        fresh = folded(key, number)
        x, u = normal_of(fresh, shape, dtype), open_uniform_of(fresh, shape, dtype, 2)
        root = 1.0 + c * x
        v = root * root * root
        height = 0.5 * x * x + d * (1.0 - v + wnp.log(wnp.where(v > 0.0, v, 1.0)))
        fits = wnp.logical_and(v > 0.0, wnp.log(u) < height)
        found = wnp.where(done, found, wnp.where(fits, d * v, found))
        return number + key.constant(np.uint64(1)), found, wnp.logical_or(done, fits)

    start = key.constant(np.uint64(0)), wnp.zeros_like(d), d < 0.0
    _, found, _ = while_loop(any_left, attempt, start)
    power = wnp.where(small, open_uniform_of(key, shape, dtype, 3) ** (1.0 / a), 1.0)
    return found.op("stop_gradient", found * power)


_CENTRE: Final = (
    (3.3871328727963666080e0, 1.3314166789178437745e2, 1.9715909503065514427e3,
     1.3731693765509461125e4, 4.5921953931549871457e4, 6.7265770927008700853e4,
     3.3430575583588128105e4, 2.5090809287301226727e3),
    (1.0, 4.2313330701600911252e1, 6.8718700749205790830e2, 5.3941960214247511077e3,
     2.1213794301586595867e4, 3.9307895800092710610e4, 2.8729085735721942674e4,
     5.2264952788528545610e3),
)  # fmt: skip
_TAIL: Final = (
    (1.42343711074968357734e0, 4.63033784615654529590e0, 5.76949722146069140550e0,
     3.64784832476320460504e0, 1.27045825245236838258e0, 2.41780725177450611770e-1,
     2.27238449892691845833e-2, 7.74545014278341407640e-4),
    (1.0, 2.05319162663775882187e0, 1.67638483018380384940e0, 6.89767334985100004550e-1,
     1.48103976427480074590e-1, 1.51986665636164571966e-2, 5.47593808499534494600e-4,
     1.05075007164441684324e-9),
)  # fmt: skip
_OUTER: Final = (
    (6.65790464350110377720e0, 5.46378491116411436990e0, 1.78482653991729133580e0,
     2.96560571828504891230e-1, 2.65321895265761230930e-2, 1.24266094738807843860e-3,
     2.71155556874348757815e-5, 2.01033439929228813265e-7),
    (1.0, 5.99832206555887937690e-1, 1.36929880922735805310e-1, 1.48753612908506148525e-2,
     7.86869131145613259100e-4, 1.84631831751005468180e-5, 1.42151175831644588870e-7,
     2.04426310338993978564e-15),
)  # fmt: skip
"""Coefficients of Wichura's algorithm AS 241 (1988), from the lowest power."""


def _ratio(x: Any, coefficients: tuple[tuple[float, ...], ...]) -> Any:
    values: list[Any] = []
    for polynomial in coefficients:
        value: Any = polynomial[-1]
        for coefficient in reversed(polynomial[:-1]):
            value = value * x + coefficient
        values.append(value)
    return values[0] / values[1]


def _normal_quantile(p: Any) -> Any:
    """The number below which a normal one is with the probability `p` (Wichura's AS 241)."""
    q = p - 0.5
    centre = q * _ratio(0.180625 - q * q, _CENTRE)
    r = wnp.sqrt(-wnp.log(wnp.minimum(p, 1.0 - p)))
    tail = wnp.where(r <= 5.0, _ratio(r - 1.6, _TAIL), _ratio(r - 5.0, _OUTER))
    return wnp.where(abs(q) <= 0.425, centre, wnp.where(q < 0.0, -tail, tail))


def _truncated(key: Any, low: Any, high: Any, shape: Any, dtype: str) -> Any:
    """By quantiles between those of the bounds, of the side of 0 on which there are more digits."""
    wide = "float64"
    above = low > 0.0  # then of the mirrored bounds
    first = wnp.where(above, -high, low).astype(wide)
    last = wnp.where(above, -low, high).astype(wide)
    start, end = (0.5 * (1.0 - wnp.erf(x * -math.sqrt(0.5))) for x in (first, last))
    u = open_uniform_of(key, shape, wide)
    found = _normal_quantile(wnp.clip(start + u * (end - start), 1e-300, 1.0 - 2.0**-53))
    mirrored = wnp.where(above, -found, found).astype(dtype)
    return wnp.minimum(wnp.maximum(mirrored, low), high)

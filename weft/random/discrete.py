"""Discrete distributions, and what is drawn out of arrays."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import weft.numpy as wnp
from weft.array.composites import composite, leader
from weft.random.continuous import any_left, exponential, gumbel
from weft.random.generator import (
    Shape,
    bits_of,
    described,
    folded,
    open_uniform_of,
    randint,
    uniform,
)
from weft.tracing.control import while_loop


def bernoulli(key: Any, p: Any = 0.5, shape: Shape | None = None) -> Any:
    """Bools that hold with the probability `p`."""
    dims = getattr(p, "shape", ()) if shape is None else shape
    return uniform(key, dims, np.float64) < p


def rademacher(key: Any, shape: Shape = (), dtype: Any = np.float32) -> Any:
    """1 and -1, equally often."""
    return bernoulli(key, 0.5, shape).astype(dtype) * 2 - 1


def geometric(key: Any, p: Any, shape: Shape = (), dtype: Any = np.int64) -> Any:
    """How many trials there are until one succeeds, which each does with the probability `p`."""
    trials = exponential(key, shape, np.float64) / -wnp.log1p(-p)
    return wnp.ceil(trials).astype(dtype)


def categorical(key: Any, logits: Any, axis: int = -1, shape: Shape | None = None) -> Any:
    """Numbers of classes, whose probabilities are the softmax of `logits` along an axis: where
    logits with Gumbel numbers added are greatest. `shape` has dims in front of those of the others.
    """
    rank = axis if axis < 0 else axis - logits.ndim
    rest = [n for at, n in enumerate(logits.shape) if at != logits.ndim + rank]
    dims = rest if shape is None else described(shape, np.float32)["shape"]
    whole = [*dims]
    whole.insert(len(whole) + rank + 1, logits.shape[rank])
    noise = gumbel(key, whole, logits.dtype)
    return wnp.argmax(noise + logits, axis=rank)


def permutation(key: Any, x: Any, axis: int = 0) -> Any:
    """The integers below a number, or the slices of an array along an axis, in an order of which
    each is as likely.
    """
    if isinstance(x, int):
        return composite(_order, key, count=x)
    return wnp.take(x, composite(_order, key, count=x.shape[axis]), axis=axis)


def choice(
    key: Any, a: Any, shape: Shape = (), replace: bool = True, p: Any = None, axis: int = 0
) -> Any:
    """Slices of an array, or integers below a number: each as likely, or with the probabilities
    `p`; without `replace` none twice. Raises ValueError for more of these than there are.
    """
    dims = described(shape, np.int64)["shape"]
    count: int = a if isinstance(a, int) else a.shape[axis]
    drawn = math.prod(dims)
    if not replace and drawn > count:
        raise ValueError(f"choice without replacement requires at most {count}, got {drawn}")
    if replace and p is None:
        chosen = randint(key, 0, count, dims)
    elif replace:
        logits = wnp.log(wnp.asarray(p))
        chosen = categorical(key, logits, shape=dims)
    else:
        order = composite(_order, key, count=count)
        if p is not None:  # those of the greatest logarithms with Gumbel numbers added
            logits = wnp.log(wnp.asarray(p))
            order = wnp.argsort(-(logits + gumbel(key, (count,), logits.dtype)))
        chosen = order[:drawn].reshape(dims)
    return chosen if isinstance(a, int) else wnp.take(a, chosen, axis=axis)


def poisson(key: Any, rate: Any, shape: Shape | None = None, dtype: Any = np.int64) -> Any:
    """How many events there are, of which there are `rate` on average: below 10 by a product of
    uniform numbers (Knuth), above by transformed rejection (Hoermann, 1993).
    """
    first = leader(key, rate)
    rate = first.lifted(rate).astype(np.float64)
    dims = described(rate.shape if shape is None else shape, dtype)
    return composite(_poisson, key, rate, **dims)


def multinomial(key: Any, count: int, p: Any, dtype: Any = np.int64) -> Any:
    """How often each class is drawn in `count` draws with the probabilities `p[classes]`."""
    chosen = choice(key, p.shape[-1], (count,), p=p)
    classes = wnp.arange(p.shape[-1])
    return (chosen[:, None] == classes).sum(0).astype(dtype)


def _order(key: Any, count: int) -> Any:
    return wnp.argsort(bits_of(key, (count,)))


def _log_factorial(k: Any) -> Any:
    """Stirling's series at `k + 8`, less the logarithm of the factors that it has too many."""
    factors: Any = 1.0
    for step in range(1, 8):
        factors = factors * (k + step)
    x = k + 8.0
    inverse = 1.0 / x
    square = inverse * inverse
    series = inverse * (1 / 12 - square * (1 / 360 - square * (1 / 1260 - square / 1680)))
    return (x - 0.5) * wnp.log(x) - x + 0.9189385332046727 + series - wnp.log(factors)


def _poisson(key: Any, rate: Any, shape: Any, dtype: str) -> Any:
    wide = "float64"
    rate = rate.broadcast_to(shape)
    few = rate < 10.0
    large = wnp.where(few, 10.0, rate)
    limit, logarithm = wnp.exp(-rate), wnp.log(large)
    b = 0.931 + 2.53 * wnp.sqrt(large)
    a = -0.059 + 0.02483 * b
    inverse = wnp.log(1.1239 + 1.1328 / (b - 3.4))
    reach = 0.9277 - 3.6224 / (b - 2.0)

    def attempt(state: Any) -> Any:
        number, found, product, done = state
        fresh = folded(key, number)
        u, v = (open_uniform_of(fresh, shape, wide, stream) for stream in range(2))
        product = product * u
        counts = product > limit  # one more event
        centred = u - 0.5
        edge = 0.5 - abs(centred)
        k = wnp.floor((2.0 * a / edge + b) * centred + large + 0.43)
        sure = wnp.logical_and(edge >= 0.07, v <= reach)
        out = wnp.logical_or(k < 0.0, wnp.logical_and(edge < 0.013, v > edge))
        height = wnp.where(k < 0.0, 0.0, k)
        height = height * logarithm - large - _log_factorial(height)
        below = wnp.log(v) + inverse - wnp.log(a / (edge * edge) + b) <= height
        fits = wnp.logical_or(sure, wnp.logical_and(wnp.logical_not(out), below))
        proposed = wnp.where(few, found + counts.astype(wide), wnp.where(fits, k, found))
        ends = wnp.where(few, wnp.logical_not(counts), fits)
        found = wnp.where(done, found, proposed)
        return number + key.constant(np.uint64(1)), found, product, wnp.logical_or(done, ends)

    nothing = wnp.zeros_like(rate)
    start = key.constant(np.uint64(0)), nothing, nothing + 1.0, rate <= 0.0
    found = while_loop(any_left, attempt, start)[1]
    return found.op("stop_gradient", found).astype(dtype)

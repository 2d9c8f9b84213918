"""Programs as people write them with `jax.numpy`: loops, transforms, orders, tables."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

Array = Any
Program = tuple[Callable[..., Any], tuple[Any, ...]]
"""A function and its arguments."""


def programs() -> dict[str, Program]:
    """Twenty of them, by name."""
    random = np.random.default_rng(0)

    def floats(*shape: int) -> Array:
        return random.standard_normal(shape).astype(np.float32)

    def integers(most: int, *shape: int) -> Array:
        return random.integers(0, most, shape).astype(np.int32)

    signal, points = floats(64, 1024), floats(500, 3)
    board = (random.random((256, 256)) < 0.3).astype(np.int32)
    system = floats(128, 128)
    symmetric = system @ system.T + 128 * np.eye(128, dtype=np.float32)
    return {
        "scan, running mean": (running_mean, (floats(2000, 32),)),
        "scan, LSTM": (lstm, (floats(100, 16, 64), floats(128, 256) * 0.1)),
        "while, Newton's roots": (roots, (np.abs(floats(10000)) + 0.1,)),
        "fori, power iteration": (power_iteration, (symmetric, floats(128))),
        "fft of rows": (spectrum, (signal,)),
        "fft2 and back": (low_pass, (floats(256, 256),)),
        "convolution by rfft": (convolved, (floats(8, 1000), floats(8, 1000))),
        "sort": (partial(_jnp, "sort"), (floats(100_000),)),
        "argsort of rows": (partial(_jnp, "argsort"), (floats(1000, 100),)),
        "top_k": (best, (floats(64, 10_000),)),
        "histogram by scatter": (histogram, (integers(1000, 100_000),)),
        "segment sums": (segments, (floats(20_000, 16), integers(500, 20_000))),
        "rows of a table": (rows, (floats(10_000, 64), integers(10_000, 4096))),
        "searchsorted": (partial(_jnp, "searchsorted"), (np.sort(floats(10_000)), floats(20_000))),
        "distances and softmax": (affinities, (points,)),
        "Mandelbrot set": (mandelbrot, (floats(256, 256), floats(256, 256))),
        "k-means": (k_means, (floats(5000, 8), floats(16, 8))),
        "game of life": (life, (board,)),
        "n bodies": (bodies, (points[:200], floats(200, 3) * 0.1)),
        "Gaussian process": (gaussian_process, (symmetric, floats(128))),
    }


def _jnp(name: str, *arguments: Array) -> Array:
    import jax.numpy as jnp

    return getattr(jnp, name)(*arguments)


def running_mean(x: Array) -> Array:
    """An exponential mean along time."""
    import jax

    return jax.lax.scan(lambda mean, row: (0.9 * mean + 0.1 * row,) * 2, x[0], x)[1]


def lstm(x: Array, weights: Array) -> Array:
    """The states of an LSTM: x is [time, batch, features]."""
    import jax
    import jax.numpy as jnp

    def step(state: tuple[Array, Array], row: Array) -> Any:
        hidden, cell = state
        gates = jnp.concatenate([row, hidden], 1) @ weights
        i, f, g, o = jnp.split(gates, 4, axis=1)
        cell = jax.nn.sigmoid(f) * cell + jax.nn.sigmoid(i) * jnp.tanh(g)
        hidden = jax.nn.sigmoid(o) * jnp.tanh(cell)
        return (hidden, cell), hidden

    zeros = jnp.zeros((x.shape[1], 64))
    return jax.lax.scan(step, (zeros, zeros), x)[1]


def roots(x: Array) -> Array:
    """Square roots by Newton's method, until all are near."""
    import jax
    import jax.numpy as jnp

    def goes_on(y: Array) -> Array:
        return jnp.max(jnp.abs(y * y - x) / x) > 1e-5

    return jax.lax.while_loop(goes_on, lambda y: 0.5 * (y + x / y), x)


def power_iteration(a: Array, x: Array) -> Array:
    """The greatest eigenvalue."""
    import jax
    import jax.numpy as jnp

    x = jax.lax.fori_loop(0, 100, lambda _, v: a @ v / jnp.linalg.norm(a @ v), x)
    return x @ a @ x


def spectrum(x: Array) -> Array:
    """The power of each frequency of rows."""
    import jax.numpy as jnp

    return jnp.abs(jnp.fft.fft(x)) ** 2


def low_pass(x: Array) -> Array:
    """An image without its high frequencies."""
    import jax.numpy as jnp

    frequencies = jnp.fft.fft2(x)
    near = jnp.abs(jnp.fft.fftfreq(x.shape[0])) < 0.1
    return jnp.fft.ifft2(frequencies * (near[:, None] & near[None, :])).real


def convolved(x: Array, y: Array) -> Array:
    """Circular convolutions of rows."""
    import jax.numpy as jnp

    return jnp.fft.irfft(jnp.fft.rfft(x) * jnp.fft.rfft(y))


def best(x: Array) -> Array:
    """The ten greatest of each row, and where they are."""
    import jax

    return jax.lax.top_k(x, 10)


def histogram(x: Array) -> Array:
    """How often each number is there."""
    import jax.numpy as jnp

    return jnp.zeros(1000, jnp.int32).at[x].add(1)


def segments(x: Array, numbers: Array) -> Array:
    """The sums of rows by their numbers."""
    import jax

    return jax.ops.segment_sum(x, numbers, 500)


def rows(table: Array, numbers: Array) -> Array:
    """A mean of rows of a table."""
    return table[numbers].reshape(-1, 4, table.shape[1]).mean(1)


def affinities(x: Array) -> Array:
    """How near each point is to the others, as shares."""
    import jax
    import jax.numpy as jnp

    def to_all(one: Array) -> Array:
        return jax.nn.softmax(-jnp.sqrt(jnp.sum((x - one) ** 2, 1) + 1e-6))

    return jax.vmap(to_all)(x)


def mandelbrot(real: Array, imag: Array) -> Array:
    """How long numbers stay near."""
    import jax
    import jax.numpy as jnp

    c = real + 1j * imag

    def step(_: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
        z, count = state
        near = jnp.abs(z) <= 2
        return jnp.where(near, z * z + c, z), count + near

    return jax.lax.fori_loop(0, 50, step, (jnp.zeros_like(c), jnp.zeros(c.shape, jnp.int32)))[1]


def k_means(x: Array, centers: Array) -> Array:
    """Ten steps of Lloyd's algorithm."""
    import jax
    import jax.numpy as jnp

    def step(_: Array, centers: Array) -> Array:
        distances = jnp.sum(x * x, 1)[:, None] - 2 * x @ centers.T + jnp.sum(centers * centers, 1)
        nearest = jax.nn.one_hot(jnp.argmin(distances, 1), centers.shape[0])
        return nearest.T @ x / jnp.maximum(nearest.sum(0)[:, None], 1)

    return jax.lax.fori_loop(0, 10, step, centers)


def life(board: Array) -> Array:
    """Fifty generations."""
    import jax
    import jax.numpy as jnp

    shifts = [(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1) if (i, j) != (0, 0)]

    def step(_: Array, board: Array) -> Array:
        around = sum(jnp.roll(board, shift, (0, 1)) for shift in shifts)
        return ((around == 3) | ((board == 1) & (around == 2))).astype(jnp.int32)

    return jax.lax.fori_loop(0, 50, step, board)


def bodies(x: Array, v: Array) -> Array:
    """Where bodies that attract each other are after twenty steps."""
    import jax
    import jax.numpy as jnp

    def step(_: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
        x, v = state
        apart = x[None] - x[:, None]
        v = v + 1e-3 * jnp.sum(apart / (jnp.sum(apart**2, -1, keepdims=True) + 0.1) ** 1.5, 1)
        return x + 0.01 * v, v

    return jax.lax.fori_loop(0, 20, step, (x, v))[0]


def gaussian_process(covariance: Array, y: Array) -> Array:
    """The likelihood of what was seen."""
    import jax.numpy as jnp
    import jax.scipy.linalg as linalg

    factor = jnp.linalg.cholesky(covariance)
    z = linalg.solve_triangular(factor, y, lower=True)
    return -0.5 * z @ z - jnp.log(jnp.diagonal(factor)).sum()

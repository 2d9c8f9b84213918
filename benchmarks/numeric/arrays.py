"""More programs in plain NumPy, with what JAX needs where arrays change."""

import numpy as np


def mandelbrot(re, im, steps):
    """How many steps each point stays near the origin."""
    x, y = np.zeros_like(re), np.zeros_like(im)
    count = np.zeros(re.shape)
    for _ in range(steps):
        near = x * x + y * y <= 4.0
        count = count + np.where(near, 1.0, 0.0)
        x, y = (
            np.where(near, x * x - y * y + re, x),
            np.where(near, 2.0 * x * y + im, y),
        )
    return count


def gray_scott(u, v, steps):
    """Two substances that react and spread, in a box with fixed borders."""
    u, v = u.copy(), v.copy()
    for _ in range(steps):
        a, b = u[1:-1, 1:-1], v[1:-1, 1:-1]
        spread_u = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4.0 * a
        spread_v = v[:-2, 1:-1] + v[2:, 1:-1] + v[1:-1, :-2] + v[1:-1, 2:] - 4.0 * b
        reacted = a * b * b
        next_u = a + 0.16 * spread_u - reacted + 0.035 * (1.0 - a)
        next_v = b + 0.08 * spread_v + reacted - 0.095 * b
        u[1:-1, 1:-1] = next_u
        v[1:-1, 1:-1] = next_v
    return u, v


def gray_scott_jax(u, v, steps):
    """The same where arrays do not change."""
    for _ in range(steps):
        a, b = u[1:-1, 1:-1], v[1:-1, 1:-1]
        spread_u = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4.0 * a
        spread_v = v[:-2, 1:-1] + v[2:, 1:-1] + v[1:-1, :-2] + v[1:-1, 2:] - 4.0 * b
        reacted = a * b * b
        u = u.at[1:-1, 1:-1].set(a + 0.16 * spread_u - reacted + 0.035 * (1.0 - a))
        v = v.at[1:-1, 1:-1].set(b + 0.08 * spread_v + reacted - 0.095 * b)
    return u, v


def density(points, queries, width):
    """A density at some points by normal kernels around others."""
    count = points.shape[0]
    differences = queries.reshape((-1, 1, 3)) - points.reshape((1, -1, 3))
    squares = np.sum(differences * differences, axis=2)
    return np.sum(np.exp(-0.5 * squares / (width * width)), axis=1) / count


def moving_average(x, window):
    """Means of windows, and the deviations of elements from them, by cumulative sums."""
    sums = np.cumsum(x)
    means = (sums[window:] - sums[:-window]) / window
    squares = np.cumsum(x * x)
    variances = (squares[window:] - squares[:-window]) / window - means * means
    return means, (x[window:] - means) / np.sqrt(np.maximum(variances, 1e-9))


def lstm(x, weights, bias):
    """The last state of an LSTM: x is [time, batch, features]."""
    time, batch, _ = x.shape
    size = bias.shape[0] // 4
    hidden = np.zeros((batch, size), np.float32)
    cell = np.zeros((batch, size), np.float32)
    one = np.float32(1.0)
    for t in range(time):
        gates = np.concatenate((x[t], hidden), axis=1) @ weights + bias
        i = one / (one + np.exp(-gates[:, :size]))
        f = one / (one + np.exp(-gates[:, size : 2 * size]))
        o = one / (one + np.exp(-gates[:, 2 * size : 3 * size]))
        cell = f * cell + i * np.tanh(gates[:, 3 * size :])
        hidden = o * np.tanh(cell)
    return hidden, cell


def lstm_jax(x, weights, bias):
    """The same as a scan."""
    import jax
    import jax.numpy as jnp

    size = bias.shape[0] // 4

    def step(state, row):
        hidden, cell = state
        gates = jnp.concatenate((row, hidden), axis=1) @ weights + bias
        i, f, o, g = jnp.split(gates, 4, axis=1)
        cell = jax.nn.sigmoid(f) * cell + jax.nn.sigmoid(i) * jnp.tanh(g)
        return (jax.nn.sigmoid(o) * jnp.tanh(cell), cell), None

    zeros = jnp.zeros((x.shape[1], size), x.dtype)
    return jax.lax.scan(step, (zeros, zeros), x)[0]


def histogram(levels, values):
    """How often each of 256 levels is there, and the mean of values at it."""
    counts = np.bincount(levels, minlength=256)
    sums = np.bincount(levels, values, 256)
    return counts, sums / np.maximum(counts, 1)


def histogram_jax(levels, values):
    """The same with the length that a compiler needs."""
    import jax.numpy as jnp

    counts = jnp.bincount(levels, length=256)
    sums = jnp.bincount(levels, values, length=256)
    return counts, sums / jnp.maximum(counts, 1)


def heston(z1, z2):
    """The mean payoff of a call on a price whose variance wanders."""
    steps, paths = z1.shape
    dt = 1.0 / steps
    price, variance = np.full(paths, 100.0), np.full(paths, 0.04)
    for t in range(steps):
        w = -0.5 * z1[t] + np.sqrt(0.75) * z2[t]
        root = np.sqrt(np.maximum(variance, 0.0) * dt)
        price = price * np.exp(-0.5 * np.maximum(variance, 0.0) * dt + root * z1[t])
        variance = variance + 2.0 * (0.04 - variance) * dt + 0.3 * root * w
    return np.maximum(price - 100.0, 0.0).mean(), price


def gaussian_process(x, y, queries):
    """Means of a regression at queries, by a Cholesky factor."""
    near = np.exp(-0.5 * (x.reshape((-1, 1)) - x.reshape((1, -1))) ** 2) + 0.1 * np.eye(x.shape[0])
    factor = np.linalg.cholesky(near)
    weights = np.linalg.solve(factor.T, np.linalg.solve(factor, y))
    return np.exp(-0.5 * (queries.reshape((-1, 1)) - x.reshape((1, -1))) ** 2) @ weights


def blur(image):
    """An image under a separable kernel of five, away from its borders, and its edges."""
    rows = (
        image[:-4] + 4.0 * image[1:-3] + 6.0 * image[2:-2] + 4.0 * image[3:-1] + image[4:]
    ) / 16.0
    soft = (
        rows[:, :-4] + 4.0 * rows[:, 1:-3] + 6.0 * rows[:, 2:-2] + 4.0 * rows[:, 3:-1] + rows[:, 4:]
    ) / 16.0
    across, down = soft[:, 2:] - soft[:, :-2], soft[2:] - soft[:-2]
    return soft, np.sqrt(across[1:-1] * across[1:-1] + down[:, 1:-1] * down[:, 1:-1])


def edit_distance(a, b):
    """How many changes lead from one word to another, element by element."""
    n, m = a.shape[0], b.shape[0]
    table = np.zeros((n + 1, m + 1), np.int64)
    for i in range(n + 1):
        table[i, 0] = i
    for j in range(m + 1):
        table[0, j] = j
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            cost = 0 if a[i - 1] == b[j - 1] else 1
            table[i, j] = min(table[i - 1, j] + 1, table[i, j - 1] + 1, table[i - 1, j - 1] + cost)
    return table[n, m]

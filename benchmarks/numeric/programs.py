"""Programs in plain NumPy, which weft and numba compile as they are, and each once more in loops,
as numba's users write for speed.
"""

import numpy as np

try:
    from numba import prange
except ImportError:
    prange = range


def black_scholes(price, strike, time, rate, volatility):
    """Values of European call and put options; the normal distribution is the polynomial 26.2.17 of
    Abramowitz and Stegun.
    """

    def normal(d):
        k = 1.0 / (1.0 + 0.2316419 * np.abs(d))
        poly = k * (
            0.31938153
            + k * (-0.356563782 + k * (1.781477937 + k * (-1.821255978 + k * 1.330274429)))
        )
        tail = 0.3989422804014327 * np.exp(-0.5 * d * d) * poly
        return np.where(d > 0.0, 1.0 - tail, tail)

    spread = volatility * np.sqrt(time)
    d1 = (np.log(price / strike) + (rate + 0.5 * volatility * volatility) * time) / spread
    d2 = d1 - spread
    discounted = strike * np.exp(-rate * time)
    first, second = normal(d1), normal(d2)
    call = price * first - discounted * second
    put = discounted * (1.0 - second) - price * (1.0 - first)
    return call, put


def black_scholes_loops(price, strike, time, rate, volatility):
    """One option after the other."""

    def normal(d):
        k = 1.0 / (1.0 + 0.2316419 * abs(d))
        poly = k * (
            0.31938153
            + k * (-0.356563782 + k * (1.781477937 + k * (-1.821255978 + k * 1.330274429)))
        )
        tail = 0.3989422804014327 * np.exp(-0.5 * d * d) * poly
        return 1.0 - tail if d > 0.0 else tail

    call, put = np.empty_like(price), np.empty_like(price)
    for i in prange(price.shape[0]):
        spread = volatility * np.sqrt(time[i])
        d1 = np.log(price[i] / strike[i]) + (rate + 0.5 * volatility * volatility) * time[i]
        d1 = d1 / spread
        discounted = strike[i] * np.exp(-rate * time[i])
        first, second = normal(d1), normal(d1 - spread)
        call[i] = price[i] * first - discounted * second
        put[i] = discounted * (1.0 - second) - price[i] * (1.0 - first)
    return call, put


def n_body(x, y, z, u, v, w, mass, dt, steps):
    """Positions after steps of bodies that attract each other, all with all."""
    count = x.shape[0]
    for _ in range(steps):
        dx = x.reshape((1, count)) - x.reshape((count, 1))
        dy = y.reshape((1, count)) - y.reshape((count, 1))
        dz = z.reshape((1, count)) - z.reshape((count, 1))
        square = dx * dx + dy * dy + dz * dz + 1e-3
        pull = mass / (square * np.sqrt(square))
        u = u + dt * np.sum(dx * pull, axis=1)
        v = v + dt * np.sum(dy * pull, axis=1)
        w = w + dt * np.sum(dz * pull, axis=1)
        x, y, z = x + dt * u, y + dt * v, z + dt * w
    return x, y, z


def n_body_loops(x, y, z, u, v, w, mass, dt, steps):
    """One body after the other."""
    count = x.shape[0]
    x, y, z, u, v, w = x.copy(), y.copy(), z.copy(), u.copy(), v.copy(), w.copy()
    for _ in range(steps):
        for i in prange(count):
            ax, ay, az = 0.0, 0.0, 0.0
            for j in range(count):
                dx, dy, dz = x[j] - x[i], y[j] - y[i], z[j] - z[i]
                square = dx * dx + dy * dy + dz * dz + 1e-3
                pull = mass[j] / (square * np.sqrt(square))
                ax += dx * pull
                ay += dy * pull
                az += dz * pull
            u[i] += dt * ax
            v[i] += dt * ay
            w[i] += dt * az
        for i in prange(count):
            x[i] += dt * u[i]
            y[i] += dt * v[i]
            z[i] += dt * w[i]
    return x, y, z


def stencil(heat, rate, steps):
    """Heat that spreads over a plate with a cold border, by differences of five points."""
    heat = heat.copy()
    for _ in range(steps):
        around = heat[:-2, 1:-1] + heat[2:, 1:-1] + heat[1:-1, :-2] + heat[1:-1, 2:]
        heat[1:-1, 1:-1] = heat[1:-1, 1:-1] + rate * (around - 4.0 * heat[1:-1, 1:-1])
    return heat


def stencil_loops(heat, rate, steps):
    """One point after the other, from one plate to another and back."""
    heat, after = heat.copy(), heat.copy()
    rows, columns = heat.shape
    for _ in range(steps):
        for i in prange(1, rows - 1):
            for j in range(1, columns - 1):
                around = heat[i - 1, j] + heat[i + 1, j] + heat[i, j - 1] + heat[i, j + 1]
                after[i, j] = heat[i, j] + rate * (around - 4.0 * heat[i, j])
        heat, after = after, heat
    return heat


def stencil_jax(heat, rate, steps):
    """The same where arrays do not change."""
    for _ in range(steps):
        around = heat[:-2, 1:-1] + heat[2:, 1:-1] + heat[1:-1, :-2] + heat[1:-1, 2:]
        heat = heat.at[1:-1, 1:-1].add(rate * (around - 4.0 * heat[1:-1, 1:-1]))
    return heat


def k_means(points, centers, steps):
    """Centers of clusters, by Lloyd's algorithm."""
    count = centers.shape[0]
    for _ in range(steps):
        distances = np.sum(centers * centers, axis=1) - 2.0 * (points @ centers.T)
        nearest = np.argmin(distances, axis=1)
        members = (nearest.reshape((-1, 1)) == np.arange(count)).astype(np.float64)
        sizes = np.maximum(np.sum(members, axis=0), 1.0)
        centers = (members.T @ points) / sizes.reshape((-1, 1))
    return centers


def k_means_loops(points, centers, steps):
    """One point after the other; each of some parts of the points has sums of its own."""
    count, (total, width), parts = centers.shape[0], points.shape, 64
    centers = centers.copy()
    for _ in range(steps):
        sums, sizes = np.zeros((parts, count, width)), np.zeros((parts, count))
        for part in prange(parts):
            for i in range(part * total // parts, (part + 1) * total // parts):
                nearest, least = 0, np.inf
                for c in range(count):
                    distance = 0.0
                    for k in range(width):
                        difference = points[i, k] - centers[c, k]
                        distance += difference * difference
                    if distance < least:
                        nearest, least = c, distance
                sizes[part, nearest] += 1.0
                for k in range(width):
                    sums[part, nearest, k] += points[i, k]
        for c in range(count):
            size = max(sizes[:, c].sum(), 1.0)
            for k in range(width):
                centers[c, k] = sums[:, c, k].sum() / size
    return centers


def softmax_regression(x, answers, weight, rate, steps):
    """Weights of a linear classifier after steps down the slope of its cross-entropy."""
    count = x.shape[0]
    for _ in range(steps):
        scores = x @ weight
        powers = np.exp(scores - scores.max(axis=1, keepdims=True))
        shares = powers / powers.sum(axis=1, keepdims=True)
        weight = weight - rate / count * (x.T @ (shares - answers))
    return weight


def softmax_regression_loops(x, answers, weight, rate, steps):
    """Products by BLAS, the softmax one row after the other."""
    count = x.shape[0]
    scale = np.float32(rate / count)
    for _ in range(steps):
        scores = np.dot(x, weight)
        for i in prange(count):
            most = scores[i].max()
            total = np.float32(0.0)
            for k in range(scores.shape[1]):
                scores[i, k] = np.exp(scores[i, k] - most)
                total += scores[i, k]
            for k in range(scores.shape[1]):
                scores[i, k] = scores[i, k] / total - answers[i, k]
        weight = weight - scale * np.dot(x.T, scores)
    return weight

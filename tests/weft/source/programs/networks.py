"""Networks, filters and simulations by hand, with classes, closures and containers."""

from collections import namedtuple
from functools import partial, reduce

import numpy as np

State = namedtuple("State", ["position", "velocity"])


class Dense:
    def __init__(self, weight, bias=None):
        self.weight = weight
        self.bias = bias

    def __call__(self, x):
        y = x @ self.weight
        if self.bias is not None:
            y = y + self.bias
        return y


class Network:
    def __init__(self, *layers, scale=1.0):
        self.layers = layers
        self.scale = scale

    @property
    def last(self):
        return self.layers[-1]

    def forward(self, x, training=False):
        for layer in self.layers[:-1]:
            x = np.maximum(layer(x), 0.0)
        if training:
            raise ValueError("no training here")
        return self.last(x) * self.scale


_rng = np.random.default_rng(2)
_network = Network(
    Dense(_rng.normal(size=(4, 8)), _rng.normal(size=8)), Dense(_rng.normal(size=(8, 3))), scale=0.5
)


def network(x):
    return _network.forward(x)


def recurrent(xs, w, u, h):
    states = []
    for x in xs:
        h = np.tanh(w @ x + u @ h)
        states.append(h)
    return np.stack(states), h


def lstm(xs, w, u, b, h, c):
    def cell(x, h, c):
        gates = x @ w + h @ u + b
        n = h.shape[-1]
        i, f, g, o = (gates[k * n : (k + 1) * n] for k in range(4))
        keep, let = (1 / (1 + np.exp(-each)) for each in (f, i))
        c = keep * c + let * np.tanh(g)
        return np.tanh(c) / (1 + np.exp(-o)), c

    outputs = []
    for x in xs:
        h, c = cell(x, h, c)
        outputs.append(h)
    return np.stack(outputs), (h, c)


class Accumulator:
    """Running sums by methods, that are made anew in each call."""

    def __init__(self, count):
        self.total, self.seen = np.zeros(count), 0

    def add(self, row, *, weight=1.0):
        assert row.shape == self.total.shape, f"rows of {self.total.shape}"
        self.total = self.total + weight * row
        self.seen += 1
        return self

    @property
    def mean(self):
        return self.total / max(self.seen, 1)


def accumulated(rows, limit):
    found = Accumulator(rows.shape[1])
    for row in rows:
        assert np.isfinite(row).all(), "rows are finite"
        found.add(row, weight=2.0).add(row)
        if found.total.max() > limit:
            break
    else:
        found.add(np.ones(rows.shape[1]))
    return found.mean, found.seen


def gated(xs, w, h):
    for t in range(xs.shape[0]):
        z = 1 / (1 + np.exp(-(w @ xs[t])))
        h = (1 - z) * h + z * np.tanh(xs[t])
        if h.max() > 0.99:
            break
    return h, t if False else 0


def ragged_sums(values, lengths):
    sums = np.zeros(len(lengths))
    start = 0
    for i in range(len(lengths)):
        total = 0.0
        for j in range(lengths[i]):
            total += values[start + j]
        sums[i] = total
        start += lengths[i]
    return sums


def running_extremes(x):
    low = high = x[0]
    for value in x[1:]:
        low, high = min(low, value), max(high, value)
    return {"low": low, "high": high}


def simulated(count):
    state = State(np.array([0.0, 1.0]), np.array([1.0, 0.0]))
    for _ in range(count):
        force = -state.position
        velocity = state.velocity + 0.1 * force
        state = State(state.position + 0.1 * velocity, velocity)
    return state


def kalman(measured):
    mean, variance = 0.0, 1.0
    means = []
    for z in measured:
        variance = variance + 0.1
        gain = variance / (variance + 0.5)
        mean = mean + gain * (z - mean)
        variance = (1 - gain) * variance
        means.append(mean)
    return np.array(means), variance


def k_means(points, centers):
    for _ in range(50):
        distances = ((points[:, None, :] - centers[None, :, :]) ** 2).sum(axis=-1)
        nearest = distances.argmin(axis=1)
        new = []
        for k in range(centers.shape[0]):
            chosen = (nearest == k)[:, None]
            new.append(np.where(chosen, points, 0.0).sum(axis=0) / max(chosen.sum(), 1))
        new = np.stack(new)
        if np.abs(new - centers).max() < 1e-9:
            break
        centers = new
    return centers


def softmax_stable(x, axis=-1):
    shifted = np.exp(x - x.max(axis=axis, keepdims=True))
    return shifted / shifted.sum(axis=axis, keepdims=True)


def attention(q, k, v, mask=None):
    scores = q @ k.T / q.shape[-1] ** 0.5
    if mask is not None:
        scores = np.where(mask, scores, -1e9)
    return softmax_stable(scores) @ v


def composed(x):
    steps = [np.sin, lambda y: y * 2, partial(np.add, 1.0)]
    return reduce(lambda value, step: step(value), steps, x)


def tree_sum(x):
    def fold(part):
        if len(part) == 1:
            return part[0]
        middle = len(part) // 2
        return fold(part[:middle]) + fold(part[middle:])

    return fold(x)


def counter(xs):
    count = 0

    def note(value):
        nonlocal count
        if value > 0:
            count += 1
        return value * 2

    total = sum(note(x) for x in xs)
    return total, count


def moments(groups):
    return {
        name: (values.mean(), values.std()) for name, values in groups.items() if name != "skip"
    }


def stencil(u, steps):
    for _ in range(steps):
        inner = u[1:-1] + 0.1 * (u[:-2] - 2 * u[1:-1] + u[2:])
        u = np.concatenate([u[:1], inner, u[-1:]])
    return u


def life(board):
    count = np.zeros_like(board)
    for dy in (-1, 0, 1):
        for dx in (-1, 0, 1):
            if dy or dx:
                count += np.roll(np.roll(board, dy, axis=0), dx, axis=1)
    return np.where((count == 3) | ((board == 1) & (count == 2)), 1, 0)


def black_scholes(s, k, t, rate, sigma):
    d1 = (np.log(s / k) + (rate + sigma**2 / 2) * t) / (sigma * np.sqrt(t))
    d2 = d1 - sigma * np.sqrt(t)

    def normal(x):
        return 0.5 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))

    return s * normal(d1) - k * np.exp(-rate * t) * normal(d2)


def n_body(position, velocity, mass):
    for _ in range(70):
        away = position[None, :, :] - position[:, None, :]
        distance = np.sqrt((away**2).sum(axis=-1) + 0.01)
        force = (away * (mass[None, :] / distance**3)[:, :, None]).sum(axis=1)
        velocity = velocity + 0.01 * force
        position = position + 0.01 * velocity
    return position, velocity


def clipped(x, low=None, high=None):
    y = x
    if low is not None:
        y = np.maximum(y, low)
    if high is not None:
        y = np.minimum(y, high)
    assert y.shape == x.shape, "clipping keeps shapes"
    return y


def piecewise(x):
    return -1.0 if x < -1 else x if x < 1 else 1.0


def in_range(x, low, high):
    inside = low <= x.mean() < high and not (x.max() > 100 or x.min() < -100)
    return x * 2 if inside else x


def state_machine(symbols):
    state = 0
    for s in symbols:
        match_ = 0
        if state == 0:
            state = 1 if s == 1 else 0
        elif state == 1:
            state = 2 if s == 0 else 1
        else:
            match_ = 1
            state = 0
        if match_ and s == 7:
            continue
        state = state * 1
    return state


def retry(table, key):
    try:
        found = table[key]
    except KeyError:
        found = np.zeros(2)
    return found + 1


def reused_names(x):
    part = x.sum()
    total = part
    for i in range(len(x)):
        part = x * i
        if part.max() > 2:
            part = part[:1].sum()
            total += part
        else:
            part = None
    return total


PROGRAMS = [
    (reused_names, (_rng.normal(size=30),)),
    (network, (_rng.normal(size=(2, 4)),)),
    (
        recurrent,
        (
            _rng.normal(size=(90, 3)),
            _rng.normal(size=(4, 3)),
            _rng.normal(size=(4, 4)),
            np.zeros(4),
        ),
    ),
    (
        lstm,
        (
            _rng.normal(size=(20, 3)),
            _rng.normal(size=(3, 16)),
            _rng.normal(size=(4, 16)),
            np.zeros(16),
            np.zeros(4),
            np.zeros(4),
        ),
    ),
    (accumulated, (_rng.random((30, 4)), np.float64(9)), (_rng.random((30, 4)), np.float64(1e9))),
    (gated, (_rng.normal(size=(80, 3)), _rng.normal(size=(3, 3)), np.zeros(3))),
    (ragged_sums, (_rng.normal(size=10), np.array([3, 0, 5, 2]))),
    (running_extremes, (_rng.normal(size=9),), (_rng.normal(size=100),)),
    (simulated, (np.int64(25),), (np.int64(0),)),
    (kalman, (_rng.normal(size=80),)),
    (k_means, (_rng.normal(size=(30, 2)), _rng.normal(size=(3, 2)))),
    (softmax_stable, (_rng.normal(size=(3, 4)),)),
    (attention, (*_rng.normal(size=(3, 5, 4)), np.tril(np.ones((5, 5), bool)))),
    (composed, (_rng.normal(size=3),)),
    (tree_sum, (_rng.normal(size=7),)),
    (counter, ([_rng.normal(), np.float64(-1), np.float64(2)],)),
    (moments, ({"a": _rng.normal(size=3), "skip": np.ones(2), "b": np.ones(4)},)),
    (stencil, (_rng.normal(size=20), np.int64(30))),
    (life, ((_rng.random((6, 6)) > 0.5).astype(np.int64),)),
    (
        black_scholes,
        (np.array([90.0, 100, 110]), np.float64(100), np.float64(0.5), 0.02, np.float64(0.3)),
    ),
    (n_body, (_rng.normal(size=(4, 3)), np.zeros((4, 3)), np.ones(4))),
    (clipped, (_rng.normal(size=4), 0.0), (_rng.normal(size=4), None, np.float64(0.5))),
    (piecewise, (np.float64(-2),), (np.float64(0.5),), (np.float64(7),)),
    (in_range, (_rng.normal(size=4), -1, 1), (_rng.normal(size=4) + 200, -1, 1)),
    (state_machine, (np.array([1, 0, 1, 1, 0, 7]),)),
    (retry, ({"a": np.ones(2)}, "a"), ({"a": np.ones(2)}, "b")),
]

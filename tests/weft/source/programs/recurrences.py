"""Recurrences, iterations and series."""

import math

import numpy as np


def fibonacci(n):
    a, b = 0, 1
    for _ in range(n):
        a, b = b, a + b
    return a


def collatz(n):
    steps = 0
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
    return steps


def newton_root(a):
    x = a
    iterations = 0
    while abs(x * x - a) > 1e-12 * a:
        x = 0.5 * (x + a / x)
        iterations += 1
    return x, iterations


def greatest_common_divisor(a, b):
    while b:
        a, b = b, a % b
    return a


def power_iteration(a, tolerance):
    v = np.ones(a.shape[0]) / math.sqrt(a.shape[0])
    value = 0.0
    while True:
        w = a @ v
        new = np.sqrt((w * w).sum())
        v = w / new
        if abs(new - value) < tolerance:
            break
        value = new
    return new, v


def bisection(low, high):
    def f(x):
        return x * x * x - x - 2

    while high - low > 1e-10:
        middle = (low + high) / 2
        if f(low) * f(middle) <= 0:
            high = middle
        else:
            low = middle
    return (low + high) / 2


def exponential_series(x):
    term, total, n = 1.0, 1.0, 0
    while abs(term) > 1e-15:
        n += 1
        term = term * x / n
        total += term
    return total


def mandelbrot(re, im):
    x, y, count = 0.0, 0.0, 0
    for _ in range(200):
        if x * x + y * y > 4:
            break
        x, y = x * x - y * y + re, 2 * x * y + im
        count += 1
    return count


def logistic_map(x, rate):
    history = []
    for _ in range(100):
        x = rate * x * (1 - x)
        history.append(x)
    return np.array(history)


def horner(coefficients, x):
    total = 0.0
    for c in coefficients:
        total = total * x + c
    return total


def runge_kutta(y, step, count):
    def slope(y):
        return np.stack([y[1], -y[0]])

    for _ in range(count):
        k1 = slope(y)
        k2 = slope(y + step / 2 * k1)
        k3 = slope(y + step / 2 * k2)
        k4 = slope(y + step * k3)
        y = y + step / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return y


def fast_power(x, n):
    if n == 0:
        return 1.0
    half = fast_power(x, n // 2)
    return half * half * (x if n % 2 else 1.0)


def newton_basins(re, im):
    roots = [(1.0, 0.0), (-0.5, 0.75**0.5), (-0.5, -(0.75**0.5))]
    for count in range(40):
        for number, (x, y) in enumerate(roots):
            if abs(re - x) + abs(im - y) < 1e-6:
                return number, count
        a, b = re * re - im * im, 2 * re * im
        size = 3 * (a * a + b * b)
        if size == 0:
            break
        u, v = re * a - im * b - 1, re * b + im * a
        re, im = re - (u * a + v * b) / size, im - (v * a - u * b) / size
    return -1, 40


def gradient_descent(a, b):
    x = np.zeros(b.shape[0])
    for round_ in range(500):
        residual = a @ x - b
        if (residual * residual).sum() < 1e-16:
            return x, round_
        x = x - 0.1 * (a.T @ residual)
    return x, 500


def conjugate_gradients(a, b):
    x = np.zeros_like(b)
    r = b - a @ x
    p = r
    rs = r @ r
    for _ in range(len(b)):
        q = a @ p
        alpha = rs / (p @ q)
        x = x + alpha * p
        r = r - alpha * q
        new = r @ r
        if np.sqrt(new) < 1e-12:
            break
        p = r + new / rs * p
        rs = new
    return x


def writes_through_views(x):
    """Views that are read after the array, and other views, were written to."""
    a = np.zeros((3, 4))
    row, column = a[1], a[:, 2]
    part = row[1:3]
    a[1, 2] = x[0]
    column[0] = x[1]
    total = row.sum() + part.sum()
    row += 2.0
    for i in range(50):
        a[1, 1] += x[i % 3]
        total = total + row[1] + part[0]
    if x[0] > 0:
        a[1] = x[2] * row
    kept = part.copy()
    a *= 2
    return a, row, column, part, total, kept


_rng = np.random.default_rng(0)
_m = _rng.normal(size=(5, 5))
_spd = _m @ _m.T + 5 * np.eye(5)

PROGRAMS = [
    (fibonacci, (np.int64(10),), (np.int64(0),), (np.int64(50),)),
    (collatz, (np.int64(27),), (np.int64(1),)),
    (newton_root, (np.float64(2),), (np.float64(1e6),)),
    (greatest_common_divisor, (np.int64(84), np.int64(36)), (np.int64(7), np.int64(0))),
    (power_iteration, (_spd, 1e-10)),
    (bisection, (np.float64(1), np.float64(2))),
    (exponential_series, (np.float64(1.5),), (np.float64(-3),)),
    (mandelbrot, (np.float64(0.1), np.float64(0.2)), (np.float64(1), np.float64(1))),
    (logistic_map, (np.float64(0.3), np.float64(3.2))),
    (writes_through_views, (np.array([1.5, -2, 3]),), (np.array([-1.5, -2, 3]),)),
    (horner, (_rng.normal(size=40), np.float64(0.9))),
    (runge_kutta, (np.array([1.0, 0.0]), np.float64(0.01), np.int64(100))),
    (fast_power, (np.float64(1.1), 13), (np.float64(1.1), 0)),
    (newton_basins, (np.float64(0.9), np.float64(0.1)), (np.float64(0), np.float64(0))),
    (gradient_descent, (_spd / 20, _rng.normal(size=5))),
    (conjugate_gradients, (_spd, _rng.normal(size=5))),
]

"""Thirty more programs that nothing was mended for, written a session later and run once."""

import math

import numpy as np


def boids(position, velocity):
    """A flock that separates, aligns and keeps together, as in From Python to NumPy."""
    for _ in range(3):
        dx = np.subtract.outer(position[:, 0], position[:, 0])
        dy = np.subtract.outer(position[:, 1], position[:, 1])
        distance = np.hypot(dx, dy)
        mask_0 = distance > 0
        mask_1 = (distance < 0.3) * mask_0
        mask_2 = (distance < 0.6) * mask_0
        count_1 = np.maximum(mask_1.sum(axis=1), 1)
        count_2 = np.maximum(mask_2.sum(axis=1), 1).reshape(-1, 1)
        target = np.dstack((dx * mask_1, dy * mask_1)).sum(axis=1) / count_1[:, None]
        alignment = np.dot(mask_2, velocity) / count_2 - velocity
        cohesion = np.dot(mask_2, position) / count_2 - position
        velocity += 0.5 * target + 0.2 * alignment + 0.1 * cohesion
        norm = np.sqrt((velocity * velocity).sum(axis=1)).reshape(-1, 1)
        np.multiply(velocity, 0.1 / norm, out=velocity, where=norm > 0.1)
        position += velocity
    return position, velocity


def perlin_noise(gradients, shape=(8, 8), res=(2, 2)):
    """Noise of Perlin out of gradients at the corners of a lattice."""
    d = (shape[0] // res[0], shape[1] // res[1])
    step = (res[0] / shape[0], res[1] / shape[1])
    grid = np.mgrid[0 : res[0] : step[0], 0 : res[1] : step[1]].transpose(1, 2, 0) % 1
    g00 = gradients[0:-1, 0:-1].repeat(d[0], 0).repeat(d[1], 1)
    g10 = gradients[1:, 0:-1].repeat(d[0], 0).repeat(d[1], 1)
    g01 = gradients[0:-1, 1:].repeat(d[0], 0).repeat(d[1], 1)
    g11 = gradients[1:, 1:].repeat(d[0], 0).repeat(d[1], 1)
    n00 = np.sum(grid * g00, 2)
    n10 = np.sum(np.dstack((grid[:, :, 0] - 1, grid[:, :, 1])) * g10, 2)
    n01 = np.sum(np.dstack((grid[:, :, 0], grid[:, :, 1] - 1)) * g01, 2)
    n11 = np.sum(np.dstack((grid[:, :, 0] - 1, grid[:, :, 1] - 1)) * g11, 2)
    t = 6 * grid**5 - 15 * grid**4 + 10 * grid**3
    n0 = n00 * (1 - t[:, :, 0]) + t[:, :, 0] * n10
    n1 = n01 * (1 - t[:, :, 0]) + t[:, :, 0] * n11
    return np.sqrt(2) * ((1 - t[:, :, 1]) * n0 + t[:, :, 1] * n1)


def char_rnn(Wxh, Whh, Why, bh, by, inputs, targets):
    """The loss and the gradients of a network of characters, after Karpathy."""
    xs, hs, ps = {}, {}, {}
    hs[-1] = np.zeros((len(bh), 1))
    loss = 0
    for t in range(len(inputs)):
        xs[t] = np.zeros((Wxh.shape[1], 1))
        xs[t][inputs[t]] = 1
        hs[t] = np.tanh(np.dot(Wxh, xs[t]) + np.dot(Whh, hs[t - 1]) + bh)
        y = np.dot(Why, hs[t]) + by
        ps[t] = np.exp(y) / np.sum(np.exp(y))
        loss += -np.log(ps[t][targets[t], 0])
    dWxh, dWhh, dWhy = np.zeros_like(Wxh), np.zeros_like(Whh), np.zeros_like(Why)
    dbh, dby = np.zeros_like(bh), np.zeros_like(by)
    dhnext = np.zeros_like(hs[0])
    for t in reversed(range(len(inputs))):
        dy = np.copy(ps[t])
        dy[targets[t]] -= 1
        dWhy += np.dot(dy, hs[t].T)
        dby += dy
        dh = np.dot(Why.T, dy) + dhnext
        dhraw = (1 - hs[t] * hs[t]) * dh
        dbh += dhraw
        dWxh += np.dot(dhraw, xs[t].T)
        dWhh += np.dot(dhraw, hs[t - 1].T)
        dhnext = np.dot(Whh.T, dhraw)
    for dparam in [dWxh, dWhh, dWhy, dbh, dby]:
        np.clip(dparam, -5, 5, out=dparam)
    return loss, dWxh, dWhh, dWhy, dbh, dby


def svm_loss(W, X, y, reg=0.1):
    """The hinge loss of several classes and its gradient, as in CS231n."""
    num_train = X.shape[0]
    scores = X.dot(W)
    correct = scores[np.arange(num_train), y]
    margins = np.maximum(0, scores - correct[:, np.newaxis] + 1.0)
    margins[np.arange(num_train), y] = 0
    loss = margins.sum() / num_train + reg * np.sum(W * W)
    binary = margins
    binary[margins > 0] = 1
    row_sum = np.sum(binary, axis=1)
    binary[np.arange(num_train), y] = -row_sum.T
    return loss, np.dot(X.T, binary) / num_train + 2 * reg * W


def conv_forward(x, w, b, stride=2, pad=1):
    """A convolution by four loops, as in CS231n."""
    N, C, H, W = x.shape
    F, _, HH, WW = w.shape
    H_out = 1 + (H + 2 * pad - HH) // stride
    W_out = 1 + (W + 2 * pad - WW) // stride
    x_pad = np.pad(x, ((0,), (0,), (pad,), (pad,)), mode="constant")
    out = np.zeros((N, F, H_out, W_out))
    for n in range(N):
        for f in range(F):
            for i in range(H_out):
                for j in range(W_out):
                    hs, ws = i * stride, j * stride
                    out[n, f, i, j] = np.sum(x_pad[n, :, hs : hs + HH, ws : ws + WW] * w[f]) + b[f]
    return out


def policy_iteration(rewards, n=4, gamma=0.9):
    """Policies of a gridworld that are evaluated and improved until they stay."""
    actions = [(-1, 0), (1, 0), (0, -1), (0, 1)]
    policy = np.zeros((n, n), dtype=int)
    V = np.zeros((n, n))
    stable = False
    while not stable:
        for _ in range(30):
            for i in range(n):
                for j in range(n):
                    q = np.zeros(4)
                    for k, (di, dj) in enumerate(actions):
                        a, b = min(max(i + di, 0), n - 1), min(max(j + dj, 0), n - 1)
                        q[k] = rewards[a, b] + gamma * V[a, b]
                    V[i, j] = q[policy[i, j]]
        stable = True
        for i in range(n):
            for j in range(n):
                q = np.zeros(4)
                for k, (di, dj) in enumerate(actions):
                    a, b = min(max(i + di, 0), n - 1), min(max(j + dj, 0), n - 1)
                    q[k] = rewards[a, b] + gamma * V[a, b]
                best = np.argmax(q)
                if q[best] > q[policy[i, j]] + 1e-9:
                    policy[i, j] = best
                    stable = False
    return policy, V


def gamblers_problem(p, goal=20):
    """Values of the gambler's problem, after Sutton and Barto."""
    V = np.zeros(goal + 1)
    V[goal] = 1.0
    while True:
        delta = 0.0
        for s in range(1, goal):
            old = V[s]
            stakes = range(min(s, goal - s) + 1)
            V[s] = max(p * V[s + a] + (1 - p) * V[s - a] for a in stakes)
            delta = max(delta, abs(old - V[s]))
        if delta < 1e-6:
            break
    return V


def lqr(A, B, Q, R):
    """A regulator by iterations of Riccati's equation."""
    P = Q.copy()
    for _ in range(200):
        K = np.linalg.inv(R + B.T @ P @ B) @ (B.T @ P @ A)
        Pn = A.T @ P @ (A - B @ K) + Q
        if np.max(np.abs(Pn - P)) < 1e-10:
            break
        P = Pn
    eigenvalues = np.linalg.eigvals(A - B @ K)
    return K, P, np.max(np.abs(eigenvalues))


def levinson_durbin(x, order=4):
    """Coefficients of linear prediction out of autocorrelations."""
    n = len(x)
    r = np.array([np.dot(x[: n - k], x[k:]) for k in range(order + 1)]) / n
    a = np.zeros(order + 1)
    a[0] = 1.0
    error = r[0]
    reflections = []
    for m in range(1, order + 1):
        k = -np.dot(a[:m], r[m:0:-1]) / error
        reflections.append(k)
        a[1 : m + 1] = a[1 : m + 1] + k * a[m - 1 :: -1][:m]
        error *= 1 - k**2
    return a, error, np.array(reflections)


def least_mean_squares(x, d, taps=4, mu=0.05):
    """A filter that adapts to what is wanted."""
    w = np.zeros(taps)
    y, e = np.zeros(len(x)), np.zeros(len(x))
    for n in range(taps - 1, len(x)):
        window = x[n - taps + 1 : n + 1][::-1]
        y[n] = np.dot(w, window)
        e[n] = d[n] - y[n]
        w += mu * e[n] * window
    return y, e, w


def ekf_localization(controls, observations, dt=0.1):
    """An extended Kalman filter of a robot, as in PythonRobotics."""
    Q = np.diag([0.1, 0.1, np.deg2rad(1.0), 1.0]) ** 2
    R = np.diag([1.0, 1.0]) ** 2
    H = np.array([[1, 0, 0, 0], [0, 1, 0, 0]])
    x, P = np.zeros((4, 1)), np.eye(4)
    path = x
    for u, z in zip(controls, observations):
        yaw, v = x[2, 0], u[0]
        F = np.array([[1.0, 0, 0, 0], [0, 1.0, 0, 0], [0, 0, 1.0, 0], [0, 0, 0, 0]])
        B = np.array([[dt * math.cos(yaw), 0], [dt * math.sin(yaw), 0], [0.0, dt], [1.0, 0.0]])
        jF = np.array([
            [1.0, 0.0, -dt * v * math.sin(yaw), dt * math.cos(yaw)],
            [0.0, 1.0, dt * v * math.cos(yaw), dt * math.sin(yaw)],
            [0.0, 0.0, 1.0, 0.0],
            [0.0, 0.0, 0.0, 1.0],
        ])  # fmt: skip
        x = F @ x + B @ u.reshape(2, 1)
        P = jF @ P @ jF.T + Q
        y = z.reshape(2, 1) - H @ x
        S = H @ P @ H.T + R
        K = P @ H.T @ np.linalg.inv(S)
        x = x + K @ y
        P = (np.eye(len(x)) - K @ H) @ P
        path = np.hstack((path, x))
    return path, P


def inverse_kinematics(theta, target):
    """Angles of an arm of three links whose hand reaches for a target."""
    lengths = np.array([1.0, 0.8, 0.5])
    for _ in range(20):
        angles = np.cumsum(theta)
        tip = np.array([np.sum(lengths * np.cos(angles)), np.sum(lengths * np.sin(angles))])
        error = target - tip
        if np.linalg.norm(error) < 1e-8:
            break
        J = np.zeros((2, 3))
        for i in range(3):
            J[0, i] = -np.sum(lengths[i:] * np.sin(angles[i:]))
            J[1, i] = np.sum(lengths[i:] * np.cos(angles[i:]))
        theta = theta + np.linalg.pinv(J) @ error
    return np.arctan2(np.sin(theta), np.cos(theta)), tip


def blahut_arimoto(channel):
    """The capacity of a channel."""
    p = np.ones(channel.shape[0]) / channel.shape[0]
    capacity = 0.0
    for _ in range(500):
        q = p[:, None] * channel
        q = q / q.sum(axis=0)
        r = np.prod(np.power(q, channel), axis=1)
        r = r / r.sum()
        tolerance = np.linalg.norm(r - p)
        p = r
        if tolerance < 1e-9:
            break
    for i in range(channel.shape[0]):
        for j in range(channel.shape[1]):
            if p[i] > 0 and channel[i, j] > 0:
                capacity += p[i] * channel[i, j] * np.log(q[i, j] / p[i])
    return capacity / np.log(2), p


def poisson_regression(X, y):
    """A generalised linear model by weighted least squares that are repeated."""
    beta = np.zeros(X.shape[1])
    for _ in range(15):
        eta = X @ beta
        mu = np.exp(eta)
        z = eta + (y - mu) / mu
        WX = X * mu[:, None]
        beta_new = np.linalg.solve(X.T @ WX, WX.T @ z)
        converged = np.allclose(beta, beta_new, atol=1e-10)
        beta = beta_new
        if converged:
            break
    se = np.sqrt(np.diag(np.linalg.inv(X.T @ (X * mu[:, None]))))
    return beta, se


def lowess(x, y, f=0.5):
    """Local lines with tricube weights."""
    n = len(x)
    r = int(np.ceil(f * n))
    h = [np.sort(np.abs(x - x[i]))[r] for i in range(n)]
    w = np.clip(np.abs((x[:, None] - x[None, :]) / h), 0.0, 1.0)
    w = (1 - w**3) ** 3
    yest = np.zeros(n)
    for i in range(n):
        weights = w[:, i]
        b = np.array([np.sum(weights * y), np.sum(weights * y * x)])
        A = np.array([[np.sum(weights), np.sum(weights * x)],
                      [np.sum(weights * x), np.sum(weights * x * x)]])  # fmt: skip
        beta = np.linalg.solve(A, b)
        yest[i] = beta[0] + beta[1] * x[i]
    return yest


def kaplan_meier(times, events):
    """The share that survives, at each time of an event."""
    order = np.argsort(times)
    times, events = times[order], events[order]
    unique = np.unique(times[events == 1])
    survival, s = [], 1.0
    for t in unique:
        at_risk = np.sum(times >= t)
        died = np.sum((times == t) & (events == 1))
        s *= 1 - died / at_risk
        survival.append(s)
    return unique, np.array(survival)


def permutation_test(x, y, orders):
    """How often shuffled groups differ as much as the two."""
    pooled = np.concatenate([x, y])
    observed = np.mean(x) - np.mean(y)
    n = len(x)
    count = 0
    for order in orders:
        shuffled = pooled[order]
        if abs(shuffled[:n].mean() - shuffled[n:].mean()) >= abs(observed):
            count += 1
    return observed, (count + 1) / (len(orders) + 1)


def gibbs(z, rho=0.7):
    """Samples of two correlated normals, one after the other."""
    n = z.shape[0]
    samples = np.empty((n, 2))
    x, y = 0.0, 0.0
    sd = np.sqrt(1 - rho**2)
    for i in range(n):
        x = rho * y + sd * z[i, 0]
        y = rho * x + sd * z[i, 1]
        samples[i] = [x, y]
    burned = samples[n // 4 :]
    return burned.mean(axis=0), np.corrcoef(burned.T)


def garch_likelihood(params, returns):
    """The negative logarithm of the likelihood of GARCH(1, 1)."""
    omega, alpha, beta = np.exp(params[0]), params[1], params[2]
    T = len(returns)
    sigma2 = np.zeros(T)
    sigma2[0] = np.var(returns)
    for t in range(1, T):
        sigma2[t] = omega + alpha * returns[t - 1] ** 2 + beta * sigma2[t - 1]
    return 0.5 * np.sum(np.log(2 * np.pi) + np.log(sigma2) + returns**2 / sigma2)


def _network(r):
    shapes = (4, 3), (4, 4), (3, 4), (4, 1), (3, 1)
    return (*(0.5 * r.normal(size=shape) for shape in shapes), r.integers(0, 3, 5),
            r.integers(0, 3, 5))  # fmt: skip


PROGRAMS = [
    (boids, lambda r: (r.uniform(size=(6, 2)), 0.1 * r.normal(size=(6, 2))), False),
    (perlin_noise, lambda r: (r.normal(size=(3, 3, 2)),), True),
    (char_rnn, _network, True),
    (svm_loss, lambda r: (r.normal(size=(4, 3)), r.normal(size=(6, 4)), r.integers(0, 3, 6)),
     True),
    (conv_forward, lambda r: (r.normal(size=(2, 2, 5, 5)), r.normal(size=(2, 2, 3, 3)),
                              r.normal(size=2)), True),
    (policy_iteration, lambda r: (r.normal(size=(4, 4)),), False),
    (gamblers_problem, lambda r: (np.array(0.4),), False),
    (lqr, lambda r: (np.array([[1.0, 0.1], [0.0, 1.0]]), np.array([[0.0], [0.1]]), np.eye(2),
                     np.array([[0.5]])), False),
    (levinson_durbin, lambda r: (r.normal(size=20),), True),
    (least_mean_squares, lambda r: (r.normal(size=16), r.normal(size=16)), True),
    (ekf_localization, lambda r: (r.normal(size=(6, 2)), r.normal(size=(6, 2))), True),
    (inverse_kinematics, lambda r: (np.array([0.3, 0.4, 0.2]), np.array([1.2, 0.9])), False),
    (blahut_arimoto, lambda r: (r.dirichlet(np.ones(4), 3),), False),
    (poisson_regression, lambda r: (0.4 * r.normal(size=(20, 3)), 1.0 * r.poisson(2.0, 20)), False),
    (lowess, lambda r: (np.arange(9.0) + 0.1 * r.normal(size=9), r.normal(size=9)), True),
    (kaplan_meier, lambda r: (1.0 * r.integers(1, 9, 15), r.integers(0, 2, 15)), False),
    (permutation_test, lambda r: (r.normal(size=6), r.normal(size=5) + 0.5,
                                  np.array([r.permutation(11) for _ in range(20)])), False),
    (gibbs, lambda r: (r.normal(size=(16, 2)),), True),
    (garch_likelihood, lambda r: (np.array([-2.0, 0.1, 0.8]), r.normal(size=12)), True),
]  # fmt: skip

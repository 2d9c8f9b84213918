"""Differential equations, physics and stencils, as they are written for NumPy."""

import numpy as np


def euler_pendulum(state):
    """Explicit Euler steps of a damped pendulum."""
    dt, damping = 0.01, 0.25
    history = np.zeros((50, 2))
    history[0] = state
    for i in range(1, 50):
        theta, omega = history[i - 1]
        history[i, 0] = theta + dt * omega
        history[i, 1] = omega - dt * (damping * omega + 9.81 * np.sin(theta))
    return history


def runge_kutta_lorenz(y):
    """Fourth-order Runge-Kutta steps of the Lorenz system."""

    def f(v):
        x, y, z = v
        return np.array([10.0 * (y - x), x * (28.0 - z) - y, x * y - 8.0 / 3.0 * z])

    h = 0.005
    out = [y]
    for _ in range(40):
        k1 = f(y)
        k2 = f(y + h / 2 * k1)
        k3 = f(y + h / 2 * k2)
        k4 = f(y + h * k3)
        y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        out.append(y)
    return np.array(out)


def lotka_volterra(initial, rates):
    """Predators and prey by Heun's method."""
    alpha, beta, delta, gamma = rates
    n = 60
    x = np.empty(n)
    y = np.empty(n)
    x[0], y[0] = initial
    dt = 0.02
    for t in range(n - 1):
        dx = alpha * x[t] - beta * x[t] * y[t]
        dy = delta * x[t] * y[t] - gamma * y[t]
        px, py = x[t] + dt * dx, y[t] + dt * dy
        x[t + 1] = x[t] + dt / 2 * (dx + alpha * px - beta * px * py)
        y[t + 1] = y[t] + dt / 2 * (dy + delta * px * py - gamma * py)
    return np.column_stack((x, y))


def heat_explicit(u):
    """The heat equation in one dimension, explicit, with fixed ends."""
    u = u.copy()
    r = 0.4
    for _ in range(30):
        u[1:-1] += r * (u[2:] - 2 * u[1:-1] + u[:-2])
    return u


def heat_2d(u):
    """The heat equation in two dimensions with insulated sides."""
    u = np.array(u)
    for _ in range(20):
        padded = np.pad(u, 1, mode="edge")
        lap = padded[:-2, 1:-1] + padded[2:, 1:-1] + padded[1:-1, :-2] + padded[1:-1, 2:] - 4 * u
        u = u + 0.2 * lap
    return u


def wave_leapfrog(u0):
    """The wave equation by leapfrog steps."""
    c2 = 0.81
    prev = u0.copy()
    cur = u0.copy()
    cur[1:-1] = u0[1:-1] + 0.5 * c2 * (u0[2:] - 2 * u0[1:-1] + u0[:-2])
    for _ in range(25):
        nxt = np.zeros_like(cur)
        nxt[1:-1] = 2 * cur[1:-1] - prev[1:-1] + c2 * (cur[2:] - 2 * cur[1:-1] + cur[:-2])
        prev, cur = cur, nxt
    return cur


def advection_upwind(u):
    """Periodic upwind advection."""
    for _ in range(20):
        u = u - 0.5 * (u - np.roll(u, 1))
    return u


def burgers(u):
    """Burgers' equation with viscosity."""
    dx, dt, nu = 0.1, 0.002, 0.07
    for _ in range(30):
        un = u.copy()
        u = (
            un
            - un * dt / dx * (un - np.roll(un, 1))
            + nu * dt / dx**2 * (np.roll(un, -1) - 2 * un + np.roll(un, 1))
        )
    return u


def jacobi_poisson(f):
    """Jacobi iterations for Poisson's equation until they hardly change."""
    p = np.zeros_like(f)
    for _ in range(200):
        old = p.copy()
        p[1:-1, 1:-1] = 0.25 * (
            old[2:, 1:-1] + old[:-2, 1:-1] + old[1:-1, 2:] + old[1:-1, :-2] - f[1:-1, 1:-1]
        )
        if np.abs(p - old).max() < 1e-4:
            break
    return p


def gauss_seidel(a, b):
    """Gauss-Seidel sweeps."""
    n = len(b)
    x = np.zeros(n)
    for _ in range(15):
        for i in range(n):
            s = np.dot(a[i, :i], x[:i]) + np.dot(a[i, i + 1 :], x[i + 1 :])
            x[i] = (b[i] - s) / a[i, i]
    return x


def n_body(pos, vel, mass):
    """Velocity Verlet steps of bodies that attract each other."""

    def acceleration(pos):
        d = pos[np.newaxis, :, :] - pos[:, np.newaxis, :]
        r2 = np.sum(d**2, axis=-1) + 0.01
        return np.sum(mass[np.newaxis, :, np.newaxis] * d / r2[..., np.newaxis] ** 1.5, axis=1)

    dt = 0.01
    acc = acceleration(pos)
    for _ in range(10):
        vel = vel + acc * dt / 2
        pos = pos + vel * dt
        acc = acceleration(pos)
        vel = vel + acc * dt / 2
    kinetic = 0.5 * np.sum(mass * np.linalg.norm(vel, axis=1) ** 2)
    return pos, vel, kinetic


def gray_scott(u, v):
    """Reaction and diffusion of two substances on a torus."""

    def laplacian(z):
        return (
            np.roll(z, 1, axis=0) + np.roll(z, -1, axis=0)
            + np.roll(z, 1, axis=1) + np.roll(z, -1, axis=1) - 4 * z
        )  # fmt: skip

    for _ in range(15):
        uvv = u * v * v
        u = u + 0.16 * laplacian(u) - uvv + 0.06 * (1 - u)
        v = v + 0.08 * laplacian(v) + uvv - (0.06 + 0.062) * v
    return u, v


def thomas(lower, diag, upper, rhs):
    """The algorithm of Thomas for tridiagonal systems."""
    n = len(diag)
    c = np.zeros(n)
    d = np.zeros(n)
    c[0] = upper[0] / diag[0]
    d[0] = rhs[0] / diag[0]
    for i in range(1, n):
        m = diag[i] - lower[i] * c[i - 1]
        c[i] = upper[i] / m
        d[i] = (rhs[i] - lower[i] * d[i - 1]) / m
    x = np.zeros(n)
    x[-1] = d[-1]
    for i in range(n - 2, -1, -1):
        x[i] = d[i] - c[i] * x[i + 1]
    return x


def crank_nicolson(psi):
    """Implicit diffusion by a dense solve a step."""
    n = psi.shape[0]
    r = 0.3
    a = np.diag((1 + r) * np.ones(n)) + np.diag(-r / 2 * np.ones(n - 1), 1)
    a += np.diag(-r / 2 * np.ones(n - 1), -1)
    b = 2 * np.eye(n) - a
    for _ in range(5):
        psi = np.linalg.solve(a, b @ psi)
    return psi


def ising_energy(spins):
    """Energy and magnetisation of a grid of spins, and one checkerboard sweep at temperature 0."""
    s = spins.copy()
    i, j = np.indices(s.shape)
    for parity in (0, 1):
        field = np.roll(s, 1, 0) + np.roll(s, -1, 0) + np.roll(s, 1, 1) + np.roll(s, -1, 1)
        flip = ((i + j) % 2 == parity) & (s * field < 0)
        s[flip] *= -1
    energy = -np.sum(s * (np.roll(s, 1, 0) + np.roll(s, 1, 1)))
    return s, energy, s.mean()


def shallow_water(h):
    """A drop of water: Lax-Friedrichs steps with reflecting walls."""
    h = h.copy()
    hu = np.zeros(h.shape)
    for _ in range(10):
        flux = hu
        momentum = hu**2 / h + 0.5 * 9.8 * h**2
        h_new = h.copy()
        hu_new = hu.copy()
        h_new[1:-1] = 0.5 * (h[2:] + h[:-2]) - 0.05 * (flux[2:] - flux[:-2])
        hu_new[1:-1] = 0.5 * (hu[2:] + hu[:-2]) - 0.05 * (momentum[2:] - momentum[:-2])
        h_new[0], h_new[-1] = h_new[1], h_new[-2]
        hu_new[0], hu_new[-1] = -hu_new[1], -hu_new[-2]
        h, hu = h_new, hu_new
    return h, hu


def projectile_with_drag(v0):
    """Steps until the projectile is on the ground."""
    pos = np.array([0.0, 1.0])
    vel = v0.copy()
    g = np.array([0.0, -9.81])
    t = 0.0
    while pos[1] > 0:
        speed = np.sqrt(np.dot(vel, vel))
        vel = vel + 0.01 * (g - 0.1 * speed * vel)
        pos = pos + 0.01 * vel
        t += 0.01
    return pos, t


def spring_chain(x):
    """Masses between springs: energy, forces by `np.diff`, and the tridiagonal stiffness matrix."""
    stretch = np.diff(x, prepend=0.0, append=10.0) - 1.0
    energy = 0.5 * np.sum(stretch**2)
    force = np.diff(stretch)
    n = x.size
    k = 2 * np.eye(n) - np.eye(n, k=1) - np.eye(n, k=-1)
    return energy, force, k @ x


def game_of_life(board):
    """Conway's rules on a torus."""
    for _ in range(6):
        n = sum(
            np.roll(np.roll(board, dy, axis=0), dx, axis=1)
            for dy in (-1, 0, 1) for dx in (-1, 0, 1) if (dx, dy) != (0, 0)
        )  # fmt: skip
        board = ((n == 3) | ((board == 1) & (n == 2))).astype(int)
    return board


PROGRAMS = [
    (euler_pendulum, lambda r: (r.normal(size=2),), True),
    (runge_kutta_lorenz, lambda r: (r.normal(size=3),), True),
    (lotka_volterra, lambda r: (r.uniform(1, 2, 2), r.uniform(0.5, 1.5, 4)), True),
    (heat_explicit, lambda r: (r.normal(size=20),), True),
    (heat_2d, lambda r: (r.normal(size=(8, 9)),), True),
    (wave_leapfrog, lambda r: (r.normal(size=21),), True),
    (advection_upwind, lambda r: (r.normal(size=16),), True),
    (burgers, lambda r: (r.normal(size=24),), True),
    (jacobi_poisson, lambda r: (r.normal(size=(10, 10)) * 0.1,), False),
    (gauss_seidel, lambda r: (r.normal(size=(6, 6)) + 8 * np.eye(6), r.normal(size=6)), True),
    (n_body, lambda r: (r.normal(size=(5, 3)), r.normal(size=(5, 3)), r.uniform(1, 2, 5)), True),
    (gray_scott, lambda r: (r.uniform(size=(8, 8)), r.uniform(size=(8, 8))), True),
    (thomas, lambda r: (r.normal(size=8), 5 + r.normal(size=8), r.normal(size=8),
                        r.normal(size=8)), True),
    (crank_nicolson, lambda r: (r.normal(size=7),), True),
    (ising_energy, lambda r: (r.choice([-1, 1], size=(6, 6)),), False),
    (shallow_water, lambda r: (1 + 0.1 * r.uniform(size=20),), True),
    (projectile_with_drag, lambda r: (np.array([3.0, 4.0]) + r.uniform(size=2),), False),
    (spring_chain, lambda r: (np.sort(r.uniform(0, 10, 7)),), True),
    (game_of_life, lambda r: (r.integers(0, 2, (8, 8)),), False),
]  # fmt: skip

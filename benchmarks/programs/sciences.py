"""Equations of physics, chemistry and engineering, as their textbooks solve them with NumPy."""

import numpy as np


def adaptive_runge_kutta(y0):
    """Steps of Heun's and Euler's methods whose difference chooses the next step."""
    f = lambda t, y: np.array([y[1], -np.sin(y[0]) - 0.1 * y[1]])  # noqa: E731
    t, h, y = 0.0, 0.1, y0
    while t < 2.0:
        h = min(h, 2.0 - t)
        k1 = f(t, y)
        k2 = f(t + h, y + h * k1)
        error = np.linalg.norm(h * (k2 - k1) / 2)
        if error < 1e-2:
            t = t + h
            y = y + h * (k1 + k2) / 2
        h = 0.9 * h * min(2.0, max(0.3, np.sqrt(1e-2 / (error + 1e-12))))
    return y


def backward_euler(y0):
    """A stiff system by Newton's method in every step."""
    A = np.array([[-100.0, 1.0], [0.0, -1.0]])
    h, y = 0.1, y0
    for _ in range(10):
        z = y.copy()
        for _ in range(4):
            g = z - y - h * (A @ z - 0.1 * z**3)
            J = np.eye(2) - h * (A - np.diag(0.3 * z**2))
            z = z - np.linalg.solve(J, g)
        y = z
    return y


def lennard_jones(pos, vel):
    """Molecular dynamics by velocity Verlet in a periodic box."""
    box, dt = 4.0, 0.002

    def forces(x):
        d = x[:, None, :] - x[None, :, :]
        d = d - box * np.round(d / box)
        r2 = np.sum(d**2, axis=-1) + np.eye(len(x))
        inv6 = 1.0 / r2**3
        pair = 24 * (2 * inv6**2 - inv6) / r2
        np.fill_diagonal(pair, 0.0)
        return np.sum(pair[..., None] * d, axis=1)

    f = forces(pos)
    for _ in range(5):
        vel = vel + 0.5 * dt * f
        pos = (pos + dt * vel) % box
        f = forces(pos)
        vel = vel + 0.5 * dt * f
    return pos, vel, 0.5 * (vel**2).sum()


def double_pendulum(state):
    """Two joined pendulums by Runge and Kutta."""
    g, m1, m2, l1, l2 = 9.81, 1.0, 1.0, 1.0, 1.0

    def rates(s):
        t1, t2, w1, w2 = s
        d = t1 - t2
        den = 2 * m1 + m2 - m2 * np.cos(2 * d)
        a1 = (
            -g * (2 * m1 + m2) * np.sin(t1)
            - m2 * g * np.sin(t1 - 2 * t2)
            - 2 * np.sin(d) * m2 * (w2**2 * l2 + w1**2 * l1 * np.cos(d))
        ) / (l1 * den)
        a2 = (
            2
            * np.sin(d)
            * (w1**2 * l1 * (m1 + m2) + g * (m1 + m2) * np.cos(t1) + w2**2 * l2 * m2 * np.cos(d))
        ) / (l2 * den)
        return np.array([w1, w2, a1, a2])

    h = 0.01
    path = [state]
    for _ in range(10):
        k1 = rates(state)
        k2 = rates(state + h / 2 * k1)
        k3 = rates(state + h / 2 * k2)
        k4 = rates(state + h * k3)
        state = state + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        path.append(state)
    return np.array(path)


def sir_epidemic(initial):
    """Susceptible, infected and recovered, and when most are infected."""
    beta, gamma, dt, n = 0.4, 0.1, 0.5, 60
    S, I, R = np.empty(n), np.empty(n), np.empty(n)  # noqa: E741
    S[0], I[0], R[0] = initial
    for t in range(n - 1):
        new = beta * S[t] * I[t] * dt
        gone = gamma * I[t] * dt
        S[t + 1] = S[t] - new
        I[t + 1] = I[t] + new - gone
        R[t + 1] = R[t] + gone
    return S, I, R, I.argmax()


def fitzhugh_nagumo(v0):
    """A ring of neurons that excite each other."""
    v, w = v0, np.zeros_like(v0)
    for _ in range(20):
        lap = np.roll(v, 1) - 2 * v + np.roll(v, -1)
        v, w = v + 0.1 * (v - v**3 / 3 - w + lap + 0.5), w + 0.1 * 0.08 * (v + 0.7 - 0.8 * w)
    return v, w


def split_step(psi0):
    """Schrödinger's equation: half a step of the potential, one of the momentum."""
    n, dt = len(psi0), 0.05
    x = np.linspace(-5, 5, n, endpoint=False)
    k = 2 * np.pi * np.fft.fftfreq(n, d=x[1] - x[0])
    half = np.exp(-0.5j * dt * 0.5 * x**2)
    kinetic = np.exp(-0.5j * dt * k**2)
    psi = psi0 / np.sqrt(np.sum(np.abs(psi0) ** 2))
    for _ in range(10):
        psi = half * np.fft.ifft(kinetic * np.fft.fft(half * psi))
    return np.abs(psi) ** 2, np.vdot(psi, x * psi).real


def korteweg_de_vries(u0):
    """Solitons, with the linear part exact in the spectrum."""
    n, dt = u0.size, 1e-3
    k = np.fft.rfftfreq(n, 1 / n)
    linear = np.exp(1j * k**3 * dt)
    u_hat = np.fft.rfft(u0)
    for _ in range(8):
        u = np.fft.irfft(u_hat, n)
        u_hat = linear * (u_hat - 3j * k * dt * np.fft.rfft(u**2))
    return np.fft.irfft(u_hat, n)


def heisenberg_chain(couplings):
    """The energies of three spins in a ring, of Pauli's matrices."""
    sx = np.array([[0, 1], [1, 0]], dtype=complex) / 2
    sy = np.array([[0, -1j], [1j, 0]]) / 2
    sz = np.diag([0.5, -0.5]).astype(complex)
    one = np.eye(2)
    H = np.zeros((8, 8), dtype=complex)
    for site, J in enumerate(couplings):
        for s in (sx, sy, sz):
            ops = [one, one, one]
            ops[site] = s
            ops[(site + 1) % 3] = s
            H += J * np.kron(np.kron(ops[0], ops[1]), ops[2])
    return np.linalg.eigvalsh(H)


def particle_in_a_well(V):
    """The lowest states of a potential by differences."""
    n = len(V)
    H = np.diag(V + 2.0) - np.eye(n, k=1) - np.eye(n, k=-1)
    E, psi = np.linalg.eigh(H)
    ground = psi[:, 0] ** 2
    return E[:3], ground / np.trapezoid(ground)


def metropolis(steps, uniforms):
    """A walk through a double well with given random numbers."""
    energy = lambda x: (x**2 - 1) ** 2  # noqa: E731
    x, accepted = 0.5, 0
    chain = np.zeros(len(steps))
    for i in range(len(steps)):
        proposal = x + steps[i]
        if uniforms[i] < np.exp(-2.0 * (energy(proposal) - energy(x))):
            x = proposal
            accepted += 1
        chain[i] = x
    return chain, accepted / len(steps)


def mean_squared_displacement(steps):
    """Of random walks, for every lag."""
    paths = np.cumsum(steps, axis=0)
    n = len(paths)
    msd = [np.mean(np.sum((paths[lag:] - paths[:-lag]) ** 2, axis=-1)) for lag in range(1, n // 2)]
    slope, intercept = np.polyfit(np.arange(1, n // 2), np.array(msd), 1)
    return np.array(msd), slope


def ising_sweep(spins, uniforms):
    """A sweep over a lattice of spins with given random numbers."""
    spins = spins.copy()
    n = spins.shape[0]
    for i in range(n):
        for j in range(n):
            near = spins[(i + 1) % n, j] + spins[i - 1, j] + spins[i, (j + 1) % n] + spins[i, j - 1]
            dE = 2 * spins[i, j] * near
            if dE <= 0 or uniforms[i, j] < np.exp(-dE / 2.2):
                spins[i, j] *= -1
    return spins, spins.mean()


def lattice_boltzmann(F):
    """A step of streaming and collision on nine velocities."""
    cx = np.array([0, 0, 1, 1, 1, 0, -1, -1, -1])
    cy = np.array([0, 1, 1, 0, -1, -1, -1, 0, 1])
    w = np.array([4 / 9, 1 / 9, 1 / 36, 1 / 9, 1 / 36, 1 / 9, 1 / 36, 1 / 9, 1 / 36])
    for _ in range(3):
        F = np.stack([np.roll(F[..., i], (cx[i], cy[i]), axis=(1, 0)) for i in range(9)], axis=-1)
        rho = np.sum(F, 2)
        ux = np.sum(F * cx, 2) / rho
        uy = np.sum(F * cy, 2) / rho
        Feq = np.zeros(F.shape)
        for i, cxi, cyi, wi in zip(range(9), cx, cy, w):
            cu = cxi * ux + cyi * uy
            Feq[:, :, i] = rho * wi * (1 + 3 * cu + 9 * cu**2 / 2 - 3 * (ux**2 + uy**2) / 2)
        F += -(1.0 / 0.6) * (F - Feq)
    return F, np.sqrt(ux**2 + uy**2)


def lax_wendroff(u):
    """Advection of second order with a limiter of slopes."""
    c = 0.5
    for _ in range(10):
        du = np.roll(u, -1) - u
        r = (u - np.roll(u, 1)) / np.where(np.abs(du) > 1e-9, du, 1e-9)
        phi = np.maximum(0, np.minimum(1, r))
        flux = u + 0.5 * (1 - c) * phi * du
        u = u - c * (flux - np.roll(flux, 1))
    return u


def poisson_by_fft(f):
    """Poisson's equation on a torus."""
    n, m = f.shape
    kx = 2 * np.pi * np.fft.fftfreq(n, 1.0 / n)
    ky = 2 * np.pi * np.fft.fftfreq(m, 1.0 / m)
    k2 = kx[:, None] ** 2 + ky[None, :] ** 2
    k2[0, 0] = 1.0
    phi = np.fft.fft2(f) / -k2
    phi[0, 0] = 0
    return np.fft.ifft2(phi).real


def finite_elements(f):
    """A bar of linear elements, assembled element by element."""
    n = len(f)
    h = 1.0 / (n - 1)
    K, b = np.zeros((n, n)), np.zeros(n)
    ke = np.array([[1.0, -1.0], [-1.0, 1.0]]) / h
    for e in range(n - 1):
        K[e : e + 2, e : e + 2] += ke
        b[e : e + 2] += h * np.array([2 * f[e] + f[e + 1], f[e] + 2 * f[e + 1]]) / 6
    u = np.zeros(n)
    u[1:-1] = np.linalg.solve(K[1:-1, 1:-1], b[1:-1])
    return u


def multigrid(f):
    """V-cycles for a boundary problem."""

    def smooth(u, f, h):
        for _ in range(2):
            u[1:-1] += 0.6 * (0.5 * (u[:-2] + u[2:] + h * h * f[1:-1]) - u[1:-1])
        return u

    def cycle(u, f, h):
        u = smooth(u, f, h)
        if len(u) <= 3:
            return u
        r = np.zeros_like(u)
        r[1:-1] = f[1:-1] + (u[:-2] - 2 * u[1:-1] + u[2:]) / h**2
        coarse = np.zeros((len(u) + 1) // 2)
        coarse[1:-1] = (r[1:-3:2] + 2 * r[2:-2:2] + r[3:-1:2]) / 4
        e = cycle(np.zeros_like(coarse), coarse, 2 * h)
        u[::2] += e
        u[1::2] += (e[:-1] + e[1:]) / 2
        return smooth(u, f, h)

    u = np.zeros_like(f)
    for _ in range(3):
        u = cycle(u, f, 1.0 / (len(f) - 1))
    return u


def kepler(M, e):
    """The eccentric and true anomaly by Newton's method."""
    E = np.where(e < 0.8, M, np.pi)
    for _ in range(20):
        step = (E - e * np.sin(E) - M) / (1 - e * np.cos(E))
        E = E - step
        if np.max(np.abs(step)) < 1e-12:
            break
    nu = 2 * np.arctan2(np.sqrt(1 + e) * np.sin(E / 2), np.sqrt(1 - e) * np.cos(E / 2))
    return E, np.rad2deg(nu)


def decay_chain(rates):
    """Nuclides that decay into each other, by eigenvectors."""
    n = len(rates)
    A = -np.diag(rates) + np.diag(rates[:-1], -1)
    values, vectors = np.linalg.eig(A)
    start = np.zeros(n)
    start[0] = 1.0
    weights = np.linalg.solve(vectors, start)
    times = np.linspace(0, 2, 5)
    return np.real(vectors @ (weights[:, None] * np.exp(values[:, None] * times)))


def impedance(R, freqs):
    """A resonant circuit over frequencies."""
    L, C = 1e-3, 1e-6
    w = 2 * np.pi * freqs
    Z = R[:, None] + 1j * w * L + 1 / (1j * w * C)
    H = R[:, None] / Z
    return 20 * np.log10(np.abs(H)), np.angle(H, deg=True), freqs[np.argmin(np.abs(Z), axis=1)]


def poles(coefficients):
    """Whether a system is stable, by the roots of its polynomial."""
    roots = np.roots(coefficients)
    return np.sort(np.abs(roots)), np.all(roots.real < 0)


def biot_savart(points, current):
    """The field of a ring by a sum over its pieces."""
    phi = np.linspace(0, 2 * np.pi, 17)
    ring = np.column_stack([np.cos(phi), np.sin(phi), np.zeros_like(phi)])
    mid, dl = (ring[1:] + ring[:-1]) / 2, np.diff(ring, axis=0)
    r = points[:, None, :] - mid
    norm = np.linalg.norm(r, axis=-1, keepdims=True)
    return 1e-7 * current * np.sum(np.cross(dl, r) / norm**3, axis=1)


def rule_thirty(cells):
    """Wolfram's automaton, generation by generation."""
    rule = np.array([int(b) for b in f"{30:08b}"[::-1]])
    history = [cells]
    for _ in range(8):
        left, right = np.roll(cells, 1), np.roll(cells, -1)
        cells = rule[4 * left + 2 * cells + right]
        history.append(cells)
    return np.vstack(history)


def point_vortices(z):
    """Vortices that carry each other, in the complex plane."""
    gamma = np.array([1.0, -0.5, 0.7, 0.3])
    z = z[:, 0] + 1j * z[:, 1]
    for _ in range(5):
        d = z[:, None] - z[None, :]
        np.fill_diagonal(d, 1.0)
        u = 1.0 / d
        np.fill_diagonal(u, 0.0)
        z = z + 0.05 * np.conj((u * gamma).sum(axis=1) / (2j * np.pi))
    return z, np.abs(z)


def thin_film(thickness):
    """Reflection of a layer by matrices of transfer."""
    n0, n1, n2 = 1.0, 1.38, 1.52
    out = []
    for wavelength in np.linspace(400, 700, 4):
        d = 2 * np.pi * n1 * thickness / wavelength
        M = np.array([[np.cos(d), 1j * np.sin(d) / n1], [1j * n1 * np.sin(d), np.cos(d)]])
        B, C = M @ np.array([1, n2])
        r = (n0 * B - C) / (n0 * B + C)
        out.append(np.abs(r) ** 2)
    return np.array(out)


PROGRAMS = [
    (adaptive_runge_kutta, lambda r: (np.array([1.0, 0.2]) + 0.1 * r.normal(size=2),), False),
    (backward_euler, lambda r: (r.normal(size=2),), True),
    (lennard_jones, lambda r: (np.stack(np.meshgrid([0.5, 2.5], [0.5, 2.5]), -1).reshape(4, 2)
                               + 0.1 * r.normal(size=(4, 2)), r.normal(size=(4, 2))), True),
    (double_pendulum, lambda r: (r.normal(size=4),), True),
    (sir_epidemic, lambda r: (np.array([0.95, 0.04, 0.01]),), True),
    (fitzhugh_nagumo, lambda r: (r.normal(size=12),), True),
    (split_step, lambda r: (np.exp(-((np.linspace(-5, 5, 32) - 1) ** 2)) + 0j,), False),
    (korteweg_de_vries, lambda r: (r.normal(size=16),), True),
    (heisenberg_chain, lambda r: (r.uniform(0.5, 1.5, 3),), False),
    (particle_in_a_well, lambda r: (r.uniform(0, 1, 8),), True),
    (metropolis, lambda r: (r.normal(size=20), r.uniform(size=20)), False),
    (mean_squared_displacement, lambda r: (r.normal(size=(12, 5, 2)),), True),
    (ising_sweep, lambda r: (r.choice([-1, 1], (5, 5)), r.uniform(size=(5, 5))), False),
    (lattice_boltzmann, lambda r: (1 + 0.1 * r.uniform(size=(4, 5, 9)),), True),
    (lax_wendroff, lambda r: (r.normal(size=14),), True),
    (poisson_by_fft, lambda r: (r.normal(size=(6, 8)),), True),
    (finite_elements, lambda r: (r.normal(size=9),), True),
    (multigrid, lambda r: (r.normal(size=17),), True),
    (kepler, lambda r: (r.uniform(0, 6, 5), r.uniform(0, 0.9, 5)), False),
    (decay_chain, lambda r: (np.array([3.0, 2.0, 1.0, 0.5]),), False),
    (impedance, lambda r: (r.uniform(5, 50, 3), np.linspace(3e3, 8e3, 6)), True),
    (poles, lambda r: (np.array([1.0, 3.0, 5.0, 2.0]) + 0.1 * r.uniform(size=4),), False),
    (biot_savart, lambda r: (r.normal(size=(4, 3)), np.array(2.0)), True),
    (rule_thirty, lambda r: ((np.arange(17) == 8).astype(int),), False),
    (point_vortices, lambda r: (r.normal(size=(4, 2)),), True),
    (thin_film, lambda r: (np.array(100.0),), True),
]  # fmt: skip

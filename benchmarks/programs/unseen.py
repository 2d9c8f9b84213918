"""Thirty programs that nothing was mended for: written with the others, run once, at the end."""

import numpy as np


def fast_ica(X, W):
    """Independent components by fixed points."""
    X = X - X.mean(axis=1, keepdims=True)
    d, E = np.linalg.eigh(np.cov(X))
    Z = E @ np.diag(d**-0.5) @ E.T @ X
    for _ in range(5):
        g = np.tanh(W @ Z)
        W = g @ Z.T / Z.shape[1] - np.diag((1 - g**2).mean(axis=1)) @ W
        U, _, Vt = np.linalg.svd(W)
        W = U @ Vt
    return W @ Z


def nonnegative_factors(V, W, H):
    """Updates by products of Lee and Seung."""
    eps = 1e-9
    for _ in range(10):
        H *= (W.T @ V) / (W.T @ W @ H + eps)
        W *= (V @ H.T) / (W @ H @ H.T + eps)
    return W, H, np.linalg.norm(V - W @ H, "fro")


def alternating_least_squares(R, U, V):
    """Factors of a table of ratings with gaps."""
    mask = R > 0
    lam = 0.1 * np.eye(U.shape[1])
    for _ in range(3):
        for i in range(R.shape[0]):
            Vi = V[mask[i]]
            U[i] = np.linalg.solve(Vi.T @ Vi + lam, Vi.T @ R[i, mask[i]])
        for j in range(R.shape[1]):
            Uj = U[mask[:, j]]
            V[j] = np.linalg.solve(Uj.T @ Uj + lam, Uj.T @ R[mask[:, j], j])
    return U @ V.T


def skip_gram(vectors, contexts, pairs, negatives):
    """A step of word2vec with negative samples."""
    grad = np.zeros_like(vectors)
    loss = 0.0
    for (center, target), wrong in zip(pairs, negatives):
        ids = np.concatenate(([target], wrong))
        labels = np.zeros(len(ids))
        labels[0] = 1.0
        scores = 1 / (1 + np.exp(-contexts[ids] @ vectors[center]))
        loss -= np.sum(labels * np.log(scores) + (1 - labels) * np.log(1 - scores))
        np.add.at(grad, center, (scores - labels) @ contexts[ids])
    return loss, vectors - 0.1 * grad


def nelder_mead(simplex):
    """Moves of a simplex towards a minimum."""
    f = lambda p: (1 - p[0]) ** 2 + 5 * (p[1] - p[0] ** 2) ** 2  # noqa: E731
    for _ in range(15):
        values = np.array([f(p) for p in simplex])
        simplex = simplex[np.argsort(values)]
        center = simplex[:-1].mean(axis=0)
        reflected = center + (center - simplex[-1])
        if f(reflected) < f(simplex[-2]):
            simplex[-1] = reflected
        else:
            contracted = center + 0.5 * (simplex[-1] - center)
            if f(contracted) < f(simplex[-1]):
                simplex[-1] = contracted
            else:
                simplex[1:] = simplex[0] + 0.5 * (simplex[1:] - simplex[0])
    return simplex


def two_loop_recursion(g, S, Y):
    """The direction of L-BFGS out of its history."""
    q = g.copy()
    rho = 1.0 / np.sum(S * Y, axis=1)
    alphas = []
    for i in range(len(S))[::-1]:
        a = rho[i] * S[i].dot(q)
        q -= a * Y[i]
        alphas.insert(0, a)
    r = q * (S[-1] @ Y[-1]) / (Y[-1] @ Y[-1])
    for i in range(len(S)):
        beta = rho[i] * Y[i].dot(r)
        r += S[i] * (alphas[i] - beta)
    return -r


def adaboost(X, y):
    """Stumps that are weighted by their errors."""
    n, w = len(y), np.ones(len(y)) / len(y)
    score = np.zeros(n)
    for _ in range(3):
        best, guess = np.inf, np.ones(n)
        for feature in range(X.shape[1]):
            for cut in np.quantile(X[:, feature], [0.25, 0.5, 0.75]):
                p = np.where(X[:, feature] < cut, -1.0, 1.0)
                error = w[p != y].sum()
                if error < best:
                    best, guess = error, p
        alpha = 0.5 * np.log((1 - best + 1e-10) / (best + 1e-10))
        w = w * np.exp(-alpha * y * guess)
        w /= w.sum()
        score += alpha * guess
    return np.sign(score), w


def pegasos(X, y):
    """A support vector machine by subgradients."""
    w = np.zeros(X.shape[1])
    lam, t = 0.1, 0
    for _ in range(2):
        for xi, yi in zip(X, y):
            t += 1
            eta = 1 / (lam * t)
            if yi * np.dot(w, xi) < 1:
                w = (1 - eta * lam) * w + eta * yi * xi
            else:
                w = (1 - eta * lam) * w
    return w


def lasso(X, y, lam=0.1):
    """Descent along coordinates with a soft threshold."""
    n, p = X.shape
    beta = np.zeros(p)
    for _ in range(8):
        for j in range(p):
            residual = y - X @ beta + X[:, j] * beta[j]
            rho = X[:, j] @ residual / n
            beta[j] = np.sign(rho) * max(abs(rho) - lam, 0.0) / (X[:, j] @ X[:, j] / n)
    return beta


def random_fourier_features(x, omega, phase, y):
    """A regression on random cosines."""
    phi = np.sqrt(2 / omega.shape[1]) * np.cos(x @ omega + phase)
    weights = np.linalg.solve(phi.T @ phi + 0.1 * np.eye(phi.shape[1]), phi.T @ y)
    return phi @ weights


def tsne_gradient(Y, P):
    """The divergence of an embedding, and its gradient."""
    sum_y = np.sum(np.square(Y), 1)
    num = 1 / (1 + np.add(np.add(-2 * np.dot(Y, Y.T), sum_y).T, sum_y))
    num[range(len(Y)), range(len(Y))] = 0.0
    Q = np.maximum(num / np.sum(num), 1e-12)
    PQ = P - Q
    dY = np.zeros_like(Y)
    for i in range(len(Y)):
        dY[i, :] = np.sum(np.tile(PQ[:, i] * num[:, i], (2, 1)).T * (Y[i, :] - Y), 0)
    return dY, np.sum(P * np.log(np.maximum(P, 1e-12) / Q))


def contrastive_loss(a, b):
    """InfoNCE between two views of a batch."""
    a = a / np.linalg.norm(a, axis=1, keepdims=True)
    b = b / np.linalg.norm(b, axis=1, keepdims=True)
    sim = a @ b.T / 0.1
    rows = sim - np.logaddexp.reduce(sim, axis=1, keepdims=True)
    return -np.mean(np.diag(rows)), np.mean(sim.argmax(axis=1) == np.arange(len(a)))


def graph_convolution(H, A, W):
    """A layer on a graph with normalised edges."""
    A_hat = A + np.identity(len(A))
    D = np.diag(1.0 / np.sqrt(A_hat.sum(axis=0)))
    return np.maximum(0, D @ A_hat @ D @ H @ W)


def bellman_ford(edges, weights):
    """Shortest ways by relaxing every edge."""
    n = 6
    dist = np.full(n, np.inf)
    dist[0] = 0
    for _ in range(n - 1):
        for (u, v), w in zip(edges, weights):
            if dist[u] + w < dist[v]:
                dist[v] = dist[u] + w
    return dist


def prim(w):
    """The weight of a least spanning tree."""
    n = len(w)
    reached = np.zeros(n, dtype=bool)
    best = np.full(n, np.inf)
    best[0], total = 0.0, 0.0
    for _ in range(n):
        u = np.argmin(np.where(reached, np.inf, best))
        reached[u] = True
        total += best[u]
        best = np.where(reached, best, np.minimum(best, w[u]))
    return total


def sieve(limits):
    """Primes below a hundred, and how many lie below limits."""
    prime = np.ones(100, dtype=bool)
    prime[:2] = False
    for i in range(2, 10):
        if prime[i]:
            prime[i * i :: i] = False
    return np.flatnonzero(prime), np.searchsorted(np.flatnonzero(prime), limits)


def longest_increasing(x):
    """How long the longest increasing subsequence that ends at each element is."""
    n = len(x)
    lengths = np.ones(n, dtype=int)
    for i in range(1, n):
        for j in range(i):
            if x[j] < x[i]:
                lengths[i] = max(lengths[i], lengths[j] + 1)
    return lengths, lengths.max()


def shoelace(points):
    """The area and the centroid of a polygon."""
    x, y = points.T
    cross = x * np.roll(y, -1) - np.roll(x, -1) * y
    area = 0.5 * cross.sum()
    cx = ((x + np.roll(x, -1)) * cross).sum() / (6 * area)
    cy = ((y + np.roll(y, -1)) * cross).sum() / (6 * area)
    return np.abs(area), np.array([cx, cy])


def lagrange(xs, ys, x):
    """A polynomial through points."""
    total = 0
    for i in range(len(xs)):
        term = ys[i]
        for j in range(len(xs)):
            if i != j:
                term = term * (x - xs[j]) / (xs[i] - xs[j])
        total = total + term
    return total


def gauss_legendre(c):
    """An integral by nodes of Legendre."""
    nodes, weights = np.polynomial.legendre.leggauss(5)
    x = 0.5 * (nodes + 1)
    return 0.5 * np.sum(weights * np.polyval(c, x))


def arnoldi(A, b):
    """A basis of a space of Krylov."""
    n, m = A.shape[0], 3
    Q, H = np.zeros((n, m + 1)), np.zeros((m + 1, m))
    Q[:, 0] = b / np.linalg.norm(b)
    for k in range(m):
        v = A @ Q[:, k]
        for j in range(k + 1):
            H[j, k] = Q[:, j] @ v
            v = v - H[j, k] * Q[:, j]
        H[k + 1, k] = np.linalg.norm(v)
        Q[:, k + 1] = v / H[k + 1, k]
    return Q, H


def householder(A):
    """Triangular form by reflections."""
    R = A.copy()
    for k in range(min(A.shape)):
        x = R[k:, k]
        v = x.copy()
        v[0] += np.copysign(np.linalg.norm(x), x[0])
        v /= np.linalg.norm(v)
        R[k:, k:] -= 2.0 * np.outer(v, v @ R[k:, k:])
    return np.triu(R)


def quaternion_rotation(q, v):
    """Vectors turned by a quaternion."""
    w, x, y, z = q / np.linalg.norm(q)
    R = np.array([
        [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
        [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
        [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
    ])  # fmt: skip
    return v @ R.T, np.linalg.det(R)


def quantum_fourier(state):
    """The transform of a register, and the odds of what is measured."""
    N = len(state)
    w = np.exp(2j * np.pi / N)
    i, j = np.meshgrid(np.arange(N), np.arange(N))
    F = np.power(w, i * j) / np.sqrt(N)
    out = F @ (state / np.linalg.norm(state))
    return np.abs(out) ** 2, np.allclose(F @ F.conj().T, np.eye(N))


def wiener_deconvolution(img, kernel):
    """An image without its blur."""
    H = np.fft.rfft2(kernel, s=img.shape)
    G = np.fft.rfft2(img)
    F = np.conj(H) / (np.abs(H) ** 2 + 0.05) * G
    return np.fft.irfft2(F, s=img.shape)


def radon(img):
    """Sums along turned lines."""
    n = img.shape[0]
    center = (n - 1) / 2
    y, x = np.mgrid[:n, :n] - center
    rows = []
    for angle in np.linspace(0, np.pi, 5, endpoint=False):
        xr = np.cos(angle) * x - np.sin(angle) * y + center
        yr = np.sin(angle) * x + np.cos(angle) * y + center
        xi, yi = np.rint(xr).astype(int), np.rint(yr).astype(int)
        ok = (xi >= 0) & (xi < n) & (yi >= 0) & (yi < n)
        rows.append(np.where(ok, img[yi.clip(0, n - 1), xi.clip(0, n - 1)], 0).sum(axis=0))
    return np.array(rows)


def heston_paths(z1, z2):
    """Prices with a variance that wanders."""
    n, paths = z1.shape
    S, v = np.full(paths, 100.0), np.full(paths, 0.04)
    for t in range(n):
        w = 0.5 * z1[t] + np.sqrt(1 - 0.25) * z2[t]
        S = S * np.exp(-0.5 * v * 0.1 + np.sqrt(np.maximum(v, 0) * 0.1) * z1[t])
        v = v + 2 * (0.04 - v) * 0.1 + 0.3 * np.sqrt(np.maximum(v, 0) * 0.1) * w
    payoff = np.maximum(S - 100, 0)
    return payoff.mean(), np.percentile(S, [5, 50, 95])


def markowitz(returns):
    """The portfolio of least variance for a wanted return."""
    mu, cov = np.mean(returns, axis=0), np.cov(returns, rowvar=False)
    n = len(mu)
    kkt = np.block([
        [2 * cov, mu[:, None], np.ones((n, 1))],
        [mu[None, :], np.zeros((1, 2))],
        [np.ones((1, n)), np.zeros((1, 2))],
    ])  # fmt: skip
    rhs = np.concatenate([np.zeros(n), [0.01, 1.0]])
    w = np.linalg.solve(kkt, rhs)[:n]
    return w, np.sqrt(w @ cov @ w)


def kalman_smoother(zs):
    """A filter forwards and Rauch, Tung and Striebel's pass backwards."""
    F, Q = np.array([[1.0, 1.0], [0.0, 1.0]]), 0.01 * np.eye(2)
    H, R = np.array([[1.0, 0.0]]), np.array([[0.5]])
    x, P = np.zeros(2), np.eye(2)
    xs, Ps, xp, Pp = [], [], [], []
    for z in zs:
        x, P = F @ x, F @ P @ F.T + Q
        xp.append(x)
        Pp.append(P)
        K = P @ H.T @ np.linalg.inv(H @ P @ H.T + R)
        x = x + K @ (z - H @ x)
        P = (np.eye(2) - K @ H) @ P
        xs.append(x)
        Ps.append(P)
    smooth = [xs[-1]]
    for t in range(len(zs) - 2, -1, -1):
        G = Ps[t] @ F.T @ np.linalg.inv(Pp[t + 1])
        smooth.append(xs[t] + G @ (smooth[-1] - xp[t + 1]))
    return np.array(smooth[::-1])


def upper_confidence(rewards):
    """A bandit that tries what it knows least."""
    arms = rewards.shape[1]
    counts, sums = np.ones(arms), rewards[0].copy()
    chosen = []
    for t in range(1, len(rewards)):
        bound = sums / counts + np.sqrt(2 * np.log(t + 1) / counts)
        arm = np.argmax(bound)
        counts[arm] += 1
        sums[arm] += rewards[t, arm]
        chosen.append(arm)
    return np.array(chosen), sums / counts


PROGRAMS = [
    (fast_ica, lambda r: (r.laplace(size=(2, 20)), np.eye(2) + 0.1), False),
    (nonnegative_factors, lambda r: (r.uniform(size=(5, 6)), r.uniform(size=(5, 2)),
                                     r.uniform(size=(2, 6))), False),
    (alternating_least_squares, lambda r: (r.integers(0, 6, (5, 4)) * 1.0, r.normal(size=(5, 2)),
                                           r.normal(size=(4, 2))), False),
    (skip_gram, lambda r: (r.normal(size=(6, 3)), r.normal(size=(6, 3)), r.integers(0, 6, (4, 2)),
                           r.integers(0, 6, (4, 3))), False),
    (nelder_mead, lambda r: (r.normal(size=(3, 2)),), False),
    (two_loop_recursion, lambda r: (r.normal(size=4), r.normal(size=(3, 4)),
                                    r.normal(size=(3, 4))), True),
    (adaboost, lambda r: (r.normal(size=(12, 2)), r.choice([-1.0, 1.0], 12)), False),
    (pegasos, lambda r: (r.normal(size=(8, 3)), r.choice([-1.0, 1.0], 8)), False),
    (lasso, lambda r: (r.normal(size=(10, 3)), r.normal(size=10)), True),
    (random_fourier_features, lambda r: (r.normal(size=(8, 2)), r.normal(size=(2, 5)),
                                         r.uniform(0, 6, 5), r.normal(size=8)), True),
    (tsne_gradient, lambda r: (r.normal(size=(5, 2)), r.dirichlet(np.ones(25)).reshape(5, 5)),
     True),
    (contrastive_loss, lambda r: (r.normal(size=(4, 3)), r.normal(size=(4, 3))), True),
    (graph_convolution, lambda r: (r.normal(size=(5, 3)), 1.0 * (r.uniform(size=(5, 5)) > 0.5),
                                   r.normal(size=(3, 2))), True),
    (bellman_ford, lambda r: (r.integers(0, 6, (12, 2)), r.uniform(1, 5, 12)), False),
    (prim, lambda r: (r.uniform(1, 9, (6, 6)),), False),
    (sieve, lambda r: (np.array([10, 50, 90]),), False),
    (longest_increasing, lambda r: (r.normal(size=9),), False),
    (shoelace, lambda r: (np.array([[0, 0], [2, 0.1], [2.2, 1], [1, 1.8], [0, 1]])
                          + 0.1 * r.normal(size=(5, 2)),), True),
    (lagrange, lambda r: (np.arange(4.0), r.normal(size=4), r.uniform(0, 3, 5)), True),
    (gauss_legendre, lambda r: (r.normal(size=4),), True),
    (arnoldi, lambda r: (r.normal(size=(5, 5)), r.normal(size=5)), True),
    (householder, lambda r: (r.normal(size=(5, 3)),), True),
    (quaternion_rotation, lambda r: (r.normal(size=4), r.normal(size=(6, 3))), True),
    (quantum_fourier, lambda r: (r.normal(size=8),), True),
    (wiener_deconvolution, lambda r: (r.normal(size=(8, 8)), np.ones((3, 3)) / 9), True),
    (radon, lambda r: (r.normal(size=(7, 7)),), True),
    (heston_paths, lambda r: (r.normal(size=(6, 8)), r.normal(size=(6, 8))), False),
    (markowitz, lambda r: (r.normal(size=(15, 3)) * 0.02,), True),
    (kalman_smoother, lambda r: (np.arange(8.0) + r.normal(size=8),), True),
    (upper_confidence, lambda r: (r.uniform(size=(15, 3)),), False),
]  # fmt: skip

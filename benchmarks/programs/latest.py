"""The second part of thirty programs that were written later, for which nothing was mended."""

import numpy as np


def nelson_siegel(maturities, yields):
    """Level, slope and curvature of a curve of yields, for the best of some decays."""
    best, best_beta, best_tau = np.inf, None, None
    for tau in np.linspace(0.5, 3.0, 6):
        x = maturities / tau
        slope = (1 - np.exp(-x)) / x
        X = np.column_stack([np.ones_like(x), slope, slope - np.exp(-x)])
        beta, *_ = np.linalg.lstsq(X, yields, rcond=None)
        sse = np.sum((yields - X @ beta) ** 2)
        if sse < best:
            best, best_beta, best_tau = sse, beta, tau
    return best_beta, best_tau, best


def huckel(adjacency, electrons=6):
    """Energies of molecular orbitals, and what lies on atoms and bonds."""
    H = -1.0 * adjacency
    energies, C = np.linalg.eigh(H)
    n = len(H)
    occupation = np.zeros(n)
    left = electrons
    for i in range(n):
        occupation[i] = min(2, left)
        left -= occupation[i]
    density = np.einsum("ij,j,kj->ik", C, occupation, C)
    return energies, np.dot(occupation, energies), np.diag(density), density * (adjacency > 0)


def hamming_decode(received):
    """Words of Hamming's code of seven bits, with one error each mended."""
    H = np.array([[1, 0, 1, 0, 1, 0, 1], [0, 1, 1, 0, 0, 1, 1], [0, 0, 0, 1, 1, 1, 1]])
    corrected = received.copy()
    syndromes = corrected @ H.T % 2
    positions = syndromes @ (1 << np.arange(3))
    for row, position in enumerate(positions):
        if position:
            corrected[row, position - 1] ^= 1
    return corrected[:, [2, 4, 5, 6]], positions


def jpeg_blocks(image):
    """Blocks of an image by cosines, quantised and back, and the signal over the noise."""
    n = 8
    k, x = np.arange(n).reshape(-1, 1), np.arange(n)
    D = np.sqrt(2 / n) * np.cos((2 * x + 1) * k * np.pi / (2 * n))
    D[0] /= np.sqrt(2)
    Q = 10 + 4 * (np.arange(n)[:, None] + np.arange(n))
    h, w = image.shape
    blocks = image.reshape(h // n, n, w // n, n).swapaxes(1, 2) - 128.0
    coded = np.rint(D @ blocks @ D.T / Q).astype(np.int32)
    decoded = (D.T @ (coded * Q) @ D).swapaxes(1, 2).reshape(h, w) + 128.0
    mse = np.mean((image - np.clip(decoded, 0, 255)) ** 2)
    return coded, decoded, 10 * np.log10(255**2 / mse), np.count_nonzero(coded)


def convex_hull(points):
    """The hull of points by a monotone chain."""
    order = np.lexsort((points[:, 1], points[:, 0]))
    points = points[order]
    cross = lambda o, a, b: (a[0] - o[0]) * (b[1] - o[1]) - (a[1] - o[1]) * (b[0] - o[0])  # noqa: E731
    lower, upper = [], []
    for p in points:
        while len(lower) >= 2 and cross(lower[-2], lower[-1], p) <= 0:
            lower.pop()
        lower.append(p)
    for p in points[::-1]:
        while len(upper) >= 2 and cross(upper[-2], upper[-1], p) <= 0:
            upper.pop()
        upper.append(p)
    return np.array(lower[:-1] + upper[:-1])


def levenberg_marquardt(p, t, y):
    """An exponential through points, with a damping that follows the success of steps."""
    lam = 1e-2
    f = lambda p: p[0] * np.exp(-p[1] * t) + p[2]  # noqa: E731
    r = y - f(p)
    cost = r @ r
    for _ in range(15):
        e = np.exp(-p[1] * t)
        J = np.stack([e, -p[0] * t * e, np.ones_like(t)], axis=1)
        A = J.T @ J
        step = np.linalg.solve(A + lam * np.diag(np.diag(A)), J.T @ r)
        r_new = y - f(p + step)
        if r_new @ r_new < cost:
            p, r, cost = p + step, r_new, r_new @ r_new
            lam /= 10
        else:
            lam *= 10
    return p, cost


def chebyshev_boundary_problem(f):
    """A boundary value problem by collocation, with the matrix of Trefethen's cheb."""
    N = len(f) + 1
    x = np.cos(np.pi * np.arange(N + 1) / N)
    c = np.hstack(([2.0], np.ones(N - 1), [2.0])) * (-1) ** np.arange(N + 1)
    X = np.tile(x, (N + 1, 1)).T
    dX = X - X.T
    D = np.outer(c, 1 / c) / (dX + np.eye(N + 1))
    D = D - np.diag(np.sum(D, axis=1))
    D2 = (D @ D)[1:-1, 1:-1]
    u = np.linalg.solve(D2, f * np.exp(4 * x[1:-1]))
    return np.r_[0, u, 0], x


def total_variation(image, weight=0.2):
    """An image with less noise, by projections after Chambolle."""
    px, py = np.zeros_like(image), np.zeros_like(image)
    for _ in range(10):
        div = np.zeros_like(image)
        div[0, :] = px[0, :]
        div[1:-1, :] = px[1:-1, :] - px[:-2, :]
        div[-1, :] = -px[-2, :]
        div[:, 0] += py[:, 0]
        div[:, 1:-1] += py[:, 1:-1] - py[:, :-2]
        div[:, -1] += -py[:, -2]
        u = div - image / weight
        gx, gy = np.zeros_like(image), np.zeros_like(image)
        gx[:-1] = np.diff(u, axis=0)
        gy[:, :-1] = np.diff(u, axis=1)
        norm = 1 + 0.25 * np.sqrt(gx**2 + gy**2)
        px, py = (px + 0.25 * gx) / norm, (py + 0.25 * gy) / norm
    return image - weight * div


def carve_seam(image):
    """An image without the path of least energy from top to bottom."""
    gy, gx = np.gradient(image)
    energy = np.abs(gx) + np.abs(gy)
    rows, columns = energy.shape
    M = energy.copy()
    back = np.zeros_like(M, dtype=int)
    for i in range(1, rows):
        for j in range(columns):
            if j == 0:
                index = np.argmin(M[i - 1, j : j + 2])
                back[i, j] = index + j
            else:
                index = np.argmin(M[i - 1, j - 1 : j + 2])
                back[i, j] = index + j - 1
            M[i, j] += M[i - 1, back[i, j]]
    keep = np.ones((rows, columns), dtype=bool)
    j = np.argmin(M[-1])
    for i in reversed(range(rows)):
        keep[i, j] = False
        j = back[i, j]
    return image[keep].reshape((rows, columns - 1)), M[-1].min()


def ransac_line(points, pairs, threshold=0.3):
    """A line that most points lie near, by pairs that are drawn."""
    best_count, best_inliers = -1, np.zeros(len(points), dtype=bool)
    for i, j in pairs:
        p, d = points[i], points[j] - points[i]
        length = np.hypot(*d)
        if length < 1e-9:
            continue
        normal = np.array([-d[1], d[0]]) / length
        inliers = np.abs((points - p) @ normal) < threshold
        if inliers.sum() > best_count:
            best_count, best_inliers = inliers.sum(), inliers
    x, y = points[best_inliers].T
    slope, intercept = np.polyfit(x, y, 1)
    return slope, intercept, best_inliers


def anneal_tour(cities, moves, chances):
    """A tour of cities that is shortened by turning parts of it around."""
    n = len(cities)
    distance = np.linalg.norm(cities[:, None] - cities[None], axis=-1)
    tour = np.arange(n)
    length = distance[tour, np.roll(tour, -1)].sum()
    temperature = 1.0
    for (i, j), chance in zip(moves, chances):
        i, j = min(i, j), max(i, j)
        candidate = tour.copy()
        candidate[i:j] = candidate[i:j][::-1]
        new = distance[candidate, np.roll(candidate, -1)].sum()
        if new < length or chance < np.exp((length - new) / temperature):
            tour, length = candidate, new
        temperature *= 0.9
    return tour, length


def _exponential(r):
    t = np.linspace(0, 4, 12)
    return (np.array([1.0, 1.0, 0.0]), t, 2.5 * np.exp(-1.3 * t) + 0.5 + 0.02 * r.normal(size=12))


_RING = np.roll(np.eye(6), 1, axis=0) + np.roll(np.eye(6), -1, axis=0)

PROGRAMS = [
    (nelson_siegel, lambda r: (np.array([0.5, 1.0, 2.0, 3.0, 5.0, 7.0, 10.0]),
                               3.0 + 0.3 * r.normal(size=7)), False),
    (huckel, lambda r: (_RING * np.triu(r.uniform(0.8, 1.2, (6, 6)))
                        + (_RING * np.triu(r.uniform(0.8, 1.2, (6, 6)))).T,), False),
    (hamming_decode, lambda r: (r.integers(0, 2, (6, 7)),), False),
    (jpeg_blocks, lambda r: (np.clip(128 + 50 * r.normal(size=(16, 24)), 0, 255),), False),
    (convex_hull, lambda r: (r.normal(size=(10, 2)),), False),
    (levenberg_marquardt, _exponential, False),
    (chebyshev_boundary_problem, lambda r: (r.normal(size=7),), True),
    (total_variation, lambda r: (r.uniform(size=(6, 7)),), True),
    (carve_seam, lambda r: (r.uniform(size=(6, 7)),), False),
    (ransac_line, lambda r: (np.c_[np.arange(12.0), 0.5 * np.arange(12.0) + r.normal(size=12)],
                             r.integers(0, 12, (8, 2))), False),
    (anneal_tour, lambda r: (r.uniform(size=(7, 2)), r.integers(0, 8, (15, 2)), r.uniform(size=15)),
     False),
]  # fmt: skip

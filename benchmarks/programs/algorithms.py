"""Images, graphs, sequences and numerical methods, as they are written for NumPy."""

import numpy as np


def sobel(img):
    """Edges by two stencils, and their directions."""
    p = np.pad(img, 1, mode="reflect")
    gx = (p[:-2, 2:] + 2 * p[1:-1, 2:] + p[2:, 2:]) - (p[:-2, :-2] + 2 * p[1:-1, :-2] + p[2:, :-2])
    gy = (p[2:, :-2] + 2 * p[2:, 1:-1] + p[2:, 2:]) - (p[:-2, :-2] + 2 * p[:-2, 1:-1] + p[:-2, 2:])
    return np.hypot(gx, gy), np.arctan2(gy, gx)


def convolve_2d(img, kernel):
    """A convolution by loops over the kernel."""
    kh, kw = kernel.shape
    h, w = img.shape
    out = np.zeros((h - kh + 1, w - kw + 1))
    for i in range(kh):
        for j in range(kw):
            out += kernel[kh - 1 - i, kw - 1 - j] * img[i : i + h - kh + 1, j : j + w - kw + 1]
    return out


def gaussian_blur(img):
    """A separable filter."""
    x = np.arange(-2, 3)
    k = np.exp(-(x**2) / 2.0)
    k /= k.sum()
    rows = np.apply_along_axis(lambda m: np.convolve(m, k, mode="same"), axis=0, arr=img)
    return np.apply_along_axis(lambda m: np.convolve(m, k, mode="same"), axis=1, arr=rows)


def median_filter(img):
    """The median of each neighbourhood."""
    p = np.pad(img, ((1, 1), (1, 1)), "edge")
    windows = np.lib.stride_tricks.sliding_window_view(p, (3, 3))
    return np.median(windows.reshape(*img.shape, 9), axis=-1)


def equalize(img):
    """Equalisation of a histogram of levels."""
    hist = np.bincount(img.ravel(), minlength=16)
    cdf = hist.cumsum()
    first = cdf[cdf > 0].min()
    table = np.round((cdf - first) / (img.size - first) * 15).astype(int)
    return np.clip(table, 0, 15)[img]


def otsu(img):
    """The threshold of the greatest variance between classes."""
    counts = np.bincount(img.flatten(), minlength=16).astype(float)
    best, threshold = -1.0, 0
    total = counts.sum()
    levels = np.arange(16)
    for t in range(1, 16):
        w0, w1 = counts[:t].sum() / total, counts[t:].sum() / total
        if w0 == 0 or w1 == 0:
            continue
        m0 = np.dot(levels[:t], counts[:t]) / counts[:t].sum()
        m1 = np.dot(levels[t:], counts[t:]) / counts[t:].sum()
        between = w0 * w1 * (m0 - m1) ** 2
        if between > best:
            best, threshold = between, t
    return threshold, best


def bilinear_resize(img):
    """An image at twice its size."""
    h, w = img.shape
    ys = np.linspace(0, h - 1, 2 * h)
    xs = np.linspace(0, w - 1, 2 * w)
    y0 = np.floor(ys).astype(int)
    x0 = np.floor(xs).astype(int)
    y1 = np.minimum(y0 + 1, h - 1)
    x1 = np.minimum(x0 + 1, w - 1)
    fy = (ys - y0)[:, None]
    fx = (xs - x0)[None, :]
    top = img[np.ix_(y0, x0)] * (1 - fx) + img[np.ix_(y0, x1)] * fx
    bottom = img[np.ix_(y1, x0)] * (1 - fx) + img[np.ix_(y1, x1)] * fx
    return top * (1 - fy) + bottom * fy


def max_pool(x):
    """Pools of two by two through a reshape, and what is upsampled again."""
    n, h, w = x.shape
    blocks = x.reshape(n, h // 2, 2, w // 2, 2)
    pooled = blocks.max(axis=(2, 4))
    return pooled, np.repeat(np.repeat(pooled, 2, axis=1), 2, axis=2)


def grayscale_and_crop(rgb):
    """Weights of colours, a crop, a flip and a rotation."""
    gray = np.dot(rgb[..., :3], [0.299, 0.587, 0.114])
    crop = gray[2:-2, 2:-2]
    return np.fliplr(crop), np.rot90(crop), np.flipud(crop).T


def floyd_warshall(w):
    """Shortest paths between all nodes."""
    d = w.copy()
    np.fill_diagonal(d, 0)
    n = len(d)
    for k in range(n):
        d = np.minimum(d, d[:, k, np.newaxis] + d[np.newaxis, k, :])
    return d


def page_rank(adj):
    """The ranks of pages by power iterations."""
    out = adj.sum(axis=1, keepdims=True)
    P = np.divide(adj, out, where=out > 0, out=np.zeros_like(adj))
    n = adj.shape[0]
    r = np.full(n, 1.0 / n)
    for _ in range(30):
        r = 0.85 * r @ P + 0.15 / n
        r /= np.linalg.norm(r, 1)
    return r


def dijkstra(w):
    """Shortest paths from the first node, on a matrix."""
    n = w.shape[0]
    dist = np.full(n, np.inf)
    done = np.zeros(n, dtype=bool)
    dist[0] = 0.0
    for _ in range(n):
        u = np.argmin(np.where(done, np.inf, dist))
        done[u] = True
        dist = np.minimum(dist, dist[u] + w[u])
    return dist


def breadth_first(adj):
    """Levels of nodes by products of a matrix and a frontier."""
    n = len(adj)
    level = -np.ones(n, dtype=int)
    frontier = np.zeros(n, dtype=bool)
    frontier[0] = True
    level[0] = 0
    depth = 0
    while np.any(frontier):
        depth += 1
        reached = (adj[frontier].sum(axis=0) > 0) & (level < 0)
        level[reached] = depth
        frontier = reached
    return level


def laplacian_spectrum(adj):
    """The normalised Laplacian of a graph, and its eigenvalues."""
    a = np.maximum(adj, adj.T)
    deg = a.sum(axis=1)
    d = np.diag(1.0 / np.sqrt(deg))
    L = np.eye(len(a)) - d @ a @ d
    return np.linalg.eigvalsh(L), L


def edit_distance(a, b):
    """Levenshtein's distance by a table."""
    m, n = len(a), len(b)
    d = np.zeros((m + 1, n + 1), dtype=int)
    d[:, 0] = np.arange(m + 1)
    d[0, :] = np.arange(n + 1)
    for i in range(1, m + 1):
        for j in range(1, n + 1):
            cost = 0 if a[i - 1] == b[j - 1] else 1
            d[i, j] = min(d[i - 1, j] + 1, d[i, j - 1] + 1, d[i - 1, j - 1] + cost)
    return d[m, n]


def dynamic_time_warping(x, y):
    """The distance of two series."""
    n, m = len(x), len(y)
    D = np.full((n + 1, m + 1), np.inf)
    D[0, 0] = 0
    cost = np.abs(x[:, None] - y)
    for i in range(n):
        for j in range(m):
            D[i + 1, j + 1] = cost[i, j] + np.min([D[i, j + 1], D[i + 1, j], D[i, j]])
    return D[n, m]


def ctc_loss(logits, labels):
    """The likelihood of labels over all alignments, with blanks between."""
    T = logits.shape[0]
    logp = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    ext = np.zeros(2 * len(labels) + 1, dtype=int)
    ext[1::2] = labels
    S = len(ext)
    alpha = np.full(S, -1e30)
    alpha[0] = logp[0, 0]
    alpha[1] = logp[0, ext[1]]
    skip = np.zeros(S, dtype=bool)
    skip[2:] = (ext[2:] != 0) & (ext[2:] != ext[:-2])
    for t in range(1, T):
        stay = alpha
        step = np.concatenate(([-1e30], alpha[:-1]))
        jump = np.where(skip, np.concatenate(([-1e30, -1e30], alpha[:-2])), -1e30)
        alpha = np.logaddexp(np.logaddexp(stay, step), jump) + logp[t, ext]
    return -np.logaddexp(alpha[-1], alpha[-2])


def knapsack(weights, values):
    """The greatest value of things that weigh at most ten."""
    best = np.zeros(11)
    for i in range(len(weights)):
        for w in range(10, 0, -1):
            if weights[i] <= w:
                best[w] = max(best[w], best[w - weights[i]] + values[i])
    return best[-1]


def newton_root(c):
    """Roots of a cubic by Newton's method for many starts at once."""
    x = np.linspace(-2, 2, 9)
    for _ in range(20):
        f = np.polyval(c, x)
        df = np.polyval(np.polyder(c), x)
        x = np.where(np.abs(df) > 1e-3, x - f / df, x)
    return np.round(x, 6)


def bisection(a):
    """The root of a decreasing function between two ends."""
    lo, hi = np.zeros_like(a), np.full_like(a, 10.0)
    for _ in range(50):
        mid = (lo + hi) / 2
        positive = mid**3 + mid - a < 0
        lo = np.where(positive, mid, lo)
        hi = np.where(positive, hi, mid)
    return mid


def simpson(y):
    """Integrals of samples by three rules."""
    x = np.linspace(0, 1, len(y))
    h = x[1] - x[0]
    simpson = h / 3 * (y[0] + 4 * y[1:-1:2].sum() + 2 * y[2:-2:2].sum() + y[-1])
    return simpson, np.trapezoid(y, x), np.gradient(y, h)


def cubic_spline(x, y, xs):
    """A natural spline: a solve, then pieces that are searched for."""
    n = len(x)
    h = np.diff(x)
    A = np.zeros((n, n))
    rhs = np.zeros(n)
    A[0, 0] = A[-1, -1] = 1
    for i in range(1, n - 1):
        A[i, i - 1], A[i, i], A[i, i + 1] = h[i - 1], 2 * (h[i - 1] + h[i]), h[i]
        rhs[i] = 6 * ((y[i + 1] - y[i]) / h[i] - (y[i] - y[i - 1]) / h[i - 1])
    M = np.linalg.solve(A, rhs)
    k = np.clip(np.searchsorted(x, xs) - 1, 0, n - 2)
    a, b = x[k + 1] - xs, xs - x[k]
    hk = h[k]
    return (M[k] * a**3 + M[k + 1] * b**3) / (6 * hk) + (
        (y[k] / hk - M[k] * hk / 6) * a + (y[k + 1] / hk - M[k + 1] * hk / 6) * b
    )


def gram_schmidt(A):
    """Orthonormal columns, and the triangle that is left."""
    m, n = A.shape
    Q = np.zeros((m, n))
    R = np.zeros((n, n))
    for j in range(n):
        v = A[:, j].copy()
        for i in range(j):
            R[i, j] = Q[:, i] @ A[:, j]
            v -= R[i, j] * Q[:, i]
        R[j, j] = np.linalg.norm(v)
        Q[:, j] = v / R[j, j]
    return Q, R


def lu_decomposition(A):
    """Elimination with exchanges of rows, in place."""
    A = A.copy()
    n = A.shape[0]
    p = np.arange(n)
    for k in range(n - 1):
        i = np.argmax(np.abs(A[k:, k])) + k
        A[[k, i]] = A[[i, k]]
        p[[k, i]] = p[[i, k]]
        A[k + 1 :, k] /= A[k, k]
        A[k + 1 :, k + 1 :] -= np.outer(A[k + 1 :, k], A[k, k + 1 :])
    return A, p


def conjugate_gradient(A, b):
    """Conjugate gradients until the residual is small."""
    x = np.zeros_like(b)
    r = b - A @ x
    p = r
    rs = np.dot(r, r)
    for _ in range(len(b)):
        Ap = A @ p
        alpha = rs / np.dot(p, Ap)
        x = x + alpha * p
        r = r - alpha * Ap
        new = np.dot(r, r)
        if np.sqrt(new) < 1e-10:
            break
        p = r + (new / rs) * p
        rs = new
    return x


def power_iteration(A):
    """The greatest eigenvalue of a symmetric matrix."""
    v = np.ones(A.shape[0])
    for _ in range(50):
        v = A @ v
        v = v / np.linalg.norm(v)
    return v @ A @ v, np.abs(v)


def polynomial_fit(x, y):
    """A parabola through points, by Vandermonde's matrix."""
    V = np.vander(x, 3)
    coef = np.linalg.inv(V.T @ V) @ (V.T @ y)
    return coef, np.polyval(coef, x) - y, np.linalg.det(V.T @ V)


def dft_matrix(x):
    """Cosine and sine transforms by a matrix of angles."""
    n = len(x)
    k = np.arange(n)
    angle = 2 * np.pi * np.outer(k, k) / n
    re, im = np.cos(angle) @ x, -np.sin(angle) @ x
    return np.sqrt(re**2 + im**2), np.degrees(np.arctan2(im, re + 3.0))


def black_scholes(S, K, T):
    """Prices of options, and of a book of them."""
    r, sigma = 0.03, 0.2
    d1 = (np.log(S / K) + (r + sigma**2 / 2) * T) / (sigma * np.sqrt(T))
    d2 = d1 - sigma * np.sqrt(T)
    cdf = lambda x: 1 / (1 + np.exp(-1.702 * x))  # noqa: E731
    call = S * cdf(d1) - K * np.exp(-r * T) * cdf(d2)
    put = call - S + K * np.exp(-r * T)
    return np.stack([call, put], axis=-1), np.sum(call) - np.sum(put)


def binomial_tree(s0):
    """An American option on a tree."""
    n, u, p, disc = 12, 1.1, 0.55, 0.99
    prices = s0 * u ** (2 * np.arange(n + 1) - n)
    v = np.maximum(100 - prices, 0)
    for i in range(n - 1, -1, -1):
        v = disc * (p * v[1:] + (1 - p) * v[:-1])
        exercise = 100 - s0 * u ** (2 * np.arange(i + 1) - i)
        v = np.maximum(v, exercise)
    return v[0]


def drawdown(returns):
    """Wealth, its running maximum and what was lost since."""
    wealth = np.cumprod(1 + returns)
    peak = np.maximum.accumulate(wealth)
    dd = (wealth - peak) / peak
    sharpe = np.sqrt(252) * returns.mean() / returns.std(ddof=1)
    return dd.min(), np.argmin(dd), sharpe


def run_lengths(x):
    """How long equal neighbours are, and which values there are how often."""
    change = np.flatnonzero(x[1:] != x[:-1])
    starts = np.r_[0, change + 1]
    lengths = np.diff(np.append(starts, len(x)))
    values, counts = np.unique(x, return_counts=True)
    return starts, lengths, values, counts


def group_means(keys, x):
    """Means of groups, and what stands above its own."""
    total = np.bincount(keys, weights=x, minlength=4)
    count = np.bincount(keys, minlength=4)
    means = np.where(count > 0, total / np.maximum(count, 1), np.nan)
    return means, x > means[keys], np.nanmax(means)


def rotate_points(points, angle):
    """Points around their centre, and the hull's box."""
    c, s = np.cos(angle), np.sin(angle)
    R = np.array([[c, -s], [s, c]])
    centre = points.mean(axis=0)
    moved = (points - centre).dot(R.T) + centre
    box = np.array([moved.min(axis=0), moved.max(axis=0)])
    area = 0.5 * np.abs(
        np.dot(moved[:, 0], np.roll(moved[:, 1], 1)) - np.dot(moved[:, 1], np.roll(moved[:, 0], 1))
    )
    return moved, box, np.ptp(moved, axis=0), area


def ray_sphere(origins, directions):
    """Where rays meet a sphere, and how bright it is there."""
    d = directions / np.linalg.norm(directions, axis=1, keepdims=True)
    b = 2 * np.sum(d * origins, axis=1)
    c = np.sum(origins * origins, axis=1) - 1.0
    disc = b * b - 4 * c
    hit = disc > 0
    t = np.where(hit, (-b - np.sqrt(np.where(hit, disc, 0.0))) / 2, np.inf)
    point = origins + np.where(hit, t, 0.0)[:, None] * d
    light = np.array([1.0, 1.0, 1.0]) / np.sqrt(3)
    shade = np.clip(np.einsum("ij,j->i", point, light), 0, 1)
    shade[~hit] = 0.0
    return t, shade


def magic_checks(a):
    """Views that are written through, rows that are exchanged, and `out` of sums."""
    grid = np.zeros((4, 4))
    row = grid[1]
    row += 2.0
    column = grid[:, 2]
    column[0] = a[0]
    grid[2:, :2] = a[1]
    corner = grid[-1]
    corner[::2] = a[:2]
    grid[[0, 3]] = grid[[3, 0]]
    np.multiply(grid, 2.0, out=grid)
    return grid, row, grid.T.ravel()


PROGRAMS = [
    (sobel, lambda r: (r.normal(size=(7, 8)),), True),
    (convolve_2d, lambda r: (r.normal(size=(7, 8)), r.normal(size=(3, 3))), True),
    (gaussian_blur, lambda r: (r.normal(size=(8, 7)),), True),
    (median_filter, lambda r: (r.normal(size=(5, 6)),), True),
    (equalize, lambda r: (r.integers(2, 12, (6, 6)),), False),
    (otsu, lambda r: (r.integers(0, 16, (6, 6)),), False),
    (bilinear_resize, lambda r: (r.normal(size=(4, 5)),), True),
    (max_pool, lambda r: (r.normal(size=(2, 4, 6)),), True),
    (grayscale_and_crop, lambda r: (r.uniform(size=(8, 9, 4)),), True),
    (floyd_warshall, lambda r: (r.uniform(1, 9, (6, 6)),), True),
    (page_rank, lambda r: (1.0 * (r.uniform(size=(6, 6)) > 0.5),), False),
    (dijkstra, lambda r: (r.uniform(1, 9, (6, 6)),), False),
    (breadth_first, lambda r: ((r.uniform(size=(8, 8)) > 0.7).astype(int),), False),
    (laplacian_spectrum, lambda r: (1.0 * (r.uniform(size=(6, 6)) > 0.3),), False),
    (edit_distance, lambda r: (r.integers(0, 4, 6), r.integers(0, 4, 7)), False),
    (dynamic_time_warping, lambda r: (r.normal(size=5), r.normal(size=6)), True),
    (ctc_loss, lambda r: (r.normal(size=(8, 4)), np.array([1, 2, 2])), True),
    (knapsack, lambda r: (r.integers(1, 6, 5), r.uniform(1, 5, 5)), False),
    (newton_root, lambda r: (np.array([1.0, -0.5, -2.0, 0.3]) + 0.01 * r.normal(size=4),), False),
    (bisection, lambda r: (r.uniform(1, 50, 7),), False),
    (simpson, lambda r: (r.normal(size=11),), True),
    (cubic_spline, lambda r: (np.arange(6.0), r.normal(size=6), r.uniform(0, 5, 8)), False),
    (gram_schmidt, lambda r: (r.normal(size=(5, 3)),), True),
    (lu_decomposition, lambda r: (r.normal(size=(5, 5)),), True),
    (conjugate_gradient, lambda r: (np.eye(6) * 4 + np.ones((6, 6)), r.normal(size=6)), False),
    (power_iteration, lambda r: (np.diag(np.arange(1.0, 6)) + 0.1,), False),
    (polynomial_fit, lambda r: (np.linspace(-1, 1, 8), r.normal(size=8)), True),
    (dft_matrix, lambda r: (r.normal(size=8),), True),
    (black_scholes, lambda r: (r.uniform(80, 120, 5), r.uniform(80, 120, 5),
                               r.uniform(0.5, 2, 5)), True),
    (binomial_tree, lambda r: (np.array(100.0),), True),
    (drawdown, lambda r: (r.normal(size=30) * 0.02,), False),
    (run_lengths, lambda r: (np.repeat(r.integers(0, 4, 6), 3),), False),
    (group_means, lambda r: (r.integers(0, 4, 20), r.normal(size=20)), False),
    (rotate_points, lambda r: (r.normal(size=(7, 2)), np.array(0.7)), True),
    (ray_sphere, lambda r: (r.normal(size=(6, 3)) * 0.3 - [0, 0, 3], r.normal(size=(6, 3)) * 0.2
                            + [0, 0, 1.0]), False),
    (magic_checks, lambda r: (r.normal(size=3),), True),
]  # fmt: skip

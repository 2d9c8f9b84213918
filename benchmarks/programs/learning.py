"""Statistics, filters and learning, as they are written for NumPy."""

import numpy as np


def hmm_forward(obs, start, trans, emit):
    """The scaled forward algorithm: the logarithm of the likelihood."""
    alpha = start * emit[:, obs[0]]
    loglik = np.log(alpha.sum())
    alpha /= alpha.sum()
    for o in obs[1:]:
        alpha = (alpha @ trans) * emit[:, o]
        scale = alpha.sum()
        loglik += np.log(scale)
        alpha = alpha / scale
    return loglik, alpha


def viterbi(obs, start, trans, emit):
    """The most likely path of states."""
    T, K = len(obs), len(start)
    delta = np.zeros((T, K))
    psi = np.zeros((T, K), dtype=int)
    delta[0] = np.log(start) + np.log(emit[:, obs[0]])
    for t in range(1, T):
        scores = delta[t - 1][:, None] + np.log(trans)
        psi[t] = np.argmax(scores, axis=0)
        delta[t] = np.max(scores, axis=0) + np.log(emit[:, obs[t]])
    path = np.zeros(T, dtype=int)
    path[-1] = np.argmax(delta[-1])
    for t in range(T - 2, -1, -1):
        path[t] = psi[t + 1, path[t + 1]]
    return path, np.max(delta[-1])


def kalman(zs):
    """A Kalman filter of position and velocity."""
    F = np.array([[1.0, 1.0], [0.0, 1.0]])
    H = np.array([[1.0, 0.0]])
    Q = 0.01 * np.eye(2)
    R = np.array([[0.5]])
    x = np.zeros(2)
    P = np.eye(2)
    estimates = []
    for z in zs:
        x = F @ x
        P = F @ P @ F.T + Q
        S = H @ P @ H.T + R
        K = P @ H.T @ np.linalg.inv(S)
        x = x + K @ (np.atleast_1d(z) - H @ x)
        P = (np.eye(2) - K @ H) @ P
        estimates.append(x)
    return np.vstack(estimates), P


def kmeans(X, init):
    """Lloyd's iterations."""
    centers = init.copy()
    for _ in range(8):
        d = np.linalg.norm(X[:, None, :] - centers[None, :, :], axis=2)
        labels = np.argmin(d, axis=1)
        for k in range(len(centers)):
            mask = labels == k
            if mask.any():
                centers[k] = X[mask].mean(axis=0)
    inertia = np.sum(np.min(d, axis=1) ** 2)
    return centers, labels, inertia


def gp_regression(x, y, xs):
    """Posterior mean and variance of a Gaussian process by Cholesky factors."""

    def kernel(a, b):
        return np.exp(-0.5 * np.subtract.outer(a, b) ** 2)

    K = kernel(x, x) + 1e-2 * np.eye(len(x))
    L = np.linalg.cholesky(K)
    alpha = np.linalg.solve(L.T, np.linalg.solve(L, y))
    Ks = kernel(x, xs)
    v = np.linalg.solve(L, Ks)
    mean = Ks.T @ alpha
    var = 1.0 - np.sum(v**2, axis=0)
    loglik = -0.5 * y @ alpha - np.log(np.diag(L)).sum() - len(x) / 2 * np.log(2 * np.pi)
    return mean, var, loglik


def linear_regression(X, y):
    """Least squares with an intercept, and R squared."""
    A = np.hstack([np.ones((X.shape[0], 1)), X])
    beta, *_ = np.linalg.lstsq(A, y, rcond=None)
    residuals = y - A @ beta
    r2 = 1 - (residuals @ residuals) / np.sum((y - y.mean()) ** 2)
    return beta, r2


def ridge(X, y):
    """Ridge regression by the normal equations of standardised features."""
    mu, sd = X.mean(axis=0), X.std(axis=0, ddof=1)
    Z = (X - mu) / sd
    w = np.linalg.solve(Z.T @ Z + 0.1 * np.identity(X.shape[1]), Z.T @ (y - y.mean()))
    return np.concatenate(([y.mean() - np.dot(mu / sd, w)], w / sd))


def logistic_newton(X, t):
    """Logistic regression by Newton's method."""
    w = np.zeros(X.shape[1])
    for _ in range(6):
        p = 1.0 / (1.0 + np.exp(-X.dot(w)))
        g = X.T.dot(p - t) + 0.1 * w
        H = np.dot(X.T * (p * (1 - p)), X) + 0.1 * np.eye(len(w))
        w -= np.linalg.solve(H, g)
    return w


def softmax_classifier(X, labels, W):
    """Cross entropy with one-hot labels, and its gradient by hand."""
    n = X.shape[0]
    scores = X @ W
    scores -= scores.max(axis=1, keepdims=True)
    probs = np.exp(scores)
    probs /= probs.sum(axis=1, keepdims=True)
    loss = -np.log(probs[np.arange(n), labels]).mean()
    dscores = probs.copy()
    dscores[np.arange(n), labels] -= 1
    return loss, X.T @ dscores / n


def mlp_step(W1, b1, W2, X, y):
    """One step of gradient descent of a network of two layers, by hand."""
    h = np.maximum(0, X.dot(W1) + b1)
    pred = h.dot(W2)
    err = pred - y
    loss = np.square(err).mean()
    grad_pred = 2.0 * err / err.size
    grad_W2 = h.T.dot(grad_pred)
    grad_h = grad_pred.dot(W2.T)
    grad_h[h <= 0] = 0
    grad_W1 = X.T.dot(grad_h)
    return loss, W1 - 0.1 * grad_W1, W2 - 0.1 * grad_W2


def pca(X):
    """Principal components by the eigenvectors of the covariance, up to sign."""
    C = np.cov(X, rowvar=False)
    values, vectors = np.linalg.eigh(C)
    order = np.argsort(values)[::-1]
    values = values[order]
    projected = (X - X.mean(axis=0)) @ vectors[:, order[:2]]
    return values / values.sum(), np.abs(projected)


def em_mixture(x):
    """Expectation and maximisation for two Gaussians in one dimension."""
    mu = np.percentile(x, [25, 75])
    sigma = np.full(2, np.std(x))
    pi = np.ones(2) / 2
    for _ in range(10):
        density = np.exp(-0.5 * ((x[:, None] - mu) / sigma) ** 2) / sigma
        r = pi * density
        r /= r.sum(axis=1, keepdims=True)
        nk = r.sum(axis=0)
        mu = (r * x[:, None]).sum(axis=0) / nk
        sigma = np.sqrt((r * (x[:, None] - mu) ** 2).sum(axis=0) / nk)
        pi = nk / len(x)
    return mu, sigma, pi


def naive_bayes(X, y, Xt):
    """Gaussian naive Bayes with three classes."""
    log_post = np.empty((len(Xt), 3))
    for c in range(3):
        members = X[y == c]
        mean, var = members.mean(0), members.var(0) + 1e-9
        prior = np.log(np.count_nonzero(y == c) / len(y))
        log_post[:, c] = prior - 0.5 * np.sum(
            np.log(2 * np.pi * var) + (Xt - mean) ** 2 / var, axis=1
        )
    return np.argmax(log_post, axis=1), log_post


def knn(X, y, q):
    """Votes of the five nearest neighbours."""
    d2 = ((q[:, None] - X[None]) ** 2).sum(-1)
    nearest = np.argsort(d2, axis=1)[:, :5]
    votes = y[nearest]
    counts = np.apply_along_axis(np.bincount, 1, votes, minlength=3)
    return counts.argmax(axis=1)


def perceptron(X, y):
    """Updates at each mistake."""
    w = np.zeros(X.shape[1])
    mistakes = 0
    for _ in range(3):
        for xi, yi in zip(X, y):
            if yi * np.dot(w, xi) <= 0:
                w += yi * xi
                mistakes += 1
    return w, mistakes


def value_iteration(P, R):
    """The values and the policy of a decision process."""
    V = np.zeros(R.shape[0])
    while True:
        Q = R + 0.9 * np.einsum("asn,n->sa", P, V)
        new = Q.max(axis=1)
        if np.max(np.abs(new - V)) < 1e-6:
            break
        V = new
    return V, Q.argmax(axis=1)


def td_lambda(rewards, values):
    """Generalised advantages, backwards in time."""
    n = len(rewards)
    adv = np.zeros(n)
    last = 0.0
    for t in reversed(range(n)):
        delta = rewards[t] + 0.99 * values[t + 1] - values[t]
        last = delta + 0.99 * 0.95 * last
        adv[t] = last
    returns = adv + values[:-1]
    return (adv - adv.mean()) / (adv.std() + 1e-8), returns


def q_learning(rewards):
    """A table of values on a ring of states, with a fixed sequence of actions."""
    Q = np.zeros((5, 2))
    s = 0
    for t in range(len(rewards)):
        a = t % 2
        s2 = (s + (1 if a == 1 else -1)) % 5
        Q[s, a] += 0.5 * (rewards[t] + 0.9 * np.max(Q[s2]) - Q[s, a])
        s = s2
    return Q


def attention(Q, K, V):
    """Causal attention of several heads."""
    T, d = Q.shape[1], Q.shape[-1]
    scores = np.matmul(Q, K.transpose(0, 2, 1)) / np.sqrt(d)
    mask = np.triu(np.ones((T, T), dtype=bool), k=1)
    scores = np.where(mask, -np.inf, scores)
    w = np.exp(scores - np.max(scores, axis=-1, keepdims=True))
    w = w / np.sum(w, axis=-1, keepdims=True)
    out = np.matmul(w, V)
    return np.concatenate(np.split(out, out.shape[0], axis=0), axis=-1)[0]


def lstm(xs, Wx, Wh, b):
    """A recurrent network with gates, from slices of one product."""
    H = Wh.shape[0]
    h = np.zeros(H)
    c = np.zeros(H)
    hs = np.zeros((len(xs), H))

    def sigmoid(z):
        return 1 / (1 + np.exp(-z))

    for t, x in enumerate(xs):
        z = x @ Wx + h @ Wh + b
        i, f, o, g = np.split(z, 4)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        hs[t] = h
    return hs


def batch_norm_and_dropout(x, gamma, beta, keep):
    """Normalisation over a batch, with a mask that was drawn before."""
    mu = np.mean(x, axis=0)
    var = np.var(x, axis=0)
    y = gamma * (x - mu) / np.sqrt(var + 1e-5) + beta
    y *= keep / 0.8
    return y


def adam(x):
    """Steps of Adam on Rosenbrock's function."""
    m = np.zeros_like(x)
    v = np.zeros_like(x)
    for t in range(1, 21):
        g = np.zeros_like(x)
        g[:-1] = -400 * x[:-1] * (x[1:] - x[:-1] ** 2) - 2 * (1 - x[:-1])
        g[1:] += 200 * (x[1:] - x[:-1] ** 2)
        m = 0.9 * m + 0.1 * g
        v = 0.999 * v + 0.001 * g**2
        x = x - 0.05 * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
    return x


def bootstrap_interval(x, picks):
    """A confidence interval of the mean from drawn positions."""
    means = x[picks].mean(axis=1)
    lo, hi = np.quantile(means, [0.025, 0.975])
    return lo, hi, np.median(means), x.std(ddof=1) / np.sqrt(len(x))


def correlation_table(X):
    """Correlations, skewness, standard scores and their ranks."""
    R = np.corrcoef(X.T)
    z = (X - X.mean(axis=0)) / X.std(axis=0)
    skew = np.mean(z**3, axis=0)
    ranks = X.argsort(axis=0).argsort(axis=0) + 1
    upper = R[np.triu_indices(len(R), k=1)]
    return R, skew, ranks, upper


def histogram_entropy(x):
    """Entropy of a histogram, and the cumulative distribution."""
    counts, edges = np.histogram(x, bins=8, range=(-3.0, 3.0))
    p = counts / counts.sum()
    nonzero = np.where(p > 0, p, 1.0)
    entropy = -np.sum(p * np.log(nonzero))
    centers = (edges[:-1] + edges[1:]) / 2
    return entropy, np.cumsum(p), np.average(centers, weights=counts)


def confusion_matrix(actual, guess):
    """Counts by `np.add.at`, and scores a class."""
    cm = np.zeros((3, 3), dtype=int)
    np.add.at(cm, (actual, guess), 1)
    tp = np.diag(cm)
    precision = tp / np.maximum(cm.sum(axis=0), 1)
    recall = tp / np.maximum(cm.sum(axis=1), 1)
    return cm, precision, recall, np.trace(cm) / cm.sum()


def moving_average(x):
    """Means of windows, by sums and by convolution."""
    c = np.cumsum(np.insert(x, 0, 0.0))
    by_sums = (c[5:] - c[:-5]) / 5
    by_convolution = np.convolve(x, np.ones(5) / 5, mode="valid")
    windows = np.lib.stride_tricks.sliding_window_view(x, 5)
    return by_sums, by_convolution, windows.max(axis=1)


def _markov(r, K=3, M=4):
    return (
        r.integers(0, M, 9),
        r.dirichlet(np.ones(K)),
        r.dirichlet(np.ones(K), K),
        r.dirichlet(np.ones(M), K),
    )


PROGRAMS = [
    (hmm_forward, _markov, False),
    (viterbi, _markov, False),
    (kalman, lambda r: (np.arange(8.0) + r.normal(size=8),), True),
    (kmeans, lambda r: (r.normal(size=(30, 2)), r.normal(size=(3, 2))), False),
    (gp_regression, lambda r: (r.uniform(0, 3, 6), r.normal(size=6), r.uniform(0, 3, 4)), True),
    (linear_regression, lambda r: (r.normal(size=(12, 3)), r.normal(size=12)), True),
    (ridge, lambda r: (r.normal(size=(12, 3)), r.normal(size=12)), True),
    (logistic_newton, lambda r: (r.normal(size=(15, 3)), 1.0 * (r.uniform(size=15) > 0.5)), True),
    (softmax_classifier, lambda r: (r.normal(size=(7, 4)), r.integers(0, 3, 7),
                                    r.normal(size=(4, 3))), True),
    (mlp_step, lambda r: (r.normal(size=(3, 5)), r.normal(size=5), r.normal(size=(5, 2)),
                          r.normal(size=(6, 3)), r.normal(size=(6, 2))), True),
    (pca, lambda r: (r.normal(size=(20, 4)) * [3, 2, 1, 0.5],), False),
    (em_mixture, lambda r: (np.concatenate((r.normal(-2, 1, 15), r.normal(2, 1, 15))),), True),
    (naive_bayes, lambda r: (r.normal(size=(20, 3)), np.arange(20) % 3, r.normal(size=(5, 3))),
     False),
    (knn, lambda r: (r.normal(size=(20, 2)), r.integers(0, 3, 20), r.normal(size=(4, 2))), False),
    (perceptron, lambda r: (r.normal(size=(10, 3)), r.choice([-1.0, 1.0], 10)), False),
    (value_iteration, lambda r: (r.dirichlet(np.ones(4), (2, 4)), r.uniform(size=(4, 2))), False),
    (td_lambda, lambda r: (r.normal(size=10), r.normal(size=11)), True),
    (q_learning, lambda r: (r.normal(size=12),), False),
    (attention, lambda r: tuple(r.normal(size=(2, 5, 4)) for _ in range(3)), True),
    (lstm, lambda r: (r.normal(size=(5, 3)), r.normal(size=(3, 8)), r.normal(size=(2, 8)),
                      r.normal(size=8)), True),
    (batch_norm_and_dropout, lambda r: (r.normal(size=(6, 3)), r.normal(size=3), r.normal(size=3),
                                        1.0 * (r.uniform(size=(6, 3)) < 0.8)), True),
    (adam, lambda r: (r.normal(size=6),), True),
    (bootstrap_interval, lambda r: (r.normal(size=20), r.integers(0, 20, (40, 20))), False),
    (correlation_table, lambda r: (r.normal(size=(12, 3)),), False),
    (histogram_entropy, lambda r: (r.normal(size=50),), False),
    (confusion_matrix, lambda r: (r.integers(0, 3, 25), r.integers(0, 3, 25)), False),
    (moving_average, lambda r: (r.normal(size=16),), True),
]  # fmt: skip

"""Generative models, reinforcement learning and filters, as papers and tutorials write them."""

import numpy as np


def diffusion_step(x0, noise, t):
    """A noised sample, and the mean of the reverse step from it."""
    betas = np.linspace(1e-4, 0.2, 20)
    alphas = 1.0 - betas
    alpha_bar = np.cumprod(alphas)
    previous = np.append(1.0, alpha_bar[:-1])
    shape = (-1,) + (1,) * (x0.ndim - 1)
    xt = (
        np.sqrt(alpha_bar)[t].reshape(shape) * x0 + np.sqrt(1 - alpha_bar)[t].reshape(shape) * noise
    )
    c1 = (betas * np.sqrt(previous) / (1 - alpha_bar))[t].reshape(shape)
    c2 = ((1 - previous) * np.sqrt(alphas) / (1 - alpha_bar))[t].reshape(shape)
    variance = np.maximum(betas * (1 - previous) / (1 - alpha_bar), 1e-20)
    return xt, c1 * x0 + c2 * xt, np.log(variance)[t]


def timestep_embedding(t, dim=9):
    """Sines and cosines of steps, padded where the size is odd."""
    half = dim // 2
    freqs = np.exp(-np.log(10000.0) * np.arange(half, dtype=np.float64) / half)
    args = t[:, None].astype(float) * freqs[None]
    embedding = np.concatenate([np.cos(args), np.sin(args)], axis=-1)
    if dim % 2:
        embedding = np.concatenate([embedding, np.zeros_like(embedding[:, :1])], axis=-1)
    return embedding


def gan_losses(real, noise, G, D):
    """Both losses of a pair of small networks, and the gradient of the discriminator."""
    sigmoid = lambda a: 1 / (1 + np.exp(-a))  # noqa: E731
    fake = np.tanh(noise @ G)
    p_real, p_fake = sigmoid(real @ D), sigmoid(fake @ D)
    d_loss = -np.mean(np.log(p_real + 1e-8) + np.log(1 - p_fake + 1e-8))
    g_loss = -np.log(p_fake + 1e-8).mean()
    grad = (real.T @ (p_real - 1) + fake.T @ p_fake) / len(real)
    return d_loss, g_loss, grad


def variational_bound(x, W_mu, W_logvar, W_dec, eps):
    """The evidence lower bound of an autoencoder."""
    mu, logvar = x @ W_mu, x @ W_logvar
    z = mu + np.exp(0.5 * logvar) * eps
    logits = z @ W_dec
    bce = np.maximum(logits, 0) - logits * x + np.log1p(np.exp(-np.abs(logits)))
    kl = -0.5 * np.sum(1 + logvar - np.square(mu) - np.exp(logvar), axis=1)
    return np.mean(bce.sum(axis=1) + kl)


def mixture_of_experts(x, gate, experts):
    """The two best experts for each token, and the loss that balances them."""
    k, n_experts = 2, gate.shape[1]
    logits = x @ gate
    top = np.argpartition(logits, -k, axis=1)[:, -k:]
    chosen = np.take_along_axis(logits, top, axis=1)
    weights = np.exp(chosen - chosen.max(axis=1, keepdims=True))
    weights /= weights.sum(axis=1, keepdims=True)
    out = np.zeros_like(x)
    for e in range(n_experts):
        share = np.sum(weights * (top == e), axis=1)
        out += share[:, None] * np.maximum(x @ experts[e], 0)
    load = np.array([np.sum(top == e) for e in range(n_experts)]) / top.size
    return out, n_experts * np.sum(load * load)


def transformer_block(x, Wqkv, Wo, W1, W2):
    """Norm, causal attention of two heads, norm, network of GELU."""

    def norm(v):
        return (v - v.mean(-1, keepdims=True)) / np.sqrt(v.var(-1, keepdims=True) + 1e-5)

    def gelu(v):
        return 0.5 * v * (1 + np.tanh(np.sqrt(2 / np.pi) * (v + 0.044715 * v**3)))

    T, C = x.shape
    q, k, v = np.split(norm(x) @ Wqkv, 3, axis=-1)
    heads = lambda m: m.reshape(T, 2, C // 2).transpose(1, 0, 2)  # noqa: E731
    q, k, v = map(heads, (q, k, v))
    scores = q @ k.transpose(0, 2, 1) / np.sqrt(C // 2)
    scores = scores + np.triu(np.full((T, T), -1e10), 1)
    e = np.exp(scores - np.max(scores, axis=-1, keepdims=True))
    att = e / np.sum(e, axis=-1, keepdims=True)
    x = x + (att @ v).transpose(1, 0, 2).reshape(T, C) @ Wo
    return x + gelu(norm(x) @ W1) @ W2


def rotary(q, k):
    """Rotations of pairs as products of complex numbers."""
    T, d = q.shape
    freqs = 1.0 / 10000 ** (np.arange(0, d, 2) / d)
    turns = np.exp(1j * np.outer(np.arange(T), freqs))

    def rotate(x):
        pairs = x.reshape(T, d // 2, 2)
        turned = (pairs[..., 0] + 1j * pairs[..., 1]) * turns
        return np.stack([turned.real, turned.imag], axis=-1).reshape(T, d)

    return rotate(q) @ rotate(k).T


def im2col_layer(x, w, b):
    """A convolution as a product of patches."""
    N, C, H, W = x.shape
    F, _, HH, WW = w.shape
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), mode="constant")
    patches = np.lib.stride_tricks.sliding_window_view(padded, (HH, WW), axis=(2, 3))
    cols = patches.transpose(0, 2, 3, 1, 4, 5).reshape(N * H * W, -1)
    out = cols @ w.reshape(F, -1).T + b
    return out.reshape(N, H, W, F).transpose(0, 3, 1, 2)


def policy_gradient(theta, states, actions, rewards):
    """REINFORCE with a baseline: the gradient of a softmax policy."""
    returns = np.zeros(len(rewards))
    running = 0.0
    for t in reversed(range(len(rewards))):
        running = rewards[t] + 0.95 * running
        returns[t] = running
    advantage = (returns - returns.mean()) / (returns.std() + 1e-8)
    logits = states @ theta
    z = logits - logits.max(axis=1)[:, np.newaxis]
    probs = np.exp(z) / np.exp(z).sum(axis=1)[:, np.newaxis]
    one_hot = np.eye(theta.shape[1])[actions]
    return states.T @ ((one_hot - probs) * advantage[:, None]), returns


def clipped_objective(logp, old, values, rewards, dones):
    """PPO: generalised advantages, and the clipped ratio."""
    gamma, lam = 0.99, 0.95
    adv = np.zeros_like(rewards)
    last = 0
    for t in range(len(rewards) - 1, -1, -1):
        delta = rewards[t] + gamma * values[t + 1] * (1 - dones[t]) - values[t]
        adv[t] = last = delta + gamma * lam * (1 - dones[t]) * last
    ratio = np.exp(logp - old)
    clipped = np.clip(ratio, 0.8, 1.2)
    return -np.minimum(ratio * adv, clipped * adv).mean(), np.mean(np.abs(ratio - 1) > 0.2)


def baum_welch(obs, pi, A, B):
    """A step of expectation and maximisation of a hidden Markov model, scaled."""
    T, N = len(obs), len(pi)
    alpha, beta, scale = np.zeros((T, N)), np.zeros((T, N)), np.zeros(T)
    alpha[0] = pi * B[:, obs[0]]
    scale[0] = alpha[0].sum()
    alpha[0] /= scale[0]
    for t in range(1, T):
        alpha[t] = (alpha[t - 1] @ A) * B[:, obs[t]]
        scale[t] = alpha[t].sum()
        alpha[t] /= scale[t]
    beta[-1] = 1.0
    for t in range(T - 2, -1, -1):
        beta[t] = A @ (B[:, obs[t + 1]] * beta[t + 1]) / scale[t + 1]
    gamma = alpha * beta
    xi = sum(
        np.outer(alpha[t], B[:, obs[t + 1]] * beta[t + 1]) * A / scale[t + 1] for t in range(T - 1)
    )
    newB = np.zeros_like(B)
    for symbol in range(B.shape[1]):
        newB[:, symbol] = gamma[obs == symbol].sum(axis=0)
    new_A = xi / xi.sum(axis=1, keepdims=True)
    return gamma[0], new_A, newB / newB.sum(axis=1, keepdims=True), np.log(scale).sum()


def particle_filter(zs, particles, noises, uniforms):
    """Systematic resampling of a cloud that follows measurements."""
    N = len(particles)
    estimates = []
    for z, noise, u in zip(zs, noises, uniforms):
        particles = 0.9 * particles + 0.3 * noise
        weights = np.exp(-0.5 * (z - particles) ** 2)
        weights /= np.sum(weights)
        estimates.append(np.average(particles, weights=weights))
        positions = (u + np.arange(N)) / N
        index = np.searchsorted(np.cumsum(weights), positions)
        particles = particles[np.minimum(index, N - 1)]
    return np.array(estimates), particles


def unscented_transform(mean, cov):
    """Sigma points through a function of polar coordinates."""
    n, kappa = len(mean), 1.0
    root = np.linalg.cholesky((n + kappa) * cov)
    sigma = np.vstack([mean, mean + root.T, mean - root.T])
    weights = np.full(2 * n + 1, 1 / (2 * (n + kappa)))
    weights[0] = kappa / (n + kappa)
    points = np.array([[s[0] * np.cos(s[1]), s[0] * np.sin(s[1])] for s in sigma])
    mu = weights @ points
    d = points - mu
    return mu, (weights[:, None] * d).T @ d


def marginal_likelihood(params, X, y):
    """The evidence of a Gaussian process, by a factor of Cholesky."""
    length, sigma, noise = np.exp(params)
    sq = np.sum(X**2, 1).reshape(-1, 1) + np.sum(X**2, 1) - 2 * np.dot(X, X.T)
    K = sigma**2 * np.exp(-0.5 / length**2 * sq) + noise**2 * np.eye(len(X))
    L = np.linalg.cholesky(K)
    alpha = np.linalg.solve(L.T, np.linalg.solve(L, y))
    return 0.5 * y @ alpha + np.log(np.diagonal(L)).sum() + 0.5 * len(X) * np.log(2 * np.pi)


def _markov(r, K=3, M=4):
    return (r.integers(0, M, 9), r.dirichlet(np.ones(K)), r.dirichlet(np.ones(K), K),
            r.dirichlet(np.ones(M), K))  # fmt: skip


PROGRAMS = [
    (diffusion_step, lambda r: (r.normal(size=(3, 2, 4)), r.normal(size=(3, 2, 4)),
                                np.array([2, 11, 19])), True),
    (timestep_embedding, lambda r: (r.integers(0, 1000, 4),), False),
    (gan_losses, lambda r: (r.normal(size=(6, 3)), r.normal(size=(6, 2)), r.normal(size=(2, 3)),
                            r.normal(size=(3, 1))), True),
    (variational_bound, lambda r: (r.uniform(size=(4, 5)), r.normal(size=(5, 2)),
                                   r.normal(size=(5, 2)), r.normal(size=(2, 5)),
                                   r.normal(size=(4, 2))), True),
    (mixture_of_experts, lambda r: (r.normal(size=(7, 4)), r.normal(size=(4, 3)),
                                    r.normal(size=(3, 4, 4))), True),
    (transformer_block, lambda r: (r.normal(size=(5, 4)), r.normal(size=(4, 12)),
                                   r.normal(size=(4, 4)), r.normal(size=(4, 8)),
                                   r.normal(size=(8, 4))), True),
    (rotary, lambda r: (r.normal(size=(5, 4)), r.normal(size=(5, 4))), True),
    (im2col_layer, lambda r: (r.normal(size=(2, 2, 4, 5)), r.normal(size=(3, 2, 3, 3)),
                              r.normal(size=3)), True),
    (policy_gradient, lambda r: (r.normal(size=(3, 2)), r.normal(size=(8, 3)),
                                 r.integers(0, 2, 8), r.normal(size=8)), True),
    (clipped_objective, lambda r: (r.normal(size=7) * 0.2, r.normal(size=7) * 0.2,
                                   r.normal(size=8), r.normal(size=7),
                                   1.0 * (np.arange(7) == 3)), True),
    (baum_welch, _markov, False),
    (particle_filter, lambda r: (r.normal(size=4), r.normal(size=10), r.normal(size=(4, 10)),
                                 r.uniform(size=4)), False),
    (unscented_transform, lambda r: (np.array([2.0, 0.5]), np.array([[0.2, 0.05], [0.05, 0.1]])),
     True),
    (marginal_likelihood, lambda r: (np.array([0.1, -0.2, -1.0]), r.normal(size=(7, 2)),
                                     r.normal(size=7)), True),
]  # fmt: skip

"""Trains a small network with JAX and optax on the platform weft, as `JAX_PLATFORMS=weft` does for
any program. Needs both (pip install 'weft[jax]' optax); without them there is nothing to see.
"""

import importlib.util
import os
import sys

import numpy as np

if importlib.util.find_spec("jax") is None or importlib.util.find_spec("optax") is None:
    print("jax or optax is not installed")
    sys.exit()

os.environ["JAX_PLATFORMS"] = "weft"
import jax
import jax.numpy as jnp
import optax

random = np.random.default_rng(0)
angles = random.uniform(0, 2 * np.pi, 512)
classes = random.integers(0, 2, 512)
radii = 1 + classes + 0.1 * random.standard_normal(512)
points = np.stack([radii * np.cos(angles), radii * np.sin(angles)], 1).astype(np.float32)


def initial(key, sizes=(2, 32, 2)):
    """Weights and biases of each layer."""
    keys = jax.random.split(key, len(sizes) - 1)
    shapes = zip(keys, sizes, sizes[1:], strict=False)
    return [(jax.random.normal(k, (m, n)) / m**0.5, jnp.zeros(n)) for k, m, n in shapes]


def logits(parameters, x):
    *hidden, (w, b) = parameters
    for inner, bias in hidden:
        x = jnp.tanh(x @ inner + bias)
    return x @ w + b


def loss(parameters, x, y):
    scores = jax.nn.log_softmax(logits(parameters, x))
    return -jnp.mean(scores[jnp.arange(len(y)), y])


optimizer = optax.adam(0.02)


@jax.jit
def step(parameters, state, x, y):
    value, gradients = jax.value_and_grad(loss)(parameters, x, y)
    updates, state = optimizer.update(gradients, state)
    return value, optax.apply_updates(parameters, updates), state


parameters = jax.jit(initial)(jax.random.PRNGKey(0))
state = jax.jit(optimizer.init)(parameters)
for _ in range(200):
    value, parameters, state = step(parameters, state, points, classes)
right = np.argmax(jax.jit(logits)(parameters, points), 1) == classes
print(f"on {jax.devices()[0]}: loss {float(value):.3f}, {right.mean():.1%} of the points are right")

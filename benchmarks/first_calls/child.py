"""One process of `benchmarks.first_calls`: `python child.py WHAT`, where WHAT is one of CALLS. Runs
alone, with the weft that PYTHONPATH leads to, and prints the seconds of the processor as JSON.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any, Final

import numpy as np

Step = Callable[[], Any]
Steps = dict[str, Step]


def operator() -> Steps:
    """The first operator on tensors with values."""

    def first() -> Any:
        weft: Any = import_module("weft")
        x = weft.Tensor(np.ones((16, 8), np.float32))
        return np.asarray(x * 2.0 + x)

    return {"first": first}


def jit() -> Steps:
    """The first jitted function and the next, which is another one."""

    def first() -> Any:
        weft, wnp = import_module("weft"), import_module("weft.numpy")

        def function(x: Any, y: Any) -> Any:
            return wnp.tanh(x) * y + 1.0

        return weft.jit(function)(rows, rows)

    def following() -> Any:
        weft, wnp = import_module("weft"), import_module("weft.numpy")

        def function(x: Any, y: Any) -> Any:
            return wnp.sum(wnp.exp(x) - y, axis=1)

        return weft.jit(function)(rows, rows)

    rows = np.ones((16, 8), np.float32)
    return {"first": first, "next": following}


def trace() -> Steps:
    """The first traced function."""

    def first() -> Any:
        weft, wnp = import_module("weft"), import_module("weft.numpy")

        def function(x: Any, y: Any) -> Any:
            return wnp.tanh(x) * y + 1.0

        return weft.trace(function, rows, rows)(rows, rows)

    rows = np.ones((16, 8), np.float32)
    return {"first": first}


def gradient() -> Steps:
    """The first gradient of tensors with values."""

    def first() -> Any:
        weft, wnp = import_module("weft"), import_module("weft.numpy")

        def loss(weights: Any, x: Any) -> Any:
            return wnp.mean(wnp.square(x @ weights))

        return weft.value_and_grad(loss)(weft.Tensor(np.ones((8, 3), np.float32)), rows)

    rows = np.ones((16, 8), np.float32)
    return {"first": first}


def eager_jnp() -> Steps:
    """Twenty programs of operators of jax.numpy, each compiled for itself."""
    jnp: Any = import_module("jax.numpy")
    jax: Any = import_module("jax")
    rng = np.random.default_rng(0)
    rows, square = (rng.standard_normal(each).astype(np.float32) for each in ((32, 8), (8, 8)))
    labels = rng.integers(0, 8, 32).astype(np.int32)

    def normalised() -> Any:
        x = jnp.asarray(rows)
        return (x - x.mean(0)) / (x.std(0) + 1e-6)

    def softmax() -> Any:
        x = jnp.asarray(rows)
        z = jnp.exp(x - x.max(-1, keepdims=True))
        return z / z.sum(-1, keepdims=True)

    def distances() -> Any:
        x = jnp.asarray(rows)
        return jnp.sqrt(((x[:, None] - x[None]) ** 2).sum(-1))

    def cross_entropy() -> Any:
        logs = jax.nn.log_softmax(jnp.asarray(rows))
        return -jnp.take_along_axis(logs, jnp.asarray(labels)[:, None], 1).mean()

    def sum_of_sines(x: Any) -> Any:
        return jnp.sin(x).sum()

    return {
        "add": lambda: jnp.asarray(rows) + 1,
        "normalised": normalised,
        "softmax": softmax,
        "distances": distances,
        "cross_entropy": cross_entropy,
        "matmul": lambda: jnp.asarray(rows) @ jnp.asarray(square),
        "tanh_dense": lambda: jnp.tanh(jnp.dot(jnp.asarray(rows), jnp.asarray(square)) + 0.5),
        "where": lambda: jnp.where(jnp.asarray(rows) > 0, jnp.asarray(rows), 0.1),
        "clip": lambda: jnp.clip(jnp.asarray(rows), -1, 1).sum(),
        "argmax": lambda: jnp.argmax(jnp.asarray(rows), axis=1) == jnp.asarray(labels),
        "one_hot": lambda: jax.nn.one_hot(jnp.asarray(labels), 8),
        "sort": lambda: jnp.sort(jnp.asarray(rows), axis=0),
        "cumsum": lambda: jnp.cumsum(jnp.asarray(rows), axis=0),
        "concatenate": lambda: jnp.concatenate([jnp.asarray(rows), jnp.asarray(square)]),
        "gather": lambda: jnp.asarray(square)[jnp.asarray(labels)],
        "scatter": lambda: jnp.zeros(8).at[jnp.asarray(labels)].add(1.0),
        "transpose": lambda: jnp.asarray(rows).T.reshape(16, 16),
        "linspace": lambda: jnp.linspace(0.0, 1.0, 17) ** 2,
        "normal": lambda: jax.random.normal(jax.random.key(0), (32, 4)),
        "gradient": lambda: jax.grad(sum_of_sines)(jnp.asarray(rows)),
    }


def flax() -> Steps:
    """`init` of three models."""
    jax, jnp = import_module("jax"), import_module("jax.numpy")
    nn: Any = import_module("flax.linen")

    class Perceptron(nn.Module):
        @nn.compact
        def __call__(self, x: Any) -> Any:
            for width in (64, 32):
                x = nn.relu(nn.Dense(width)(x))
            return nn.Dense(10)(x)

    class Convolutional(nn.Module):
        @nn.compact
        def __call__(self, x: Any) -> Any:
            for width in (8, 16):
                x = nn.relu(nn.BatchNorm(use_running_average=True)(nn.Conv(width, (3, 3))(x)))
                x = nn.avg_pool(x, (2, 2), (2, 2))
            return nn.Dense(10)(x.reshape(x.shape[0], -1))

    class Transformer(nn.Module):
        @nn.compact
        def __call__(self, tokens: Any) -> Any:
            x = nn.Embed(50, 32)(tokens)
            x = x + nn.SelfAttention(4)(nn.LayerNorm()(x))
            return nn.Dense(50)(x + nn.Dense(32)(nn.gelu(nn.Dense(64)(nn.LayerNorm()(x)))))

    def init(model: Any, *shape: int, dtype: Any = None) -> Step:
        return lambda: model.init(jax.random.key(0), jnp.zeros(shape, dtype))

    return {
        "perceptron": init(Perceptron(), 2, 16),
        "convolutional": init(Convolutional(), 2, 16, 16, 3),
        "transformer": init(Transformer(), 2, 12, dtype=jnp.int32),
    }


CALLS: Final = {each.__name__: each for each in (operator, jit, trace, gradient, eager_jnp, flax)}


def main() -> None:
    """Times the steps one after another."""
    steps = CALLS[sys.argv[1]]()
    seconds: dict[str, float] = {}
    for name, run in steps.items():
        begin = _spent()
        for leaf in _leaves(run()):
            np.asarray(leaf)
        seconds[name] = round(_spent() - begin, 4)
    print(json.dumps(seconds))


def _spent() -> float:
    """Seconds of this process, and of those that it has started and seen end."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def _leaves(value: Any) -> list[Any]:
    jax: Any = sys.modules.get("jax")
    return [] if jax is None else jax.tree.leaves(value)


if __name__ == "__main__":
    main()

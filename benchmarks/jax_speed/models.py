"""Models in plain JAX, for inference and training: weights are drawn, and all sizes are those of
the models' papers unless they are said to be small.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

Array = Any
Weights = dict[str, Array]
Program = tuple[Callable[..., Any], tuple[Any, ...]]
"""A function and its arguments."""


def models() -> dict[str, Program]:
    """Inference, then steps of training."""
    image, ids = _floats(1, 224, 224, 3), _integers(30_000, 1, 128)
    conv_weights = small_conv_net_weights()
    stages = {"resnet50": (3, 4, 6, 3), "resnet18": (2, 2, 2, 2)}
    decoder = transformer_weights(12, 768, 50257, 1024)
    small = transformer_weights(2, 128, 1000, 64)
    resnet = {name: resnet_weights(each, name == "resnet50") for name, each in stages.items()}
    cache = _floats(12, 2, 1, 12, 128, 64)
    labels = _integers(10, 32)
    return {
        "mlp": (mlp, (mlp_weights(), _floats(32, 784))),
        "resnet50": (resnet_of(stages["resnet50"]), (resnet["resnet50"], image)),
        "vit": (vit, (vit_weights(), image)),
        "bert": (bert, (transformer_weights(12, 768, 30522, 512), ids)),
        "gpt2 prefill": (gpt2, (decoder, _integers(50_000, 1, 64))),
        "gpt2 decode": (gpt2_step, (decoder, _integers(50_000, 1, 1), cache)),
        "mlp, training": (training(mlp), (mlp_weights(), _floats(32, 784), labels)),
        "small conv net, training": (
            training(small_conv_net), (conv_weights, _floats(32, 28, 28, 1), labels),
        ),
        "resnet18, training": (
            training(resnet_of(stages["resnet18"])),
            (resnet["resnet18"], _floats(4, 64, 64, 3), labels[:4]),
        ),
        "small transformer, training": (
            training(gpt2), (small, _integers(1000, 8, 64), _integers(1000, 8, 64)),
        ),
    }  # fmt: skip


_RANDOM = np.random.default_rng(0)


def _floats(*shape: int) -> Array:
    return _RANDOM.standard_normal(shape).astype(np.float32)


def _integers(most: int, *shape: int) -> Array:
    return _RANDOM.integers(0, most, shape).astype(np.int32)


def _matrix(*shape: int) -> Array:
    """Weights that keep the size of what they multiply."""
    return _floats(*shape) / np.float32(np.sqrt(np.prod(shape[:-1])))


def training(model: Callable[..., Array]) -> Callable[..., Any]:
    """A step of gradient descent."""
    import jax
    import jax.numpy as jnp

    def loss(weights: Any, x: Array, labels: Array) -> Array:
        scores = jax.nn.log_softmax(model(weights, x))
        return -jnp.mean(jnp.take_along_axis(scores, labels[..., None], -1))

    def step(weights: Any, x: Array, labels: Array) -> Any:
        value, gradients = jax.value_and_grad(loss)(weights, x, labels)
        return value, jax.tree.map(lambda w, g: w - 0.01 * g, weights, gradients)

    return step


def mlp_weights() -> Weights:
    """784 - 1024 - 1024 - 10."""
    sizes = [784, 1024, 1024, 10]
    return {f"w{at}": _matrix(*sizes[at : at + 2]) for at in range(3)}


def mlp(weights: Weights, x: Array) -> Array:
    """Three products."""
    import jax

    for name in ("w0", "w1"):
        x = jax.nn.relu(x @ weights[name])
    return x @ weights["w2"]


def _conv(x: Array, kernel: Array, stride: int = 1) -> Array:
    import jax

    dims = ("NHWC", "HWIO", "NHWC")
    return jax.lax.conv_general_dilated(x, kernel, (stride,) * 2, "SAME", dimension_numbers=dims)


def small_conv_net_weights() -> Weights:
    """Two convolutions and two products."""
    return {
        "c0": _matrix(3, 3, 1, 32), "c1": _matrix(3, 3, 32, 64), "w0": _matrix(3136, 128),
        "w1": _matrix(128, 10),
    }  # fmt: skip


def small_conv_net(weights: Weights, x: Array) -> Array:
    """LeNet's successor, as examples train it on digits."""
    import jax
    import jax.numpy as jnp

    for name in ("c0", "c1"):
        x = jax.nn.relu(_conv(x, weights[name]))
        x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    x = jax.nn.relu(x.reshape(x.shape[0], -1) @ weights["w0"])
    return x @ weights["w1"]


def _blocks(stages: tuple[int, ...]) -> Iterator[tuple[int, int]]:
    """The stride and the width of each block."""
    for at, count in enumerate(stages):
        for number in range(count):
            yield (2 if at and not number else 1), 64 << at


def resnet_weights(stages: tuple[int, ...], bottleneck: bool) -> dict[str, Any]:
    """Kernels, scales and shifts of blocks, by name."""

    def unit(kernel: int, given: int, made: int) -> tuple[Array, Array, Array]:
        return _matrix(kernel, kernel, given, made), np.ones(made, "f"), np.zeros(made, "f")

    given, weights = 64, {"stem": unit(7, 3, 64)}
    for at, (stride, width) in enumerate(_blocks(stages)):
        made = 4 * width if bottleneck else width
        sizes = [(1, given, width), (3, width, width), (1, width, made)]
        plain = [(3, given, width), (3, width, made)]
        for number, each in enumerate(sizes if bottleneck else plain):
            weights[f"b{at}.{number}"] = unit(*each)
        if stride > 1 or given != made:
            weights[f"b{at}.skip"] = unit(1, given, made)
        given = made
    return weights | {"head": _matrix(given, 1000)}


def resnet_of(stages: tuple[int, ...]) -> Callable[..., Array]:
    """A residual network with norms that use statistics that are known."""
    import jax
    import jax.numpy as jnp

    def unit(x: Array, weights: tuple[Array, Array, Array], stride: int = 1) -> Array:
        kernel, scale, shift = weights
        return _conv(x, kernel, stride) * scale + shift

    def model(weights: Any, x: Array) -> Array:
        x = jax.nn.relu(unit(x, weights["stem"], 2))
        window = (1, 3, 3, 1), (1, 2, 2, 1)
        x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, *window, "SAME")
        for at, (stride, _) in enumerate(_blocks(stages)):
            y, number = x, 0
            while f"b{at}.{number}" in weights:
                last = f"b{at}.{number + 1}" not in weights
                kernel = weights[f"b{at}.{number}"][0]
                strides = stride if kernel.shape[0] == 3 and (number == 0 or not last) else 1
                y = unit(y, weights[f"b{at}.{number}"], strides)
                y = y if last else jax.nn.relu(y)
                number += 1
            skip = weights.get(f"b{at}.skip")
            x = jax.nn.relu(y + (x if skip is None else unit(x, skip, stride)))
        return x.mean((1, 2)) @ weights["head"]

    return model


def transformer_weights(layers: int, width: int, words: int, length: int) -> dict[str, Any]:
    """Embeddings, and the matrices of each layer."""
    shapes = {"qkv": (width, 3 * width), "out": (width, width), "up": (width, 4 * width)}
    shapes["down"] = (4 * width, width)
    return {
        "words": _matrix(words, width), "places": _matrix(length, width) * 0.1,
        "layers": [{name: _matrix(*shape) for name, shape in shapes.items()}
                   for _ in range(layers)],
    }  # fmt: skip


def _norm(x: Array) -> Array:
    import jax.numpy as jnp

    centered = x - x.mean(-1, keepdims=True)
    return centered / jnp.sqrt((centered**2).mean(-1, keepdims=True) + 1e-5)


def _heads(x: Array) -> Array:
    batch, length, width = x.shape
    return x.reshape(batch, length, width // 64, 64).transpose(0, 2, 1, 3)


def _layer(x: Array, w: Weights, causal: bool, cache: Array | None = None) -> Array:
    """Attention and two products, norms first; `cache` has keys and values of words before."""
    import jax
    import jax.numpy as jnp

    q, k, v = (_heads(each) for each in jnp.split(_norm(x) @ w["qkv"], 3, -1))
    if cache is not None:
        k, v = (jnp.concatenate(pair, 2) for pair in ((cache[0], k), (cache[1], v)))
    scores = q @ k.swapaxes(-1, -2) / 8
    if causal:
        mask = jnp.tril(jnp.ones(scores.shape[-2:], bool))
        scores = jnp.where(mask, scores, -1e9)
    mixed = (jax.nn.softmax(scores) @ v).transpose(0, 2, 1, 3).reshape(x.shape)
    x = x + mixed @ w["out"]
    return x + jax.nn.gelu(_norm(x) @ w["up"]) @ w["down"]


def bert(weights: Any, ids: Array) -> Array:
    """The states of the last layer."""
    x = weights["words"][ids] + weights["places"][: ids.shape[1]]
    for each in weights["layers"]:
        x = _layer(x, each, False)
    return _norm(x)


def gpt2(weights: Any, ids: Array) -> Array:
    """Scores of the next word at each place."""
    x = weights["words"][ids] + weights["places"][: ids.shape[1]]
    for each in weights["layers"]:
        x = _layer(x, each, True)
    return _norm(x) @ weights["words"].T


def gpt2_step(weights: Any, ids: Array, cache: Array) -> Array:
    """Scores of the word behind one, with keys and values of those before."""
    x = weights["words"][ids] + weights["places"][cache.shape[4]]
    for each, past in zip(weights["layers"], cache, strict=True):
        x = _layer(x, each, False, past)
    return _norm(x) @ weights["words"].T


def vit_weights() -> dict[str, Any]:
    """The base size, patches of 16."""
    return {
        "patches": _matrix(16, 16, 3, 768), "head": _matrix(768, 1000), "class": _floats(1, 1, 768),
        **transformer_weights(12, 768, 1, 197),
    }  # fmt: skip


def vit(weights: Any, image: Array) -> Array:
    """Scores of classes."""
    import jax
    import jax.numpy as jnp

    dims = ("NHWC", "HWIO", "NHWC")
    x = jax.lax.conv_general_dilated(
        image, weights["patches"], (16, 16), "VALID", dimension_numbers=dims
    ).reshape(image.shape[0], -1, 768)
    x = jnp.concatenate([weights["class"], x], 1) + weights["places"]
    for each in weights["layers"]:
        x = _layer(x, each, False)
    return _norm(x)[:, 0] @ weights["head"]

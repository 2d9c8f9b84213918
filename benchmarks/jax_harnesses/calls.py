"""What a call of `jax.jit` costs on the platform `weft` and on XLA's CPU, in one process:
`python -m benchmarks.jax_harnesses.calls`.

Blocks of calls alternate between the platforms; the medians of the blocks, in microseconds, are by
the clock and by the processor time of the calling thread.
"""

from __future__ import annotations

import json
import os
import statistics
import time
from collections.abc import Callable
from typing import Any, Final

import numpy as np

BLOCKS: Final = 21
SECONDS: Final = 0.05
"""Of a block."""


def programs() -> dict[str, tuple[Callable[..., Any], tuple[Any, ...]]]:
    """Functions of JAX and their arguments."""
    import jax
    import jax.numpy as jnp

    random = np.random.default_rng(0)
    weights = [random.standard_normal((64, 64)).astype(np.float32) for _ in range(4)]
    images = random.standard_normal((32, 64)).astype(np.float32)

    def network(weights: Any, x: Any) -> Any:
        for each in weights:
            x = jnp.tanh(x @ each)
        return jnp.mean(x**2)

    return {
        "x + 1, 1": (lambda x: x + 1, (np.ones(1, np.float32),)),
        "x + 1, 1e3": (lambda x: x + 1, (np.ones(1000, np.float32),)),
        "x + 1, 1e6": (lambda x: x + 1, (np.ones(1_000_000, np.float32),)),
        "network 32 x 64": (network, (weights, images)),
        "its gradient": (jax.grad(network), (weights, images)),
    }


def block(function: Callable[..., Any], arguments: tuple[Any, ...], count: int) -> list[float]:
    """Microseconds of a call, by the clock and by the process's processor time."""
    begin, processor = time.perf_counter(), time.process_time()
    for _ in range(count):
        result = function(*arguments)
    for leaf in result if isinstance(result, list) else [result]:
        leaf.block_until_ready()
    spent = time.perf_counter() - begin, time.process_time() - processor
    return [each / count * 1e6 for each in spent]


def measured(function: Callable[..., Any], arguments: tuple[Any, ...]) -> dict[str, float]:
    """The medians on both platforms."""
    import jax

    given = {name: jax.device_put(arguments, jax.devices(name)[0]) for name in ("weft", "cpu")}
    staged = jax.jit(function)
    counts = {}
    for name, values in given.items():
        staged(*values)
        clock = block(staged, values, 20)[0]
        counts[name] = max(5, int(SECONDS * 1e6 / clock))
    blocks: dict[str, list[list[float]]] = {name: [] for name in given}
    for _ in range(BLOCKS):
        for name, values in given.items():
            blocks[name].append(block(staged, values, counts[name]))
    medians = {
        name: [round(statistics.median(column), 2) for column in zip(*found, strict=True)]
        for name, found in blocks.items()
    }
    names = {"weft": "weft", "cpu": "xla"}
    return {
        f"{names[name]}_{what}_us": medians[name][at]
        for name in medians
        for at, what in enumerate(("clock", "processor"))
    }


def main() -> None:
    """Prints a line for each program."""
    os.environ["JAX_PLATFORMS"] = "weft,cpu"
    for name, (function, arguments) in programs().items():
        print(json.dumps({"program": name} | measured(function, arguments)), flush=True)


if __name__ == "__main__":
    main()

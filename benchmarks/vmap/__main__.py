"""Processor time of `vmap` of a function of one sample over that of the batched function written by
hand, both compiled by weft for one thread: `python -m benchmarks.vmap`.

The two take turns; a number is the median of many rounds.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from statistics import geometric_mean, median
from typing import Any, Final

import numpy as np

import weft
import weft.numpy as wnp
from benchmarks.options import append_row, parser_of

ROUNDS: Final = 41
RNG: Final = np.random.default_rng(0)


def _f32(*shape: int) -> Any:
    return RNG.normal(size=shape).astype(np.float32)


def _attention(q: Any, k: Any, v: Any) -> Any:
    scores = wnp.softmax(q @ k.mT * 0.125, axis=-1)
    return scores @ v


def _newton(x: Any) -> Any:
    return weft.fori_loop(0, 20, lambda _, y: 0.5 * (y + x / y), x)


def _perceptron(w: Any, u: Any, x: Any, axis: int = 1) -> Any:
    """A network of two layers, and the square of what it gives."""
    hidden = wnp.tanh(w @ x) if axis == 1 else wnp.tanh(x @ w.mT)
    result = u @ hidden if axis == 1 else hidden @ u.mT
    return (result * result).sum(axis=-1)


def _slopes(w: Any, u: Any, x: Any) -> Any:
    return weft.grad(lambda x: _perceptron(w, u, x))(x)


def _slopes_by_hand(w: Any, u: Any, x: Any) -> Any:
    return weft.grad(lambda x: _perceptron(w, u, x, 2).sum())(x)


Case = tuple[Callable[..., Any], Callable[..., Any], tuple[Any, ...]]
CASES: Final[dict[str, Case]] = {
    "affine": (
        weft.vmap(lambda w, b, x: wnp.tanh(w @ x + b), (None, None, 0)),
        lambda w, b, x: wnp.tanh(x @ w.mT + b),
        (_f32(256, 128), _f32(256), _f32(512, 128)),
    ),
    "softmax": (
        weft.vmap(lambda x: wnp.softmax(x, axis=-1) * x.sum()),
        lambda x: wnp.softmax(x, axis=-1) * x.sum(axis=-1, keepdims=True),
        (_f32(4096, 100),),
    ),
    "attention": (
        weft.vmap(weft.vmap(_attention)), _attention, tuple(_f32(4, 8, 64, 64) for _ in range(3)),
    ),
    "distances": (
        weft.vmap(
            weft.vmap(lambda a, b: ((a - b) ** 2).sum(), (None, 0)), (0, None)
        ),
        lambda a, b: ((a[:, None] - b[None]) ** 2).sum(axis=-1),
        (_f32(300, 16), _f32(300, 16)),
    ),
    "standardised": (
        weft.vmap(lambda x: (x - x.mean()) / x.std()),
        lambda x: (x - x.mean(axis=-1, keepdims=True)) / x.std(axis=-1, keepdims=True),
        (_f32(4096, 128),),
    ),
    "newton": (weft.vmap(_newton), _newton, (np.abs(_f32(100_000)) + 1,)),
    "gradient": (weft.vmap(_slopes, (None, None, 0)), _slopes_by_hand,
                 (_f32(128, 64), _f32(32, 128), _f32(512, 64))),
    "rows": (
        weft.vmap(lambda table, n: table[n] * 2.0, (None, 0)),
        lambda table, n: table[n] * 2.0,
        (_f32(1000, 64), RNG.integers(0, 1000, 8192)),
    ),
}  # fmt: skip


def measured(case: Case) -> float:
    """By hand over vmap: above 1 where vmap is faster."""
    mapped, by_hand, arguments = case
    compiled = [weft.trace(each, *arguments, threads=1) for each in (mapped, by_hand)]
    expected, found = (each(*arguments) for each in compiled)
    np.testing.assert_allclose(found, expected, rtol=2e-4, atol=2e-4)
    times: list[list[float]] = [[], []]
    for _ in range(ROUNDS):
        for executable, taken in zip(compiled, times, strict=True):
            calls, start = 0, time.process_time()
            while calls < 3 or time.process_time() - start < 0.01:
                executable(*arguments)
                calls += 1
            taken.append((time.process_time() - start) / calls)
    return median(hand / vmap for vmap, hand in zip(*times, strict=True))


def main() -> int:
    chosen = parser_of("vmap", __doc__, "vmap-").parse_args()
    ratios: dict[str, float] = {}
    for name, case in CASES.items():
        ratios[name] = measured(case)
        print(f"{name:14} {ratios[name]:.2f}", flush=True)
    mean = geometric_mean(ratios.values())
    print(f"geometric mean {mean:.2f}, least {min(ratios.values()):.2f}")
    append_row(chosen.output, {"ratios": ratios, "mean": mean})
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""`check_grad`: derivatives against differences of the function's values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from weft.autodiff.derivatives import value_and_grad
from weft.dialects.errors import WeftError
from weft.dialects.graph.core.evaluate import evaluate_block
from weft.dialects.weights import Array
from weft.tracing.trace import Trace, record
from weft.trees import leaves_of, tree_map

STEP = 1e-6


def check_grad(
    function: Callable[..., Any],
    *arguments: Any,
    argnums: int | Sequence[int] = 0,
    tolerance: float = 1e-6,
    directions: int = 2,
) -> float:
    """Compares the gradient of a function, which gives one float, with central differences along
    random directions of each tensor among the chosen arguments; returns the greatest difference,
    relative to the slope where that is above 1.

    Both are computed in float64, whatever floats the arguments are, operator by operator in NumPy.
    Raises WeftError for a difference above the tolerance.
    """
    wide = tree_map(_widened, tuple(arguments))
    chosen = (argnums,) if isinstance(argnums, int) else tuple(argnums)
    plain, both = record(function, *wide), record(value_and_grad(function, chosen), *wide)
    leaves = leaves_of(wide)
    _, *gradients = _run(both, leaves)
    ends = np.cumsum([0, *(len(leaves_of(argument)) for argument in wide)])
    positions = [position for n in chosen for position in range(ends[n], ends[n + 1])]
    rng, worst = np.random.default_rng(0), 0.0
    for position, gradient in zip(positions, gradients, strict=True):
        for _ in range(directions):
            direction = rng.normal(size=gradient.shape)
            slope = float((gradient * direction).sum())
            difference = _difference(plain, leaves, position, direction)
            error = abs(slope - difference) / max(1.0, abs(difference))
            if not error <= tolerance:
                rule = f"check_grad requires slopes within {tolerance:g} of differences"
                raise WeftError(
                    f"{rule}, got {slope:.9g} and {difference:.9g} of tensor {position}"
                )
            worst = max(worst, error)
    return worst


def _widened(leaf: Any) -> Array:
    array = np.asarray(leaf)
    return array if array.dtype.kind in "biu" else array.astype(np.float64)


def _difference(plain: Trace, leaves: Sequence[Array], position: int, direction: Array) -> float:
    """The slope of the function along a direction of one tensor."""
    step = STEP * max(1.0, float(np.abs(leaves[position]).max(initial=0.0)))
    values: list[float] = []
    for sign in (1, -1):
        moved = [
            *leaves[:position],
            leaves[position] + sign * step * direction,
            *leaves[position + 1 :],
        ]
        values.append(float(_run(plain, moved)[0].reshape(())))
    return (values[0] - values[1]) / (2 * step)


def _run(trace: Trace, inputs: Sequence[Array]) -> list[Array]:
    return evaluate_block(trace.recording.block, inputs, {}, trace.recording.weights)

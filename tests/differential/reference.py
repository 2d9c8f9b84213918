"""What a graph has to give: its operators' `reference` in float64, and how far rounding leads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.ir import Block, Operation

from weft.dialects.graph.core.evaluate import evaluate_block
from weft.dialects.weights import WeightStore

EXACT = frozenset(
    "graph." + name
    for name in (
        "max", "min", "clip", "neg", "abs", "sign", "floor", "ceil", "round", "relu",
        "equal", "less", "less_equal", "greater", "greater_equal", "is_nan", "is_inf",
        "where", "cast", "bitcast", "identity", "stop_gradient", "watch", "reshape",
        "dynamic_reshape", "assume", "transpose", "expand", "slice", "scatter_slice", "concat",
        "split",
        "pad", "insert_slice", "tile", "depth_to_space", "space_to_depth", "trilu",
        "reverse_sequence", "gather", "gather_elements", "gather_nd", "scatter_elements",
        "scatter_nd", "reduce_max", "reduce_min", "hardmax", "arg_max", "arg_min",
        "argsort", "max_pool", "max_pool_indices", "global_max_pool", "max_region_pool",
        "one_hot", "range", "shape", "size", "nonzero", "random_bits",
        "mersenne_twister", "threefry", "unfold",
    )
)  # fmt: skip
"""Operators that round nothing: noise in front of them would tell equal values apart."""

SAMPLES, NOISE, FACTOR = 4, 4.0, 12.0
"""Evaluations with noise, its size in units of the last place, and what is allowed of the spread.
"""


@dataclass(frozen=True)
class Graph:
    """A graph function's block, with the arrays that it brought along."""

    block: Block
    weights: WeightStore

    def in_its_types(self, arrays: Sequence[np.ndarray]) -> tuple[list[np.ndarray], int]:
        """What it gives in the types that it has, and how many elements of an operand there are for
        one of a result, at most: a sum of so many, one after the other, may round in the same
        direction each time.
        """
        most = 1

        def observe(op: Operation, operands: Sequence[np.ndarray], results: Sequence[np.ndarray]):
            nonlocal most
            least = min((each.size for each in results), default=0)
            if op.name not in EXACT and least:
                most = max([most, *(each.size // least for each in operands)])

        with np.errstate(all="ignore"):
            return evaluate_block(self.block, arrays, {}, self.weights, observe), most

    def run(
        self, arrays: Sequence[np.ndarray], noise: float = 0.0, seed: int = 0
    ) -> list[np.ndarray]:
        """What it gives in float64, each operand of a rounding operator changed by so much."""
        rng = np.random.default_rng(seed)

        def perturb(op: Operation, operands: Sequence[np.ndarray]) -> list[np.ndarray]:
            if op.name in EXACT:
                return list(operands)
            return [_noisy(each, noise, rng) for each in operands]

        with np.errstate(all="ignore"):
            return evaluate_block(self.block, arrays, {}, self.weights, wide=True,
                                  perturb=perturb if noise else None)  # fmt: skip


def _noisy(array: np.ndarray, noise: float, rng: np.random.Generator) -> np.ndarray:
    if array.dtype != np.float64:
        return array
    return array * (1 + noise * rng.uniform(-1, 1, array.shape))


@dataclass(frozen=True)
class Expected:
    """A result, and how far from it an element may be: NaN where nothing can be said."""

    value: np.ndarray
    slack: float

    def difference(self, got: np.ndarray) -> str:
        """What is wrong with a result; nothing where all is right."""
        if got.shape != self.value.shape:
            return f"the shape is {got.shape}, not {self.value.shape}"
        certain = np.isfinite(np.asarray(self.value, np.float64))
        if not certain.any():
            return ""
        with np.errstate(all="ignore"):
            wrong = np.abs(np.asarray(got, np.float64) - np.asarray(self.value, np.float64))
        wrong = np.where(certain, wrong, 0.0)
        if not bool((wrong > self.slack).any() | np.isnan(wrong).any()):
            return ""
        worst = float(np.nanmax(wrong)) if np.isfinite(wrong).any() else float("nan")
        return f"a difference of {worst:.3g}, where {self.slack:.3g} is allowed"


def expect(
    graph: Graph, arrays: Sequence[np.ndarray], precision: float, noise: float = NOISE,
    samples: int = SAMPLES,
) -> list[Expected]:  # fmt: skip
    """The results of a graph computed with floats of this precision (the distance from 1 to the
    next): several evaluations with noise, and one in the types that the graph has, show by how much
    rounding may change each. Long sums have more noise.
    """
    exact, (own, terms) = graph.run(arrays), graph.in_its_types(arrays)
    noise *= precision * max(1.0, terms**0.5 / 4)
    spreads = [_distance(one, other) for one, other in zip(own, exact, strict=True)]
    for sample in range(samples):
        for place, array in enumerate(graph.run(arrays, noise, sample)):
            spreads[place] = max(spreads[place], _distance(array, exact[place]))
    return [
        Expected(value, FACTOR * spread + _least(value, precision, terms))
        for value, spread in zip(exact, spreads, strict=True)
    ]


def _distance(one: np.ndarray, other: np.ndarray) -> float:
    if one.shape != other.shape:
        return float("inf")
    with np.errstate(all="ignore"):
        apart = np.abs(np.asarray(one, np.float64) - np.asarray(other, np.float64))
    certain = np.isfinite(np.asarray(other, np.float64))
    apart = apart[certain]
    return float(np.where(np.isnan(apart), np.inf, apart).max(initial=0.0))


def _least(value: np.ndarray, precision: float, terms: int) -> float:
    if value.dtype.kind in "biu":
        return 0.0
    finite = np.abs(value[np.isfinite(value)])
    return (16 + terms / 4) * precision * float(finite.max(initial=0.0)) + 1e-30


def slope_error(values: Graph, slopes: Graph, arrays: Sequence[np.ndarray], floats: Sequence[int],
                seed: int) -> str:  # fmt: skip
    """What is wrong with a gradient, compared with differences of the loss, the last of the values,
    along a random direction; nothing where it is right, or where the loss has a kink nearby.
    """
    wide = [each.astype(np.float64) if n in floats else each for n, each in enumerate(arrays)]
    rng = np.random.default_rng(seed)
    directions = {n: rng.normal(size=wide[n].shape) for n in floats}
    found = slopes.run(wide)
    slope = sum(float((directions[n] * each).sum()) for n, each in zip(floats, found, strict=True))
    rough = [_slopes(values, wide, directions, step) for step in (3e-5, 1e-5, 3e-6)]
    central = [(ahead + behind) / 2 for ahead, behind in rough]
    size = max(1.0, abs(central[-1]))
    agree, jump = max(central) - min(central), abs(rough[-1][0] - rough[-1][1])
    if not np.isfinite(rough).all() or agree > 1e-4 * size or jump > 1e-3 * size:
        return ""
    if abs(slope - central[-1]) <= 1e-3 * size:
        return ""
    if not np.isfinite(slope):
        return f"the slope is {slope}, of differences {central[-1]:.9g}"
    return f"the slope is {slope:.9g}, of differences {central[-1]:.9g} (they agree to {agree:.2g})"


def _slopes(
    values: Graph, arrays: Sequence[np.ndarray], directions: dict[int, np.ndarray], step: float
) -> tuple[float, float]:
    """The slopes ahead and behind: at a kink or jump they differ, whatever their mean is."""
    found: list[float] = []
    for way in (1, 0, -1):
        moved = list(arrays)
        for place, direction in directions.items():
            moved[place] = arrays[place] + way * step * direction
        found.append(float(values.run(moved)[-1].reshape(())))
    ahead, here, behind = found
    return (ahead - here) / step, (here - behind) / step

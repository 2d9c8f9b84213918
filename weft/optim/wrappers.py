"""Optimisers around optimisers: averaged parameters, gradients of several steps, scaled losses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import weft.numpy as wnp
from weft.autodiff.derivatives import value_and_grad
from weft.eager.tensor import Tensor
from weft.optim.optimizers import Optimizer
from weft.trees import leaves_of, tree_map


def averaged(optimizer: Optimizer, decay: float = 0.999) -> Optimizer:
    """The optimiser, whose state has a running mean of the parameters as `mean_parameters`."""

    def init(parameters: Any) -> Any:
        copies = tree_map(lambda each: Tensor(np.asarray(each)), parameters)
        return {"inner": optimizer.init(parameters), "mean_parameters": copies}

    def update(parameters: Any, gradients: Any, state: Any) -> tuple[Any, Any]:
        after, inner = optimizer.update(parameters, gradients, state["inner"])
        means = tree_map(
            lambda mean, p: mean * decay + p * (1.0 - decay), state["mean_parameters"], after
        )
        return after, {"inner": inner, "mean_parameters": means}

    return Optimizer(init, update)


def accumulated(optimizer: Optimizer, every: int) -> Optimizer:
    """The optimiser, whose steps are by the mean of so many gradients; others change nothing."""

    def init(parameters: Any) -> Any:
        sums = tree_map(lambda each: Tensor(np.zeros_like(np.asarray(each))), parameters)
        return {"inner": optimizer.init(parameters), "sum": sums, "count": _number(0.0)}

    def update(parameters: Any, gradients: Any, state: Any) -> tuple[Any, Any]:
        count = state["count"] + 1.0
        sums = tree_map(lambda s, g: s + g, state["sum"], gradients)
        is_last = count >= float(every)
        means = tree_map(lambda s: s * (1.0 / every), sums)
        after, inner = chosen(
            is_last, optimizer.update(parameters, means, state["inner"]),
            (parameters, state["inner"]),
        )  # fmt: skip
        left = tree_map(lambda s: wnp.where(is_last, 0.0, s), sums)
        return after, {"inner": inner, "sum": left, "count": wnp.where(is_last, 0.0, count)}

    return Optimizer(init, update)


def chosen(held: Any, new: Any, old: Any) -> Any:
    """One of two trees by a bool that only a call knows."""
    return tree_map(lambda x, y: wnp.where(held, x, y), new, old)


class LossScaler:
    """Losses of halves scaled up, so that small gradients are not lost: twice as much after
    `growth_interval` steps, half as much behind a step with gradients that are not finite, which
    then changes nothing. The state is a tree, as that of optimisers.
    """

    def __init__(self, start: float = 65536.0, growth_interval: int = 2000):
        self.start, self.growth_interval = start, growth_interval

    def init(self) -> dict[str, Any]:
        """The state before the first step."""
        return {"scale": _number(self.start), "good": _number(0.0)}

    def value_and_grad(self, function: Callable[..., Any]) -> Callable[..., tuple[Any, Any]]:
        """From the state and the arguments of a loss to its value and gradients, scaled down again
        and of the dtypes of the parameters, its first argument.
        """

        def scaled(parameters: Any, scale: Any, *arguments: Any) -> Any:
            return function(parameters, *arguments) * scale

        def differentiated(state: Any, parameters: Any, *arguments: Any) -> tuple[Any, Any]:
            scale = state["scale"]
            value, slopes = value_and_grad(scaled)(parameters, scale, *arguments)
            return value / scale, tree_map(lambda g: g / scale.astype(g.dtype), slopes)

        return differentiated

    def update(
        self, optimizer: Optimizer, parameters: Any, gradients: Any, state: Any, scaling: Any
    ) -> tuple[Any, Any, Any]:
        """Parameters, the optimiser's state and that of the scaler behind a step."""
        finite: Any = True
        for each in leaves_of(gradients):
            finite = wnp.logical_and(wnp.all(wnp.isfinite(each)), finite)
        before = parameters, state
        after = chosen(finite, optimizer.update(parameters, gradients, state), before)
        good = wnp.where(finite, scaling["good"] + 1.0, 0.0)
        grows = good >= float(self.growth_interval)
        scale = scaling["scale"] * wnp.where(finite, wnp.where(grows, 2.0, 1.0), 0.5)
        scaler = {"scale": scale.astype(np.float32), "good": wnp.where(grows, 0.0, good)}
        return *after, scaler


def in_dtype(tree: Any, dtype: Any) -> Any:
    """A tree of parameters whose floats have another dtype, such as float16 for mixed precision."""

    def converted(leaf: Any) -> Any:
        return leaf if leaf.dtype.kind in "biu" else leaf.astype(dtype)

    return tree_map(converted, tree)


def _number(value: float) -> Tensor:
    return Tensor.of(np.asarray(value, np.float32))

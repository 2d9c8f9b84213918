"""Optimisers as functions of trees: parameters, their gradients and a state to new parameters and a
new state. They are written in operators of tensors, so they run at once or become part of a graph.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from msgspec import Struct

import weft.numpy as wnp
from weft.eager.tensor import Tensor
from weft.trees import leaves_of, tree_map

Schedule = float | Callable[[Any], Any]
"""A rate, or a function from the number of the step, a float32 of at least 1, to it."""


class Optimizer(Struct, frozen=True):
    """`init(parameters)` gives the state, `update(parameters, gradients, state)` the parameters and
    the state after a step.
    """

    init: Callable[[Any], Any]
    update: Callable[[Any, Any, Any], tuple[Any, Any]]


def _begun() -> Tensor:
    return Tensor.of(np.zeros((), np.float32))


def _zeros(parameters: Any) -> Any:
    def zeros(each: Any) -> Tensor:
        return Tensor.of(np.zeros(tuple(each.shape), np.dtype(each.dtype)))

    return tree_map(zeros, parameters)


def _rate(rate: Schedule, step: Any) -> Any:
    return rate(step) if callable(rate) else rate


def sgd(rate: Schedule, momentum: float = 0.0, nesterov: bool = False) -> Optimizer:
    """Steps down the slope; with `momentum` along a running sum of slopes, whose next step
    `nesterov` looks ahead to. Raises ValueError for `nesterov` without `momentum`.
    """
    if nesterov and not momentum:
        raise ValueError(f"nesterov requires a momentum, got {momentum}")

    def init(parameters: Any) -> Any:
        return {"step": _begun()} | ({"sum": _zeros(parameters)} if momentum else {})

    def update(parameters: Any, gradients: Any, state: Any) -> tuple[Any, Any]:
        step = state["step"] + 1.0
        speed = _rate(rate, step)
        if not momentum:
            return tree_map(lambda p, g: p - g * speed, parameters, gradients), {"step": step}
        sums = tree_map(lambda g, s: s * momentum + g, gradients, state["sum"])
        ways = tree_map(lambda g, s: s * momentum + g, gradients, sums) if nesterov else sums
        return tree_map(lambda p, w: p - w * speed, parameters, ways), {"step": step, "sum": sums}

    return Optimizer(init, update)


def adamw(
    rate: Schedule,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-8,
    decay: float = 0.01,
) -> Optimizer:
    """Adam, with parameters drawn towards zero apart from their slopes (Loshchilov and Hutter)."""

    def init(parameters: Any) -> Any:
        return {"step": _begun(), "mean": _zeros(parameters), "square": _zeros(parameters)}

    def update(parameters: Any, gradients: Any, state: Any) -> tuple[Any, Any]:
        step = state["step"] + 1.0
        speed = _rate(rate, step)
        first, second = 1.0 - beta1**step, 1.0 - beta2**step
        means = tree_map(lambda g, m: m * beta1 + g * (1.0 - beta1), gradients, state["mean"])
        squares = tree_map(
            lambda g, s: s * beta2 + g * g * (1.0 - beta2), gradients, state["square"]
        )

        def moved(parameter: Any, mean: Any, square: Any) -> Any:
            way = (mean / first) / (wnp.sqrt(square / second) + epsilon)
            return parameter - (way + parameter * decay if decay else way) * speed

        after = tree_map(moved, parameters, means, squares)
        return after, {"step": step, "mean": means, "square": squares}

    return Optimizer(init, update)


def adam(
    rate: Schedule, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-8
) -> Optimizer:
    """Steps by running means of slopes over roots of those of their squares (Kingma and Ba)."""
    return adamw(rate, beta1, beta2, epsilon, decay=0.0)


def clip_by_norm(gradients: Any, norm: float) -> Any:
    """Gradients scaled down together where their common Euclidean norm is greater."""
    total = sum((each * each).sum() for each in leaves_of(gradients))
    factor = wnp.minimum(norm / (wnp.sqrt(total) + 1e-12), 1.0)
    return tree_map(lambda each: each * factor, gradients)

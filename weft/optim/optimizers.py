"""Optimisers: how a step follows from gradients and from what earlier ones left in the state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from msgspec import Struct

import weft.numpy as wnp
from weft.eager.tensor import Tensor
from weft.trees import flatten, leaves_of, tree_map, unflatten

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


def _with_memory(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Optimizer]]:
    """Makes a maker of optimisers of what a step subtracts from a parameter: `step(parameter,
    gradient, rate, number, held, **settings)` gives that, and values by these names, which begin
    with zeros and which it finds in `held` the next time. Settings have defaults.
    """

    def wrapped(step: Callable[..., Any]) -> Callable[..., Optimizer]:
        def make(rate: Schedule, **settings: Any) -> Optimizer:
            known: dict[str, Any] = step.__kwdefaults__ or {}
            if unknown := sorted(set(settings) - set(known)):
                rule = f"{step.__name__} takes {', '.join(known)}"
                raise TypeError(f"{rule}, got {', '.join(unknown)}")

            def init(parameters: Any) -> Any:
                return {"step": _begun(), **{name: _zeros(parameters) for name in names}}

            def update(parameters: Any, gradients: Any, state: Any) -> tuple[Any, Any]:
                number = state["step"] + 1.0
                speed = _rate(rate, number)
                leaves, structure = flatten(parameters)
                columns = [leaves_of(gradients), *(leaves_of(state[name]) for name in names)]
                after: list[Any] = []
                found: list[Any] = []
                for (_, p), g, *values in zip(leaves, *columns, strict=True):
                    held = dict(zip(names, values, strict=True))
                    way, kept = step(p, g, speed, number, held, **settings)
                    after.append(p - way)
                    found.append(kept)
                trees = {n: unflatten(structure, iter([each[n] for each in found])) for n in names}
                return unflatten(structure, iter(after)), {"step": number, **trees}

            return Optimizer(init, update)

        make.__name__ = make.__qualname__ = step.__name__
        make.__doc__ = step.__doc__
        return make

    return wrapped


@_with_memory("square", "mean", "sum")
def rmsprop(
    p: Any, g: Any, rate: Any, step: Any, held: Any, *, alpha: float = 0.99,
    epsilon: float = 1e-8, momentum: float = 0.0, decay: float = 0.0, centered: bool = False,
) -> tuple[Any, Any]:  # fmt: skip
    """Steps over the roots of running means of squared slopes (Hinton, 2012); `centered` takes the
    square of the mean off these. Settings: alpha, epsilon, momentum, decay, centered.
    """
    g = g + p * decay if decay else g
    square = held["square"] * alpha + g * g * (1.0 - alpha)
    mean = held["mean"] * alpha + g * (1.0 - alpha) if centered else held["mean"]
    spread = square - mean * mean if centered else square
    way = g / (wnp.sqrt(spread) + epsilon)
    way = held["sum"] * momentum + way if momentum else way
    return way * rate, {"square": square, "mean": mean, "sum": way if momentum else held["sum"]}


@_with_memory("square")
def adagrad(
    p: Any, g: Any, rate: Any, step: Any, held: Any, *, epsilon: float = 1e-10,
    decay: float = 0.0, rate_decay: float = 0.0,
) -> tuple[Any, Any]:  # fmt: skip
    """Steps over the roots of sums of squared slopes (Duchi et al., 2011). Settings: epsilon,
    decay, rate_decay.
    """
    g = g + p * decay if decay else g
    total = held["square"] + g * g
    slowed = rate / ((step - 1.0) * rate_decay + 1.0) if rate_decay else rate
    return g / (wnp.sqrt(total) + epsilon) * slowed, {"square": total}


@_with_memory("square", "steps")
def adadelta(
    p: Any, g: Any, rate: Any, step: Any, held: Any, *, rho: float = 0.9, epsilon: float = 1e-6,
    decay: float = 0.0,
) -> tuple[Any, Any]:  # fmt: skip
    """Steps of the size of earlier ones (Zeiler, 2012). Settings: rho, epsilon, decay."""
    g = g + p * decay if decay else g
    square = held["square"] * rho + g * g * (1.0 - rho)
    way = wnp.sqrt(held["steps"] + epsilon) / wnp.sqrt(square + epsilon) * g
    return way * rate, {"square": square, "steps": held["steps"] * rho + way * way * (1.0 - rho)}


@_with_memory("mean", "greatest")
def adamax(
    p: Any, g: Any, rate: Any, step: Any, held: Any, *, beta1: float = 0.9, beta2: float = 0.999,
    epsilon: float = 1e-8,
) -> tuple[Any, Any]:  # fmt: skip
    """Adam by greatest slopes in place of mean squares (Kingma and Ba). Settings: beta1, beta2,
    epsilon.
    """
    mean = held["mean"] * beta1 + g * (1.0 - beta1)
    greatest = wnp.maximum(held["greatest"] * beta2, abs(g) + epsilon)
    return mean / greatest * (rate / (1.0 - beta1**step)), {"mean": mean, "greatest": greatest}


@_with_memory("mean")
def lion(
    p: Any, g: Any, rate: Any, step: Any, held: Any, *, beta1: float = 0.9, beta2: float = 0.99,
    decay: float = 0.0,
) -> tuple[Any, Any]:  # fmt: skip
    """Steps of one size in the direction of signs (Chen et al., 2023). Settings: beta1, beta2,
    decay.
    """
    way = wnp.sign(held["mean"] * beta1 + g * (1.0 - beta1))
    mean = held["mean"] * beta2 + g * (1.0 - beta2)
    return (way + p * decay if decay else way) * rate, {"mean": mean}


@_with_memory("mean", "square")
def lamb(
    p: Any, g: Any, rate: Any, step: Any, held: Any, *, beta1: float = 0.9, beta2: float = 0.999,
    epsilon: float = 1e-6, decay: float = 0.01,
) -> tuple[Any, Any]:  # fmt: skip
    """AdamW whose step of each tensor has the tensor's own length (You et al., 2020). Settings:
    beta1, beta2, epsilon, decay.
    """
    mean = held["mean"] * beta1 + g * (1.0 - beta1)
    square = held["square"] * beta2 + g * g * (1.0 - beta2)
    corrected = wnp.sqrt(square / (1.0 - beta2**step)) + epsilon
    way = mean / (1.0 - beta1**step) / corrected + p * decay
    length, size = (wnp.sqrt((each * each).sum()) for each in (p, way))
    both = wnp.logical_and(length > 0.0, size > 0.0)
    trust = wnp.where(both, length / wnp.where(size > 0.0, size, 1.0), 1.0)
    return way * (trust * rate), {"mean": mean, "square": square}


def clip_by_norm(gradients: Any, norm: float) -> Any:
    """Gradients scaled down together where their common Euclidean norm is greater."""
    total = sum((each * each).sum() for each in leaves_of(gradients))
    factor = wnp.minimum(norm / (wnp.sqrt(total) + 1e-12), 1.0)
    return tree_map(lambda each: each * factor, gradients)


def clip_by_value(gradients: Any, bound: float) -> Any:
    """Gradients brought between minus and plus a bound."""
    return tree_map(lambda each: wnp.clip(each, -bound, bound), gradients)

"""L-BFGS: steps by an inverse of the second derivatives, out of the last steps (Nocedal, 1980)."""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate
from math import prod
from typing import Any

import weft.numpy as wnp
from weft.autodiff.derivatives import value_and_grad
from weft.trees import flatten, leaves_of, unflatten


def lbfgs(
    function: Callable[..., Any],
    start: Any,
    *arguments: Any,
    steps: int = 100,
    memory: int = 10,
    tolerance: float = 1e-7,
) -> tuple[Any, Any]:
    """The tree of tensors where a function of it, one float, is least, as far as so many steps get,
    and that value. A step is halved until the value falls by a part of what the slope says; it
    ends where no slope is above the tolerance. Runs at once, on tensors with values.
    """
    leaves, structure = flatten(start)
    shapes = [leaf.shape for _, leaf in leaves]
    differentiated = value_and_grad(function)

    def at(x: Any) -> tuple[Any, Any]:
        value, slopes = differentiated(_tree(x, shapes, structure), *arguments)
        return value, _vector(slopes)

    x = _vector(start)
    value, slope = at(x)
    pairs: list[tuple[Any, Any]] = []
    for _ in range(steps):
        if float(abs(slope).max()) <= tolerance:
            break
        way = _direction(slope, pairs)
        along = float((way * slope).sum())
        if along >= 0:  # no way down: the memory misleads
            way, along, pairs = -slope, -float((slope * slope).sum()), []
        length = 1.0 if pairs else min(1.0, 1.0 / float(abs(slope).sum()))
        for _ in range(30):
            after, slope_after = at(x + way * length)
            if float(after) <= float(value) + 1e-4 * length * along:
                break
            length *= 0.5
        else:
            break
        step, change = way * length, slope_after - slope
        if float((step * change).sum()) > 1e-10:
            pairs = [*pairs, (step, change)][-memory:]
        x, value, slope = x + step, after, slope_after
    return _tree(x, shapes, structure), value


def _direction(slope: Any, pairs: list[tuple[Any, Any]]) -> Any:
    """The two loops over the last steps and the changes of slopes along them."""
    way, factors = -slope, list[Any]()
    for step, change in reversed(pairs):
        factor = (step * way).sum() / (step * change).sum()
        factors.append(factor)
        way = way - change * factor
    if pairs:
        step, change = pairs[-1]
        way = way * ((step * change).sum() / (change * change).sum())
    for (step, change), factor in zip(pairs, reversed(factors), strict=True):
        way = way + step * (factor - (change * way).sum() / (step * change).sum())
    return way


def _vector(tree: Any) -> Any:
    return wnp.concatenate([each.reshape(-1) for each in leaves_of(tree)])


def _tree(x: Any, shapes: list[Any], structure: Any) -> Any:
    ends = list(accumulate(map(prod, shapes)))
    parts = [x[a:b] for a, b in zip([0, *ends], ends, strict=False)]
    return unflatten(structure, (p.reshape(s) for p, s in zip(parts, shapes, strict=True)))

"""Inputs for functions of which only the text is known: the first of many that NumPy takes."""

from __future__ import annotations

import inspect
import math
import random
import signal
import time
import types
import warnings
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

TRIES, SECONDS, SEARCH_SECONDS = 400, 1.0, 3.0
SHAPES = ((6,), (3,), (2,), (4,), (5, 3), (4, 4), (3, 3), (2, 2), (7, 2), (8,), (12,), (3, 4, 4))
INTEGERS = ("n", "k", "num", "order", "dim", "size", "axis", "iter", "count", "steps", "degree")
ARRAYS = ("array", "ndarray", "Sequence", "list", "List", "Array", "Tensor")


class Late(Exception):
    """A function took too long."""


@contextmanager
def limited(seconds: float) -> Any:
    """Ends what takes longer by an exception."""

    def late(*_: Any) -> None:
        raise Late(f"more than {seconds} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def loaded(text: str, file: Path, name: str) -> Callable[..., Any]:
    """A function of a module whose text is written into a file first."""
    file.write_text(text)
    module = types.ModuleType(file.stem)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(compile(text, str(file), "exec"), vars(module))
    return getattr(module, name)


def array(draw: random.Random, shape: tuple[int, ...]) -> Any:
    """An array of floats, integers or bools."""
    generator = np.random.default_rng(draw.randrange(2**32))
    match draw.random():
        case chance if chance < 0.55:
            return generator.uniform(0.1, 2.0, shape)
        case chance if chance < 0.75:
            return generator.normal(size=shape)
        case chance if chance < 0.93:
            return generator.integers(0, 5, shape)
        case _:
            return generator.integers(0, 2, shape).astype(bool)


def drawn(draw: random.Random, parameter: inspect.Parameter, shape: tuple[int, ...]) -> Any:
    """A value for a parameter."""
    annotation, name = str(parameter.annotation), parameter.name.lower()
    if parameter.default is not parameter.empty and draw.random() < 0.7:
        return parameter.default
    if draw.random() < 0.7:
        if annotation == "int" or any(name == w or w in name.split("_") for w in INTEGERS):
            return draw.randrange(1, 6)
        if annotation == "float":
            return round(draw.uniform(0.1, 3.0), 3)
        if annotation == "bool":
            return draw.random() < 0.5
        if any(word in annotation for word in ARRAYS):
            return array(draw, shape)
    match draw.random():
        case chance if chance < 0.6:
            return array(draw, shape if draw.random() < 0.7 else draw.choice(SHAPES))
        case chance if chance < 0.75:
            return round(draw.uniform(0.1, 3.0), 3)
        case chance if chance < 0.88:
            return draw.randrange(1, 6)
        case chance if chance < 0.94:
            return [round(draw.uniform(0.1, 3.0), 3) for _ in range(shape[0])]
        case chance if chance < 0.97:
            return draw.choice((np.sin, np.square, np.exp))
        case _:
            return None


def arguments(function: Callable[..., Any], seed: str) -> dict[str, Any]:
    """The arguments that a seed stands for."""
    draw = random.Random(seed)
    shape = draw.choice(SHAPES)
    parameters = inspect.signature(function).parameters
    return {name: drawn(draw, each, shape) for name, each in parameters.items()}


def leaves(value: Any) -> list[Any] | None:
    """The arrays and numbers of a result; None where there is anything else."""
    if isinstance(value, tuple | list):
        parts = [leaves(each) for each in value]
    elif isinstance(value, dict):
        parts = [leaves(each) for each in value.values()]
    elif isinstance(value, np.ndarray | np.generic | bool | int | float | complex):
        return [value]
    else:
        return None
    return None if None in parts else [leaf for part in parts for leaf in part or ()]


def is_finite(found: list[Any] | None) -> bool:
    """Whether a result holds numbers, all finite."""
    if not found:
        return False
    arrays = [np.asarray(each) for each in found]
    return all(
        each.dtype.kind in "biufc" and each.size and bool(np.all(np.isfinite(each)))
        for each in arrays
    )


def result(function: Callable[..., Any], seed: str) -> Any:
    """What NumPy gives for the arguments of a seed."""
    with warnings.catch_warnings(), limited(SECONDS):
        warnings.simplefilter("ignore")
        return function(**arguments(function, seed))


def same(first: Any, second: Any) -> bool:
    """Whether two results have the same numbers."""
    pairs = zip(leaves(first) or (), leaves(second) or (), strict=True)
    return all(np.array_equal(one, other) for one, other in pairs)


def search(function: Callable[..., Any], name: str) -> str | None:
    """The seed of the first arguments that NumPy takes."""
    started = time.process_time()
    for number in range(TRIES):
        if time.process_time() - started > SEARCH_SECONDS:
            return None
        seed = f"{name} {number}"
        try:
            if not any(isinstance(v, np.ndarray) for v in arguments(function, seed).values()):
                continue
            found = result(function, seed)
            if is_finite(leaves(found)) and same(found, result(function, seed)):
                return seed
        except Late:
            return None
        except Exception:  # a function refuses its inputs by any error
            continue
    return None


def close(found: Any, expected: Any) -> str:
    """How a result stands to NumPy's."""
    mine, theirs = leaves(found), leaves(expected)
    if mine is None or theirs is None or len(mine) != len(theirs):
        return "wrong: another form of the result"
    for one, other in zip(map(np.asarray, mine), map(np.asarray, theirs), strict=True):
        if one.shape != other.shape:
            return f"wrong: shape {one.shape} for {other.shape}"
        single = any(each.dtype in (np.float32, np.complex64) for each in (one, other))
        scale = 1 + float(np.max(np.abs(other), initial=0.0)) if other.dtype.kind != "b" else 1
        if not np.allclose(one, other, rtol=1e-4 if single else 1e-7, atol=1e-9 * scale):
            return f"wrong: {np.max(np.abs(one.astype(complex) - other)):.3g} off"
        if one.dtype.kind != other.dtype.kind:
            return f"right, but {one.dtype} for {other.dtype}"
    return "right" if math.isfinite(len(mine)) else "wrong"

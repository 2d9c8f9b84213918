"""Compares what `jax.random` draws on the platform `weft` and on XLA's CPU, in units in the last
place: `python -m benchmarks.jax_tests.draws --summary FILE`.

Integers and bools have to be the same, floats within 4 units. Each draw is a line of the file
`--out`, and those that have one are not drawn again.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
from collections.abc import Callable, Container, Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np

IMPLEMENTATIONS: Final = ("threefry2x32", "rbg", "unsafe_rbg")
OF_EACH: Final = ("bits", "fold_in", "permutation", "randint", "split", "uniform")
"""What is drawn by each implementation of keys; all else follows from it, and by the first one."""
ALLOWED: Final = 4.0
"""Units in the last place."""
SHAPE: Final = (1001,)
FLOATS: Final = ("float32", "float64", "bfloat16", "float16")
INTEGERS: Final = tuple(f"{sign}int{bits}" for bits in (8, 16, 32, 64) for sign in ("", "u"))
DISTRIBUTIONS: Final[dict[str, tuple[tuple[Any, ...], tuple[str, ...]]]] = {
    "ball": ((3,), FLOATS[:2]),
    "beta": ((0.7, 1.5), FLOATS[:2]),
    "binomial": ((20.0, 0.3), FLOATS[:2]),
    "bits": ((), INTEGERS[1::2]),
    "cauchy": ((), FLOATS),
    "chisquare": ((3.0,), FLOATS[:2]),
    "double_sided_maxwell": ((0.5, 2.0), FLOATS[:2]),
    "exponential": ((), FLOATS),
    "f": ((3.0, 5.0), FLOATS[:2]),
    "gamma": ((1.5,), FLOATS[:2]),
    "generalized_normal": ((1.5,), FLOATS[:2]),
    "geometric": ((0.2,), ("int32",)),
    "gumbel": ((), FLOATS),
    "laplace": ((), FLOATS),
    "loggamma": ((0.7,), FLOATS[:2]),
    "logistic": ((), FLOATS),
    "lognormal": ((0.5,), FLOATS[:2]),
    "maxwell": ((), FLOATS[:2]),
    "normal": ((), (*FLOATS, "complex64")),
    "pareto": ((2.0,), FLOATS[:2]),
    "poisson": ((4.0,), ("int32",)),
    "rademacher": ((), ("int32", "float32")),
    "rayleigh": ((2.0,), FLOATS[:2]),
    "t": ((4.0,), FLOATS[:2]),
    "triangular": ((-1.0, 0.5, 2.0), FLOATS[:2]),
    "truncated_normal": ((-1.0, 2.0), FLOATS),
    "uniform": ((), FLOATS),
    "wald": ((1.5,), FLOATS[:2]),
    "weibull_min": ((2.0, 3.0), FLOATS[:2]),
}
"""Arguments between the key and the shape, and the types that each is drawn in."""

Draw = Callable[[Any], Any]
"""Draws by a key."""


def draws(jax: Any) -> Iterator[tuple[str, str, Draw]]:
    """Functions of `jax.random` with the types of what they draw."""
    random, jnp = jax.random, jax.numpy
    for name, (arguments, dtypes) in DISTRIBUTIONS.items():
        function = getattr(random, name)
        for dtype in dtypes:
            given = {"shape": SHAPE, "dtype": dtype}
            yield name, dtype, lambda key, f=function, a=arguments, g=given: f(key, *a, **g)
    for dtype in INTEGERS:
        yield "randint", dtype, lambda key, t=dtype: random.randint(key, SHAPE, 3, 100, t)
    matrix, weights = np.array([[2.0, 0.5], [0.5, 1.0]]), np.array([1, 2], np.float32)
    yield "bernoulli", "bool", lambda key: random.bernoulli(key, 0.3, SHAPE)
    yield "categorical", "int32", lambda key: random.categorical(key, jnp.arange(9.0), shape=SHAPE)
    yield "choice", "int32", lambda key: random.choice(key, 50, (20,), replace=False)
    yield "dirichlet", "float32", lambda key: random.dirichlet(key, weights, SHAPE)
    yield "fold_in", "uint32", lambda key: random.key_data(random.fold_in(key, 7))
    yield (
        "multivariate_normal",
        "float64",
        lambda key: random.multivariate_normal(key, np.zeros(2), matrix, SHAPE),
    )
    yield "permutation", "int32", lambda key: random.permutation(key, 999)
    yield (
        "permutation of rows",
        "float32",
        lambda key: random.permutation(key, jnp.arange(99.0).reshape(33, 3), independent=True),
    )
    yield "split", "uint32", lambda key: random.key_data(random.split(key, 7))


def units(found: Any, expected: Any) -> float:
    """The greatest difference in units in the last place of what is expected; for what is no float
    the number of elements that differ.
    """
    if found.dtype.kind not in "fcV":
        return float((found != expected).sum())
    if found.dtype.kind == "c":
        return max(units(found.real, expected.real), units(found.imag, expected.imag))
    ours, theirs = found.astype(np.float64), expected.astype(np.float64)
    with np.errstate(invalid="ignore"):
        size = np.abs(np.spacing(expected).astype(np.float64))
        apart = np.where(ours == theirs, 0.0, np.abs(ours - theirs) / size)
    return float(np.nan_to_num(apart, nan=np.inf).max(initial=0.0))


def compared(jax: Any, done: Container[str]) -> Iterator[dict[str, Any]]:
    """A row for each draw by an implementation of keys that is not done."""
    cpu = jax.devices("cpu")[0]
    for name, dtype, draw in draws(jax):
        for implementation in IMPLEMENTATIONS if name in OF_EACH else IMPLEMENTATIONS[:1]:
            label = f"{name} {dtype} {implementation}"
            if label in done:
                continue
            with jax.default_device(cpu):
                expected = np.asarray(jax.jit(draw)(jax.random.key(27, impl=implementation)))
            found = np.asarray(jax.jit(draw)(jax.random.key(27, impl=implementation)))
            apart = units(found, expected)
            allowed = ALLOWED if found.dtype.kind in "fcV" else 0.0
            yield {"draw": label, "units": round(apart, 1), "pass": apart <= allowed}


def main() -> None:
    """Runs the command."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.jax_tests.draws", description=__doc__
    )
    parser.add_argument("--out", type=Path, default=Path("jax-draws.jsonl"))
    parser.add_argument("--summary", type=Path)
    arguments = parser.parse_args()
    os.environ |= {"JAX_PLATFORMS": "weft,cpu", "JAX_ENABLE_X64": "true"}
    import jax  # pyright: ignore

    arguments.out.touch()
    rows: list[dict[str, Any]] = [json.loads(line) for line in arguments.out.open()]
    with arguments.out.open("a") as out:
        for row in compared(jax, {each["draw"] for each in rows}):
            out.write(json.dumps(row) + "\n")
            out.flush()
            rows.append(row)
    found = {
        "suite": "jax.random", "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "draws": len(rows), "pass": sum(row["pass"] for row in rows),
        "failing": {row["draw"]: row["units"] for row in rows if not row["pass"]},
    }  # fmt: skip
    print(json.dumps(found))
    if arguments.summary:
        with arguments.summary.open("a") as file:
            file.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()

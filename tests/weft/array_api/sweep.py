"""Every function of weft.numpy against NumPy: `python -m tests.weft.array_api.sweep`.

The examples of the table are evaluated on arrays of all dtypes and of several shapes, empty ones
and scalars among them, traced, under `vmap`, from source, at once and compiled, and differentiated
in a random direction against a difference. What NumPy refuses is left out. An outcome is a line of
`--out`: `same`, `refused` (a WeftError), `differs` or `error`.
"""

from __future__ import annotations

import argparse
import collections
import json
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

import weft
import weft.numpy as wnp
from tests.weft.array_api.examples import (
    FOUND_SIZES,
    GIVEN,
    evaluated,
    examples,
    in_source,
    leaves,
    of_graph,
    traceable,
)
from weft import Spec
from weft.array_api.table import FOURIER
from weft.dialects.errors import WeftError
from weft.source.interpret import read_function
from weft.tracing.trace import record

DTYPES = ("float32", "float16", "complex128", "complex64", "int64", "int32", "int8", "uint8",
          "bool")  # fmt: skip
RNG = np.random.default_rng(7)


def _of_dtype(dtype: str) -> tuple[np.ndarray, ...]:
    """The arrays with other elements; places stay integers."""
    x, v, i, s, n = GIVEN
    if dtype.startswith("complex"):
        x, v, s = x + 0.5j * x.T, v - 0.25j * v[::-1], s + 0.5j * (np.triu(x, 1) - np.tril(x.T, -1))
    elif not dtype.startswith("float"):
        x, v = (x * 7).round(), (v * 7).round()
        s, n = s.round(), np.nan_to_num(n * 5).round()
    return tuple(each.astype(dtype) for each in (x, v)) + (i, s.astype(dtype), n.astype(dtype))


def _of_shape(rows: int, columns: int) -> tuple[np.ndarray, ...]:
    x, i = RNG.uniform(0.1, 0.9, (rows, columns)), np.arange(rows * columns).reshape(rows, columns)
    square = RNG.uniform(0.1, 0.9, (columns, columns))
    s = np.eye(columns) * 4 + square @ square.T
    return x, RNG.uniform(0.1, 0.9, columns), i - 2, s, np.where(x > 0.7, np.nan, x)


VARIATIONS: dict[str, tuple[np.ndarray, ...]] = {
    "float64": GIVEN,
    **{dtype: _of_dtype(dtype) for dtype in DTYPES},
    "oblong": _of_shape(2, 3),
    "one": _of_shape(1, 1),
    "empty": _of_shape(0, 3),
    "nothing": _of_shape(0, 0),
    "stack": tuple(
        np.stack([each, each[::-1, ::-1] * 2]) if each.ndim == 2 else each for each in GIVEN
    ),
    "scalar": tuple(each.reshape(-1)[1] for each in GIVEN),
    "scalar int": tuple(np.int64(each.reshape(-1)[1] * 3) for each in (*GIVEN[:4], GIVEN[1])),
}  # fmt: skip

Arrays = tuple[np.ndarray, ...]
Run = Callable[[str, Arrays], list[np.ndarray]]


def _reversed(given: Arrays) -> Arrays:
    """Other arrays of the same shapes and dtypes; symmetric ones stay symmetric."""
    return tuple(np.flip(each) if each.ndim else each for each in given)


def _recorded(function: Callable[..., object], given: Arrays) -> list[np.ndarray]:
    """What the graph of a function gives, complex numbers of its pairs."""
    found = record(function, *given, whole=True)
    results = of_graph(found.module, found.recording.weights, _separated(given))
    return [
        (each[..., 0] + 1j * each[..., 1]).astype(f"c{2 * each.itemsize}") if pairs else each
        for each, pairs in zip(results, found.are_complex, strict=True)
    ]


def traced(text: str, given: Arrays) -> list[np.ndarray]:
    """By the graph of a trace."""
    return _recorded(traceable([text]), given)


def batched(text: str, given: Arrays) -> list[np.ndarray]:
    """By the graph of a batch of two samples."""
    stacks = tuple(np.stack(pair) for pair in zip(given, _reversed(given), strict=True))
    return _recorded(weft.vmap(traceable([text])), stacks)


def from_source(text: str, given: Arrays) -> list[np.ndarray]:
    """By the graph of source mode."""
    with tempfile.TemporaryDirectory() as folder:
        function = in_source(Path(folder), [text])
        program = read_function(function, [Spec(each.dtype.name, each.shape) for each in given], {})
    captured = [each.fetch() for each in program.captured]
    found = of_graph(program.module, program.recording.weights, _separated(given), captured)
    return leaves(program.rebuilt(found))


def _separated(given: Arrays) -> list[np.ndarray]:
    """The arrays as inputs of graphs are: complex ones with their parts along a last axis."""
    return [
        np.stack([each.real, each.imag], -1) if each.dtype.kind == "c" else each for each in given
    ]


def eager(text: str, given: Arrays) -> list[np.ndarray]:
    """At once, by native code."""
    return leaves(evaluated(text, wnp, [weft.Tensor(each) for each in given]))


def compiled(text: str, given: Arrays) -> list[np.ndarray]:
    """By native code of the trace."""
    return leaves(weft.trace(traceable([text]), *given)(*given))


EXEMPT: dict[tuple[str, str], str] = {
    **{(name, "float16"): "NumPy rounds the scale of a transform of halves to a half"
       for name in FOURIER},
    **{("argsort", each): "NumPy's order of equal elements is any" for each in VARIATIONS},
    ("lstsq", "bool"): "NumPy leaves out residuals where the rank is not full",
    ("qr", "bool"): "the second column is rounding noise",
    ("cond", "bool"): "the least singular value is rounding noise",
    **{(name, "float16"): "halves are interpolated with another order of roundings"
       for name in ("median", "percentile", "quantile", "nanpercentile", "nanquantile")},
    ("polyval", "bool"): "NumPy's sums and products of bools are bools, of numbers beside them not",
}  # fmt: skip
"""Names and variations whose results are not to be compared with NumPy's, with the reasons."""

CONSTANT = FOUND_SIZES | {"nextafter"}
"""Functions that are not differentiated: the last counts as constant, and is no step function."""

MODES: dict[str, Run] = {
    "trace": traced, "vmap": batched, "source": from_source, "eager": eager, "jit": compiled,
}  # fmt: skip


def _numpys(text: str, given: Arrays) -> list[np.ndarray] | None:
    """What NumPy gives; None where it refuses."""
    try:
        return leaves(evaluated(text, np, given))
    except Exception:
        return None


def _wanted(name: str, text: str, given: Arrays, mode: str) -> list[np.ndarray] | None:
    first = _numpys(text, given)
    if first is None or mode == "eager":
        return first
    if name in FOUND_SIZES or (mode == "source" and "lambda" in text):
        return None
    if mode != "vmap":
        return first
    second = _numpys(text, _reversed(given))
    if second is None or [each.shape for each in first] != [each.shape for each in second]:
        return None
    return [np.stack(pair) for pair in zip(first, second, strict=True)]


def _difference(got: list[np.ndarray], wanted: list[np.ndarray], wide: bool) -> str:
    """How results differ, or nothing."""
    if len(got) != len(wanted):
        return f"{len(got)} results, not {len(wanted)}"
    for each, right in zip(got, wanted, strict=True):
        if (each.shape, each.dtype) != (right.shape, right.dtype):
            return f"{each.dtype}{[*each.shape]}, not {right.dtype}{[*right.shape]}"
        step = np.finfo(right.dtype).eps if right.dtype.kind in "fc" else 0.0
        step = max(step, 0.0 if wide else 2.0**-24)
        scale = np.abs(right[np.isfinite(right)]).max(initial=1.0)
        if not np.allclose(each, right, rtol=200 * step, atol=50 * step * scale, equal_nan=True):
            return f"{each.reshape(-1)[:6]}, not {right.reshape(-1)[:6]}"
    return ""


def compare(name: str, text: str, variation: str, mode: str) -> tuple[str, str] | None:
    """The outcome of an example in a mode and what is to be said; None where NumPy refuses."""
    given = VARIATIONS[variation]
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        wanted = _wanted(name, text, given, mode)
        if wanted is None:
            return None
        try:
            found = _difference(MODES[mode](text, given), wanted, _is_wide(given))
        except WeftError as error:
            return "refused", str(error)[:300]
        except Exception as error:
            return "error", f"{type(error).__name__}: {error}"[:300]
    return ("differs", found) if found else ("same", "")


def _is_wide(given: Arrays) -> bool:
    return not any(each.dtype.name in ("float16", "float32", "complex64") for each in given)


def _value(found: list[np.ndarray], weigh: Callable[[tuple[int, ...]], np.ndarray]) -> float:
    """A number that depends on all floats among results."""
    parts = [part for each in found if each.dtype.kind in "fc" for part in (each.real, each.imag)]
    return sum(float((part * weigh(part.shape)).sum()) for part in parts)


def _weights(shape: tuple[int, ...]) -> np.ndarray:
    return np.cos(np.arange(int(np.prod(shape)))).reshape(shape) + 0.3


def differentiate(text: str, variation: str) -> tuple[str, str] | None:
    """How the slope of an example in a random direction compares with a difference; None where
    NumPy refuses or a difference is no number.
    """
    given = VARIATIONS[variation]
    moves = [RNG.normal(size=each.shape) for each in given]
    moves[3] = moves[3] + np.swapaxes(moves[3], -1, -2) if moves[3].ndim > 1 else moves[3]
    which = [0, 1, 3]

    def moved(step: float) -> list[np.ndarray] | None:
        at = list(given)
        for position in which:
            at[position] = given[position] + step * moves[position]
        return _numpys(text, tuple(at))

    def loss(x, v, s):
        total = x.sum() * 0.0
        for each in traceable([text])(x, v, given[2], s, given[4])[0]:
            if getattr(each, "dtype", np.dtype(bool)).kind in "fc":
                for part in (each.real, each.imag) if each.dtype.kind == "c" else (each,):
                    total = total + (part * _weights(part.shape)).sum()
        return total

    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        ends = [moved(sign * step) for step in (1e-5, 5e-6) for sign in (1, -1)]
        if any(each is None for each in ends):
            return None
        values = [_value(each, _weights) for each in ends]
        wanted, near = (values[0] - values[1]) / 2e-5, (values[2] - values[3]) / 1e-5
        if not np.isfinite(wanted) or abs(wanted - near) > 1e-4 * max(1.0, abs(near)):
            return None
        floats = [given[position] for position in which]
        try:
            found = record(weft.grad(loss, (0, 1, 2)), *floats)
            slopes = of_graph(found.module, found.recording.weights, floats)
        except WeftError as error:
            return "refused", str(error)[:300]
        except Exception as error:
            return "error", f"{type(error).__name__}: {error}"[:300]
    got = sum(float((slope * moves[at]).sum()) for at, slope in zip(which, slopes, strict=True))
    if abs(got - near) > 1e-5 * max(1.0, abs(near)):
        return "differs", f"{got}, not {near}"
    return "same", ""


def cases(modes: list[str]) -> Iterator[tuple[str, str, str, str]]:
    """All names, expressions, variations and modes."""
    for name, text in examples():
        for mode in modes:
            given = ("float64", "oblong", "stack", "scalar") if mode == "grad" else VARIATIONS
            yield from ((name, text, variation, mode) for variation in given)


def outcome(name: str, text: str, variation: str, mode: str) -> tuple[str, str] | None:
    """That of one case; None where NumPy refuses, or where it is exempt."""
    if (name, variation) in EXEMPT:
        return None
    if mode == "grad":
        return None if name in CONSTANT else differentiate(text, variation)
    return compare(name, text, variation, mode)


def main() -> None:
    """Runs the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--modes", nargs="+", default=[*MODES, "grad"])
    parser.add_argument("--shard", default="0/1", help="the shard's number and how many there are")
    parser.add_argument("--out", type=Path, default=Path("sweep.jsonl"))
    parser.add_argument("--names", nargs="*", help="functions; all by default")
    parser.add_argument("--variations", nargs="*", help="of the arrays; all by default")
    arguments = parser.parse_args()
    number, count = map(int, arguments.shard.split("/"))
    counts = collections.Counter()
    with arguments.out.open("a") as file:
        asked = arguments.names, arguments.variations
        chosen = [
            case for case in cases(arguments.modes)
            if all(not some or case[at] in some for at, some in zip((0, 2), asked, strict=True))
        ]  # fmt: skip
        for case in chosen[number::count]:
            found = outcome(*case)
            if found is None:
                continue
            counts[case[3], found[0]] += 1
            row = dict(zip(("name", "text", "variation", "mode"), case, strict=True))
            file.write(json.dumps(row | {"outcome": found[0], "detail": found[1]}) + "\n")
            file.flush()
    print(json.dumps({" ".join(key): each for key, each in sorted(counts.items())}))


if __name__ == "__main__":
    main()

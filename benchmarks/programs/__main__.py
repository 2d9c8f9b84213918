"""`python -m benchmarks.programs`: each program in every mode against NumPy; a line a program.

`--out FILE` appends JSON lines and leaves out the programs that are there, `--only NAME` runs one,
`--unseen` those for which nothing was mended, `--details` prints what every mode said.
A program runs in a process of its own.
"""

from __future__ import annotations

import argparse
import importlib
import json
import resource
import subprocess
import sys
import time
import types
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
MODULES = ("dynamics", "learning", "algorithms", "signals", "sciences", "models")
UNSEEN = ("unseen", "later", "latest")  # for which nothing was mended: `--unseen` runs these alone
SECONDS = 240  # of the processor, for all modes of a program


def listed(modules: tuple[str, ...] = MODULES + UNSEEN) -> dict[str, tuple[str, Any, bool]]:
    """Modules, inputs and whether there is a gradient, by the names of programs."""
    found = {}
    for name in modules:
        for function, inputs, smooth in importlib.import_module(
            f"benchmarks.programs.{name}"
        ).PROGRAMS:
            found[function.__name__] = name, inputs, smooth
    return found


def loaded(module: str, import_line: str) -> Any:
    """A module of programs with another import line."""
    path = HERE / f"{module}.py"
    text = path.read_text().replace("import numpy as np", import_line)
    found = types.ModuleType(module)
    exec(compile(text, str(path), "exec"), vars(found))
    return found


def flat(result: Any) -> list[np.ndarray[Any, Any]]:
    """All arrays of a result."""
    if isinstance(result, tuple | list):
        return [leaf for each in result for leaf in flat(each)]
    return [np.asarray(result)]


def compared(found: Any, expected: Any) -> str:
    """How a result stands to NumPy's."""
    ours, theirs = flat(found), flat(expected)
    if len(ours) != len(theirs):
        return f"wrong: {len(ours)} results for {len(theirs)}"
    dtypes = ""
    for mine, other in zip(ours, theirs, strict=True):
        if mine.shape != other.shape:
            return f"wrong: shape {mine.shape} for {other.shape}"
        single = np.float32 in (mine.dtype, other.dtype)
        close = {"rtol": 2e-4, "atol": 2e-4} if single else {"rtol": 1e-7, "atol": 1e-9}
        if not np.allclose(mine, other, **close, equal_nan=True):
            return f"wrong: {np.max(np.abs(mine - other)):.3g} off"
        if mine.dtype != other.dtype:
            dtypes = f" ({mine.dtype} for {other.dtype})"
    return f"right{dtypes}"


def attempt(
    run: Callable[[], Any],
    expected: Any,
    file: str,
    compare: Callable[[Any, Any], str] = compared,
) -> str:
    """What became of a run: right, refused with the program's line, wrong, or another error."""
    from weft import WeftError

    try:
        return compare(run(), expected)
    except WeftError as error:
        lead = "refused" if f"{file}.py" in str(error) else "refused without a line"
        return f"{lead}: {error}"
    except Exception as error:
        return f"error: {type(error).__name__}: {error}"


def total(np_: Any, result: Any) -> Any:
    """One number of a result, whose floats count differently."""
    if not isinstance(result, tuple | list):
        result = (result,)
    found: Any = 0.0
    for number, leaf in enumerate(each for each in result if each.dtype.kind in "fc"):
        parts = (leaf,) if leaf.dtype.kind == "f" else (leaf.real, leaf.imag)
        found = found + (1.0 + 0.3 * number) * sum(np_.sum(np_.sin(part)) for part in parts)
    return found


def slopes(function: Any, arguments: Any) -> Any:
    """The slopes of a program's total in its first argument by differences backwards and forwards,
    between which a gradient lies, at kinks too.
    """
    x = np.array(arguments[0])
    found = np.zeros((2, *x.shape))
    for position in np.ndindex(*x.shape):
        ends = []
        for sign in (-1, 0, 1):
            moved = x.copy()
            moved[position] += sign * 1e-6
            fresh = [np.array(each) for each in arguments[1:]]
            ends.append(total(np, tuple(map(np.asarray, flat(function(moved, *fresh))))))
        found[(slice(None), *position)] = np.diff(ends) / 1e-6
    return found


def close_slopes(found: Any, expected: Any) -> str:
    """How a gradient stands to differences."""
    found, (low, high) = np.asarray(found), np.sort(expected, axis=0)
    nearest = np.clip(found, low, high)
    if found.shape == nearest.shape and np.allclose(found, nearest, rtol=1e-3, atol=1e-4):
        return "right"
    return f"wrong: slopes {np.max(np.abs(found - nearest)):.3g} off"


def one(name: str) -> dict[str, str]:
    """The outcome of every mode of one program."""
    import weft
    import weft.numpy as wnp

    module, inputs, smooth = listed()[name]
    theirs = getattr(importlib.import_module(f"benchmarks.programs.{module}"), name)
    ours = getattr(loaded(module, "import weft.numpy as np"), name)
    fresh = lambda: [np.array(each) for each in inputs(np.random.default_rng(7))]  # noqa: E731
    expected = theirs(*fresh())
    tensors = lambda: [weft.Tensor(each) for each in fresh()]  # noqa: E731
    got = {
        "eager": attempt(lambda: ours(*tensors()), expected, module),
        "trace": attempt(lambda: weft.trace(ours, *fresh())(*fresh()), expected, module),
        "jit": attempt(lambda: weft.jit(ours)(*fresh()), expected, module),
        "jit-numpy": attempt(lambda: weft.jit(theirs)(*fresh()), expected, module),
    }
    if smooth:
        wanted = slopes(theirs, fresh())
        marked = {
            "grad": lambda: weft.grad(lambda *a: total(wnp, ours(*a)))(*tensors()),
            "grad-jit": lambda: weft.jit(weft.grad(lambda *a: total(np, theirs(*a))))(*fresh()),
        }
        for mode, run in marked.items():
            got[mode] = attempt(run, wanted, module, close_slopes)
    return got


def main() -> None:
    """Runs all, or those that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--unseen", action="store_true")
    parser.add_argument("--details", action="store_true")
    parser.add_argument("--one")
    options = parser.parse_args()
    if options.one:
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
        sys.stdout.write("\n" + json.dumps(one(options.one)) + "\n")
        return
    done = {}
    if options.out and options.out.exists():
        lines = options.out.read_text().splitlines()
        done = {each["name"]: each["modes"] for each in map(json.loads, lines)}
    for name in options.only or listed(UNSEEN if options.unseen else MODULES):
        if name not in done:
            done[name] = separately(name)
            if options.out:
                with options.out.open("a") as file:
                    file.write(json.dumps({"name": name, "modes": done[name]}) + "\n")
        if options.details:
            for mode, said in done[name].items():
                sys.stdout.write(f"  {name} {mode}: {said}\n")
    report(done)


def separately(name: str) -> dict[str, str]:
    """The outcome in a process of its own, which may crash or hang."""
    start = time.time()
    command = [sys.executable, "-m", "benchmarks.programs", "--one", name]
    ended = subprocess.run(command, capture_output=True, text=True)
    if ended.returncode:
        return {"all": f"crash: exit {ended.returncode}: {ended.stderr[-300:]}"}
    sys.stderr.write(f"{name} {time.time() - start:.1f} s\n")
    return json.loads(ended.stdout.splitlines()[-1])


def report(done: dict[str, dict[str, str]]) -> None:
    """The counts of outcomes by mode, and how many programs are right in all."""
    counts: dict[str, Counter[str]] = {}
    for modes in done.values():
        for mode, said in modes.items():
            counts.setdefault(mode, Counter())[said.partition(":")[0].partition(" (")[0]] += 1
    for mode, found in counts.items():
        sys.stdout.write(f"{mode:10} {dict(found)}\n")
    whole = sum(all(said.startswith("right") for said in modes.values()) for modes in done.values())
    runs = [said for modes in done.values() for said in modes.values()]
    right = sum(said.startswith("right") for said in runs)
    sys.stdout.write(
        f"{right} of {len(runs)} runs, {whole} of {len(done)} programs in every mode\n"
    )


if __name__ == "__main__":
    main()

"""What first calls cost: `python -m benchmarks.first_calls [CALL ...] [--against CHECKOUT]`.

Seconds of the processor in fresh processes, beyond `import numpy` (and JAX): an operator on
tensors with values, `weft.jit` and the next function, `weft.trace`, a gradient, each with an empty
cache and in a second process; twenty programs of `jax.numpy` operator by operator, and flax's
`init` of three models, on the platform `weft` and on XLA's CPU. `--against` does the same with
another checkout, in turns. Medians of `--rounds`, one line for each call; a process that fails ends
the command.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any, Final

from benchmarks.compile_cost import HERE, OURS, THEIRS
from benchmarks.first_calls.child import CALLS
from benchmarks.options import append_row, parser_of

XLA: Final = "xla"

_CHILD: Final = Path(__file__).with_name("child.py")

_OF_JAX: Final = ("eager_jnp", "flax")
"""Calls that XLA's CPU is measured at, too; once, with an empty cache."""

_STEPS: Final = ("operator", "jit", "trace", "gradient")
"""Calls of weft's own, once more with what the first process left."""


def main() -> None:
    """Runs each call in turns; prints a line of JSON for it."""
    parser = parser_of("first_calls", __doc__, "first-calls-")
    parser.add_argument("calls", nargs="*", metavar="CALL", help=", ".join(CALLS))
    parser.add_argument("--against", type=Path, metavar="CHECKOUT", help="another version of weft")
    parser.add_argument("--rounds", type=int, default=5, help="processes of each")
    arguments = parser.parse_args()
    unknown = sorted(set(arguments.calls) - set(CALLS))
    if unknown:
        parser.error(f"CALL requires {', '.join(CALLS)}, got {unknown}")
    trees = {OURS: HERE}
    if arguments.against is not None:
        trees[THEIRS] = arguments.against.resolve()
    has_jax = find_spec("jax") is not None
    for call in arguments.calls or [each for each in CALLS if has_jax or each not in _OF_JAX]:
        row = {"call": call, "rounds": arguments.rounds, **measure(call, trees, arguments.rounds)}
        append_row(arguments.output, row)
        print(json.dumps(row), flush=True)


def measure(call: str, trees: Mapping[str, Path], rounds: int) -> dict[str, Any]:
    """Median seconds of each step of a call, and of their sum, by who ran it and how."""
    found: dict[str, list[dict[str, float]]] = {}
    for _ in range(rounds):
        for who, seconds in _round(call, trees):
            found.setdefault(who, []).append(seconds | {"sum": sum(seconds.values())})
    return {
        who: {step: round(median(each[step] for each in turns), 3) for step in turns[0]}
        for who, turns in found.items()
    }


def _round(call: str, trees: Mapping[str, Path]) -> Iterator[tuple[str, dict[str, float]]]:
    for who, tree in trees.items():
        with tempfile.TemporaryDirectory(prefix="weft-first-") as cache:
            yield f"{who}_cold", _seconds(call, tree, cache, "weft")
            if call not in _OF_JAX:
                yield f"{who}_warm", _seconds(call, tree, cache, "weft")
    if call in _OF_JAX:
        with tempfile.TemporaryDirectory(prefix="weft-first-") as cache:
            yield XLA, _seconds(call, HERE, cache, "cpu")


def _seconds(call: str, tree: Path, cache: str, platform: str) -> dict[str, float]:
    """What a process says that its steps took. Raises CalledProcessError for one that fails."""
    set_here = {"PYTHONPATH": str(tree), "XDG_CACHE_HOME": cache, "JAX_PLATFORMS": platform}
    command = [sys.executable, "-W", "ignore", str(_CHILD), call]
    said = subprocess.run(
        command, env={**os.environ, **set_here}, cwd=cache, stdout=subprocess.PIPE, check=True
    )
    return json.loads(said.stdout.splitlines()[-1])


if __name__ == "__main__":
    main()

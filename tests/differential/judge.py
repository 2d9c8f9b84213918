"""Runs a program in several modes and compares each with the graph's reference."""

from __future__ import annotations

import random
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from tests.differential.modes import MODES, Mode, graph_of
from tests.differential.program import Program, Sizes
from tests.differential.reference import Expected, Graph, expect, slope_error
from weft.dialects.errors import PlanError, WeftError
from weft.dialects.graph.core.types import type_of

FIRST = ("trace of grad", "jit of grad", "jit of both", "trace of grad naive", "jit of grad naive")
"""Modes one of which every program is run in: gradients are programs of many kernels, which share
memory.
"""


CONSTANT = ("stop_gradient", "bitcast")
"""Operators whose derivative is none by definition, whatever differences are."""


@dataclass(frozen=True)
class Failure:
    """A program that a mode runs wrongly."""

    seed: int
    mode: str
    kind: str
    text: str
    sizes: Sizes = field(default_factory=dict[str, int])


@dataclass
class Outcome:
    """What running a program showed: failures, and how often operators and modes were hit."""

    failures: list[Failure] = field(default_factory=list[Failure])
    modes: Counter[str] = field(default_factory=Counter[str])
    hits: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    """Of operators with dtypes, in programs that were compared."""
    refused: Counter[str] = field(default_factory=Counter[str])
    uncertain: int = 0


class Judge:
    """One program and what its functions have to give; expectations are computed when needed."""

    def __init__(self, program: Program, folder: Path):
        self.program, self.outcome = program, Outcome()
        self.functions: SimpleNamespace = program.load(folder)
        self._graphs: dict[str, tuple[Graph, list[np.dtype]]] = {}
        self._expected: dict[tuple[str, tuple[int, ...]], list[Expected]] = {}
        self.precision = (
            2.0**-22 if any("float32" in each.dtype for each in program.inputs) else 2.0**-51
        )
        if "astype(np.float32)" in program.text:
            self.precision = 2.0**-22

    def graph(self, target: str) -> Graph:
        """The graph of a function."""
        return self._graph(target)[0]

    def _graph(self, target: str) -> tuple[Graph, list[np.dtype]]:
        if target not in self._graphs:
            self._graphs[target] = graph_of(self.program, self.functions, target)
        return self._graphs[target]

    def expected(self, target: str, sizes: Sizes) -> list[Expected]:
        """What a function has to give for the inputs of these sizes."""
        key = target, tuple(sizes.values())
        if key not in self._expected:
            arrays = self.program.arrays(sizes)
            self._expected[key] = expect(self.graph(target), arrays, self.precision)
        return self._expected[key]

    def run(self, modes: Sequence[Mode]) -> Outcome:
        """Compares in each mode, and slopes with differences."""
        if not self._guarded("graph", self._read):
            return self.outcome
        self._guarded("differences", self._compare_slopes)
        for mode in modes:
            if self._guarded(mode.name, partial(self._compare, mode)):
                self.outcome.modes[mode.name] += 1
        return self.outcome

    def _guarded(self, name: str, step: Callable[[], Any]) -> bool:
        """Runs a step; a refusal is counted, any other exception is a failure."""
        try:
            step()
        except PlanError as error:  # no fault of the program's
            self._fail(name, "plan", str(error))
            return False
        except WeftError as error:
            reason = str(error).splitlines()[0].rpartition(".py:")[2].lstrip("0123456789: ")
            self.outcome.refused[f"{name}: {reason[:90]}"] += 1
            return False
        except Exception:
            self._fail(name, "crash", traceback.format_exc(limit=-6))
            return False
        return True

    def _fail(self, mode: str, kind: str, text: str, sizes: Sizes | None = None) -> None:
        self.outcome.failures.append(Failure(self.program.seed, mode, kind, text, sizes or {}))

    def _read(self) -> None:
        graph = self.graph("program")
        for op in graph.block.walk():
            results = [type_of(each).element for each in op.results]
            if op.name.startswith("graph."):
                self.outcome.hits[op.name.removeprefix("graph."), str(next(iter(results), ""))] += 1

    def _compare_slopes(self) -> None:
        ties = any(each.grid for each in self.program.inputs)  # with several slopes each
        if ties or any(name in self.program.text for name in CONSTANT):
            return
        for sizes in self.program.all_sizes:
            graphs, arrays = map(self.graph, ("program", "slopes")), self.program.arrays(sizes)
            wrong = slope_error(*graphs, arrays, self.program.floats, self.program.seed)
            if wrong:
                self._fail("reference of grad", "wrong", wrong, sizes)

    def _compare(self, mode: Mode) -> None:
        target = "slopes" if mode.target == "loss" else mode.target
        function = getattr(self.functions, mode.target)
        first: dict[tuple[int, ...], list[np.ndarray]] = {}
        for number, call in enumerate(mode.make(function, self.program)):
            for sizes in self.program.all_sizes:
                found = call(self.program.arrays(sizes))
                key = tuple(sizes.values())
                if number == 0:
                    first[key] = found
                    self._check(mode, target, sizes, found)
                elif any(
                    one.tobytes() != two.tobytes()
                    for one, two in zip(first[key], found, strict=True)
                ):
                    self._fail(
                        mode.name, "threads", "one thread and two give different bits", sizes
                    )

    def _check(self, mode: Mode, target: str, sizes: Sizes, found: Sequence[np.ndarray]) -> None:
        dtypes = self._graph(target)[1]
        wrong = [
            f"result {place} has the dtype {got.dtype}, not {dtype}"
            for place, (got, dtype) in enumerate(zip(found, dtypes, strict=True))
            if got.dtype != dtype and mode.name != "numpy"
        ]
        differing = self._differing(self.expected(target, sizes), found)
        if differing and self._stays(target, sizes, found):
            wrong += differing
        elif differing:
            self.outcome.uncertain += 1
        if wrong:
            self._fail(mode.name, "wrong", "; ".join(wrong[:3]), sizes)

    def _differing(self, expected: Sequence[Expected], found: Sequence[np.ndarray]) -> list[str]:
        pairs = enumerate(zip(expected, found, strict=True))
        texts = [(place, each.difference(got)) for place, (each, got) in pairs]
        return [f"result {place}: {text}" for place, text in texts if text]

    def _stays(self, target: str, sizes: Sizes, found: Sequence[np.ndarray]) -> bool:
        """Whether a difference is one with more and greater noise too, which decisions that hang
        on the last bits do not survive.
        """
        arrays = self.program.arrays(sizes)
        wider = expect(self.graph(target), arrays, self.precision, noise=24.0, samples=16)
        return bool(self._differing(wider, found))


def modes_for(program: Program, count: int) -> list[Mode]:
    """A few modes for a program, the same for a seed."""
    pick = random.Random(program.seed + 1)
    fitting = [mode for mode in MODES if mode.takes(program)]
    first = pick.choice([mode for mode in fitting if mode.name in FIRST])
    fitting.remove(first)
    return [first, *pick.sample(fitting, min(len(fitting), max(0, count - 1)))][:count]


def judge(program: Program, modes: Sequence[Mode]) -> Outcome:
    """Runs a program in modes, from a file that is gone afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        return Judge(program, Path(folder)).run(modes)

"""Cases of programs in plain NumPy, and the engines that run them, each in a process of its own."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np

from benchmarks.numeric import programs
from weft.bench.engines import OURS
from weft.bench.session import PeerLacks, Session
from weft.bench.worker import Job, fresh
from weft.dialects.weights import Array

ENGINES: Final = {
    OURS: "weft",
    "numpy": "numpy",
    "numba": "numba",
    "numba fast": "numba",
    "numba loops": "numba",
    "numba loops fast": "numba",
}
"""By name the package. numba compiles the very program, or its loops; `fast` is with fastmath."""


@dataclass(frozen=True)
class Program:
    """A program by its name among `programs`, with numbers that stand in its call, and how
    its arrays are made.
    """

    name: str
    arrays: Callable[[np.random.Generator], Sequence[Array]]
    numbers: tuple[float, ...]

    def arguments(self) -> list[Any]:
        """The same in every call."""
        made = self.arrays(np.random.default_rng(0))
        return [*(np.ascontiguousarray(each) for each in made), *self.numbers]


@dataclass(frozen=True)
class ProgramJob(Job):
    """A program for an engine, by their names."""

    engine: str
    program: str

    @property
    def package(self) -> str:
        return ENGINES[self.engine]

    def load(self) -> Session:
        program = next(each for each in PROGRAMS if each.name == self.program)
        arguments = [
            fresh(each) if isinstance(each, np.ndarray) else each for each in program.arguments()
        ]
        function = _compiled(self.engine, program.name, len(self.cores))
        return Session(partial(function, *arguments), _listed)


def _compiled(engine: str, name: str, threads: int) -> Callable[..., Any]:
    function = getattr(programs, f"{name}_loops" if "loops" in engine else name)
    if engine == OURS:
        return importlib.import_module("weft").jit(function, threads=threads)
    if engine == "numpy":
        return function
    numba: Any = importlib.import_module("numba")
    numba.set_num_threads(threads)
    compiled = numba.njit(function, parallel=True, fastmath="fast" in engine)

    def run(*arguments: Any) -> Any:
        try:
            return compiled(*arguments)
        except numba.TypingError as error:
            reason = next(line for line in str(error).splitlines() if line.strip())
            raise PeerLacks(f"numba does not compile it: {reason}") from error

    return run


def _listed(results: Any) -> list[Array]:
    return [np.asarray(each) for each in (results if isinstance(results, tuple) else (results,))]


def _options(draw: np.random.Generator) -> list[Array]:
    bounds = ((10.0, 50.0), (10.0, 50.0), (0.1, 2.0))
    return [draw.uniform(low, high, 1_000_000) for low, high in bounds]


def _bodies(draw: np.random.Generator) -> list[Array]:
    return [*draw.normal(size=(6, 1024)), draw.uniform(0.1, 1.0, 1024) / 1024]


def _plate(draw: np.random.Generator) -> list[Array]:
    return [draw.uniform(0.0, 1.0, (1024, 1024))]


def _points(draw: np.random.Generator) -> list[Array]:
    points = draw.normal(size=(100_000, 8)) + draw.integers(-2, 3, (100_000, 1))
    return [points, points[:16]]


def _images(draw: np.random.Generator) -> list[Array]:
    answers = np.eye(10, dtype=np.float32)[draw.integers(0, 10, 8192)]
    images = draw.uniform(0.0, 1.0, (8192, 784)).astype(np.float32)
    return [images, answers, np.zeros((784, 10), np.float32)]


PROGRAMS: Final = (
    Program("black_scholes", _options, (0.02, 0.3)),
    Program("n_body", _bodies, (1e-3, 10)),
    Program("stencil", _plate, (0.2, 20)),
    Program("k_means", _points, (10,)),
    Program("softmax_regression", _images, (0.1, 10)),
)

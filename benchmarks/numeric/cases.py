"""Cases of programs in plain NumPy, and the engines that run them, each in a process of its own."""

from __future__ import annotations

import importlib
import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.numeric import arrays, programs
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
    "jax": "jax",
}
"""By name the package. numba compiles the very program, or its loops; `fast` is with fastmath.
JAX compiles the program with `jax.numpy` for NumPy, or what is written for it where arrays change.
"""


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
        if self.engine == "jax":
            return Session(_by_jax(program.name, arguments), _listed)
        function = _compiled(self.engine, program.name, len(self.cores))
        return Session(partial(function, *arguments), _listed)


def _module(name: str) -> types.ModuleType:
    return programs if hasattr(programs, name) else arrays


def _compiled(engine: str, name: str, threads: int) -> Callable[..., Any]:
    module, chosen = _module(name), f"{name}_loops" if "loops" in engine else name
    if not hasattr(module, chosen):
        raise PeerLacks(f"nobody wrote the loops of {name}")
    function = getattr(module, chosen)
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


def _by_jax(name: str, arguments: Sequence[Any]) -> Callable[[], Any]:
    """A call with numbers as constants and arrays that are in place."""
    jax: Any = importlib.import_module("jax")
    jax.config.update("jax_enable_x64", True)
    path = Path(str(_module(name).__file__))
    own = types.ModuleType(name)
    text = path.read_text().replace("import numpy as np", "import jax.numpy as np")
    exec(compile(text, str(path), "exec"), vars(own))
    function = getattr(own, f"{name}_jax", None) or getattr(own, name)
    numbers = [each for each in arguments if not isinstance(each, np.ndarray)]
    given = jax.device_put([each for each in arguments if isinstance(each, np.ndarray)])
    staged = jax.jit(lambda *arrays: function(*arrays, *numbers))
    try:
        staged = staged.lower(*given).compile()
    except (TypeError, jax.errors.JAXTypeError) as error:
        reason = str(error).partition("\n")[0]
        raise PeerLacks(f"JAX does not compile it: {reason}") from error
    return lambda: jax.block_until_ready(staged(*given))


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


def _reals(*shape: int) -> Callable[[np.random.Generator], list[Array]]:
    return lambda draw: [draw.normal(size=shape)]


def _region(draw: np.random.Generator) -> list[Array]:
    points = np.meshgrid(np.linspace(-2.0, 0.6, 512), np.linspace(-1.2, 1.2, 512))
    return [*points]


def _substances(draw: np.random.Generator) -> list[Array]:
    seed = np.zeros((512, 512))
    seed[236:276, 236:276] = 0.5 + 0.1 * draw.uniform(size=(40, 40))
    return [1.0 - seed, 0.5 * seed]


def _cloud(draw: np.random.Generator) -> list[Array]:
    return [draw.normal(size=(4000, 3)), draw.normal(size=(500, 3))]


def _sequence(draw: np.random.Generator) -> list[Array]:
    shapes = (100, 32, 64), (192, 512), (512,)
    return [(0.1 * draw.normal(size=shape)).astype(np.float32) for shape in shapes]


def _levels(draw: np.random.Generator) -> list[Array]:
    return [draw.integers(0, 256, 500_000), draw.normal(size=500_000)]


def _noises(draw: np.random.Generator) -> list[Array]:
    return [*draw.normal(size=(2, 100, 20_000))]


def _samples(draw: np.random.Generator) -> list[Array]:
    x = draw.uniform(0.0, 50.0, 600)
    return [x, np.sin(x), draw.uniform(0.0, 50.0, 300)]


def _words(draw: np.random.Generator) -> list[Array]:
    return [*draw.integers(0, 4, (2, 400))]


PROGRAMS: Final = (
    Program("black_scholes", _options, (0.02, 0.3)),
    Program("n_body", _bodies, (1e-3, 10)),
    Program("stencil", _plate, (0.2, 20)),
    Program("k_means", _points, (10,)),
    Program("softmax_regression", _images, (0.1, 10)),
    Program("mandelbrot", _region, (40,)),
    Program("gray_scott", _substances, (20,)),
    Program("density", _cloud, (0.3,)),
    Program("moving_average", _reals(1_000_000), (20,)),
    Program("lstm", _sequence, ()),
    Program("histogram", _levels, ()),
    Program("heston", _noises, ()),
    Program("gaussian_process", _samples, ()),
    Program("blur", _reals(1024, 1024), ()),
    Program("edit_distance", _words, ()),
)

"""A random program: its text, the inputs that it takes, and the sizes that it is run at."""

from __future__ import annotations

import linecache
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

import weft

Dim = int | str
Sizes = Mapping[str, int]


def extent(dim: Dim, sizes: Sizes) -> int:
    """The number that a dim, such as `2 * n`, is at these sizes."""
    return int(eval(dim, {}, dict(sizes))) if isinstance(dim, str) else dim


@dataclass(frozen=True)
class Input:
    """An argument of a program. Integers are indices into an axis of `below` elements, of either
    sign; floats are normal, or multiples of 1/2 where `grid` asks for ties.
    """

    name: str
    dtype: str
    dims: tuple[Dim, ...]
    below: Dim | None = None
    grid: bool = False

    @property
    def is_float(self) -> bool:
        """Whether a gradient is taken in it."""
        return self.dtype.startswith("float")

    def draw(self, sizes: Sizes, rng: np.random.Generator) -> np.ndarray:
        """An array of its type."""
        shape = tuple(extent(dim, sizes) for dim in self.dims)
        if self.below is not None:
            size = extent(self.below, sizes)
            return rng.integers(-size, size, shape).astype(self.dtype)
        drawn = rng.normal(size=shape)
        return np.asarray(np.round(2 * drawn) / 2 if self.grid else drawn).astype(self.dtype)


@dataclass(frozen=True)
class Program:
    """A module's text with the functions `program`, which gives several tensors, the last of which
    is a loss; `loss`, `slopes` (its gradient), `whole` (both) and `step` (a step down the slope).

    `sizes` are the numbers that the names of dims stand for: the first where dims are fixed.
    """

    seed: int
    text: str
    inputs: tuple[Input, ...]
    sizes: tuple[Sizes, ...]
    symbolic: bool = False
    statements: bool = False
    """Whether it has loops, conditions and stores of Python's: only source mode compiles it."""
    eager: bool = True
    """Whether it runs on tensors with values: some graph operators only take part in graphs."""

    @property
    def floats(self) -> tuple[int, ...]:
        """The positions of inputs that have a gradient."""
        return tuple(place for place, each in enumerate(self.inputs) if each.is_float)

    @property
    def all_sizes(self) -> Sequence[Sizes]:
        """The sizes that it is run at."""
        return self.sizes if self.symbolic else self.sizes[:1]

    def arrays(self, sizes: Sizes) -> list[np.ndarray]:
        """Inputs of these sizes."""
        rng = np.random.default_rng([self.seed, *sizes.values()])
        return [each.draw(sizes, rng) for each in self.inputs]

    def specs(self) -> list[weft.Spec]:
        """The types of the inputs."""
        sizes = {} if self.symbolic else self.sizes[0]
        return [
            weft.Spec(each.dtype, tuple(sizes.get(dim, dim) for dim in each.dims))
            for each in self.inputs
        ]

    def load(self, folder: Path) -> SimpleNamespace:
        """The functions, from a file, which source mode reads them from."""
        path = folder / f"program_{self.seed}.py"
        path.write_text(self.text)
        linecache.checkcache(str(path))
        names: dict[str, Any] = {"__name__": path.stem, "__file__": str(path)}
        exec(compile(self.text, str(path), "exec"), names)
        return SimpleNamespace(**names)

"""Writes random programs statement by statement; the same seed gives the same text."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.differential.program import Dim, Input, Program, Sizes, extent


class Unfit(Exception):
    """A rule finds no operands here."""


@dataclass(frozen=True)
class Value:
    """A variable of the program."""

    name: str
    dtype: str
    dims: tuple[Dim, ...]

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(self.dims)

    @property
    def is_float(self) -> bool:
        """Whether its elements are floats."""
        return self.dtype.startswith("float")

    def __str__(self) -> str:
        return self.name


Rule = Callable[["Writer"], object]
Family = tuple[int, Sequence[Rule]]
"""How often rules are taken, and which."""


@dataclass
class Writer:
    """The program in the making: its lines, and the values in reach, the newest last."""

    random: random.Random
    float: str
    sizes: Sequence[Sizes]
    families: Sequence[Family] = ()
    statements: bool = False
    values: list[Value] = field(default_factory=list[Value])
    changing: list[Value] = field(default_factory=list[Value])
    """Arrays that statements store to."""
    lines: list[str] = field(default_factory=list[str])
    depth: int = 1
    nesting: int = 0
    count: int = 0
    eager: bool = True

    def line(self, text: str) -> None:
        """Appends a line."""
        self.lines.append("    " * self.depth + text)

    def name(self, stem: str) -> str:
        """A name that nothing has yet."""
        self.count += 1
        return f"{stem}{self.count}"

    def put(self, text: str, dtype: str, dims: Sequence[Dim]) -> Value:
        """Appends an assignment to a new variable."""
        value = Value(self.name("v"), dtype, tuple(dims))
        self.line(f"{value} = {text}")
        self.values.append(value)
        return value

    def like(self, text: str, value: Value) -> Value:
        """A new variable of the type of another."""
        return self.put(text, value.dtype, value.dims)

    def graph_only(self) -> None:
        """Notes an operator that does not run on tensors with values or on NumPy's arrays."""
        if self.statements:
            raise Unfit
        self.eager = False

    def operator_only(self) -> None:
        """Refuses graph operators in programs that also run on NumPy's arrays."""
        if self.statements:
            raise Unfit

    def extents(self, dims: Sequence[Dim]) -> list[tuple[int, ...]]:
        """What dims are at all sizes."""
        return [tuple(extent(dim, sizes) for dim in dims) for sizes in self.sizes]

    def least(self, dim: Dim) -> int:
        """The least that a dim ever is."""
        return min(extent(dim, sizes) for sizes in self.sizes)

    def fits(self, predicate: Callable[[Value], bool]) -> list[Value]:
        """The values in reach for which a predicate holds."""
        return [each for each in self.values if predicate(each)]

    def pick(self, predicate: Callable[[Value], bool]) -> Value:
        """One of the values for which a predicate holds, more often a new one."""
        found = self.fits(predicate)
        if not found:
            raise Unfit
        return self.random.choices(found, [1 + 2 * n for n in range(len(found))])[0]

    def floats(self, low: int = 0, high: int = 4) -> Value:
        """Any value of floats, of a rank within bounds."""
        return self.pick(lambda each: each.is_float and low <= each.rank <= high)

    def square(self) -> Value:
        """Square matrices, or a stack of them."""
        return self.pick(lambda each: each.is_float and each.rank in (2, 3)
                         and each.dims[-1] == each.dims[-2])  # fmt: skip

    def beside(self, value: Value, *, same: bool = False) -> Value:
        """A value of the same dtype whose dims are the other's, or spread to them."""

        def fits(each: Value) -> bool:
            if each.dtype != value.dtype or each.rank > value.rank:
                return False
            if same:
                return each.dims == value.dims
            tail = value.dims[value.rank - each.rank :]
            return all(a in (b, 1) for a, b in zip(each.dims, tail, strict=True))

        return self.pick(fits)

    def axis(self, value: Value, least: int = 0) -> int:
        """An axis of at least so many elements at all sizes."""
        found = [n for n, dim in enumerate(value.dims) if self.least(dim) >= least]
        if not found:
            raise Unfit
        return self.random.choice(found)

    def grow(self) -> None:
        """Appends one more statement, of a family by its weight."""
        for _ in range(30):
            before = len(self.lines), len(self.values), self.eager
            weights = [weight for weight, _ in self.families]
            _, rules = self.random.choices(self.families, weights)[0]
            try:
                self.random.choice(rules)(self)
                return
            except Unfit:
                del self.lines[before[0] :], self.values[before[1] :]
                self.eager = before[2]

    @contextmanager
    def inner(self, *arguments: Value) -> Generator[None]:
        """A block of its own: what is assigned there is not in reach afterwards."""
        kept = list(self.values)
        self.values += arguments
        self.depth, self.nesting = self.depth + 1, self.nesting + 1
        try:
            yield
        finally:
            self.values = kept
            self.depth, self.nesting = self.depth - 1, self.nesting - 1


def inputs_of(pick: random.Random, dtype: str, sizes: Sequence[Sizes], grid: bool) -> list[Input]:
    """A few arguments, one of them a square matrix more often than not."""
    shapes: list[tuple[Dim, ...]] = [
        ("n",), ("n", "n"), ("n", "m"), ("m", "n"), ("m",), ("k", "n", "n"), ("k", "n", "m"),
        ("n", 3), (), (2, 2, "n", "m"), (1, 4, 6, 5), (3,),
    ]  # fmt: skip
    chosen: list[tuple[Dim, ...]] = [pick.choice([("n", "n"), ("n", "n"), ("n", "m")])]
    chosen += pick.choices(shapes, k=pick.randint(1, 2))
    found = [Input(f"x{n}", dtype, dims, grid=grid) for n, dims in enumerate(chosen)]
    if pick.random() < 0.5 and all(each[dim] for each in sizes for dim in "nmk"):
        below = pick.choice([dim for dims in chosen for dim in dims] or ["n"])
        dims = pick.choice([("m",), (2,), (), ("n", 2)])
        found.append(Input("i", pick.choice(["int64", "int64", "int32"]), dims, below))
    return found


SIZES = (1, 2, 2, 3, 3, 4, 5, 7, 8, 9, 16, 17, 33)
BESIDE_TILES = (1, 3, 31, 32, 33, 63, 64, 65, 66, 127, 128, 129)
"""Sizes that leave tiles of a kernel whole, or one element over, or one too few."""


def sizes_of(pick: random.Random, large: bool) -> list[Sizes]:
    """Three choices of sizes, one of which may have empty dims."""
    some = BESIDE_TILES if large else SIZES
    found = [dict(zip("nmk", pick.choices(some, k=3), strict=True)) for _ in range(3)]
    for each in found if large else ():
        each["k"] = min(each["k"], 3)  # of which there are stacks of matrices
    found[1][pick.choice("nmk")] = 1
    if pick.random() < 0.15:
        found[2][pick.choice("nmk")] = 0
    if pick.random() < 0.04:
        found[0][pick.choice("nmk")] = 0
    return found


def write_program(seed: int, families: Callable[[bool, bool], Sequence[Family]]) -> Program:
    """The program of a seed out of rules, which may differ for programs of statements."""
    pick = random.Random(seed)
    large = random.Random(f"large {seed}").random() < 0.2
    statements, symbolic = not large and pick.random() < 0.3, pick.random() < 0.25
    sizes, dtype = sizes_of(pick, large), pick.choice(["float32", "float64"])
    inputs = inputs_of(pick, dtype, sizes if symbolic else sizes[:1], pick.random() < 0.1)
    writer = Writer(
        pick, dtype, sizes if symbolic else sizes[:1], families(statements, large), statements
    )
    for each in inputs:
        writer.values.append(Value(each.name, each.dtype, each.dims))
    begin_with_sizes(writer, inputs)
    for _ in range(pick.randint(2, 7)):
        writer.grow()
    returned = end_with_loss(writer)
    text = whole_text(seed, inputs, writer.lines, returned)
    return Program(seed, text, tuple(inputs), tuple(sizes), symbolic, statements, writer.eager)


def begin_with_sizes(writer: Writer, inputs: Sequence[Input]) -> None:
    """Assigns the names of dims."""
    places = {dim: (each.name, n) for each in inputs for n, dim in enumerate(each.dims)}
    for dim, (name, axis) in places.items():
        if isinstance(dim, str):
            writer.line(f"{dim} = {name}.shape[{axis}]")


LOSSES = (
    "({x} ** 2).sum()",
    "({x} * {x} * {x}).sum()",
    "wnp.exp(wnp.tanh({x})).sum()",
    "wnp.sqrt(({x} * {x}).sum() + 0.1)",
    "wnp.log({x} * {x} + 0.5).sum()",
    "wnp.square({x}.sum())",
    "wnp.sin({x}).sum() * wnp.tanh({x}).sum()",
)
"""One number of a tensor, in which none is linear."""


def end_with_loss(writer: Writer) -> list[Value]:
    """Appends a loss of the last values that nothing else reads; what the program returns."""
    read = Counter(re.findall(r"\w+", "\n".join(writer.lines)))
    unread = [each for each in writer.values if each.name[0] == "v" and read[each.name] == 1]
    floats = writer.fits(lambda each: each.is_float)
    ends = [each for each in unread if each.is_float][-3:] or floats[-1:]
    ends = list(dict.fromkeys([*ends, *[each for each in writer.changing if each in floats][-2:]]))
    terms = [writer.random.choice(LOSSES).format(x=each) for each in ends]
    if len(ends) > 1 and ends[0].dims == ends[1].dims:
        terms.append(f"({ends[0]} * {ends[1]}).sum()")
    total = writer.put(" + ".join(terms), writer.float, ())
    others = [each for each in unread if each not in ends][:2]
    return [*ends, *others, total]


def whole_text(
    seed: int, inputs: Sequence[Input], lines: Sequence[str], returned: Sequence[Value]
) -> str:
    """The module of a program's lines."""
    names = ", ".join(each.name for each in inputs)
    floats = [n for n, each in enumerate(inputs) if each.is_float]
    stepped = ", ".join(f"{inputs[n].name} - 0.1 * g[{at}]" for at, n in enumerate(floats))
    body = "\n".join(lines)
    return f'''"""Random program of seed {seed}."""

import numpy as np
import weft
import weft.numpy as wnp


def program({names}):
{body}
    return {", ".join(map(str, returned))}


def loss({names}):
    return program({names})[-1]


slopes = weft.grad(loss, {tuple(floats)})


def whole({names}):
    return program({names}), slopes({names})


def step({names}):
    g = slopes({names})
    return {stepped}, loss({names})
'''

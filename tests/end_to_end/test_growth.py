"""How much more a compilation does for a graph of twice as many operators (B1): counted, not timed.

Calls of every function are counted; none is called much more than twice as often.
"""

import os
from collections import Counter
from collections.abc import Callable, Generator
from cProfile import Profile
from pathlib import Path
from types import CodeType

import pytest
from onnx import ModelProto

from benchmarks.growth.graphs import FAMILIES
from tests.models.graph_writer import GraphWriter
from weft.compilation import options_of
from weft.compiler.driver.pipeline import compile_model
from weft.compiler.driver.session import Session
from weft.compiler.frontend.imported import ImportedModel, Source

SMALL = 300

MENDED = {"ports": 100, "calls": 120, "scatters": 120, "branches": 160, "loops": 160}
"""Kinds of graphs that found something which took the square of their operators, and how many of
these show it.
"""

MOST = 2.6
"""Times as many calls for twice as many operators: n log n, and what is done once for all."""


def chain(count: int) -> ModelProto:
    """Operators that fuse and operators that do not, each on the one before."""
    net = GraphWriter("chain", seed=1)
    value = net.input("x", (8, 8))
    for number in range(count):
        value = net.op(("Relu", "Softmax", "Exp", "Transpose")[number % 4], value)
    net.output(value, "y", (8, 8))
    return net.model


def residual(count: int) -> ModelProto:
    """Sums of the last value and one that is up to 50 operators older."""
    net = GraphWriter("residual", seed=1)
    values = [net.input("x", (8, 8))]
    for number in range(count):
        values.append(net.op("Add", values[-1], values[max(0, len(values) - 2 - number % 50)]))
    net.output(values[-1], "y", (8, 8))
    return net.model


def wide(count: int) -> ModelProto:
    """One value that all read, and one that reads all."""
    net = GraphWriter("wide", seed=1)
    x = net.input("x", (8, 8))
    parts = [
        net.op("Softmax", net.op("Relu" if number % 2 else "Sigmoid", x))
        for number in range(count // 2)
    ]
    net.output(net.op("Sum", *parts), "y", (8, 8))
    return net.model


@pytest.fixture
def one_core() -> Generator[None]:
    """This process compiles all kernels: which of them workers take differs from run to run."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    yield
    os.sched_setaffinity(0, cores)


class Kernels:
    """Kernels that were compiled before: how long one takes has nothing to do with the graph."""

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}

    def find_kernel(self, key: str) -> bytes | None:
        return self.kept.get(key)

    def keep_kernel(self, key: str, data: bytes) -> None:
        self.kept[key] = data


def calls(model: Source | ImportedModel, path: Path, kernels: Kernels) -> Counter[str]:
    """How often each function is called, and calls built-in ones, to compile a model and to write
    its artifact.
    """
    options = options_of(b"", prefix="grown")
    profile = Profile()
    profile.enable()
    try:
        compile_model(model, options, Session(options, store=kernels)).export(path)
    finally:
        profile.disable()
    found: Counter[str] = Counter()
    for entry in profile.getstats():
        found[_name_of(entry.code)] += entry.callcount
        if isinstance(entry.code, CodeType):
            built_in = (each for each in entry.calls or () if isinstance(each.code, str))
            found[f"{_name_of(entry.code)} calls out"] += sum(each.callcount for each in built_in)
    return found


def _name_of(code: CodeType | str) -> str:
    """What names a function, or one that is built in."""
    return code if isinstance(code, str) else f"{code.co_filename}:{code.co_qualname}"


@pytest.mark.parametrize("shape", [chain, residual, wide])
def test_no_stage_grows_faster_than_the_graph(
    shape: Callable[[int], ModelProto], one_core: None, tmp_path: Path
):
    """B1"""
    assert not grown(shape, SMALL, tmp_path / "libgrown.so")


@pytest.mark.parametrize("kind", MENDED)
def test_what_once_took_the_square_of_the_graph_grows_no_faster_than_it(
    kind: str, one_core: None, tmp_path: Path
):
    """B1: inputs and outputs, calls of functions, updates, branches and loops."""
    assert not grown(FAMILIES[kind], MENDED[kind], tmp_path / "libgrown.so")


def grown(
    shape: Callable[[int], Source | ImportedModel], small: int, path: Path
) -> dict[str, tuple[int, int]]:
    """What is called much more than twice as often for a graph of twice as many operators."""
    kernels, sizes = Kernels(), (small, 2 * small)
    for count in sizes:  # kernels, and all else that is done once
        options = options_of(b"", prefix="grown")
        compile_model(shape(count), options, Session(options, store=kernels))
    before, after = (calls(shape(count), path, kernels) for count in sizes)
    return {
        name: (before[name], count)
        for name, count in after.items()
        if count > MOST * before[name] + 2 * small
    }

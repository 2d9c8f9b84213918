"""`m_set_profile`: what a C program is told of a call with loops and branches."""

import shutil
import subprocess
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest

import weft
import weft.numpy as wnp
from tests.support.small_models import add_model
from weft.compilation import options_of
from weft.compiler.abi.constants import SpanNumber
from weft.compiler.driver.pipeline import compile_model
from weft.compiler.loop_to_llvm.runtime import LATER_EXPORTS, exported_symbols
from weft.compiler.machine.artifact.artifact import read_metadata

HOST_PROGRAM = Path(__file__).with_name("profile_host.c")
SIZE = 192

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")


def repeated(x, steps):
    for _ in range(steps):
        x = wnp.tanh(x @ x)
    return wnp.exp(x) if x[0, 0] > 0.0 else wnp.sqrt(-x)


class Told(NamedTuple):
    """A line of the host's."""

    thread: int
    number: int
    name: str
    begin: int
    end: int


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Holds libm.so and its host."""
    folder = tmp_path_factory.mktemp("profile")
    specs = [weft.Spec("float32", (SIZE, SIZE)), weft.Spec("int64")]
    weft.compile(repeated, specs, prefix="m").export(folder / "libm.so")
    command = ["cc", "-std=c11", "-Wall", "-Wextra", "-Werror", str(HOST_PROGRAM), f"-I{folder}"]
    flags = [str(folder / "libm.so"), f"-Wl,-rpath,{folder}", "-o", str(folder / "host")]
    subprocess.run([*command, *flags], check=True)
    return folder


def told_by(folder: Path, *arguments: object) -> list[Told]:
    """The spans of one call; the call after it tells nothing."""
    command = [str(folder / "host"), *map(str, arguments)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    *lines, last = done.stdout.splitlines()
    assert last == "run"
    fields = (line.split() for line in lines)
    return [Told(int(t), int(n), name, int(b), int(e)) for t, n, name, b, e in fields]


def names_of(spans: Sequence[Told]) -> list[str]:
    """The operators of kernels in order."""
    return [span.name.rsplit("_", 1)[0] for span in spans if span.number >= 0]


@pytest.mark.parametrize(("threads", "own_loops"), [(1, 0), (2, 0), (2, 1)])
def test_the_spans_of_the_caller_fill_its_call(folder: Path, threads: int, own_loops: int):
    """C side: a callback hears of each kernel, in loops and branches, and times leave no gap."""
    *spans, call = told_by(folder, threads, own_loops, 5, 0.25)
    assert (call.number, call.name) == (SpanNumber.CALL, "call")
    mine = [span for span in spans if span.thread == call.thread]
    assert (mine[0].begin, mine[-1].end) == (call.begin, call.end)
    assert all(before.end == after.begin for before, after in pairwise(mine))
    products = [span for span in mine if span.name.startswith("matmul_tanh_")]
    starts = [a for b, a in pairwise(mine) if a in products and b.number == SpanNumber.OTHER]
    assert len(starts) == 5
    names = names_of(mine)
    assert "exp" in names
    assert "sqrt" not in "".join(names)


def test_numbers_and_names_are_those_of_the_metadata(folder: Path):
    calls = read_metadata(folder / "libm.so")["calls"]
    spans = [span for span in told_by(folder, 2, 0, 2, 0.25) if span.number >= 0]
    assert spans
    assert all(calls[span.number]["kernel"] == span.name for span in spans)
    nodes = {node for span in spans for node in calls[span.number]["nodes"]}
    assert any("test_profile.py" in node for node in nodes)


def test_workers_are_told_within_the_loop_that_they_take_part_in(folder: Path):
    for _ in range(20):  # until the system runs the worker as well
        *spans, call = told_by(folder, 2, 0, 200, 0.001)
        parts = [span for span in spans if span.thread != call.thread]
        if parts:
            break
    assert parts
    assert all(call.begin <= part.begin <= part.end <= call.end for part in parts)
    assert {part.name for part in parts} <= {span.name for span in spans if span.number >= 0}
    assert all(before.end <= after.begin for before, after in pairwise(parts))


def test_a_module_without_a_clock_has_no_profile():
    compiled = compile_model(add_model(), options_of(add_model(), target="wasm32", prefix="m"))
    assert "m_set_profile" not in compiled.exports
    lacking = {f"m_{name}" for name in LATER_EXPORTS}
    assert set(exported_symbols("m")) - set(compiled.exports) == lacking

"""`Executable.profile`: spans of every thread, and what they add up to by kernel, operator and
node.
"""

from pathlib import Path

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from tests.end_to_end.test_buckets import dense, noise
from tests.support.small_models import add_model, dense_model, rows_of
from weft.compilation import options_of
from weft.compiler.driver.pipeline import compile_model
from weft.compiler.machine.codegen.host import host_target
from weft.compiler.machine.codegen.jit import load_objects
from weft.compiler.machine.python.executable import Executable
from weft.compiler.machine.python.profile import Profile
from weft.compiler.machine.python.spans import IDLE, CallProfile, KernelCall, Span


@pytest.fixture(scope="module")
def executable() -> weft.Executable:
    return weft.compile(dense_model("rows"), threads=2)


@pytest.mark.parametrize("rows", [1, 300])
def test_the_timeline_of_each_thread_adds_up_to_the_call(executable: weft.Executable, rows: int):
    profile = executable.profile([rows_of(rows)], calls=5)
    assert len(profile.calls) == 5
    for call in profile.calls:
        for thread in call.threads:
            spans = call.timeline(thread)
            assert sum(span.end - span.begin for span in spans) == call.duration
            assert (spans[0].begin, spans[-1].end) == (0, call.duration)
        assert all(span.number != IDLE for span in call.timeline(0)), "the caller is never idle"


def test_kernels_have_their_nodes_and_work(executable: weft.Executable):
    profile = executable.profile({"x": rows_of(10)}, calls=3)
    (kernel, *_) = profile.kernel_calls
    assert kernel.nodes == ("/MatMul", "/Add", "/Relu")
    assert kernel.operator == "matmul_add_relu"
    assert kernel.flops == 10 * (96 * 80 * 2 + 2 * 80)
    row = next(row for row in profile.by_node() if row.runs)
    assert (row.name, row.runs, row.flops) == ("/MatMul, /Add, /Relu", 1, kernel.flops)
    assert {row.name for row in profile.by_operator()} == {"matmul_add_relu", "between kernels"}


def test_calls_after_a_profile_are_the_same(executable: weft.Executable):
    (before,) = executable(rows_of(5))
    executable.profile([rows_of(5)], calls=1)
    (after,) = executable(rows_of(5))
    assert before.tobytes() == after.tobytes()


def test_a_call_that_fails_ends_the_profile(executable: weft.Executable):
    with pytest.raises(weft.InputError, match="requires float32"):
        executable.profile([np.zeros((2, 96))])
    with pytest.raises(weft.OptionError, match="at least one call, got 0"):
        executable.profile([rows_of(2)], calls=0)
    assert executable(rows_of(2))[0].shape == (2, 80)


def test_iterations_count_as_runs():
    def powers(x, count):
        for _ in range(count):
            x = wnp.tanh(x) * 0.5
        return x

    run = weft.compile(powers, [weft.Spec("float32", (100,)), weft.Spec("int64")])
    rows = run.profile([np.ones(100, np.float32), np.int64(37)], calls=1).by_operator()
    assert sum(row.runs for row in rows if row.name.startswith("tanh")) == 37


def test_donated_inputs_are_given_anew():
    run = weft.compile(add_model((64,)), donate=["x=z"])
    x = np.zeros(64, np.float32)
    assert run.donated
    run.profile([x, np.ones(64, np.float32)], calls=3)
    assert not x.any()


def test_programs_for_buckets_have_numbers_of_their_own():
    run = weft.compile(dense(), buckets=["length=3,16"])
    seen = set()
    for length in (3, 16):
        profile = run.profile([noise(2, length)], calls=1)
        numbers = {span.number for span in profile.median.spans if span.number >= 0}
        assert numbers
        assert not numbers & seen
        seen |= numbers
        assert all(run.metadata["calls"][number]["flops"] for number in numbers)


def test_an_artifact_of_an_older_weft_says_that_it_has_none(tmp_path: Path):
    compiled = compile_model(add_model(), options_of(add_model(), prefix="m"))
    older = [name for name in compiled.exports if name != "m_set_profile"]
    library = load_objects(list(compiled.objects.values()), older)
    run = Executable(library, "m", compiled.signature, metadata=compiled.metadata)
    with pytest.raises(weft.OptionError, match="requires an artifact with m_set_profile"):
        run.profile([np.ones(8, np.float32)] * 2)


def test_waiting_belongs_to_its_kernel_and_parts_to_no_run():
    kernels = tuple(KernelCall(n, f"k{n}_0123abcd", (), 7, 8, n) for n in range(2))
    spans = (
        Span(0, 0, 10, -2), Span(0, 10, 50, 0), Span(1, 20, 60, 0), Span(0, 50, 65, -3),
        Span(0, 65, 66, 0), Span(0, 66, 90, 1), Span(0, 90, 100, -2),
    )  # fmt: skip
    profile = Profile("m", kernels, (), (CallProfile(5, 105, spans),))
    rows = {row.name: row for row in profile.by_operator()}
    first = rows["k0"]
    assert (first.runs, first.wall, first.busy, first.flops) == (1, 56, 40 + 1 + 40, 7)
    assert (rows["k1"].runs, rows["k1"].wall) == (1, 24)
    assert rows["between kernels"].wall == 20
    assert profile.median.timeline(1)[0] == Span(1, 0, 20, IDLE)
    first_run = next(each for each in profile.median.stretches() if each.number == 0)
    assert (first_run.begin, first_run.end, first_run.is_run) == (10, 66, True)
    assert first_run.waits == [Span(0, 50, 65, -3)]


@pytest.mark.skipif(host_target().arch != "x86_64", reason="levels are those of x86-64")
def test_the_level_that_runs_has_the_numbers():
    run = weft.compile(dense_model(), isa=["v2", "v3"])
    profile = run.profile([rows_of(64)], calls=1)
    (kernel,) = {span.number for span in profile.median.spans if span.number >= 0}
    assert profile.kernel_calls[kernel].nodes == ("/MatMul", "/Add", "/Relu")

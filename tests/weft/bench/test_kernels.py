"""Builds with clocks: the same answers, and each kernel's time."""

import numpy as np

from tests.models.convolutional import build_lenet
from tests.models.networks import image_inputs
from weft.bench.kernels import kernel_rows, time_kernels
from weft.bench.limits import Bandwidth, Limits
from weft.bench.work import work_of
from weft.compiler.driver.options import Options
from weft.compiler.driver.pipeline import compile_model
from weft.compiler.machine.codegen.host import host_target
from weft.compiler.program.time_calls import TICKS


def test_a_build_with_clocks_answers_the_same_and_tells_of_its_kernels():
    options = Options(host_target())
    inputs = image_inputs(1, channels=1, size=28)
    plain = compile_model(build_lenet(), options)
    timed = compile_model(build_lenet(), Options(host_target(), timed=True))
    answers = timed.executable(1).run(inputs)
    assert np.array_equal(
        answers["probabilities"], plain.executable(1).run(inputs)["probabilities"]
    )
    ticks = answers[TICKS]
    names = timed.metadata["timed_calls"]
    assert len(ticks) == len(names) + 1
    assert (ticks > 0).all()
    times, again = time_kernels([timed, timed], inputs, 1, seconds=0.01)
    assert [each.name for each in times] == list(dict.fromkeys(names))
    assert [each.name for each in again] == list(dict.fromkeys(names))
    assert all(0 < each.milliseconds < 100 for each in times)


def test_rows_have_shares_and_the_slowest_first():
    timed = compile_model(build_lenet(), Options(host_target(), timed=True))
    inputs = image_inputs(1, channels=1, size=28)
    (times,) = time_kernels([timed], inputs, 1, seconds=0.01)
    limits = Limits("cpu", 1, 100.0, (Bandwidth("read", "memory", 1, 10.0),))
    rows = kernel_rows(times, work_of(timed.metadata, inputs), limits)
    assert sum(row["share_percent"] for row in rows) - 100 < 1
    assert [row["ms"] for row in rows] == sorted((row["ms"] for row in rows), reverse=True)
    assert all(row["schedules"] for row in rows)
    assert "clock_add" not in {row["kernel"] for row in rows}

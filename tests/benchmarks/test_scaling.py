"""What is predicted of scaling, and which predictions count as close."""

import pytest

from benchmarks.growth.scaling import predicted, scalings, summary
from weft.compiler.machine.codegen.host import host_target
from weft.compiler.program.call_time import bounds_of
from weft.compiler.program.parallelize_calls import ThreadModel
from weft.dialects.errors import WeftError

CALL = {"flops": 10**9, "bytes": 1000}
SMALL = {"flops": 10, "bytes": 1000}
GROUP = {"least": 2, "most": 3, "modelled": {"2": [900, 500], "4": [700, 400]}}


def test_calls_take_less_on_several_threads_and_small_ones_as_long():
    target, model = host_target(), ThreadModel(wake=100.0, wake_each=10.0)
    large = max(bounds_of(CALL["flops"], CALL["bytes"], target)) + target.cost.call_ns
    small = max(bounds_of(SMALL["flops"], SMALL["bytes"], target)) + target.cost.call_ns
    metadata = {"calls": [CALL, SMALL], "concurrent": [GROUP]}
    assert predicted(metadata, target, 1, model) == pytest.approx(large + small)
    two = large / 2 + 120 + small - 400
    assert predicted(metadata, target, 2, model) == pytest.approx(two)
    assert predicted(metadata, target, 4, model) == pytest.approx(large / 4 + 140 + small)
    slower = predicted(metadata, target, 2, model, slower=1.5)
    assert slower == pytest.approx(two + large / 4)


def test_sizes_that_vary_are_refused():
    metadata = {"calls": [{"flops": "n", "bytes": "4 * n"}], "concurrent": []}
    with pytest.raises(WeftError, match=r"sizes that are numbers, got 4 \* n"):
        predicted(metadata, host_target(), 2, ThreadModel())


def test_scaling_is_beside_the_fewest_threads_and_close_within_a_quarter():
    one = {"model": "m", "threads": 1, "weft": 8.0, "predicted": 6.0, "predicted_here": 6.0}
    two = {"model": "m", "threads": 2, "weft": 5.0, "predicted": 2.0, "predicted_here": 4.0}
    failed = {"model": "m", "threads": 4, "error": "failed: it did"}
    found = list(scalings([one, two, failed]))
    assert [each["weft"] for each in found] == [1.0, 1.6]
    expected = (
        "  2 threads, 1 models: weft 1.60, predicted 3.00 (0 close), predicted_here 1.50 (1 close)"
    )
    assert summary([one, two, failed]).splitlines()[1] == expected

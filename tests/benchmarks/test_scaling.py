"""What is predicted of scaling, and which predictions count as close."""

import pytest

from benchmarks.growth.scaling import scalings, summary
from weft.compiler.machine.codegen.host import host_target
from weft.compiler.program.thread_time import EXCHANGE_NS, EXCHANGED, Cores, model_ns
from weft.dialects.errors import WeftError
from weft.dialects.loop.iteration_cost import GRAIN_OPERATIONS

SHARED = [0, 1, 64, 1, 64 * GRAIN_OPERATIONS]
CALL = {"flops": 10**9, "bytes": 0, "weights": 0, "shares": SHARED}
GROUP = {"least": 2, "most": 3, "modelled": {"2": [900, 500], "4": [700, 400]}}


def times(threads, *calls, groups=(), **known):
    """A model's time on one thread and on several, less what calls take that do nothing."""
    target, metadata = host_target(), {"calls": calls, "concurrent": groups}
    cores = Cores(1), Cores(threads, **known)
    return [model_ns(metadata, target, each) - len(calls) * target.cost.call_ns for each in cores]


def test_threads_share_what_is_parallel_and_wait_for_the_busiest():
    one, two = times(2, CALL, section_ns=100.0)
    assert two == pytest.approx(one / 2 + 100)
    one, five = times(5, CALL | {"shares": [0, 1, 6, GRAIN_OPERATIONS, 6]}, section_ns=100.0)
    assert five == pytest.approx(one)  # six tasks are a single chunk
    one, four = times(4, CALL | {"shares": [100, 3, 6, 1, 300]}, section_ns=10.0)
    assert four == pytest.approx(one * (1 / 4 + 3 / 4 * 2 / 6) + 3 * 10)
    one, four = times(4, CALL, compute=1.5)
    assert four == pytest.approx(one / 4 * 1.5)
    one, two = times(2, CALL, groups=[GROUP])
    assert two == pytest.approx(one / 2 - 400)


def test_weights_stay_in_caches_that_hold_all_and_results_go_between_cores():
    target = host_target()
    weights = CALL | {"flops": 0, "bytes": target.l2_bytes + 1, "weights": target.l2_bytes + 1}
    far, near = times(2, weights, read=3.0)
    gbs = target.cost.l2_bandwidth * target.cost.ghz / target.cost.memory_gbs
    assert far / near == pytest.approx(2 * gbs)
    far, shared = times(2, weights, weights, read=3.0)
    assert shared == pytest.approx(far / 2 * 3)
    one, two = times(2, CALL | {"bytes": 6400})
    assert two == pytest.approx((one + 100 * EXCHANGE_NS * EXCHANGED / 2) / 2)


def test_sizes_that_vary_are_refused():
    call = {"flops": "n", "bytes": "4 * n", "weights": 0, "shares": []}
    with pytest.raises(WeftError, match=r"sizes that are numbers, got 4 \* n"):
        times(2, call)


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

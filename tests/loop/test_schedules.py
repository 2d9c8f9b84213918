"""Schedules take every kernel: none fails, and none changes what a kernel computes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.graph_to_loop import lower_group
from compiler.loop.schedule_file import apply_schedule
from compiler.loop.schedules import GENERIC, schedule_kernel
from compiler.options import KernelSchedule
from compiler.target.target import Target
from dialects.graph import OPS, GraphOp, group_of
from dialects.graph.dtypes import numpy_dtype
from dialects.graph.types import type_of
from dialects.loop.ops import ForOp
from dialects.loop.program import KernelOp
from tests import oracle
from tests.loop import kernels
from tests.loop.interpreter import run_kernel
from tests.samples import SAMPLES

WIDE = Target("wide", "x86_64-unknown-linux-gnu", "x86-64-v4", (), 64, 32, has_fma=True)
TARGETS = (GENERIC, WIDE)
TOLERANCE = {"float64": 1e-11, "float32": 1e-5, "float16": 4e-3, "bfloat16": 3e-2}
"""Sums may be reassociated."""


@pytest.mark.parametrize("cls", OPS, ids=lambda cls: cls.name.removeprefix("graph."))
@settings(max_examples=3)
@given(data=st.data())
def test_scheduled_operators_compute_the_same(cls: type[GraphOp], data: st.DataObject):
    sample = data.draw(SAMPLES[cls])
    op = oracle.operator(cls, sample)
    group = group_of(op)
    naive = lower_group(group, list(group.body.block.args), {})
    arguments = [*dict(zip(op.operands, sample.present, strict=True)).values()]
    arguments += [blank(type_of(result)) for result in op.results]
    expected = run_kernel(naive, *arguments)
    for target in TARGETS:
        scheduled = naive.clone()
        steps = schedule_kernel(scheduled, target).steps
        scheduled.verify()
        again = naive.clone()
        apply_schedule(again, KernelSchedule("again", steps))
        assert str(again) == str(scheduled), "a schedule is its primitives, and nothing else"
        got = run_kernel(scheduled, *arguments, scramble=True)
        for actual, array in zip(got, expected, strict=True):
            check(actual, array)


def blank(kind):
    return np.zeros(kind.static_shape, numpy_dtype(kind.element))


def check(actual, expected) -> None:
    tolerance = TOLERANCE.get(expected.dtype.name, 0)
    wide = expected.astype(np.float64) if tolerance else expected
    scale = np.abs(wide[np.isfinite(wide)]).max(initial=1.0) if tolerance else 0
    np.testing.assert_allclose(
        actual.astype(wide.dtype), wide, rtol=tolerance, atol=tolerance * scale
    )


@pytest.mark.parametrize("build", [kernels.prefix_sum, kernels.scatter])
@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_what_no_schedule_may_reorder_stays_serial(build, target):
    op: KernelOp = build()
    schedule_kernel(op, target)
    kernels.same(build(), op)
    loops = [loop for loop in op.walk() if isinstance(loop, ForOp)]
    assert loops
    assert not any(loop.vector or loop.parallel for loop in loops)


def test_loops_without_iterations_go():
    op = kernels.softmax(0, 9)
    schedule_kernel(op, GENERIC)
    assert not [loop for loop in op.walk() if isinstance(loop, ForOp)]

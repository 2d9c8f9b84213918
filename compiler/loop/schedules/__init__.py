"""Schedules: naive kernels become fast ones, by the primitives alone.
The first schedule that matches a nest takes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from compiler.loop.schedules import contraction, pointwise, rows, window
from compiler.loop.schedules.simplify import simplify
from compiler.target.target import Target
from dialects.errors import IllegalSchedule
from dialects.loop.ops import ForOp
from dialects.loop.program import KernelOp

SCHEDULES = (contraction, window, pointwise, rows)
"""In the order in which they are asked; `rows` takes every nest."""

GENERIC = Target("generic", "x86_64-unknown-linux-gnu", "x86-64-v3", (), 32, 16, has_fma=True)
"""What `weft-opt` schedules for: 8 lanes of f32 and 16 registers,
so that golden tests do not depend on the machine.
"""


@dataclass(frozen=True)
class SchedulePass(ModulePass):
    """Schedules every kernel of the module."""

    name = "weft-schedule"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for kernel in op.ops:
            if isinstance(kernel, KernelOp):
                schedule_kernel(kernel, GENERIC)


def schedule_kernel(kernel: KernelOp, target: Target) -> list[str]:
    """Schedules one kernel in place; returns the names of the schedules that were used.

    What a schedule finds illegal stays as it was before it.
    """
    simplify(kernel)
    used = [
        *_try(kernel, contraction.NAME, lambda: contraction.apply_all(kernel, target)),
        *_try(kernel, window.NAME, lambda: window.apply_all(kernel, target)),
    ]
    if _unscheduled(kernel):
        used += _try(kernel, "leaves", lambda: _schedule_rest(kernel, target))
    return used


def _try(kernel: KernelOp, name: str, schedule: Callable[[], Iterable[str]]) -> list[str]:
    """What the schedule used; the kernel as it was, and why, where that turns out illegal."""
    before = kernel.clone()
    try:
        return list(schedule())
    except IllegalSchedule as refusal:
        _restore(kernel, before)
        return [f"no {name}: {refusal}"]


def _schedule_rest(kernel: KernelOp, target: Target) -> Iterator[str]:
    """Nests that no other schedule took, fused at the row where they can be."""
    rows.fuse_rows(kernel.body.block)
    for loop in _unscheduled(kernel):
        chosen = pointwise if pointwise.matches(loop) else rows
        chosen.apply(loop, target)
        yield chosen.NAME


def _unscheduled(kernel: KernelOp) -> list[ForOp]:
    return [op for op in kernel.body.block.ops if isinstance(op, ForOp) and not _is_scheduled(op)]


def _restore(kernel: KernelOp, before: KernelOp) -> None:
    """Gives a kernel the arguments' types and the body that it had."""
    body = before.detach_region(0)
    kernel.detach_region(0)
    kernel.add_region(body)


def _is_scheduled(loop: ForOp) -> bool:
    """Whether a schedule has put its marks on the nest."""
    return any(
        isinstance(op, ForOp) and (op.parallel or op.vector or op.unroll) for op in loop.walk()
    )

"""Schedules: naive kernels become fast ones, by the primitives alone.
The first schedule that matches a nest takes it.
"""

from __future__ import annotations

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
    """Schedules one kernel in place; returns the names of the schedules that were used."""
    simplify(kernel)
    used: list[str] = []
    for schedule in (contraction, window):
        before = kernel.clone()
        try:
            used += schedule.apply_all(kernel, target)
        except IllegalSchedule as refusal:
            _restore(kernel, before)
            used.append(f"no {schedule.NAME}: {refusal}")
    untouched = [
        loop
        for loop in kernel.body.block.ops
        if isinstance(loop, ForOp) and not _is_scheduled(loop)
    ]
    if untouched:
        rows.fuse_rows(kernel.body.block)
    for loop in [
        op for op in kernel.body.block.ops if isinstance(op, ForOp) and not _is_scheduled(op)
    ]:
        chosen = pointwise if pointwise.matches(loop) else rows
        chosen.apply(loop, target)
        used.append(chosen.NAME)
    return used


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

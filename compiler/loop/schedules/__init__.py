"""Schedules: naive kernels become fast ones, by the primitives alone.
The first schedule that matches a nest takes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from msgspec import Struct

from weft.compiler.deferred import deferred
from weft.compiler.loop.nest import child_loops, loops_in
from weft.compiler.loop.primitives.recording import is_recorded, record, steps_of, stop_recording
from weft.compiler.loop.schedules import (
    block_quantized,
    blocked_layout,
    pointwise,
    row_wise,
    scatter,
    transpose,
    tree_walk,
)
from weft.compiler.loop.schedules.simplify import simplify
from weft.compiler.target.target import Target
from weft.dialects.errors import IllegalSchedule
from weft.dialects.loop.program import KernelOp

if TYPE_CHECKING:
    from weft.compiler.loop.schedules import (
        attention,
        contraction,
        leading_reduction,
        sliding_window,
    )
    from weft.compiler.loop.schedules.gemm import small_n, split_k
    from weft.compiler.loop.schedules.gemm.plan import Plan
else:
    attention = deferred("weft.compiler.loop.schedules.attention")
    contraction = deferred("weft.compiler.loop.schedules.contraction")
    leading_reduction = deferred("weft.compiler.loop.schedules.leading_reduction")
    sliding_window = deferred("weft.compiler.loop.schedules.sliding_window")
    small_n = deferred("weft.compiler.loop.schedules.gemm.small_n")
    split_k = deferred("weft.compiler.loop.schedules.gemm.split_k")

CONTRACTION: Final = "contraction"

Apply = Callable[..., Iterator[str]]


class Schedule(Struct, frozen=True):
    """A way to make nests of a kernel fast: `apply_all` finds those that it knows, rewrites them in
    place and yields its name for each. One that raises RefusedPlan takes the plans that were
    refused as `refused`. What it makes may depend on the number of cores where it `reads_cores`. A
    kernel without a reduction has nothing for one that `reduces`, which is not asked then.
    """

    name: str
    apply_all: Apply
    reads_cores: bool = False
    reduces: bool = False


class Later(Struct, frozen=True):
    """Applies a schedule of a module that most small programs have no use for."""

    module: Any

    def __call__(self, kernel: KernelOp, target: Target, **options: Any) -> Iterator[str]:
        return self.module.apply_all(kernel, target, **options)


SCHEDULES = (
    Schedule(tree_walk.NAME, tree_walk.apply_all),
    Schedule(block_quantized.NAME, block_quantized.apply_all),
    # two contractions and the softmax between them
    Schedule("attention", Later(attention), reduces=True),
    Schedule("split-k", Later(split_k), reduces=True),  # splits contractions for those that follow
    Schedule("small-n", Later(small_n), reduces=True),
    Schedule(CONTRACTION, Later(contraction), reduces=True),
    Schedule(
        "leading-reduction", Later(leading_reduction), reads_cores=True, reduces=True
    ),  # the longest reductions
    Schedule("sliding-window", Later(sliding_window), reduces=True),
    Schedule(
        "blocked-layout", blocked_layout.apply_all
    ),  # what follows finds vectors in a blocked layout
    Schedule("fuse-rows", row_wise.fuse_all),  # what is left may share its outer loops
    Schedule(transpose.NAME, transpose.apply_all),
    Schedule(scatter.NAME, scatter.apply_all),
    Schedule(pointwise.NAME, pointwise.apply_all),
    Schedule(row_wise.NAME, row_wise.apply_all),  # takes every nest
)
"""In the order in which they are asked; a nest belongs to the first that takes it."""

READS_CORES: Final = frozenset(each.name for each in SCHEDULES if each.reads_cores)
"""The names of those whose code is for a number of cores."""


class Scheduled(NamedTuple):
    """The names of the schedules that a kernel got; which refused it, and why, and which of its
    reductions got no vectors; and the steps.
    """

    used: list[str]
    refused: list[str]
    steps: tuple[str, ...]


def schedule_kernel(
    kernel: KernelOp,
    target: Target,
    schedules: Sequence[Schedule] = SCHEDULES,
    *,
    recorded: bool = True,
    naive: Callable[[], KernelOp] | None = None,
) -> Scheduled:
    """Schedules one kernel in place. A schedule that finds a step illegal is left out, or takes its
    next plan: what was done until then is undone, and done again without it.

    Recording the steps takes about a third of the time; without it there are none in the result.
    `naive` makes the kernel as it was, of which a copy is kept otherwise.
    """
    if recorded:
        record(kernel, ())
    anew = kernel.clone().clone if naive is None or recorded else naive
    refused: dict[Schedule | Plan, str] = {}
    # A copy in front of each schedule would save the others' work where one refuses, which few do.
    while (used := _apply(kernel, target, schedules, refused)) is None:
        _restore(kernel, anew())
    reasons = [
        f"{each.name if isinstance(each, Schedule) else CONTRACTION}: {reason}"
        for each, reason in refused.items()
    ]
    return Scheduled(used, [*reasons, *_scalar_reductions(kernel)], stop_recording(kernel))


def _apply(
    kernel: KernelOp,
    target: Target,
    schedules: Sequence[Schedule],
    refused: dict[Schedule | Plan, str],
) -> list[str] | None:
    """Applies all schedules but the refused; None where another one refuses, which is noted."""
    without = {each for each in refused if not isinstance(each, Schedule)}
    simplify(kernel)
    reduces = any(loop.reduction is not None for loop in loops_in(kernel))
    used: list[str] = []
    for schedule in schedules:
        if schedule in refused or (schedule.reduces and not reduces):
            continue
        options = {"refused": without} if without and schedule.name == CONTRACTION else {}
        try:
            used += schedule.apply_all(kernel, target, **options)
        except IllegalSchedule as refusal:
            # A plan that somebody forces has no next one.
            plan = refusal.plan if isinstance(refusal, contraction.RefusedPlan) else None
            refused[schedule if plan is None or plan in without else plan] = str(refusal)
            return None
    return used


def _scalar_reductions(kernel: KernelOp) -> list[str]:
    """A line for each nest of a scheduled kernel that reduces and has no vectors at all."""
    found: list[str] = []
    for nest in child_loops(kernel):
        loops = [nest, *loops_in(nest)]
        names = [each.index.name_hint or "i" for each in loops if each.reduction is not None]
        if names and all(each.vector is None for each in loops):
            over = ", ".join(names)
            found.append(f"vectors: the reduction over {over} takes an element at a time")
    return found


def _restore(kernel: KernelOp, before: KernelOp) -> None:
    """Gives a kernel the arguments' types, the body and the record that it had."""
    if is_recorded(before):
        record(kernel, steps_of(before))
    body = before.detach_region(0)
    kernel.detach_region(0)
    kernel.add_region(body)

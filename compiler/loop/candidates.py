"""Other schedules of a kernel than the one that weft chooses, for a tuner to time.

Contractions have other plans. Other schedules take their numbers from the Target, so a kernel
scheduled for a target with other numbers gives steps that are as legal and as thought through; and
a number in the steps, changed wherever it stands, gives a neighbour, which the primitives accept or
refuse.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from msgspec.structs import replace

from weft.compiler.loop.kernel_schedule import KernelSchedule
from weft.compiler.loop.schedule_file import PLAN, apply_schedule
from weft.compiler.loop.schedules import schedule_kernel
from weft.compiler.loop.schedules.planned import explain
from weft.compiler.target.target import Target
from weft.dialects.errors import IllegalSchedule
from weft.dialects.loop.program import KernelOp

Steps = tuple[str, ...]

MOST_SIZE: Final = 512
"""Tiles are not made longer."""

MOST_PLANS: Final = 40
"""Plans of a contraction that are tried, the best ones by their costs."""

_SIZE: Final = re.compile(r"\bsize=(\d+)\b")


def target_variants(target: Target) -> Iterator[Target]:
    """The target with other numbers of registers, narrower vectors, smaller and larger caches."""
    half = max(16, target.vector_bytes // 2)
    registers = target.vector_registers
    yield replace(target, vector_bytes=half)
    yield replace(target, vector_bytes=half, vector_registers=registers // 2)
    yield replace(target, vector_registers=registers * 3 // 4)
    yield replace(target, vector_registers=registers // 2)
    for factor in (0.5, 2.0, 4.0):
        yield replace(target, l1_bytes=round(target.l1_bytes * factor))
        yield replace(target, l2_bytes=round(target.l2_bytes * factor))


def scheduled_steps(kernel: KernelOp, target: Target) -> Steps:
    """What weft does to a naive kernel for a target."""
    return schedule_kernel(kernel.clone(), target).steps


def variants(kernel: KernelOp, target: Target) -> list[Steps]:
    """The distinct schedules of a naive kernel by other plans of its contractions, the best by
    their costs first, and for variants of the target, without its own.
    """
    own = scheduled_steps(kernel, target)
    plans = [
        rated.plan
        for each in explain(kernel, target)
        for rated in each.rated[:MOST_PLANS]
        if rated.plan != each.chosen
    ]
    found: dict[Steps, None] = dict.fromkeys((f"{PLAN}{plan}",) for plan in plans)
    found |= dict.fromkeys(scheduled_steps(kernel, each) for each in target_variants(target))
    return [steps for steps in found if steps != own and is_legal(kernel, steps, target)]


def neighbours(kernel: KernelOp, steps: Steps, target: Target) -> list[Steps]:
    """Legal schedules that differ in the size of one tile, wherever its number stands."""
    sizes = dict.fromkeys(int(size) for step in steps for size in _SIZE.findall(step))
    changed = (
        _renumbered(steps, size, other) for size in sizes for other in _near(size) if other != size
    )
    return [
        each for each in dict.fromkeys(changed) if each != steps and is_legal(kernel, each, target)
    ]


def _near(size: int) -> Iterable[int]:
    return [n for n in (size // 2, size - 1, size + 1, size * 2) if 2 <= n <= MOST_SIZE]


def _renumbered(steps: Steps, old: int, new: int) -> Steps:
    """The steps with a number changed in sizes of tiles and in layouts, and not in lanes."""
    number = re.compile(rf"(?<![\w#\"])(?<!lanes=){old}(?![\w\"])")
    return tuple(number.sub(str(new), step) for step in steps)


def is_legal(kernel: KernelOp, steps: Steps, target: Target) -> bool:
    """Whether the primitives accept the steps on a naive kernel."""
    try:
        apply_schedule(kernel.clone(), KernelSchedule(kernel.sym_name.data, steps), target)
    except IllegalSchedule:
        return False
    return True

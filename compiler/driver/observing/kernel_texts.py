"""A naive kernel and the steps of its schedule -> how the kernel was made, as text: pseudocode and
what each step changes in it, the plans of its contractions, LLVM IR and assembly.
"""

from __future__ import annotations

from collections.abc import Iterator
from difflib import SequenceMatcher
from typing import Final

from msgspec import Struct
from msgspec.structs import asdict

from weft.compiler.loop.primitives.recording import steps_of
from weft.compiler.loop.pseudocode import pseudocode
from weft.compiler.loop.schedules import CONTRACTION, Scheduled
from weft.compiler.loop.schedules.gemm.choose_plan import Rated
from weft.compiler.loop.schedules.planned import Explanation, explain
from weft.compiler.machine.codegen.code_generator import Level
from weft.compiler.machine.codegen.object_code import compile_assembly
from weft.compiler.target.target import Target
from weft.dialects.loop.program import KernelOp

FORCED: Final = "forced"
"""Is among the schedules of a kernel that the options schedule."""

RUNNERS_UP: Final = 5
"""Plans that are shown beside the chosen one."""


class Edit(Struct, frozen=True, array_like=True):
    """Lines of a text, from `start` on, that others replace."""

    start: int
    removed: int
    added: tuple[str, ...]


class Step(Struct, frozen=True):
    """A call of a primitive as text, and what it changed in the pseudocode of a kernel, the last
    lines first.
    """

    call: str
    edits: tuple[Edit, ...]


class RatedPlan(Struct, frozen=True):
    """A plan of a contraction and the terms of its cost in nanoseconds, their total first; none
    for the only plan.
    """

    plan: str
    cost_ns: dict[str, float]


class Plans(Struct, frozen=True):
    """The extents of a contraction, the chosen plan, the best of the others, and of how many."""

    extents: tuple[str, ...]
    chosen: RatedPlan
    others: tuple[RatedPlan, ...]
    count: int


class KernelTexts(Struct, frozen=True):
    """How a kernel was made: pseudocode of the naive nest and the steps that change it, the plans
    of its contractions, LLVM IR and assembly.
    """

    naive: str
    steps: tuple[Step, ...]
    plans: tuple[Plans, ...]
    ir: str
    assembly: str


class ObservedSteps:
    """A naive kernel, and its pseudocode behind each step while it is scheduled, by the steps so
    far: a schedule that refuses the kernel begins anew.
    """

    def __init__(self, kernel: KernelOp):
        self.naive = kernel.clone()
        self._texts: dict[tuple[str, ...], str] = {(): pseudocode(kernel)}
        self._last: tuple[str, ...] = ()

    def look(self, kernel: KernelOp) -> None:
        """Is shown the kernel behind a step."""
        self._last = steps_of(kernel)
        self._texts[self._last] = pseudocode(kernel)

    def texts(self, scheduled: Scheduled, ir: str, target: Target, level: Level) -> KernelTexts:
        """How the kernel was made, once it is, by LLVM at a level."""
        has_plans = not {CONTRACTION, FORCED}.isdisjoint(scheduled.used)
        plans = tuple(map(plans_of, explain(self.naive, target))) if has_plans else ()
        # A plan that is forced in place of steps is made of some.
        calls = scheduled.steps if scheduled.steps in self._texts else self._last
        texts = [self._texts[calls[:number]] for number in range(len(calls) + 1)]
        steps = tuple(
            Step(call, tuple(edits_between(before, after)))
            for call, before, after in zip(calls, texts[:-1], texts[1:], strict=True)
        )
        assembly = compile_assembly(ir, target, level, comments=True)
        return KernelTexts(texts[0], steps, plans, ir, assembly)


def plans_of(each: Explanation) -> Plans:
    """The chosen plan of a contraction and the best of the others."""
    chosen = [_rated(rated) for rated in each.rated if rated.plan == each.chosen]
    others = [_rated(rated) for rated in each.rated if rated.plan != each.chosen]
    extents = tuple(str(extent) for extent in each.problem.extents)
    own = chosen[0] if chosen else RatedPlan(str(each.chosen), {})
    return Plans(extents, own, tuple(others[:RUNNERS_UP]), len(each.rated))


def _rated(rated: Rated) -> RatedPlan:
    if rated.cost is None:
        return RatedPlan(str(rated.plan), {})
    return RatedPlan(str(rated.plan), {"total": rated.cost.total, **asdict(rated.cost)})


def edits_between(before: str, after: str) -> Iterator[Edit]:
    """What makes one text the other, the last lines first: line numbers of the rest stay."""
    old, new = before.splitlines(), after.splitlines()
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    for tag, start, end, first, last in reversed(matcher.get_opcodes()):
        if tag != "equal":
            yield Edit(start, end - start, tuple(new[first:last]))

"""Schedules as text: the version, a block for each kernel, a line for each call of a primitive.

    schedules 2

    // One product: columns in panels of 32.
    @matmul_1f0c9a52 {
      tile{loop="j" size=32}
      reorder{order="jo","i","ji"}
    }

A line is the primitive's pass without `weft-` and `kernel=`. In place of primitives a contraction
may have one line with its plan, as `weft inspect --why` shows them. `//` starts a comment.

    @matmul_1f0c9a52 {
      plan column=1 row=0 panel=1 rows=8 vectors=2 lanes=16
    }
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from xdsl.utils.arg_spec import ArgSpec, parse_pipeline
from xdsl.utils.exceptions import ArgSpecParseError

from weft.compiler.loop.kernel_schedule import KernelSchedule
from weft.compiler.loop.primitive_passes import PRIMITIVE_PASSES, PrimitivePass
from weft.compiler.loop.schedules.gemm.plan import parse_plan
from weft.compiler.loop.schedules.planned import schedule_by
from weft.compiler.target.target import Target
from weft.dialects.errors import IllegalSchedule, WeftError
from weft.dialects.loop.program import KernelOp

VERSION: Final = 2
"""Raised when the names of primitives or of their parameters change; other versions are refused."""

PREFIX: Final = "weft-"
PLAN: Final = "plan "
_HEADER: Final = f"schedules {VERSION}"
_OPENING: Final = re.compile(r"@(?P<kernel>[\w.$-]+)\s*\{")
_COMMENT: Final = re.compile(r'//(?=[^"]*(?:"[^"]*"[^"]*)*$)')
_PASSES: Final = {each.name.removeprefix(PREFIX): each for each in PRIMITIVE_PASSES}


def format_schedules(schedules: Iterable[KernelSchedule]) -> str:
    """The text that `parse_schedules` reads."""
    blocks = (
        f"@{each.kernel} {{\n" + "".join(f"  {step}\n" for step in each.steps) + "}\n"
        for each in schedules
    )
    return "\n".join((f"{_HEADER}\n", *blocks))


def parse_schedules(text: str, file: str) -> tuple[KernelSchedule, ...]:
    """The schedules of a file. Raises IllegalSchedule, which names the file and the line, also for
    a file of another version.
    """
    found: dict[str, KernelSchedule] = {}
    kernel, steps = "", list[str]()
    lines = list(_lines(text, file))
    if not lines or lines[0][1] != _HEADER:
        rule = f"requires `{_HEADER}` in its first line, as `weft inspect --schedules` writes it"
        raise IllegalSchedule(f"{file}: {rule}, got {lines[0][1] if lines else 'no line'}")
    for location, line in lines[1:]:
        opening = _OPENING.fullmatch(line)
        if opening and not kernel:
            kernel, steps = opening["kernel"], []
            if kernel in found:
                raise IllegalSchedule(
                    f"{location}: requires one schedule a kernel, got @{kernel} again"
                )
        elif line == "}" and kernel:
            found[kernel] = KernelSchedule(kernel, tuple(steps))
            kernel = ""
        elif kernel:
            steps.append(_read_step(line, location))
        else:
            raise IllegalSchedule(f"{location}: requires `@KERNEL {{`, got {line!r}")
    if kernel:
        raise IllegalSchedule(f"{file}: requires a closing brace for @{kernel}")
    return tuple(found.values())


def _lines(text: str, file: str) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(text.splitlines(), 1):
        code = _COMMENT.split(line, maxsplit=1)[0].strip()
        if code:
            yield f"{file}:{number}", code


def _read_step(line: str, location: str) -> str:
    """A line as it is kept."""
    if not line.startswith(PLAN):
        return str(_parse_step(line, location))
    try:
        return f"{PLAN}{parse_plan(line.removeprefix(PLAN))}"
    except IllegalSchedule as problem:
        raise IllegalSchedule(f"{location}: {problem}") from problem


def _parse_step(line: str, location: str) -> ArgSpec:
    try:
        (step,) = parse_pipeline(line)
    except (ArgSpecParseError, ValueError) as problem:
        raise IllegalSchedule(
            f"{location}: requires PRIMITIVE{{NAME=VALUE ...}}, got {line}"
        ) from problem
    _pass_of(step, "kernel", location)
    return step


def _pass_of(step: ArgSpec, kernel: str, location: str) -> PrimitivePass:
    if step.name not in _PASSES:
        choices = ", ".join(_PASSES)
        raise IllegalSchedule(f"{location}: requires a primitive out of {choices}, got {step.name}")
    named = ArgSpec(f"{PREFIX}{step.name}", {"kernel": (kernel,), **step.parameters})
    try:
        return _PASSES[step.name].from_spec(named)
    except ValueError as problem:
        raise IllegalSchedule(f"{location}: {step}: {problem}") from problem


def apply_schedule(kernel: KernelOp, schedule: KernelSchedule, target: Target) -> None:
    """Schedules a kernel in place by these steps and nothing else, or by the plan in place of them.

    Raises IllegalSchedule, which names the kernel and the step that is refused.
    """
    for number, line in enumerate(schedule.steps, 1):
        location = f"@{schedule.kernel}, step {number}"
        try:
            if line.startswith(PLAN) and len(schedule.steps) == 1:
                schedule_by(kernel, target, parse_plan(line.removeprefix(PLAN)))
                return
            step = _pass_of(_parse_step(line, location), kernel.sym_name.data, location)
            step.schedule(kernel)
        except WeftError as refusal:
            raise IllegalSchedule(f"{location}: {line}: {refusal}") from refusal

"""Schedules that a tuner found, by kernel and target, as JSON that can be shipped with a model."""

from __future__ import annotations

import json
import warnings
from collections.abc import Container, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import asdict

from weft.compiler.loop.kernel_schedule import KernelSchedule
from weft.compiler.target.target import Target
from weft.dialects.errors import OptionError

FORMAT: Final = 3
"""Raised when the names of primitives or of their parameters change, as in schedule files."""


class Tuned(Struct, frozen=True):
    """A kernel's schedule for one target, and the milliseconds of it and of weft's own choice."""

    target: str
    kernel: str
    threads: int
    default_ms: float
    tuned_ms: float
    steps: tuple[str, ...]


class TunedWarning(UserWarning):
    """Schedules that were tuned, and that nothing uses."""


def target_key(target: Target) -> str:
    """The name of a CPU and the bits of its vectors: what a schedule is timed for. Other numbers of
    the target may become better known without making what was found for the CPU worse.
    """
    return f"{target.cpu} {8 * target.vector_bytes}"


def write_tuned(path: Path, found: Iterable[Tuned]) -> None:
    """Writes the schedules, in place of those that the file has for the same kernels; the others
    stay. Raises OptionError for a file that is something else.
    """
    known = {(each.target, each.kernel): each for each in read_tuned(path)} if path.exists() else {}
    known |= {(each.target, each.kernel): each for each in found}
    schedules = [asdict(known[key]) for key in sorted(known)]
    path.write_text(json.dumps({"format": FORMAT, "schedules": schedules}, indent=1) + "\n")


def read_tuned(path: Path) -> list[Tuned]:
    """The schedules of a file. Raises OptionError for one that cannot be read or is something
    else.
    """
    try:
        content: Any = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as problem:
        rule = "requires a file that `weft tune` wrote"
        raise OptionError(f"tuned {rule}, got {path}: {problem}") from problem
    match content:
        case {"format": int(number), "schedules": [*entries]} if number == FORMAT:
            return [_tuned(entry, path) for entry in entries]
        case _:
            rule = f"requires a file of format {FORMAT}, as this `weft tune` writes it"
            raise OptionError(f"tuned {rule}, got {path}")


def _tuned(entry: Mapping[str, Any], path: Path) -> Tuned:
    match entry:
        case {
            "target": str(target),
            "kernel": str(kernel),
            "threads": int(threads),
            "default_ms": float() | int() as default,
            "tuned_ms": float() | int() as tuned,
            "steps": [*steps],
        } if all(isinstance(step, str) for step in steps):
            return Tuned(target, kernel, threads, default, tuned, tuple(map(str, steps)))
        case _:
            raise OptionError(f"tuned requires schedules of kernels, got {entry!r} in {path}")


def tuned_for(path: Path, target: Target) -> tuple[KernelSchedule, ...]:
    """The schedules of a file for this target; a TunedWarning where it has others alone. Raises
    OptionError as `read_tuned`.
    """
    key, all_ = target_key(target), read_tuned(path)
    found = tuple(KernelSchedule(each.kernel, each.steps) for each in all_ if each.target == key)
    if all_ and not found:
        others = ", ".join(dict.fromkeys(each.target for each in all_))
        rule = f"tuned requires schedules for {key}"
        warnings.warn(f"{rule}, got {path} for {others}; weft's own are used", TunedWarning, 2)
    return found


def warn_of_others(tuned: Iterable[KernelSchedule], kernels: Container[str]) -> None:
    """Says which schedules are of no kernel of the model."""
    others = [f"@{each.kernel}" for each in tuned if each.kernel not in kernels]
    if others:
        rule = "tuned requires schedules of the model's kernels"
        warnings.warn(f"{rule}, got {', '.join(others)} too, unused", TunedWarning, 2)

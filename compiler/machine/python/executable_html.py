"""What notebooks show of an executable: its signature, and where its time or its work is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from weft.compiler import html
from weft.compiler.machine.artifact.signature import TensorSpec
from weft.compiler.machine.python.profile import Profile
from weft.compiler.machine.python.spans import operator_of

_MOST_ROWS: Final = 12


def executable_html(
    prefix: str,
    inputs: Sequence[TensorSpec],
    outputs: Sequence[TensorSpec],
    metadata: Mapping[str, Any],
    profile: Profile | None,
) -> str:
    """The signature as a table, and bars by operator: the time of the last profile, or without one
    the flops that the metadata knows.
    """
    rows = [_signature_row("input", each) for each in inputs]
    rows += [_signature_row("output", each) for each in outputs]
    parts = [
        f"<b>{html.escaped(prefix)}</b>",
        html.table(["", "name", "dtype", "shape"], rows),
        profile_html(profile) if profile is not None else _work_html(metadata),
    ]
    return f"<div>{''.join(parts)}</div>"


def _signature_row(role: str, spec: TensorSpec) -> list[object]:
    return [role, spec.name, spec.dtype, f"({', '.join(map(str, spec.dims))})"]


def profile_html(profile: Profile) -> str:
    """The median call by operator."""
    rows = profile.by_operator()
    shown = [(row.name, row.wall / 1e6, f"{row.wall / 1e6:.3g} ms") for row in rows]
    title = f"{profile.median.duration / 1e6:.4g} ms, the median of {len(profile.calls)} calls"
    return f"<div>{html.escaped(title)}</div>{html.bars(_longest(shown, 'ms'))}"


def _work_html(metadata: Mapping[str, Any]) -> str:
    """Flops by operator, where they are numbers."""
    totals: dict[str, float] = {}
    for kernel in metadata.get("kernels", ()):
        if isinstance(kernel["flops"], int):
            name = operator_of(kernel["name"])
            totals[name] = totals.get(name, 0) + kernel["flops"]
    rows = sorted(((n, f, f"{f:.3g} flop") for n, f in totals.items() if f), key=lambda r: -r[1])
    if not rows:
        return ""
    return f"<div>flops; profile(inputs) measures time</div>{html.bars(_longest(rows, 'flop'))}"


def _longest(rows: Sequence[tuple[str, float, str]], unit: str) -> list[tuple[str, float, str]]:
    """The first rows, and the rest as one."""
    rest = sum(number for _, number, _ in rows[_MOST_ROWS:])
    first = list(rows[:_MOST_ROWS])
    return (
        [*first, (f"{len(rows) - _MOST_ROWS} others", rest, f"{rest:.3g} {unit}")]
        if rest
        else first
    )

"""What of a program weft does not take, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import torch
from msgspec import Struct


class Refusal(Struct, frozen=True):
    """An operator that stays in torch: its overload, the reason, and the line of the program."""

    target: str
    reason: str
    line: str


class Report:
    """The graphs of a program, and what of them stays in torch."""

    def __init__(self) -> None:
        self.graphs = 0
        self.operators = 0
        self.refused: list[Refusal] = []

    def __str__(self) -> str:
        head = f"weft compiles {self.operators} operators in {self.graphs} graphs"
        if not self.refused:
            return f"{head}; none stays in torch"
        return f"{head}; {listed(self.refused)}"


def listed(refused: list[Refusal]) -> str:
    """Each operator with its count, its reason and a line."""
    counts = Counter((each.target, each.reason) for each in refused)
    first = {(each.target, each.reason): each.line for each in reversed(refused)}
    rows = [
        f"{target} ({count} x, at {first[target, reason]}): {reason}"
        for (target, reason), count in sorted(counts.items())
    ]
    return f"{len(refused)} stay in torch: " + "; ".join(rows)


_reports: list[Report] = []


@contextmanager
def collected() -> Generator[Report]:
    """Collects what compilations report, instead of warnings."""
    report = Report()
    _reports.append(report)
    try:
        yield report
    finally:
        _reports.remove(report)


def current() -> Report | None:
    """Where compilations report to now; None where they warn."""
    return _reports[-1] if _reports else None


def explain(model: Callable[..., Any], *inputs: Any, **named: Any) -> Report:
    """Compiles a model for these inputs, calls it once, and reports what stays in torch."""
    torch.compiler.reset()
    with collected() as report:
        torch.compile(model, backend="weft")(*inputs, **named)
    return report

"""How far a compilation is, on a terminal; nothing where standard error is no terminal."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from rich.progress import Progress

OnStage = Callable[[str, int, int], None]

_AT_ONCE: Final = 0.5
"""Seconds in which a compilation that ends shows nothing."""

_BETWEEN: Final = 0.1
"""Seconds from one look of the bar to the next in a stage."""


@contextlib.contextmanager
def stage_progress() -> Generator[OnStage]:
    """A function that shows a stage's name and how many of its steps are done."""
    if not sys.stderr.isatty():
        yield lambda stage, done, total: None
        return
    with contextlib.ExitStack() as shown:
        bar: Progress | None = None
        drawn = ""
        following = time.monotonic() + _AT_ONCE

        def show(stage: str, done: int, total: int) -> None:
            nonlocal bar, drawn, following
            if time.monotonic() < following and (bar is None or stage == drawn):
                return
            bar = bar or shown.enter_context(_bar())
            (task,) = bar.task_ids
            bar.update(task, description=stage, completed=done, total=max(total, 1))
            bar.refresh()
            drawn, following = stage, time.monotonic() + _BETWEEN

        yield show


def _bar() -> Progress:
    """A bar that is drawn when it is told to: a thread for it would keep the process from copying
    itself.
    """
    # A compilation that is quick, or out of the cache, should not wait for these.
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    parts = (TextColumn("{task.description:<10}", markup=False), BarColumn(), MofNCompleteColumn())
    made = Progress(*parts, console=Console(stderr=True), transient=True, auto_refresh=False)
    made.add_task("start", total=1)
    return made

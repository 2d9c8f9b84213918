"""How far a compilation is, on a terminal; nothing where standard error is no terminal."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Generator

OnStage = Callable[[str, int, int], None]


@contextlib.contextmanager
def stage_progress() -> Generator[OnStage]:
    """A function that shows a stage's name and how many of its steps are done."""
    if not sys.stderr.isatty():
        yield lambda stage, done, total: None
        return
    # A compilation out of the cache should not wait for these.
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (TextColumn("{task.description:<10}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("start", total=1)

        def show(stage: str, done: int, total: int) -> None:
            progress.update(task, description=stage, completed=done, total=max(total, 1))

        yield show

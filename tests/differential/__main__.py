"""python -m tests.differential: random programs against references, for as long as asked.

Exits with 1 where a program is compiled wrongly; each is shrunk and printed with what to run.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections import Counter
from dataclasses import replace

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from tests.differential.coverage import OPERATORS, Coverage
from tests.differential.judge import Failure, Outcome, judge
from tests.differential.modes import MODES
from tests.differential.program import Program
from tests.differential.session import apart, as_json, outcomes, program_of
from tests.differential.shrink import shrink

DTYPES = ("f32", "f64", "i32", "i64", "i1")


def main(arguments: list[str] | None = None) -> int:
    """Runs the command; gives its exit code."""
    options = _options(arguments)
    console = Console(stderr=options.json)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as cache:
        if not options.keep_cache:
            os.environ["WEFT_CACHE_DIR"] = cache  # nothing that another compiler left there
        coverage, failures = _run(options, console)
    if options.json:
        print(json.dumps({**coverage.data(), "failures": len(failures)}))
    else:
        _show(coverage, console)
    verdict = f"{coverage.programs} programs, {len(failures)} failures"
    console.print(Text(verdict, "bold red" if failures else "bold green"))
    return 1 if failures else 0


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m tests.differential", description=__doc__)
    parser.add_argument("--seconds", type=float, default=3600, help="how long to run (3600)")
    parser.add_argument("--seed", type=int, default=0, help="the first program's seed (0)")
    parser.add_argument(
        "--modes", type=int, default=3, help="modes in which each program is run (3)"
    )
    parser.add_argument("--first", action="store_true", help="stop at the first wrong result")
    parser.add_argument(
        "--no-shrink", action="store_true", help="print failing programs as they are"
    )
    parser.add_argument("--json", action="store_true", help="print failures and the table as JSON")
    parser.add_argument("--keep-cache", action="store_true", help="use the cache of WEFT_CACHE_DIR")
    parser.add_argument("--show", action="store_true", help="print the program of --seed, and end")
    options = parser.parse_args(arguments)
    if options.show:
        print(program_of(options.seed).text)
        sys.exit(0)
    return options


def _run(options: argparse.Namespace, console: Console) -> tuple[Coverage, list[Failure]]:
    begun, coverage, failures = time.monotonic(), Coverage(), list[Failure]()
    with Live(console=console, refresh_per_second=1, transient=True) as live:
        for seed, outcome in outcomes(options.seed, options.modes, begun + options.seconds):
            coverage.add(outcome)
            passed = time.monotonic() - begun
            live.update(
                Text(
                    f"{passed:5.0f} s  seed {seed}  {coverage.programs} programs  "
                    f"{len(failures)} failures"
                )
            )
            failures += outcome.failures
            for failure in outcome.failures[:2]:
                _report(failure, options, console, passed)
            if options.first and any(each.kind != "crash" for each in outcome.failures):
                break
    return coverage, failures


def _report(failure: Failure, options: argparse.Namespace, console: Console, passed: float) -> None:
    """Prints a failure with its program, made smaller."""
    program = program_of(failure.seed)
    if not options.no_shrink and failure.kind != "crash":
        program = shrink(program, lambda smaller: _fails(smaller, failure))
    if options.json:
        print(as_json(failure, program), flush=True)
        return
    console.print(
        Text(
            f"after {passed:.0f} s: seed {failure.seed}, {failure.mode}: {failure.kind}", "bold red"
        )
    )
    console.print(Text(f"sizes {dict(failure.sizes)}: {failure.text}"))
    console.print(Text(stand_alone(program, failure)), soft_wrap=True)  # to be copied to a file


def _fails(program: Program, failure: Failure) -> bool:
    """Whether a program fails in the same way."""
    modes = [mode for mode in MODES if mode.name == failure.mode]
    found = apart(lambda: judge(program, modes))
    return isinstance(found, Outcome) and any(
        (each.mode, each.kind) == (failure.mode, failure.kind) for each in found.failures
    )


def stand_alone(program: Program, failure: Failure) -> str:
    """A module that runs the program in the failing mode and says what is wrong."""
    shown = replace(program, text="")
    return f"""{program.text}

if __name__ == "__main__":
    from pathlib import Path

    from tests.differential.judge import judge
    from tests.differential.modes import MODES
    from tests.differential.program import Input, Program

    shown = {shown!r}
    text = Path(__file__).read_text().partition("\\n\\nif __name__")[0]
    program = Program(**{{**vars(shown), "text": text}})
    modes = [mode for mode in MODES if mode.name == {failure.mode!r}]
    print(judge(program, modes).failures)
"""


def _show(coverage: Coverage, console: Console) -> None:
    """Prints how often each operator, mode and dtype was hit."""
    table = Table("operator", *DTYPES, "other", title="results of operators in compared programs")
    for operator in sorted(OPERATORS):
        counts = [coverage.both[operator, dtype] for dtype in DTYPES]
        table.add_row(operator, *map(str, counts), str(coverage.operators[operator] - sum(counts)))
    console.print(table)
    for title, counter in (
        ("mode", coverage.modes),
        ("dtype", coverage.dtypes),
        ("refused", coverage.refused),
    ):
        console.print(_counts(title, counter))
    console.print(f"uncertain comparisons: {coverage.uncertain}")
    console.print("never hit: " + (", ".join(coverage.never()) or "none"))


def _counts(title: str, counter: Counter[str]) -> Table:
    table = Table(title, "count")
    for name, count in counter.most_common(40):
        table.add_row(Text(name), str(count))
    return table


if __name__ == "__main__":
    sys.exit(main())

"""`python -m tests.validation [--count N] [--seed S] [--json]`: changes memory plans and in-place
claims at random, and prints how many of the mutants that compute something else are refused; exits
1 where that is less than 95 %.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from tests.validation.mutants import Score, score
from tests.validation.subjects import SUBJECTS

LEAST_SHARE = 0.95


def main() -> int:
    """Tries mutants and prints a table, or JSON."""
    parser = argparse.ArgumentParser("python -m tests.validation", description=__doc__)
    parser.add_argument("--count", type=int, default=500, help="mutants (default: 500)")
    parser.add_argument("--seed", type=int, default=1, help="of the changes (default: 1)")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    arguments = parser.parse_args()
    with Progress(console=Console(stderr=True)) as progress:
        task = progress.add_task("mutants", total=arguments.count)
        found = score(
            SUBJECTS, arguments.count, arguments.seed,
            lambda done: progress.update(task, completed=done),
        )  # fmt: skip
    if arguments.json:
        print(json.dumps(asdict(found) | {"share": found.share}))
    else:
        _print(found)
    return int(found.share < LEAST_SHARE)


def _print(found: Score) -> None:
    table = Table("change", "mutants", "computing something else", "of these refused")
    for kind, made in sorted(found.made.items()):
        row = (made, found.different.get(kind, 0), found.refused.get(kind, 0))
        table.add_row(kind, *map(str, row))
    console = Console()
    console.print(table)
    for missed in found.missed:
        console.print(f"not refused: {missed}", markup=False)
    console.print(f"{found.share:.1%} refused")


if __name__ == "__main__":
    sys.exit(main())

"""What commands of the benchmarks have in common: where results go, engines, threads, rounds."""

from __future__ import annotations

import argparse
import datetime
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from weft.bench.engines import OURS
from weft.bench.rounds import ROUNDS, SECONDS

RESULTS = Path(__file__).with_name("results")


def parser_of(command: str, description: str | None, stem: str = "") -> argparse.ArgumentParser:
    """The parser of `python -m benchmarks.<command>`, which writes to a file of this day's; the
    stem is in front of its date.
    """
    parser = argparse.ArgumentParser(
        f"python -m benchmarks.{command}",
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    today = RESULTS / f"{stem}{datetime.date.today():%Y-%m-%d}.jsonl"
    parser.add_argument("--output", type=Path, default=today)
    return parser


def append_row(path: Path, row: Mapping[str, Any]) -> None:
    """Adds a line to a file of results, at once, so that a run that is broken off keeps it."""
    path.parent.mkdir(exist_ok=True)
    with path.open("a") as out:
        out.write(json.dumps(row) + "\n")


def add_rounds(parser: argparse.ArgumentParser) -> None:
    """Adds how many threads there are, and how long is measured."""
    parser.add_argument(
        "--threads", type=lambda text: [int(each) for each in text.split(",")], default=[1, 2]
    )
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of an engine in a round")


def parse_jobs(
    parser: argparse.ArgumentParser, what: str, names: Sequence[str], engines: Sequence[str]
) -> argparse.Namespace:
    """The arguments of a command whose engines measure some of these programs or networks."""
    parser.add_argument(what, nargs="*", help=", ".join(names))
    parser.add_argument(
        "--engines", type=lambda text: text.split(","), default=list(engines), help="by commas"
    )
    add_rounds(parser)
    arguments = parser.parse_args()
    unknown = set(getattr(arguments, what)) - set(names) | set(arguments.engines) - set(engines)
    if unknown or arguments.engines[:1] != [OURS]:
        parser.error(f"requires {what} and engines, {OURS} first, got {sorted(unknown)}")
    return arguments

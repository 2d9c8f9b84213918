"""Runs the array API standard's own tests on `weft.numpy`:
`python -m benchmarks.array_api FOLDER --examples 10 --out array-api.jsonl`.

FOLDER is a clone of data-apis/array-api-tests with its submodule; its tests need ndindex and
pytest-json-report. Examples are the same in every run and are not shrunk. Each test's outcome is a
line of the file `--out`; `--only` runs those again that have the outcome named, `--shard 0/2` one
half of the tests. `--summary` adds a line of counts, with what fails by what it says, to a file.
"""

from __future__ import annotations

import argparse
import collections
import datetime
import json
import os
import sys
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import Phase, settings

Row = dict[str, Any]
VERSION: Final = "2024.12"
ELEMENTS: Final = 64
"""The most elements that an array of an example has."""


class Recorder:
    """A plugin of pytest that chooses tests and writes their outcomes."""

    def __init__(self, out: Path, shard: tuple[int, int], only: frozenset[str] | None) -> None:
        self.out, self.shard, self.only = out, shard, only

    @pytest.hookimpl(trylast=True)
    def pytest_configure(self) -> None:
        """Examples are drawn, and not shrunk where they fail."""
        phases = (Phase.explicit, Phase.generate)
        settings.register_profile("weft", settings(), phases=phases, print_blob=False)
        settings.load_profile("weft")

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Leaves the tests of this run."""
        number, count = self.shard
        items[:] = [
            item for item in items[number::count] if self.only is None or item.nodeid in self.only
        ]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Writes a line."""
        if report.when != "call" and report.passed:
            return
        row = {
            "test": report.nodeid, "outcome": report.outcome,
            "seconds": round(report.duration, 2), "detail": _detail(report),
        }  # fmt: skip
        with self.out.open("a") as file:
            file.write(json.dumps(row) + "\n")


def _detail(report: pytest.TestReport) -> str:
    if report.skipped and isinstance(report.longrepr, tuple):
        return report.longrepr[2]
    lines = str(report.longrepr or "").splitlines()
    return "\n".join(line for line in lines if line.startswith(("E ", "E\t")))[:2000]


def _latest(path: Path) -> dict[str, Row]:
    """The last outcome of each test."""
    if not path.exists():
        return {}
    return {row["test"]: row for row in map(json.loads, path.open())}


def summary(rows: list[Row], examples: int) -> Row:
    """Counts of outcomes, and what fails by what it says."""
    counts = collections.Counter(row["outcome"] for row in rows)
    return {
        "suite": f"array-api-tests {VERSION}", "examples": examples,
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "tests": len(rows), "counts": dict(counts.most_common()),
        "failing": {
            row["test"]: row["detail"].replace("E  ", "").strip()[:200]
            for row in rows if row["outcome"] == "failed"
        },
    }  # fmt: skip


def main() -> None:
    """Runs the command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.array_api", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--examples", type=int, default=10, help="for each test")
    parser.add_argument("--out", type=Path, default=Path("array-api.jsonl"))
    parser.add_argument("--shard", default="0/1", help="the shard's number and how many there are")
    parser.add_argument("--only", help="an outcome")
    parser.add_argument("--match", default="", help="as pytest's -k")
    parser.add_argument("--summary", type=Path)
    arguments = parser.parse_args()
    known = _latest(arguments.out)
    only = None
    if arguments.only:
        only = frozenset(name for name, row in known.items() if row["outcome"] == arguments.only)
    number, count = map(int, arguments.shard.split("/"))
    out = arguments.out.absolute()
    os.environ |= {
        "ARRAY_API_TESTS_MODULE": "weft.numpy", "ARRAY_API_TESTS_VERSION": VERSION,
        "ARRAY_API_TESTS_MAX_ARRAY_SIZE": str(ELEMENTS),
    }  # fmt: skip
    os.chdir(arguments.folder)
    sys.path.insert(0, "")
    options = ["-q", "--no-header", "--tb=short", "-p", "no:cacheprovider", "-k", arguments.match]
    options += ["--max-examples", str(arguments.examples), "--derandomize", "--disable-deadline"]
    pytest.main([*options, "array_api_tests"], [Recorder(out, (number, count), only)])
    found = summary([*_latest(out).values()], arguments.examples)
    print(json.dumps({key: value for key, value in found.items() if key != "failing"}))
    if arguments.summary:
        with arguments.summary.open("a") as file:
            file.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()

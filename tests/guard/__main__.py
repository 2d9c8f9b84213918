"""`python -m tests.guard --seconds N --seed S`: the fuzzer with guard pages, as long as asked.

Prints each finding with what repeats it, and exits with 1 where there were any that are not known.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.guard.cases import COMPUTED, Case
from tests.guard.emulated import EMULATORS, emulated_machine
from tests.guard.known import reason_of
from tests.guard.pool import Finding, Report, run_case, run_cases
from tests.guard.process import Machine, own_machine


def main() -> int:
    parser = argparse.ArgumentParser("python -m tests.guard", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60, help="how long (default 60)")
    parser.add_argument("--seed", type=int, default=0, help="another run has other cases")
    parser.add_argument("--first", type=int, default=0, help="the number of the first case")
    parser.add_argument(
        "--target", choices=EMULATORS, help="code for this architecture, which an emulator runs"
    )
    parser.add_argument("--case", type=int, help="this case alone, in this process")
    parser.add_argument("--json", action="store_true", help="findings and counts as JSON")
    arguments = parser.parse_args()
    with TemporaryDirectory() as folder:
        machine = _machine(arguments.target, Path(folder))
        cases = (Case(number, arguments.seed, machine=machine) for number in count(arguments.first))
        if arguments.case is None:
            return fuzz(cases, arguments.seconds, as_json=arguments.json)
        report = run_case(Case(arguments.case, arguments.seed, machine=machine), print)
    print(report.finding or dict(report.outcomes))
    return 1 if report.finding else 0


def _machine(arch: str | None, folder: Path) -> Machine:
    if arch is None:
        return own_machine()
    missing = EMULATORS[arch][0].missing()
    if missing is not None:
        sys.exit(missing)
    return emulated_machine(arch, folder)


@dataclass
class Tally:
    """What reports come to."""

    cases: int = 0
    outcomes: Counter[str] = field(default_factory=Counter[str])
    known: Counter[str] = field(default_factory=Counter[str])
    computed: Counter[str] = field(default_factory=Counter[str])
    findings: list[Finding] = field(default_factory=list[Finding])

    def add(self, report: Report) -> None:
        """Counts one, and shows what it found, unless that is known."""
        self.cases += 1
        self.outcomes += report.outcomes
        self.computed[report.operators] += report.outcomes[COMPUTED]
        if report.finding is None:
            return
        reason = reason_of(report.finding)
        if reason is not None:
            self.known[reason] += 1
        else:
            self.findings.append(report.finding)
            print(report.finding, file=sys.stderr, flush=True)

    def counts(self) -> dict[str, object]:
        """Numbers by what they are of, and the operators none of whose calls gave a result."""
        return {
            "cases": self.cases,
            **self.outcomes,
            "known": dict(self.known),
            "never computed": sorted(name for name, n in self.computed.items() if not n),
            "findings": len(self.findings),
        }


def fuzz(cases: Iterator[Case], seconds: float, *, as_json: bool = False) -> int:
    """Runs cases for so long; the exit code."""
    start = shown = time.monotonic()
    tally = Tally()
    for report in run_cases(cases, seconds):
        tally.add(report)
        if time.monotonic() - shown > 30:
            shown = time.monotonic()
            passed = f"{round(shown - start)} s, {tally.cases} cases, {dict(tally.outcomes)}"
            print(f"{passed}, {len(tally.findings)} findings", file=sys.stderr, flush=True)
    if as_json:
        listed = [vars(each) for each in tally.findings]
        print(json.dumps({**tally.counts(), "list": listed}, indent=1))
    else:
        print(tally.counts())
    return 1 if tally.findings else 0


if __name__ == "__main__":
    sys.exit(main())

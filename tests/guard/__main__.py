"""`python -m tests.guard --seconds N --seed S`: the fuzzer with guard pages, as long as asked.

Prints each finding with what repeats it, and exits with 1 where there were any that are not known.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from itertools import count

from tests.guard.cases import Case
from tests.guard.known import reason_of
from tests.guard.pool import Finding, run_case, run_cases


def main() -> int:
    parser = argparse.ArgumentParser("python -m tests.guard", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60, help="how long (default 60)")
    parser.add_argument("--seed", type=int, default=0, help="another run has other cases")
    parser.add_argument("--first", type=int, default=0, help="the number of the first case")
    parser.add_argument("--case", type=int, help="this case alone, in this process")
    parser.add_argument("--json", action="store_true", help="findings and counts as JSON")
    arguments = parser.parse_args()
    if arguments.case is not None:
        report = run_case(Case(arguments.case, arguments.seed), print)
        print(report.finding or dict(report.outcomes))
        return 1 if report.finding else 0
    return fuzz(arguments.seed, arguments.first, arguments.seconds, as_json=arguments.json)


def fuzz(seed: int, first: int, seconds: float, *, as_json: bool = False) -> int:
    """Runs cases; the exit code."""
    start = shown = time.monotonic()
    findings: list[Finding] = []
    known: Counter[str] = Counter()
    outcomes: Counter[str] = Counter()
    cases = 0
    for report in run_cases((Case(number, seed) for number in count(first)), seconds):
        cases += 1
        outcomes.update({key.partition(":")[0]: n for key, n in report.outcomes.items()})
        if report.finding is not None:
            reason = reason_of(report.finding)
            if reason is not None:
                known[reason] += 1
            else:
                findings.append(report.finding)
                print(report.finding, file=sys.stderr, flush=True)
        if time.monotonic() - shown > 30:
            shown = time.monotonic()
            passed = round(shown - start)
            print(f"{passed} s, {cases} cases, {dict(outcomes)}, {len(findings)} findings",
                  file=sys.stderr, flush=True)  # fmt: skip
    counts = {"cases": cases, **outcomes, "known": dict(known), "findings": len(findings)}
    if as_json:
        print(json.dumps({**counts, "list": [vars(each) for each in findings]}, indent=1))
    else:
        print(counts)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())

"""`python -m tests.mutants [--count 1000] [--seed S] [--only N] [--json]`: what weft makes of
damaged and contradictory ONNX files, beside onnxruntime; exits 1 where it is not as promised.

What onnxruntime accepts compiles and agrees, or is refused as unsupported; all else is refused with
a short error, within limits of time and memory.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from pathlib import Path

from tests.mutants.scoring import Score, mutant_of, score


def main() -> int:
    """Prints each fault, then how often each outcome came."""
    parser = argparse.ArgumentParser("python -m tests.mutants", description=__doc__)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, default=19)
    parser.add_argument("--only", type=int, action="append", help="just this mutant")
    parser.add_argument("--write", type=Path, help="write the one mutant there, try nothing")
    parser.add_argument("--json", action="store_true", help="a line of JSON for each mutant")
    arguments = parser.parse_args()
    if arguments.write:
        arguments.write.write_bytes(mutant_of(arguments.seed, arguments.only[0])[2])
        return 0
    numbers = arguments.only or range(arguments.first, arguments.first + arguments.count)
    counts: Counter[str] = Counter()
    bad = 0
    for number in numbers:
        each = score(arguments.seed, number)
        counts[each.outcome] += 1
        bad += not each.good
        if arguments.json:
            print(json.dumps(each.as_dict()), flush=True)
        elif not each.good:
            print(_line(each), flush=True)
    said = ", ".join(f"{count} {outcome}" for outcome, count in counts.most_common())
    print(f"seed {arguments.seed}: {sum(counts.values())} mutants, {bad} faults: {said}")
    return int(bad > 0)


def _line(each: Score) -> str:
    return (
        f"{each.number} {each.model} [{each.change}] {each.outcome} ({each.seconds} s)\n"
        f"    onnxruntime: {each.onnxruntime}\n    weft: {each.weft}"
    )


if __name__ == "__main__":
    sys.exit(main())

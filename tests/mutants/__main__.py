"""`python -m tests.mutants [--count 1000] [--seed S] [--only N] [--json]`: what weft makes of
damaged and contradictory ONNX files, beside onnxruntime; exits 1 where it is not as promised.
`--sweep` tries attributes, axes or ranks of operands, of each operator in turn.

What onnxruntime accepts compiles and agrees, or is refused as unsupported; all else is refused with
a short error, within limits of time and memory.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.mutants.corpus import other_seeds, seeds
from tests.mutants.scoring import Score, mutant_of, score_file
from tests.mutants.sweeps import Mutant, mutants_of_attributes, mutants_of_axes, mutants_of_ranks

SWEEPS = {"attributes": mutants_of_attributes, "axes": mutants_of_axes, "ranks": mutants_of_ranks}


def main() -> int:
    """Prints each fault, then how often each outcome came."""
    parser = argparse.ArgumentParser("python -m tests.mutants", description=__doc__)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, default=19)
    parser.add_argument("--other", action="store_true", help="of models that are left out else")
    parser.add_argument("--sweep", choices=SWEEPS, help="all of a kind, in place of random ones")
    parser.add_argument("--only", type=int, action="append", help="just this mutant")
    parser.add_argument("--write", type=Path, help="write the one mutant there, try nothing")
    parser.add_argument("--json", action="store_true", help="a line of JSON for each mutant")
    arguments = parser.parse_args()
    if arguments.write:
        arguments.write.write_bytes(next(_mutants(arguments))[1][2])
        return 0
    counts: Counter[str] = Counter()
    bad = 0
    for number, mutant in _mutants(arguments):
        each = score_file(number, *mutant)
        counts[each.outcome] += 1
        bad += not each.good
        if arguments.json:
            print(json.dumps(each.as_dict()), flush=True)
        elif not each.good:
            print(_line(each), flush=True)
    said = ", ".join(f"{count} {outcome}" for outcome, count in counts.most_common())
    which = arguments.sweep or f"seed {arguments.seed}"
    print(f"{which}: {sum(counts.values())} mutants, {bad} faults: {said}")
    return int(bad > 0)


def _mutants(arguments: argparse.Namespace) -> Iterator[tuple[int, Mutant]]:
    """Those that are asked for, by number."""
    if not arguments.sweep:
        last = arguments.first + arguments.count
        numbers = arguments.only or range(arguments.first, last)
        models = other_seeds() if arguments.other else seeds()
        yield from ((each, mutant_of(arguments.seed, each, models)) for each in numbers)
        return
    for number, mutant in enumerate(SWEEPS[arguments.sweep]()):
        if number >= arguments.first and (not arguments.only or number in arguments.only):
            yield number, mutant


def _line(each: Score) -> str:
    return (
        f"{each.number} {each.model} [{each.change}] {each.outcome} ({each.seconds} s)\n"
        f"    onnxruntime: {each.onnxruntime}\n    weft: {each.weft}\n    onnx: {each.onnx}"
    )


if __name__ == "__main__":
    sys.exit(main())

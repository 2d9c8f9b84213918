"""`python -m benchmarks.drawn CHECKOUTS`: `weft.jit` on the drawn functions against NumPy.

`--out FILE` appends a JSON line for each and leaves out those that are there, `--only NUMBER...`
runs single ones, `--every N` a part, `--again FILE` those that were not right in a recorded run.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.drawn import inputs
from benchmarks.drawn.extract import HERE, functions

AT_ONCE, SECONDS = 20, 60


def rows() -> list[dict[str, str]]:
    """The list."""
    return [json.loads(line) for line in (HERE / "functions.jsonl").read_text().splitlines()]


def text_of(checkouts: Path, row: dict[str, str]) -> str:
    """The module that holds a function."""
    found = functions(checkouts, row["repository"], row["path"])
    return next(each.text for each in found if each.name == row["name"])


def outcome(function: Any, seed: str) -> str:
    """What becomes of a function."""
    import weft

    expected = inputs.result(function, seed)
    try:
        with inputs.limited(SECONDS):
            return inputs.close(weft.jit(function)(**inputs.arguments(function, seed)), expected)
    except weft.WeftError as error:
        return f"refused: {error}"
    except Exception as error:
        return f"error: {type(error).__name__}: {error}"


def several(checkouts: Path, numbers: Sequence[int]) -> None:
    """Prints the outcome of functions, each with its number."""
    listed = rows()
    with tempfile.TemporaryDirectory() as folder:
        for number in numbers:
            row = listed[number]
            file = Path(folder) / f"drawn_{number}.py"
            function = inputs.loaded(text_of(checkouts, row), file, row["name"])
            print(json.dumps([number, outcome(function, row["seed"])]), flush=True)


def separately(checkouts: Path, numbers: Sequence[int]) -> list[tuple[int, str]]:
    """The outcomes of functions in another process; where it ends early the last says so."""
    command = [sys.executable, "-m", "benchmarks.drawn", str(checkouts), "--here"]
    given = list(map(str, numbers))
    ended = subprocess.run([*command, *given], capture_output=True, text=True, check=False)
    found = [tuple(json.loads(line)) for line in ended.stdout.splitlines() if line[:1] == "["]
    if len(found) < len(numbers):
        found.append((numbers[len(found)], f"crash: {ended.stderr[-300:]}"))
    return found


def report(done: dict[int, str]) -> None:
    """The counts of outcomes, and of refusals and errors by their first line without names."""
    counts = Counter(re.split("[:,]", said)[0] for said in done.values())
    reasons = Counter(
        re.sub(r"\S*\.py:\d+: ", "", said.splitlines()[0])
        for said in done.values()
        if not said.startswith("right")
    )
    for reason, count in reasons.most_common():
        sys.stdout.write(f"{count:4} {reason[:200]}\n")
    right = counts["right"]
    sys.stdout.write(f"{dict(counts)}\n{right} of {len(done)}: {100 * right / len(done):.1f} %\n")


def main() -> None:
    """Runs all, or those that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkouts", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--only", type=int, nargs="*")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--again", type=Path)
    parser.add_argument("--here", type=int, nargs="*")
    options = parser.parse_args()
    if options.here:
        several(options.checkouts, options.here)
        return
    done = recorded(options.out) if options.out and options.out.exists() else {}
    wanted = options.only or range(0, len(rows()), options.every)
    if options.again:
        wanted = [n for n, said in recorded(options.again).items() if not said.startswith("right")]
    waiting = [number for number in wanted if number not in done]
    while waiting:
        for number, said in separately(options.checkouts, waiting[:AT_ONCE]):
            done[number] = said
            waiting.remove(number)
            if options.out:
                row = {"number": number, **rows()[number], "outcome": said}
                with options.out.open("a") as file:
                    file.write(json.dumps(row) + "\n")
    report(done)


def recorded(file: Path) -> dict[int, str]:
    """The outcomes of a file."""
    found = map(json.loads, file.read_text().splitlines())
    return {each["number"]: each["outcome"] for each in found}


if __name__ == "__main__":
    main()

"""The same bits for any number of threads: `python -m benchmarks.bits --artifacts DIR [CASE ...]`.

Each model runs with 1, 2 and 4 threads on its own inputs, twice each, and all outputs have to be
the same bytes. A line of the result is a model, with a digest of its outputs. Models are compiled
into the folder unless this compiler has done so; `benchmarks.run` shares them.
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import weft
from benchmarks.case import Case, Inputs
from benchmarks.models import MODELS, MORE_MODELS, find_cases
from benchmarks.options import append_row, parser_of
from benchmarks.run import prepare
from weft.compiler.machine.artifact.compiler_digest import compiler_digest
from weft.dialects.weights import Array

THREADS: Final = (1, 2, 4)
CALLS: Final = 2
"""Of each number of threads: calls that differ among themselves would pass by chance."""

Row = dict[str, Any]


def main() -> None:
    """Checks what is asked for; prints a line for each, and fails where bits differ."""
    arguments = _arguments()
    path: Path = arguments.output
    rows: list[Row] = []
    for case in find_cases(arguments.cases or [case.name for case in (*MODELS, *MORE_MODELS)]):
        rows.append(check(case, arguments.artifacts))
        append_row(path, rows[-1])
        print(shown(rows[-1]), flush=True)
    sys.exit(not all(row["same"] for row in rows))


def check(case: Case, folder: Path) -> Row:
    """The digests of a model's outputs by threads, and whether they are all the same."""
    library = prepare(case, folder).library
    digests = {str(n): sorted(digests_of(library, case.inputs(), n)) for n in THREADS}
    row: Row = {"case": case.name, "compiler": compiler_digest()[:16]}
    row |= {"when": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")}
    return row | {"digests": digests, "same": len(set().union(*digests.values())) == 1}


def digests_of(library: Path, inputs: Inputs, threads: int) -> set[str]:
    """The digests of the outputs of some calls."""
    executable = weft.load(library, threads=threads)
    return {digest(executable.run(inputs).values()) for _ in range(CALLS)}


def digest(arrays: Iterable[Array]) -> str:
    """One digest of all arrays' bytes."""
    whole = hashlib.sha256()
    for array in arrays:
        whole.update(array.tobytes())
    return whole.hexdigest()[:16]


def shown(row: Row) -> str:
    """A line of the table."""
    counts = ", ".join(row["digests"])
    return f"| {row['case']} | {'the same' if row['same'] else 'DIFFERENT'} on {counts} threads |"


def _arguments() -> argparse.Namespace:
    parser = parser_of("bits", __doc__, "bits-")
    parser.add_argument("cases", nargs="*", help="names of cases or groups, all models by default")
    parser.add_argument("--artifacts", type=Path, metavar="DIR", required=True)
    return parser.parse_args()


if __name__ == "__main__":
    main()

"""`python -m tests.exported [--exporter script|dynamo] [NAME ...]`: compares weft with onnxruntime
on exported architectures, all of them by default; exits 1 where one differs or fails.
"""

from __future__ import annotations

import argparse
import sys
import time

from tests.exported.architectures import ARCHITECTURES
from tests.exported.checking import EXPORTERS, TOLERANCE, compare


def main() -> int:
    """Prints a line for each architecture and exporter."""
    parser = argparse.ArgumentParser("python -m tests.exported", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="architectures; all by default")
    parser.add_argument("--exporter", choices=EXPORTERS, action="append")
    arguments = parser.parse_args()
    failed = 0
    for name in arguments.names or ARCHITECTURES:
        for exporter in arguments.exporter or EXPORTERS:
            start = time.perf_counter()
            try:
                difference = compare(name, exporter)
                good = difference <= TOLERANCE
                said = f"{difference:.1e}"
            except Exception as error:  # the next architecture is still to be tried
                good, said = False, f"{type(error).__name__}: {error}"
            failed += not good
            state = "ok" if good else "FAILED"
            seconds = time.perf_counter() - start
            print(f"{name:14} {exporter:7} {state:7} {seconds:5.1f} s  {said}", flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())

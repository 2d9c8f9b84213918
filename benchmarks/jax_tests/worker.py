"""A process that runs tests of one of JAX's own test files by their numbers, and writes outcomes:
`pass`, `skip`, `fail` (a comparison) or `error`.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import unittest
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def tests_of(path: Path) -> list[unittest.TestCase]:
    """The tests of a file in its order; arguments of the command line are not JAX's."""
    sys.argv = sys.argv[:1]
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None, "a test file is a module"
    assert spec.loader is not None, "a module has a loader"
    module: Any = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return list(_cases(unittest.defaultTestLoader.loadTestsFromModule(module)))


def _cases(suite: unittest.TestSuite) -> Iterator[unittest.TestCase]:
    for each in suite:
        if isinstance(each, unittest.TestSuite):
            yield from _cases(each)
        else:
            yield each


def outcome_of(test: unittest.TestCase) -> dict[str, str]:
    """What comes of a test."""
    result = unittest.TestResult()
    test.run(result)
    for name, found in (("error", result.errors), ("fail", result.failures)):
        if found:
            return {"outcome": name, "detail": _shown(found[0][1])}
    if result.skipped:
        return {"outcome": "skip", "detail": result.skipped[0][1][:200]}
    return {"outcome": "pass"}


def _shown(traceback: str) -> str:
    """The line that names the error, and what follows it."""
    lines = [line for line in traceback.splitlines() if line and not line.startswith((" ", "---"))]
    at = next((at for at, line in enumerate(lines) if "Error" in line.split(":")[0]), 0)
    return " ".join(lines[at:])[:400]


def main() -> None:
    """Runs what is asked for, until there is no more."""
    from absl import flags

    tests = tests_of(Path(sys.argv[1]))
    flags.FLAGS(sys.argv[:1])
    print(len(tests), flush=True)
    for line in sys.stdin:
        test = tests[int(line)]
        name = test.id().partition(".")[2]
        print("\n" + json.dumps({"test": name} | outcome_of(test)), flush=True)


if __name__ == "__main__":
    main()

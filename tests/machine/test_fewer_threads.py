"""Contexts where the system refuses to start threads."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import weft
from tests.small_models import dense_model, rows_of

STACK = 8 << 20
PROGRAM = f"""
import resource, sys, warnings
import numpy as np
import weft
path, x, y, stacks = sys.argv[1:]
resource.setrlimit(resource.RLIMIT_STACK, ({STACK}, resource.RLIM_INFINITY))
rows = np.load(x)
weft.load(path, threads=1)(rows)  # whatever else takes memory for the first time
pages = int(open("/proc/self/statm").read().split()[0])
room = pages * resource.getpagesize() + int(float(stacks) * {STACK})
resource.setrlimit(resource.RLIMIT_AS, (room, resource.RLIM_INFINITY))
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    model = weft.load(path, threads=16)
resource.setrlimit(resource.RLIMIT_AS, 2 * (resource.RLIM_INFINITY,))
results = [model(rows)[0] for _ in range(20)]
assert all(each.tobytes() == results[0].tobytes() for each in results)
np.save(y, results[0])
print(*(f"{{each.category.__name__}}: {{each.message}}" for each in told))
"""


@pytest.fixture(scope="module")
def dense(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("dense") / "dense.so"
    weft.compile(dense_model("rows"), prefix="dense", cache=False).export(path)
    return path


@pytest.mark.parametrize("stacks", [0.5, 4.5])
def test_context_makes_do_with_the_threads_that_could_be_started(
    dense: Path, tmp_path: Path, stacks: float
):
    """C side: a thread that cannot be had. The limit on memory leaves room for so many stacks."""
    rows = rows_of(3000)
    x, y = tmp_path / "x.npy", tmp_path / "y.npy"
    np.save(x, rows)
    arguments = [sys.executable, "-c", PROGRAM, dense, x, y, str(stacks)]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    rule = r"RuntimeWarning: dense create requires 16 threads, got (\d+): pthread_create gave 11\n"
    told = re.fullmatch(rule, done.stdout)
    assert told, done.stdout
    assert int(told[1]) == 1 if stacks < 1 else 1 < int(told[1]) <= 5
    (expected,) = weft.load(dense, threads=2)(rows)
    assert np.load(y).tobytes() == expected.tobytes()

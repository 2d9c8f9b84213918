"""Ranks that MPI starts, where mpi4py and an MPI are installed (`pip install 'weft[mpi]'`): the
examples are the same on one rank and on four.
"""
# pyright: basic

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "examples"


def launcher() -> list[str]:
    """The command that starts four ranks, of an MPI beside this interpreter or in the path. Skips
    the test, with the reason, where there is none.
    """
    if importlib.util.find_spec("mpi4py") is None:
        pytest.skip("mpi4py is not installed")
    beside = Path(sys.executable).parent / "mpiexec"
    found = str(beside) if beside.exists() else shutil.which("mpiexec")
    if found is None:
        pytest.skip("no mpiexec is installed beside this interpreter or in the path")
    version = subprocess.run([found, "--version"], capture_output=True, text=True, timeout=60)
    is_open = "Open" in version.stdout
    own = ["--allow-run-as-root", "--oversubscribe"] if is_open else []
    return [found, *own, "-n", "4"]


def losses(command: list[str], example: str, folder: Path) -> list[str]:
    paths = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"PYTHONPATH": paths, "WEFT_CACHE_DIR": str(folder / "cache")}
    done = subprocess.run(
        [*command, sys.executable, EXAMPLES / f"{example}_on_many_ranks.py"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


PROGRESS = """
import ctypes, time
import numpy as np
from mpi4py import MPI
from weft.compiler.abi.structs import COLLECTIVE
from weft.distributed.messages import CollectiveRecord
from weft.distributed.world import world

table, x = world().table, np.ones(1 << 20, np.float32)
size, stride = ctypes.c_int64(4), ctypes.c_int64(1)
sizes, strides = map(ctypes.addressof, (size, stride))
what = CollectiveRecord(
    size=COLLECTIVE.size, axes=1, count=x.size, sizes=sizes, strides=strides, tag=1
)
start, wait = (
    ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * 4)(each)
    for each in (table.start, table.wait)
)
given = table.user, ctypes.addressof(what), x.ctypes.data, x.ctypes.data
assert not start(*given)
(request,) = table.held[0]._requests.values()
deadline = time.monotonic() + 20
while request != MPI.REQUEST_NULL and time.monotonic() < deadline:
    time.sleep(0.01)
assert request == MPI.REQUEST_NULL, "a sum is done before it is waited for"
assert not wait(*given)
assert (x == 4).all()
"""


def test_a_sum_goes_on_between_its_start_and_its_end(tmp_path: Path):
    command = launcher()
    (tmp_path / "progress.py").write_text(PROGRESS)
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command += [sys.executable, str(tmp_path / "progress.py")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("example", "lines"), [("train", 6), ("pipeline", 5)])
def test_four_ranks_of_mpi_train_as_one(example: str, lines: int, tmp_path: Path):
    command = launcher()
    one, four = losses([], example, tmp_path), losses(command, example, tmp_path)
    assert len(one) == lines
    assert four == one


FAULT = """
import sys, time
import numpy as np
import weft
from weft import Mesh, P

x = np.arange(8, dtype=np.float32)
one, other = (
    weft.step(f, x, mesh=Mesh(data=2), shardings={"x": P("data")}, target="x86-64", naive=True)
    for f in (lambda x: (x * x).sum(), lambda x: x.sum())
)
assert (float(one(x)), float(other(x)), float(one(x))) == (140, 28, 140)
if weft.rank() == 1:
    other(x) if "other" in sys.argv else time.sleep(60)
one(x)
"""


@pytest.mark.parametrize("fault", ["stalls", "other program"])
def test_a_rank_that_does_not_come_ends_all_by_name(fault: str, tmp_path: Path):
    command = [*launcher()[:-1], "2", sys.executable, str(tmp_path / "fault.py"), *fault.split()]
    (tmp_path / "fault.py").write_text(FAULT)
    environment = os.environ | {"PYTHONPATH": str(ROOT), "WEFT_RANK_TIMEOUT": "0.5"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=50)
    assert done.returncode
    rule = "all_reduce requires every rank to take part in time, got none of rank"
    assert rule + (" 1" if fault == "stalls" else "") in done.stderr

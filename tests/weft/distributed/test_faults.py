"""Ranks that end, stall or run another program: the others are told which, in time, and nothing is
left behind.
"""
# pyright: basic

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import weft
from weft import Mesh, P

ROOT = Path(__file__).parents[3]
ROWS = {"x": P("data")}
X = np.arange(8, dtype=np.float32)


def total(x):
    return (x * x).sum()


def mean(x):
    return (x * x).mean()


def step_of(function):
    return weft.step(
        function, X, mesh=Mesh(data=2), shardings=ROWS, threads=1, target="x86-64", naive=True
    )


def told(action) -> str:
    """What rank 0 is told where rank 1 does something else, behind a first call of both."""

    def run():
        step = step_of(total)
        assert float(step(X)) == 140
        if weft.rank() == 1:
            return action()
        start = time.monotonic()
        with pytest.raises(weft.RankError) as raised:
            step(X)
        assert time.monotonic() - start < 10
        return str(raised.value)

    return weft.simulate(2, run, timeout=0.5)[0]


def test_a_rank_that_ends_is_named():
    assert "all_reduce requires every rank to take part in time, got none of rank 1" in told(
        lambda: None
    )


def test_a_rank_that_stalls_is_named():
    assert "got none of rank 1" in told(lambda: time.sleep(1.5))


def test_another_program_is_refused():
    """On both ranks, and before anything of it is used."""

    def run():
        step = step_of(mean if weft.rank() else total)
        with pytest.raises(weft.RankError, match=f"got another on rank {1 - weft.rank()}"):
            step(X)

    weft.simulate(2, run)


PROGRAM = """
import os, signal, sys, time
import numpy as np
import weft
from weft import Mesh, P

x = np.arange(8, dtype=np.float32)
step = weft.step(lambda x: (x * x).sum(), x, mesh=Mesh(data=2), shardings={"x": P("data")},
                 target="x86-64", naive=True)
# In one piece, for both ranks write to one pipe, perhaps unbuffered.
print(f"{float(step(x))} {os.getpid()}\\n", end="", flush=True)
if weft.rank() == 1 and "kill" in sys.argv:
    os.kill(os.getpid(), signal.SIGKILL)
if "wait" in sys.argv:
    time.sleep(60)
try:
    step(x)
except weft.RankError as error:
    print(f"{error}\\n", end="", flush=True)
    raise
"""


def launched(tmp_path: Path, *arguments: str) -> subprocess.Popen[str]:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    command = [sys.executable, "-m", "weft", "launch", "-n", "2", "--all-output"]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "WEFT_CACHE_DIR": str(tmp_path / "cache")}
    return subprocess.Popen(
        [*command, program, *arguments],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_killed_rank_ends_the_others_by_name(tmp_path: Path):
    process = launched(tmp_path, "kill")
    output, errors = process.communicate(timeout=60)
    first, second, reason, *_ = output.splitlines()
    assert {first.split()[0], second.split()[0]} == {"140.0"}
    assert "got none of rank 1" in reason
    assert process.returncode == 1
    assert "launch requires every rank to end well, got signal 9 of rank 1" in errors
    assert not any(is_alive(int(line.split()[1])) for line in (first, second))


def test_ranks_end_with_a_killed_launcher(tmp_path: Path):
    process = launched(tmp_path, "wait")
    assert process.stdout is not None
    ranks = [int(process.stdout.readline().split()[1]) for _ in range(2)]
    process.send_signal(signal.SIGKILL)
    process.wait()
    end = time.monotonic() + 10
    while any(map(is_alive, ranks)) and time.monotonic() < end:
        time.sleep(0.02)
    assert not any(map(is_alive, ranks))


def is_alive(number: int) -> bool:
    """Whether there is a process that has not ended, which one that nobody asks about stays in the
    table.
    """
    try:
        status = Path(f"/proc/{number}/stat").read_text()
    except FileNotFoundError:
        return False
    return status.rpartition(")")[2].split()[0] not in ("Z", "X")

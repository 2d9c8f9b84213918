"""What each rank did in the same call, of ranks that are processes, in one trace."""
# pyright: basic

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np

import weft
from weft import Mesh, P

ROOT = Path(__file__).parents[3]

PROGRAM = """
import numpy as np
import weft
from weft import Mesh, P
from weft.compiler.driver import pipeline

compiled = pipeline.compile_model
def counted(*arguments):
    print("compiled", flush=True)
    return compiled(*arguments)
pipeline.compile_model = counted

x = np.arange(8, dtype=np.float32)
options = {"mesh": Mesh(data=2), "shardings": {"x": P("data")}, "threads": 1}
step = weft.step(lambda x: (x * x).sum(), x, target="x86-64", naive=True, **options)
found = weft.profiles_of_ranks(step.profile(x, calls=3))
if weft.rank() == 1:
    found.save_trace("trace.json")
"""


def test_one_trace_has_the_call_of_both_processes(tmp_path: Path):
    """The last to come to a sum ends neither rank's wait before it has begun its own. One of the
    ranks has compiled what both run.
    """
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    command = [sys.executable, "-m", "weft", "launch", "-n", "2", "--all-output"]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "WEFT_CACHE_DIR": str(tmp_path / "cache")}
    done = subprocess.run(
        [*command, program], cwd=tmp_path, env=environment, check=True, timeout=120,
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.stdout.count("compiled") == 1
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    named = [event["args"]["name"] for event in events if event["name"] == "process_name"]
    assert [name.split()[-2:] for name in named] == [["rank", "0"], ["rank", "1"]]
    waits = [
        [e for e in events if e["pid"] == pid and e["name"].startswith("all_reduce")][-1]
        for pid in (1, 2)
    ]
    assert max(each["ts"] for each in waits) <= min(each["ts"] + each["dur"] for each in waits)
    assert min(event["ts"] for event in events if "ts" in event) == 0


def test_a_rank_that_is_alone_has_its_own_profile():
    x = np.ones(4, np.float32)
    profile = weft.step(lambda x: x + 1, x, threads=1, target="x86-64", naive=True).profile(
        x, calls=2
    )
    (found,) = weft.profiles_of_ranks(profile).profiles
    assert found.median == profile.median


def test_ranks_have_the_same_call_of_all():
    x = np.arange(8, dtype=np.float32)

    def run():
        made = weft.step(
            lambda x: (x * x).sum(), x, mesh=Mesh(data=2), shardings={"x": P("data")},
            threads=1, target="x86-64", naive=True,
        )  # fmt: skip
        own = made.profile(x, calls=3)
        return weft.rank(), own, weft.profiles_of_ranks(own)

    for rank, own, found in weft.simulate(2, run):
        assert found.profiles[rank].median in own.calls
        assert len(found.profiles) == 2
        assert min(found.offsets) == 0

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


@pytest.mark.parametrize(("example", "lines"), [("train", 6), ("pipeline", 5)])
def test_four_ranks_of_mpi_train_as_one(example: str, lines: int, tmp_path: Path):
    command = launcher()
    one, four = losses([], example, tmp_path), losses(command, example, tmp_path)
    assert len(one) == lines
    assert four == one

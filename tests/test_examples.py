"""Every program in examples/ runs, in an empty folder and with a cache of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs(example: Path, tmp_path: Path):
    environment = os.environ | {
        "PYTHONPATH": str(ROOT),
        "WEFT_CACHE_DIR": str(tmp_path / "cache"),
    }
    shown = subprocess.run(
        [sys.executable, example],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (shown.returncode, shown.stderr) == (0, "")
    assert shown.stdout != ""


def test_there_are_examples():
    assert len(EXAMPLES) >= 3

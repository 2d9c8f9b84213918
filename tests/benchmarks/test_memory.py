"""Memory of compiling and of running: a small model, and what counts as too much."""

import shutil

import pytest

from benchmarks.memory import build_host, is_too_much, measure_case, table
from benchmarks.models import find_cases


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_a_model_is_measured(tmp_path):
    row = measure_case(find_cases(["lenet_b1"])[0], build_host(tmp_path), 1)
    assert row["model_mb"] < row["compile_mb"] < row["model_mb"] + 700
    assert 1 < row["run_mb"] < row["onnxruntime_run_mb"] < 100
    assert not is_too_much(row)
    assert table([row]).splitlines()[-1].startswith("| lenet_b1 | 0.2 |")


def test_what_is_too_much():
    row = {"compile_mb": 790, "model_mb": 100, "run_mb": 10, "onnxruntime_run_mb": 10}
    assert not is_too_much(row)
    assert is_too_much(row | {"compile_mb": 810})
    assert is_too_much(row | {"run_mb": 11})

"""Models have the same bits on any number of threads, and bits that differ are told."""

from pathlib import Path

import numpy as np

from benchmarks.bits import check, digest, shown
from benchmarks.models import find_cases


def test_a_model_is_checked_on_1_2_and_4_threads(tmp_path: Path):
    (case,) = find_cases(["softmax_12x128x128"])
    row = check(case, tmp_path)
    assert row["same"]
    assert row["digests"].keys() == {"1", "2", "4"}
    assert shown(row) == "| softmax_12x128x128 | the same on 1, 2, 4 threads |"
    assert "DIFFERENT" in shown(row | {"same": False})


def test_digests_tell_every_bit():
    zeros = [np.zeros(3), np.zeros(2)]
    assert digest(zeros) == digest([np.zeros(3), np.zeros(2)])
    assert digest(zeros) != digest([np.zeros(3), np.array([0.0, -0.0])])

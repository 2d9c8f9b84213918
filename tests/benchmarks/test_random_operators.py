"""The random operators of the sweep: sound models, the same for a seed, and right answers."""

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import weft
from benchmarks.random_operators import Operator, random_operators
from benchmarks.sweep import family_of, middle, ratio, table
from weft.bench.rounds import TOLERANCE

SEED = 20
SAMPLE = random_operators(SEED, 8)


def test_a_seed_gives_the_same_operators():
    first, again = random_operators(SEED, 60), random_operators(SEED, 60)
    assert [each.text() for each in first] == [each.text() for each in again]
    assert first[:20] == random_operators(SEED, 20)
    assert random_operators(SEED + 1, 60) != first


def test_every_family_is_drawn_and_its_models_are_sound():
    drawn = random_operators(SEED, 150)
    assert len({each.family for each in drawn}) == 11
    for each in drawn:
        onnx.checker.check_model(each.model(), full_check=True)
    assert any(each.symbolic for each in drawn)
    assert any(each.constants for each in drawn)
    assert any(each.uniform for each in random_operators(SEED, 400))


@pytest.mark.parametrize("drawn", SAMPLE, ids=lambda each: each.text())
def test_a_sample_is_computed_right(drawn: Operator):
    model, arrays = drawn.model(), drawn.inputs()
    session = onnxruntime.InferenceSession(model.SerializeToString())
    (expected,) = session.run(None, arrays)
    (got,) = weft.compile(model, cache=False)(*arrays.values())
    scale = max(1.0, float(np.abs(expected).max()))
    assert np.abs(got - expected).max() <= TOLERANCE["float32"] * scale


def row(name: str, ours: float, peer: float) -> dict[str, Any]:
    engines = {
        "weft": {"ms": ours, "ratio": 1.0},
        "onnxruntime": {"ms": peer, "ratio": peer / ours},
    }
    return {"case": f"random_{SEED}_001_{name}", "threads": 1, "engines": engines}


def test_the_table_counts_what_is_slow_and_leaves_short_operators_apart():
    rows = [row("conv", 1.0, 0.5), row("conv", 1.0, 2.0), row("pool", 1.0, 0.7)]
    rows += [row("gemm", 0.01, 0.001), {"case": "random_1_002_gemm", "engines": {}}]
    text = table(rows)
    assert "| conv | 2 | 1.00 | 0.50 | 1 | 1 |" in text
    assert "| pool | 1 | 0.70 | 0.70 | 1 | 0 |" in text
    assert "| **all** | 3 | 0.89 | 0.50 | 2 | 1 |" in text
    assert "| under 20 us | 1 | 0.10 | 0.10 | 1 | 1 |" in text
    assert "no peer computes 1 of 5" in text
    assert family_of(rows[0]) == "conv"
    assert ratio(middle(rows[:3])) == 0.7

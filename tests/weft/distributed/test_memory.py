"""A rank has its part of the weights alone in memory: those of its stages, or its block of each.
That is so of 4.3 GB by `python -m benchmarks.ranks.memory 64 4096 model`, and `stage`.
"""
# pyright: basic

from __future__ import annotations

from benchmarks.ranks.memory import main


def test_the_measurement_runs():
    main(4, 512, "model")

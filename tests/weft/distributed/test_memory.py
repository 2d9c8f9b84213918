"""A rank of a pipeline has the weights of its stages alone in memory. The same of 4.3 GB by
`python -m benchmarks.ranks.memory 64 4096`.
"""
# pyright: basic

from __future__ import annotations

from benchmarks.ranks.memory import main


def test_two_ranks_have_half_of_the_weights_each():
    main(8, 2816)

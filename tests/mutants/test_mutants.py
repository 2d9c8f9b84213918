"""A sample of mutants of ONNX files; `python -m tests.mutants` tries as many as asked for."""

import pytest

from tests.mutants.scoring import score

SEED = 19
SAMPLE = 80
SHARDS = 4


@pytest.mark.parametrize("shard", range(SHARDS))
def test_mutants_compile_and_agree_or_are_refused(shard: int):
    faults = [
        each
        for each in (score(SEED, number) for number in range(shard, SAMPLE, SHARDS))
        if not each.good
    ]
    assert not faults, "\n".join(map(str, faults))

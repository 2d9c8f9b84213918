"""A sample of mutants of ONNX files; `python -m tests.mutants` tries as many as asked for."""

from collections.abc import Callable, Iterator
from itertools import islice

import pytest

from tests.mutants.scoring import score, score_file
from tests.mutants.sweeps import Mutant, mutants_of_attributes, mutants_of_axes, mutants_of_ranks

SEED = 19
SAMPLE = 80
SHARDS = 4
STRIDE = 71


@pytest.mark.parametrize("shard", range(SHARDS))
def test_mutants_compile_and_agree_or_are_refused(shard: int):
    faults = [
        each
        for each in (score(SEED, number) for number in range(shard, SAMPLE, SHARDS))
        if not each.good
    ]
    assert not faults, "\n".join(map(str, faults))


@pytest.mark.parametrize("sweep", [mutants_of_attributes, mutants_of_axes, mutants_of_ranks])
def test_b2_attributes_axes_and_ranks_are_as_onnx_has_them_or_refused(
    sweep: Callable[[], Iterator[Mutant]],
):
    """B2: each operator's, of which `--sweep` tries all."""
    sample = islice(sweep(), SAMPLE, None, STRIDE)
    faults = [
        each
        for each in (score_file(number, *mutant) for number, mutant in enumerate(sample))
        if not each.good
    ]
    assert not faults, "\n".join(map(str, faults))

"""onnxruntime's own operators beside onnxruntime: the samples of a family are one model, which is
compiled once.
"""
# pyright: basic

import numpy as np
import pytest

import weft
from tests.compiler.frontend import microsoft_fused, microsoft_quantised
from tests.compiler.frontend.microsoft_samples import Array, Sample, model_of
from tests.models.peer import run_onnxruntime

FAMILIES = {
    name: samples
    for module in (microsoft_fused, microsoft_quantised)
    for name, samples in module.FAMILIES.items()
}


@pytest.mark.parametrize("family", FAMILIES)
def test_operators_agree_with_onnxruntime(family: str) -> None:
    samples = FAMILIES[family]
    model, inputs = model_of(samples)
    expected = run_onnxruntime(model, inputs)
    given = weft.compile(model, threads=1)(**inputs)
    assert len(given) == len(expected) == sum(sample.outputs for sample in samples)
    owners = [sample for sample in samples for _ in range(sample.outputs)]
    for number, (sample, ours, theirs) in enumerate(zip(owners, given, expected, strict=True)):
        who = f"{sample.op_type} {dict(sample.attributes)}, result {number}"
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape), who
        compare(sample, ours, theirs, who)


def compare(sample: Sample, ours: Array, theirs: Array, who: str) -> None:
    """Floats by their tolerance; integers by their steps, and no more than one in 50 apart."""
    if ours.dtype.kind in "iub":
        apart = np.abs(ours.astype(np.int64) - theirs.astype(np.int64))
        assert apart.max(initial=0) <= sample.steps, who
        assert np.count_nonzero(apart) * 50 <= apart.size, who
    else:
        np.testing.assert_allclose(ours, theirs, sample.tolerance, sample.tolerance, err_msg=who)

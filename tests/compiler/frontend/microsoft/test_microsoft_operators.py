"""onnxruntime's own operators beside onnxruntime: the samples of a family are one model, which is
compiled once.
"""
# pyright: basic

import numpy as np
import pytest

import weft
from tests.compiler.frontend.microsoft import attention, fused, quantised, transformers
from tests.compiler.frontend.microsoft.samples import Array, Sample, model_of
from tests.models.peer import run_onnxruntime
from weft.dialects.errors import ModelError

FAMILIES = {
    name: samples
    for module in (attention, fused, quantised, transformers)
    for name, samples in module.FAMILIES.items()
}


@pytest.mark.parametrize("family", FAMILIES)
def test_operators_agree_with_onnxruntime(family: str) -> None:
    samples = FAMILIES[family]
    model, inputs = model_of(samples)
    expected = run_onnxruntime(model, inputs)
    given = weft.compile(model, threads=1)(**inputs)
    owners = [sample for sample in samples for each in sample.outputs if each != "."]
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


def test_a_norm_below_the_opset_that_has_it_agrees() -> None:
    """onnxruntime's optimiser fuses norms at any opset; other operators are refused there."""
    scale = np.linspace(0.5, 2, 4, dtype=np.float32)
    operands = {"x": np.arange(24, dtype=np.float32).reshape(2, 3, 4) ** 1.5, "scale": scale}
    sample = Sample("LayerNormalization", operands, {"epsilon": 0.01}, domain="")
    model, inputs = model_of([sample], opset=14)
    (expected,) = run_onnxruntime(model, inputs)
    (given,) = weft.compile(model, threads=1)(**inputs)
    np.testing.assert_allclose(given, expected, 1e-5, 1e-6)
    with pytest.raises(ModelError, match="requires opset 18, got opset 14"):
        weft.compile(model_of([Sample("Mish", {"x": scale}, domain="")], opset=14)[0])

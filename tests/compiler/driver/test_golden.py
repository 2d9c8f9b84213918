"""Golden inputs and outputs: the same bytes everywhere, and close to what operators compute."""

import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Block

import weft.compiler.driver.golden
from tests.models.networks import NETWORKS
from tests.support.oracle import operator
from tests.support.samples import SAMPLES
from weft.compilation import options_of
from weft.compiler.driver.golden import GoldenRun, golden_run
from weft.compiler.driver.read_model import read_model
from weft.compiler.driver.report import Report
from weft.dialects.graph import GraphOp
from weft.dialects.graph.core.evaluate import evaluate_block


def golden_of(name: str) -> GoldenRun:
    network = next(each for each in NETWORKS if each.name == name)
    options = options_of(b"", self_test=True)
    imported = read_model(network.build(), options)
    run = golden_run(imported.module, imported.weights, options, Report())
    assert run is not None
    return run


@pytest.mark.parametrize("cls", SAMPLES, ids=lambda cls: cls.name)
@settings(max_examples=3, deadline=None, suppress_health_check=list(HealthCheck), database=None)
@given(data=st.data())
def test_operators_in_float64_compute_what_they_do(cls: type[GraphOp], data: st.DataObject):
    sample = data.draw(SAMPLES[cls])
    block = Block()
    op = operator(cls, sample, block=block)
    block.add_op(ReturnOp(*op.results))
    narrow = evaluate_block(block, sample.present)
    wide = evaluate_block(block, sample.present, wide=True)
    for one, other in zip(narrow, wide, strict=True):
        assert one.shape == other.shape
        is_float = one.dtype.kind not in "biu" and "int" not in one.dtype.name
        assert other.dtype == (np.float64 if is_float else one.dtype)
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            first, second = one.astype(np.float64), other.astype(np.float64)
            finite = np.isfinite(first) & np.isfinite(second)
            scale = np.abs(first[finite]).max(initial=1e-30)
            apart = np.abs(first[finite] - second[finite]).max(initial=0.0)
        assert apart <= 0.05 * scale


def test_what_another_numpy_rounds_differently_is_not_seen(monkeypatch: pytest.MonkeyPatch):
    before = golden_of("lenet")

    def elsewhere(*arguments: object, **named: object) -> list[np.ndarray]:
        return [array * (1 + 1e-13) for array in evaluate_block(*arguments, **named)]

    monkeypatch.setattr(weft.compiler.driver.golden, "evaluate_block", elsewhere)
    after = golden_of("lenet")
    assert after.content() == before.content()
    assert after.identity() == before.identity()


def test_tokens_are_valid_places_and_every_output_has_elements():
    run = golden_of("bert")
    tokens = [array for array in run.inputs if array.dtype == np.int64]
    assert {int(value) for array in tokens for value in array.ravel()} == {0, 1}
    assert all(array.size for array in run.outputs)
    assert run.sizes == {"batch": 2, "sequence": 8}

"""Models as functions of other frameworks give the answers of ONNX Runtime."""

from pathlib import Path

import numpy as np
import pytest
from onnx import ModelProto

from benchmarks.operators import chain
from tests.models.networks import NETWORKS, Network
from tests.models.peer import run_onnxruntime
from weft.bench.engines import ENGINES
from weft.bench.session import Inputs

EAGER = ("torch", "xla")


CHAIN = chain("chain", (3, 5))


@pytest.mark.parametrize("engine", EAGER)
@pytest.mark.parametrize("network", NETWORKS, ids=lambda network: network.name)
def test_networks_answer_as_onnxruntime_does(engine: str, network: Network, tmp_path: Path):
    check(engine, network.build(), network.make_inputs(1), tmp_path)


@pytest.mark.parametrize("engine", EAGER)
def test_operands_that_are_numbers(engine: str, tmp_path: Path):
    check(engine, CHAIN.build(), CHAIN.inputs(), tmp_path)


def check(engine: str, model: ModelProto, inputs: Inputs, tmp_path: Path) -> None:
    module, function, package = ENGINES[engine]
    pytest.importorskip(package)
    load = getattr(pytest.importorskip(f"weft.bench.engines.{module}"), function)
    path = tmp_path / "model.onnx"
    path.write_bytes(model.SerializeToString())
    session = load(path, inputs, 1)
    answers = session.arrays(session.call())
    for ours, theirs in zip(answers, run_onnxruntime(model, inputs), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=2e-3, atol=2e-3 * np.abs(theirs).max())

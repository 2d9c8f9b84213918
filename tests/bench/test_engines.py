"""Models as functions of other frameworks give the answers of ONNX Runtime."""

from pathlib import Path

import numpy as np
import pytest

from compiler.bench.engines import ENGINES
from tests.models.networks import NETWORKS, Network
from tests.models.peer import run_onnxruntime

EAGER = ("torch", "xla")


@pytest.mark.parametrize("engine", EAGER)
@pytest.mark.parametrize("network", NETWORKS, ids=lambda network: network.name)
def test_networks_answer_as_onnxruntime_does(engine: str, network: Network, tmp_path: Path):
    module, function, package = ENGINES[engine]
    pytest.importorskip(package)
    load = getattr(pytest.importorskip(f"compiler.bench.engines.{module}"), function)
    model, inputs = network.build(), network.make_inputs(1)
    path = tmp_path / "model.onnx"
    path.write_bytes(model.SerializeToString())
    session = load(path, inputs, 1)
    answers = session.arrays(session.call())
    for ours, theirs in zip(answers, run_onnxruntime(model, inputs), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=2e-3, atol=2e-3 * np.abs(theirs).max())

"""The plan of a model in PyTorch's functions gives the answers of ONNX Runtime."""

from pathlib import Path

import numpy as np
import pytest

from tests.models.networks import NETWORKS, Network
from tests.models.peer import run_onnxruntime

pytest.importorskip("torch")


@pytest.mark.parametrize("network", NETWORKS, ids=lambda network: network.name)
def test_networks_answer_as_onnxruntime_does(network: Network, tmp_path: Path):
    from compiler.bench.engines.torch_engine import load_eager

    model, inputs = network.build(), network.make_inputs(1)
    path = tmp_path / "model.onnx"
    path.write_bytes(model.SerializeToString())
    session = load_eager(path, inputs, 1)
    answers = session.arrays(session.call())
    for ours, theirs in zip(answers, run_onnxruntime(model, inputs), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=2e-3, atol=2e-3 * np.abs(theirs).max())

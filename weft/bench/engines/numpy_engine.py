"""OpenBLAS through NumPy: single matrix products and nothing else."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

from weft.bench.session import Inputs, PeerLacks, Session


def load(model: Path, inputs: Inputs, threads: int, kept: Path | None = None) -> Session:
    """`np.matmul` into an array that is there, for a model that is one MatMul.

    OpenBLAS has read its number of threads from the environment, which the process started with.
    """
    loaded = onnx.load(str(model))
    nodes = loaded.graph.node
    if len(nodes) != 1 or nodes[0].op_type != "MatMul":
        raise PeerLacks("anything but one MatMul")
    arrays = dict(inputs) | {
        tensor.name: numpy_helper.to_array(tensor) for tensor in loaded.graph.initializer
    }
    x, y = (arrays[name] for name in nodes[0].input)
    out = np.matmul(x, y)
    return Session(lambda: np.matmul(x, y, out=out), lambda answer: [answer])

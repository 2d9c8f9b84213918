"""ONNX Runtime on its CPU provider."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from weft.bench.session import Inputs, Session

_ERRORS_ONLY = 3


def load(model: Path, inputs: Inputs, threads: int, kept: Path | None = None) -> Session:
    """A session with as many threads."""
    onnxruntime: Any = importlib.import_module("onnxruntime")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = _ERRORS_ONLY
    session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    given = dict(inputs)
    return Session(lambda: session.run(None, given), list)

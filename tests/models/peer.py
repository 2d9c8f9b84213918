"""onnxruntime, the engine whose answers and times weft's are compared with."""

from collections.abc import Mapping
from typing import Any

import onnxruntime
from numpy.typing import NDArray
from onnx import ModelProto

ERRORS_ONLY = 3


def run_onnxruntime(
    model: ModelProto, inputs: Mapping[str, NDArray[Any]], threads: int = 1
) -> list[NDArray[Any]]:
    """Return onnxruntime's outputs of `model`, in the model's order."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = ERRORS_ONLY
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    return session.run(None, dict(inputs))

"""OpenVINO on its CPU device, in f32 as the model is."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np

from weft.bench.session import Inputs, Session
from weft.dialects.weights import Array


def load(model: Path, inputs: Inputs, threads: int, kept: Path | None = None) -> Session:
    """A request of a model that is compiled for latency, with shapes of the inputs."""
    openvino: Any = importlib.import_module("openvino")
    core = openvino.Core()
    graph = core.read_model(str(model))
    shapes = {each.get_any_name(): inputs[each.get_any_name()].shape for each in graph.inputs}
    graph.reshape({name: list(shape) for name, shape in shapes.items()})
    settings = {
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_NUM_THREADS": threads,
        "INFERENCE_PRECISION_HINT": "f32",
    }
    request = core.compile_model(graph, "CPU", settings).create_infer_request()
    arrays = [inputs[each.get_any_name()] for each in graph.inputs]

    def call() -> Any:
        return request.infer(arrays, share_inputs=True, share_outputs=True)

    def results(answer: Any) -> list[Array]:
        return [np.array(answer[position]) for position in range(len(graph.outputs))]

    return Session(call, results)

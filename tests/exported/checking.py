"""Exports an architecture as ONNX by one of PyTorch's two exporters, and compares weft with
onnxruntime on it.
"""

from __future__ import annotations

import io
import logging
import warnings
from typing import Any

import numpy as np
import onnx
import torch

import weft
from tests.exported.architectures import ARCHITECTURES, Architecture, FirstOutput
from tests.models.peer import run_onnxruntime

EXPORTERS = ("script", "dynamo")
OPSETS = {"script": 17, "dynamo": 18}
TOLERANCE = 1e-4
EXPORTED_SIZES = {"batch": 2, "length": 12}
OTHER_SIZES = {"batch": 3, "length": 17}


def export_model(architecture: Architecture, exporter: str) -> bytes:
    """The architecture as a serialised ONNX model whose axes are named."""
    inputs = architecture.make_inputs(EXPORTED_SIZES)
    out = io.BytesIO()
    options: dict[str, Any] = {"input_names": list(inputs), "output_names": ["output"]}
    if exporter == "script":
        options |= {"dynamic_axes": {name: dict(axes) for name, axes in architecture.axes.items()}}
    else:
        shapes = tuple(dict(axes) for axes in architecture.axes.values())
        # A module whose forward takes `*values` has one parameter, the tuple of them.
        several = isinstance(architecture.module, FirstOutput)
        options |= {"dynamic_shapes": (shapes,) if several else shapes, "verbose": False}
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        logging.disable(logging.WARNING)
        try:
            made = torch.onnx.export(
                architecture.module, tuple(inputs.values()), None if exporter == "dynamo" else out,
                dynamo=exporter == "dynamo", opset_version=OPSETS[exporter], **options,
            )  # fmt: skip
        finally:
            logging.disable(logging.NOTSET)
    return out.getvalue() if made is None else made.model_proto.SerializeToString()


def compare(name: str, exporter: str) -> float:
    """The greatest difference between weft and onnxruntime, over the greatest value that the latter
    gives, at the sizes of the export and at others. Raises WeftError for what weft cannot compile.
    """
    architecture = ARCHITECTURES[name]()
    data = export_model(architecture, exporter)
    model = onnx.load_model_from_string(data)
    executable = weft.compile(model, threads=1)
    worst = 0.0
    for sizes in (EXPORTED_SIZES, OTHER_SIZES):
        inputs = {key: value.numpy() for key, value in architecture.make_inputs(sizes).items()}
        present = {value.name: inputs[value.name] for value in model.graph.input}
        (expected, *_) = run_onnxruntime(model, present)
        (given, *_) = executable(**present)
        assert given.shape == expected.shape, f"{given.shape} for {expected.shape}"
        worst = max(worst, float(np.abs(given - expected).max() / np.abs(expected).max()))
    return worst

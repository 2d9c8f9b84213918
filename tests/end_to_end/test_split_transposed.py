"""Transposed convolutions of known filters, computed as blocks of channels, against onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from benchmarks.operators import operator
from tests.models.peer import run_onnxruntime
from weft.compiler.driver.options import Options
from weft.compiler.driver.pipeline import compile_model
from weft.compiler.machine.codegen.host import host_target

CASES = {
    "taps that fill the blocks": ((2, 6, 5, 7), (6, 4, 4, 4), {"strides": [2, 2]}),
    "taps that do not": ((1, 6, 5, 7), (6, 4, 3, 5), {"strides": [2, 3], "pads": [1, 0, 0, 2]}),
    "fewer taps than steps": ((1, 3, 6, 4), (3, 2, 1, 2), {"strides": [3, 2]}),
    "groups": ((1, 6, 9), (6, 2, 4), {"strides": [2], "group": 3, "pads": [1, 1]}),
    "output padding": (
        (1, 4, 6, 6),
        (4, 4, 3, 3),
        {"strides": [2, 2], "pads": [1, 1, 1, 1], "output_padding": [1, 1]},
    ),
    "results beyond the blocks": ((1, 2, 5), (2, 2, 4), {"strides": [2], "output_padding": [1]}),
}


@pytest.mark.parametrize("name", CASES)
def test_transposed_convolution_agrees_with_onnxruntime(name: str):
    image, filters, attributes = CASES[name]
    kwargs: dict[str, Any] = dict(attributes)
    bias = filters[1] * kwargs.get("group", 1)
    out = (None,) * len(image)
    case = operator("case", "ConvTranspose", [image], out, constants=[filters, (bias,)], **kwargs)
    model, inputs = case.build(), case.inputs()
    (expected,) = run_onnxruntime(model, inputs)
    executable = compile_model(model, Options(host_target())).executable(threads=1)
    (answer,) = executable.run(inputs).values()
    np.testing.assert_allclose(answer, expected, rtol=1e-5, atol=1e-6)

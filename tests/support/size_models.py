"""Models of sizes that a call alone knows, and how many of these their programs check."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import ModelProto, parser

import weft
from tests.models.peer import run_onnxruntime
from weft.compiler.driver.named_sizes import Bound
from weft.compiler.driver.options import Options
from weft.compiler.driver.pipeline import plan_model
from weft.compiler.driver.session import Session
from weft.dialects.loop.dynamic import RequireEqualOp
from weft.dialects.loop.equal_sizes import noted_equal_sizes
from weft.dialects.loop.program import ProgramOp

Array = np.ndarray[Any, Any]


def model_of(text: str, function: str | None = None) -> ModelProto:
    """The model of a graph's text, with the nodes of a function `own.f(x, y) -> z` if need be."""
    opsets = '"" : 18, "own" : 1'
    head = f"<ir_version: 9, opset_import: [{opsets}]>"
    own = f'<domain: "own", opset_import: [{opsets}]> f (x, y) => (z) {{ {function} }}'
    return parser.parse_model(f"{head} agraph {text} {own if function else ''}")


def array(*shape: int) -> Array:
    return np.asarray(np.random.default_rng(sum(shape)).standard_normal(shape), np.float32)


def agree(model: ModelProto, *inputs: Array) -> weft.Executable:
    """Compares with onnxruntime; returns the executable."""
    run = weft.compile(model, threads=1)
    named = {value.name: x for value, x in zip(model.graph.input, inputs, strict=True)}
    for ours, theirs in zip(run(**named), run_onnxruntime(model, named), strict=True):
        np.testing.assert_allclose(ours, theirs, 1e-5, 1e-5)
    return run


PYRAMID = """(float[1, 2, h, w] x, float[2, 2, 3, 3] f)
  => (float[1, 4, p, q] y, float[1, 2, s, t] z) {
  half = Conv <strides = [2, 2], pads = [1, 1, 1, 1]> (x, f)
  scales = Constant <value = float[4] {1.0, 1.0, 2.0, 2.0}> ()
  large = Resize <mode = "nearest"> (half, , scales)
  [joined] y = Concat <axis = 1> (large, x)
  z = Add (large, x)
}"""


def checks(text: str, bounds: dict[str, tuple[int, int]] | None = None) -> int:
    """How many pairs of sizes the program of a model checks, at its start or in place."""
    known = tuple(Bound(name, *each) for name, each in (bounds or {}).items())
    module = plan_model(model_of(text), Session(Options(bounds=known))).module
    programs = [op for op in module.walk() if isinstance(op, ProgramOp)]
    first = sum(len(noted_equal_sizes(program)) for program in programs)
    return first + sum(isinstance(op, RequireEqualOp) for op in module.walk())

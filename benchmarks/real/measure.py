"""One model in a process of its own: `python -m benchmarks.real.measure MODEL INPUTS`.

In: an ONNX file and its inputs as NumPy's. Out: one line of JSON, a `Row` without its name.
"""

from __future__ import annotations

import json
import resource
import sys
import time
import traceback
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnx import numpy_helper
from onnxruntime import GraphOptimizationLevel as Level

import weft

Array = NDArray[Any]

TOLERANCE: Final = 2e-4
"""What an answer may differ, relative to the output's scale, where onnxruntime's own do not."""

HALF_TOLERANCE: Final = 2e-3
"""The same of a model that computes in float16 somewhere."""

SLACK: Final = 4.0
"""How many times onnxruntime's own error, or its noise, it may differ otherwise."""

NOISE: Final = 1e-6
"""By how much inputs and weights are changed to see what a model makes of it: one that is quantised
may turn the last bit of a number into another answer.
"""

WEIGHTS: Final = frozenset({"coefficients", "intercepts", "rho", "support_vectors"})
"""Attributes that are weights: those of linear models and of support vector machines. A label that
is the sign of a score is as sure as the score, which is a difference of two large sums.
"""

DRAWS: Final = 3
"""How often noise is drawn; the most that it changes counts."""


def measure(model: Path, inputs: dict[str, Array]) -> dict[str, Any]:
    """The outcome of compiling and running: `agrees`, `differs`, `refused`, `fails` or `crashes`;
    `peer` where onnxruntime itself does not run the model.
    """
    try:
        expected = _peer(model, inputs, Level.ORT_DISABLE_ALL)
        own = _peer(model, inputs, Level.ORT_ENABLE_ALL)
        noise = max(_noise(model, inputs, seed, expected) for seed in range(DRAWS))
    except Exception as error:  # onnxruntime's have no type in common
        return {"outcome": "peer", "said": _first_line(error)}
    row: dict[str, Any] = {}
    start = time.perf_counter()
    try:
        executable = weft.compile(model, threads=1, cache=False)
    except weft.WeftError as error:
        return {"outcome": "refused", "said": _first_line(error)}
    except Exception as error:  # a crash is a result, with its location
        return {"outcome": "crashes", "said": _location(error)}
    row |= {"compile_s": round(time.perf_counter() - start, 2), "compile_mb": round(_peak_mb())}
    try:
        given = executable(**inputs)
    except weft.WeftError as error:
        return row | {"outcome": "fails", "said": _first_line(error)}
    errors = {
        "difference": _difference(list(given), expected),
        "onnxruntime": _difference(own, expected),
        "noise": noise,
    }
    tolerance = HALF_TOLERANCE if _has_halves(model) else TOLERANCE
    others = [error for error in list(errors.values())[1:] if np.isfinite(error)]
    agrees = errors["difference"] <= max(tolerance, SLACK * max(others, default=0.0))
    rounded = {name: float(f"{error:.2g}") for name, error in errors.items()}
    return row | {"outcome": "agrees" if agrees else "differs"} | rounded


def _noise(model: Path, inputs: dict[str, Array], seed: int, expected: list[Array]) -> float:
    """What one draw of noise changes."""
    return _difference(_peer(*_changed(model, inputs, seed), Level.ORT_DISABLE_ALL), expected)


def _changed(model: Path, inputs: dict[str, Array], seed: int) -> tuple[bytes, dict[str, Array]]:
    """The model and its inputs with noise in all floats: inputs may be integers, or be rounded to
    such before anything else, and weights too. Other vectors are left, for they may be scales of
    sizes.
    """
    rng = np.random.default_rng(seed)

    def noisy(array: Array) -> Array:  # nearer to zero, for some numbers are the greatest there are
        return np.asarray(array * (1 - rng.uniform(0, NOISE, array.shape)), array.dtype)

    proto = onnx.load(model)
    attributes = [each for node in proto.graph.node for each in node.attribute]
    constants = [each.t for each in attributes if each.name == "value"]
    for tensor in (*proto.graph.initializer, *constants):
        if tensor.data_type == onnx.TensorProto.FLOAT and len(tensor.dims) > 1:
            array = noisy(numpy_helper.to_array(tensor))
            tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
    for attribute in attributes:
        if attribute.name in WEIGHTS:
            attribute.floats[:] = noisy(np.array(attribute.floats, np.float32)).tolist()
    arrays = {name: array for name, array in inputs.items() if isinstance(array, np.ndarray)}
    floats = {name: noisy(array) for name, array in arrays.items() if array.dtype.kind == "f"}
    return proto.SerializeToString(), inputs | floats


def _has_halves(model: Path) -> bool:
    """Whether a model stores numbers of 16 bits, or casts to them."""
    graph = onnx.load(model, load_external_data=False).graph
    half = onnx.TensorProto.FLOAT16
    casts = (each.i for node in graph.node if node.op_type == "Cast" for each in node.attribute)
    return half in (*(tensor.data_type for tensor in graph.initializer), *casts)


def _difference(given: list[Array], expected: list[Array]) -> float:
    """The largest over all outputs; infinite where numbers of outputs or shapes differ."""
    if len(given) != len(expected):
        return float("inf")
    return max((_apart(a, b) for a, b in zip(given, expected, strict=True)), default=0.0)


def _apart(given: Array, expected: Array) -> float:
    """Of floats relative to the output's scale, of others the share of elements that differ."""
    if given.shape != expected.shape:
        return float("inf")
    if expected.dtype.kind not in "f":
        return float(np.mean(np.asarray(given != expected))) if expected.size else 0.0
    a, b = np.asarray(given, np.float64), np.asarray(expected, np.float64)
    if not np.array_equal(np.isfinite(a), np.isfinite(b)):
        return float("inf")
    a, b = a[np.isfinite(b)], b[np.isfinite(b)]
    return float(np.abs(a - b).max() / max(np.abs(b).max(), 1e-30)) if a.size else 0.0


def _peer(model: Path | bytes, inputs: dict[str, Array], level: Level) -> list[Array]:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = level
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    named = {each.name for each in session.get_inputs()}
    answers = session.run(None, {name: array for name, array in inputs.items() if name in named})
    return [_array(answer) for answer in answers]


def _array(answer: Any) -> Array:
    """An answer as an array; of maps, one row each, in the order of their keys' first row."""
    if isinstance(answer, list) and answer and isinstance(answer[0], dict):
        return np.array([[row[key] for key in answer[0]] for row in answer])
    return np.asarray(answer)


def _peak_mb() -> float:
    """The most memory that this process, or the largest of those that it started, has had."""
    who = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return max(resource.getrusage(each).ru_maxrss for each in who) / 1024


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    said = lines[0] if lines else ""
    more = lines[1] if said.endswith(":") and len(lines) > 1 else ""
    return f"{type(error).__name__}: {said} {more}".strip()[:400]


def _location(error: BaseException) -> str:
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{_first_line(error)} ({Path(last.filename).name}:{last.lineno})"


if __name__ == "__main__":
    print(json.dumps(measure(Path(sys.argv[1]), dict(np.load(sys.argv[2], allow_pickle=False)))))

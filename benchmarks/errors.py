"""The error of float32 results against float64: `python -m benchmarks.errors [CASE ...]`.

The judge is the same model with all its floats widened to 64 bits, compiled by weft; engines that
agree with it to seven digits say that it is right. Each line of the result is a model: relative
errors (root mean square over the reference's, and greatest over the reference's greatest) of
onnxruntime, of weft, and of weft without Winograd's convolutions where it chose some, each over
several inputs: of one, the error of a few numbers, or of one that a softmax is about, is chance.
Models that are in the file already are not measured again; a table of all is printed at the end.
"""

from __future__ import annotations

import argparse
import datetime
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from math import sqrt
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnxruntime
from msgspec.structs import replace
from numpy.typing import NDArray
from onnx import AttributeProto, GraphProto, ModelProto, TensorProto, numpy_helper
from xdsl.dialects.builtin import IntegerAttr, i64

import weft
from benchmarks.case import Case, Inputs
from benchmarks.models import MODELS, MORE_MODELS, find_cases
from benchmarks.options import append_row, parser_of
from weft.compilation import compile_cached, options_of
from weft.compiler.frontend.from_graph_file import STAMP, VERSION
from weft.compiler.frontend.onnx.from_onnx import import_model
from weft.compiler.graph.passes import GRAPH_PASSES
from weft.compiler.graph.winograd import WinogradPass
from weft.dialects.context import WeftContext
from weft.dialects.graph.ops.winograd import WinogradResultOp

ALLOWED: Final = 2.0
"""Times onnxruntime's error that weft's may be."""

SAMPLES: Final = 8
"""Inputs of a model: its own, and others with its floats in another order."""

Arrays = Sequence[NDArray[Any]]
Engine = Callable[[Inputs], Arrays]
Row = dict[str, Any]


def main() -> None:
    """Measures the models that are not in the file yet; fails where one is worse than allowed."""
    arguments = _arguments()
    path: Path = arguments.output
    rows = recorded(path)
    for case in find_cases(arguments.cases or [case.name for case in (*MODELS, *MORE_MODELS)]):
        if case.name not in rows:
            rows[case.name] = measure_case(case)
            append_row(path, rows[case.name])
            print(shown(rows[case.name]), flush=True)
    print(table(list(rows.values())))
    sys.exit(any(worst_ratio(row) > ALLOWED for row in rows.values()))


def recorded(path: Path) -> dict[str, Row]:
    """The rows of a file by model, the last of each."""
    lines = path.read_text().splitlines() if path.exists() else []
    return {row["case"]: row for row in map(json.loads, lines)}


def measure_case(case: Case) -> Row:
    """One row: the errors of each engine."""
    model, samples = case.build(), samples_of(case.inputs())
    judge = weft.compile(widened(model), cache=False)
    exact = [
        list(judge.run({name: _widened(array) for name, array in inputs.items()}).values())
        for inputs in samples
    ]
    del judge
    row: Row = {"case": case.name, "samples": SAMPLES}
    row |= {"when": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")}
    makers: dict[str, Callable[[ModelProto], Engine | None]] = {
        "onnxruntime": _onnxruntime,
        "weft": _weft,
        "direct": _direct_convolutions,
    }
    for name, make in makers.items():
        engine = make(model)
        if engine is not None:
            pairs = zip(samples, exact, strict=True)
            row[name] = together([error(engine(inputs), wanted) for inputs, wanted in pairs])
    return row


def samples_of(inputs: Inputs) -> list[Inputs]:
    """The inputs, and others with floats in another order."""
    generators = [np.random.default_rng(seed) for seed in range(1, SAMPLES)]
    return [inputs] + [
        {
            name: generator.permutation(array.ravel()).reshape(array.shape)
            if array.dtype.kind == "f"
            else array
            for name, array in inputs.items()
        }
        for generator in generators
    ]


def widened(model: ModelProto) -> ModelProto:
    """The model with float64 in the place of every float32."""
    wide = ModelProto()
    wide.CopyFrom(model)
    _widen_graph(wide.graph)
    return wide


def _widen_graph(graph: GraphProto) -> None:
    for tensor in graph.initializer:
        _widen_tensor(tensor)
    for value in (*graph.input, *graph.output, *graph.value_info):
        if value.type.tensor_type.elem_type == TensorProto.FLOAT:
            value.type.tensor_type.elem_type = TensorProto.DOUBLE
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == AttributeProto.TENSOR:
                _widen_tensor(attribute.t)
            elif attribute.type == AttributeProto.GRAPH:
                _widen_graph(attribute.g)
            elif (attribute.name, attribute.i) == ("to", TensorProto.FLOAT):
                attribute.i = TensorProto.DOUBLE


def _widen_tensor(tensor: TensorProto) -> None:
    if tensor.data_type == TensorProto.FLOAT:
        array = numpy_helper.to_array(tensor).astype(np.float64)
        tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))


def _widened(array: NDArray[Any]) -> NDArray[Any]:
    return array.astype(np.float64) if array.dtype == np.float32 else array


def _onnxruntime(model: ModelProto) -> Engine:
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return lambda inputs: session.run(None, inputs)


def _weft(model: ModelProto) -> Engine:
    executable = weft.compile(model, cache=False)
    return lambda inputs: list(executable.run(inputs).values())


def _direct_convolutions(model: ModelProto) -> Engine | None:
    """weft without Winograd's convolutions; None for a model that has none."""
    imported = import_model(model)
    context = WeftContext(imported.weights)
    for graph_pass in GRAPH_PASSES:
        before = imported.module.clone()
        graph_pass().apply(context, imported.module)
        if graph_pass is WinogradPass:
            if not any(isinstance(op, WinogradResultOp) for op in imported.module.walk()):
                return None
            imported = replace(imported, module=before)
    imported.module.attributes[STAMP] = IntegerAttr(VERSION, i64)
    executable = compile_cached(imported, options_of(imported), None).executable(None)
    return lambda inputs: list(executable.run(inputs).values())


def together(errors: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The errors over all samples."""
    squares = [each["rms"] ** 2 for each in errors]
    greatest = max(each["max"] for each in errors)
    return {"rms": _digits(sqrt(sum(squares) / len(squares))), "max": _digits(greatest)}


def error(answer: Arrays, exact: Arrays) -> dict[str, float]:
    """The relative errors over all outputs of floats, each output by its own scale."""
    squares, greatest = list[float](), 0.0
    for got, wanted in zip(answer, exact, strict=True):
        if wanted.dtype.kind == "f" and wanted.size:
            difference = np.asarray(got, np.float64) - wanted
            scale = float(np.mean(wanted**2)) or 1.0
            squares.append(float(np.mean(difference**2)) / scale)
            most = float(np.abs(wanted).max()) or 1.0
            greatest = max(greatest, float(np.abs(difference).max()) / most)
    return {"rms": _digits(sqrt(float(np.mean(squares)))), "max": _digits(greatest)}


def worst_ratio(row: Row) -> float:
    """The rms error of what weft does by default over onnxruntime's."""
    return _ratio(row, "weft", "rms")


def _ratio(row: Row, engine: str, measure: str) -> float:
    return row[engine][measure] / row["onnxruntime"][measure]


def shown(row: Row) -> str:
    """A line of the table."""
    theirs = row["onnxruntime"]
    cells = [row["case"], f"{theirs['rms']:.2e}", f"{theirs['max']:.2e}"]
    for engine in ("weft", "direct"):
        has = engine in row
        cells += [f"{_ratio(row, engine, each):.2f}" if has else "" for each in ("rms", "max")]
    return f"| {' | '.join(cells)} |"


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """All rows in Markdown: onnxruntime's errors, and weft's over them."""
    engines = "weft, rms | max | direct convolutions, rms | max"
    head = f"| model | onnxruntime, rms | max | {engines} |"
    return "\n".join([head, "|---" * 7 + "|", *(shown(dict(row)) for row in rows)])


def _digits(number: float) -> float:
    return float(f"{number:.4g}")


def _arguments() -> argparse.Namespace:
    parser = parser_of("errors", __doc__, "errors-")
    parser.add_argument("cases", nargs="*", help="names of cases, all models by default")
    return parser.parse_args()


if __name__ == "__main__":
    main()

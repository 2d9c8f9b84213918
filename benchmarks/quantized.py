"""Quantised networks and products of bytes beside onnxruntime, and OpenVINO where that is
installed, in processor time of one thread or elapsed time of several.

    python -m benchmarks.quantized -o OUT.jsonl [--models FOLDER] [--only PATTERN] [--threads 1]

All run in turns in one process. Networks have random weights and are quantised by onnxruntime's
own tools; their errors are relative to the largest output of the network in f32, over a few inputs.
"""

from __future__ import annotations

import argparse
import json
import re
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any, Final

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import (
    CalibrationDataReader,
    QuantFormat,
    quantize_dynamic,
    quantize_static,
)
from onnxruntime.quantization.shape_inference import quant_pre_process

import weft
from benchmarks.case import Inputs
from benchmarks.networks import build_vit
from tests.models.convolutional import build_mobilenet_v2, build_resnet50
from tests.models.networks import bert_inputs, image_inputs
from tests.models.transformers import build_bert
from weft.bench.byte_limits import measure_byte_gops
from weft.bench.limits import touched_memory

Array = NDArray[Any]
Run = Callable[[], list[Array]]

SECONDS: Final = 0.4
"""Processor time that each side is measured for, at least."""

LEAST_ROUNDS: Final = 7
EXAMPLES: Final = 4
"""Inputs whose answers are compared with those of the network in f32."""

SIZES: Final = (256, 512, 1024, 2048, 4096)

NETWORKS: Final[Mapping[str, tuple[Callable[[], onnx.ModelProto], Callable[[int], Inputs]]]] = {
    "resnet50": (build_resnet50, image_inputs),
    "mobilenet_v2": (build_mobilenet_v2, image_inputs),
    "bert_base_128": (partial(build_bert, batch=1, sequence=128), bert_inputs),
    "vit_small": (build_vit, image_inputs),
}


class _Examples(CalibrationDataReader):
    """Gives a few inputs, each once."""

    def __init__(self, inputs: Callable[[int], Inputs]):
        self._left = [inputs(seed) for seed in range(EXAMPLES)]

    def get_next(self) -> Inputs | None:
        return self._left.pop() if self._left else None


def static(source: Path, target: Path, inputs: Callable[[int], Inputs]) -> None:
    """Unsigned activations by ranges that were measured, signed weights with a scale a channel."""
    ready = target.with_suffix(".ready")
    quant_pre_process(source, ready, skip_symbolic_shape=True)
    examples = _Examples(inputs)
    quantize_static(ready, target, examples, quant_format=QuantFormat.QDQ, per_channel=True)
    ready.unlink()


def dynamic(source: Path, target: Path, inputs: Callable[[int], Inputs]) -> None:
    """Activations by ranges that are found in each call."""
    quantize_dynamic(source, target)


FORMS: Final = {"static": static, "dynamic": dynamic}


def product(size: int) -> tuple[bytes, Inputs]:
    """MatMulInteger of a constant weight, without zero points, and its operand."""
    rng = np.random.default_rng(size)
    weight = numpy_helper.from_array(rng.integers(-127, 128, (size, size), np.int8), "w")
    value = partial(helper.make_tensor_value_info, shape=[size, size])
    graph = helper.make_graph(
        [helper.make_node("MatMulInteger", ["x", "w"], ["y"])],
        "product",
        [value("x", TensorProto.UINT8)],
        [value("y", TensorProto.INT32)],
        [weight],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])
    model.ir_version = 10
    values = rng.integers(0, 256, (size, size), np.uint8)
    memory = touched_memory(values.nbytes).view(np.uint8)  # begins with a line, as activations do
    x = memory[: values.size].reshape(values.shape)
    x[:] = values
    return model.SerializeToString(), {"x": x}


def network(name: str, form: str, folder: Path) -> tuple[Path, Path]:
    """The files of a network in f32 and quantised, made unless they are there."""
    build, inputs = NETWORKS[name]
    source, target = folder / f"{name}.onnx", folder / f"{name}_{form}.onnx"
    if not source.exists():
        onnx.save(build(), source)
    if not target.exists():
        FORMS[form](source, target, inputs)
    return source, target


def onnxruntime_run(model: bytes | Path, threads: int) -> Callable[[Inputs], list[Array]]:
    """A model in onnxruntime."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return lambda inputs: list(session.run(None, inputs))


def openvino_run(model: Path, threads: int) -> Callable[[Inputs], list[Array]]:
    """A model in OpenVINO. What is not quantised is computed in f32: in bf16, which
    is the default on processors that have it, these networks are refused.
    """
    import openvino

    options = {"NUM_STREAMS": 1, "INFERENCE_PRECISION_HINT": "f32"}
    options["INFERENCE_NUM_THREADS"] = threads
    compiled = openvino.Core().compile_model(model, "CPU", options)
    request = compiled.create_infer_request()
    return lambda inputs: [np.array(each) for each in request.infer(dict(inputs)).values()]


def peers(model: Path, threads: int) -> dict[str, Callable[[Inputs], list[Array]]]:
    """A model in each engine that is there."""
    found = {"onnxruntime": onnxruntime_run(model, threads)}
    if find_spec("openvino") is not None:
        found["openvino"] = openvino_run(model, threads)
    return found


def in_turns(runs: Mapping[str, Run], threads: int) -> dict[str, float]:
    """Milliseconds of each call, the medians of rounds that alternate."""
    clock = time.process_time if threads == 1 else time.perf_counter
    spent: dict[str, list[float]] = {name: [] for name in runs}
    for run in runs.values():
        run()
    while min(map(len, spent.values())) < LEAST_ROUNDS or min(map(sum, spent.values())) < SECONDS:
        for name, run in runs.items():
            start = clock()
            run()
            spent[name].append(clock() - start)
    return {name: median(times) * 1e3 for name, times in spent.items()}


def measure_product(size: int, threads: int) -> dict[str, Any]:
    """The row of a product, whose sums are exact."""
    model, inputs = product(size)
    executable, other = weft.compile(model, threads=threads), onnxruntime_run(model, threads)
    (given,), (theirs,) = executable(**inputs), other(inputs)
    times = in_turns(
        {
            "weft": lambda: list(executable.run(inputs).values()),
            "onnxruntime": lambda: other(inputs),
        },
        threads,
    )
    return {
        **times,
        "weft_gops": 2e-6 * size**3 / times["weft"],
        "peak_gops": measure_byte_gops(threads),
        "same": bool((given == theirs).all()),
    }


def measure_network(name: str, form: str, folder: Path, threads: int) -> dict[str, Any]:
    """The row of a network: times, and errors beside those of onnxruntime."""
    plain, quantised = network(name, form, folder)
    executable = weft.compile(quantised, threads=threads)
    engines = {"weft": lambda inputs: list(executable.run(inputs).values())}
    engines |= peers(quantised, threads)
    examples = [NETWORKS[name][1](seed) for seed in range(EXAMPLES)]
    exact, answers = onnxruntime_run(plain, threads), {}
    wanted = np.stack([exact(example)[0] for example in examples])
    for engine, run in engines.items():
        answers[engine] = np.stack([run(example)[0] for example in examples])
    times = in_turns(
        {engine: partial(run, examples[0]) for engine, run in engines.items()}, threads
    )
    return {**times, **_agreement(wanted, answers)}


def _agreement(wanted: Array, answers: Mapping[str, Array]) -> dict[str, Any]:
    """Errors, and how often the greatest output is that of the network in f32."""
    row: dict[str, Any] = {}
    size = np.abs(wanted).max()
    for engine, each in answers.items():
        row[f"{engine}_error"] = float(np.abs(each - wanted).max() / size)
        row[f"{engine}_argmax"] = float((each.argmax(-1) == wanted.argmax(-1)).mean())
    apart = np.abs(answers["weft"] - answers["onnxruntime"]).max() / size
    return {**row, "apart": float(apart)}


def cases(folder: Path, threads: int) -> Iterator[tuple[str, Callable[[], dict[str, Any]]]]:
    """All rows by name."""
    for size in SIZES:
        yield f"product_{size}", partial(measure_product, size, threads)
    for name in NETWORKS:
        for form in FORMS:
            yield f"{name}_{form}", partial(measure_network, name, form, folder, threads)


def main() -> None:
    """Measures and prints a row a line, which also goes to a file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--models", type=Path, help="where networks are kept between runs")
    parser.add_argument("--only", default="", help="a regular expression that names match")
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = arguments.models or Path(scratch)
        for name, measure in cases(folder, arguments.threads):
            if not re.search(arguments.only, name):
                continue
            row = measure()
            best = min(row[engine] for engine in ("onnxruntime", "openvino") if engine in row)
            ratio = best / row["weft"]
            line = json.dumps(
                {"case": name, "threads": arguments.threads, "ratio": round(ratio, 3), **row}
            )
            print(line, flush=True)
            with arguments.output.open("a") as file:
                file.write(f"{line}\n")


if __name__ == "__main__":
    main()

"""Quantised networks and products of bytes beside onnxruntime, and OpenVINO where that is
installed, in processor time of one thread or elapsed time of several.

    python -m benchmarks.quantized -o OUT.jsonl [--models FOLDER] [--only PATTERN] [--threads 1]

All run in turns in one process; products, and those of a prompt with weights of 4 bits in blocks of
32, with loops of their instructions, whose operands L1 has. Networks have random weights and are
quantised by onnxruntime's own tools; their errors are relative to the largest output of the network
in f32, over a few inputs.
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
from weft.bench.byte_limits import Limit, bf16_limit, block_limit, byte_limit
from weft.bench.limits import MultiplyAdds, touched_memory
from weft.bench.rounds import choose_cores
from weft.compiler.machine.codegen.host import host_target

Array = NDArray[Any]
Run = Callable[[], list[Array]]

SECONDS: Final = 0.4
"""Time that weft is measured for, at least."""

LEAST_ROUNDS: Final = 7
SPINNING: Final = 0.03
"""Seconds in front of a call of several threads, while those of the one before may still spin."""

EXAMPLES: Final = 4
"""Inputs whose answers are compared with those of the network in f32."""

SIZES: Final = (256, 384, 512, 768, 1024, 2048, 4096)

PROMPTS: Final = {128: (4096, 4096), 1024: (1024, 4096)}
"""Rows of a prompt's products, with their terms and columns."""

BLOCK: Final = 32

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
    while len(spent["weft"]) < LEAST_ROUNDS or sum(spent["weft"]) < SECONDS:
        for name, run in runs.items():
            if threads > 1:
                time.sleep(SPINNING)
            start = clock()
            run()
            spent[name].append(clock() - start)
    return {name: median(times) * 1e3 for name, times in spent.items()}


def measure_product(size: int, threads: int) -> dict[str, Any]:
    """The row of a product, whose sums are exact: of the loops `tile` stores its sums as well."""
    model, inputs = product(size)
    return _in_turns_with_limits(
        weft.compile(model, threads=threads),
        onnxruntime_run(model, threads),
        inputs,
        2 * size**3,
        {"registers": byte_limit(threads), "tile": byte_limit(threads, size)},
    )


def prompt(rows: int, activations: str) -> tuple[bytes, Inputs]:
    """MatMulNBits of a constant weight of 4 bits, and the rows of a prompt."""
    depth, columns = PROMPTS[rows]
    rng = np.random.default_rng(rows)
    codes = rng.integers(0, 256, (columns, depth // BLOCK, BLOCK // 2), np.uint8)
    scales = rng.uniform(0.5, 1.5, (columns * depth // BLOCK,)) / depth**0.5
    scales = scales.astype(np.float16).astype(np.float32)
    weights = [numpy_helper.from_array(each, name) for each, name in ((codes, "w"), (scales, "s"))]
    sizes = {"K": depth, "N": columns, "bits": 4, "block_size": BLOCK}
    sizes["accuracy_level"] = 4 if activations == "int8" else 0
    node = helper.make_node("MatMulNBits", ["x", "w", "s"], ["y"], domain="com.microsoft", **sizes)
    value = helper.make_tensor_value_info
    shapes = [value("x", TensorProto.FLOAT, [rows, depth])]
    results = [value("y", TensorProto.FLOAT, [rows, columns])]
    graph = helper.make_graph([node], "prompt", shapes, results, weights)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    return model.SerializeToString(), {"x": rng.standard_normal((rows, depth), np.float32)}


def measure_prompt(rows: int, activations: str, threads: int) -> dict[str, Any]:
    """The row of a prompt's product: `lanes` is a loop of blocks of bytes, `tiles` of bf16."""
    model, inputs = prompt(rows, activations)
    limits = {"lanes": block_limit(threads), "multiply_adds": multiply_add_limit(threads)}
    if host_target().has_matrix_products(2):
        limits["tiles"] = bf16_limit(threads)
    return _in_turns_with_limits(
        weft.compile(model, threads=threads),
        onnxruntime_run(model, threads),
        inputs,
        2 * rows * int(np.prod(PROMPTS[rows])),
        limits,
    )


def multiply_add_limit(threads: int) -> Limit:
    """The loop of multiply-adds of floats."""
    job = MultiplyAdds(choose_cores(threads))
    return Limit(job.load().call, job.operations, threads)


def _in_turns_with_limits(
    executable: weft.Executable,
    other: Callable[[Inputs], list[Array]],
    inputs: Inputs,
    operations: int,
    limits: Mapping[str, Limit],
) -> dict[str, Any]:
    """Milliseconds of a product in turns with loops, and its shares of their rates."""
    (given,), (theirs,) = executable(**inputs), other(inputs)
    runs: dict[str, Run] = {
        "weft": lambda: list(executable.run(inputs).values()),
        "onnxruntime": lambda: other(inputs),
    }
    loops: dict[str, Run] = {name: lambda each=each: [each.run()] for name, each in limits.items()}
    times = in_turns(runs | loops, limits[next(iter(limits))].threads)
    rates = {name: limit.operations / times.pop(name) * 1e-6 for name, limit in limits.items()}
    gops = operations / times["weft"] * 1e-6
    shares = {f"share_of_{name}": gops / rate for name, rate in rates.items()}
    apart = float(np.abs(given - theirs).max() / max(1e-30, np.abs(theirs).max()))
    return {**times, "weft_gops": gops, **rates, **shares, "apart": apart}


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
    for rows in PROMPTS:
        for activations in ("int8", "float"):
            name = f"prompt_{rows}_{activations}"
            yield name, partial(measure_prompt, rows, activations, threads)
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

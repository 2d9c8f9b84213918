"""Real architectures with seeded random weights, small ones for tests and full-size ones to time.

Weights depend on the seed and their names alone, see `weft.cli.demo_model.uniform`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import ModelProto

from tests.models.convolutional import (
    build_lenet,
    build_mobilenet_v2,
    build_resnet18,
    build_resnet50,
)
from tests.models.graph_writer import Dim, GraphWriter
from tests.models.transformers import build_bert, build_gpt2
from weft.cli.demo_model import seeded_image, uniform

Inputs = dict[str, NDArray[Any]]
BERT_VOCABULARY = 30522
GPT2_VOCABULARY = 50257
SMALL_VOCABULARY = 1000


@dataclass(frozen=True)
class Network:
    """A model of one size: `build()` makes it, `make_inputs(seed)` the arrays to run it on."""

    name: str
    build: Callable[[], ModelProto]
    make_inputs: Callable[[int], Inputs]


def build_mlp(batch: Dim = 1, seed: int = 1) -> ModelProto:
    """784-512-512-10 perceptron: image (batch, 1, 28, 28) -> logits (batch, 10)."""
    net = GraphWriter("mlp", seed)
    x = net.op("Flatten", net.input("image", (batch, 1, 28, 28)), axis=1, path="flatten")
    x = net.op("Relu", net.dense(x, "fc1", 784, 512), path="fc1")
    x = net.op("Relu", net.dense(x, "fc2", 512, 512, gain=2.0), path="fc2")
    net.output(net.dense(x, "fc3", 512, 10, gain=2.0), "logits", (batch, 10))
    return net.model


def image_inputs(seed: int, batch: int = 1, channels: int = 3, size: int = 224) -> Inputs:
    """Return {"image": (batch, channels, size, size)}, other images for other seeds."""
    return {"image": seeded_image((batch, channels, size, size), seed)}


def bert_inputs(
    seed: int, batch: int = 1, sequence: int = 128, vocabulary: int = BERT_VOCABULARY
) -> Inputs:
    """Return ids in two segments, the later batch entries ever more masked at their end."""
    places = np.arange(sequence)
    lengths = sequence - np.arange(batch)[:, None] * (sequence // (4 * batch))
    second = np.broadcast_to(places >= sequence // 2, (batch, sequence))
    return {
        "input_ids": _token_ids(seed, (batch, sequence), vocabulary),
        "attention_mask": (places < lengths).astype(np.int64),
        "token_type_ids": second.astype(np.int64),
    }


def gpt2_inputs(
    seed: int, batch: int = 1, sequence: int = 128, vocabulary: int = GPT2_VOCABULARY
) -> Inputs:
    """Return {"input_ids": (batch, sequence)}."""
    return {"input_ids": _token_ids(seed, (batch, sequence), vocabulary)}


def save_external(model: ModelProto, folder: Path) -> Path:
    """Write `folder`/model.onnx, its large weights in weights.bin beside it; return its path."""
    path = folder / "model.onnx"
    emptied = ModelProto()
    emptied.CopyFrom(model)  # saving moves the weights out of the model that it is given
    onnx.save_model(
        emptied, path, save_as_external_data=True, location="weights.bin", size_threshold=1024
    )
    return path


def _token_ids(seed: int, shape: tuple[int, ...], vocabulary: int) -> NDArray[np.int64]:
    fraction = (uniform(prod(shape), seed, "token ids").reshape(shape) + 1.0) / 2.0
    return (fraction * vocabulary).astype(np.int64)


_SMALL_TRANSFORMER = {"layers": 2, "hidden": 128, "heads": 4, "vocabulary": SMALL_VOCABULARY}

NETWORKS = (
    Network(
        "mlp", partial(build_mlp, "batch"), partial(image_inputs, batch=3, channels=1, size=28)
    ),
    Network("lenet", build_lenet, partial(image_inputs, channels=1, size=28)),
    Network("resnet18", partial(build_resnet18, size=64), partial(image_inputs, size=64)),
    Network("mobilenet_v2", partial(build_mobilenet_v2, size=64), partial(image_inputs, size=64)),
    Network(
        "bert",
        partial(build_bert, **_SMALL_TRANSFORMER),
        partial(bert_inputs, batch=2, sequence=20, vocabulary=SMALL_VOCABULARY),
    ),
    Network(
        "bert_spelled_out",
        partial(build_bert, **_SMALL_TRANSFORMER, spelled_out=True),
        partial(bert_inputs, batch=2, sequence=20, vocabulary=SMALL_VOCABULARY),
    ),
    Network(
        "gpt2",
        partial(build_gpt2, **_SMALL_TRANSFORMER, context=64),
        partial(gpt2_inputs, batch=2, sequence=20, vocabulary=SMALL_VOCABULARY),
    ),
)
"""The sizes that tests compile; batch and sequence of mlp, bert and gpt2 are symbolic."""

FULL_SIZE = (
    Network("resnet18", build_resnet18, image_inputs),
    Network("resnet50", build_resnet50, image_inputs),
    Network("mobilenet_v2", build_mobilenet_v2, image_inputs),
    Network("bert_base", build_bert, bert_inputs),
    Network("gpt2", build_gpt2, gpt2_inputs),
)
"""The sizes that benchmarks time: images of 224 x 224, sequences of 128 tokens."""

"""The network of `weft demo`: a graph of the onnx package with seeded random weights.

The nine `light` graphs that the onnx package carries have real architectures, but nearly every
weight in them is 0.02, so a compiler that permutes channels or packs weights wrongly still answers
rightly. `with_random_weights` mends this. Every number here is made from integers and correctly
rounded products, hence the same bits on every machine and with every version of NumPy: an answer
that was stored once can be compared with anywhere.
"""

from math import prod
from pathlib import Path
from zlib import crc32

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import ModelProto, TensorProto

from weft.cli.weight_scales import Spread, weight_spreads
from weft.dialects.errors import ModelError

Float32Array = NDArray[np.float32]

LIGHT_FOLDER = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
REFERENCE = Path(__file__).with_name("demo_reference.npz")
DEMO_NETWORK = "squeezenet"
DEMO_SEED = 1
BLOCK = 1 << 16
"""Elements that are made at a time: few enough to stay in a core's cache between two steps."""
PATCHES = 7
"""Patches along each side of a seeded image."""


def load_light(name: str) -> ModelProto:
    """Return the onnx package's light graph `name`, as in "squeezenet"; raises ModelError."""
    path = LIGHT_FOLDER / f"light_{name}.onnx"
    if not path.is_file():
        raise ModelError(
            f"{name} requires the light models of the onnx package, got no file {path}"
        )
    return ModelProto.FromString(path.read_bytes())


def demo_model() -> ModelProto:
    """Return the network that `weft demo` compiles, with its weights."""
    return with_random_weights(load_light(DEMO_NETWORK), DEMO_SEED)


def demo_input() -> Float32Array:
    """Return the (1, 3, 224, 224) image that `demo_reference` belongs to."""
    return seeded_image((1, 3, 224, 224), DEMO_SEED)


def demo_reference() -> Float32Array:
    """Return onnxruntime's stored answer to `demo_input`, of shape (1, 1000, 1, 1)."""
    with np.load(REFERENCE) as stored:
        return stored["output"]


def uniform(count: int, seed: int, name: str) -> Float32Array:
    """Return `count` values in [-1, 1) that depend on `seed`, `name` and their index alone."""
    values = np.empty(count, np.float32)
    key = np.uint32(crc32(f"{seed} {name}".encode()))
    for start in range(0, count, BLOCK):
        block = values[start : start + BLOCK]
        bits = _scrambled(np.arange(start, start + block.size, dtype=np.uint32), key)
        np.multiply(
            (bits >> np.uint32(8)).astype(np.int32) - (1 << 23), np.float32(2.0**-23), out=block
        )
    return values


def seeded_image(shape: tuple[int, int, int, int], seed: int) -> Float32Array:
    """Return an image of `shape` (batch, channels, rows, columns) with values in [-2, 2).

    Coarse patches lie under fine noise. Noise alone would average out: a network could not tell it
    from its own pixels in another order.
    """
    batch, channels, rows, columns = shape
    patches = uniform(batch * channels * PATCHES**2, seed, "patches").reshape(
        batch, channels, PATCHES, PATCHES
    )
    row_patch = np.arange(rows) * PATCHES // rows
    column_patch = np.arange(columns) * PATCHES // columns
    noise = uniform(batch * channels * rows * columns, seed, "noise").reshape(shape)
    image = patches[:, :, row_patch[:, None], column_patch] * np.float32(1.5)
    image += noise * np.float32(0.5)
    return image


def with_random_weights(model: ModelProto, seed: int) -> ModelProto:
    """Return the graph of `model` with every float weight replaced by `seed`'s random values.

    Weights are initialisers and ConstantOfShape nodes of known shape; both become initialisers that
    callers can't override. Their spreads keep the activations' scale through the depth, and the
    last softmax away from saturation.
    """
    spreads = weight_spreads(model.graph)
    nodes = [node for node in model.graph.node if node.output[0] not in spreads]
    read = {name for node in nodes for name in node.input} - spreads.keys()
    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    inputs = [value for value in model.graph.input if value.name not in constants]
    randomised = ModelProto()
    randomised.CopyFrom(model)
    randomised.ir_version = max(model.ir_version, 4)  # from here on initialisers need not be inputs
    graph = randomised.graph
    del graph.node[:], graph.initializer[:], graph.input[:]
    graph.node.extend(nodes)
    graph.input.extend(inputs)
    graph.initializer.extend(tensor for tensor in constants.values() if tensor.name in read)
    for name, spread in spreads.items():
        graph.initializer.add(
            name=name,
            data_type=TensorProto.FLOAT,
            dims=spread.shape,
            raw_data=_weight(name, spread, seed).astype("<f4", copy=False).tobytes(),
        )
    return randomised


def _weight(name: str, spread: Spread, seed: int) -> Float32Array:
    """Return the weight `name`, flat and uniform in [centre - radius, centre + radius)."""
    values = uniform(prod(spread.shape), seed, name)
    values *= np.float32(spread.radius)
    values += np.float32(spread.centre)
    return values


def _scrambled(index: NDArray[np.uint32], key: np.uint32) -> NDArray[np.uint32]:
    """Hash `index` under `key` in place: multiplications and shifts, each of them invertible."""
    index += key
    for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B)):
        index ^= index >> np.uint32(shift)
        index *= np.uint32(factor)
        index ^= key
    index ^= index >> np.uint32(16)
    return index

"""The nine light graphs of the onnx package, as they ship and with seeded random weights.

`python -m tests.models.light` stores onnxruntime's answers anew, for these tests and `weft demo`.
"""

from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray

from tests.models.peer import run_onnxruntime
from weft.cli.demo_model import (
    DEMO_NETWORK,
    DEMO_SEED,
    LIGHT_FOLDER,
    REFERENCE,
    load_light,
    seeded_image,
    with_random_weights,
)

LIGHT = (
    "bvlc_alexnet",
    "densenet121",
    "inception_v1",
    "inception_v2",
    "resnet50",
    "shufflenet",
    "squeezenet",
    "vgg19",
    "zfnet512",
)
HEAVY = ("bvlc_alexnet", "vgg19", "zfnet512")
"""Those of 60 to 144 million weights; the others have 1 to 26 million."""
IMAGE_SHAPE = (1, 3, 224, 224)
SEED = DEMO_SEED
"""The seed of the weights and the image that the stored answers belong to."""
STORED = Path(__file__).parent / "references" / "light.npz"

Float32Array = NDArray[np.float32]


def shipped_input() -> Float32Array:
    """Return the ramp from 0 to 1 that onnx's backend tests feed to every light model."""
    count = np.prod(IMAGE_SHAPE)
    return (np.arange(count).reshape(IMAGE_SHAPE) / count).astype(np.float32)


def shipped_output(name: str) -> Float32Array:
    """Return the onnx package's answer of the unchanged model `name` to `shipped_input`."""
    tensor = onnx.load_tensor(LIGHT_FOLDER / f"light_{name}_output_0.pb")
    return onnx.numpy_helper.to_array(tensor)


def seeded_input() -> Float32Array:
    """Return the image that `reference` belongs to."""
    return seeded_image(IMAGE_SHAPE, SEED)


def with_permuted_pixels(image: Float32Array) -> Float32Array:
    """Return `image` with its pixels in another order, each keeping its channels together."""
    batch, channels, rows, columns = image.shape
    order = np.random.default_rng(SEED).permutation(rows * columns)
    return np.ascontiguousarray(
        image.reshape(batch, channels, -1)[:, :, order].reshape(image.shape)
    )


def reference(name: str) -> Float32Array:
    """Return onnxruntime's stored answer of `name`, weighted with SEED, to `seeded_input`."""
    with np.load(STORED) as stored:
        return stored[name]


def onnxruntime_answer(model: onnx.ModelProto, image: Float32Array) -> Float32Array:
    """Return onnxruntime's answer of a light model, weighted or as shipped, to `image`."""
    constants = {tensor.name for tensor in model.graph.initializer}
    (name,) = (value.name for value in model.graph.input if value.name not in constants)
    (output,) = run_onnxruntime(model, {name: image})
    return output


def store_references() -> None:
    """Write onnxruntime's answers for all light graphs, and the demo's beside its code."""
    answers = {
        name: onnxruntime_answer(with_random_weights(load_light(name), SEED), seeded_input())
        for name in LIGHT
    }
    np.savez(STORED, **answers)
    np.savez(REFERENCE, output=answers[DEMO_NETWORK])


if __name__ == "__main__":
    store_references()

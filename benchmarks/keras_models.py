"""Models of Keras 3, exported as ONNX, and SavedModels of TensorFlow by way of tf2onnx:
`python -m benchmarks.keras_models export FOLDER` where tensorflow, keras and tf2onnx are installed,
then `python -m benchmarks.keras_models run FOLDER` where weft is.

The first command writes each model with an input and what Keras or TensorFlow computes of it, and
goes on where it ended; the second one prints a line for each: the greatest difference, as a part of
the greatest element, or what is refused.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import numpy as np

Layers = list[Any]
MOST: Final = 1e-4
"""Of the greatest element, what a result may be wrong by."""


def keras_models() -> dict[str, Callable[[], Any]]:
    """Functions that make models."""
    keras: Any = import_module("keras")
    layers = keras.layers

    def stacked(shape: tuple[int, ...], *parts: Any) -> Callable[[], Any]:
        return lambda: keras.Sequential([keras.Input(shape), *parts])

    image, line = (32, 32, 3), (40, 8)
    small = {
        "mlp": stacked((20,), layers.Dense(64, "relu"), layers.Dense(10, "softmax")),
        "convolutions": stacked(
            image, layers.Conv2D(16, 3, strides=2, padding="same"), layers.BatchNormalization(),
            layers.PReLU(), layers.SeparableConv2D(32, 3), layers.GlobalAveragePooling2D(),
        ),
        "norms": stacked(
            image, layers.Conv2D(16, 3), layers.GroupNormalization(4), layers.Activation("silu"),
            layers.UnitNormalization(), layers.AveragePooling2D(2), layers.Flatten(),
        ),
        "conv1d": stacked(
            line, layers.Conv1D(16, 3, dilation_rate=2, padding="causal"), layers.ELU(),
            layers.GlobalMaxPooling1D(),
        ),
        "conv3d": stacked((8, 16, 16, 2), layers.Conv3D(4, 3), layers.MaxPooling3D()),
        "lstm": stacked(line, layers.LSTM(32, return_sequences=True), layers.LSTM(16)),
        "bidirectional gru": stacked(line, layers.Bidirectional(layers.GRU(24))),
        "conv lstm": stacked((5, 16, 16, 2), layers.ConvLSTM2D(4, 3)),
        "resizing": stacked(
            image, layers.Rescaling(1 / 255), layers.Resizing(48, 40), layers.UpSampling2D(2),
            layers.ZeroPadding2D(1), layers.Cropping2D(2),
        ),
        "transformer": partial(_transformer, keras),
        "unet": partial(_unet, keras),
    }  # fmt: skip
    return small | _applications(keras.applications)


def _transformer(keras: Any) -> Any:
    layers = keras.layers
    x = words = keras.Input((32,), dtype="int32")
    x = layers.Embedding(1000, 64)(x)
    for _ in range(2):
        y = layers.LayerNormalization()(x)
        x = x + layers.MultiHeadAttention(4, 16)(y, y, use_causal_mask=True)
        y = layers.Dense(128, activation="gelu")(layers.LayerNormalization()(x))
        x = x + layers.Dense(64)(y)
    return keras.Model(words, layers.Dense(1000)(x))


def _unet(keras: Any) -> Any:
    layers = keras.layers
    image = keras.Input((64, 64, 3))
    a = layers.Conv2D(16, 3, padding="same", activation="relu")(image)
    b = layers.Conv2D(32, 3, padding="same", activation="relu")(layers.MaxPooling2D()(a))
    up = layers.Conv2DTranspose(16, 2, strides=2)(b)
    return keras.Model(image, layers.Conv2D(2, 1)(layers.Concatenate()([a, up])))


def _applications(models: Any) -> dict[str, Callable[[], Any]]:
    names = ("MobileNetV2", "EfficientNetB0", "ResNet50", "DenseNet121", "ConvNeXtTiny")
    return {name: lambda name=name: getattr(models, name)(weights=None) for name in names}


def saved_models() -> dict[str, tuple[Callable[..., Any], list[Any]]]:
    """Functions of TensorFlow, and what they take."""
    tf: Any = import_module("tensorflow")
    weights = np.random.default_rng(0).standard_normal((8, 8)).astype("f") / 4

    def loop(x: Any) -> Any:
        for _ in tf.range(5):
            x = tf.tanh(x @ weights)
        return x

    def branch(x: Any) -> Any:
        return tf.sort(x, axis=1) if tf.reduce_sum(x) > 0 else tf.cumsum(x, axis=1)

    def tables(x: Any) -> Any:
        places = tf.argmax(x, axis=1)
        hot = tf.one_hot(places, 8) + tf.gather(weights, places)
        return tf.einsum("ij,kj->ik", hot, x), tf.math.top_k(x, 3).values

    def segments(x: Any) -> Any:
        number = tf.cast(tf.abs(x[:, 0]) * 3, tf.int32) % 4
        return tf.math.unsorted_segment_sum(x, number, 4), tf.linalg.band_part(x, 1, 0)

    def formulas(x: Any) -> Any:
        root = tf.math.rsqrt(tf.abs(x) + 1)
        return tf.where(x > 0, root, tf.math.erf(x)), tf.math.reduce_logsumexp(x, axis=0)

    functions = (loop, branch, tables, segments, formulas)
    return {each.__name__: (each, [tf.TensorSpec([None, 8], tf.float32)]) for each in functions}


def drawn(shape: tuple[int | None, ...], dtype: str) -> Any:
    """An input, of two rows where their number varies."""
    generator = np.random.default_rng(0)
    sizes = [2 if size is None else size for size in shape]
    if "int" in dtype:
        return generator.integers(0, 1000, sizes).astype(dtype)
    return generator.standard_normal(sizes).astype(dtype)


def export(folder: Path) -> None:
    """Writes what is not there yet, and what an exporter says of those that it fails at."""
    tf, tf2onnx = import_module("tensorflow"), import_module("tf2onnx")
    folder.mkdir(parents=True, exist_ok=True)

    def of_keras(model: Any, path: Path) -> None:
        x = drawn(model.input_shape, model.inputs[0].dtype)
        y = np.asarray(model(x, training=False))
        model.export(str(path), format="onnx", verbose=False)
        np.savez(path.with_suffix(".npz"), x=x, y0=y)

    def of_function(function: Any, signature: list[Any], path: Path) -> None:
        x = drawn((4, 8), "float32")
        module = tf.Module()
        module.f = tf.function(function, input_signature=signature)
        tf.saved_model.save(module, str(path.with_suffix("")), signatures=None)
        loaded = tf.saved_model.load(str(path.with_suffix(""))).f
        tf2onnx.convert.from_function(loaded, signature, opset=18, output_path=str(path))
        results = tf.nest.flatten(loaded(x))
        np.savez(path.with_suffix(".npz"), x=x, **{f"y{at}": y for at, y in enumerate(results)})

    work = {f"keras {name}": lambda p, make=make: of_keras(make(), p)
            for name, make in keras_models().items()}  # fmt: skip
    work |= {f"tensorflow {name}": lambda p, given=given: of_function(*given, p)
             for name, given in saved_models().items()}  # fmt: skip
    for name, write in work.items():
        path, failed = folder / f"{name}.onnx", folder / f"{name}.txt"
        if not path.with_suffix(".npz").exists() and not failed.exists():
            try:
                write(path)
            except Exception as error:
                failed.write_text(f"{type(error).__name__}: {error}"[:300])


def run(folder: Path) -> None:
    """Compiles and calls each model."""
    weft: Any = import_module("weft")
    for path in sorted(folder.glob("*.npz")):
        arrays = np.load(path)
        try:
            found = weft.compile(path.with_suffix(".onnx"))(arrays["x"])
        except weft.WeftError as error:
            row = {"outcome": "refused", "detail": str(error)[:200]}
        else:
            wanted = [arrays[f"y{at}"] for at in range(len(arrays) - 1)]
            pairs = zip(found, wanted, strict=True)
            worst = max(float(np.abs(a - b).max() / (np.abs(b).max() or 1)) for a, b in pairs)
            row = {"outcome": "pass" if worst <= MOST else "wrong", "error": float(f"{worst:.2g}")}
        print(json.dumps({"model": path.stem} | row), flush=True)
    for path in sorted(folder.glob("*.txt")):
        row = {"model": path.stem, "outcome": "not exported", "detail": path.read_text()}
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    {"export": export, "run": run}[sys.argv[1]](Path(sys.argv[2]))

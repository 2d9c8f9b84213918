"""Encoded images -> pixels: what Python does where a compiled program asks its host for them.

Pillow decodes, if it is installed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from io import BytesIO
from typing import Any, Final

import numpy as np

from weft.compiler.abi.constants import IMAGE_PIXELS, IMAGE_SIZE
from weft.dialects.errors import InputError
from weft.dialects.weights import Array

FORMATS: Final = ("BMP", "JPEG", "JPEG2000", "PNG", "PPM", "TIFF", "WEBP")
"""Those that ONNX names, as Pillow does."""

MODES: Final = ("1", "L", "LA", "P", "PA", "RGB", "RGBA", "RGBX", "CMYK", "YCbCr")
"""Images of at most 8 bits a channel: what these become as RGB or in grey is rounded at most."""


def _size(stream: Array) -> Sequence[Array]:
    """Height and width of the image, which its first bytes tell."""
    return _decoded(stream, lambda image: np.array([image.height, image.width], np.int64))


def _pixels(mode: str, order: int, stream: Array) -> Sequence[Array]:
    """The pixels, `[height, width, channels]`, with the channels in this order."""

    def converted(image: Any) -> Array:
        pixels = np.asarray(image if image.mode == mode else image.convert(mode))
        return pixels.reshape(*pixels.shape[:2], -1)[:, :, ::order]

    return _decoded(stream, converted)


def _decoded(stream: Array, read: Callable[[Any], Array]) -> Sequence[Array]:
    """What a function reads of an image. Raises InputError without Pillow, and for bytes that it
    cannot decode.
    """
    try:
        images: Any = import_module("PIL.Image")
    except ImportError as error:
        rule = "ImageDecoder requires Pillow (pip install 'weft[images]')"
        raise InputError(f"{rule}, got none") from error
    rule = f"ImageDecoder requires an image of {', '.join(FORMATS)}"
    try:
        with images.open(BytesIO(stream.tobytes()), formats=FORMATS) as image:
            if image.mode in MODES:
                return [read(image)]
            got = f"mode {image.mode}"
    except Exception as error:  # Pillow's decoders raise errors of many types for damaged bytes
        what = str(error).partition(" <")[0]
        raise InputError(f"{rule}, got {stream.size} bytes: {what}") from error
    raise InputError(f"{rule} of at most 8 bits a channel, got {got}")


IMAGE_FUNCTIONS: Final[Mapping[str, Callable[..., Sequence[Array]]]] = {
    IMAGE_SIZE: _size,
    f"{IMAGE_PIXELS}.RGB": partial(_pixels, "RGB", 1),
    f"{IMAGE_PIXELS}.BGR": partial(_pixels, "RGB", -1),
    f"{IMAGE_PIXELS}.Grayscale": partial(_pixels, "L", 1),
}
"""The functions of the host by their names."""

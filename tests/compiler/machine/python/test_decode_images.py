"""Models of ImageDecoder in Python, whose images Pillow decodes."""

from __future__ import annotations

import io
import sys
from functools import cache
from typing import Any

import numpy as np
import pytest
from onnx import parser
from PIL import Image

import weft
from weft.dialects.errors import InputError, ModelError

PIXELS = np.random.default_rng(7).integers(0, 256, (6, 5, 3)).astype(np.uint8)
DECODER = """<ir_version: 10, opset_import: ["" : 21]>
agraph (uint8[n] stream) => (uint8[h, w, c] image) {
    [decoder] image = ImageDecoder<pixel_format = "FORMAT"> (stream) }"""
EVERY = """<ir_version: 10, opset_import: ["" : 21]>
agraph (uint8[n] streams, int64[k] ends, int64 count) => (float total) {
    go = Constant<value_int = 1>() more = Cast<to = 9>(go) none = Constant<value_float = 0.0>()
    first = Constant<value_ints = [0]>()
    total, last = Loop<body = each (int64 i, bool c, float sum, int64[1] begin)
        => (bool on, float added, int64[1] end) {
        on = Identity(c)
        one = Constant<value_ints = [1]>()
        at = Reshape(i, one)
        end = Gather(ends, at)
        stream = Slice(streams, begin, end)
        image = ImageDecoder(stream)
        real = Cast<to = 1>(image)
        inside = ReduceSum<keepdims = 0>(real)
        added = Add(sum, inside) }> (count, more, none, first) }"""


@cache
def decoder(pixel_format: str) -> weft.Executable:
    return weft.compile(parser.parse_model(DECODER.replace("FORMAT", pixel_format)), threads=1)


def encoded(pixels: Any, mode: str | None = None, form: str = "png") -> Any:
    stream, image = io.BytesIO(), Image.fromarray(pixels)
    (image if mode is None else image.convert(mode)).save(stream, format=form)
    return np.frombuffer(stream.getvalue(), np.uint8)


def test_channels_are_in_the_order_of_the_format():
    stream = encoded(PIXELS)
    np.testing.assert_array_equal(decoder("RGB")(stream)[0], PIXELS)
    np.testing.assert_array_equal(decoder("BGR")(stream)[0], PIXELS[:, :, ::-1])
    grey = np.asarray(Image.fromarray(PIXELS).convert("L"))
    np.testing.assert_array_equal(decoder("Grayscale")(stream)[0], grey[:, :, None])


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGBA"])
def test_images_of_other_modes_have_the_channels_of_the_format(mode: str):
    stream = encoded(PIXELS, mode)
    wanted = np.asarray(Image.open(io.BytesIO(stream.tobytes())).convert("RGB"))
    np.testing.assert_array_equal(decoder("RGB")(stream)[0], wanted)
    assert decoder("Grayscale")(stream)[0].shape == (6, 5, 1)


def test_a_loop_decodes_images_of_many_sizes():
    images = [PIXELS, np.tile(PIXELS, (9, 7, 1)), PIXELS[:2]]
    streams = [
        encoded(each, form=form) for each, form in zip(images, ("png", "bmp", "tiff"), strict=True)
    ]
    run = weft.compile(parser.parse_model(EVERY), threads=1)
    ends = np.cumsum([each.size for each in streams])
    (total,) = run(np.concatenate(streams), ends, np.array(3))
    assert total == sum(int(each.sum()) for each in images)


@pytest.mark.parametrize(
    ("stream", "got"),
    [
        (np.zeros(0, np.uint8), "0 bytes: cannot identify"),
        (np.full(99, 7, np.uint8), "99 bytes: cannot identify"),
        (encoded(PIXELS, form="bmp")[:99], "99 bytes: image file is truncated"),
        (encoded(PIXELS, "P", "gif"), "cannot identify"),
        (
            encoded(PIXELS[:, :, 0].astype(np.uint16) << 8),
            "at most 8 bits a channel, got mode I;16",
        ),
    ],
)
def test_what_is_no_image_is_an_error_that_names_the_node(stream: Any, got: str):
    with pytest.raises(
        InputError, match=f"at decoder: ImageDecoder requires an image of BMP.*{got}"
    ):
        decoder("RGB")(stream)
    assert decoder("RGB")(encoded(PIXELS))[0].shape == PIXELS.shape


def test_without_pillow_an_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    with pytest.raises(InputError, match=r"at decoder: .* Pillow \(pip install 'weft\[images\]'\)"):
        decoder("RGB")(encoded(PIXELS))


def test_a_decoder_gives_one_of_three_formats():
    with pytest.raises(ModelError, match="requires RGB, BGR, Grayscale as pixel_format, got RGBA"):
        decoder("RGBA")

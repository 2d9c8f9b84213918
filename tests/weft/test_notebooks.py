"""`_repr_html_`: what notebooks show is small, well formed, escaped, and without scripts."""

import base64
import re
import zlib
from xml.etree import ElementTree

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from tests.support.small_models import dense_model, rows_of
from weft.compiler import html

SMALL = 20_000
"""Characters that what is shown may have, images aside."""


def shown(value: object) -> ElementTree.Element:
    """The elements, after looking for what no notebook should get."""
    text = value._repr_html_()
    assert len(re.sub(r'src="data:[^"]*"', "", text)) < SMALL
    assert "<script" not in text
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "")
    return ElementTree.fromstring(text)


def texts(element: ElementTree.Element) -> list[str]:
    return [text.strip() for text in element.itertext() if text.strip()]


def named(element: ElementTree.Element, tag: str) -> list[ElementTree.Element]:
    return [each for each in element.iter() if each.tag.rsplit("}", 1)[-1] == tag]


def pixels_of(element: ElementTree.Element, channels: int) -> np.ndarray:
    """The image's bytes, read back from its PNG."""
    (image,) = named(element, "img")
    png = base64.b64decode(image.attrib["src"].split(",")[1])
    width, height = (int.from_bytes(png[at : at + 4], "big") for at in (16, 20))
    size = int.from_bytes(png[33:37], "big")
    assert png[37:41] == b"IDAT"
    rows = np.frombuffer(zlib.decompress(png[41 : 41 + size]), np.uint8)
    rows = rows.reshape(height, 1 + width * channels)
    assert not rows[:, 0].any()
    return rows[:, 1:].reshape(height, width, channels)


def test_a_tensor_is_a_table_of_its_first_and_last_elements():
    element = shown(weft.Tensor(np.arange(300.0).reshape(20, 15)))
    cells = texts(element)
    assert "Tensor float64 (20, 15)" in cells
    assert {"0", "299", "…"} <= set(cells)
    assert "113" not in cells
    assert len(named(element, "tr")) == 1 + 11


@pytest.mark.parametrize("value", [np.float32(2.5), np.zeros((0, 3)), np.ones((2, 3, 4), np.int8)])
def test_tensors_of_any_rank_are_shown(value: np.ndarray):
    element = shown(weft.Tensor(value))
    assert f"({', '.join(map(str, np.shape(value)))})" in texts(element)[0]


@pytest.mark.parametrize(
    ("shape", "channels"), [((20, 30, 3), 3), ((3, 20, 30), 3), ((20, 30), 1), ((20, 30, 4), 4)]
)
def test_a_tensor_of_an_images_shape_is_an_image(shape: tuple[int, ...], channels: int):
    values = np.random.default_rng(1).integers(0, 256, shape, dtype=np.uint8)
    found = pixels_of(shown(weft.Tensor(values)), channels)
    wanted = np.moveaxis(values, 0, -1) if shape[0] == 3 else values
    np.testing.assert_array_equal(found, wanted.reshape(20, 30, channels))


def test_floats_of_an_image_go_from_black_to_white():
    values = np.linspace(-1.0, 3.0, 400, dtype=np.float32).reshape(20, 20)
    values[0, 5] = np.nan
    element = shown(weft.Tensor(values))
    assert "black -1, white 3" in texts(element)
    found = pixels_of(element, 1)
    assert (found[0, 0, 0], found[-1, -1, 0]) == (0, 255)


def test_an_executable_shows_its_signature_and_its_operators():
    run = weft.compile(dense_model("rows"))
    cells = texts(shown(run))
    assert {"x", "y", "float32", "(rows, 96)"} <= set(cells)
    run.profile([rows_of(4)], calls=3)
    element = shown(run)
    assert any("the median of 3 calls" in text for text in texts(element))
    assert "matmul_add_relu" in texts(element)
    assert any(float(bar.attrib["width"]) > 0 for bar in named(element, "rect"))


def test_a_jitted_function_shows_what_it_was_compiled_for():
    @weft.jit
    def scaled(x):
        return wnp.tanh(x) * 2.0

    assert "was not called yet" in " ".join(texts(shown(scaled)))
    scaled(np.ones(8, np.float32))
    cells = texts(shown(scaled))
    assert "scaled(x: float32[8])" in cells
    assert "it was called for the first time" in cells


def test_a_graph_is_drawn_and_its_names_escaped():
    graph = weft.Graph("<script>alert(1)</script>")
    x = graph.input('"x"<b>', "float32", ("rows", 4))
    graph.output("y<i>&", graph.op("relu", x + 1.0))
    element = shown(graph)
    cells = texts(element)
    assert {"<script>alert(1)</script>", '"x"<b>', "add", "relu", "y<i>&"} <= set(cells)
    assert len(named(element, "path")) == 2
    assert len(named(element, "rect")) == 3


def test_a_large_graph_is_counted():
    graph = weft.Graph("deep")
    x = graph.input("x", "float32", (4,))
    for _ in range(70):
        x = graph.op("relu", x)
    graph.output("y", x)
    element = shown(graph)
    assert not named(element, "svg")
    assert texts(element)[-2:] == ["relu", "70"]


def test_a_history_is_a_curve_for_each_number():
    history = weft.History()
    for step in range(1000):
        history.add(loss=weft.Tensor(np.float32(1 / (1 + step))))
    history.add(loss=float("nan"), rate=0.1)
    history.add(rate=0.2)
    assert len(history) == 1002
    assert np.isnan(history.values["rate"][:1000]).all()
    element = shown(history)
    assert len(named(element, "svg")) == 2
    assert {"loss", "rate", "step 1001"} <= set(texts(element))
    assert "nan" not in html.curves(history.values, "step")
    assert texts(shown(weft.History())) == ["no steps"]

"""Sizes and inputs that a user fixes: the model is compiled as if it said so, everywhere."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import ModelProto, parser

import weft

RATES = """<ir_version: 9, opset_import: ["" : 18]>
agraph (float[n, m] x, int64[1] rate) => (float[] y) {
  eight = Constant <value = int64 {8000}> ()
  slow = Equal (rate, eight)
  y = If (slow) <
    then_branch = small () => (float[n, m] a) { a = Neg (x) },
    else_branch = large () => (float[k] b) {
      shape = Constant <value = int64[1] {-1}> ()
      b = Reshape (x, shape)
    }
  >
}"""

JOINED = """<ir_version: 9, opset_import: ["" : 18]>
agraph (float[rows, 3] x, float[others, 3] y) => (float[r, c] z) {
  z = Add (x, y)
}"""


def model_of(text: str) -> ModelProto:
    return parser.parse_model(text)


def rows(count: int, columns: int = 3) -> np.ndarray:
    return np.arange(count * columns, dtype=np.float32).reshape(count, columns)


def test_what_only_compiles_for_one_value_of_an_input_compiles_for_it() -> None:
    with pytest.raises(weft.UnsupportedError):
        weft.compile(model_of(RATES), cache=False)
    run = weft.compile(model_of(RATES), values={"rate": 16000}, cache=False)
    assert [spec.name for spec in run.inputs] == ["x"]
    np.testing.assert_array_equal(run(rows(2))[0], rows(2).reshape(-1))
    slow = weft.compile(model_of(RATES), values={"rate": [8000]}, cache=False)
    np.testing.assert_array_equal(slow(rows(2))[0], -rows(2))


def test_a_size_that_is_fixed_is_a_number_in_the_signature(tmp_path: Path) -> None:
    cache = weft.Cache(tmp_path)
    for rows_, others in ((4, 4), (4, 1)):
        dims = {"rows": rows_, "others": others}
        run = weft.compile(model_of(JOINED), dims=dims, cache=cache)
        assert [spec.dims for spec in run.inputs] == [(rows_, 3), (others, 3)]
        np.testing.assert_array_equal(run(rows(rows_), rows(others))[0], rows(rows_) + rows(others))


def test_a_value_gives_the_named_sizes_of_its_input() -> None:
    run = weft.compile(model_of(JOINED), values={"y": rows(1)}, dims={"rows": 2}, cache=False)
    np.testing.assert_array_equal(run(rows(2))[0], rows(2) + rows(1))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dims": {"row": 1}}, r"dims require named sizes of the inputs \(n, m\), got row"),
        ({"values": {"z": 1}}, r"values require inputs \(x, rate\), got z"),
        ({"values": {"rate": 0.5}}, r"values require int64\[1\] for the input 'rate', got float64"),
        ({"values": {"rate": [1, 2]}}, r"require int64\[1\] for the input 'rate', got int64\[2\]"),
        (
            {"values": {"x": [1.0]}},
            r"require float32\[\?, \?\] for the input 'x', got float64\[1\]",
        ),
        ({"values": {"x": rows(2)}, "dims": {"n": 3}}, r"float32\[3, \?\] for the input 'x', got"),
        (
            {"dims": {"n": 3}, "values": {"rate": 8000}, "bounds": ["n=4..9"]},
            "bound requires n from 4 to 9, got 3",
        ),
        ({"dims": ["n=3", "n=4"]}, "dims require each name once, got n twice"),
        ({"values": ["rate=fast"]}, "value requires a text such as rate=16000 .*, got 'rate=fast'"),
    ],
)
def test_what_no_model_has_is_refused(changes: dict, message: str) -> None:
    with pytest.raises(weft.OptionError, match=message):
        weft.compile(model_of(RATES), cache=False, **changes)


def double(x: np.ndarray, scale: np.ndarray) -> np.ndarray:
    return x * scale + x.sum()


SPECS = (weft.Spec("float32", ("n", 3)), weft.Spec("float32", ("k",)))


def test_functions_and_graph_files_take_them_too(tmp_path: Path) -> None:
    expected = double(rows(2), np.arange(3, dtype=np.float32))
    dims = {"n": 2}
    run = weft.compile(double, SPECS, dims=dims, values={"scale": [0, 1, 2]}, cache=False)
    assert [(spec.name, spec.dims) for spec in run.inputs] == [("x", (2, 3))]
    np.testing.assert_array_equal(run(rows(2))[0], expected)
    weft.compile(double, SPECS, cache=False).save_graph(tmp_path / "double.mlir")
    read = weft.compile(tmp_path / "double.mlir", dims=dims, values={"scale": [0, 1, 2]})
    np.testing.assert_array_equal(read(rows(2))[0], expected)
    with pytest.raises(
        weft.OptionError, match="dims require named sizes of the inputs .n, k., got m"
    ):
        weft.compile(tmp_path / "double.mlir", dims={"m": 2})


def test_functions_and_graph_files_have_buckets(tmp_path: Path) -> None:
    scale = np.arange(3, dtype=np.float32)
    weft.compile(double, SPECS, cache=False).save_graph(tmp_path / "double.mlir")
    for model, specs in ((double, SPECS), (tmp_path / "double.mlir", ())):
        run = weft.compile(model, specs, buckets=["n=1,2"], dims={"k": 3}, cache=False)
        for count in (1, 2):
            np.testing.assert_allclose(run(rows(count), scale)[0], double(rows(count), scale))
        with pytest.raises(weft.InputError, match="to be the sizes of a bucket, got 3"):
            run(rows(3), scale)

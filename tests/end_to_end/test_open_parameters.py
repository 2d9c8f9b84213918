"""Axes, steps, pads, sizes, scales and the like that arrive when a model runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, parser

import weft
from tests.models.peer import run_onnxruntime

Array = np.ndarray[Any, Any]


def model_of(text: str, opset: int = 18) -> ModelProto:
    return parser.parse_model(f'<ir_version: 9, opset_import: ["" : {opset}]> agraph {text}')


def floats(*shape: int) -> Array:
    return np.asarray(np.random.default_rng(sum(shape)).standard_normal(shape), np.float32)


def whole(*numbers: int) -> Array:
    return np.array(numbers, np.int64)


def agree(run: weft.Executable, model: ModelProto, *inputs: Array) -> None:
    """Compares a call with onnxruntime's."""
    pairs = zip(model.graph.input, inputs, strict=True)
    named = {value.name: np.asarray(x) for value, x in pairs}
    for ours, theirs in zip(run(**named), run_onnxruntime(model, named), strict=True):
        assert ours.shape == theirs.shape
        np.testing.assert_allclose(ours, theirs, 1e-5, 1e-5)


def mel(bins: int, length: int, rate: int, low: float, high: float) -> tuple[Array, ...]:
    edges = (np.array(edge, np.float32) for edge in (low, high))
    return (*(np.array(number) for number in (bins, length, rate)), *edges)


SLICES = "(float[n, 4, 5] x, int64[2] s, int64[2] e, int64[2] a, int64[2] t) => (float[p, q, r] y)"
X = floats(3, 4, 5)
LEAST, MOST = -(2**63), 2**63 - 1

CASES: dict[str, tuple[str, list[tuple[Array, ...]]]] = {
    "mel weights": (
        "(int64 n, int64 k, int64 r, float l, float u) => (float[p, q] y)"
        " { y = MelWeightMatrix (n, k, r, l, u) }",
        [mel(8, 128, 8000, 20, 3900), mel(40, 512, 16000, 0, 8000), mel(3, 16, 8192, 0, 4096)],
    ),
    "slice axes": (
        SLICES.replace(", int64[2] t", "") + " { y = Slice (x, s, e, a) }",
        [
            (X, whole(1, 0), whole(3, 2), whole(0, 2)),
            (X, whole(-2, 1), whole(MOST, -1), whole(2, -2)),
            (X, whole(5, -9), whole(9, 9), whole(1, 0)),
        ],
    ),
    "slice axes and steps": (
        SLICES + " { y = Slice (x, s, e, a, t) }",
        [
            (X, whole(0, 4), whole(3, 0), whole(0, 2), whole(2, -2)),
            (X, whole(-1, MOST), whole(LEAST, LEAST), whole(1, 2), whole(-1, -3)),
            (X, whole(3, 0), whole(1, 4), whole(1, 2), whole(1, MOST)),
            (X, whole(3, 4), whole(-9, 0), whole(1, 2), whole(LEAST, -1)),
        ],
    ),
    "slice steps": (
        "(float[n, 5] x, int64[2] t) => (float[p, q] y) {"
        " s = Constant <value = int64[2] {0, -1}> () e = Constant <value = int64[2] {9, 1}> ()"
        " a = Constant <value = int64[2] {0, 1}> () y = Slice (x, s, e, a, t) }",
        [(floats(3, 5), whole(2, -1)), (floats(3, 5), whole(1, -2)), (floats(0, 5), whole(1, -3))],
    ),
    "pads": (
        "(float[n, 3] x, int64[4] p, float v) => (float[r, c] y) { y = Pad (x, p, v) }",
        [
            (floats(2, 3), whole(0, 1, 2, 3), np.float32(7)),
            (floats(2, 3), whole(-1, 1, 2, -2), np.float32(7)),
            (floats(2, 3), whole(0, 0, 0, 0), np.float32(7)),
        ],
    ),
    "pads of axes": (
        "(float[n, 3] x, int64[2] p, float v, int64[1] a) => (float[r, c] y)"
        " { y = Pad (x, p, v, a) }",
        [(floats(2, 3), whole(1, 2), np.float32(7), whole(axis)) for axis in (0, 1, -1)],
    ),
    "pads by reflection": (
        '(float[n, 3] x, int64[4] p) => (float[r, c] y) { y = Pad <mode = "reflect"> (x, p) }',
        [(floats(2, 3), whole(0, 1, 1, 2))],
    ),
    "split": (
        "(float[n, 6] x, int64[2] s) => (float[n, p] y, float[n, q] z)"
        " { y, z = Split <axis = 1> (x, s) }",
        [(floats(2, 6), whole(2, 4)), (floats(2, 6), whole(0, 6))],
    ),
    "resize to sizes": (
        "(float[1, 1, h, w] x, int64[4] s) => (float[a, b, c, d] y)"
        ' { y = Resize <mode = "linear"> (x, , , s) }',
        [(floats(1, 1, 3, 4), whole(1, 1, 6, 3)), (floats(1, 1, 2, 2), whole(1, 1, 5, 7))],
    ),
    "resize by scales": (
        "(float[1, 1, h, w] x, float[4] s) => (float[a, b, c, d] y)"
        ' { y = Resize <mode = "nearest", coordinate_transformation_mode = "asymmetric",'
        ' nearest_mode = "floor"> (x, , s) }',
        [
            (floats(1, 1, 3, 4), np.array([1, 1, 2, 2], np.float32)),
            (floats(1, 1, 3, 4), np.array([1, 1, 0.6, 1.3], np.float32)),
        ],
    ),
    "resize within sizes": (
        "(float[h, w] x, int64[2] s) => (float[c, d] y)"
        ' { y = Resize <mode = "linear", keep_aspect_ratio_policy = "not_larger"> (x, , , s) }',
        [(floats(3, 4), whole(6, 6)), (floats(4, 4), whole(9, 7))],
    ),
    "cumsum": (
        "(float[n, 3] x, int64 a) => (float[n, 3] y) { y = CumSum (x, a) }",
        [(floats(2, 3), np.int64(axis)) for axis in (0, 1, -2)],
    ),
    "trilu": (
        "(float[n, 3] x, int64 k) => (float[n, 3] y, float[n, 3] z)"
        " { y = Trilu (x, k) z = Trilu <upper = 0> (x, k) }",
        [(floats(4, 3), np.int64(k)) for k in (0, 2, -1, -9, 9)],
    ),
    "one hot": (
        "(int64[n] i, int64 d, float[2] v) => (float[n, k] y) { y = OneHot (i, d, v) }",
        [(whole(0, 2, -1), np.int64(d), floats(2)) for d in (3, 5)],
    ),
    "reduce kept": (
        "(float[n, 3, 4] x, int64[2] a) => (float[p, q, r] y, float[s, t, u] z)"
        " { y = ReduceSum (x, a) z = ReduceL2 (x, a) }",
        [(floats(2, 3, 4), whole(*axes)) for axes in ((0, 1), (2, 0), (-1, -2))],
    ),
    "reduce": (
        "(float[n, 3, 4] x, int64[1] a) => (float[p, q] y)"
        " { y = ReduceMean <keepdims = 0> (x, a) }",
        [(floats(2, 3, 4), whole(axis)) for axis in (0, 1, -1)],
    ),
    "unsqueeze": (
        "(float[n, 3] x, int64[1] a) => (float[p, q, r] y) { y = Unsqueeze (x, a) }",
        [(floats(2, 3), whole(axis)) for axis in (0, 1, -1)],
    ),
    "squeeze": (
        "(float[n, 1, 3] x, int64[1] a) => (float[p, q] y) { y = Squeeze (x, a) }",
        [(floats(2, 1, 3), whole(1)), (floats(1, 1, 3), whole(0)), (floats(1, 1, 3), whole(-2))],
    ),
    "transforms": (
        "(float[1, n, 1] x, int64 l, int64 a) => (float[p, q, r] y)"
        " { y = DFT <onesided = 1> (x, l, a) }",
        [(floats(1, 6, 1), np.int64(n), np.int64(1)) for n in (6, 4, 9)],
    ),
    "columns": (
        "(float[n, r, c] x, int64[2] s, int64[2] b) => (float[p, q, t, u] y)"
        " { y = Col2Im (x, s, b) }",
        [(floats(1, 8, 6), whole(3, 4), whole(2, 2)), (floats(2, 6, 8), whole(3, 4), whole(2, 1))],
    ),
    "frames": (
        "(float[1, n, 1] x, int64 s, int64 l) => (float[p, q, r, t] y) { y = STFT (x, s, , l) }",
        [
            (floats(1, 20, 1), np.int64(4), np.int64(8)),
            (floats(1, 20, 1), np.int64(3), np.int64(5)),
        ],
    ),
}
OPSETS = {"transforms": 20}


@pytest.mark.parametrize("name", CASES)
def test_parameters_may_arrive_when_the_model_runs(name: str) -> None:
    text, calls = CASES[name]
    model = model_of(text, OPSETS.get(name, 18))
    run = weft.compile(model, threads=1, cache=False)
    for inputs in calls:
        agree(run, model, *inputs)


REFUSED = {
    "slice axes": (X, whole(0, 0), whole(1, 1), whole(1, 1)),
    "slice steps": (floats(3, 5), whole(0, 1)),
    "split": (floats(2, 6), whole(2, 3)),
    "pads": (floats(2, 3), whole(-3, 0, 0, 0), np.float32(0)),
    "pads by reflection": (floats(0, 3), whole(1, 0, 0, 0)),
    "resize by scales": (floats(1, 1, 3, 4), np.array([1, 1, 0, 1], np.float32)),
    "cumsum": (floats(2, 3), np.int64(2)),
    "reduce": (floats(2, 3, 4), whole(3)),
    "squeeze": (floats(2, 1, 3), whole(2)),
    "columns": (floats(1, 6, 6), whole(3, 4), whole(2, 2)),
    "columns ": (floats(1, 6, 6), whole(3, 4), whole(0, 2)),
    "frames": (floats(1, 20, 1), np.int64(0), np.int64(8)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_parameters_that_cannot_be_end_the_call(name: str) -> None:
    run = weft.compile(model_of(CASES[name.strip()][0]), threads=1, cache=False)
    with pytest.raises(weft.InputError, match="requires"):
        run(*REFUSED[name])


def test_mel_weights_of_frequencies_that_are_none_are_refused() -> None:
    model = model_of(CASES["mel weights"][0])
    run = weft.compile(model, threads=1)
    with pytest.raises(weft.InputError, match="requires edges of at least 0 .*, at MelWeight"):
        run(*mel(4, 16, 8192, -1, 4096))
    with pytest.raises(weft.InputError, match="requires edges within the spectrum.*, at MelWeight"):
        run(*mel(4, 16, 1024, 0, 4096))


DROPPED = (
    "(float[n, m] x, float r, bool t) => (float[p, q] y, bool[s, u] k) { y, k = Dropout (x, r, t) }"
)


def test_dropout_trains_where_a_call_says_so() -> None:
    """onnx draws with NumPy's generator: what is compared is all that does not hang on that."""
    run = weft.compile(model_of(DROPPED), threads=1)
    x = floats(40, 50)
    y, kept = run(x, np.float32(0.25), np.array(True))
    np.testing.assert_allclose(y, np.where(kept, x / np.float32(0.75), 0), 1e-6)
    assert 0.7 < kept.mean() < 0.8
    for ratio, training in ((0.25, False), (0.0, True)):
        y, kept = run(x, np.float32(ratio), np.array(training))
        np.testing.assert_array_equal(y, x)
        assert kept.all()

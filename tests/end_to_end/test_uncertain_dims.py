"""Dims that are differences of named sizes: their loops are split and tiled like all others, every
size that a call brings is right, and one that makes a dim negative is refused.
"""

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

import weft
from weft.compilation import options_of
from weft.compiler.driver.pipeline import compile_model

NUMBERS = ", ".join(str(n % 7 - 3) for n in range(144))
WEIGHTS = f"float[4, 4, 3, 3] w = {{{NUMBERS}}}"

MODELS = {
    "same number of rows less": "(float[1, 4, n, m] x) => (float[1, 4, p, q] y)"
    f"<{WEIGHTS}> {{ y = Conv(x, w) }}",
    "every second row": "(float[1, 4, n, m] x) => (float[1, 4, p, q] y)"
    f"<{WEIGHTS}> {{ y = Conv<strides = [2, 2]>(x, w) }}",
    "dilated": "(float[1, 4, n, m] x) => (float[1, 4, p, q] y)"
    f"<{WEIGHTS}> {{ y = Conv<dilations = [1, 3]>(x, w) }}",
    "three times as many": "(float[1, 4, n, m] x) => (float[1, 4, p, q] y)"
    f"<{WEIGHTS}> {{ y = ConvTranspose<strides = [3, 3], pads = [1, 1, 1, 1]>(x, w) }}",
    "a sum of sizes": "(float[1, 4, n, m] x, float[1, 4, k, m] z) => (float[1, 4, p, q] y)"
    f"<{WEIGHTS}> {{ xz = Concat<axis = 2>(x, z) y = Conv(xz, w) }}",
}


def model_of(text: str) -> onnx.ModelProto:
    """The model of a graph's text."""
    return onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": 22]> g {text}')


@pytest.mark.parametrize("name", MODELS)
def test_every_size_is_right(name: str):
    model = model_of(MODELS[name])
    run, reference = weft.compile(model, cache=False), ReferenceEvaluator(model)
    random = np.random.default_rng(0)
    for n, m in [(3, 7), (4, 8), (5, 9), (9, 24), (18, 41), (37, 70)]:
        operands = [random.integers(-3, 4, (1, 4, n, m)), random.integers(-3, 4, (1, 4, 2, m))]
        given = dict(zip(["x", "z"], operands[: len(model.graph.input)], strict=False))
        arrays = {key: array.astype(np.float32) for key, array in given.items()}
        (expected,) = reference.run(None, arrays)
        (got,) = run(*arrays.values())
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("name", MODELS)
def test_its_kernels_are_contractions(name: str):
    kernels = compile_model(model_of(MODELS[name]), options_of(b"")).metadata["kernels"]
    products = [each for each in kernels if each["name"].startswith(("conv", "einsum", "matmul"))]
    assert products
    assert all("contraction" in each["schedules"] for each in products)


def test_a_size_that_makes_a_dim_negative_is_refused():
    run = weft.compile(model_of(MODELS["same number of rows less"]), cache=False)
    with pytest.raises(weft.InputError, match=r"requires n .* to be at least 3, got 2"):
        run(np.ones((1, 4, 2, 5), np.float32))
    with pytest.raises(weft.InputError, match=r"requires extents of 0 .* \(1, 4, n - 2, m - 2\)"):
        run(np.ones((1, 4, 1, 5), np.float32))

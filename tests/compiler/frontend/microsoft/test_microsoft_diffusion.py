"""What onnxruntime's optimiser fuses of diffusion models for GPUs alone, beside NumPy."""
# pyright: basic

import math

import numpy as np

import weft
from tests.compiler.frontend.microsoft.fused import floats
from tests.compiler.frontend.microsoft.samples import Array, Sample, model_of

IMAGE, CHANNELS = (2, 3, 5, 4), 4
NORM = {"groups": 2, "epsilon": 0.01}


def normal(image: Array, gamma: Array, beta: Array) -> Array:
    """Two groups of the last four channels at mean 0 and variance 1."""
    groups = image.reshape(2, -1, 2, 2).astype(np.float64)
    centred = groups - groups.mean((1, 3), keepdims=True)
    variance = np.square(centred).mean((1, 3), keepdims=True)
    return (centred / np.sqrt(variance + NORM["epsilon"])).reshape(image.shape) * gamma + beta


def swish(x: Array) -> Array:
    return x / (1 + np.exp(-x))


def norms() -> list[tuple[Sample, list[Array]]]:
    """With and without a swish, channels last and first, and sums with skips of all forms."""
    x, other, gamma, beta, bias = floats(*IMAGE), floats(*IMAGE), *(floats(4) for _ in range(3))
    given = {"x": x, "gamma": gamma, "beta": beta}
    first = {**given, "x": x.transpose(0, 3, 1, 2)}
    plain = normal(x, gamma, beta)
    sample = Sample("GroupNorm", given, {**NORM, "activation": 0})
    of_first = Sample("GroupNorm", first, {**NORM, "activation": 1, "channels_last": 0})
    cases = [(sample, [plain]), (of_first, [swish(plain).transpose(0, 3, 1, 2)])]
    for skip in (other, other[:, :1, :1], other[:, 0, 0]):
        total = x + (skip[:, None, None] if skip.ndim == 2 else skip) + bias
        operands = {**given, "skip": skip, "bias": bias}
        of_sum = Sample("SkipGroupNorm", operands, {**NORM, "activation": 1}, "ys", ("skip",))
        cases.append((of_sum, [swish(normal(total, gamma, beta)), total]))
    return cases


def convolution() -> tuple[Sample, list[Array]]:
    """A filter of 2 x 2 taps, whose channels come last as those of the image do."""
    x, filters, bias = floats(*IMAGE), floats(6, 2, 2, 4), floats(6)
    taps = [(row, column) for row in (0, 1) for column in (0, 1)]
    result = sum(
        x[:, row : row + 2, column : column + 4] @ filters[:, row, column].T for row, column in taps
    )
    return Sample("NhwcConv", {"x": x, "w": filters, "b": bias}, {"kernel_shape": [2, 2]}), [
        result + bias
    ]


def sums() -> list[tuple[Sample, list[Array]]]:
    x, bias, skip = floats(2, 3, 8), floats(8), floats(2, 3, 8)
    left, right = np.split(x + bias, 2, -1)
    gate = right * (1 + np.vectorize(math.erf)(right / math.sqrt(2))) / 2
    added = Sample("BiasAdd", {"x": x, "bias": bias, "skip": skip}, varies=("skip",))
    return [
        (added, [x + bias + skip]),
        (Sample("BiasSplitGelu", {"x": x, "bias": bias}), [left * gate]),
    ]


def test_operators_agree_with_numpy() -> None:
    cases = [*norms(), convolution(), *sums()]
    model, inputs = model_of([sample for sample, _ in cases])
    given = weft.compile(model, threads=1)(**inputs)
    expected = [(sample.op_type, each) for sample, results in cases for each in results]
    for (name, theirs), ours in zip(expected, given, strict=True):
        np.testing.assert_allclose(ours, theirs, 1e-5, 1e-5, err_msg=name)

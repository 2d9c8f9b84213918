"""ONNX operators that become several of ours, at symbolic sizes, against onnxruntime."""
# pyright: basic

import numpy as np
import pytest
from onnx import ModelProto, parser

from tests.compiler.frontend.graph_evaluator import evaluate
from tests.models.peer import run_onnxruntime
from weft.compiler.frontend.onnx.from_onnx import import_model
from weft.dialects.errors import ModelError
from weft.dialects.expr import Expr
from weft.dialects.graph.core.types import ShapeAttr
from weft.dialects.graph.ops.random import RandomBitsOp

RNG = np.random.default_rng(3)


def model_of(text: str, opset: int = 21) -> ModelProto:
    """A model in ONNX's text syntax, without its header."""
    return parser.parse_model(f'<ir_version: 10, opset_import: ["" : {opset}]>\n{text}')


def floats(*shape: int):
    return RNG.standard_normal(shape).astype(np.float32)


def check(text: str, *inputs, opset: int = 21, tolerance: float = 1e-5) -> None:
    """The imported graph, evaluated at the inputs' sizes, is what onnxruntime computes."""
    model = model_of(text, opset)
    imported = import_model(model)
    outputs = evaluate(imported, *inputs)
    feeds = dict(zip(imported.input_names, inputs, strict=True))
    for output, expected in zip(outputs, run_onnxruntime(model, feeds), strict=True):
        np.testing.assert_allclose(output, expected, rtol=tolerance, atol=tolerance)


# Resize -------------------------------------------------------------------------------------------

RESIZE = """agraph (float[b, 2, h, w] x) => (float[b, 2, p, q] y) <float[4] s = {1, 1, %s}> {
    y = Resize<mode = "%s", %s> (x, , s)
}"""


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize(
    "coordinates", ["half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel"]
)
@pytest.mark.parametrize("scales", ["2, 1.5", "0.75, 0.5"])
def test_resize_by_scales_takes_any_size(mode: str, coordinates: str, scales: str):
    attributes = f'coordinate_transformation_mode = "{coordinates}", nearest_mode = "floor"'
    text = RESIZE % (scales, mode, attributes)
    for shape in ((1, 2, 4, 6), (2, 2, 8, 2)):
        check(text, floats(*shape))


def test_resize_to_sizes_of_another_tensor():
    text = """agraph (float[1, 1, h, w] x, float[1, 1, p, q] z) => (float[1, 1, p, q] y) {
        s = Shape(z) y = Resize<mode = "linear", antialias = 1> (x, , , s)
    }"""
    check(text, floats(1, 1, 6, 4), floats(1, 1, 3, 7))


@pytest.mark.parametrize("policy", ["not_larger", "not_smaller"])
def test_resize_keeps_the_aspect_of_sizes_that_vary(policy: str):
    text = f"""agraph (float[h, w] x) => (float[p, q] y) <int64[2] s = {{4, 5}}> {{
        y = Resize<mode = "linear", keep_aspect_ratio_policy = "{policy}"> (x, , , s)
    }}"""
    for shape in ((3, 4), (8, 6), (4, 5)):
        check(text, floats(*shape))


def test_resize_refuses_modes_that_do_not_exist():
    text = """agraph (float[2] x) => (float[p] y) <float[1] s = {2}> {
        y = Resize<mode = "m"> (x, , s)
    }"""
    with pytest.raises(ModelError, match="requires mode out of nearest, linear, cubic, got m"):
        import_model(model_of(text))


# Einsum -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("equation", ["ij,jk,kl->il", "...ij,...jk", "ij,kj,ij->ki", "i...->..."])
def test_einsum_of_several_operands(equation: str):
    count = equation.partition("->")[0].count(",") + 1
    inputs = ", ".join(f"float[n, n] x{at}" for at in range(count))
    names = ", ".join(f"x{at}" for at in range(count))
    outputs = ", ".join("mnop"[: 1 if equation == "i...->..." else 2])
    text = f"""agraph ({inputs}) => (float[{outputs}] y) {{
        y = Einsum<equation = "{equation}"> ({names})
    }}"""
    check(text, *(floats(3, 3) for _ in range(count)))


def test_einsum_refuses_an_equation_of_other_ranks():
    text = 'agraph (float[n] x) => (float[n] y) { y = Einsum<equation = "ij->i"> (x) }'
    with pytest.raises(ModelError, match="an equation of the operands' ranks"):
        import_model(model_of(text))


# Points between pixels ----------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("aligned", [0, 1])
def test_grid_sample_at_symbolic_sizes(mode: str, padding: str, aligned: int):
    text = f"""agraph (float[n, 2, h, w] x, float[n, p, q, 2] g) => (float[n, 2, p, q] y) {{
        y = GridSample<mode = "{mode}", padding_mode = "{padding}",
            align_corners = {aligned}> (x, g)
    }}"""
    check(text, floats(2, 2, 4, 5), floats(2, 3, 2, 2), opset=20, tolerance=1e-4)


@pytest.mark.parametrize("mode", ["avg", "max"])
@pytest.mark.parametrize("ratio", [2, 0])
@pytest.mark.parametrize("halves", ["half_pixel", "output_half_pixel"])
def test_roi_align_of_regions_in_several_images(mode: str, ratio: int, halves: str):
    text = f"""agraph (float[n, 2, h, w] x, float[r, 4] b, int64[r] i) => (float[r, 2, 2, 3] y) {{
        y = RoiAlign<mode = "{mode}", output_height = 2, output_width = 3,
            sampling_ratio = {ratio}, coordinate_transformation_mode = "{halves}",
            spatial_scale = 0.5> (x, b, i)
    }}"""
    regions = np.array([[1, 2, 9, 7], [-3, 0, 4, 30], [5, 5, 5, 5], [9, 9, 2, 3]], np.float32)
    check(text, floats(2, 2, 5, 6), regions, np.array([0, 1, 1, 0]), opset=16, tolerance=1e-4)


def test_deform_conv_in_groups_with_mask_and_bias():
    text = """agraph (float[n, 4, 5, 6] x, float[2, 2, 2, 3] w, float[n, 24, 3, 3] o, float[2] b,
                      float[n, 12, 3, 3] m) => (float[n, 2, 3, 3] y) {
        y = DeformConv<group = 2, offset_group = 2, strides = [2, 2], pads = [1, 0, 1, 1],
            dilations = [2, 1]> (x, w, o, b, m)
    }"""
    inputs = floats(2, 4, 5, 6), floats(2, 2, 2, 3), floats(2, 24, 3, 3), floats(2)
    check(text, *inputs, floats(2, 12, 3, 3), opset=19, tolerance=1e-4)


# Spectra ------------------------------------------------------------------------------------------


def transform(x, inverse: int, onesided: int, length: int | None = None):
    """DFT along axis 1 of an array that the importer sees with its static shape."""
    dims = ", ".join(map(str, x.shape))
    operands = "x" if length is None else "x, n"
    text = f"""agraph (float[{dims}] x) => (float[p, q, r] y) <int64 n = {{{length or 0}}}> {{
        y = DFT<inverse = {inverse}, onesided = {onesided}> ({operands})
    }}"""
    (y,) = evaluate(import_model(model_of(text, 20)), x)
    return y


@pytest.mark.parametrize("size", [1, 8, 15, 768, 1009, 1024])
@pytest.mark.parametrize("inverse", [0, 1])
def test_dft_of_small_composite_and_prime_sizes(size: int, inverse: int):
    x = floats(2, size, 2)
    complexes = x[..., 0] + 1j * x[..., 1].astype(np.float64)
    expected = np.fft.ifft(complexes) if inverse else np.fft.fft(complexes)
    y = transform(x, inverse, 0)
    scale = np.abs(expected).max()
    np.testing.assert_allclose(y[..., 0], expected.real, atol=2e-6 * scale)
    np.testing.assert_allclose(y[..., 1], expected.imag, atol=2e-6 * scale)


@pytest.mark.parametrize("size", [6, 7, 769])
def test_onesided_dft_of_reals_and_its_inverse(size: int):
    x = floats(2, size, 1)
    spectrum = transform(x, 0, 1)
    expected = np.fft.rfft(x[..., 0])
    np.testing.assert_allclose(spectrum[..., 0], expected.real, atol=1e-4)
    np.testing.assert_allclose(spectrum[..., 1], expected.imag, atol=1e-4)
    np.testing.assert_allclose(transform(spectrum, 1, 1, size), x, atol=1e-5)


def test_dft_at_a_symbolic_size_that_is_cut_or_filled():
    text = """agraph (float[b, n, 1] x) => (float[b, m, 2] y) <int64 k = {4}> {
        y = DFT (x, k) }"""
    for size in (3, 6):
        check(text, floats(2, size, 1), opset=20)
    check(
        "agraph (float[b, n, 2] x) => (float[b, n, 2] y) { y = DFT (x) }", floats(2, 5, 2), opset=20
    )


def test_stft_of_a_signal_of_any_length():
    text = """agraph (float[b, n, 1] x, float[6] w) => (float[b, f, 4, 2] y) <int64 s = {2}> {
        y = STFT (x, s, w) }"""
    for size in (6, 11):
        check(text, floats(2, size, 1), floats(6), opset=17)


@pytest.mark.parametrize("bins", [3, 8, 40])
def test_mel_weights_are_those_of_onnxruntime(bins: int):
    text = f"""agraph (float[1] x) => (float[65, {bins}] y)
        <int64 n = {{{bins}}}, int64 k = {{128}}, int64 r = {{8000}}, float l = {{20}},
         float u = {{3900}}> {{
        t = MelWeightMatrix (n, k, r, l, u) y = Add (t, x) }}"""
    check(text, np.zeros(1, np.float32), opset=17)


# Places -------------------------------------------------------------------------------------------


def test_col2im_adds_up_what_windows_share():
    text = """agraph (float[n, 12, 15] x) => (float[n, 3, 5, 6] y)
        <int64[2] s = {5, 6}, int64[2] k = {2, 2}> {
        y = Col2Im<strides = [2, 1], pads = [1, 0, 0, 1], dilations = [1, 2]> (x, s, k)
    }"""
    check(text, floats(2, 12, 15), opset=18)


def test_max_unpool_undoes_a_pooling():
    text = """agraph (float[n, 2, 6, 8] x) => (float[n, 2, 7, 9] z) <int64[4] s = {2, 2, 7, 9}> {
        y, i = MaxPool<kernel_shape = [2, 2], strides = [2, 2]> (x)
        z = MaxUnpool<kernel_shape = [2, 2], strides = [2, 2]> (y, i, s)
    }"""
    imported = import_model(model_of(text))
    x = floats(2, 2, 6, 8)
    (z,) = evaluate(imported, x)
    tops = x.reshape(2, 2, 3, 2, 4, 2).max((3, 5))
    assert sorted(z[z != 0]) == sorted(tops.reshape(-1))


# Random numbers -----------------------------------------------------------------------------------


def drawn(text: str, *inputs):
    """The one output of a model whose numbers are random."""
    (y,) = evaluate(import_model(model_of(text)), *inputs)
    return y


def test_philox_gives_the_numbers_of_its_authors():
    op = RandomBitsOp.of(shape=ShapeAttr((Expr.of(1),)), seed=0, stream=0)
    assert op.reference()[0].tolist() == [0x6CD10DF2_FF1DAE59]


def test_uniform_numbers_lie_between_their_bounds():
    text = """agraph () => (double[100, 100] y) {
        y = RandomUniform<shape = [100, 100], low = 2.0, high = 4.0, seed = 1.0, dtype = 11> ()
    }"""
    y = drawn(text)
    assert y.min() >= 2
    assert y.max() < 4
    assert abs(y.mean() - 3) < 0.02
    assert abs(y.std() - 2 / np.sqrt(12)) < 0.02


def test_normal_numbers_have_their_mean_and_deviation():
    y = drawn(
        """agraph (float[n, 100] x) => (float[n, 100] y) {
        y = RandomNormalLike<mean = 1.0, scale = 3.0, seed = 2.0> (x) }""",
        floats(100, 100),
    )
    assert abs(y.mean() - 1) < 0.1
    assert abs(y.std() - 3) < 0.1


def test_seeds_and_names_decide_the_numbers():
    text = """agraph (float[n] x) => (float[n] a, float[n] b, float[n] c, float[n] d) {
        a = RandomUniformLike<seed = 1.0> (x) b = RandomUniformLike<seed = 1.0> (x)
        c = RandomUniformLike<seed = 2.0> (x) d = RandomUniformLike (x) }"""
    a, b, c, d = evaluate(import_model(model_of(text)), floats(50))
    np.testing.assert_array_equal(a, b)
    again = evaluate(import_model(model_of(text)), floats(50))[3]
    np.testing.assert_array_equal(d, again)
    assert not np.array_equal(a, c)
    assert not np.array_equal(a, d)


def test_bernoulli_and_multinomial_draw_by_their_probabilities():
    chances = np.tile(np.array([0.0, 0.25, 1.0], np.float32), (4000, 1))
    y = drawn(
        "agraph (float[n, 3] x) => (float[n, 3] y) { y = Bernoulli<seed = 3.0> (x) }", chances
    )
    np.testing.assert_allclose(y.mean(0), [0, 0.25, 1], atol=0.03)
    logits = np.log(np.array([[1, 2, 5], [3, 0.001, 1]], np.float32))
    text = """agraph (float[n, 3] x) => (int32[n, 4000] y) {
        y = Multinomial<sample_size = 4000, seed = 3.0> (x) }"""
    z = drawn(text, logits)
    parts = np.stack([(z == k).mean(1) for k in range(3)], 1)
    np.testing.assert_allclose(parts, [[1 / 8, 2 / 8, 5 / 8], [3 / 4, 0, 1 / 4]], atol=0.03)


# Sorting ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("largest", [0, 1])
@pytest.mark.parametrize("count", [3, 40])
def test_top_k_of_lines_of_any_length(largest: int, count: int):
    text = f"""agraph (float[n, m] x) => (float[n, {count}] v, int64[n, {count}] i)
        <int64[1] k = {{{count}}}> {{ v, i = TopK<largest = {largest}> (x, k) }}"""
    check(text, np.round(floats(3, 50), 1))

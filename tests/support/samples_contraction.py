"""Samples of matrix products and convolutions: batches, groups, strides, dilations and pads."""
# pyright: basic

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
from hypothesis.strategies import SearchStrategy

from tests.support.sample import Sample, integers
from tests.support.samples_elementwise import numbers
from weft.dialects.graph import GraphOp
from weft.dialects.graph.core.op import AttributeValue
from weft.dialects.graph.core.types import BF16, F16, F32, F64, I32, UI8
from weft.dialects.graph.linalg.fourier import FourierPassOp
from weft.dialects.graph.linalg.systems import SolveOp
from weft.dialects.graph.linalg.triangular import CholeskyOp, TriangularSolveOp
from weft.dialects.graph.ops.conv import ConvOp, ConvTransposeOp
from weft.dialects.graph.ops.determinant import DetOp
from weft.dialects.graph.ops.einsum import EinsumOp
from weft.dialects.graph.ops.matmul import GemmOp, MatmulOp
from weft.dialects.graph.quantized.integer_products import IntegerConvOp, IntegerMatmulOp

ELEMENTS = st.sampled_from([F32, F32, F64, F64, F16, BF16, I32, UI8])
SIZE = st.integers(1, 4)


@st.composite
def any_bytes(draw, shape):
    """Bytes of the whole range, signed or not."""
    low, high, dtype = draw(st.sampled_from([(0, 255, np.uint8), (-128, 127, np.int8)]))
    return draw(integers(shape, low, high, dtype))


def of_one_element(draw):
    """Arrays of any shape, all of an element type that is drawn here."""
    element = draw(ELEMENTS)
    return lambda shape: draw(numbers(shape, element))


@st.composite
def matmul(draw, *, of_bytes: bool = False) -> Sample:
    """Vectors, matrices and stacks of them whose batch dims are broadcast."""
    inner = draw(st.sampled_from([1, 3, 4, 8]) if of_bytes else SIZE)
    array = (lambda shape: draw(any_bytes(shape))) if of_bytes else of_one_element(draw)
    batch = draw(st.sampled_from([(), (2,), (2, 1), (2, 3)]))
    narrow = draw(st.sampled_from([batch, batch[1:], (1,) * len(batch)]))
    left = draw(st.sampled_from([(*batch, draw(SIZE), inner), (inner,)]))
    right = draw(st.sampled_from([(*narrow, inner, draw(SIZE)), (inner,)]))
    return Sample([array(left), array(right)])


@st.composite
def gemm(draw) -> Sample:
    """Matrices either way up, with and without an addend that is broadcast."""
    element = draw(ELEMENTS)
    m, n, k = draw(SIZE), draw(SIZE), draw(SIZE)
    flipped = draw(st.booleans()), draw(st.booleans())
    a = draw(numbers((k, m) if flipped[0] else (m, k), element))
    b = draw(numbers((n, k) if flipped[1] else (k, n), element))
    addend = draw(st.sampled_from([None, (), (n,), (m, 1), (1, n), (m, n)]))
    scales = st.sampled_from([1.0, 2.0])
    attributes = {
        "alpha": draw(scales),
        "beta": draw(scales),
        "transpose_a": flipped[0],
        "transpose_b": flipped[1],
    }
    return Sample([a, b, None if addend is None else draw(numbers(addend, element))], attributes)


@st.composite
def convolution(draw, *, is_transposed: bool = False, of_bytes: bool = False) -> Sample:
    """An image and a filter of one to three spatial dims; depthwise ones too."""
    rank = draw(st.sampled_from([1, 2, 2, 3]))
    size = 3 if rank < 3 else 2
    group, depth, per_group = draw(st.integers(1, 3)), draw(st.integers(1, 2)), draw(SIZE) // 2 or 1
    kernel = [draw(st.integers(1, size)) for _ in range(rank)]
    dilations = [draw(st.integers(1, 2)) for _ in range(rank)]
    strides = [draw(st.integers(1, 2)) for _ in range(rank)]
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    spatial = [least + draw(st.integers(0, size - 1)) for least in reach]
    attributes: dict[str, AttributeValue] = {
        "group": group,
        "dilations": dilations,
        "strides": strides,
    }
    if draw(st.booleans()):
        attributes["pads"] = [draw(st.integers(0, (least - 1) // 2)) for least in reach * 2]
    if is_transposed and draw(st.booleans()):
        attributes["output_padding"] = [draw(st.integers(0, stride - 1)) for stride in strides]
    channels = (group * depth, per_group) if is_transposed else (group * per_group, depth)
    if of_bytes:
        attributes["outside"] = draw(st.sampled_from([0, 3, 127]))
    array = (lambda shape: draw(any_bytes(shape))) if of_bytes else of_one_element(draw)
    addends = (lambda shape: draw(numbers(shape, I32))) if of_bytes else array
    image = array((draw(st.integers(1, 2)), group * depth, *spatial))
    bias = addends((group * per_group,)) if draw(st.booleans()) else None
    return Sample([image, array((*channels, *kernel)), bias], attributes)


EQUATIONS = (
    "ij,jk->ik",
    "bhid,bhjd->bhij",
    "i,j->ij",
    "i,i->",
    "ij->j",
    "ij->ji",
    "ii->i",
    "ii,ij->",
    "abcb,cd->da",
    "ij,jk,kl->il",
    "bi,oij,bj->bo",
)


@st.composite
def einsum(draw) -> Sample:
    """Products, sums, transposes and diagonals; some dims are broadcast, some sums in blocks."""
    equation, element = draw(st.sampled_from(EQUATIONS)), draw(ELEMENTS)
    sizes = {
        letter: draw(st.integers(1, 3)) for letter in sorted(set(equation)) if letter.isalpha()
    }
    terms = equation.partition("->")[0].split(",")
    dropped = draw(st.sampled_from(["", "", "j", "b"])) if len(terms) > 1 else ""
    operands = [
        draw(numbers(tuple(sizes[c] for c in terms[0]), element)),
        *(
            draw(numbers(tuple(1 if c == dropped else sizes[c] for c in term), element))
            for term in terms[1:]
        ),
    ]
    block = draw(st.sampled_from([{}, {"block": 1}, {"block": 2}]))
    return Sample(operands, {"equation": equation, **block})


@st.composite
def squares(draw) -> Sample:
    """Matrices and stacks of them, some singular."""
    element, side = draw(st.sampled_from([F32, F64, F16, BF16])), draw(st.integers(1, 3))
    batch = draw(st.sampled_from([(), (2,), (2, 3)]))
    return Sample([draw(numbers((*batch, side, side), element, -1, 1))])


@st.composite
def fourier_pass(draw) -> Sample:
    """Points of prime and other counts, of reals or complex numbers, with and without factors."""
    element, points = draw(st.sampled_from([F32, F64])), draw(st.integers(1, 16))
    shape = (draw(SIZE) // 2 + 1, points, draw(SIZE), draw(SIZE))
    real, imag = (draw(numbers(shape, element, -1, 1)) for _ in range(2))
    dims = [draw(st.sampled_from([1, size])) for size in shape[2:]]
    factors = draw(numbers((2, points, *dims), element, -1, 1))
    is_real, plain, inverse = (draw(st.booleans()) for _ in range(3))
    return Sample(
        [real, None if is_real else imag, None if plain else factors], {"inverse": inverse}
    )


@st.composite
def positive_definite(draw) -> Sample:
    """Symmetric matrices far from singular ones, and stacks of them."""
    element, side = draw(st.sampled_from([F32, F64])), draw(st.integers(1, 5))
    x = draw(numbers((*draw(st.sampled_from([(), (2,), (2, 3)])), side, side), element, -1, 1))
    return Sample([x @ x.swapaxes(-1, -2) + 2 * np.eye(side, dtype=x.dtype)])


@st.composite
def triangular(draw) -> Sample:
    """Triangles of either half, with ones on the diagonal or others, and right sides."""
    element, side = draw(st.sampled_from([F32, F64])), draw(st.integers(1, 5))
    batch = draw(st.sampled_from([(), (2,), (2, 3)]))
    a = draw(numbers((*batch, side, side), element, -1, 1)) / 2
    right = draw(numbers((*batch, side, draw(SIZE)), element))
    attributes = {name: draw(st.booleans()) for name in ("lower", "unit")}
    return Sample([(a + 2 * np.eye(side)).astype(a.dtype), right], attributes)


@st.composite
def system(draw) -> Sample:
    """Matrices far from singular ones, whose rows are in any order, and right sides."""
    sample = draw(triangular())
    a, right = sample.operands
    order = draw(st.permutations(range(a.shape[-1])))
    return Sample([np.ascontiguousarray(a[..., order, :]), right])


SAMPLES: dict[type[GraphOp], SearchStrategy[Sample]] = {
    DetOp: squares(),
    CholeskyOp: positive_definite(),
    TriangularSolveOp: triangular(),
    SolveOp: system(),
    EinsumOp: einsum(),
    FourierPassOp: fourier_pass(),
    MatmulOp: matmul(),
    GemmOp: gemm(),
    ConvOp: convolution(),
    ConvTransposeOp: convolution(is_transposed=True),
    IntegerMatmulOp: matmul(of_bytes=True),
    IntegerConvOp: convolution(of_bytes=True),
}

"""Samples of operators that read between elements: resampling along an axis, points anywhere."""
# pyright: basic

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
from hypothesis.strategies import SearchStrategy

from tests.support.sample import Sample, bools, floats, integers, shapes
from tests.support.samples_elementwise import numbers
from weft.dialects.expr import Expr
from weft.dialects.graph import GraphOp
from weft.dialects.graph.core.dtypes import numpy_dtype
from weft.dialects.graph.core.op import AttributeValue
from weft.dialects.graph.core.types import (
    BF16,
    BOOL,
    F16,
    F32,
    F64,
    I32,
    I64,
    UI8,
    ShapeAttr,
)
from weft.dialects.graph.ops.random import MersenneTwisterOp, RandomBitsOp, ThreefryOp
from weft.dialects.graph.ops.region_pool import MaxRegionPoolOp
from weft.dialects.graph.ops.resample import ResampleOp
from weft.dialects.graph.ops.sort import ArgsortOp
from weft.dialects.graph.ops.unfold import FoldOp, UnfoldOp
from weft.dialects.graph.ops.winograd import WinogradFilterOp, WinogradResultOp, WinogradTilesOp
from weft.dialects.graph.reindexing.nonzero import NonzeroOp
from weft.dialects.loop.scalar import compute_type

ORDERED = [F32, F64, F16, BF16, I32, I64, UI8, BOOL]
FLOAT = st.sampled_from([F32, F32, F64, F16, BF16])


@st.composite
def resamples(draw) -> Sample:
    """Indices of either sign, a few taps, any axis."""
    element = draw(FLOAT)
    shape = draw(shapes(1))
    axis = draw(st.integers(0, len(shape) - 1))
    batch = draw(st.integers(0, axis))
    table = (*shape[:batch], draw(st.integers(1, 4)), draw(st.integers(1, 3)))
    dim = shape[axis]
    indices = draw(integers(table, -dim, dim - 1, draw(st.sampled_from([np.int32, np.int64]))))
    weights = draw(floats(table, dtype=numpy_dtype(compute_type(element))))
    x = draw(floats(shape, dtype=numpy_dtype(element)))
    attributes = {"axis": axis - draw(st.sampled_from([0, len(shape)])), "batch_dims": batch}
    return Sample([x, indices, weights], attributes)


@st.composite
def places(draw) -> Sample:
    """Bools, and as many places as are true, or one more or fewer."""
    array = draw(shapes(1).flatmap(bools))
    count = max(0, int(array.sum()) + draw(st.integers(-1, 1)))
    return Sample([array], {"count": [Expr.of(count)]})


@st.composite
def unfolds(draw, *, is_transposed: bool = False) -> Sample:
    """Windows with strides, dilations and pads, over one to three dims."""
    rank = draw(st.sampled_from([1, 2, 2, 3]))
    kernel, strides, dilations = ([draw(st.integers(1, 2)) for _ in range(rank)] for _ in range(3))
    pads = [draw(st.integers(0, 1)) for _ in range(2 * rank)]
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    spatial = [least + draw(st.integers(0, 2)) for least in reach]
    attributes: dict[str, AttributeValue] = {
        "strides": strides,
        "dilations": dilations,
        "pads": pads,
    }
    element = draw(st.sampled_from([F32, F64, BF16, I32]))
    lead = draw(st.integers(1, 2)), draw(st.integers(1, 2))
    if not is_transposed:
        return Sample([draw(numbers((*lead, *spatial), element))], {"kernel": kernel, **attributes})
    steps = zip(spatial, reach, strides, pads, pads[rank:], strict=False)
    positions = [(dim + a + b - r) // s + 1 for dim, r, s, a, b in steps]
    x = draw(numbers((*lead, *kernel, *positions), element))
    return Sample([x], {"spatial": ShapeAttr(tuple(map(Expr.of, spatial))), **attributes})


@st.composite
def winograd_filters(draw) -> Sample:
    """Filters for tiles of both sizes."""
    shape = draw(st.integers(1, 3)), draw(st.integers(1, 3)), 3, 3
    filters = draw(numbers(shape, draw(st.sampled_from([F32, F64]))))
    return Sample([filters], {"size": draw(st.sampled_from([2, 4]))})


@st.composite
def winograd_tiles(draw) -> Sample:
    """Tiles of both sizes, the last of which may stick out, with and without pads."""
    pads = [draw(st.integers(0, 1)) for _ in range(4)]
    shape = draw(st.integers(1, 2)), draw(st.integers(1, 2)), *(draw(st.integers(3, 8)), 5)
    x = draw(numbers(shape, draw(st.sampled_from([F32, F64]))))
    return Sample([x], {"size": draw(st.sampled_from([2, 4])), "pads": pads})


@st.composite
def winograd_results(draw) -> Sample:
    """Results that whole tiles cover, or that cut them; with and without a bias."""
    element, size = draw(st.sampled_from([F32, F64])), draw(st.sampled_from([2, 4]))
    height, width = draw(st.integers(1, 8)), draw(st.integers(3, 5))
    tiles = -(-height // size) * -(-width // size)
    x = draw(numbers((draw(st.integers(1, 2)), 2, (size + 2) ** 2, tiles), element))
    bias = draw(numbers((2,), element)) if draw(st.booleans()) else None
    spatial = ShapeAttr((Expr.of(height), Expr.of(width)))
    return Sample([x, bias], {"size": size, "spatial": spatial})


@st.composite
def random_bits(draw) -> Sample:
    """Any seed and stream, without and with a key of the call's, whole or a part."""
    dims = draw(shapes())
    attributes = {"seed": draw(st.integers(0, 2**32 - 1)), "stream": draw(st.integers(0, 255))}
    attributes["shape"] = ShapeAttr(tuple(map(Expr.of, dims)))
    key = draw(st.none() | st.integers(0, 2**64 - 1))
    start = draw(st.none() | st.integers(0, 2**40))
    if start is not None:
        attributes["whole"] = ShapeAttr(tuple(Expr.of(dim * 3) for dim in dims))
    kinds = zip((key, start), (np.uint64, np.int64), strict=True)
    return Sample([None if x is None else np.asarray(x, kind) for x, kind in kinds], attributes)


@st.composite
def threefry_words(draw) -> Sample:
    """Any words, with a key of each count's own, or one of all."""
    shape = draw(shapes())
    random = np.random.default_rng(draw(st.integers(0, 1000)))
    dims = draw(st.sampled_from([(), shape])), shape
    return Sample([random.integers(0, 2**64, each, np.uint64) for each in dims])


@st.composite
def mersenne_words(draw) -> Sample:
    """Fewer and more words than the generator's state has, and as many."""
    count = draw(st.sampled_from([0, 1, 227, 623, 624, 1300]))
    return Sample(
        [], {"count": ShapeAttr((Expr.of(count),)), "seed": draw(st.integers(0, 2**32 - 1))}
    )


@st.composite
def argsorts(draw) -> Sample:
    """Few and many positions, equal elements, NaNs."""
    shape = draw(shapes(1, max_dims=2, max_side=4))
    axis = draw(st.integers(0, len(shape) - 1))
    long = draw(st.sampled_from([1, 2, 3, 17, 70]))
    shape = tuple(long if at == axis else dim for at, dim in enumerate(shape))
    x = draw(numbers(shape, draw(st.sampled_from([*ORDERED, F32]))))
    if x.dtype.kind == "f" and draw(st.booleans()):
        x.reshape(-1)[:: draw(st.integers(2, 5))] = np.nan
    count = draw(st.sampled_from([0, 1, min(3, long), long]))
    descending = draw(st.booleans())
    attributes = {"axis": axis, "descending": descending, "count": ShapeAttr((Expr.of(count),))}
    return Sample([x], attributes)


@st.composite
def region_pools(draw) -> Sample:
    """Regions inside, across and outside the image."""
    element = draw(st.sampled_from([F32, F32, F64, F16]))
    images, count = draw(st.integers(1, 2)), draw(st.integers(1, 3))
    image = draw(numbers((images, 2, draw(st.integers(1, 5)), draw(st.integers(1, 5))), element))
    corners = draw(integers((count, 4), -3, 8))
    which = draw(integers((count, 1), 0, images - 1))
    regions = np.concatenate([which, corners], 1).astype(numpy_dtype(element))
    pooled = [draw(st.integers(1, 3)), draw(st.integers(1, 2))]
    scale = draw(st.sampled_from([1.0, 0.5]))
    return Sample([image, regions], {"pooled": pooled, "scale": scale})


SAMPLES: dict[type[GraphOp], SearchStrategy[Sample]] = {
    ArgsortOp: argsorts(),
    MersenneTwisterOp: mersenne_words(),
    NonzeroOp: places(),
    RandomBitsOp: random_bits(),
    ThreefryOp: threefry_words(),
    MaxRegionPoolOp: region_pools(),
    ResampleOp: resamples(),
    UnfoldOp: unfolds(),
    FoldOp: unfolds(is_transposed=True),
    WinogradFilterOp: winograd_filters(),
    WinogradTilesOp: winograd_tiles(),
    WinogradResultOp: winograd_results(),
}

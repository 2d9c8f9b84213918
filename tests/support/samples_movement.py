"""Samples of constants and of operators that move, take, repeat or generate elements."""
# pyright: basic

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
from hypothesis.strategies import SearchStrategy
from xdsl.dialects.builtin import UnitAttr

from tests.support.sample import Sample, integers, shapes
from tests.support.samples_elementwise import numbers
from weft.dialects.expr import Expr
from weft.dialects.graph import GraphOp
from weft.dialects.graph.core.dtypes import numpy_dtype
from weft.dialects.graph.core.types import BOOL, F16, F32, F64, I32, I64, NUMBERS, UI8, ShapeAttr
from weft.dialects.graph.mesh import shard
from weft.dialects.graph.mesh.attributes import ShardingAttr
from weft.dialects.graph.ops import scan
from weft.dialects.graph.regions import after, derivative, watch
from weft.dialects.graph.reindexing import (
    constant,
    gather,
    generate,
    insert,
    movement,
    pad,
    rearrange,
    scatter,
    slicing,
)
from weft.dialects.graph.reindexing.constant import LiteralAttr

ELEMENTS = (F32, F64, I64, F16, BOOL, UI8)


def sizes(values) -> ShapeAttr:
    """A list of numbers as an attribute of expressions."""
    return ShapeAttr(tuple(Expr.of(int(value)) for value in values))


@st.composite
def tensors(draw, min_dims=0, max_dims=3, min_side=1, max_side=4, taken=ELEMENTS):
    """An array of any element type."""
    shape = draw(shapes(min_dims, max_dims, min_side, max_side))
    return draw(numbers(shape, draw(st.sampled_from(taken))))


@st.composite
def literals(draw) -> Sample:
    shape = draw(shapes(max_dims=2))
    element = draw(st.sampled_from(NUMBERS))
    array = draw(numbers(shape, element)).reshape(-1)
    values = [x.item() if array.dtype.kind in "iu" else float(x) for x in array]
    if draw(st.booleans()):
        values = values[:1]
    attributes = {"literal": LiteralAttr(tuple(values)), "shape": sizes(shape), "element": element}
    return Sample([], attributes)


@st.composite
def dims(draw) -> Sample:
    values = draw(st.lists(st.integers(0, 9), min_size=1, max_size=4))
    if draw(st.booleans()):
        return Sample([], {"values": sizes(values[:1]), "scalar": UnitAttr()})
    return Sample([], {"values": sizes(values)})


@st.composite
def reshapes(draw) -> Sample:
    array = draw(tensors())
    factors = [f for dim in array.shape for f in draw(st.sampled_from([[dim], [1, dim], [dim, 1]]))]
    merged = [int(np.prod(factors))] if draw(st.booleans()) else factors
    return Sample([array], {"shape": sizes(draw(st.permutations(merged)))})


@st.composite
def transposes(draw) -> Sample:
    array = draw(tensors())
    return Sample([array], {"permutation": draw(st.permutations(range(array.ndim)))})


@st.composite
def expands(draw) -> Sample:
    shape = draw(shapes(1))
    source = tuple(draw(st.sampled_from([dim, 1])) for dim in shape)
    source = source[draw(st.integers(0, len(source))) :]
    wanted = [draw(st.sampled_from([dim, 1])) for dim in shape]
    wanted = wanted[::-1][: len(source)]
    wanted += shape[::-1][len(wanted) :]
    array = draw(numbers(source, draw(st.sampled_from(ELEMENTS))))
    return Sample([array], {"shape": sizes(wanted[::-1])})


@st.composite
def boxes(draw, shape) -> tuple[list[int], list[int], list[int]]:
    """Starts, sizes and steps of a strided box inside a shape."""
    starts, counts, steps = [], [], []
    for dim in shape:
        step = draw(st.sampled_from([1, 1, 2, -1, -2]))
        start = draw(st.integers(0, dim - 1))
        room = (dim - 1 - start if step > 0 else start) // abs(step) + 1
        starts.append(start)
        counts.append(draw(st.integers(0 if draw(st.booleans()) else 1, room)))
        steps.append(step)
    return starts, counts, steps


@st.composite
def slices(draw) -> Sample:
    array = draw(tensors(1))
    starts, counts, steps = draw(boxes(array.shape))
    attributes = {"starts": sizes(starts), "sizes": sizes(counts), "steps": steps}
    return Sample([array], attributes)


@st.composite
def places(draw) -> Sample:
    shape = draw(shapes(1))
    starts, counts, steps = draw(boxes(shape))
    array = draw(numbers(tuple(counts), draw(st.sampled_from(ELEMENTS))))
    return Sample([array], {"shape": sizes(shape), "starts": sizes(starts), "steps": steps})


@st.composite
def insertions(draw) -> Sample:
    array = draw(tensors(1))
    starts, counts, steps = draw(boxes(array.shape))
    updates = np.resize(array, counts) if 0 not in counts else np.zeros(counts, array.dtype)
    return Sample([array, updates], {"starts": sizes(starts), "steps": steps})


@st.composite
def concats(draw) -> Sample:
    first = draw(tensors(1))
    axis = draw(st.integers(0, first.ndim - 1))
    parts = [first]
    for size in draw(st.lists(st.integers(0, 3), max_size=2)):
        shape = tuple(size if a == axis else dim for a, dim in enumerate(first.shape))
        parts.append(np.resize(first, shape) if size else np.zeros(shape, first.dtype))
    return Sample(parts, {"axis": axis - draw(st.sampled_from([0, first.ndim]))})


@st.composite
def splits(draw) -> Sample:
    array = draw(tensors(1))
    axis = draw(st.integers(0, array.ndim - 1))
    cuts = sorted(draw(st.lists(st.integers(0, array.shape[axis]), max_size=2)))
    parts = np.diff([0, *cuts, array.shape[axis]])
    return Sample([array], {"axis": axis, "sizes": sizes(parts)})


@st.composite
def pads(draw) -> Sample:
    array = draw(tensors(1))
    mode = draw(st.sampled_from(pad.MODES))
    least = -1 if mode == "constant" and min(array.shape) > 2 else 0
    count = 2 * array.ndim
    amounts = draw(st.lists(st.integers(least, 3), min_size=count, max_size=count))
    operands = [array]
    if mode == "constant" and draw(st.booleans()):
        operands.append(np.asarray(array.max()))
    return Sample(operands, {"pads": sizes(amounts), "mode": mode})


@st.composite
def tiles(draw) -> Sample:
    array = draw(tensors())
    return Sample([array], {"repeats": sizes([draw(st.integers(0, 3)) for _ in array.shape])})


@st.composite
def images(draw, to_depth: bool) -> Sample:
    batch, depth, height, width = (draw(st.integers(1, 2)) for _ in range(4))
    side = draw(st.integers(1, 3))
    shape = (batch, depth * side**2, height, width)
    if to_depth:
        shape = (batch, depth, height * side, width * side)
    array = draw(numbers(shape, draw(st.sampled_from(ELEMENTS))))
    return Sample([array], {"blocksize": side, "mode": draw(st.sampled_from(["DCR", "CRD"]))})


@st.composite
def triangles(draw) -> Sample:
    attributes = {"upper": draw(st.booleans()), "k": draw(st.integers(-3, 3))}
    return Sample([draw(tensors(2))], attributes)


@st.composite
def sequences(draw) -> Sample:
    array = draw(tensors(2))
    batch = draw(st.integers(0, 1))
    lengths = draw(integers(array.shape[batch], 0, array.shape[1 - batch]))
    return Sample([array, lengths], {"batch_axis": batch, "time_axis": 1 - batch})


def indices(shape, dim: int):
    """Indices into an axis, from its front or its end."""
    return st.sampled_from([I32, I64]).flatmap(
        lambda element: integers(shape, -dim, dim - 1, numpy_dtype(element))
    )


@st.composite
def gathers(draw) -> Sample:
    array = draw(tensors(1))
    axis = draw(st.integers(-array.ndim, array.ndim - 1))
    shape = draw(shapes(max_dims=2))
    return Sample([array, draw(indices(shape, array.shape[axis]))], {"axis": axis})


def narrower(draw, shape, axis: int) -> tuple[int, ...]:
    """A shape that is no larger off the axis."""
    return tuple(
        draw(st.integers(1, 4 if position == axis else dim)) for position, dim in enumerate(shape)
    )


@st.composite
def element_gathers(draw) -> Sample:
    array = draw(tensors(1))
    axis = draw(st.integers(0, array.ndim - 1))
    size = draw(st.integers(1, 4))  # off the axis ONNX's evaluator wants all of the operand
    shape = tuple(size if a == axis else dim for a, dim in enumerate(array.shape))
    return Sample([array, draw(indices(shape, array.shape[axis]))], {"axis": axis})


def vectors(draw, shape, lead: tuple[int, ...]) -> np.ndarray:
    """Index vectors into the leading axes of a shape."""
    columns = [draw(integers(lead, -dim, dim - 1)) for dim in shape]
    return np.stack(columns, -1)


@st.composite
def vector_gathers(draw) -> Sample:
    array = draw(tensors(1))
    batch = draw(st.integers(0, array.ndim - 1))
    length = draw(st.integers(1, array.ndim - batch))
    lead = (*array.shape[:batch], *draw(shapes(max_dims=2)))
    places = vectors(draw, array.shape[batch : batch + length], lead)
    return Sample([array, places], {"batch_dims": batch})


REDUCTIONS = ("none", "add", "mul", "min", "max")


@st.composite
def element_scatters(draw) -> Sample:
    """Without a reduction every index is used once."""
    array = draw(tensors(1, taken=(F32, F64, I64)))
    reduction = draw(st.sampled_from(REDUCTIONS))
    axis = draw(st.integers(0, array.ndim - 1))
    shape = list(narrower(draw, array.shape, axis))
    shape[axis] = min(shape[axis], array.shape[axis])
    places = draw(indices(tuple(shape), array.shape[axis]))
    if reduction == "none":
        rows = np.argsort(draw(integers(array.shape, 0, 10**6)), axis)
        places = rows[tuple(slice(size) for size in shape)] - draw(
            st.sampled_from([0, array.shape[axis]])
        )
    updates = draw(integers(tuple(shape), -3, 3)).astype(array.dtype)
    return Sample([array, places, updates], {"axis": axis, "reduction": reduction})


@st.composite
def vector_scatters(draw) -> Sample:
    """Without a reduction every place is used once."""
    array = draw(tensors(1, taken=(F32, F64, I64)))
    reduction = draw(st.sampled_from(REDUCTIONS))
    length = draw(st.integers(1, array.ndim))
    if reduction == "none":
        every = np.argwhere(np.ones(array.shape[:length]))
        order = np.argsort(draw(integers(len(every), 0, 10**6)))
        places = every[order[: draw(st.integers(1, len(every)))]]
    else:
        places = vectors(draw, array.shape[:length], draw(shapes(max_dims=2)))
    shape = (*places.shape[:-1], *array.shape[length:])
    updates = draw(integers(shape, -3, 3)).astype(array.dtype)
    return Sample([array, places, updates], {"reduction": reduction})


@st.composite
def scans(draw) -> Sample:
    array = draw(tensors(1, taken=NUMBERS))
    attributes = {"axis": draw(st.integers(-array.ndim, array.ndim - 1))}
    attributes |= {"exclusive": draw(st.booleans()), "reverse": draw(st.booleans())}
    return Sample([array], attributes)


@st.composite
def sections(draw) -> Sample:
    end = {"end": draw(st.integers(-3, 3))} if draw(st.booleans()) else {}
    return Sample([draw(tensors())], {"start": draw(st.integers(-3, 3)), **end})


@st.composite
def ranges(draw) -> Sample:
    element = draw(st.sampled_from(NUMBERS))
    start, delta = draw(numbers((), element)), draw(numbers((), element))
    return Sample([start, delta], {"size": sizes([draw(st.integers(0, 5))])})


@st.composite
def one_hots(draw) -> Sample:
    depth = draw(st.integers(1, 4))
    places = draw(integers(draw(shapes(max_dims=2)), -depth - 1, depth + 1))
    axis = draw(st.integers(-places.ndim - 1, places.ndim))
    values = draw(numbers((2,), draw(st.sampled_from(ELEMENTS))))
    return Sample([places, values], {"depth": sizes([depth]), "axis": axis})


SAMPLES: dict[type[GraphOp], SearchStrategy[Sample]] = {
    constant.ConstantOp: literals(),
    constant.DimsOp: dims(),
    movement.IdentityOp: tensors().map(lambda array: Sample([array])),
    derivative.StopGradientOp: tensors().map(lambda array: Sample([array])),
    shard.ShardOp: tensors().map(
        lambda array: Sample([array], {"sharding": ShardingAttr(((),) * array.ndim)})
    ),
    shard.StageOp: tensors().map(lambda array: Sample([array], {"index": 1})),
    shard.StageOfOp: tensors().map(lambda array: Sample([array, array])),
    watch.WatchOp: tensors().map(lambda array: Sample([array], {"label": "hidden"})),
    after.AfterOp: tensors().map(lambda array: Sample([array, array, np.ones(3, np.int64)])),
    movement.AssumeOp: tensors().map(lambda array: Sample([array], {"shape": array.shape})),
    movement.DynamicReshapeOp: reshapes(),
    movement.ReshapeOp: reshapes(),
    movement.TransposeOp: transposes(),
    movement.ExpandOp: expands(),
    slicing.SliceOp: slices(),
    slicing.ScatterSliceOp: places(),
    insert.InsertSliceOp: insertions(),
    slicing.ConcatOp: concats(),
    slicing.SplitOp: splits(),
    pad.PadOp: pads(),
    rearrange.TileOp: tiles(),
    rearrange.DepthToSpaceOp: images(to_depth=False),
    rearrange.SpaceToDepthOp: images(to_depth=True),
    rearrange.TriluOp: triangles(),
    rearrange.ReverseSequenceOp: sequences(),
    gather.GatherOp: gathers(),
    gather.GatherElementsOp: element_gathers(),
    gather.GatherNdOp: vector_gathers(),
    scatter.ScatterElementsOp: element_scatters(),
    scatter.ScatterNdOp: vector_scatters(),
    scan.CumsumOp: scans(),
    scan.CumprodOp: scans(),
    generate.ShapeOp: sections(),
    generate.SizeOp: tensors().map(lambda array: Sample([array])),
    generate.RangeOp: ranges(),
    generate.OneHotOp: one_hots(),
}

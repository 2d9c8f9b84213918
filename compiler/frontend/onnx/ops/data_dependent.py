"""ONNX operators whose result has a size that depends on values: NonZero, Compress, Unique,
NonMaxSuppression and ImageDecoder. What they count becomes a size of the program.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.ir import SSAValue

from weft.compiler.abi.constants import IMAGE_PIXELS, IMAGE_SIZE
from weft.compiler.frontend.onnx.importer import ControlTable, GraphImporter
from weft.compiler.frontend.onnx.node import OnnxNode, dims_attr, normal_axis
from weft.compiler.frontend.onnx.ops.control import count_of, for_each, scalar_dim
from weft.compiler.frontend.onnx.ops.strings.comparison import ranks
from weft.compiler.frontend.onnx.strings.spans import flat, made, taken
from weft.dialects.errors import ModelError, UnsupportedError
from weft.dialects.expr import Expr, minimum
from weft.dialects.graph.core.types import BOOL, F32, I64, UI8, TensorType, tensor, type_of
from weft.dialects.graph.regions.effects import HostCallOp

MOST_COLUMNS = 64
"""Slices of more elements than this are not compared by Unique."""

CHANNELS = {"RGB": 3, "BGR": 3, "Grayscale": 1}
"""Those of decoded images, by their format."""


def import_nonzero(importer: GraphImporter, node: OnnxNode) -> Sequence[SSAValue]:
    """The indices of what is not zero, an axis a row; a scalar counts as a vector of one."""
    operand = node.operand(0)
    if type_of(operand).rank == 0:
        operand = node.reshape(operand, [1])
    return [_positions(importer, node, node.cast(operand, BOOL))]


def _positions(importer: GraphImporter, node: OnnxNode, holds: SSAValue) -> SSAValue:
    """Where bools are true, as many as there are."""
    b, rank = importer.b, type_of(holds).rank
    total = b.reduce_sum(b.cast(holds, to=I64), axes=list(range(rank)), keepdims=False)
    count = importer.bind_size(total, f"{node.proto.name}_count")
    return b.nonzero(holds, count=dims_attr([count]))


def _vector(importer: GraphImporter, matrix: SSAValue) -> SSAValue:
    """The one row of a matrix."""
    return importer.b.reshape(matrix, shape=dims_attr([type_of(matrix).shape[1]]))


def import_compress(importer: GraphImporter, node: OnnxNode) -> Sequence[SSAValue]:
    """The slices along an axis, or the elements, at which a vector of bools is true."""
    source = node.operand(0)
    if not node.has("axis"):
        source, axis = node.reshape(source, [type_of(source).size]), 0
    else:
        axis = normal_axis(node.integer("axis", 0), type_of(source).rank)
    extent, (count,) = type_of(source).shape[axis], node.shape_of(1, 1)
    node.require_most(count, extent, "a condition of at most {} elements")
    positions = _vector(importer, _positions(importer, node, node.operand(1)))
    return [importer.b.gather(source, positions, axis=axis)]


# Unique ---------------------------------------------------------------------------------------


def import_unique(importer: GraphImporter, node: OnnxNode) -> Sequence[SSAValue]:
    """The distinct elements or slices, in sorted order or that of their first occurrence; where
    each is first, which of them each one was, and how often.
    """
    b, source = importer.b, node.operand(0)
    spans = node.texts.spans.get(node.proto.input[0])
    if spans is not None:
        source = ranks(node, spans)
    axis = normal_axis(node.integer("axis", 0), type_of(source).rank) if node.has("axis") else 0
    if not node.has("axis"):
        source = node.reshape(source, [type_of(source).size])
        spans = flat(b, spans) if spans else None
    extent = type_of(source).shape[axis]
    columns = _columns(importer, source, axis)
    order = scalar_range(importer, extent)
    for column in reversed(columns):
        keys = b.gather(column, order, axis=0)
        sorted_rows = b.argsort(keys, axis=0, descending=False, count=dims_attr([extent]))
        order = b.gather(order, sorted_rows, axis=0)
    differs = _starts(importer, [b.gather(column, order, axis=0) for column in columns], extent)
    starts = _vector(importer, _positions(importer, node, differs))
    group = b.sub(
        b.cumsum(b.cast(differs, to=I64), axis=0, exclusive=False, reverse=False),
        b.constant_of(1, I64),
    )
    inverse = b.scatter_elements(order, order, group, axis=0, reduction="none")
    first = b.gather(order, starts, axis=0)
    ends = _shifted(importer, starts, extent)
    counts = b.sub(ends, starts)
    if not node.flag("sorted", default=True):
        count = type_of(first).shape[0]
        turn = b.argsort(first, axis=0, descending=False, count=dims_attr([count]))
        rank = b.scatter_elements(
            turn, turn, scalar_range(importer, count), axis=0, reduction="none"
        )
        first, counts = (b.gather(each, turn, axis=0) for each in (first, counts))
        inverse = b.gather(rank, inverse, axis=0)
    if spans is not None:
        return [made(node, 0, taken(b, spans, first, axis)), first, inverse, counts]
    return [b.gather(source, first, axis=axis), first, inverse, counts]


def scalar_range(importer: GraphImporter, extent: Expr) -> SSAValue:
    """The numbers from 0 up to an extent."""
    zero, one = (importer.b.constant_of(number, I64) for number in (0, 1))
    return importer.b.range(zero, one, size=dims_attr([extent]))


def _columns(importer: GraphImporter, source: SSAValue, axis: int) -> list[SSAValue]:
    """What slices along an axis are compared by: a vector for each of their elements."""
    b, shape = importer.b, type_of(source).shape
    extent = shape[axis]
    width = tensor([dim for each, dim in enumerate(shape) if each != axis], I64).size.constant
    if width is None or width > MOST_COLUMNS:
        raise UnsupportedError(f"requires slices of at most {MOST_COLUMNS} elements, got {width}")
    order = [axis, *(each for each in range(len(shape)) if each != axis)]
    rows = b.reshape(b.transpose(source, permutation=order), shape=dims_attr([extent, width]))
    return [
        b.reshape(b.gather(rows, b.constant_of(column, I64), axis=1), shape=dims_attr([extent]))
        for column in range(width)
    ]


def _starts(importer: GraphImporter, columns: Sequence[SSAValue], extent: Expr) -> SSAValue:
    """Which of sorted slices differ from the one before."""
    b = importer.b
    before = b.max(b.sub(scalar_range(importer, extent), b.constant_of(1, I64)), _zero(importer))
    differs = b.equal(scalar_range(importer, extent), _zero(importer))
    for column in columns:
        other = b.logical_not(b.equal(column, b.gather(column, before, axis=0)))
        differs = b.logical_or(differs, other)
    return differs


def _zero(importer: GraphImporter) -> SSAValue:
    return importer.b.constant_of(0, I64)


def _shifted(importer: GraphImporter, starts: SSAValue, extent: Expr) -> SSAValue:
    """Where the next group starts, for the last one the extent."""
    b, count = importer.b, type_of(starts).shape[0]
    end = b.reshape(scalar_dim(importer, extent), shape=dims_attr([1]))
    all_starts = b.concat(starts, end, axis=0)
    return b.slice(all_starts, starts=dims_attr([Expr.of(1)]), sizes=dims_attr([count]), steps=[1])


# NonMaxSuppression ----------------------------------------------------------------------------


def import_non_max_suppression(importer: GraphImporter, node: OnnxNode) -> Sequence[SSAValue]:
    """Boxes by descending score, each of which drops those that overlap it: batch, class, box.

    A loop takes the best of what is left, for all batches and classes at once.
    """
    b, boxes, scores = importer.b, node.operand(0), node.operand(1)
    batch, classes, number = node.shape_of(1, 3)
    node.shape_of(0, 3)
    if node.optional(2) is None:
        return [node.constant(np.zeros((0, 3), np.int64))]
    iterations = minimum([count_of(importer, node, node.operand(2)), number])
    limit = b.constant_of(0.0, F32) if node.optional(3) is None else _scalar(node, 3)
    gone = b.constant_of(-np.inf, F32)
    if node.optional(4) is not None:
        scores = b.where(b.greater(scores, _scalar(node, 4)), scores, gone)
    corners = _corners(importer, node, boxes)

    def round_(state: Sequence[SSAValue]) -> Sequence[SSAValue]:
        (left,) = state
        b = importer.b
        best = b.arg_max(left, axis=2, keepdims=True, select_last_index=False)
        value = b.gather_elements(left, best, axis=2)
        overlap = _overlaps(importer, corners, best)
        numbers = b.reshape(scalar_range(importer, number), shape=dims_attr([1, 1, number]))
        here = b.equal(best, numbers)
        dropped = b.logical_or(b.greater(overlap, limit), here)
        flat = dims_attr([batch, classes])
        holds = b.greater(value, gone)
        return [
            b.where(dropped, gone, left),
            b.reshape(b.where(holds, best, b.constant_of(-1, I64)), shape=flat),
        ]

    _, taken = for_each(importer, node, iterations, [scores], round_)
    taken = b.transpose(taken, permutation=[1, 2, 0])
    positions = _positions(importer, node, b.greater(taken, b.constant_of(-1, I64)))
    count = type_of(positions).shape[1]
    rows = b.transpose(positions, permutation=[1, 0])
    box = b.reshape(b.gather_nd(taken, rows, batch_dims=0), shape=dims_attr([count, 1]))
    pairs = b.slice(rows, starts=dims_attr([0, 0]), sizes=dims_attr([count, 2]), steps=[1, 1])
    return [b.concat(pairs, box, axis=1)]


def _scalar(node: OnnxNode, position: int) -> SSAValue:
    return node.reshape(node.operand(position), [])


def _corners(importer: GraphImporter, node: OnnxNode, boxes: SSAValue) -> list[SSAValue]:
    """The least and greatest coordinates, y before x: each `[batch, 1, boxes]`."""
    b = importer.b
    batch, number, _ = type_of(boxes).shape
    parts = [
        b.reshape(
            b.gather(boxes, b.constant_of(each, I64), axis=2), shape=dims_attr([batch, 1, number])
        )
        for each in range(4)
    ]
    if not node.flag("center_point_box"):
        y1, x1, y2, x2 = parts
        return [b.min(y1, y2), b.min(x1, x2), b.max(y1, y2), b.max(x1, x2)]
    x, y, width, height = parts
    half = b.constant_of(0.5, F32)
    w, h = b.mul(width, half), b.mul(height, half)
    return [b.sub(y, h), b.sub(x, w), b.add(y, h), b.add(x, w)]


def _overlaps(importer: GraphImporter, corners: Sequence[SSAValue], best: SSAValue) -> SSAValue:
    """Intersection over union of each box with the best one of its batch and class."""
    b = importer.b
    batch, classes, _ = type_of(best).shape
    number = type_of(corners[0]).shape[2]
    every = [b.expand(each, shape=dims_attr([batch, classes, number])) for each in corners]
    chosen = [b.gather_elements(each, best, axis=2) for each in every]
    zero = b.constant_of(0.0, F32)
    height = b.max(b.sub(b.min(every[2], chosen[2]), b.max(every[0], chosen[0])), zero)
    width = b.max(b.sub(b.min(every[3], chosen[3]), b.max(every[1], chosen[1])), zero)
    common = b.mul(height, width)
    areas = [b.mul(b.sub(box[2], box[0]), b.sub(box[3], box[1])) for box in (every, chosen)]
    union = b.sub(b.add(*areas), common)
    return b.where(b.greater(common, zero), b.div(common, union), zero)


# Images ---------------------------------------------------------------------------------------


def import_image_decoder(importer: GraphImporter, node: OnnxNode) -> Sequence[SSAValue]:
    """The pixels `[height, width, channels]` of an encoded image. The host of the program says
    first how many there are.
    """
    node.shape_of(0, 1)
    pixel_format = node.text("pixel_format", "RGB")
    if pixel_format not in CHANNELS:
        raise ModelError(f"requires {', '.join(CHANNELS)} as pixel_format, got {pixel_format}")
    encoded = node.operand(0)
    size = _host_call(importer, IMAGE_SIZE, encoded, tensor([2], I64))
    dims = [
        importer.bind_size(
            importer.b.gather(size, importer.b.constant_of(axis, I64), axis=0),
            f"{node.proto.name}_{name}",
        )
        for axis, name in enumerate(("height", "width"))
    ]
    pixels = tensor([*dims, CHANNELS[pixel_format]], UI8)
    return [_host_call(importer, f"{IMAGE_PIXELS}.{pixel_format}", encoded, pixels)]


def _host_call(
    importer: GraphImporter, function: str, operand: SSAValue, result: TensorType
) -> SSAValue:
    op = HostCallOp.of(function, [operand], [result], importer.b.location)
    return importer.b.builder.insert(op).found[0]


IMPORTERS: ControlTable = {
    "Compress": import_compress,
    "ImageDecoder": import_image_decoder,
    "NonMaxSuppression": import_non_max_suppression,
    "NonZero": import_nonzero,
    "Unique": import_unique,
}

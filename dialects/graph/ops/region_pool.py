"""Pooling over regions of an image that another tensor lists."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from xdsl.dialects.builtin import DenseArrayBase, FloatAttr
from xdsl.ir import SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def

from weft.dialects.expr import Expr, maximum
from weft.dialects.extent import MOST
from weft.dialects.graph.core.accumulate import lowest, widen
from weft.dialects.graph.core.op import GraphOp, OnnxName, ints
from weft.dialects.graph.core.types import FLOATS, I64, TensorType, tensor, type_of
from weft.dialects.graph.reindexing.gather import subscript
from weft.dialects.loop.builder import Buffers, LoopBuilder
from weft.dialects.loop.scalar import Scalar, compute_type
from weft.dialects.weights import Array


@irdl_op_definition
class MaxRegionPoolOp(GraphOp):
    """The greatest element of each bin of each region of an image `[n, c, h, w]`; 0 of no element.

    A region is a row `[image, left, top, right, bottom]` of the second operand, whose corners are
    scaled, rounded and part of it; none is farther outside than the largest extent. It falls into
    `pooled` bins, which overlap at their edges.
    """

    name = "graph.max_region_pool"
    ONNX: ClassVar = OnnxName(
        "MaxRoiPool", {"pooled_shape": ("pooled", None), "spatial_scale": ("scale", 1.0)}
    )
    REUSES_OPERANDS: ClassVar = True
    image: SSAValue = operand_def(TensorType)
    boxes: SSAValue = operand_def(TensorType)
    pooled: DenseArrayBase = prop_def(DenseArrayBase)
    scale: FloatAttr[Any] = prop_def(FloatAttr)
    result: SSAValue = result_def(TensorType)

    def infer(self) -> Sequence[TensorType]:
        image, regions = self.tensor_types()
        same = image.element == regions.element and image.element in FLOATS
        self.require(same, "operands of one floating-point type", f"{image} and {regions}")
        pooled = ints(self.pooled)
        self.require(len(pooled) == 2 and min(pooled) > 0, "two positive pooled dims", pooled)
        if not (image.has_rank and regions.has_rank):
            return [tensor(None, image.element)]
        self.require(image.rank == 4, "an image of rank 4", image)
        fives = regions.rank == 2 and regions.shape[1].constant in (None, 5)
        self.require(fives, "regions of five numbers", regions)
        self.require(image.shape[0] != 0, "an image at least", image)
        return [tensor((regions.shape[0], image.shape[1], *pooled), image.element)]

    def assumptions(self) -> Sequence[tuple[Expr, Expr]]:
        """A region is five numbers, and there is an image that it can be in."""
        count, columns = type_of(self.image).shape[0], type_of(self.boxes).shape[1]
        pairs = [(count, maximum([count, 1])), (columns, Expr.of(5))]
        return [(size, wanted) for size, wanted in pairs if size.constant is None]

    def reference(self, *operands: Array) -> Sequence[Array]:
        image, regions = operands[0], widen(operands[1])
        result = np.zeros(self.result_type.static_shape or (), image.dtype)
        for at, bin_y, bin_x in np.ndindex(len(regions), *ints(self.pooled)):
            row = regions[at]
            which = min(max(int(row[0]), 0), len(image) - 1)
            top, bottom = self._edges(row[2], row[4], bin_y, 0, image.shape[2])
            left, right = self._edges(row[1], row[3], bin_x, 1, image.shape[3])
            if top < bottom and left < right:
                found = image[which, :, top:bottom, left:right].max((1, 2))
                result[at, :, bin_y, bin_x] = found
        return [result]

    def _edges(self, low: Any, high: Any, position: int, axis: int, dim: int) -> tuple[int, int]:
        """The first element of a bin along an axis, and the end."""
        real, count = low.dtype.type, ints(self.pooled)[axis]
        scale = real(self.scale.value.data)
        corners = (math.floor(x * scale + real(0.5)) for x in (low, high))
        first, last = (min(max(corner, -MOST), MOST) for corner in corners)
        size = real(max(last - first + 1, 1)) / real(count)
        start = first + math.floor(real(position) * size)
        end = first + math.ceil(real(position + 1) * size)
        return min(max(start, 0), dim), min(max(end, 0), dim)

    def lower(self, b: LoopBuilder, operands: Buffers, results: Buffers) -> None:
        image = type_of(self.image)
        with b.loops(self.result_type.shape, "rchw") as (r, c, bin_y, bin_x):
            which = subscript(b, b.load(operands[1], (r, 0)).cast(I64).maximum(0), image.shape[0])
            top, height = self._span(b, operands[1], r, bin_y, 0)
            left, width = self._span(b, operands[1], r, bin_x, 1)
            nothing = height.compare("eq", 0) | width.compare("eq", 0)
            zero = b.constant(0, image.element)
            start = nothing.select(zero, b.constant(lowest(image.element), image.element))
            bins = (r, c, bin_y, bin_x)
            b.store(results[0], bins, start)
            first = b.subscript(top), b.subscript(left)
            with b.loops([b.subscript(height), b.subscript(width)], "st") as (s, t):
                x = b.load(operands[0], (which, c, first[0] + s, first[1] + t))
                b.store(results[0], bins, b.load(results[0], bins).maximum(x))

    def _span(
        self, b: LoopBuilder, regions: SSAValue, r: Expr, index: Expr, axis: int
    ) -> tuple[Scalar, Scalar]:
        """The first element of a bin along an axis, and how many there are."""
        dim = b.index(type_of(self.image).shape[2 + axis], I64)
        count, wide = ints(self.pooled)[axis], compute_type(type_of(self.boxes).element)
        corners = (b.load(regions, (r, column)) for column in (2 - axis, 4 - axis))
        scale = self.scale.value.data
        rounded = (((x * scale) + 0.5).math("floor").cast(I64) for x in corners)
        first, last = (x.maximum(-MOST).minimum(MOST) for x in rounded)
        size = (last - first + 1).maximum(1).cast(wide) / count
        step = b.index(index, I64)
        start = first + (step.cast(size.element) * size).math("floor").cast(I64)
        end = first + ((step + 1).cast(size.element) * size).math("ceil").cast(I64)
        low, high = (x.maximum(0).minimum(dim) for x in (start, end))
        return low, (high - low).maximum(0)


OPS: tuple[type[MaxRegionPoolOp], ...] = (MaxRegionPoolOp,)

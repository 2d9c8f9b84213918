"""Softmax and its relatives, along one axis."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from xdsl.ir import SSAValue
from xdsl.irdl import irdl_op_definition

from weft.dialects.graph.core.accumulate import lowest, start_totals, widen
from weft.dialects.graph.core.axis import AxisOp
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.dtypes import numpy_dtype
from weft.dialects.graph.core.op import OnnxName
from weft.dialects.graph.core.types import type_of
from weft.dialects.graph.ops.search import first_extremum
from weft.dialects.loop.builder import Buffers, LoopBuilder
from weft.dialects.loop.scalar import Scalar, compute_type
from weft.dialects.weights import Array


class ExponentialOp(AxisOp):
    """An operator that starts from `exp(x - m)`, `m` being the greatest element of the line."""

    def greatest(self, b: LoopBuilder, source: SSAValue) -> SSAValue:
        """A temporary with the greatest number of each line; a NaN shows in the sum anyway."""
        element = type_of(self.operand).element
        greatest = start_totals(b, self.lines, element, lowest(element), name="greatest")
        with b.loops(self.lines) as line, b.reduce([self.extent], "max", "k") as (k,):
            x = b.load(source, self.along(line, k))
            b.store(greatest, line, b.load(greatest, line).maximum_number(x))
        return greatest

    def add_up(self, b: LoopBuilder, source: SSAValue) -> SSAValue:
        """A temporary with the sum of each line."""
        total = start_totals(b, self.lines, type_of(self.operand).element, 0)
        with b.loops(self.lines) as line, b.reduce([self.extent], "add", "k") as (k,):
            b.store(total, line, b.load(total, line) + b.load(source, self.along(line, k)))
        return total

    def exponentials(self, b: LoopBuilder, source: SSAValue, greatest: SSAValue) -> SSAValue:
        """A temporary with `exp(x - greatest)`, in which numbers too small for a normal one are 0,
        unless every bit counts: processors take a hundred cycles for each of them.
        """
        tensor_type = type_of(self.operand)
        powers = b.temporary(tensor_type.shape, compute_type(tensor_type.element), "power")
        with b.loops(tensor_type.shape) as index:
            x = b.load(source, index) - b.load(greatest, self.line_of(index))
            b.store(powers, index, x.math("exp") if b.strict else _normal_power(x))
        return powers


def _normal_power(x: Scalar) -> Scalar:
    """`exp(x)`, or 0 instead of a subnormal number."""
    small = x < math.log(np.finfo(numpy_dtype(x.element)).tiny)
    return small.select(x.constant(0), x.math("exp"))


@irdl_op_definition
class SoftmaxOp(ExponentialOp):
    """`exp(x - m) / sum exp(x - m)` along the axis, `m` being the greatest element there."""

    name = "graph.softmax"
    ONNX: ClassVar = OnnxName("Softmax", {"axis": ("axis", -1)})

    def reference(self, *operands: Array) -> Sequence[Array]:
        x, axis = widen(operands[0]), self.position
        with np.errstate(all="ignore"):
            powers = np.exp(x - np.max(x, axis=axis, keepdims=True, initial=-np.inf))
            total = np.sum(powers, axis=axis, keepdims=True)
            return [(powers / total).astype(operands[0].dtype)]

    def lower(self, b: LoopBuilder, operands: Buffers, results: Buffers) -> None:
        powers = self.exponentials(b, operands[0], self.greatest(b, operands[0]))
        total = self.add_up(b, powers)
        inverse = b.temporary(self.lines, compute_type(self.result_type.element), "inverse")
        with b.loops(self.lines) as line:
            sum_of_line = b.load(total, line)
            b.store(inverse, line, sum_of_line.constant(1) / sum_of_line)
        with b.loops(self.result_type.shape) as index:
            share = b.load(powers, index) * b.load(inverse, self.line_of(index))
            b.store(results[0], index, share)

    def vjp(self, cotangents: Sequence[SSAValue], b: GraphBuilder) -> Sequence[SSAValue | None]:
        """`y * (dy - sum(dy * y))`."""
        weighted = b.mul(cotangents[0], self.result)
        total = b.reduce_sum(weighted, axes=[self.position], keepdims=True)
        return [b.mul(self.result, b.sub(cotangents[0], total))]


@irdl_op_definition
class LogSoftmaxOp(ExponentialOp):
    """`x - m - log(sum exp(x - m))` along the axis, `m` being the greatest element there."""

    name = "graph.log_softmax"
    ONNX: ClassVar = OnnxName("LogSoftmax", {"axis": ("axis", -1)})

    def reference(self, *operands: Array) -> Sequence[Array]:
        x, axis = widen(operands[0]), self.position
        with np.errstate(all="ignore"):
            shifted = x - np.max(x, axis=axis, keepdims=True, initial=-np.inf)
            total = np.sum(np.exp(shifted), axis=axis, keepdims=True)
            return [(shifted - np.log(total)).astype(operands[0].dtype)]

    def lower(self, b: LoopBuilder, operands: Buffers, results: Buffers) -> None:
        greatest = self.greatest(b, operands[0])
        total = self.add_up(b, self.exponentials(b, operands[0], greatest))
        logarithm = b.temporary(self.lines, compute_type(self.result_type.element), "logarithm")
        with b.loops(self.lines) as line:
            b.store(logarithm, line, b.load(total, line).math("log"))
        with b.loops(self.result_type.shape) as index:
            line = self.line_of(index)
            shifted = b.load(operands[0], index) - b.load(greatest, line)
            b.store(results[0], index, shifted - b.load(logarithm, line))

    def vjp(self, cotangents: Sequence[SSAValue], b: GraphBuilder) -> Sequence[SSAValue | None]:
        """`dy - exp(y) * sum(dy)`."""
        total = b.reduce_sum(cotangents[0], axes=[self.position], keepdims=True)
        return [b.sub(cotangents[0], b.mul(b.exp(self.result), total))]


@irdl_op_definition
class HardmaxOp(AxisOp):
    """1 at the first greatest element along the axis, 0 elsewhere."""

    name = "graph.hardmax"
    ONNX: ClassVar = OnnxName("Hardmax", {"axis": ("axis", -1)})

    def vjp(self, cotangents: Sequence[SSAValue], b: GraphBuilder) -> Sequence[SSAValue | None]:
        """Constant wherever it has a slope."""
        return [None]

    def reference(self, *operands: Array) -> Sequence[Array]:
        x, axis = operands[0], self.position
        result = np.zeros_like(x)
        if x.size:
            first = np.expand_dims(np.argmax(x, axis=axis), axis)
            np.put_along_axis(result, first, np.ones((), x.dtype), axis)
        return [result]

    def lower(self, b: LoopBuilder, operands: Buffers, results: Buffers) -> None:
        tensor_type = self.result_type
        first = first_extremum(b, operands[0], self.lines, self.extent, self.along)
        with b.loops(tensor_type.shape) as index:
            position = b.load(first, self.line_of(index))
            here = b.index(index[self.position], position.element)
            one, zero = b.constant(1, tensor_type.element), b.constant(0, tensor_type.element)
            b.store(results[0], index, here.compare("eq", position).select(one, zero))


OPS = (SoftmaxOp, LogSoftmaxOp, HardmaxOp)

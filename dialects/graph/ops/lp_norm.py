"""The norms `(sum |x|^p)^(1/p)`: of windows, of channels, and as what an axis is divided by."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import SSAValue
from xdsl.irdl import irdl_op_definition, prop_def

from weft.dialects.expr import Expr
from weft.dialects.graph.core.accumulate import magnitude, start_totals, widen
from weft.dialects.graph.core.algebra import Term
from weft.dialects.graph.core.axis import AxisOp
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.op import GraphOp, OnnxName
from weft.dialects.graph.core.types import TensorType
from weft.dialects.graph.core.window import Window
from weft.dialects.graph.ops.pool import GlobalPoolOp, PoolOp
from weft.dialects.loop.builder import Buffers, LoopBuilder
from weft.dialects.loop.scalar import Scalar, compute_type
from weft.dialects.weights import Array


class SumOfPowersOp(GraphOp):
    """What the norms of windows and of channels share: the sum of `|x|^p`, the attribute `p`."""

    p: IntegerAttr[Any] = prop_def(IntegerAttr)

    def infer(self) -> Sequence[TensorType]:
        self.require(self.p.value.data > 0, "a positive p", self.p.value.data)
        return super().infer()

    def term(self, x: Scalar) -> Scalar:
        """What of an element enters the total."""
        return power(x, self.p.value.data)


@irdl_op_definition
class LpPoolOp(SumOfPowersOp, PoolOp):
    """`(sum |x|^p)^(1/p)` over each window."""

    name = "graph.lp_pool"

    def vjp(self, cotangents: Sequence[SSAValue], b: GraphBuilder) -> Sequence[SSAValue | None]:
        x, y = Term(b, self.operand), Term(b, self.result)
        terms = Term(b, cotangents[0]) * norm_slope(y, self.p.value.data)
        return [(self.spread(b, terms) * power_slope(x, self.p.value.data)).value]

    def finish(
        self, b: LoopBuilder, total: Scalar, window: Window, position: Sequence[Expr]
    ) -> Scalar:
        return root(total, self.p.value.data)

    def reference(self, *operands: Array) -> Sequence[Array]:
        window, x, p = self.window(), widen(operands[0]), self.p.value.data
        powers = np.pad(np.abs(x) ** p, window.pad_widths())
        total = sum(self.reads(window, powers))
        return [np.asarray(total ** x.dtype.type(1 / p)).astype(operands[0].dtype)]


@irdl_op_definition
class GlobalLpPoolOp(SumOfPowersOp, GlobalPoolOp):
    """`(sum |x|^p)^(1/p)` over each channel."""

    name = "graph.global_lp_pool"
    ONNX: ClassVar = OnnxName("GlobalLpPool", {"p": ("p", 2)})
    FINISHES: ClassVar = True

    def as_reduction(self) -> None:
        return None

    def vjp(self, cotangents: Sequence[SSAValue], b: GraphBuilder) -> Sequence[SSAValue | None]:
        x, y = Term(b, self.operand), Term(b, self.result)
        shared = Term(b, cotangents[0]) * norm_slope(y, self.p.value.data)
        return [(shared * power_slope(x, self.p.value.data)).value]

    def evaluate(self, x: Array, axes: tuple[int, ...]) -> Any:
        total = np.sum(np.abs(x) ** self.p.value.data, axis=axes, keepdims=True)
        return total ** x.dtype.type(1 / self.p.value.data)

    def finish(self, b: LoopBuilder, total: Scalar) -> Scalar:
        return root(total, self.p.value.data)


@irdl_op_definition
class LpNormOp(AxisOp):
    """`x / (sum |x|^p)^(1/p)` along the axis, `p` being 1 or 2; 0 where all elements are 0."""

    name = "graph.lp_norm"
    ONNX: ClassVar = OnnxName("LpNormalization", {"axis": ("axis", -1), "p": ("p", 2)})
    p: IntegerAttr[Any] = prop_def(IntegerAttr)

    @property
    def is_absolute(self) -> bool:
        """Whether the norm is the sum of magnitudes."""
        return self.p.value.data == 1

    def infer(self) -> Sequence[TensorType]:
        self.require(self.p.value.data in (1, 2), "p of 1 or 2", self.p.value.data)
        return super().infer()

    def reference(self, *operands: Array) -> Sequence[Array]:
        x, axis = widen(operands[0]), self.position
        if self.is_absolute:
            norm = np.sum(np.abs(x), axis=axis, keepdims=True)
        else:
            norm = np.sqrt(np.sum(x * x, axis=axis, keepdims=True))
        return [(x / (norm + (norm == 0))).astype(operands[0].dtype)]

    def lower(self, b: LoopBuilder, operands: Buffers, results: Buffers) -> None:
        tensor_type = self.result_type
        total = start_totals(b, self.lines, tensor_type.element, 0)
        with b.loops(self.lines) as line, b.reduce([self.extent], "add", "k") as (k,):
            x = b.load(operands[0], self.along(line, k))
            term = magnitude(x) if self.is_absolute else x * x
            b.store(total, line, b.load(total, line) + term)
        norm = b.temporary(self.lines, compute_type(tensor_type.element), "norm")
        with b.loops(self.lines) as line:
            sum_ = b.load(total, line)
            root = sum_ if self.is_absolute else sum_.math("sqrt")
            b.store(norm, line, root.compare("eq", 0).select(root.constant(1), root))
        with b.loops(tensor_type.shape) as index:
            quotient = b.load(operands[0], index) / b.load(norm, self.line_of(index))
            b.store(results[0], index, quotient)

    def vjp(self, cotangents: Sequence[SSAValue], b: GraphBuilder) -> Sequence[SSAValue | None]:
        """`(dy - d * sum(dy * y)) / norm`, `d` being `y`, or the sign of `x` where `p` is 1."""
        along = {"axes": [self.position], "keepdims": True}
        norm_name = "reduce_l1" if self.is_absolute else "reduce_l2"
        norm = b.op(norm_name, self.operand, **along).results[0]
        zero, one = b.filled(0, norm), b.filled(1, norm)
        divisor = b.where(b.equal(norm, zero), one, norm)
        direction = b.sign(self.operand) if self.is_absolute else self.result
        total = b.reduce_sum(b.mul(cotangents[0], self.result), **along)
        return [b.div(b.sub(cotangents[0], b.mul(direction, total)), divisor)]


def power(x: Scalar, p: int) -> Scalar:
    """`|x|^p`."""
    if p == 2:
        return x * x
    return magnitude(x) if p == 1 else magnitude(x).math("powf", x.constant(p))


def root(total: Scalar, p: int) -> Scalar:
    """`total^(1/p)`."""
    if p == 2:
        return total.math("sqrt")
    return total if p == 1 else total.math("powf", total.constant(1 / p))


def norm_slope(y: Term, p: int) -> Term:
    """`y^(1 - p)`: the part of a norm's slope that its elements share; 0 where all are zero."""
    one = y.number(1)
    safe = (y > 0).where(y, one)
    return (y > 0).where(y.of(y.b.pow(safe.value, y.number(1 - p).value)), 0)


def power_slope(x: Term, p: int) -> Term:
    """`|x|^(p - 1) sign(x)`: the part of a norm's slope that is each element's own."""
    if p == 2:
        return x
    sign = x.math("sign")
    return sign if p == 1 else x.of(x.b.pow(x.math("abs").value, x.number(p - 1).value)) * sign


OPS = (LpPoolOp, GlobalLpPoolOp, LpNormOp)

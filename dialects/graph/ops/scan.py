"""Running totals along an axis."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from xdsl.dialects.builtin import BoolAttr
from xdsl.ir import SSAValue
from xdsl.irdl import irdl_op_definition, prop_def

from weft.dialects.expr import Expr
from weft.dialects.graph.core.accumulate import start_totals, widen
from weft.dialects.graph.core.algebra import Term, counted
from weft.dialects.graph.core.axis import AxisOp
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.op import AttributeValue, GraphOp
from weft.dialects.graph.core.types import NUMBERS, TensorType, type_of
from weft.dialects.loop.builder import Buffers, LoopBuilder
from weft.dialects.loop.scalar import Scalar
from weft.dialects.weights import Array


class ScanOp(AxisOp):
    """Each element combined with all before it along the axis; f16 and bf16 in f32.

    `exclusive` leaves the element itself out; `reverse` counts from the end.
    """

    ELEMENTS: ClassVar = NUMBERS
    START: ClassVar[int]
    exclusive: BoolAttr = prop_def(BoolAttr)
    reverse: BoolAttr = prop_def(BoolAttr)

    @abstractmethod
    def accumulate(self, x: Array) -> Any:
        """The inclusive scan along the axis in NumPy."""

    @abstractmethod
    def combine(self, total: Scalar, x: Scalar) -> Scalar:
        """The total with one more element."""

    def infer(self) -> Sequence[TensorType]:
        source = type_of(self.operand)
        self.require(source.element in NUMBERS, "numeric elements", source.element)
        return super().infer()

    def reference(self, *operands: Array) -> Sequence[Array]:
        wide = widen(operands[0])
        ordered = np.flip(wide, self.position) if self.reverse.value.data else wide
        scanned = np.asarray(self.accumulate(ordered))
        if self.exclusive.value.data:
            scanned = self._delayed(scanned)
        result = scanned.astype(operands[0].dtype)
        return [np.flip(result, self.position) if self.reverse.value.data else result]

    def _delayed(self, scanned: Array) -> Array:
        """The scan a step later, from its start."""
        last = [slice(None)] * scanned.ndim
        last[self.position] = slice(0, -1)
        widths = [(int(axis == self.position), 0) for axis in range(scanned.ndim)]
        padded = np.pad(scanned[tuple(last)], widths, constant_values=self.START)
        return padded if scanned.size else scanned

    def lower(self, b: LoopBuilder, operands: Buffers, results: Buffers) -> None:
        tensor_type = self.result_type
        total = start_totals(b, self.lines, tensor_type.element, self.START)
        with b.loops(tensor_type.shape) as index:
            line, position = self.line_of(index), self._index_at(index)
            before = b.load(total, line)
            after = self.combine(before, b.load(operands[0], position))
            b.store(total, line, after)
            b.store(results[0], position, before if self.exclusive.value.data else after)

    def _index_at(self, index: Sequence[Expr]) -> list[Expr]:
        """Where the scan is after as many steps as the index says."""
        if not self.reverse.value.data:
            return list(index)
        return self.along(index, self.extent - 1 - index[self.position])


@irdl_op_definition
class CumsumOp(ScanOp):
    """Sums of each element and those before it; integers wrap around."""

    name = "graph.cumsum"
    START: ClassVar = 0

    def accumulate(self, x: Array) -> Any:
        return np.cumsum(x, self.position, dtype=x.dtype)

    def combine(self, total: Scalar, x: Scalar) -> Scalar:
        return total + x

    def vjp(self, cotangents: Sequence[SSAValue], b: GraphBuilder) -> Sequence[SSAValue | None]:
        """The sums of those behind it."""
        reverse = not self.reverse.value.data
        return [b.cumsum(cotangents[0], axis=self.axis, exclusive=self.exclusive, reverse=reverse)]


@irdl_op_definition
class CumprodOp(ScanOp):
    """Products of each element and those before it; integers wrap around."""

    name = "graph.cumprod"
    START: ClassVar = 1

    def accumulate(self, x: Array) -> Any:
        return np.cumprod(x, self.position, dtype=x.dtype)

    def combine(self, total: Scalar, x: Scalar) -> Scalar:
        return total * x

    def vjp(self, cotangents: Sequence[SSAValue], b: GraphBuilder) -> Sequence[SSAValue | None]:
        """`dx_i = p_i sum_j dy_j q_ij`: the products before `i`, and of those between `i` and `j`.

        They are laid out as a square of the axis with itself, so that a zero divides nothing.
        """
        axis, size = self.position, self.extent
        backward, exclusive = bool(self.reverse.value.data), bool(self.exclusive.value.data)
        flags: dict[str, AttributeValue] = {"exclusive": exclusive, "reverse": backward}
        x, dy = Term(b, self.operand), Term(b, cotangents[0])
        order = {"axis": axis, "exclusive": True, "reverse": backward}
        before = x.of(b.cumprod(x.value, **order))
        steps = counted(b, size)
        i, j = steps.insert(1), steps
        trailing = [1] * (len(x.shape) - axis - 1)
        follows = (i > j if backward else i < j).reshape((size, size, *trailing))
        square = (*x.shape[:axis], size, *x.shape[axis:])
        factors = follows.where(x.insert(axis), 1).expand(square)
        between = x.of(b.cumprod(factors.value, axis=axis + 1, **flags))
        equal = i.equals(j).reshape((size, size, *trailing))
        counts = follows if exclusive else follows | equal
        slopes = counts.where(between * dy.insert(axis), 0).sum([axis + 1])
        return [(before * slopes).value]


OPS: tuple[type[GraphOp], ...] = (CumsumOp, CumprodOp)

"""Searches for the position of an extremum."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
from xdsl.dialects.builtin import BoolAttr
from xdsl.ir import SSAValue
from xdsl.irdl import irdl_op_definition, prop_def

from weft.dialects.expr import Expr
from weft.dialects.graph.core.accumulate import fill, highest, lowest, widen
from weft.dialects.graph.core.assumptions import at_least
from weft.dialects.graph.core.axis import LineOp
from weft.dialects.graph.core.op import OnnxName
from weft.dialects.graph.core.sharding_rule import ShardingRule, whole_but
from weft.dialects.graph.core.types import I32, I64, NUMBERS, Shape, TensorType, tensor, type_of
from weft.dialects.loop.builder import Buffers, LoopBuilder
from weft.dialects.loop.scalar import Scalar, compute_type, constant, is_float
from weft.dialects.loop.types import buffer_type_of
from weft.dialects.weights import Array

SHORT = 16
"""Elements of lines that are searched several lines at once, one element after the other."""


def first_extremum(
    b: LoopBuilder,
    source: SSAValue,
    lines: Shape,
    extent: Expr,
    along: Callable[[Sequence[Expr], Expr], Sequence[Expr]],
    *,
    least: bool = False,
    last: bool = False,
    found: SSAValue | None = None,
) -> SSAValue:
    """Fills `found`, by default a temporary, with where each line's greatest (or least) element is.

    `along(line, k)` is the index of element `k`. Of equals the first (or last) wins; a NaN beats
    every number. Two reductions in any order: the extremum, and the least (or greatest) index at
    which it stands; of short lines one element after the other.
    """
    element = buffer_type_of(source).element
    wide = compute_type(element)
    if extent.constant is not None and extent.constant <= SHORT:
        positions = b.temporary(lines, I64, "position") if found is None else found
        with b.loops(lines) as line:
            elements = [b.load(source, along(line, Expr.of(k))) for k in range(extent.constant)]
            b.store(positions, line, _first_of(elements, least=least, last=last))
        return positions
    best = b.temporary(lines, wide, "best")
    fill(b, best, lines, highest(element) if least else lowest(element), wide)
    with b.loops(lines) as line, b.reduce([extent], "min" if least else "max", "k") as (k,):
        x, bound = b.load(source, along(line, k)), b.load(best, line)
        either = bound.minimum if least else bound.maximum
        b.store(best, line, either(x, any_zero=True))  # of equals another reduction decides
    short = extent.constant is not None and extent.constant < 2**31
    counter = I32 if short else I64
    position = b.temporary(lines, counter, "place")
    start = lowest(counter) if last else highest(counter)
    fill(b, position, lines, start, counter)
    with b.loops(lines) as line, b.reduce([extent], "max" if last else "min", "k") as (k,):
        x, bound = b.load(source, along(line, k)), b.load(best, line)
        here = _is_best(x, bound).select(b.index(k, counter), b.constant(start, counter))
        known = b.load(position, line)
        b.store(position, line, known.maximum(here) if last else known.minimum(here))
    positions = b.temporary(lines, I64, "position") if found is None else found
    with b.loops(lines) as line:
        b.store(positions, line, b.load(position, line).cast(I64))
    return positions


def _first_of(elements: Sequence[Scalar], *, least: bool, last: bool) -> Scalar:
    """The position of the extremum of a few elements, of which there is one."""
    best, *others = elements
    relation = ("le" if least else "ge") if last else ("lt" if least else "gt")
    position = constant(best.builder, 0, I64)
    for k, x in enumerate(others, 1):
        wins = x.compare(relation, best)
        if is_float(x.element):
            wins |= x.is_nan() if last else x.is_nan() & ~best.is_nan()
        best, position = wins.select(x, best), wins.select(constant(best.builder, k, I64), position)
    return position


def _is_best(x: Scalar, best: Scalar) -> Scalar:
    equal = x.compare("eq", best)
    return equal | (x.is_nan() & best.is_nan()) if is_float(x.element) else equal


def beats(x: Scalar, bound: Scalar) -> Scalar:
    """Whether an element takes the place of the greatest before it; a NaN beats every number."""
    wins = x.compare("gt", bound)
    return wins | (x.is_nan() & ~bound.is_nan()) if is_float(x.element) else wins


class ArgExtremumOp(LineOp):
    """The position (i64) along `axis` of an extremum: of equals the first, or the last.

    With `keepdims` the axis stays as a dim of 1. A NaN counts as the extremum.
    """

    LEAST: ClassVar[bool]
    keepdims: BoolAttr = prop_def(BoolAttr)
    select_last_index: BoolAttr = prop_def(BoolAttr)

    @property
    def selects_last(self) -> bool:
        """Whether the last of equal elements is meant."""
        return bool(self.select_last_index.value.data)

    @abstractmethod
    def search(self, x: Array, axis: int) -> Any:
        """The first position in NumPy."""

    def infer(self) -> Sequence[TensorType]:
        source = type_of(self.operand)
        self.require(source.element in NUMBERS, "numeric elements", source.element)
        if not source.has_rank:
            return [tensor(None, I64)]
        self.require(self.extent != 0, "an axis with elements", source)
        shape = list(source.shape)
        shape[self.position : self.position + 1] = [Expr.of(1)] * bool(self.keepdims.value.data)
        return [tensor(shape, I64)]

    def sharding_rule(self) -> ShardingRule | None:
        factors = whole_but(type_of(self.operand).rank, (self.position,))
        kept = list(factors)
        kept[self.position : self.position + 1] = [None] * bool(self.keepdims.value.data)
        return ShardingRule((factors,), (tuple(kept),))

    def assumptions(self) -> Sequence[tuple[Expr, Expr]]:
        """There is an extremum."""
        return at_least(self.extent, 1)

    def reference(self, *operands: Array) -> Sequence[Array]:
        x, axis = widen(operands[0]), self.position
        if self.selects_last:
            positions = x.shape[axis] - 1 - self.search(np.flip(x, axis), axis)
        else:
            positions = self.search(x, axis)
        return [np.asarray(positions, np.int64).reshape(self.result_type.static_shape or ())]

    def lower(self, b: LoopBuilder, operands: Buffers, results: Buffers) -> None:
        first_extremum(
            b,
            operands[0],
            self.result_type.shape,
            self.extent,
            self._along,
            least=self.LEAST,
            last=self.selects_last,
            found=results[0],
        )

    def _along(self, line: Sequence[Expr], k: Expr) -> Sequence[Expr]:
        skipped = self.position + bool(self.keepdims.value.data)
        return [*line[: self.position], k, *line[skipped:]]


_ATTRIBUTES = {
    "axis": ("axis", 0),
    "keepdims": ("keepdims", True),
    "select_last_index": ("select_last_index", False),
}


@irdl_op_definition
class ArgMaxOp(ArgExtremumOp):
    """The position of the greatest element along an axis."""

    name = "graph.arg_max"
    ONNX: ClassVar = OnnxName("ArgMax", _ATTRIBUTES)
    LEAST: ClassVar = False

    def search(self, x: Array, axis: int) -> Any:
        return np.argmax(x, axis=axis)


@irdl_op_definition
class ArgMinOp(ArgExtremumOp):
    """The position of the least element along an axis."""

    name = "graph.arg_min"
    ONNX: ClassVar = OnnxName("ArgMin", _ATTRIBUTES)
    LEAST: ClassVar = True

    def search(self, x: Array, axis: int) -> Any:
        return np.argmin(x, axis=axis)


OPS = (ArgMaxOp, ArgMinOp)

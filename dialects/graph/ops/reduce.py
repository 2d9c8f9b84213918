"""Reductions: each element of the result combines the operand's elements along some axes."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np
from xdsl.dialects.builtin import BoolAttr, DenseArrayBase
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def

from weft.dialects.expr import Expr, maximum, minimum, product
from weft.dialects.graph.core.accumulate import highest, lowest, magnitude, start_totals, widen
from weft.dialects.graph.core.batching import again
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.op import GraphOp, ints
from weft.dialects.graph.core.sharding_rule import ShardingRule, reduction_rule
from weft.dialects.graph.core.types import BOOL, FLOATS, NUMBERS, TensorType, tensor, type_of
from weft.dialects.graph.reindexing.movement import ReshapeOp
from weft.dialects.loop.builder import Buffers, LoopBuilder
from weft.dialects.loop.scalar import Number, Scalar
from weft.dialects.weights import Array


def normalize_axes(op: GraphOp, axes: Sequence[int], rank: int) -> tuple[int, ...]:
    """The axes counted from the front, in order; each must exist and occur once."""
    for axis in axes:
        op.require(-rank <= axis < rank, f"axes from {-rank} to {rank - 1}", list(axes))
    positive = sorted(axis % rank for axis in axes)
    op.require(len(set(positive)) == len(positive), "axes that differ", list(axes))
    return tuple(positive)


class ReductionOp(GraphOp):
    """The operand's elements along `reduced` axes combined into one.

    A subclass says with what they are combined (`KIND`), what of each element (`term`), and what
    becomes of the total (`finish`, with `FINISHES` set).
    """

    ELEMENTS: ClassVar[tuple[Attribute, ...]] = NUMBERS
    COMBINER: ClassVar[str] = "add"
    FINISHES: ClassVar[bool] = False
    COMBINATION: ClassVar[str | None] = None
    """How results for equal parts of the elements are combined, where they can be."""
    operand: SSAValue = operand_def(TensorType)
    result: SSAValue = result_def(TensorType)

    @property
    @abstractmethod
    def keeps_dims(self) -> bool:
        """Whether reduced axes stay as dims of 1."""

    @abstractmethod
    def reduced(self) -> tuple[int, ...]:
        """The axes that are combined, counted from the front; the operand's rank is known."""

    @abstractmethod
    def evaluate(self, x: Array, axes: tuple[int, ...]) -> Any:
        """The result in NumPy, reduced axes kept as dims of 1; `x` is wide enough to add up in."""

    def start(self, element: Attribute) -> Number:
        """What a reduction over no elements gives before it is finished."""
        return 0

    def term(self, x: Scalar) -> Scalar:
        """What of an element enters the total."""
        return x

    def finish(self, b: LoopBuilder, total: Scalar) -> Scalar:
        """The result from the total."""
        return total

    def count(self) -> Expr:
        """How many elements are combined into one."""
        source = type_of(self.operand)
        return product(source.shape[axis] for axis in self.reduced())

    def infer(self) -> Sequence[TensorType]:
        source = type_of(self.operand)
        self.require(
            source.element in self.ELEMENTS, "an element type that it can combine", source.element
        )
        if not source.has_rank:
            return [source]
        return [tensor(self._shape(keep=self.keeps_dims), source.element)]

    def sharding_rule(self) -> ShardingRule | None:
        axes, rank = self.reduced(), type_of(self.operand).rank
        exact = type_of(self.operand).element in FLOATS or self.COMBINATION != "mean"
        combination = self.COMBINATION if exact else None
        return reduction_rule(rank, axes, self.keeps_dims, combination)

    def _shape(self, *, keep: bool) -> list[Expr]:
        axes, shape = self.reduced(), type_of(self.operand).shape
        kept = [Expr.of(1) if axis in axes else dim for axis, dim in enumerate(shape)]
        return [dim for axis, dim in enumerate(kept) if keep or axis not in axes]

    def reference(self, *operands: Array) -> Sequence[Array]:
        axes = self.reduced()
        with np.errstate(all="ignore"):
            value = np.asarray(self.evaluate(widen(operands[0]), axes))
        kept = value if self.keeps_dims else value.squeeze(axes)
        return [kept.astype(operands[0].dtype)]

    def source_index(self, index: Sequence[Expr], inner: Sequence[Expr]) -> list[Expr]:
        """The operand's index from one of the result and one along the reduced axes."""
        axes = self.reduced()
        outer, reduced = iter(index), iter(inner)
        position: list[Expr] = []
        for axis in range(type_of(self.operand).rank):
            if axis in axes and self.keeps_dims:
                next(outer)
            position.append(next(reduced) if axis in axes else next(outer))
        return position

    def lower(self, b: LoopBuilder, operands: Buffers, results: Buffers) -> None:
        shape, element = self.result_type.shape, self.result_type.element
        final = None if self.FINISHES else results[0]
        total = start_totals(b, shape, element, self.start(element), final)
        self.accumulate(b, operands[0], total)
        if total is not results[0]:
            with b.loops(shape) as index:
                b.store(results[0], index, self.finish(b, b.load(total, index)))

    def accumulate(self, b: LoopBuilder, source: SSAValue, total: SSAValue) -> None:
        """The nest that combines the terms into the totals."""
        extents = [type_of(self.operand).shape[axis] for axis in self.reduced()]
        combine = COMBINE[self.COMBINER]
        with b.loops(self.result_type.shape) as index, b.reduce(extents, self.COMBINER) as inner:
            x = self.term(b.load(source, self.source_index(index, inner)))
            b.store(total, index, combine(b.load(total, index), x))

    def spread(self, b: GraphBuilder, value: SSAValue) -> SSAValue:
        """A value of the result's shape, repeated along the reduced axes."""
        kept = b.reshape(value, shape=tensor(self._shape(keep=True), BOOL).dims)
        return b.expand(kept, shape=type_of(self.operand).dims)


COMBINE = {
    "add": Scalar.__add__,
    "mul": Scalar.__mul__,
    "max": partial(Scalar.maximum, any_zero=True),
    "min": partial(Scalar.minimum, any_zero=True),
}
"""How reductions and pools combine; where +0 and -0 are the extremes, either may be the result."""


def mean_of(b: LoopBuilder, total: Scalar, count: Expr) -> Scalar:
    """The total over the count; of integers, rounded towards zero, and zero for none."""
    divisor = count if total.element in FLOATS else maximum([count, 1])
    if divisor.constant is not None:
        return total / divisor.constant
    return total / b.index(divisor, total.element)


def evaluate_mean(x: Array, axes: tuple[int, ...]) -> Any:
    """The mean in NumPy, rounded towards zero for integers."""
    total = np.sum(x, axis=axes, keepdims=True, dtype=x.dtype)
    count = math.prod(x.shape[axis] for axis in axes)
    if x.dtype.kind == "f":
        return total / x.dtype.type(count)
    return np.abs(total) // x.dtype.type(max(count, 1)) * np.sign(total)


class ReduceOp(ReductionOp):
    """A reduction over the attribute `axes`: negative ones count from the end, none is allowed.

    With `keepdims` they stay as dims of 1.
    """

    AXES_OF_ONE_VANISH: ClassVar[bool] = False
    """Whether combining a single element gives that element."""
    axes: DenseArrayBase = prop_def(DenseArrayBase)
    keepdims: BoolAttr = prop_def(BoolAttr)

    @property
    def keeps_dims(self) -> bool:
        return bool(self.keepdims.value.data)

    def reduced(self) -> tuple[int, ...]:
        return normalize_axes(self, ints(self.axes), type_of(self.operand).rank)

    def fold(self) -> Sequence[SSAValue] | GraphOp | None:
        """A reduction over axes of one element each is a reshape."""
        source = type_of(self.operand)
        if not self.AXES_OF_ONE_VANISH or not source.has_rank or self.count() != 1:
            return None
        return ReshapeOp.of(self.operand, shape=self.result_type.dims, location=self.location)

    def fold_elements(self, elements: Sequence[Expr] | None) -> Sequence[Expr] | None:
        """The elements of a vector of dims that is combined as a whole, if they are known."""
        source = type_of(self.operand)
        is_vector = source.has_rank and source.rank == 1
        return elements if is_vector and self.reduced() == (0,) else None

    def vmap(self, operands: Sequence[SSAValue], size: Expr, b: GraphBuilder) -> Sequence[SSAValue]:
        return again(self, operands, b, axes=[axis + 1 for axis in self.reduced()])


@irdl_op_definition
class ReduceSumOp(ReduceOp):
    """`sum x`; integers wrap around."""

    name = "graph.reduce_sum"
    COMBINATION: ClassVar = "sum"
    AXES_OF_ONE_VANISH: ClassVar = True

    def evaluate(self, x: Array, axes: tuple[int, ...]) -> Any:
        return np.sum(x, axis=axes, keepdims=True, dtype=x.dtype)

    def fold_dims(self, *operands: Sequence[Expr] | None) -> Sequence[Expr] | None:
        elements = self.fold_elements(operands[0])
        return None if elements is None else [sum(elements, Expr.of(0))]

    def vjp(self, cotangents: Sequence[SSAValue], b: GraphBuilder) -> Sequence[SSAValue | None]:
        return [self.spread(b, cotangents[0])]


@irdl_op_definition
class ReduceMeanOp(ReduceOp):
    """`sum x / count`; of integers rounded towards zero."""

    name = "graph.reduce_mean"
    COMBINATION: ClassVar = "mean"
    FINISHES: ClassVar = True
    AXES_OF_ONE_VANISH: ClassVar = True

    def evaluate(self, x: Array, axes: tuple[int, ...]) -> Any:
        return evaluate_mean(x, axes)

    def finish(self, b: LoopBuilder, total: Scalar) -> Scalar:
        return mean_of(b, total, self.count())

    def vjp(self, cotangents: Sequence[SSAValue], b: GraphBuilder) -> Sequence[SSAValue | None]:
        ones = b.filled(1, self.operand)
        count = b.reduce_sum(ones, axes=list(self.reduced()), keepdims=self.keeps_dims)
        return [self.spread(b, b.div(cotangents[0], count))]


class ExtremumOp(ReduceOp):
    """The greatest or least element; NaN where there is one.

    The cotangent is shared equally among the elements that attain it.
    """

    ELEMENTS: ClassVar[tuple[Attribute, ...]] = (*NUMBERS, BOOL)
    AXES_OF_ONE_VANISH: ClassVar = True

    def vjp(self, cotangents: Sequence[SSAValue], b: GraphBuilder) -> Sequence[SSAValue | None]:
        attained = b.equal(self.operand, self.spread(b, self.result))
        ones, zeros = b.filled(1, self.operand), b.filled(0, self.operand)
        mask = b.where(attained, ones, zeros)
        ties = b.reduce_sum(mask, axes=list(self.reduced()), keepdims=self.keeps_dims)
        return [b.mul(mask, self.spread(b, b.div(cotangents[0], ties)))]


@irdl_op_definition
class ReduceMaxOp(ExtremumOp):
    """`max x`; over no elements the lowest value of the type."""

    name = "graph.reduce_max"
    COMBINATION: ClassVar = "max"
    COMBINER: ClassVar = "max"

    def start(self, element: Attribute) -> Number:
        return lowest(element)

    def evaluate(self, x: Array, axes: tuple[int, ...]) -> Any:
        return np.max(x, axis=axes, keepdims=True, initial=lowest(self.result_type.element))

    def fold_dims(self, *operands: Sequence[Expr] | None) -> Sequence[Expr] | None:
        elements = self.fold_elements(operands[0])
        return [maximum(elements)] if elements else None


@irdl_op_definition
class ReduceMinOp(ExtremumOp):
    """`min x`; over no elements the highest value of the type."""

    name = "graph.reduce_min"
    COMBINATION: ClassVar = "min"
    COMBINER: ClassVar = "min"

    def start(self, element: Attribute) -> Number:
        return highest(element)

    def evaluate(self, x: Array, axes: tuple[int, ...]) -> Any:
        return np.min(x, axis=axes, keepdims=True, initial=highest(self.result_type.element))

    def fold_dims(self, *operands: Sequence[Expr] | None) -> Sequence[Expr] | None:
        elements = self.fold_elements(operands[0])
        return [minimum(elements)] if elements else None


@irdl_op_definition
class ReduceProdOp(ReduceOp):
    """`product x`; integers wrap around."""

    name = "graph.reduce_prod"
    COMBINER: ClassVar = "mul"
    AXES_OF_ONE_VANISH: ClassVar = True

    def start(self, element: Attribute) -> Number:
        return 1

    def evaluate(self, x: Array, axes: tuple[int, ...]) -> Any:
        return np.prod(x, axis=axes, keepdims=True, dtype=x.dtype)

    def fold_dims(self, *operands: Sequence[Expr] | None) -> Sequence[Expr] | None:
        elements = self.fold_elements(operands[0])
        return None if elements is None else [product(elements)]

    def vjp(self, cotangents: Sequence[SSAValue], b: GraphBuilder) -> Sequence[SSAValue | None]:
        """The product of the other elements, also where some are zero: those are counted apart."""
        ones, zeros = b.filled(1, self.operand), b.filled(0, self.operand)
        is_zero = b.equal(self.operand, zeros)
        nonzero, zero_count = b.where(is_zero, ones, self.operand), b.where(is_zero, ones, zeros)
        along = {"axes": list(self.reduced()), "keepdims": self.keeps_dims}
        rest = b.div(self.spread(b, b.reduce_prod(nonzero, **along)), nonzero)
        others = b.sub(self.spread(b, b.reduce_sum(zero_count, **along)), zero_count)
        derivative = b.where(b.equal(others, zeros), rest, zeros)
        return [b.mul(derivative, self.spread(b, cotangents[0]))]


@irdl_op_definition
class ReduceL1Op(ReduceOp):
    """`sum |x|`; the derivative of `|x|` at 0 is 0."""

    name = "graph.reduce_l1"
    COMBINATION: ClassVar = "sum"

    def evaluate(self, x: Array, axes: tuple[int, ...]) -> Any:
        return np.sum(np.abs(x), axis=axes, keepdims=True, dtype=x.dtype)

    def term(self, x: Scalar) -> Scalar:
        return magnitude(x)

    def vjp(self, cotangents: Sequence[SSAValue], b: GraphBuilder) -> Sequence[SSAValue | None]:
        return [b.mul(b.sign(self.operand), self.spread(b, cotangents[0]))]


@irdl_op_definition
class ReduceSumSquareOp(ReduceOp):
    """`sum x^2`; integers wrap around."""

    name = "graph.reduce_sum_square"
    COMBINATION: ClassVar = "sum"

    def evaluate(self, x: Array, axes: tuple[int, ...]) -> Any:
        return np.sum(x * x, axis=axes, keepdims=True, dtype=x.dtype)

    def term(self, x: Scalar) -> Scalar:
        return x * x

    def vjp(self, cotangents: Sequence[SSAValue], b: GraphBuilder) -> Sequence[SSAValue | None]:
        twice = b.add(self.operand, self.operand)
        return [b.mul(twice, self.spread(b, cotangents[0]))]


@irdl_op_definition
class ReduceL2Op(ReduceOp):
    """`sqrt(sum x^2)`; its derivative where all elements are 0 is 0."""

    name = "graph.reduce_l2"
    ELEMENTS: ClassVar = FLOATS
    FINISHES: ClassVar = True

    def evaluate(self, x: Array, axes: tuple[int, ...]) -> Any:
        return np.sqrt(np.sum(x * x, axis=axes, keepdims=True))

    def term(self, x: Scalar) -> Scalar:
        return x * x

    def finish(self, b: LoopBuilder, total: Scalar) -> Scalar:
        return total.math("sqrt")

    def vjp(self, cotangents: Sequence[SSAValue], b: GraphBuilder) -> Sequence[SSAValue | None]:
        zero, one = b.filled(0, self.result), b.filled(1, self.result)
        divisor = b.where(b.equal(self.result, zero), one, self.result)
        return [b.mul(self.operand, self.spread(b, b.div(cotangents[0], divisor)))]


@irdl_op_definition
class ReduceLogSumOp(ReduceOp):
    """`log(sum x)`."""

    name = "graph.reduce_log_sum"
    ELEMENTS: ClassVar = FLOATS
    FINISHES: ClassVar = True

    def evaluate(self, x: Array, axes: tuple[int, ...]) -> Any:
        return np.log(np.sum(x, axis=axes, keepdims=True))

    def finish(self, b: LoopBuilder, total: Scalar) -> Scalar:
        return total.math("log")

    def vjp(self, cotangents: Sequence[SSAValue], b: GraphBuilder) -> Sequence[SSAValue | None]:
        total = b.reduce_sum(self.operand, axes=list(self.reduced()), keepdims=self.keeps_dims)
        return [self.spread(b, b.div(cotangents[0], total))]


@irdl_op_definition
class ReduceLogSumExpOp(ReduceOp):
    """`log(sum exp(x))`, computed as `m + log(sum exp(x - m))`.

    `m` is the greatest element where that is finite, else 0.
    """

    name = "graph.reduce_log_sum_exp"
    ELEMENTS: ClassVar = FLOATS
    AXES_OF_ONE_VANISH: ClassVar = True

    def evaluate(self, x: Array, axes: tuple[int, ...]) -> Any:
        shift = np.array(np.max(x, axis=axes, keepdims=True, initial=-np.inf))
        shift[np.isinf(shift)] = 0
        return np.log(np.sum(np.exp(x - shift), axis=axes, keepdims=True)) + shift

    def lower(self, b: LoopBuilder, operands: Buffers, results: Buffers) -> None:
        shape, element = self.result_type.shape, self.result_type.element
        extents = [type_of(self.operand).shape[axis] for axis in self.reduced()]
        shift = start_totals(b, shape, element, lowest(element), name="shift")
        with b.loops(shape) as index, b.reduce(extents, "max") as inner:
            x = b.load(operands[0], self.source_index(index, inner))
            b.store(shift, index, b.load(shift, index).maximum(x, any_zero=True))
        with b.loops(shape) as index:
            greatest = b.load(shift, index)
            infinite = magnitude(greatest).compare("eq", highest(element))
            b.store(shift, index, infinite.select(greatest.constant(0), greatest))
        total = start_totals(b, shape, element, 0)
        with b.loops(shape) as index, b.reduce(extents, "add") as inner:
            x = b.load(operands[0], self.source_index(index, inner))
            power = (x - b.load(shift, index)).math("exp")
            b.store(total, index, b.load(total, index) + power)
        with b.loops(shape) as index:
            b.store(results[0], index, b.load(total, index).math("log") + b.load(shift, index))

    def vjp(self, cotangents: Sequence[SSAValue], b: GraphBuilder) -> Sequence[SSAValue | None]:
        share = b.exp(b.sub(self.operand, self.spread(b, self.result)))
        return [b.mul(share, self.spread(b, cotangents[0]))]


OPS = (
    ReduceSumOp, ReduceMeanOp, ReduceMaxOp, ReduceMinOp, ReduceProdOp, ReduceL1Op, ReduceL2Op,
    ReduceSumSquareOp, ReduceLogSumOp, ReduceLogSumExpOp,
)  # fmt: skip

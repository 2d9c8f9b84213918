"""Elementwise operators: a result's element depends on the operands' at the same index alone.

Operands are broadcast as in NumPy. A subclass gives `compute` on scalars and `reference` on arrays.
"""

from __future__ import annotations

import math
import operator
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import ClassVar

import numpy as np
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import operand_def, result_def

from weft.dialects.expr import Expr
from weft.dialects.graph.core.accumulate import widen
from weft.dialects.graph.core.batching import again, aligned, is_batched
from weft.dialects.graph.core.broadcast import (
    broadcast_assumptions,
    broadcast_index,
    broadcast_shapes,
)
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.dtypes import numpy_dtype
from weft.dialects.graph.core.op import GraphOp
from weft.dialects.graph.core.sharding_rule import ShardingRule, broadcast_factors
from weft.dialects.graph.core.types import (
    BOOL,
    FLOATS,
    NUMBERS,
    ShapeAttr,
    TensorType,
    tensor,
    type_of,
)
from weft.dialects.graph.reindexing.constant import ConstantOp
from weft.dialects.loop.builder import Buffers, LoopBuilder
from weft.dialects.loop.scalar import Scalar
from weft.dialects.weights import Array

ANY_ELEMENT: tuple[Attribute, ...] = (*NUMBERS, BOOL)
"""Every element type."""


class ElementwiseOp(GraphOp):
    """One result whose elements are computed from the operands' at the same (broadcast) index."""

    ELEMENTS: ClassVar[tuple[Attribute, ...]] = NUMBERS
    """The element types that operands may have."""

    @abstractmethod
    def compute(self, b: LoopBuilder, *operands: Scalar) -> Scalar:
        """One element of the result from one of each operand."""

    def result_element(self) -> Attribute:
        """The element type of the result; that of the operands unless a subclass says otherwise."""
        return self.tensor_types()[-1].element

    def check_elements(self) -> None:
        """Operands have one element type, out of `ELEMENTS`."""
        elements = list(dict.fromkeys(each.element for each in self.tensor_types()))
        if len(elements) != 1:
            self.require(False, "operands of one element type", " and ".join(map(str, elements)))
        if elements[0] not in self.ELEMENTS:  # texts of types cost more than all else here
            allowed = ", ".join(map(str, self.ELEMENTS))
            self.require(False, f"an element type out of {allowed}", elements[0])

    def infer(self) -> Sequence[TensorType]:
        self.check_elements()
        tensor_types = self.tensor_types()
        if not all(each.has_rank for each in tensor_types):
            return [tensor(None, self.result_element())]
        shape = broadcast_shapes(self.name, [each.shape for each in tensor_types])
        return [tensor(shape, self.result_element())]

    def assumptions(self) -> Sequence[tuple[Expr, Expr]]:
        result = self.result_type.shape
        shapes = [each.shape for each in self.tensor_types()]
        return [pair for shape in shapes for pair in broadcast_assumptions(shape, result)]

    def vmap(
        self, operands: Sequence[SSAValue], size: Expr, b: GraphBuilder
    ) -> Sequence[SSAValue] | None:
        rank = self.result_type.rank
        pairs = zip(operands, self.operands, strict=True)
        return again(self, [aligned(b, x, rank) if is_batched(x, s) else x for x, s in pairs], b)

    def sharding_rule(self) -> ShardingRule | None:
        shapes = [each.shape for each in self.tensor_types()]
        operands, result = broadcast_factors(shapes, self.result_type.shape)
        return ShardingRule(operands, (result,))

    def lower(self, b: LoopBuilder, operands: Buffers, results: Buffers) -> None:
        shapes = [each.shape for each in self.tensor_types()]
        with b.loops(self.result_type.shape) as index:
            values = [
                b.load(operand, broadcast_index(index, shape))
                for operand, shape in zip(operands, shapes, strict=True)
            ]
            b.store(results[0], index, self.compute(b, *values))

    def number(self, b: GraphBuilder, value: float) -> SSAValue:
        """A number of the last operand's element type and rank 0, to write derivatives with."""
        return b.constant_of(value, self.tensor_types()[-1].element)


class UnaryOp(ElementwiseOp):
    """One operand, one result of the same type."""

    operand: SSAValue = operand_def(TensorType)
    result: SSAValue = result_def(TensorType)


class PassThroughOp(UnaryOp):
    """The operand itself."""

    ELEMENTS: ClassVar = ANY_ELEMENT

    def reference(self, *operands: Array) -> Sequence[Array]:
        return [operands[0]]

    def compute(self, b: LoopBuilder, *operands: Scalar) -> Scalar:
        return operands[0]

    def fold(self) -> Sequence[SSAValue]:
        return [self.operand]


class SlopeOp(UnaryOp):
    """A unary operator whose derivative at an element is another elementwise graph: its slope."""

    @abstractmethod
    def slope(self, b: GraphBuilder) -> SSAValue:
        """The derivative of each element of the result by that of the operand."""

    def vjp(self, cotangents: Sequence[SSAValue], b: GraphBuilder) -> Sequence[SSAValue | None]:
        return [b.mul(cotangents[0], self.slope(b))]


class FloatUnaryOp(SlopeOp):
    """A function of floats; f16 and bf16 are computed in f32 and rounded once."""

    ELEMENTS: ClassVar = FLOATS

    @abstractmethod
    def evaluate(self, x: Array) -> Array:
        """The function in NumPy, of f32 or f64."""

    def reference(self, *operands: Array) -> Sequence[Array]:
        with np.errstate(all="ignore"):
            return [narrowed(self.evaluate(widen(operands[0])), operands[0])]


class MathOp(FloatUnaryOp):
    """A function by its name in the math dialect, by default the operator's, and NumPy's, which is
    evaluated in f64: of f32 it is a unit off at times, and constants are rounded once.
    """

    FUNCTION: ClassVar[str] = ""
    NUMPY: ClassVar[Callable[..., Array]]

    def evaluate(self, x: Array) -> Array:
        return type(self).NUMPY(x.astype(np.float64)).astype(x.dtype)

    def compute(self, b: LoopBuilder, *operands: Scalar) -> Scalar:
        return operands[0].math(self.FUNCTION or self.name.removeprefix("graph."))


class OperatorOp(ElementwiseOp):
    """What an operator of Python computes, of arrays and of scalars of a loop nest alike."""

    OPERATOR: ClassVar[str]
    """Its name in the module `operator`."""

    def reference(self, *operands: Array) -> Sequence[Array]:
        return [getattr(operator, self.OPERATOR)(*operands)]

    def compute(self, b: LoopBuilder, *operands: Scalar) -> Scalar:
        return getattr(operator, self.OPERATOR)(*operands)


class BinaryOp(ElementwiseOp):
    """Two operands of one element type, broadcast against each other."""

    lhs: SSAValue = operand_def(TensorType)
    rhs: SSAValue = operand_def(TensorType)
    result: SSAValue = result_def(TensorType)

    def fold_pair(self, left: Expr, right: Expr) -> Expr | None:
        """One element where both operands are known expressions; None where it is not one."""
        return None

    def fold_dims(self, *operands: Sequence[Expr] | None) -> Sequence[Expr] | None:
        left, right = operands
        size = static_size(left, right)
        if left is None or right is None or size is None:
            return None
        pairs = zip(stretched(left, size), stretched(right, size), strict=True)
        folded = [self.fold_pair(*pair) for pair in pairs]
        constant_exprs = [expr for expr in folded if expr is not None]
        return constant_exprs if len(constant_exprs) == size else None


def static_size(*vectors: Sequence[Expr] | None) -> int | None:
    """How many elements known vectors or scalars have, broadcast; None where one is unknown."""
    sizes = {-1 if vector is None else len(vector) for vector in vectors} - {1}
    return None if len(sizes) > 1 or -1 in sizes else next(iter(sizes), 1)


def stretched(vector: Sequence[Expr], size: int) -> list[Expr]:
    """The elements, the only one repeated."""
    return list(vector) if len(vector) == size else list(vector) * size


def is_splat(value: SSAValue, number: float) -> bool:
    """Whether the value is an inline constant of that number everywhere; -0.0 is not 0.0."""
    owner = value.owner
    if not isinstance(owner, ConstantOp) or owner.literal is None:
        return False
    sign = math.copysign(1, number)
    return all(
        element == number and math.copysign(1, element) == sign for element in owner.literal.data
    )


def narrowed(array: Array, like: Array) -> Array:
    """The array rounded to the element type of another."""
    return np.asarray(array).astype(like.dtype)


def is_float(array: Array) -> bool:
    """Whether the elements are floats, NumPy's or bfloat16."""
    return array.dtype in [numpy_dtype(element) for element in FLOATS]


def sum_to(b: GraphBuilder, cotangent: SSAValue, operand: SSAValue) -> SSAValue:
    """The cotangent summed over the axes along which the operand was broadcast."""
    source, target = type_of(operand), type_of(cotangent)
    if source.dims == target.dims:
        return cotangent
    missing = target.rank - source.rank
    axes = list(range(missing))
    axes += [
        axis + missing
        for axis in range(source.rank)
        if source.shape[axis] == 1 and target.shape[axis + missing] != 1
    ]
    total = b.reduce_sum(cotangent, axes=axes, keepdims=False)
    kept = [
        Expr.of(1) if axis + missing in axes else target.shape[axis + missing]
        for axis in range(source.rank)
    ]
    summed = b.reshape(total, shape=ShapeAttr(tuple(kept)))
    return summed if tuple(kept) == source.shape else b.assume(summed, shape=source.dims)

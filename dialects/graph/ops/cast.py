"""Conversion between element types, of values and of bits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import ml_dtypes
import numpy as np
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import irdl_op_definition, prop_def

from weft.dialects.expr import Expr
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.dtypes import element_type, numpy_dtype
from weft.dialects.graph.core.elementwise import ANY_ELEMENT, UnaryOp, is_float
from weft.dialects.graph.core.op import GraphOp
from weft.dialects.graph.core.types import (
    BOOL,
    F8E8M0FNU,
    FLOATS,
    INTEGERS,
    NARROW_FLOATS,
    NARROW_INTEGERS,
    STORED,
    TensorType,
    type_of,
)
from weft.dialects.loop.builder import LoopBuilder
from weft.dialects.loop.scalar import Scalar, compute_type, width
from weft.dialects.weights import Array


@irdl_op_definition
class CastOp(UnaryOp):
    """The same values as another element type.

    Floats become integers by truncation that saturates, NaN becoming 0; integers wrap around;
    numbers become bools by comparing with zero. Numbers that a float of at most 8 bits cannot hold
    become its infinity, else NaN, else its greatest number.
    """

    name = "graph.cast"
    to: Attribute = prop_def(Attribute)
    ELEMENTS: ClassVar = (*ANY_ELEMENT, *STORED)

    def result_element(self) -> Attribute:
        return self.to

    def infer(self) -> Sequence[TensorType]:
        self.require(self.to in self.ELEMENTS, "a numeric or bool element type", self.to)
        return super().infer()

    def reference(self, *operands: Array) -> Sequence[Array]:
        (x,) = operands
        dtype = numpy_dtype(self.to)
        x = widened(x)
        if self.to in (*INTEGERS, *NARROW_INTEGERS) and is_float(x):
            return [truncated(x, dtype)]
        if self.to in NARROW_FLOATS:
            return [narrowed_to(x, dtype)]
        with np.errstate(all="ignore"):
            return [x != 0 if self.to == BOOL else x.astype(dtype)]

    def compute(self, b: LoopBuilder, *operands: Scalar) -> Scalar:
        return operands[0].cast(self.to)

    def fold(self) -> Sequence[SSAValue] | GraphOp | None:
        """A cast to the same type is gone; one of a cast that kept every value skips it."""
        if type_of(self.operand).element == self.to:
            return [self.operand]
        owner = self.operand.owner
        if isinstance(owner, CastOp) and _keeps_values(owner):
            return CastOp.of(owner.operand, to=self.to, location=self.location)
        return None

    def fold_dims(self, *operands: Sequence[Expr] | None) -> Sequence[Expr] | None:
        """Dims stay themselves as 32 or 64 bits; a narrower type might cut them."""
        wide = self.to in INTEGERS and numpy_dtype(self.to).itemsize >= 4
        return operands[0] if wide else None

    def vjp(self, cotangents: Sequence[SSAValue], b: GraphBuilder) -> Sequence[SSAValue | None]:
        """From float to float the cotangent is cast back; through integers there is none."""
        source = type_of(self.operand).element
        if source not in FLOATS or self.to not in FLOATS:
            return [None]
        return [b.cast(cotangents[0], to=source)]


def _keeps_values(cast: CastOp) -> bool:
    """Whether the result of a cast has every value of its operand, so that the operand tells as
    much: a float of more bits in each part, an integer of a greater range.
    """
    source, target = type_of(cast.operand).element, cast.to
    if source in FLOATS and target in FLOATS:
        return width(source) < width(target)
    if source not in INTEGERS or target not in INTEGERS:
        return False
    inner, outer = ml_dtypes.iinfo(numpy_dtype(source)), ml_dtypes.iinfo(numpy_dtype(target))
    return outer.min <= inner.min and inner.max <= outer.max


def truncated(x: Array, dtype: np.dtype[Any]) -> Array:
    """Floats as integers: towards zero, out of range to the nearest bound, NaN to 0."""
    limits = ml_dtypes.iinfo(dtype)
    wide = x.astype(np.float64)
    below, above = wide < float(limits.min), wide >= float(limits.max)
    inside = np.where(below | above | np.isnan(wide), 0, np.trunc(wide)).astype(dtype)
    least, greatest = dtype.type(limits.min), dtype.type(limits.max)
    return np.where(below, least, np.where(above, greatest, inside))


def widened(x: Array) -> Array:
    """The array in a type that is computed in: floats of at most 8 bits as f32, integers of fewer
    bits in 8.
    """
    element = element_type(x.dtype)
    return x.astype(numpy_dtype(compute_type(element))) if element in STORED else x


def narrowed_to(x: Array, dtype: np.dtype[Any]) -> Array:
    """Numbers as floats of at most 8 bits, rounded once; NaN loses its sign."""
    single = rounded_to_odd(x.astype(np.float64))
    single = np.where(np.isnan(single), np.float32(np.nan), single)
    if element_type(dtype) == F8E8M0FNU:
        return _power_of_two(single).view(dtype)
    with np.errstate(all="ignore"):
        return single.astype(dtype)


def rounded_to_odd(x: Array) -> Array:
    """f64 as the f32 beside it whose last bit is 1, which rounds to fewer bits as x does."""
    with np.errstate(all="ignore"):
        nearest = x.astype(np.float32)
        back, bits = np.abs(nearest.astype(np.float64)), nearest.view(np.uint32)
    even = (bits & 1) == 0
    above, below = even & (back > np.abs(x)), even & (back < np.abs(x))
    return (bits - above.astype(np.uint32) + below.astype(np.uint32)).view(np.float32)


def _power_of_two(x: Array) -> Array:
    """The exponent of the nearest power of two, counted from 2**-127 up; ties go up.

    255 for what is not positive, or too large.
    """
    bits = x.view(np.uint32).astype(np.int64)
    lowest = (bits >= 3 << 21).astype(np.int64)
    codes = np.where(bits < 1 << 23, lowest, (bits + (1 << 22)) >> 23)
    outside = (bits == 0) | (bits >= 0x7F800000)
    return np.where(outside, 255, codes).astype(np.uint8)


@irdl_op_definition
class BitcastOp(UnaryOp):
    """The same bits as another element type of the same width; bools are bytes of 0 or 1."""

    name = "graph.bitcast"
    to: Attribute = prop_def(Attribute)
    ELEMENTS: ClassVar = (*ANY_ELEMENT, *STORED)

    def result_element(self) -> Attribute:
        return self.to

    def infer(self) -> Sequence[TensorType]:
        self.check_elements()
        source = type_of(self.operand).element
        same = self.to in self.ELEMENTS and _bits(self.to) == _bits(source)
        self.require(same, f"an element type of the {_bits(source)} bits of {source}", self.to)
        return super().infer()

    def reference(self, *operands: Array) -> Sequence[Array]:
        return [operands[0].view(numpy_dtype(self.to))]

    def compute(self, b: LoopBuilder, *operands: Scalar) -> Scalar:
        stored = operands[0].cast(type_of(self.operand).element)
        return stored.bitcast(self.to)

    def fold(self) -> Sequence[SSAValue] | None:
        """To the same type it is gone."""
        return [self.operand] if type_of(self.operand).element == self.to else None


def _bits(element: Attribute) -> int:
    return 8 if element == BOOL else width(element)


OPS: tuple[type[GraphOp], ...] = (CastOp, BitcastOp)

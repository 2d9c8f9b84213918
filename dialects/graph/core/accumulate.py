"""What operators that combine many elements into one share: totals and where they start."""

from __future__ import annotations

import math
from collections.abc import Sequence

import ml_dtypes
import numpy as np
from xdsl.ir import Attribute, SSAValue

from weft.dialects.expr import ExprLike
from weft.dialects.loop.builder import LoopBuilder
from weft.dialects.loop.scalar import Number, Scalar, compute_type, is_float, is_unsigned, width
from weft.dialects.weights import Array

_NARROW = (np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16))


def widen(array: Array) -> Array:
    """The array in the type in which its elements are computed: f16 and bf16 as f32."""
    return array.astype(np.float32) if array.dtype in _NARROW else array


def lowest(element: Attribute) -> Number:
    """The least value of an element type: what a maximum over nothing is."""
    if is_float(element):
        return -math.inf
    return 0 if is_unsigned(element) else -(1 << (width(element) - 1))


def highest(element: Attribute) -> Number:
    """The greatest value of an element type: what a minimum over nothing is."""
    if is_float(element):
        return math.inf
    return (1 << (width(element) - (0 if is_unsigned(element) else 1))) - 1


def fill(
    b: LoopBuilder, target: SSAValue, shape: Sequence[ExprLike], value: Number, element: Attribute
) -> None:
    """Sets every element of a buffer of that shape and element type to one value."""
    with b.loops(shape) as index:
        b.store(target, index, b.constant(value, element))


def start_totals(
    b: LoopBuilder,
    shape: Sequence[ExprLike],
    element: Attribute,
    start: Number,
    final: SSAValue | None = None,
    name: str = "total",
) -> SSAValue:
    """A buffer of that shape filled with the value that a reduction starts from.

    It is `final`, the operator's result, where that is given and wide enough to add up in, else a
    temporary.
    """
    wide = compute_type(element)
    total = final if final is not None and wide == element else b.temporary(shape, wide, name)
    fill(b, total, shape, start, wide)
    return total


def round_totals(
    b: LoopBuilder, shape: Sequence[ExprLike], total: SSAValue, final: SSAValue
) -> None:
    """Brings totals that were added up in a wider type into the result."""
    if total is not final:
        with b.loops(shape) as index:
            b.store(final, index, b.load(total, index))


def magnitude(x: Scalar) -> Scalar:
    """`|x|`; the lowest integer stays what it is."""
    if is_unsigned(x.element):
        return x
    return x.math("absf" if is_float(x.element) else "absi")

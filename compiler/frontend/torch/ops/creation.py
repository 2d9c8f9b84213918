"""ATen's operators that make tensors out of sizes and numbers, and conversions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from xdsl.ir import Attribute

from weft.compiler.frontend.torch.operands import (
    AtenTable,
    Number,
    Operand,
    element_of,
    entry,
    only_static,
    term,
)
from weft.dialects.errors import UnsupportedError
from weft.dialects.expr import Expr, ExprLike, maximum
from weft.dialects.graph.core.algebra import Term, counted
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.types import BOOL, F32, F64, FLOATS, I64


def full(
    b: GraphBuilder, size: Sequence[ExprLike], fill_value: Number, dtype: Attribute | None = None
) -> Term:
    """A tensor of one number."""
    return term(b, fill_value, dtype or element_of(fill_value)).expand(
        [Expr.of(each) for each in size]
    )


def full_like(
    b: GraphBuilder, x: Term, fill_value: Operand, dtype: Attribute | None = None
) -> Term:
    """A tensor of one number, of another's dims."""
    return term(b, fill_value, dtype or x.type.element).expand(x.shape)


def zeros(b: GraphBuilder, size: Sequence[ExprLike], dtype: Attribute | None = None) -> Term:
    """Zeros; also what stands for memory that is not set."""
    return full(b, size, 0, dtype or F32)


def ones(b: GraphBuilder, size: Sequence[ExprLike], dtype: Attribute | None = None) -> Term:
    """Ones."""
    return full(b, size, 1, dtype or F32)


def new_zeros(
    b: GraphBuilder, x: Term, size: Sequence[ExprLike], dtype: Attribute | None = None
) -> Term:
    """Zeros of another's type."""
    return full(b, size, 0, dtype or x.type.element)


def new_full(
    b: GraphBuilder,
    x: Term,
    size: Sequence[ExprLike],
    fill_value: Number,
    dtype: Attribute | None = None,
) -> Term:
    """One number, of another's type."""
    return full(b, size, fill_value, dtype or x.type.element)


def scalar_tensor(b: GraphBuilder, s: Number, dtype: Attribute | None = None) -> Term:
    """A number as a tensor."""
    return term(b, s, dtype or F32)


def arange(
    b: GraphBuilder, start: Number, end: Number, step: Number = 1, dtype: Attribute | None = None
) -> Term:
    """The numbers from a start below an end."""
    numbers = (start, end, step)
    floats = any(isinstance(each, float) for each in numbers)
    element = dtype or (F32 if floats else I64)
    if floats and element not in FLOATS:  # torch rounds the numbers, not how many there are
        numbers = tuple(int(e) if isinstance(e, float) else e for e in numbers)
        floats = False
    if floats:
        if any(isinstance(each, Expr) for each in numbers):
            raise UnsupportedError("requires whole numbers where sizes vary, got floats")
        first, last, pace = (float(each) for each in numbers)  # pyright: ignore[reportArgumentType]
        count: ExprLike = max(0, -int(-(last - first) // pace))
    else:
        first, last, pace = (Expr.of(each) for each in numbers)  # pyright: ignore[reportArgumentType]
        least, _ = pace.range({})
        if least is None or least < 0:  # a size may be a step, and goes upwards
            only_static([pace], "arange")
        upwards = least is not None and least >= 0
        length = (last - first).ceildiv(pace) if upwards else (first - last).ceildiv(-pace)
        low, _ = length.range({})
        count = length if low is not None and low >= 0 else maximum([Expr.of(0), length])
    if element in FLOATS:
        return counted(b, count, element) * term(b, pace, element) + term(b, first, element)
    counter = counted(b, count)
    return (counter * term(b, pace, I64) + term(b, first, I64)).cast(element)


def _arange_to(b: GraphBuilder, end: Number, dtype: Attribute | None = None) -> Term:
    return arange(b, 0, end, 1, dtype)


def to_copy(b: GraphBuilder, x: Term, dtype: Attribute | None = None, **_: object) -> Term:
    """The elements as another type."""
    return x if dtype is None else convert(x, dtype)


def convert(x: Term, element: Attribute) -> Term:
    """The elements as another type; floats become small integers by way of i64, as in torch."""
    if x.type.element in FLOATS and element not in (*FLOATS, BOOL):
        return x.cast(I64).cast(element)
    return x.cast(element)


def copy(b: GraphBuilder, x: Term, src: Term, non_blocking: bool = False) -> Term:
    """Another tensor in the dims and the type of the first."""
    return convert(src, x.type.element).expand(x.shape)


def fill(b: GraphBuilder, x: Term, value: Operand) -> Term:
    """One number in the dims and the type of a tensor."""
    return term(b, value, x.type.element).expand(x.shape)


def eye(
    b: GraphBuilder, n: ExprLike, m: ExprLike | None = None, dtype: Attribute | None = None
) -> Term:
    """Ones on a diagonal."""
    rows, columns = counted(b, n), counted(b, n if m is None else m)
    return rows.insert(1).equals(columns.insert(0)).cast(dtype or F32)


def triangle(b: GraphBuilder, x: Term, diagonal: int = 0, *, upper: bool) -> Term:
    """What is above, or below, a diagonal of the last two axes."""
    if x.type.element == BOOL:
        rows, columns = (counted(b, dim) for dim in x.shape[-2:])
        distance = columns.insert(0) - rows.insert(1)
        kept = distance >= diagonal if upper else distance <= diagonal
        return kept & x
    return x.of(b.trilu(x.value, upper=upper, k=diagonal))


def linspace(
    b: GraphBuilder, start: float, end: float, steps: int, dtype: Attribute | None = None
) -> Term:
    """Numbers at equal distances, both ends included; the second half counts from the end. Integers
    have integers as ends, and what is between them is computed in f64 and loses its fraction.
    """
    element = dtype or F32
    if element not in FLOATS:
        return convert(linspace(b, int(start), int(end), steps, F64), element)
    if steps <= 1:
        return full(b, [steps], float(start), element)
    pace = (end - start) / (steps - 1)
    counter = counted(b, steps, element)
    front = counter * float(pace) + float(start)
    back = float(end) - ((steps - 1.0) - counter) * float(pace)
    return (counter < float(steps // 2)).where(front, back)


TABLE: Final[AtenTable] = {
    **entry(full, "full.default"),
    **entry(full_like, "full_like.default"),
    **entry(
        lambda b, x, dtype=None: full_like(b, x, 0, dtype),
        "zeros_like.default",
        "empty_like.default",
    ),
    **entry(lambda b, x, dtype=None: full_like(b, x, 1, dtype), "ones_like.default"),
    **entry(zeros, "zeros.default", "empty.memory_format"),
    **entry(ones, "ones.default"),
    **entry(
        lambda b, size, _, dtype=None: zeros(b, size, dtype),
        "empty_permuted.default",
        "empty_strided.default",
    ),
    **entry(new_zeros, "new_zeros.default", "new_empty.default"),
    **entry(
        lambda b, x, size, _, dtype=None: new_zeros(b, x, size, dtype), "new_empty_strided.default"
    ),
    **entry(lambda b, x, size, dtype=None: new_full(b, x, size, 1, dtype), "new_ones.default"),
    **entry(new_full, "new_full.default"),
    **entry(scalar_tensor, "scalar_tensor.default"),
    **entry(arange, "arange.start_step", "arange.start"),
    **entry(_arange_to, "arange.default"),
    **entry(to_copy, "_to_copy.default"),
    "prims.convert_element_type.default": lambda b, x, dtype: convert(x, dtype),
    **entry(copy, "copy.default"),
    **entry(fill, "fill.Scalar", "fill.Tensor"),
    **entry(lambda b, n, dtype=None: eye(b, n, None, dtype), "eye.default"),
    **entry(eye, "eye.m"),
    **entry(lambda b, x, diagonal=0: triangle(b, x, diagonal, upper=True), "triu.default"),
    **entry(lambda b, x, diagonal=0: triangle(b, x, diagonal, upper=False), "tril.default"),
    **entry(linspace, "linspace.default"),
}

"""ATen's reductions, running totals, and orders of elements."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Final

from xdsl.ir import Attribute

from weft.compiler.frontend.torch.operands import (
    AtenTable,
    Number,
    as_float,
    axes_of,
    axis_of,
    computed,
    entry,
    term,
    wide,
    with_axis,
)
from weft.compiler.frontend.torch.ops.elementwise import to_numbers
from weft.dialects.expr import Expr, ExprLike, product
from weft.dialects.graph.core.algebra import Term, shape_attr, size_term
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.types import BOOL, FLOATS, I64, UI8

Axes = int | Sequence[int] | None


def _reduced(name: str, x: Term, dim: Axes, keepdim: bool) -> Term:
    axes = axes_of(x, dim)
    return x.of(x.b.op(name, x.value, axes=axes, keepdims=keepdim).results[0]) if axes else x


def _as_wide(x: Term, dtype: Attribute | None) -> Term:
    """In the type asked for; integers and bools are added up in 64 bits otherwise."""
    own = x.type.element
    return x.cast(dtype or (own if own in FLOATS else I64))


def total(
    b: GraphBuilder,
    x: Term,
    dim: Axes = None,
    keepdim: bool = False,
    dtype: Attribute | None = None,
) -> Term:
    """The sum over axes."""
    return _reduced("reduce_sum", _as_wide(x, dtype), dim, keepdim)


def mean(
    b: GraphBuilder,
    x: Term,
    dim: Axes = None,
    keepdim: bool = False,
    dtype: Attribute | None = None,
) -> Term:
    """The mean over axes."""
    return _reduced("reduce_mean", x.cast(dtype or x.type.element), dim, keepdim)


def prod(
    b: GraphBuilder,
    x: Term,
    dim: Axes = None,
    keepdim: bool = False,
    dtype: Attribute | None = None,
) -> Term:
    """The product over axes."""
    return _reduced("reduce_prod", _as_wide(x, dtype), dim, keepdim)


def extremum(name: str, b: GraphBuilder, x: Term, dim: Axes = None, keepdim: bool = False) -> Term:
    """The greatest or least element over axes."""
    return _reduced(f"reduce_{name}", x, dim, keepdim)


def holds(name: str, b: GraphBuilder, x: Term, dim: Axes = None, keepdim: bool = False) -> Term:
    """Whether one element, or each, over axes is not zero."""
    found = _reduced(f"reduce_{name}", x.cast(BOOL).cast(UI8), dim, keepdim).cast(BOOL)
    return found.cast(UI8) if x.type.element == UI8 else found


def count(x: Term, axes: Sequence[int]) -> Expr:
    """How many elements axes have together."""
    return product([x.shape[axis] for axis in axes])


def moments(
    b: GraphBuilder, x: Term, dim: Axes, correction: Number, keepdim: bool
) -> tuple[Term, Term]:
    """Variance and mean over axes, the former of elements less a correction."""
    axes = axes_of(x, dim)
    whole = x.cast(wide(x.type.element))
    centre = _reduced("reduce_mean", whole, axes, True)
    distance = whole - centre
    squares = (distance * distance).sum(axes, keepdims=keepdim)
    divisor = size_term(b, count(x, axes), whole.type.element)
    if correction != 0:
        divisor = (divisor - term(b, correction, whole.type.element)).maximum(0.0)
    if not keepdim:
        centre = centre.reshape([d for axis, d in enumerate(x.shape) if axis not in axes])
    return (squares / divisor).cast(x.type.element), centre.cast(x.type.element)


def variance(
    b: GraphBuilder,
    x: Term,
    dim: Axes = None,
    correction: Number | None = None,
    keepdim: bool = False,
) -> Term:
    """The mean square distance from the mean."""
    return moments(b, x, dim, 1 if correction is None else correction, keepdim)[0]


def _variance_unbiased(
    b: GraphBuilder, x: Term, dim: Axes, unbiased: bool = True, keepdim: bool = False
) -> Term:
    return variance(b, x, dim, int(unbiased), keepdim)


def _deviation(
    b: GraphBuilder,
    x: Term,
    dim: Axes = None,
    correction: Number | None = None,
    keepdim: bool = False,
) -> Term:
    return variance(b, x, dim, correction, keepdim).math("sqrt")


def _variance_and_mean(
    b: GraphBuilder,
    x: Term,
    dim: Axes = None,
    correction: Number | None = None,
    keepdim: bool = False,
) -> tuple[Term, Term]:
    return moments(b, x, dim, 1 if correction is None else correction, keepdim)


def _logsumexp(b: GraphBuilder, x: Term, dim: Axes, keepdim: bool = False) -> Term:
    return computed(b, lambda y: _reduced("reduce_log_sum_exp", y, dim, keepdim), x, floats=True)


def vector_norm(
    b: GraphBuilder,
    x: Term,
    ord: float = 2,
    dim: Axes = None,
    keepdim: bool = False,
    dtype: Attribute | None = None,
) -> Term:
    """The norm of vectors along axes."""
    y = x.cast(dtype or x.type.element)
    return computed(b, lambda z: _norm(z, float(ord), axes_of(z, dim), keepdim), y)


def _norm(x: Term, order: float, axes: list[int], keepdim: bool) -> Term:
    size = x.math("abs")
    if not axes and order != 0:
        return size
    if math.isinf(order):
        return _reduced("reduce_max" if order > 0 else "reduce_min", size, axes, keepdim)
    if order == 0:
        return size.equals(0).where(0.0, size.number(1)).sum(axes, keepdims=keepdim)
    if order == 1:
        return size.sum(axes, keepdims=keepdim)
    if order == 2:
        return _reduced("reduce_l2", x, axes, keepdim)
    powers = size.of(size.b.pow(size.value, size.number(order).value))
    found = powers.sum(axes, keepdims=keepdim)
    return found.of(found.b.pow(found.value, found.number(1 / order).value))


def position_of(
    name: str, b: GraphBuilder, x: Term, dim: int | None = None, keepdim: bool = False
) -> Term:
    """Where along an axis, or in the flat tensor, the greatest or least element is."""
    if dim is None:
        found = position_of(name, b, x.reshape([x.type.size]), 0)
        return found.reshape([1] * len(x.shape)) if keepdim else found
    vector = to_numbers(with_axis(x))
    axis = axis_of(vector, dim)
    found = vector.of(
        b.op(name, vector.value, axis=axis, keepdims=keepdim, select_last_index=False).results[0]
    )
    return found if x.shape else found.reshape([])


def extremum_and_position(
    name: str, b: GraphBuilder, x: Term, dim: int, keepdim: bool = False
) -> tuple[Term, Term]:
    """The greatest or least element along an axis, and where it is."""
    return extremum(name, b, x, dim, keepdim), position_of(f"arg_{name}", b, x, dim, keepdim)


def running(name: str, b: GraphBuilder, x: Term, dim: int, dtype: Attribute | None = None) -> Term:
    """Running totals along an axis."""
    y = _as_wide(x, dtype)
    if not x.shape:
        return y
    return y.of(b.op(name, y.value, axis=dim, exclusive=False, reverse=False).results[0])


def order(
    b: GraphBuilder, x: Term, dim: int, descending: bool, size: ExprLike | None = None
) -> Term:
    """The positions of the first elements in sorted order."""
    y = to_numbers(with_axis(x))
    axis = axis_of(y, dim)
    found = b.argsort(
        y.value,
        axis=axis,
        descending=descending,
        count=shape_attr([y.shape[axis] if size is None else size]),
    )
    return y.of(found)


def _sorted(
    b: GraphBuilder, x: Term, dim: int, descending: bool, size: ExprLike | None = None
) -> tuple[Term, Term]:
    places = order(b, x, dim, descending, size if x.shape else 1)
    y = with_axis(x)
    values = y.of(b.gather_elements(y.value, places.value, axis=axis_of(y, dim)))
    return (values, places) if x.shape else (values.reshape([]), places.reshape([]))


def sort(b: GraphBuilder, x: Term, dim: int = -1, descending: bool = False) -> tuple[Term, Term]:
    """The elements in sorted order, and where they were."""
    return _sorted(b, x, dim, descending)


def _stable_sort(
    b: GraphBuilder, x: Term, *, stable: bool | None = None, dim: int = -1, descending: bool = False
) -> tuple[Term, Term]:
    return _sorted(b, x, dim, descending)


def topk(
    b: GraphBuilder, x: Term, k: ExprLike, dim: int = -1, largest: bool = True, sorted: bool = True
) -> tuple[Term, Term]:
    """The greatest or least elements along an axis, and where they are."""
    return _sorted(b, x, dim, largest, k)


def _argsort(b: GraphBuilder, x: Term, dim: int = -1, descending: bool = False) -> Term:
    places = order(b, x, dim, descending)
    return places if x.shape else places.reshape([])


def _running_log(b: GraphBuilder, x: Term, dim: int) -> Term:
    def of(y: Term) -> Term:
        top = _reduced("reduce_max", y, dim, True)
        grown = (y - top).math("exp")
        return (
            y.of(b.cumsum(grown.value, axis=dim, exclusive=False, reverse=False)).math("log") + top
        )

    return computed(b, of, x) if x.shape else x


def mean_float(
    b: GraphBuilder,
    x: Term,
    dim: Axes = None,
    keepdim: bool = False,
    dtype: Attribute | None = None,
) -> Term:
    """The mean, of integers as floats."""
    return mean(b, x.cast(as_float(x.type.element)), dim, keepdim, dtype)


TABLE: Final[AtenTable] = {
    **entry(total, "sum.dim_IntList"),
    **entry(lambda b, x, dtype=None: total(b, x, dtype=dtype), "sum.default"),
    **entry(mean, "mean.dim"),
    **entry(lambda b, x, dtype=None: mean(b, x, dtype=dtype), "mean.default"),
    **entry(prod, "prod.dim_int"),
    **entry(lambda b, x, dtype=None: prod(b, x, dtype=dtype), "prod.default"),
    **entry(partial(extremum, "max"), "amax.default", "max.default"),
    **entry(partial(extremum, "min"), "amin.default", "min.default"),
    **entry(partial(extremum_and_position, "max"), "max.dim"),
    **entry(partial(extremum_and_position, "min"), "min.dim"),
    **entry(partial(position_of, "arg_max"), "argmax.default"),
    **entry(partial(position_of, "arg_min"), "argmin.default"),
    **entry(partial(holds, "max"), "any.default", "any.dim", "any.dims"),
    **entry(partial(holds, "min"), "all.default", "all.dim", "all.dims"),
    **entry(variance, "var.correction"),
    **entry(_variance_unbiased, "var.dim"),
    **entry(_deviation, "std.correction"),
    **entry(_variance_and_mean, "var_mean.correction"),
    **entry(_logsumexp, "logsumexp.default"),
    **entry(vector_norm, "linalg_vector_norm.default"),
    **entry(_running_log, "logcumsumexp.default"),
    **entry(partial(running, "cumsum"), "cumsum.default"),
    **entry(partial(running, "cumprod"), "cumprod.default"),
    **entry(sort, "sort.default"),
    **entry(_stable_sort, "sort.stable"),
    **entry(_argsort, "argsort.default"),
    **entry(topk, "topk.default"),
}

"""ATen's normalisations and their derivatives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from weft.compiler.frontend.torch.operands import AtenTable, entry, wide
from weft.compiler.frontend.torch.ops.reductions import count
from weft.dialects.expr import Expr, ExprLike, product
from weft.dialects.graph.core.algebra import Term, size_term
from weft.dialects.graph.core.builder import GraphBuilder


def layer_norm(
    b: GraphBuilder,
    x: Term,
    normalized_shape: Sequence[ExprLike],
    weight: Term | None,
    bias: Term | None,
    eps: float,
) -> tuple[Term, Term, Term]:
    """A layer norm over the last axes, and mean and inverse deviation of each line."""
    axis = len(x.shape) - len(normalized_shape)
    dims = x.shape[axis:]
    scale = x.number(1).expand(dims) if weight is None else weight.cast(x.type.element)
    shift = None if bias is None else bias.cast(x.type.element).value
    found = b.layer_norm(x.value, scale.value, shift, axis=axis, epsilon=float(eps))
    mean, inverse = b.op("layer_norm_statistics", x.value, axis=axis, epsilon=float(eps)).results
    return x.of(found), x.of(mean), x.of(inverse)


def layer_norm_backward(
    b: GraphBuilder,
    dy: Term,
    x: Term,
    normalized_shape: Sequence[ExprLike],
    mean: Term,
    rstd: Term,
    weight: Term | None,
    bias: Term | None,
    output_mask: Sequence[bool],
) -> list[Term | None]:
    """The cotangents of operand, scale and bias."""
    axis = len(x.shape) - len(normalized_shape)
    inner, outer = list(range(axis, len(x.shape))), list(range(axis))
    element = x.type.element
    dy, y, mean, rstd = (each.cast(wide(element)) for each in (dy, x, mean, rstd))
    normal = (y - mean) * rstd
    slopes = dy if weight is None else dy * weight.cast(dy.type.element)
    dx = _centred(slopes, normal, rstd, inner)
    parts = [dx, (dy * normal).sum(outer), dy.sum(outer)]
    return [
        part.cast(element) if keep else None for part, keep in zip(parts, output_mask, strict=True)
    ]


def _centred(slopes: Term, normal: Term, inverse: Term, axes: list[int]) -> Term:
    """`inverse * (slopes - mean(slopes) - normal * mean(slopes * normal))` over axes."""
    divisor = size_term(slopes.b, count(slopes, axes), slopes.type.element)
    first = slopes.sum(axes, keepdims=True) / divisor
    second = (slopes * normal).sum(axes, keepdims=True) / divisor
    return (slopes - first - normal * second) * inverse


def _by_channel(x: Term, parameter: Term) -> Term:
    """A vector of an element a channel, beside a tensor `[n, c, ...]`."""
    return parameter.reshape([x.shape[1], *[1] * (len(x.shape) - 2)])


def _lines(x: Term, group: int) -> list[Expr]:
    """The dims of examples, groups and their elements."""
    return [x.shape[0], Expr.of(group), product(x.shape[1:]) // group]


def group_norm(
    b: GraphBuilder,
    x: Term,
    weight: Term | None,
    bias: Term | None,
    n: ExprLike,
    c: ExprLike,
    hxw: ExprLike,
    group: int,
    eps: float,
) -> tuple[Term, Term, Term]:
    """A group norm, and mean and inverse deviation of each group."""
    channels = [x.shape[1]]
    scale = x.number(1).expand(channels) if weight is None else weight.cast(x.type.element)
    shift = x.number(0).expand(channels) if bias is None else bias.cast(x.type.element)
    found = b.group_norm(x.value, scale.value, shift.value, groups=group, epsilon=float(eps))
    lines = x.reshape(_lines(x, group))
    mean, inverse = b.op("layer_norm_statistics", lines.value, axis=2, epsilon=float(eps)).results
    dims = [x.shape[0], Expr.of(group)]
    element = x.type.element
    mean, inverse = (x.of(each).reshape(dims).cast(element) for each in (mean, inverse))
    return x.of(found), mean, inverse


def group_norm_backward(
    b: GraphBuilder,
    dy: Term,
    x: Term,
    mean: Term,
    rstd: Term,
    weight: Term | None,
    n: ExprLike,
    c: ExprLike,
    hxw: ExprLike,
    group: int,
    output_mask: Sequence[bool],
) -> list[Term | None]:
    """The cotangents of operand, scale and bias."""
    element = x.type.element
    dy, y, mean, rstd = (each.cast(wide(element)) for each in (dy, x, mean, rstd))
    slopes = dy if weight is None else dy * _by_channel(x, weight.cast(dy.type.element))
    lines = _lines(x, group)
    inverse = rstd.insert(2)
    normal = (y.reshape(lines) - mean.insert(2)) * inverse
    dx = _centred(slopes.reshape(lines), normal, inverse, [2]).reshape(x.shape)
    axes = [axis for axis in range(len(x.shape)) if axis != 1]
    parts = [dx, (dy * normal.reshape(x.shape)).sum(axes), dy.sum(axes)]
    return [
        part.cast(element) if keep else None for part, keep in zip(parts, output_mask, strict=True)
    ]


def _inference(
    b: GraphBuilder,
    x: Term,
    weight: Term | None,
    bias: Term | None,
    mean: Term,
    var: Term,
    eps: float,
) -> Term:
    like, element = [x.shape[1]], mean.type.element
    scale = mean.number(1).expand(like) if weight is None else weight.cast(element)
    shift = mean.number(0).expand(like) if bias is None else bias.cast(element)
    if len(x.shape) == 2 or x.type.element != element:
        y = x.cast(wide(x.type.element))
        scale, shift, mean, var = (each.cast(y.type.element) for each in (scale, shift, mean, var))
        factor = _by_channel(x, scale / (var + float(eps)).math("sqrt"))
        return ((y - _by_channel(x, mean)) * factor + _by_channel(x, shift)).cast(x.type.element)
    operands = [each.value for each in (x, scale, shift, mean, var)]
    return x.of(b.batch_norm(*operands, epsilon=float(eps)))


def batch_norm_inference(
    b: GraphBuilder,
    x: Term,
    weight: Term | None,
    bias: Term | None,
    running_mean: Term,
    running_var: Term,
    momentum: float,
    eps: float,
) -> tuple[Term, Term, Term]:
    """A batch norm by given statistics."""
    found = _inference(b, x, weight, bias, running_mean, running_var, eps)
    empty = running_mean.number(0).expand([0])
    return found, empty, empty


def _training(
    b: GraphBuilder, x: Term, weight: Term | None, bias: Term | None, eps: float
) -> tuple[Term, Term, Term, Term]:
    """A batch norm by the batch's own statistics: result, mean, inverse deviation, variance."""
    axes = [axis for axis in range(len(x.shape)) if axis != 1]
    y = x.cast(wide(x.type.element))
    mean = y.of(b.reduce_mean(y.value, axes=axes, keepdims=False))
    centred = y - _by_channel(x, mean)
    variance = y.of(b.reduce_mean((centred * centred).value, axes=axes, keepdims=False))
    inverse = (variance + float(eps)).math("sqrt").math("reciprocal")
    factor = inverse if weight is None else inverse * weight.cast(y.type.element)
    found = centred * _by_channel(x, factor)
    if bias is not None:
        found = found + _by_channel(x, bias.cast(y.type.element))
    return found.cast(x.type.element), mean, inverse, variance


def batch_norm_functional(
    b: GraphBuilder,
    x: Term,
    weight: Term | None,
    bias: Term | None,
    running_mean: Term,
    running_var: Term,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Term, Term, Term, Term, Term]:
    """A batch norm, and what becomes of the running statistics."""
    if not training:
        found = batch_norm_inference(b, x, weight, bias, running_mean, running_var, momentum, eps)
        return *found, running_mean, running_var
    found, mean, inverse, variance = _training(b, x, weight, bias, eps)
    axes = [axis for axis in range(len(x.shape)) if axis != 1]
    size = size_term(b, count(x, axes), variance.type.element)
    unbiased = variance * (size / (size - 1.0))
    kept, rate = 1.0 - float(momentum), float(momentum)
    return (
        found, mean, inverse,
        running_mean * kept + mean.cast(running_mean.type.element) * rate,
        running_var * kept + unbiased.cast(running_var.type.element) * rate,
    )  # fmt: skip


def batch_norm_without_statistics(
    b: GraphBuilder,
    x: Term,
    weight: Term | None,
    bias: Term | None,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Term, Term, Term]:
    """A batch norm by the batch's own statistics."""
    return _training(b, x, weight, bias, eps)[:3]


def batch_norm_backward(
    b: GraphBuilder,
    dy: Term,
    x: Term,
    weight: Term | None,
    running_mean: Term | None,
    running_var: Term | None,
    save_mean: Term | None,
    save_invstd: Term | None,
    train: bool,
    eps: float,
    output_mask: Sequence[bool],
) -> list[Term | None]:
    """The cotangents of operand, scale and bias."""
    element = x.type.element
    dy, y = dy.cast(wide(element)), x.cast(wide(element))
    if train:
        assert save_mean is not None, "training keeps its statistics"
        assert save_invstd is not None, "training keeps its statistics"
        mean, inverse = save_mean, save_invstd
    else:
        assert running_mean is not None, "evaluation has statistics"
        assert running_var is not None, "evaluation has statistics"
        mean, inverse = running_mean, (running_var + float(eps)).math("sqrt").math("reciprocal")
    mean, inverse = (_by_channel(x, each.cast(y.type.element)) for each in (mean, inverse))
    normal = (y - mean) * inverse
    slopes = dy if weight is None else dy * _by_channel(x, weight.cast(y.type.element))
    axes = [axis for axis in range(len(x.shape)) if axis != 1]
    dx = _centred(slopes, normal, inverse, axes) if train else slopes * inverse
    parts = [dx, (dy * normal).sum(axes), dy.sum(axes)]
    types = [element, *[element if weight is None else weight.type.element] * 2]
    return [
        part.cast(own) if keep else None
        for part, own, keep in zip(parts, types, output_mask, strict=True)
    ]


def rms_norm(
    b: GraphBuilder,
    x: Term,
    normalized_shape: Sequence[ExprLike],
    weight: Term | None = None,
    eps: float | None = None,
) -> Term:
    """`x / sqrt(mean(x * x) + eps)`, scaled."""
    axis = len(x.shape) - len(normalized_shape)
    scale = x.number(1).expand(x.shape[axis:]) if weight is None else weight.cast(x.type.element)
    margin = 1.1920928955078125e-07 if eps is None else float(eps)
    return x.of(b.rms_norm(x.value, scale.value, axis=axis, epsilon=margin))


TABLE: Final[AtenTable] = {
    **entry(layer_norm, "native_layer_norm.default"),
    **entry(layer_norm_backward, "native_layer_norm_backward.default"),
    **entry(group_norm, "native_group_norm.default"),
    **entry(group_norm_backward, "native_group_norm_backward.default"),
    **entry(batch_norm_inference, "_native_batch_norm_legit_no_training.default"),
    **entry(batch_norm_functional, "_native_batch_norm_legit_functional.default"),
    **entry(batch_norm_without_statistics, "_native_batch_norm_legit.no_stats"),
    **entry(batch_norm_backward, "native_batch_norm_backward.default"),
    **entry(rms_norm, "rms_norm.default"),
}

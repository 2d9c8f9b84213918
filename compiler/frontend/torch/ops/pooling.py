"""ATen's poolings, paddings and windows, and their derivatives."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

import numpy as np

from weft.compiler.frontend.torch.operands import AtenTable, Operand, entry, only_static, term
from weft.compiler.frontend.torch.ops.activation import derivatives
from weft.compiler.frontend.torch.ops.views import view
from weft.dialects.errors import WeftError
from weft.dialects.expr import Expr, ExprLike, minimum, product
from weft.dialects.graph.core.algebra import Term, counted, shape_attr, size_term
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.op import AttributeValue
from weft.dialects.graph.core.types import I64, ShapeAttr

Sizes = Sequence[int]


def _per_axis(values: Sizes, rank: int, default: Sizes = ()) -> list[int]:
    given = only_static([Expr.of(each) for each in values or default], "windows")
    return given * rank if len(given) == 1 else given


def _batched(x: Term, rank: int) -> Term:
    return x if len(x.shape) == rank + 2 else x.insert(0)


def _unbatched(found: Term, x: Term) -> Term:
    return found if len(found.shape) == len(x.shape) else found.reshape(found.shape[1:])


def _window(
    rank: int, kernel: Sizes, stride: Sizes, padding: Sizes, ceil_mode: bool
) -> dict[str, AttributeValue]:
    taps = _per_axis(kernel, rank)
    pads = _per_axis(padding, rank, [0])
    return {
        "kernel": taps,
        "strides": _per_axis(stride, rank, taps),
        "pads": [*pads, *pads],
        "ceil_mode": ceil_mode,
    }


def max_pool(
    rank: int,
    b: GraphBuilder,
    x: Term,
    kernel_size: Sizes,
    stride: Sizes = (),
    padding: Sizes = (0,),
    dilation: Sizes = (1,),
    ceil_mode: bool = False,
) -> tuple[Term, Term]:
    """The greatest element of each window, and where in its plane it is."""
    y = _batched(x, rank)
    attributes = _window(rank, kernel_size, stride, padding, ceil_mode)
    attributes["dilations"] = _per_axis(dilation, rank)
    found = y.of(b.max_pool(y.value, **attributes))
    places = y.of(b.max_pool_indices(y.value, column_major=False, **attributes))
    plane = product(y.shape[2:])
    size = term(b, plane if plane.constant is None else plane.constant, I64)
    return _unbatched(found, x), _unbatched(places.modulo(size), x)


def max_pool_backward(rank: int, b: GraphBuilder, dy: Term, x: Term, *arguments: object) -> Term:
    """The cotangents at the places that were the greatest."""
    indices = arguments[-1]
    assert isinstance(indices, Term), "max pooling keeps its indices"
    lead = x.shape[: len(x.shape) - rank]
    plane, positions = product(x.shape[-rank:]), product(dy.shape[-rank:])
    zeros = dy.number(0).expand([product(lead), plane])
    flat, places = (each.reshape([product(lead), positions]) for each in (dy, indices))
    found = b.scatter_elements(zeros.value, places.value, flat.value, axis=1, reduction="add")
    return dy.of(found).reshape(x.shape)


def _whole_windows(
    y: Term, rank: int, kernel: Sizes, stride: Sizes, padding: Sizes, ceil_mode: bool
) -> Term:
    """An image with zeros around it, so that its windows are whole."""
    taps = _per_axis(kernel, rank)
    steps, pads = _per_axis(stride, rank, taps), _per_axis(padding, rank, [0])
    around: list[ExprLike] = []
    for at, size in enumerate(y.shape[2:]):
        room = size + 2 * pads[at] - taps[at]
        last = room // steps[at]
        if ceil_mode:  # a window starts within the image or in front of it
            last = minimum([room.ceildiv(steps[at]), (size + pads[at] - 1) // steps[at]])
        behind = last * steps[at] + taps[at] - size - pads[at]
        around = [pads[at], behind, *around]
    return constant_pad(y.b, y, around)


def average_pool(
    rank: int,
    b: GraphBuilder,
    x: Term,
    kernel_size: Sizes,
    stride: Sizes = (),
    padding: Sizes = (0,),
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Term:
    """The mean of each window, or its sum by a divisor."""
    y = _batched(x, rank)
    if divisor_override is not None:
        y = _whole_windows(y, rank, kernel_size, stride, padding, ceil_mode)
        factor = float(np.prod(_per_axis(kernel_size, rank))) / divisor_override
        attributes = _window(rank, kernel_size, stride, (0,), False) | {"count_include_pad": False}
        found = y.of(b.average_pool(y.value, **attributes)) * factor
    else:
        attributes = _window(rank, kernel_size, stride, padding, ceil_mode)
        attributes["count_include_pad"] = count_include_pad
        found = y.of(b.average_pool(y.value, **attributes))
    return _unbatched(found, x)


def average_pool_backward(
    rank: int, b: GraphBuilder, dy: Term, x: Term, kernel_size: Sizes, *arguments: object
) -> Term:
    """Equal parts of each cotangent to the elements of its window."""

    def pooled(y: Term) -> Term:
        return average_pool(rank, b, y, kernel_size, *arguments)  # pyright: ignore[reportArgumentType]

    return derivatives(b, pooled, dy, x)[0]


def _means(b: GraphBuilder, size: Expr, parts: Expr, like: Term) -> Term:
    """The matrix `[parts, size]` that takes means of nearly equal parts."""
    whole, count = size_term(b, size, I64), size_term(b, parts, I64)
    part = counted(b, parts).insert(1)
    first, last = part * whole / count, ((part + 1) * whole + count - 1) / count
    places = counted(b, size).insert(0)
    inside = (places >= first) & (places < last)
    element = like.type.element
    return inside.cast(element) / (last - first).cast(element)


def adaptive_mean(rank: int, b: GraphBuilder, x: Term, output_size: Sequence[ExprLike]) -> Term:
    """The means of nearly equal parts of each spatial axis."""
    parts = [Expr.of(each) for each in output_size]
    if set(parts) == {Expr.of(1)}:
        axes = list(range(len(x.shape) - rank, len(x.shape)))
        return x.of(b.reduce_mean(x.value, axes=axes, keepdims=True))
    sizes = x.shape[-rank:]
    kernel = [
        size.constant // part.constant
        for size, part in zip(sizes, parts, strict=True)
        if size.constant and part.constant and size.constant % part.constant == 0
    ]
    if len(kernel) == rank:
        return average_pool(rank, b, x, kernel)
    for at, (size, part) in enumerate(zip(sizes, parts, strict=True)):
        x = along(x, len(x.shape) - rank + at, _means(b, size, part, x))
    return x


def along(x: Term, axis: int, matrix: Term) -> Term:
    """A matrix `[m, n]` times the lines of an axis of `n` elements."""
    rank = len(x.shape)
    order = [*(each for each in range(rank) if each != axis), axis]
    moved = x.transpose(order).matmul(matrix.transpose([1, 0]))
    return moved.transpose([order.index(each) for each in range(rank)])


def adaptive_mean_backward(rank: int, b: GraphBuilder, dy: Term, x: Term) -> Term:
    """The cotangents spread over the parts that were averaged."""
    sizes, parts = x.shape[-rank:], dy.shape[-rank:]
    if set(parts) == {Expr.of(1)}:
        return (dy / size_term(b, product(sizes), dy.type.element)).expand(x.shape)
    for at, (size, part) in enumerate(zip(sizes, parts, strict=True)):
        matrix = _means(b, size, part, dy).transpose([1, 0])
        dy = along(dy, len(dy.shape) - rank + at, matrix)
    return dy


def _pads(rank: int, pad: Sequence[ExprLike]) -> ShapeAttr:
    """torch lists pairs from the last axis on; a graph those before all axes, then behind."""
    before, behind = [Expr.of(0)] * rank, [Expr.of(0)] * rank
    for at in range(len(pad) // 2):
        before[rank - 1 - at], behind[rank - 1 - at] = (
            Expr.of(pad[2 * at]),
            Expr.of(pad[2 * at + 1]),
        )
    return ShapeAttr((*before, *behind))


def constant_pad(b: GraphBuilder, x: Term, pad: Sequence[ExprLike], value: Operand = 0) -> Term:
    """One number around the last axes; negative pads crop."""
    number = term(b, value, x.type.element).value
    return x.of(b.pad(x.value, number, pads=_pads(len(x.shape), pad), mode="constant"))


def mirrored(mode: str, b: GraphBuilder, x: Term, padding: Sequence[ExprLike]) -> Term:
    """The elements at the border around the last axes."""
    return x.of(b.pad(x.value, pads=_pads(len(x.shape), padding), mode=mode))


def mirrored_backward(
    mode: str, b: GraphBuilder, dy: Term, x: Term, padding: Sequence[ExprLike]
) -> Term:
    """The cotangents added up at the elements that were repeated."""
    try:
        return derivatives(b, lambda y: mirrored(mode, b, y, padding), dy, x)[0]
    except WeftError:  # of pads that crop, or axes without elements
        return _repeated_backward(mode, b, dy, x, padding)


def _repeated_backward(
    mode: str, b: GraphBuilder, dy: Term, x: Term, padding: Sequence[ExprLike]
) -> Term:
    """The same by the matrices that repeat elements of each axis."""
    for at in range(len(padding) // 2):
        before, behind = map(Expr.of, padding[2 * at : 2 * at + 2])
        axis = len(x.shape) - 1 - at
        size = x.shape[axis]
        places = counted(b, size + before + behind) - size_term(b, before, I64)
        last = size_term(b, size, I64) - 1
        if mode == "edge":
            places = places.maximum(0).minimum(last.maximum(0))
        else:
            places = places.maximum(-places)
            places = (places > last).where(last * 2 - places, places)
        repeats = counted(b, size).insert(1).equals(places.insert(0))
        dy = along(dy, axis, repeats.cast(dy.type.element))
    return dy


def _windows(dilation: Sizes, padding: Sizes, stride: Sizes) -> dict[str, AttributeValue]:
    pads = _per_axis(padding, 2)
    return {
        "strides": _per_axis(stride, 2),
        "dilations": _per_axis(dilation, 2),
        "pads": [*pads, *pads],
    }


def im2col(
    b: GraphBuilder, x: Term, kernel_size: Sizes, dilation: Sizes, padding: Sizes, stride: Sizes
) -> Term:
    """The windows of images as columns."""
    y = _batched(x, 2)
    windows = y.of(
        b.unfold(y.value, kernel=_per_axis(kernel_size, 2), **_windows(dilation, padding, stride))
    )
    n, c, t, r, *positions = windows.shape
    return _unbatched_columns(windows.reshape([n, c * t * r, product(positions)]), x)


def _unbatched_columns(found: Term, x: Term) -> Term:
    return found if len(x.shape) == 4 else found.reshape(found.shape[1:])


def col2im(
    b: GraphBuilder,
    x: Term,
    output_size: Sequence[ExprLike],
    kernel_size: Sizes,
    dilation: Sizes,
    padding: Sizes,
    stride: Sizes,
) -> Term:
    """Columns added up where their windows lie."""
    columns = x if len(x.shape) == 3 else x.insert(0)
    taps, pads = _per_axis(kernel_size, 2), _per_axis(padding, 2)
    steps, spread = _per_axis(stride, 2), _per_axis(dilation, 2)
    positions = [
        (Expr.of(size) + 2 * pads[at] - ((taps[at] - 1) * spread[at] + 1)) // steps[at] + 1
        for at, size in enumerate(output_size)
    ]
    n, rows, _ = columns.shape
    windows = columns.reshape([n, rows // (taps[0] * taps[1]), *taps, *positions])
    found = x.of(
        b.fold(
            windows.value, spatial=shape_attr(output_size), **_windows(dilation, padding, stride)
        )
    )
    return found if len(x.shape) == 3 else found.reshape(found.shape[1:])


def pixel_shuffle(b: GraphBuilder, x: Term, upscale_factor: int) -> Term:
    """Channels spread over the plane."""
    *lead, c, h, w = x.shape
    r = upscale_factor
    blocks = view(b, x, [*lead, c // (r * r), r, r, h, w])
    at = len(lead)
    order = [*range(at), at, at + 3, at + 1, at + 4, at + 2]
    return blocks.transpose(order).reshape([*lead, c // (r * r), h * r, w * r])


TABLE: Final[AtenTable] = {
    **entry(partial(max_pool, 2), "max_pool2d_with_indices.default"),
    **entry(partial(max_pool, 3), "max_pool3d_with_indices.default"),
    **entry(partial(max_pool_backward, 2), "max_pool2d_with_indices_backward.default"),
    **entry(partial(max_pool_backward, 3), "max_pool3d_with_indices_backward.default"),
    **entry(partial(average_pool, 1), "avg_pool1d.default"),
    **entry(partial(average_pool, 2), "avg_pool2d.default"),
    **entry(partial(average_pool, 3), "avg_pool3d.default"),
    **entry(partial(average_pool_backward, 2), "avg_pool2d_backward.default"),
    **entry(partial(average_pool_backward, 3), "avg_pool3d_backward.default"),
    **entry(partial(adaptive_mean, 1), "adaptive_avg_pool1d.default"),
    **entry(partial(adaptive_mean, 2), "_adaptive_avg_pool2d.default"),
    **entry(partial(adaptive_mean, 3), "_adaptive_avg_pool3d.default"),
    **entry(partial(adaptive_mean_backward, 2), "_adaptive_avg_pool2d_backward.default"),
    **entry(partial(adaptive_mean_backward, 3), "_adaptive_avg_pool3d_backward.default"),
    **entry(constant_pad, "constant_pad_nd.default"),
    **{
        f"aten.{name}_pad{rank}d{suffix}.default": partial(function, mode)
        for name, mode in (("reflection", "reflect"), ("replication", "edge"))
        for rank in (1, 2, 3)
        for suffix, function in (("", mirrored), ("_backward", mirrored_backward))
    },
    **entry(im2col, "im2col.default"),
    **entry(col2im, "col2im.default"),
    **entry(pixel_shuffle, "pixel_shuffle.default"),
}

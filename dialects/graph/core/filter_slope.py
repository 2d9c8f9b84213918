"""What the derivative of a convolution in its filter is made of."""

from __future__ import annotations

from weft.dialects.expr import product
from weft.dialects.graph.core.algebra import Term
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.types import Shape, ShapeAttr, TensorType
from weft.dialects.graph.core.window import Window


def columns(b: GraphBuilder, x: Term, window: Window, groups: int, count: Shape) -> Term:
    """The windows of the first `count` positions: `[n, group, channel, taps, positions]`."""
    taken = x.of(b.unfold(x.value, kernel=ShapeAttr(window.kernel), **window.attributes()))
    rank = len(window.axes)
    for axis, size in enumerate(count):
        taken = taken.part(2 + rank + axis, 0, size)
    batch, channels = x.shape[:2]
    taps, positions = product(window.kernel), product(taken.shape[2 + rank :])
    return taken.reshape((batch, groups, channels // groups, taps, positions))


def slides_under(window: Window, dy: Term, filters: TensorType) -> bool:
    """Whether `filter_convolved` is the shorter way: where taps are neighbours and, at a position,
    windows have more elements to be written out than `dy` has to be brought into another order.
    """
    outputs = filters.shape[0].constant
    taken = product(filters.shape[1:]).constant
    sizes = (*window.spatial, *dy.shape[2:])
    if outputs is None or taken is None or any(size.constant is None for size in sizes):
        return False
    return set(window.strides) == {1} and taken > outputs


def filter_convolved(b: GraphBuilder, x: Term, dy: Term, window: Window) -> Term:
    """`dw[o, c, t] = sum_np dy[n, o, p] * x[n, c, p + t * dilation - pad]`, a convolution: images
    slide under `dy` as the filter, samples are its channels and channels its samples.
    """
    swapped = (1, 0, *range(2, 2 + len(window.axes)))
    found = b.conv(
        x.transpose(swapped).value,
        dy.transpose(swapped).value,
        strides=list(window.dilations),
        dilations=[1] * len(window.axes),
        pads=ShapeAttr((*window.before, *window.after)),
        group=1,
    )
    return dy.of(found).transpose(swapped)

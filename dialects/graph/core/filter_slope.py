"""What the derivative of a convolution in its filter is made of."""

from __future__ import annotations

from weft.dialects.expr import minimum, product
from weft.dialects.graph.core.algebra import Term
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.types import Shape, ShapeAttr, TensorType
from weft.dialects.graph.core.window import Window

LONG_SUM = 512
"""Positions of a sample from which on its sums are worth a place of their own."""


def columns(b: GraphBuilder, x: Term, window: Window, groups: int, count: Shape) -> Term:
    """The windows of the first `count` positions: `[n, group, channel, taps, positions]`."""
    taken = x.of(b.unfold(x.value, kernel=ShapeAttr(window.kernel), **window.attributes()))
    rank = len(window.axes)
    for axis, size in enumerate(count):
        taken = taken.part(2 + rank + axis, 0, size)
    batch, channels = x.shape[:2]
    taps, positions = product(window.kernel), product(taken.shape[2 + rank :])
    return taken.reshape((batch, groups, channels // groups, taps, positions))


def slides_under(window: Window, dy: Term, filters: TensorType, groups: int) -> bool:
    """Whether `filter_convolved` is the shorter way: where, at a position, windows have more
    elements to be written out than `dy` has to be brought into another order.
    """
    outputs = (filters.shape[0] // groups).constant
    taken = product(filters.shape[1:]).constant
    sizes = (*window.spatial, *dy.shape[2:], *([dy.shape[0]] if groups > 1 else []))
    if outputs is None or taken is None or any(size.constant is None for size in sizes):
        return False
    return taken > outputs


def filter_convolved(b: GraphBuilder, x: Term, dy: Term, window: Window, groups: int) -> Term:
    """`dw[o, c, t] = sum_np dy[n, o, p] * x[n, c, p * stride + t * dilation - pad]`, a convolution:
    images slide under `dy` as the filter, whose taps are as far apart as windows were, samples are
    its channels and channels its samples. Of long sums, each sample is a group of its own, and
    these are added up: what a group reads of `dy` stays in L2 while all channels go over it. So is
    each group of each sample.
    """
    swapped, own, after = (1, 0, *range(2, 2 + len(window.axes))), dy.shape[2:], list(window.after)
    for axis, stride in enumerate(window.strides):
        unread = (window.padded(axis) - window.reach(axis)) % stride
        behind = minimum([unread, after[axis]])
        x = x.part(2 + axis, 0, window.spatial[axis] - (unread - behind))
        after[axis] -= behind
    apart = groups > 1 or _adds_samples(x, dy, window)
    (samples, outputs), channels = dy.shape[:2], x.shape[1] // groups
    image, slopes, sets = x.transpose(swapped), dy.transpose(swapped), 1
    if apart:
        sets = (samples * groups).constant or 1
        image = x.reshape((sets, channels, *x.shape[2:])).transpose(swapped)
        slopes = dy.reshape((samples * outputs, 1, *own))
    found = b.conv(
        image.value,
        slopes.value,
        strides=list(window.dilations),
        dilations=list(window.strides),
        pads=ShapeAttr((*window.before, *after)),
        group=sets,
    )
    sums = dy.of(found)
    if apart:
        sums = sums.reshape((channels, samples, outputs, *sums.shape[2:])).sum([1])
    return sums.transpose(swapped)


def _adds_samples(x: Term, dy: Term, window: Window) -> bool:
    """Whether the sums of a sample are long, and no more than twice the elements of its `dy`."""
    positions = product(dy.shape[2:]).constant or 0
    taken = product((x.shape[1], *window.kernel)).constant
    if taken is None or not dy.shape[0].constant:
        return False
    return positions >= max(LONG_SUM, taken / 2)

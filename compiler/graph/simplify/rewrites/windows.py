"""Padding in front of a window becomes the window's own, where its value counts for nothing; padded
convolutions read no elements that they step over along an axis where they have a single tap; sums
of one term, a single tap of one channel, are products.
"""

from __future__ import annotations

from weft.compiler.graph.simplify.rewrites.arithmetic import is_positive
from weft.compiler.graph.simplify.rewrites.expressions import (
    Match,
    Operator,
    Rewrite,
    Value,
    graph,
)
from weft.dialects.graph.core.accumulate import lowest
from weft.dialects.graph.core.algebra import Term, shape_attr
from weft.dialects.graph.core.elementwise import is_splat
from weft.dialects.graph.core.types import F32, F64, type_of
from weft.dialects.graph.core.window import Window, WindowOp
from weft.dialects.graph.ops.conv import ConvOp
from weft.dialects.graph.ops.pool import AveragePoolOp, MaxPoolOp
from weft.dialects.graph.reindexing.pad import PadOp

x = Value("x")


def _pads_with(pad: PadOp, number: float) -> bool:
    """Whether the padding is of that number."""
    return is_splat(pad.value, number) if pad.value is not None else number == 0


def _wider(m: Match, window: Window, **attributes: bool) -> Term | None:
    """The window with its own padding and that in front of it, which no batch or channel has."""
    pad, op = m.op("pad", PadOp), m.op("window", WindowOp)
    sides = pad.before, pad.behind
    lows = [size.range({})[0] for side in sides for size in side]
    outside = any(size != 0 for side in sides for size in side[:2])
    if outside or any(low is None or low < 0 for low in lows):
        return None
    own, more = (*window.before, *window.after), (*pad.before[2:], *pad.behind[2:])
    pads = [one + other for one, other in zip(own, more, strict=True)]
    constants = [size.constant for size in pads]
    known = [size for size in constants if size is not None]
    attribute = known if len(known) == len(pads) else shape_attr(pads)
    return m.again(op, m.values["x"], *op.slots()[1:], pads=attribute, **attributes)


def _into_convolution(m: Match) -> Term | None:
    """Outside of an image are zeros."""
    pad = m.op("pad", PadOp)
    return _wider(m, m.op("window", ConvOp).window()) if _pads_with(pad, 0) else None


def _into_max_pool(m: Match) -> Term | None:
    """Outside is what is never greater than an element, of which each window of taps side by side
    has at least one.
    """
    pool, pad = m.op("window", MaxPoolOp), m.op("pad", PadOp)
    window = pool.window()
    lowest_of_all = _pads_with(pad, lowest(pool.result_type.element))
    lowest_here = max(window.dilations) == 1 and _pads_with(pad, 0) and is_positive(pad.operand)
    return _wider(m, window) if lowest_of_all or lowest_here else None


def _into_average_pool(m: Match) -> Term | None:
    """Zeros that count, as those of the pool's own padding have to."""
    pool, pad = m.op("window", AveragePoolOp), m.op("pad", PadOp)
    window = pool.window()
    is_padded = any(size != 0 for size in (*window.before, *window.after))
    counted = bool(pool.count_include_pad.value.data) or not is_padded
    return _wider(m, window, count_include_pad=True) if counted and _pads_with(pad, 0) else None


def _without_skipped(m: Match) -> Term | None:
    """What is stepped over is not copied into the padded image."""
    conv, image = m.op("window", ConvOp), m.values["x"]
    window, shape = conv.window(), type_of(conv.result).shape
    ends = zip(window.kernel, window.strides, window.before, window.after, strict=True)
    skipped = [kernel == 1 and step > 1 and low == high == 0 for kernel, step, low, high in ends]
    if not window.is_padded or not any(skipped):
        return None
    sizes, steps = list(type_of(image).shape), [1] * len(shape)
    for axis, skips in enumerate(skipped):
        if skips:
            sizes[2 + axis], steps[2 + axis] = shape[2 + axis], window.strides[axis]
    starts = shape_attr([0] * len(sizes))
    read = m.b.slice(image, starts=starts, sizes=shape_attr(sizes), steps=steps)
    strides = [1 if skips else each for skips, each in zip(skipped, window.strides, strict=True)]
    return m.again(conv, read, *conv.slots()[1:], strides=strides)


def _one_term(m: Match) -> Term | None:
    """`x * w + b`, with each channel of the image as often as its group has channels."""
    conv, image = m.op("window", ConvOp), m["x"]
    window, filters = conv.window(), Term(m.b, conv.filter)
    steps = any(step != 1 for step in window.strides)
    if steps or window.is_padded or any(size != 1 for size in filters.shape[1:]):
        return None
    n, groups, *sizes = image.shape
    channels, ones = filters.shape[0], (1,) * len(sizes)
    shape, dims = (n, channels, *sizes), (channels, *ones)
    if groups not in (1, channels):
        image = image.reshape((n, groups, 1, *sizes))
        dims = (groups, channels // groups, *ones)
    product = image * filters.reshape(dims)
    for bias in conv.operands[2:]:
        product = product + Term(m.b, bias).reshape(dims)
    return product.reshape(shape)


def _padded(op_class: type[WindowOp]) -> Operator:
    padded = graph.pad(x, mode="constant").named("pad").alone()
    return Operator((op_class,), (padded,)).named("window")


WINDOWS = (
    Rewrite("pad in front of convolution", _padded(ConvOp), _into_convolution),
    Rewrite("pad in front of max pool", _padded(MaxPoolOp), _into_max_pool),
    Rewrite("pad in front of average pool", _padded(AveragePoolOp), _into_average_pool),
    Rewrite(
        "sum of one term",
        Operator((ConvOp,), (x,)).named("window"),
        _one_term,
        exact=False,
        elements=(F32, F64),
    ),
    Rewrite("steps of a single tap", Operator((ConvOp,), (x,)).named("window"), _without_skipped),
)

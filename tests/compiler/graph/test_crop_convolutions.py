"""Convolutions that are cut to what they need read the same elements with the same taps."""

from __future__ import annotations

from itertools import product

from weft.compiler.graph.crop_convolutions import _needed  # pyright: ignore[reportPrivateUsage]
from weft.dialects.expr import Expr
from weft.dialects.graph.core.window import Window


def reads(window: Window) -> list[list[int | None]]:
    """For each position the element of each tap along the only axis, None in the padding."""
    size = window.spatial[0].evaluate({})
    firsts = [
        n * window.strides[0] - window.before[0].evaluate({})
        for n in range(window.output(0).evaluate({}))
    ]
    taps = range(window.kernel[0].evaluate({}))
    indices = [[first + tap * window.dilations[0] for tap in taps] for first in firsts]
    return [[n if 0 <= n < size else None for n in row] for row in indices]


def one_axis(size: int, kernel: int, steps: tuple[int, int], pads: tuple[int, int]) -> Window:
    before, after = (Expr.of(pad) for pad in pads)
    return Window(
        spatial=(Expr.of(size),),
        kernel=(Expr.of(kernel),),
        strides=steps[:1],
        dilations=steps[1:],
        before=(before,),
        after=(after,),
    )


def test_every_window_of_a_few_elements_reads_what_it_read():
    cut = 0
    for size, kernel, stride, dilation in product(
        (1, 2, 5, 8), (1, 2, 3), (1, 2, 3, 4, 6), (1, 2, 3, 6)
    ):
        for pads in product((0, 1, 2, 5), (0, 1, 4)):
            window = one_axis(size, kernel, (stride, dilation), pads)
            if window.output(0).evaluate({}) < 1 or (part := _needed(window, 0)) is None:
                continue
            cut += 1
            step = part.elements.step
            steps = stride // step, max(1, dilation // step)
            smaller = one_axis(len(part.elements), len(part.taps), steps, (part.before, part.after))
            found = [
                [None if n is None else part.elements[n] for n in row] for row in reads(smaller)
            ]
            taps = slice(part.taps.start, part.taps.stop)
            assert found == [row[taps] for row in reads(window)], window
            others = [row[: taps.start] + row[taps.stop :] for row in reads(window)]
            assert all(n is None for row in others for n in row), window
    assert cut > 500

"""Taps of the windows of convolutions: where they read the image and the filter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct

from weft.dialects.expr import Expr, maximum
from weft.dialects.graph.core.types import Shape
from weft.dialects.graph.core.window import Window, spatial_names
from weft.dialects.weights import Array

Index = Sequence[Expr]


class Taps(Struct, frozen=True):
    """Positions of a result and taps of a window at each of them. `source` is the spatial index in
    the image, `place` that in the filter, of a position and a tap.
    """

    positions: Shape
    names: str
    kernel: Shape
    source: Callable[[Index, Index], Index]
    index_at: Callable[[Index, Index], Index]


def forward_taps(window: Window, positions: Shape) -> Taps:
    """A window that slides over an image within its padding."""
    names = spatial_names(len(positions))
    return Taps(positions, names, window.kernel, window.source, lambda _, taps: taps)


def backward_taps(window: Window, positions: Shape) -> Taps:
    """The same with the filter turned around."""

    def index_at(_: Index, taps: Index) -> Index:
        return [extent - 1 - t for extent, t in zip(window.kernel, taps, strict=True)]

    names = spatial_names(len(positions))
    return Taps(positions, names, window.kernel, window.source, index_at)


def phase_taps(window: Window, output: Shape) -> Taps:
    """A window that each element of an image scatters, seen from the results, whose index is
    `stride * m + phase`: positions are `[m..., phase...]`.

    Tap `t` of a position reads the image at `m + (phase + pad) div stride - t`, and the filter at
    `stride * t + (phase + pad) mod stride`. Strides divide the filter and the result.
    """
    rank, strides = len(window.axes), [Expr.of(stride) for stride in window.strides]
    front = _front(window)

    def source(position: Index, taps: Index) -> Index:
        phases = zip(position[rank:], window.before, strides, strict=True)
        wholes = [_divide(phase, pad, stride)[0] for phase, pad, stride in phases]
        steps = zip(position[:rank], wholes, taps, front, strict=True)
        return [m + whole - t + start for m, whole, t, start in steps]

    def index_at(position: Index, taps: Index) -> Index:
        steps = zip(position[rank:], window.before, strides, taps, strict=True)
        return [t * stride + _divide(phase, pad, stride)[1] for phase, pad, stride, t in steps]

    counts = [dim // stride for dim, stride in zip(output, strides, strict=True)]
    names = spatial_names(rank) + "uvwabefg"[:rank]
    return Taps((*counts, *strides), names, _phase_kernel(window), source, index_at)


def phase_padding(window: Window, output: Shape) -> Window:
    """The padding of the image that the taps of phases read."""
    kernel, ones = _phase_kernel(window), (1,) * len(window.axes)
    behind: list[Expr] = []
    for axis, dim in enumerate(output):
        stride = window.strides[axis]
        last = dim // stride + (window.before[axis] + stride - 1) // stride
        behind.append(maximum([0, last - window.spatial[axis]]))
    return Window(window.spatial, kernel, ones, ones, tuple(_front(window)), tuple(behind))


def _phase_kernel(window: Window) -> Shape:
    return tuple(k // stride for k, stride in zip(window.kernel, window.strides, strict=True))


def _front(window: Window) -> list[Expr]:
    steps = zip(_phase_kernel(window), window.before, window.strides, strict=True)
    return [maximum([0, taps - 1 - pad // stride]) for taps, pad, stride in steps]


def _divide(phase: Expr, pad: Expr, stride: Expr) -> tuple[Expr, Expr]:
    """`phase + pad` divided by the stride, which the phase is less than, and what is left."""
    if pad % stride == 0:
        return pad // stride, phase
    return (phase + pad) // stride, (phase + pad) % stride


def with_bias(y: Array, bias: Sequence[Array], dtype: Any) -> Array:
    """The result `[n, group, channel, ...]` with channels joined, the bias added and rounded."""
    joined = y.reshape(y.shape[0], -1, *y.shape[3:])
    spatial = (1,) * (joined.ndim - 2)
    return sum((addend.reshape(-1, *spatial) for addend in bias), joined).astype(dtype)

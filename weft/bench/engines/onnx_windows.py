"""The geometry of windows as ONNX states it: pads of both sides, output sizes, grids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def pads_of(
    attributes: dict[str, Any], sizes: Sequence[int], kernel: Sequence[int]
) -> list[tuple[int, int]]:
    """(before, after) of each spatial axis, `auto_pad` resolved."""
    rank = len(kernel)
    auto = attributes.get("auto_pad", "NOTSET")
    if auto == "NOTSET":
        pads = attributes.get("pads", [0] * (2 * rank))
        return list(zip(pads[:rank], pads[rank:], strict=True))
    if auto == "VALID":
        return [(0, 0)] * rank
    strides = attributes.get("strides", [1] * rank)
    dilations = attributes.get("dilations", [1] * rank)
    resolved: list[tuple[int, int]] = []
    for size, width, stride, dilation in zip(sizes, kernel, strides, dilations, strict=True):
        total = max(0, (-(-size // stride) - 1) * stride + (width - 1) * dilation + 1 - size)
        less, more = total // 2, total - total // 2
        resolved.append((less, more) if auto == "SAME_UPPER" else (more, less))
    return resolved


def ceil_pads(
    attributes: dict[str, Any],
    sizes: Sequence[int],
    kernel: Sequence[int],
    pads: list[tuple[int, int]],
) -> list[tuple[int, int]]:
    """The pads that make `ceil_mode` the same as rounding down."""
    if not attributes.get("ceil_mode", 0):
        return pads
    strides = attributes.get("strides", [1] * len(kernel))
    wider: list[tuple[int, int]] = []
    for size, width, stride, (before, after) in zip(sizes, kernel, strides, pads, strict=True):
        room = size + before + after - width
        count = -(-room // stride) + 1
        if (count - 1) * stride >= size + before:  # a window may not start behind the tensor
            count -= 1
        wider.append((before, max(after, (count - 1) * stride + width - size - before)))
    return wider

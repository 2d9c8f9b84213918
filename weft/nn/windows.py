"""Layers whose windows slide over the axes of `[n, channels, axes...]`: convolutions, pools, and
what brings these axes to other sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil
from typing import Any, ClassVar

import numpy as np

import weft.numpy as wnp
from weft.array.composites import leader
from weft.dialects.weights import Array
from weft.nn.initializers import Initializer, fan_in_uniform, zeros
from weft.nn.module import Module

Sizes = int | Sequence[int]


def sizes_of(value: Sizes, dims: int) -> list[int]:
    """A number for each of the axes that windows slide along."""
    return [value] * dims if isinstance(value, int) else list(value)


class _Convolution(Module):
    DIMS: ClassVar[int]
    OPERATOR: ClassVar[str] = "conv"

    def __init__(
        self,
        inputs: int,
        outputs: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Sizes = 0,
        dilation: Sizes = 1,
        groups: int = 1,
        bias: bool = True,
        weight_init: Initializer = fan_in_uniform,
    ):
        super().__init__()
        kernel = sizes_of(kernel_size, self.DIMS)
        self.weight = weight_init((*self._channels(inputs, outputs, groups), *kernel))
        self.bias = zeros((outputs,)) if bias else None
        self.strides, self.pads = sizes_of(stride, self.DIMS), sizes_of(padding, self.DIMS) * 2
        self.dilations, self.groups = sizes_of(dilation, self.DIMS), groups

    def _channels(self, inputs: int, outputs: int, groups: int) -> tuple[int, int]:
        return outputs, inputs // groups

    def construct(self, x: Any, **attributes: Any) -> Any:
        """`[n, inputs, ...]` to `[n, outputs, ...]`."""
        first = leader(x, self.weight)
        operands = [each for each in (x, self.weight, self.bias) if each is not None]
        return first.op(
            self.OPERATOR, *map(first.lifted, operands), strides=self.strides, pads=self.pads,
            dilations=self.dilations, group=self.groups, **attributes,
        )  # fmt: skip


class Conv1d(_Convolution):
    """Filters `weight[outputs, inputs / groups, length]` slid over `[n, inputs, length]`."""

    DIMS = 1


class Conv2d(_Convolution):
    """Filters `weight[outputs, inputs / groups, height, width]` slid over `[n, inputs, h, w]`."""

    DIMS = 2


class Conv3d(_Convolution):
    """Filters `weight[outputs, inputs / groups, d, h, w]` slid over `[n, inputs, d, h, w]`."""

    DIMS = 3


class _Transposed(_Convolution):
    OPERATOR = "conv_transpose"

    def __init__(
        self, *arguments: Any, output_padding: Sizes = 0, weight_init: Any = fan_in_uniform,
        **named: Any,
    ):  # fmt: skip
        super().__init__(*arguments, weight_init=weight_init, **named)
        self.output_padding = sizes_of(output_padding, self.DIMS)

    def _channels(self, inputs: int, outputs: int, groups: int) -> tuple[int, int]:
        return inputs, outputs // groups

    def construct(self, x: Any, **attributes: Any) -> Any:
        """`[n, inputs, ...]` to `[n, outputs, ...]`."""
        return super().construct(x, output_padding=self.output_padding, **attributes)


class ConvTranspose1d(_Transposed):
    """The transpose of a convolution, of `weight[inputs, outputs / groups, length]`."""

    DIMS = 1


class ConvTranspose2d(_Transposed):
    """The transpose of a convolution, of `weight[inputs, outputs / groups, height, width]`."""

    DIMS = 2


class ConvTranspose3d(_Transposed):
    """The transpose of a convolution, of `weight[inputs, outputs / groups, d, h, w]`."""

    DIMS = 3


class _Pool(Module):
    DIMS: ClassVar[int]

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        ceil_mode: bool = False,
    ):
        super().__init__()
        self.kernel = sizes_of(kernel_size, self.DIMS)
        self.strides = self.kernel if stride is None else sizes_of(stride, self.DIMS)
        self.pads, self.ceil_mode = sizes_of(padding, self.DIMS) * 2, ceil_mode

    def pooled(self, name: str, x: Any, **attributes: Any) -> Any:
        """The windows' results."""
        return x.op(
            name, x, kernel=self.kernel, strides=self.strides, pads=self.pads,
            ceil_mode=self.ceil_mode, **attributes,
        )  # fmt: skip


class _MaxPool(_Pool):
    def construct(self, x: Any) -> Any:
        """The greatest element of each window."""
        return self.pooled("max_pool", x)


class _AvgPool(_Pool):
    def construct(self, x: Any) -> Any:
        """The mean of each window; what lies outside counts as zeros."""
        return self.pooled("average_pool", x, count_include_pad=True)


class MaxPool1d(_MaxPool):
    """The greatest element of each window of `[n, c, length]`."""

    DIMS = 1


class MaxPool2d(_MaxPool):
    """The greatest element of each window of `[n, c, h, w]`."""

    DIMS = 2


class MaxPool3d(_MaxPool):
    """The greatest element of each window of `[n, c, d, h, w]`."""

    DIMS = 3


class AvgPool1d(_AvgPool):
    """The mean of each window of `[n, c, length]`; what lies outside counts as zeros."""

    DIMS = 1


class AvgPool2d(_AvgPool):
    """The mean of each window of `[n, c, h, w]`; what lies outside counts as zeros."""

    DIMS = 2


class AvgPool3d(_AvgPool):
    """The mean of each window of `[n, c, d, h, w]`; what lies outside counts as zeros."""

    DIMS = 3


class _Adaptive(Module):
    DIMS: ClassVar[int]
    combine: Callable[[Any, Any], Any]

    def __init__(self, output_size: Sizes):
        super().__init__()
        self.output_size = sizes_of(output_size, self.DIMS)

    def construct(self, x: Any) -> Any:
        """Windows of about equal sizes, as many along each axis as it was made for."""
        for axis, count in enumerate(self.output_size, start=x.ndim - self.DIMS):
            taps, inside = _windows(x.shape[axis], count)
            windows = wnp.take(x, taps.reshape(-1), axis)
            dims = (*x.shape[:axis], *inside.shape, *x.shape[axis + 1 :])
            x = type(self).combine(windows.reshape(dims), (inside, axis + 1))
        return x


def _windows(size: int, count: int) -> tuple[Array, Array]:
    """The elements of so many windows of an axis, a row each, and which of them are its own."""
    starts = np.arange(count) * size // count
    ends: Array = np.array([ceil((position + 1) * size / count) for position in range(count)])
    taps: Array = starts[:, None] + np.arange(int((ends - starts).max()))
    return np.minimum(taps, ends[:, None] - 1), taps < ends[:, None]


def _means(windows: Any, described: tuple[Any, int]) -> Any:
    inside, axis = described
    weights = (inside / inside.sum(1, keepdims=True)).astype(windows.dtype)
    shape = (*weights.shape, *[1] * (windows.ndim - axis - 1))
    return (windows * weights.reshape(shape)).sum(axis)


def _greatest(windows: Any, described: tuple[Any, int]) -> Any:
    return windows.max(described[1])


class AdaptiveAvgPool1d(_Adaptive):
    """Means of so many windows of `[n, c, length]`."""

    DIMS, combine = 1, _means


class AdaptiveAvgPool2d(_Adaptive):
    """Means of so many windows along each axis of `[n, c, h, w]`."""

    DIMS, combine = 2, _means


class AdaptiveAvgPool3d(_Adaptive):
    """Means of so many windows along each axis of `[n, c, d, h, w]`."""

    DIMS, combine = 3, _means


class AdaptiveMaxPool1d(_Adaptive):
    """Greatest elements of so many windows of `[n, c, length]`."""

    DIMS, combine = 1, _greatest


class AdaptiveMaxPool2d(_Adaptive):
    """Greatest elements of so many windows along each axis of `[n, c, h, w]`."""

    DIMS, combine = 2, _greatest


class AdaptiveMaxPool3d(_Adaptive):
    """Greatest elements of so many windows along each axis of `[n, c, d, h, w]`."""

    DIMS, combine = 3, _greatest


class Upsample(Module):
    """`[n, c, axes...]` with other sizes: `scale` times as many, or `size`. Modes are "nearest" and
    "linear", which is bilinear of two axes; with `align_corners` corners stay where they are.
    """

    def __init__(
        self,
        size: Sizes | None = None,
        scale: float | Sequence[float] | None = None,
        mode: str = "nearest",
        align_corners: bool = False,
    ):
        super().__init__()
        if (size is None) == (scale is None):
            raise ValueError("Upsample requires a size or a scale, got both or neither")
        self.size, self.scale, self.align_corners = size, scale, align_corners
        self.mode = mode.removeprefix("bi").removeprefix("tri")
        if self.mode not in ("nearest", "linear"):
            raise ValueError(f"Upsample requires a mode nearest or linear, got {mode!r}")

    def construct(self, x: Any) -> Any:
        """`[n, c, axes...]` with other sizes."""
        dims = x.ndim - 2
        for axis in range(2, x.ndim):
            before = x.shape[axis]
            if self.size is not None:
                after = sizes_of(self.size, dims)[axis - 2]
                step = before / after
            else:
                scale = self.scale[axis - 2] if isinstance(self.scale, Sequence) else self.scale
                assert scale is not None, "there is a size or a scale"
                after, step = int(before * scale), 1 / scale
            indices, weights = self._taps(before, after, step)
            taps = [x.constant(indices), x.constant(weights.astype(x.dtype))]
            x = x.op("resample", x, *taps, batch_dims=0, axis=axis)
        return x

    def _taps(self, before: int, after: int, step: float) -> tuple[Any, Any]:
        """Which elements each new one is a sum of, and with what weights."""
        places = np.arange(after)
        if self.mode == "nearest":
            indices = np.minimum((places * step).astype(np.int64), before - 1)
            return indices[:, None], np.ones((after, 1))
        if self.align_corners:
            exact = places * ((before - 1) / max(1, after - 1))
        else:
            exact = np.maximum((places + 0.5) * step - 0.5, 0)
        low = np.minimum(exact.astype(np.int64), before - 1)
        share = exact - low
        high = np.minimum(low + 1, before - 1)
        return np.stack([low, high], 1), np.stack([1 - share, share], 1)


class PixelShuffle(Module):
    """`[n, c * scale * scale, h, w]` to `[n, c, h * scale, w * scale]`."""

    def __init__(self, scale: int):
        super().__init__()
        self.scale = scale

    def construct(self, x: Any) -> Any:
        """Channels as pixels."""
        return x.op("depth_to_space", x, blocksize=self.scale, mode="CRD")

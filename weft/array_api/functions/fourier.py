"""NumPy's `fft`: transforms of one axis by mixed radix and Bluestein's chirps, of several axes one
after the other, and the frequencies that belong to them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.array.complex_numbers import Complex
from weft.array.operators import axes_of, axis_of
from weft.array.pair_formulas import transformed
from weft.array_api.functions.shapes import roll
from weft.array_api.operands import as_tensors, operand, refuse

_SCALES = {None: (0.0, 1.0), "backward": (0.0, 1.0), "ortho": (0.5, 0.5), "forward": (1.0, 0.0)}
"""To which power of its size a transform is divided, forwards and backwards."""


def _transform(
    a: Any, n: Any, axis: int, norm: Any, *, inverse: bool = False, half: bool = False
) -> Any:
    if norm not in _SCALES:
        raise refuse('fft requires norm "backward", "ortho" or "forward"', repr(norm))
    a = operand(a)
    position = axis_of(axis, a.ndim)
    parts: Sequence[Any] = a.parts if isinstance(a, Complex) else (_floats(a),)
    if half and not inverse and len(parts) == 2:
        raise refuse("rfft requires real numbers", a.dtype, "fft takes complex ones")
    size: Any = a.shape[position]
    if n is not None:
        size = a.extent(n)
    elif half and inverse:
        size = (size - 1) * 2
    if isinstance(size, int) and size < 1:
        raise refuse("fft requires at least one element", size)
    named = {"axis": position, "size": size, "inverse": inverse, "half": half,
             "exact": a.has_values}  # fmt: skip
    found = parts[0].composed_all(transformed, parts, named)
    result = found[0] if len(found) == 1 else Complex(found)
    power = _SCALES[norm][inverse] - (1.0 if inverse and half else 0.0)  # which is divided already
    if not power:
        return result
    count: Any = size if isinstance(size, int) else result.real.recording.dims(size)
    return result / (count**power if isinstance(size, int) else _powered(count, result, power))


def _floats(a: Any) -> Any:
    return a.astype(np.float32) if a.dtype == np.float16 else a.as_float()


def _powered(count: Any, result: Any, power: float) -> Any:
    return count.astype(result.real.dtype) ** power


def fft(a: Any, n: Any = None, axis: int = -1, norm: Any = None, out: Any = None) -> Any:
    """The discrete Fourier transform along an axis.

    >>> np.fft.fft(v), np.fft.fft(x, axis=0), np.fft.fft(v, 5, norm="ortho"), np.fft.fft(x, 2)
    """
    return _transform(a, n, axis, norm)


def ifft(a: Any, n: Any = None, axis: int = -1, norm: Any = None, out: Any = None) -> Any:
    """The inverse of the Fourier transform along an axis.

    >>> np.fft.ifft(v), np.fft.ifft(np.fft.fft(x)), np.fft.ifft(x, axis=0, norm="forward")
    """
    return _transform(a, n, axis, norm, inverse=True)


def rfft(a: Any, n: Any = None, axis: int = -1, norm: Any = None, out: Any = None) -> Any:
    """The Fourier transform of reals, as far as the middle frequency.

    >>> np.fft.rfft(v), np.fft.rfft(x, 4, axis=0)
    """
    return _transform(a, n, axis, norm, half=True)


def irfft(a: Any, n: Any = None, axis: int = -1, norm: Any = None, out: Any = None) -> Any:
    """The reals of a spectrum up to the middle frequency.

    >>> np.fft.irfft(np.fft.rfft(v), 3), np.fft.irfft(x), np.fft.irfft(x, 5, axis=0)
    """
    return _transform(a, n, axis, norm, inverse=True, half=True)


_OTHER = {None: "forward", "backward": "forward", "ortho": "ortho", "forward": "backward"}


def hfft(a: Any, n: Any = None, axis: int = -1, norm: Any = None, out: Any = None) -> Any:
    """The real spectrum of a signal of which each half mirrors the other.

    >>> np.fft.hfft(v), np.fft.hfft(np.fft.rfft(v), 3, norm="ortho")
    """
    a = operand(a)
    return irfft(a.conj(), n, axis, _OTHER.get(norm, norm))


def ihfft(a: Any, n: Any = None, axis: int = -1, norm: Any = None, out: Any = None) -> Any:
    """The inverse of hfft.

    >>> np.fft.ihfft(v)
    """
    return rfft(a, n, axis, _OTHER.get(norm, norm)).conj()


def _axes(a: Any, s: Any, axes: Any) -> list[tuple[int, Any]]:
    """Axes, and the sizes that they are cut or filled up to."""
    if axes is None:
        axes = range(a.ndim) if s is None else range(a.ndim - len(s), a.ndim)
    positions = [axes_of(each, a.ndim)[0] for each in axes]
    sizes = [None] * len(positions) if s is None else [None if n == -1 else n for n in s]
    if len(sizes) != len(positions):
        raise refuse("fftn requires a size for each axis", f"{len(sizes)} of {len(positions)}")
    return list(zip(positions, sizes, strict=True))


def fftn(a: Any, s: Any = None, axes: Any = None, norm: Any = None, out: Any = None) -> Any:
    """Fourier transforms along several axes, or all.

    >>> np.fft.fftn(x), np.fft.fftn(x, (2, 4)), np.fft.fftn(x, axes=(0,))
    """
    a = operand(a)
    for axis, n in reversed(_axes(a, s, axes)):
        a = fft(a, n, axis, norm)
    return a


def ifftn(a: Any, s: Any = None, axes: Any = None, norm: Any = None, out: Any = None) -> Any:
    """The inverse of fftn.

    >>> np.fft.ifftn(x, norm="ortho")
    """
    a = operand(a)
    for axis, n in reversed(_axes(a, s, axes)):
        a = ifft(a, n, axis, norm)
    return a


def rfftn(a: Any, s: Any = None, axes: Any = None, norm: Any = None, out: Any = None) -> Any:
    """Fourier transforms of reals, along the last of several axes as far as the middle frequency.

    >>> np.fft.rfftn(x), np.fft.rfftn(x, (4, 2), axes=(1, 0))
    """
    a = operand(a)
    *rest, (last, n) = _axes(a, s, axes)
    found = rfft(a, n, last, norm)
    for axis, size in reversed(rest):
        found = fft(found, size, axis, norm)
    return found


def irfftn(a: Any, s: Any = None, axes: Any = None, norm: Any = None, out: Any = None) -> Any:
    """The inverse of rfftn.

    >>> np.fft.irfftn(np.fft.rfftn(x), (3, 3)), np.fft.irfftn(x)
    """
    a = operand(a)
    *rest, (last, n) = _axes(a, s, axes)
    for axis, size in rest:
        a = ifft(a, size, axis, norm)
    return irfft(a, n, last, norm)


def fft2(
    a: Any, s: Any = None, axes: Any = (-2, -1), norm: Any = None, out: Any = None
) -> Any:  # fmt: skip
    """Fourier transforms along two axes.

    >>> np.fft.fft2(x)
    """
    return fftn(a, s, axes, norm)


def ifft2(a: Any, s: Any = None, axes: Any = (-2, -1), norm: Any = None, out: Any = None) -> Any:
    """The inverse of fft2.

    >>> np.fft.ifft2(x)
    """
    return ifftn(a, s, axes, norm)


def rfft2(a: Any, s: Any = None, axes: Any = (-2, -1), norm: Any = None, out: Any = None) -> Any:
    """Fourier transforms of reals along two axes.

    >>> np.fft.rfft2(x)
    """
    return rfftn(a, s, axes, norm)


def irfft2(a: Any, s: Any = None, axes: Any = (-2, -1), norm: Any = None, out: Any = None) -> Any:
    """The inverse of rfft2.

    >>> np.fft.irfft2(np.fft.rfft2(x), x.shape)
    """
    return irfftn(a, s, axes, norm)


def _frequencies(of_one: Any, d: Any, dtype: Any) -> Any:
    found = as_tensors(operand(of_one, d) / operand(d), (d,))
    return found if dtype is None else found.astype(dtype)


def fftfreq(n: int, d: Any = 1.0, device: Any = None, *, dtype: Any = None) -> Any:
    """The frequencies of a transform of `n` samples at distances `d`.

    >>> np.fft.fftfreq(5, v[0])
    """
    return _frequencies(np.fft.fftfreq(n), d, dtype)


def rfftfreq(n: int, d: Any = 1.0, device: Any = None, *, dtype: Any = None) -> Any:
    """The frequencies of a transform of `n` reals at distances `d`.

    >>> np.fft.rfftfreq(5, v[0])
    """
    return _frequencies(np.fft.rfftfreq(n), d, dtype)


def fftshift(x: Any, axes: Any = None) -> Any:
    """The frequency 0 in the middle.

    >>> np.fft.fftshift(v), np.fft.fftshift(x), np.fft.fftshift(x, 0)
    """
    x = operand(x)
    chosen = axes_of(axes, x.ndim)
    return roll(x, tuple(x.shape[each] // 2 for each in chosen), tuple(chosen))


def ifftshift(x: Any, axes: Any = None) -> Any:
    """The inverse of fftshift.

    >>> np.fft.ifftshift(v), np.fft.ifftshift(x, (1,))
    """
    x = operand(x)
    chosen = axes_of(axes, x.ndim)
    return roll(x, tuple(-(x.shape[each] // 2) for each in chosen), tuple(chosen))

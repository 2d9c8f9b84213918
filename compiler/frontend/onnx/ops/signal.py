"""ONNX DFT, STFT and MelWeightMatrix, by matrix products with roots of unity.

A transform of `n` elements is one product where `n` is small or symbolic. Else it is split into
transforms of two factors of `n` (Cooley and Tukey) or, where `n` is prime, becomes a convolution of
a power of two (Bluestein): the work for each element is that of the sum of the factors.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from msgspec import Struct
from onnx import TensorProto
from xdsl.ir import Attribute, SSAValue

from weft.compiler.frontend.onnx.node import (
    Importer,
    OnnxNode,
    normal_axis,
    onnx_element,
)
from weft.dialects.errors import ModelError
from weft.dialects.expr import Expr, maximum, minimum
from weft.dialects.graph.core.algebra import Term, counted, joined, shape_attr, size_term
from weft.dialects.graph.core.dtypes import numpy_dtype
from weft.dialects.graph.core.types import F64, I64
from weft.dialects.loop.scalar import compute_type
from weft.dialects.weights import Array

DIRECT = 512
"""Transforms up to this size are one matrix product."""


class _Transform(Struct, frozen=True):
    """Discrete Fourier transforms along the second to last axis of `[..., n, 2]` (or `[..., n, 1]`,
    of reals), without a scale; `sign` is that of the exponent.
    """

    node: OnnxNode
    element: Attribute
    sign: int

    def constant(self, array: Array) -> Term:
        """A table in the element type."""
        return Term(self.node.b, self.node.constant(array.astype(numpy_dtype(self.element))))

    def __call__(self, x: Term, kept: Expr) -> Term:
        """The first `kept` frequencies, as `[..., kept, 2]`."""
        size = x.shape[-2].constant
        if size is None or size <= DIRECT:
            return self._direct(x, kept)
        whole = self._bluestein if (first := _factor(size)) == 1 else self._split
        complete = x if x.shape[-1] == 2 else joined([x, x * 0], len(x.shape) - 1)
        return whole(complete, size, first).part(len(x.shape) - 2, 0, kept)

    def _direct(self, x: Term, kept: Expr) -> Term:
        size, parts = x.shape[-2], x.shape[-1].constant or 0
        lead = x.shape[:-2]
        rows = x.reshape((*lead, size * parts))
        roots = self._roots(size, kept, parts)
        return rows.matmul(roots).reshape((*lead, kept, 2))

    def _roots(self, size: Expr, kept: Expr, parts: int) -> Term:
        """The matrix `[size * parts, kept * 2]` of the transform."""
        n, k = size.constant, kept.constant
        if n is not None and k is not None:
            return self.constant(_root_matrix(n, k, parts, self.sign))
        b = self.node.b
        steps = counted(b, size).insert(1) * counted(b, kept)
        turns = steps.modulo(size_term(b, size, I64)).cast(F64) / size_term(b, size, F64)
        cosine, sine = ((turns * (2 * math.pi)).math(name).insert(2) for name in ("cos", "sin"))
        sine = sine * self.sign
        rows = [joined([cosine, sine], 2), joined([-sine, cosine], 2)][:parts]
        table = joined([row.insert(1) for row in rows], 1)
        return table.reshape((size * parts, kept * 2)).cast(self.element)

    def _split(self, x: Term, size: int, first: int) -> Term:
        """Transforms of `first` elements that lie `size / first` apart, then of what they give."""
        second, lead = size // first, x.shape[:-2]
        at = len(lead)
        order = [*range(at), at + 1, at, at + 2]
        inner = self(x.reshape((*lead, first, second, 2)).transpose(order), Expr.of(first))
        turns = np.outer(np.arange(second), np.arange(first)) / size
        outer = self(
            self.times(inner, _roots_of(turns, self.sign)).transpose(order), Expr.of(second)
        )
        return outer.transpose(order).reshape((*lead, size, 2))

    def _bluestein(self, x: Term, size: int, first: int) -> Term:
        """A convolution with a chirp, by transforms of the next power of two."""
        wide = 1 << (2 * size - 2).bit_length()
        squares = np.arange(size, dtype=np.int64) ** 2 % (2 * size)
        chirp = _roots_of(squares / (2 * size), self.sign)
        kernel = np.zeros(wide, np.complex128)
        kernel[:size] = chirp.conj()
        kernel[wide - size + 1 :] = chirp[1:].conj()[::-1]
        axis = len(x.shape) - 2
        spread = _resized(self.times(x, chirp), axis, Expr.of(wide))
        forward = _Transform(self.node, self.element, -1)(spread, Expr.of(wide))
        product = self.times(forward, np.fft.fft(kernel) / wide)
        back = _Transform(self.node, self.element, 1)(product, Expr.of(wide))
        return self.times(back.part(axis, 0, size), chirp)

    def times(self, x: Term, factors: Array) -> Term:
        """Complex numbers times a table of them."""
        last = len(x.shape) - 1
        real, imaginary = (x.part(last, part, 1) for part in range(2))
        a, b = (self.constant(part[..., None]) for part in (np.real(factors), np.imag(factors)))
        return joined([real * a - imaginary * b, real * b + imaginary * a], last)


def _factor(size: int) -> int:
    """The greatest divisor up to the square root."""
    return next(first for first in range(math.isqrt(size), 0, -1) if size % first == 0)


def _roots_of(turns: Array, sign: int) -> Array:
    return np.exp(np.complex128(sign * 2j * math.pi) * turns)


def _root_matrix(size: int, kept: int, parts: int, sign: int) -> Array:
    steps = np.outer(np.arange(size), np.arange(kept)) % size
    roots = _roots_of(steps / size, sign)
    rows = [np.stack([np.real(w), np.imag(w)], -1) for w in (roots, 1j * roots)][:parts]
    return np.stack(rows, 1).reshape(size * parts, kept * 2)


def _resized(x: Term, axis: int, size: Expr) -> Term:
    """Cut, or filled up with zeros, to that size along an axis."""
    dim = x.shape[axis]
    if dim == size:
        return x
    x = x.part(axis, 0, minimum([dim, size]))
    missing = maximum([size - dim, 0])
    if missing == 0:
        return x
    pads = [Expr.of(0)] * (2 * len(x.shape))
    pads[len(x.shape) + axis] = missing
    return x.of(x.b.pad(x.value, pads=shape_attr(pads), mode="constant"))


# Operators ----------------------------------------------------------------------------------------


def import_dft(node: OnnxNode) -> Sequence[SSAValue]:
    """The transform along an axis, of `dft_length` elements; its inverse is divided by that."""
    x = Term(node.b, node.operand(0))
    rank = len(x.shape)
    (axis,) = node.axes(2, rank) or (-2,)
    axis = normal_axis(axis, rank)
    if axis == rank - 1 or x.shape[-1].constant not in (1, 2):
        raise ModelError(f"requires parts of complex numbers along the last axis, got {x.type}")
    inverse, onesided = node.flag("inverse"), node.flag("onesided")
    length = x.shape[axis] if not (inverse and onesided) else (x.shape[axis] - 1) * 2
    if node.optional(1) is not None:
        length = node.size(1, "a length")
    element = x.type.element
    order = [*(at for at in range(rank - 1) if at != axis), axis, rank - 1]
    line = x.cast(compute_type(element)).transpose(order)
    transform = _Transform(node, line.type.element, 1 if inverse else -1)
    if inverse and onesided:
        result = _real_inverse(transform, line, length)
    else:
        kept = length // 2 + 1 if onesided else length
        result = transform(_resized(line, rank - 2, length), kept)
        result = result / size_term(node.b, length, line.type.element) if inverse else result
    back = [order.index(at) for at in range(rank)]
    return [result.transpose(back).cast(element).value]


def _real_inverse(transform: _Transform, x: Term, length: Expr) -> Term:
    """Reals `[..., length, 1]` from the frequencies up to the middle one."""
    axis, last = len(x.shape) - 2, len(x.shape) - 1
    half = length // 2 + 1
    if x.shape[last] == 1:
        x = joined([x, x * 0], last)
    x = _resized(x, axis, half)
    count = length - half
    steps = counted(x.b, count)
    mirrored = x.take(size_term(x.b, count, I64) - steps, axis)
    real, imaginary = mirrored.part(last, 0, 1), mirrored.part(last, 1, 1)
    whole = joined([x, joined([real, -imaginary], last)], axis)
    scale = size_term(x.b, length, x.type.element)
    return transform(whole, length).part(last, 0, 1) / scale


def import_stft(node: OnnxNode) -> Sequence[SSAValue]:
    """Transforms of the frames of a signal `[batch, length, parts]`, each times a window."""
    signal = Term(node.b, node.operand(0))
    step = node.size(1, "a frame step")
    if step.constant is not None and step.constant < 1:
        raise ModelError(f"requires a frame step of at least 1, got {step}")
    if step.constant is None:
        term = size_term(node.b, step, I64)
        node.require(term > 0, "a frame step of at least 1", [term])
    window = None if node.optional(2) is None else Term(node.b, node.operand(2))
    if node.optional(3) is not None:
        length = node.size(3, "a frame length")
    else:
        length = signal.shape[1] if window is None else window.shape[0]
    count = (signal.shape[1] - length) // step + 1
    starts = counted(node.b, count) * size_term(node.b, step, I64)
    frames = signal.take(starts.insert(1) + counted(node.b, length), 1)
    element = signal.type.element
    frames = frames.cast(compute_type(element))
    if window is not None:
        frames = frames * window.cast(frames.type.element).insert(1)
    kept = length // 2 + 1 if node.flag("onesided", default=True) else length
    result = _Transform(node, frames.type.element, -1)(frames, kept)
    return [result.cast(element).value]


def import_mel_weight_matrix(node: OnnxNode) -> Sequence[SSAValue]:
    """Triangles over the bins of a spectrum, evenly spaced on the mel scale."""
    bins, length = node.size(0, "a number of bins"), node.size(1, "a length")
    if min(bins.constant or 0, length.constant or 0) < 0:
        raise ModelError(f"requires bins and a length of at least 0, got {bins} and {length}")
    count, points = bins + 2, length // 2 + 1
    if (size := (count * points).constant) is not None:
        node.reserve(size)  # the steps are there without bins, too
    rate, lower, upper = (_real(node, position) for position in (2, 3, 4))
    _require_edges(node, rate, lower, upper)
    low, high = ((edge / 700 + 1).math("log") * (2595 / math.log(10)) for edge in (lower, upper))
    parts = counted(node.b, count).cast(F64) * ((high - low) / size_term(node.b, count, F64))
    hertz = (((low + parts) * (math.log(10) / 2595)).math("exp") - 1) * 700
    edges = (hertz * size_term(node.b, length + 1, F64) / rate).math("floor")
    last, most = edges.part(0, count - 1, 1).cast(I64), size_term(node.b, points, I64)
    _require(node, (last <= most).reshape([]), "edges within the spectrum", [upper, rate])
    left, centre, right = (edges.part(0, at, bins).reshape((1, bins)) for at in range(3))
    weights = _triangles(counted(node.b, points).cast(F64).insert(1), left, centre, right)
    return [weights.cast(onnx_element(node.integer("output_datatype", TensorProto.FLOAT))).value]


def _real(node: OnnxNode, position: int) -> Term:
    """The number of an operand of one element."""
    return Term(node.b, node.cast(node.reshape(node.operand(position), []), F64))


def _require_edges(node: OnnxNode, rate: Term, lower: Term, upper: Term) -> None:
    """Refuses frequencies that are none, while compiling if they are known."""
    finite = (lower >= 0) & (upper >= 0) & (lower < math.inf) & (upper < math.inf) & (rate > 0)
    _require(node, finite, "edges of at least 0 and a rate above 0", [lower, upper, rate])


def _require(node: OnnxNode, held: Term, rule: str, numbers: Sequence[Term]) -> None:
    """Refuses numbers for which a rule does not hold, while compiling if they are known."""
    known = node.constants.constant_array(held.value)
    if known is None:
        node.require(held, rule)
    elif not known.all():
        arrays = (node.constants.constant_array(each.value) for each in numbers)
        raise ModelError(f"requires {rule}, got {', '.join(map(str, arrays))}")


def _triangles(steps: Term, left: Term, centre: Term, right: Term) -> Term:
    """Functions that rise from 0 at `left` to 1 at `centre` and fall to 0 at `right`."""
    rising = (steps - left) / (centre - left).maximum(1)
    falling = (right - steps) / (right - centre).maximum(1)
    peak = steps.equals(centre) & (right.equals(centre) | centre.equals(left))
    on_left, on_right = (steps >= left) & (steps < centre), (steps >= centre) & (steps < right)
    return peak.where(1, on_left.where(rising, on_right.where(falling, 0)))


IMPORTERS: dict[str, Importer] = {
    "DFT": import_dft,
    "MelWeightMatrix": import_mel_weight_matrix,
    "STFT": import_stft,
}

"""ONNX DFT, STFT and MelWeightMatrix."""

from __future__ import annotations

import math
from collections.abc import Sequence

from onnx import TensorProto
from xdsl.ir import Attribute, SSAValue

from weft.compiler.frontend.fourier import Transform, resized
from weft.compiler.frontend.onnx.node import (
    Importer,
    OnnxNode,
    normal_axis,
    onnx_element,
)
from weft.dialects.errors import ModelError
from weft.dialects.graph.core.algebra import Term, counted, joined, size_term
from weft.dialects.graph.core.types import F64, I64
from weft.dialects.loop.scalar import compute_type


def _transform(node: OnnxNode, element: Attribute, sign: int) -> Transform:
    """Fourier transforms of which the node's graph holds the tables."""
    return Transform(lambda array: Term(node.b, node.constant(array)), element, sign)


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
    line = _parts(x.cast(compute_type(element)).transpose(order))
    transform = _transform(node, line[0].type.element, 1 if inverse else -1)
    if inverse and onesided:
        result = _with_parts([transform.real_inverse(line, length)])
    else:
        kept = length // 2 + 1 if onesided else length
        result = _with_parts(transform([resized(each, rank - 2, length) for each in line], kept))
        result = result / size_term(node.b, length, transform.element) if inverse else result
    back = [order.index(at) for at in range(rank)]
    return [result.transpose(back).cast(element).value]


def _parts(x: Term) -> list[Term]:
    """The real parts along the last axis, and the imaginary ones if there are any."""
    last = len(x.shape) - 1
    count = x.shape[last].constant or 0
    return [x.part(last, at, 1).reshape(x.shape[:last]) for at in range(count)]


def _with_parts(parts: Sequence[Term]) -> Term:
    """The opposite."""
    rank = len(parts[0].shape)
    return joined([each.insert(rank) for each in parts], rank)


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
    result = _with_parts(_transform(node, frames.type.element, -1)(_parts(frames), kept))
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

"""ONNX Resize, axis by axis: the places that each new element reads, and their weights.

Both are small tables that graph operators compute, so that sizes may be symbolic; with static sizes
they fold into constants.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction

import numpy as np
from msgspec import Struct
from xdsl.ir import Attribute, SSAValue

from weft.compiler.frontend.onnx.node import Importer, OnnxNode, unique_axes
from weft.dialects.errors import ModelError, UnsupportedError
from weft.dialects.expr import Expr, maximum, minimum
from weft.dialects.extent import exact_number
from weft.dialects.graph.core.algebra import Term, counted, size_term
from weft.dialects.graph.core.types import F32, F64, FLOATS, I64
from weft.dialects.loop.scalar import compute_type

COORDINATES = (
    "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric",
    "tf_crop_and_resize",
)  # fmt: skip
REACHES = {"linear": 1, "cubic": 2}
"""How far, in elements, an element is read from."""

ROUNDINGS = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
POLICIES = ("stretch", "not_larger", "not_smaller")


class _Axis(Struct, frozen=True):
    """One axis to resize: its dim before and after, and `scale` where it is not their ratio."""

    position: int
    source: Expr
    size: Expr
    scale: Fraction | Term | None
    roi: tuple[Term, Term] | None

    def scale_term(self, node: OnnxNode) -> Term:
        """How many new elements an old one becomes, in f64."""
        if isinstance(self.scale, Term):
            return self.scale
        if self.scale is not None:
            return Term(node.b, node.scalar(float(self.scale), F64))
        return size_term(node.b, self.size, F64) / size_term(node.b, self.source, F64)

    def width_term(self, node: OnnxNode) -> Term:
        """The new size before it was rounded down to a whole number, in f64."""
        if self.scale is None:
            return size_term(node.b, self.size, F64)
        return size_term(node.b, self.source, F64) * self.scale_term(node)

    @property
    def is_same(self) -> bool:
        """Whether nothing changes."""
        unscaled = not isinstance(self.scale, Term) and self.scale in (None, 1)
        return self.roi is None and self.size == self.source and unscaled

    @property
    def known_scale(self) -> Fraction | None:
        """How many new elements an old one becomes, where that is known while compiling."""
        old, new = self.source.constant, self.size.constant
        if self.scale is None:
            return Fraction(new, old) if old and new is not None else None
        return None if isinstance(self.scale, Term) else self.scale


def import_resize(node: OnnxNode) -> Sequence[SSAValue]:
    """Each axis in turn; integers are computed as f32, then rounded."""
    mode = choice(node, "mode", "nearest", ("nearest", *REACHES))
    result = Term(node.b, node.operand(0))
    outside: list[tuple[int, Term]] = []
    axes = _axes(node)
    element = result.type.element
    exact = mode == "nearest" or element in FLOATS
    result = result if exact else result.cast(F32)
    repeats: dict[int, int] = {}
    for axis in sorted(axes, key=_order_of):
        if axis.is_same:
            continue
        times = _repetitions(node, axis) if mode == "nearest" else None
        if times is not None:
            repeats[axis.position] = times
            continue
        coordinates = _coordinates(node, axis)
        if axis.roi is not None:
            last = size_term(node.b, axis.source - 1, F64)
            outside.append((axis.position, (coordinates < 0) | (coordinates > last)))
        if mode == "nearest":
            result = result.take(_nearest(node, axis, coordinates), axis.position)
        else:
            result = _interpolated(node, axis, coordinates, mode, result)
    result = repeated(result, repeats) if repeats else result
    for position, is_outside in outside:
        ones = [1] * (len(result.shape) - position - 1)
        mask = is_outside.reshape((*is_outside.shape, *ones))
        result = mask.where(node.real("extrapolation_value", 0.0), result)
    return [(result if exact else _rounded(result, element)).value]


def _order_of(axis: _Axis) -> tuple[bool, int]:
    """When it is an axis's turn: those that shrink are first, for others then have less to do; the
    last axis, whose neighbours are read element by element, is before those that make it more.
    """
    scale = 1 if axis.known_scale is None else axis.known_scale
    return (False, axis.position) if scale < 1 else (True, -axis.position)


def _rounded(value: Term, element: Attribute) -> Term:
    """Floats as integers of that type, the nearest that it can hold."""
    return value.math("round").cast(element)


def choice(node: OnnxNode, name: str, default: str, allowed: Sequence[str]) -> str:
    """A text attribute that is one of a few."""
    text = node.text(name, default)
    if text not in allowed:
        raise ModelError(f"requires {name} out of {', '.join(allowed)}, got {text}")
    return text


# Sizes --------------------------------------------------------------------------------------------


def _axes(node: OnnxNode) -> list[_Axis]:
    shape = node.shape()
    given = node.integers("axes", range(len(shape)))
    positions = unique_axes(given, len(shape))
    dims = [shape[axis] for axis in positions]
    scales: Sequence[Fraction | Term | None]
    if node.optional(3) is not None:
        sizes = node.found_dims(3)
        _require_count(len(sizes), positions)
        sizes, scales = _kept_aspect(node, dims, sizes)
    elif node.constants.constant_array(node.operand(2)) is None:
        scales = _found_scales(node, positions)
        sizes = [_data_dependent_size(node, *each) for each in zip(dims, scales, strict=True)]
    else:
        numbers = node.array(2, "scales").astype(np.float64).reshape(-1)
        _require_count(len(numbers), positions)
        scales = exact = [exact_number(float(number), "a scale") for number in numbers]
        if any(scale <= 0 for scale in exact):
            raise ModelError(f"requires scales above 0, got {numbers.tolist()}")
        sizes = [_scaled(dim, scale) for dim, scale in zip(dims, exact, strict=True)]
    regions = _regions(node, len(positions))
    rows = zip(positions, sizes, scales, regions, strict=True)
    return [_Axis(axis, shape[axis], size, scale, roi) for axis, size, scale, roi in rows]


def _scaled(dim: Expr, scale: Fraction) -> Expr:
    return dim * scale.numerator // scale.denominator


def _found_scales(node: OnnxNode, positions: Sequence[int]) -> list[Term]:
    """Scales that only a call knows, in f64."""
    scales = Term(node.b, node.operand(2)).cast(F64)
    count = scales.type.size.constant
    if count is None:
        raise UnsupportedError(f"requires scales whose number is known, got {scales.type}")
    _require_count(count, positions)
    found = [scales.reshape([count]).part(0, at, 1).reshape([]) for at in range(count)]
    for scale in found:
        node.require(scale > 0, "scales above 0", [scale])
    return found


def _data_dependent_size(node: OnnxNode, dim: Expr, scale: Term) -> Expr:
    return node.find((size_term(node.b, dim, F64) * scale).math("floor").cast(I64).value)


def _require_count(given: int, positions: Sequence[int]) -> None:
    if given != len(positions):
        raise ModelError(f"requires a size or scale for {len(positions)} axes, got {given}")


def _kept_aspect(
    node: OnnxNode, dims: Sequence[Expr], sizes: Sequence[Expr]
) -> tuple[list[Expr], list[Fraction | Term | None]]:
    """The sizes, or where the aspect is kept, those of one scale that fits, rounded: the least or
    the greatest of `size / dim`.
    """
    policy = choice(node, "keep_aspect_ratio_policy", "stretch", POLICIES)
    if policy == "stretch":
        return list(sizes), [None] * len(sizes)
    least = policy == "not_larger"
    known = [(size.constant, dim.constant) for size, dim in zip(sizes, dims, strict=True)]
    ratios = [Fraction(size, dim) for size, dim in known if size is not None and dim]
    scale: Fraction | Term
    if len(ratios) == len(sizes):
        scale = min(ratios) if least else max(ratios)
        half = Fraction(1, 2)
        whole = [int(scale * dim + half) for _, dim in known if dim is not None]
        return [Expr.of(size) for size in whole], [scale] * len(dims)
    pick = minimum if least else maximum
    rounded = [
        pick(
            [
                (size * dim * 2 + other) // (other * 2)
                for size, other in zip(sizes, dims, strict=True)
            ]
        )
        for dim in dims
    ]
    terms = [
        size_term(node.b, size, F64) / size_term(node.b, dim, F64)
        for size, dim in zip(sizes, dims, strict=True)
    ]
    scale = terms[0]
    for term in terms[1:]:
        scale = scale.minimum(term) if least else scale.maximum(term)
    return rounded, [scale] * len(dims)


def _regions(node: OnnxNode, count: int) -> list[tuple[Term, Term] | None]:
    """Where each axis of a crop starts and ends, as parts of its extent; None without a crop."""
    mode = choice(node, "coordinate_transformation_mode", "half_pixel", COORDINATES)
    if mode != "tf_crop_and_resize":
        return [None] * count
    roi = Term(node.b, node.operand(1))
    if roi.shape != (Expr.of(2 * count),):
        raise ModelError(f"requires a roi of {2 * count} numbers, got {roi.type}")
    bounds = [roi.part(0, k, 1).reshape([]).cast(F64) for k in range(2 * count)]
    return [(bounds[k], bounds[k + count]) for k in range(count)]


# Tables -------------------------------------------------------------------------------------------


def _coordinates(node: OnnxNode, axis: _Axis) -> Term:
    """Where in the old axis each new element lies, in f64."""
    mode = node.text("coordinate_transformation_mode", "half_pixel")
    steps = counted(node.b, axis.size).cast(F64)
    scale, width = axis.scale_term(node), axis.width_term(node)
    last = size_term(node.b, axis.source - 1, F64)
    gaps = width - 1
    is_single = gaps.equals(0)
    if mode == "asymmetric":
        return steps / scale
    if mode == "align_corners":
        return steps * last / is_single.where(1, gaps)
    if axis.roi is not None:
        start, end = axis.roi
        extent = (end - start) * last
        spread = is_single.where(extent / 2, steps * extent / is_single.where(1, gaps))
        return spread + start * last
    centres = (steps + 0.5) / scale - 0.5
    if mode == "pytorch_half_pixel":
        return (width > 1).where(centres, 0)
    if mode == "half_pixel_symmetric":
        adjustment = size_term(node.b, axis.size, F64) / width
        return centres + size_term(node.b, axis.source, F64) / 2 * (1 - adjustment)
    return centres


def _bounded(node: OnnxNode, axis: _Axis, positions: Term) -> Term:
    """Places moved into the old axis, as indices."""
    last = size_term(node.b, axis.source - 1, F64)
    return positions.minimum(last).maximum(0).cast(I64)


REPEATING = {"asymmetric": ("floor",), "half_pixel": ("round_prefer_floor", "round_prefer_ceil")}
"""How places are rounded where a whole factor just repeats each element."""


def _repetitions(node: OnnxNode, axis: _Axis) -> int | None:
    """How often each element of the axis comes in the nearest result, if equally often."""
    coordinates = choice(node, "coordinate_transformation_mode", "half_pixel", COORDINATES)
    rounding = choice(node, "nearest_mode", "round_prefer_floor", ROUNDINGS)
    scale = axis.known_scale
    if scale is None or scale.denominator != 1 or axis.size != axis.source * int(scale):
        return None
    known = axis.roi is None and rounding in REPEATING.get(coordinates, ())
    return int(scale) if known else None


def repeated(value: Term, repeats: Mapping[int, int]) -> Term:
    """Each element as many times along each of these axes, all in one."""
    split, wide, result = list[Expr](), list[Expr](), list[Expr]()
    for axis, size in enumerate(value.shape):
        times = repeats.get(axis)
        split += [size] if times is None else [size, Expr.of(1)]
        wide += [size] if times is None else [size, Expr.of(times)]
        result.append(size * repeats.get(axis, 1))
    return value.reshape(split).expand(wide).reshape(result)


def _nearest(node: OnnxNode, axis: _Axis, coordinates: Term) -> Term:
    rounding = choice(node, "nearest_mode", "round_prefer_floor", ROUNDINGS)
    if rounding == "round_prefer_floor":
        positions = (coordinates - 0.5).math("ceil")
    elif rounding == "round_prefer_ceil":
        positions = (coordinates + 0.5).math("floor")
    else:
        positions = coordinates.math(rounding)
    return _bounded(node, axis, positions)


def _interpolated(node: OnnxNode, axis: _Axis, coordinates: Term, mode: str, value: Term) -> Term:
    """The axis resampled with a linear or cubic kernel, stretched where that prevents aliasing."""
    antialias, excludes = node.flag("antialias"), node.flag("exclude_outside")
    taps = Expr.of(2 * REACHES[mode])
    shrink: Term | float = 1.0
    if antialias:
        taps = _stretched_taps(axis, REACHES[mode])
        shrink = axis.scale_term(node).minimum(1)
    column = coordinates.reshape((*coordinates.shape, 1))
    first = size_term(node.b, 1 - taps // 2, F64)
    positions = column.math("floor") + first + counted(node.b, taps).cast(F64)
    distance = ((positions - column) * shrink).math("abs")
    if mode == "linear":
        weights = (1 - distance).maximum(0)
    else:
        weights = cubic_kernel(distance, node.real("cubic_coeff_a", -0.75))
    if excludes:
        dim = size_term(node.b, axis.source, F64)
        weights = ((positions >= 0) & (positions < dim)).where(weights, 0)
    if antialias or excludes:
        weights = weights / weights.sum([1], keepdims=True)
    factors = weights.cast(compute_type(value.type.element))
    indices = _bounded(node, axis, positions)
    resampled = node.b.resample(
        value.value, indices.value, factors.value, axis=axis.position, batch_dims=0
    )
    return value.of(resampled)


def _stretched_taps(axis: _Axis, reach: int) -> Expr:
    """How many elements a kernel covers that is stretched by one over the scale."""
    if isinstance(axis.scale, Fraction):
        return Expr.of(2 * max(reach, math.ceil(reach / axis.scale)))
    return maximum([2 * reach, (axis.source * reach).ceildiv(axis.size) * 2])


def cubic_kernel(distance: Term, a: float) -> Term:
    """Keys' convolution kernel with the parameter `a`, at distances of 0 or more."""
    x = distance
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return (x <= 1).where(near, (x < 2).where(far, 0))


IMPORTERS: dict[str, Importer] = {"Resize": import_resize}

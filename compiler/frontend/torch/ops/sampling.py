"""ATen's operators that read images between pixels, and their derivatives."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from weft.compiler.frontend.onnx.ops.resize import cubic_kernel
from weft.compiler.frontend.onnx.ops.sampling import KEYS, Border, combined, resampled
from weft.compiler.frontend.torch.operands import AtenTable, entry, wide
from weft.compiler.frontend.torch.ops.activation import derivatives
from weft.compiler.frontend.torch.ops.pooling import along
from weft.dialects.expr import Expr, ExprLike, product
from weft.dialects.graph.core.algebra import Term, counted, joined, size_term
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.types import F64, I64

LINEAR, NEAREST, CUBIC = range(3)
ZEROS, BORDER, REFLECTION = range(3)


def _taps(x: Term, border: Border, mode: int, padding: int) -> tuple[Term, Term]:
    """The pixels `[..., taps]` that coordinates read along an axis, and their weights."""
    if mode != CUBIC:
        x = _padded(x, border, padding)
    rank = len(x.shape)
    column = (x.math("round") if mode == NEAREST else x).insert(rank)
    if mode == NEAREST:
        return _inside(column, column * 0.0 + 1.0, border)
    low = column.math("floor")
    rest = column - low
    if mode == LINEAR:
        positions = joined([low, low + 1.0], rank)
        return _inside(positions, joined([1.0 - rest, rest], rank), border)
    positions = joined([low - 1.0, low, low + 1.0, low + 2.0], rank)
    distances = joined([rest + 1.0, rest, 1.0 - rest, 2.0 - rest], rank)
    return _inside(_padded(positions, border, padding), cubic_kernel(distances, KEYS), border)


def _padded(x: Term, border: Border, padding: int) -> Term:
    if padding == ZEROS:
        return x
    return border.bound(border.reflect(x) if padding == REFLECTION else x)


def _inside(positions: Term, weights: Term, border: Border) -> tuple[Term, Term]:
    """Pixels outside have no weight."""
    held = (positions >= 0.0) & (positions < border.size)
    return border.bound(positions).cast(I64), held.where(weights, 0.0)


def grid_sampler(
    b: GraphBuilder,
    x: Term,
    grid: Term,
    interpolation_mode: int,
    padding_mode: int,
    align_corners: bool,
) -> Term:
    """The image at the points of a grid: coordinates from -1 to 1, those of the last axis first."""
    spatial, points = x.shape[2:], grid.shape[1:-1]
    element = wide(x.type.element)
    flat = grid.cast(element).reshape((grid.shape[0], product(points), len(spatial)))
    positions: list[Term] = []
    weights: list[Term] = []
    for at, dim in enumerate(spatial):
        size = size_term(b, dim, element)
        unit = flat.part(2, len(spatial) - 1 - at, 1).reshape(flat.shape[:2])
        scaled = (
            (unit + 1.0) / 2.0 * (size - 1.0)
            if align_corners
            else ((unit + 1.0) * size - 1.0) / 2.0
        )
        low, high = (0.0, size - 1.0) if align_corners else (-0.5, size - 0.5)
        border = Border(size, low, high)
        pixels, factors = _taps(scaled, border, interpolation_mode, padding_mode)
        positions.append(pixels)
        weights.append(factors)
    found = resampled(x.cast(element), combined(positions, weights, spatial))
    return found.reshape((*x.shape[:2], *points)).cast(x.type.element)


def grid_sampler_backward(
    b: GraphBuilder,
    dy: Term,
    x: Term,
    grid: Term,
    interpolation_mode: int,
    padding_mode: int,
    align_corners: bool,
    output_mask: Sequence[bool],
) -> list[Term | None]:
    """The cotangents of image and grid."""

    def sampled(image: Term, points: Term) -> Term:
        return grid_sampler(b, image, points, interpolation_mode, padding_mode, align_corners)

    found = derivatives(b, sampled, dy, x, grid)
    return [each if keep else None for each, keep in zip(found, output_mask, strict=True)]


# Resizing that averages what it leaves out ----------------------------------------------------


def _filters(
    b: GraphBuilder, size: Expr, count: Expr, cubic: bool, aligned: bool, scale: float | None
) -> Term:
    """The matrix `[count, size]` that resizes an axis."""
    pixels, parts = (size_term(b, each, F64) for each in (size, count))
    if aligned:
        step = (parts > 1).where((pixels - 1) / (parts - 1).maximum(1), 0)
    else:
        step = pixels.number(1 / scale) if scale else pixels / parts
    spread = step.maximum(1)
    reach = spread * (2 if cubic else 1)
    centre = step * (counted(b, count, F64) + 0.5).insert(1)
    taps = counted(b, size, F64).insert(0)
    first, last = ((end + 0.5).math("floor") for end in (centre - reach, centre + reach))
    distance = ((taps - centre + 0.5) / spread).math("abs")
    own = cubic_kernel(distance, -0.5) if cubic else (1 - distance).maximum(0)
    own = ((taps >= first) & (taps < last)).where(own, 0)
    return own / own.sum([1], keepdims=True)


def _matrices(
    b: GraphBuilder,
    x: Term,
    cubic: bool,
    input_size: Sequence[ExprLike],
    output_size: Sequence[ExprLike],
    align_corners: bool,
    scales: Sequence[float | None],
) -> list[Term]:
    return [
        _filters(b, Expr.of(size), Expr.of(count), cubic, align_corners, scale).cast(x.type.element)
        for size, count, scale in zip(input_size, output_size, scales, strict=True)
    ]


def antialiased(
    cubic: bool,
    b: GraphBuilder,
    x: Term,
    output_size: Sequence[ExprLike],
    align_corners: bool,
    *scales: float | None,
) -> Term:
    """Images of another size, whose pixels are means over all that they stand for."""
    y = x.cast(wide(x.type.element))
    given = scales or (None, None)
    for at, matrix in enumerate(
        _matrices(b, y, cubic, x.shape[2:], output_size, align_corners, given)
    ):
        y = along(y, 2 + at, matrix)
    return y.cast(x.type.element)


def antialiased_backward(
    cubic: bool,
    b: GraphBuilder,
    dy: Term,
    output_size: Sequence[ExprLike],
    input_size: Sequence[ExprLike],
    align_corners: bool,
    *scales: float | None,
) -> Term:
    """The cotangents of the image."""
    given = scales or (None, None)
    for at, matrix in enumerate(
        _matrices(b, dy, cubic, input_size[2:], output_size, align_corners, given)
    ):
        dy = along(dy, 2 + at, matrix.transpose([1, 0]))
    return dy


TABLE: Final[AtenTable] = {
    **entry(grid_sampler, "grid_sampler_2d.default", "grid_sampler_3d.default"),
    **entry(
        grid_sampler_backward,
        "grid_sampler_2d_backward.default",
        "grid_sampler_3d_backward.default",
    ),
    **entry(partial(antialiased, False), "_upsample_bilinear2d_aa.default"),
    **entry(partial(antialiased, True), "_upsample_bicubic2d_aa.default"),
    **entry(partial(antialiased_backward, False), "_upsample_bilinear2d_aa_backward.default"),
    **entry(partial(antialiased_backward, True), "_upsample_bicubic2d_aa_backward.default"),
}

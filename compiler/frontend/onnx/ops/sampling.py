"""ONNX operators that read images between pixels: GridSample, DeformConv, RoiAlign.

Each computes a table of the pixels that every point reads and of their weights, once for all
channels, and resamples the image by it.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from xdsl.ir import Attribute, SSAValue

from weft.compiler.frontend.onnx.node import Importer, OnnxNode, never_equal
from weft.compiler.frontend.onnx.ops.resize import choice, cubic_kernel
from weft.compiler.frontend.onnx.ops.windows import filter_window
from weft.dialects.errors import ModelError
from weft.dialects.expr import Expr, product, row_major_strides
from weft.dialects.graph.core.algebra import Term, counted, size_term
from weft.dialects.graph.core.types import FLOATS, I64, Shape
from weft.dialects.loop.scalar import compute_type

FIRST_TAPS = {"nearest": 0, "linear": 0, "cubic": -1}
"""The first pixel that a point reads, from the one before the point on."""

TAPS = {"nearest": 1, "linear": 2, "cubic": 4}
PADDINGS = ("zeros", "border", "reflection")
KEYS = -0.75
"""The parameter of the cubic kernel."""


FARTHEST = 2.0**22
"""Points farther outside than so many pixels are reflected as those: of larger f32 the remainder of
a division depends on how products and sums are rounded.
"""


class Border(Struct, frozen=True):
    """One spatial dim, and where what lies outside is reflected."""

    size: Term
    low: float
    high: Term

    def reflect(self, positions: Term) -> Term:
        """Places mirrored at both ends until they lie inside."""
        extent = (self.high - self.low).maximum(1)
        distance = (positions - self.low).math("abs").minimum(FARTHEST)
        turns = (distance / extent).math("floor")
        rest = distance - turns * extent
        is_even = (turns - (turns / 2).math("floor") * 2).equals(0)
        inside = is_even.where(rest + self.low, self.high - rest)
        return inside.maximum(self.low).minimum(self.high)

    def bound(self, positions: Term) -> Term:
        """Places moved into the image."""
        return positions.minimum(self.size - 1).maximum(0)


def _table(
    coordinates: Sequence[Term], borders: Sequence[Border], mode: str, padding: str
) -> tuple[list[Term], list[Term]]:
    """The pixels `[..., taps]` that points read along each spatial dim, and their weights."""
    positions: list[Term] = []
    weights: list[Term] = []
    for coordinate, border in zip(coordinates, borders, strict=True):
        x = coordinate.math("round") if mode == "nearest" else coordinate
        if padding == "border" and mode != "cubic":  # whose pixels are moved in one by one
            x = border.bound(x)
        elif padding == "reflection":
            x = border.reflect(x)
        column = x.insert(len(x.shape))
        steps = counted(x.b, TAPS[mode]).cast(x.type.element) + FIRST_TAPS[mode]
        taps = column.math("floor") + steps
        weight = _weights(mode, (taps - column).math("abs"))
        if padding == "zeros":
            weight = ((taps >= 0) & (taps < border.size)).where(weight, 0)
        elif padding == "reflection":
            taps = border.reflect(taps).math("round")
        positions.append(border.bound(taps).cast(I64))
        weights.append(weight)
    return positions, weights


def _weights(mode: str, distance: Term) -> Term:
    if mode == "nearest":
        return distance * 0 + 1
    if mode == "linear":
        return 1 - distance
    return cubic_kernel(distance, KEYS)


def combined(positions: Sequence[Term], weights: Sequence[Term], dims: Shape) -> tuple[Term, Term]:
    """The pixels `[..., taps]` of all spatial dims together, in row-major order, and weights."""
    strides = row_major_strides(dims)
    index, weight = positions[-1], weights[-1]
    for at in range(len(dims) - 2, -1, -1):
        step = size_term(index.b, strides[at], I64)
        rank = len(index.shape)
        lead = index.shape[:-1]
        count = positions[at].shape[-1] * index.shape[-1]
        index = ((positions[at] * step).insert(rank) + index.insert(rank - 1)).reshape(
            (*lead, count)
        )
        weight = (weights[at].insert(rank) * weight.insert(rank - 1)).reshape((*lead, count))
    return index, weight


def resampled(image: Term, table: tuple[Term, Term]) -> Term:
    """An image `[n, c, spatial...]` at `[n, points, taps]`: `[n, c, points]`."""
    lead = image.shape[:2]
    flat = image.reshape((*lead, product(image.shape[2:])))
    index, weight = table
    factors = weight.cast(compute_type(image.type.element))
    return image.of(image.b.resample(flat.value, index.value, factors.value, axis=2, batch_dims=1))


# GridSample ---------------------------------------------------------------------------------------


def import_grid_sample(node: OnnxNode) -> Sequence[SSAValue]:
    """The image at the points of a grid, whose coordinates run from -1 to 1, the last dim first."""
    mode = choice(node, "mode", "linear", tuple(TAPS))
    padding = choice(node, "padding_mode", "zeros", PADDINGS)
    aligned = node.flag("align_corners")
    image, grid = Term(node.b, node.operand(0)), Term(node.b, node.operand(1))
    spatial = image.shape[2:]
    if grid.shape[-1] != len(spatial) or len(grid.shape) != len(image.shape):
        raise ModelError(f"requires a grid of {len(spatial)} coordinates a point, got {grid.type}")
    element = image.type.element
    exact = element in FLOATS
    image = image if exact else image.cast(grid.type.element)
    wide = compute_type(grid.type.element)
    points = grid.shape[1:-1]
    flat = grid.reshape((grid.shape[0], product(points), len(spatial))).cast(wide)
    coordinates: list[Term] = []
    borders: list[Border] = []
    for at, dim in enumerate(spatial):
        size = size_term(node.b, dim, wide)
        unit = flat.part(2, len(spatial) - 1 - at, 1).reshape(flat.shape[:2])
        scaled = (unit + 1) / 2 * (size - 1) if aligned else ((unit + 1) * size - 1) / 2
        coordinates.append(scaled)
        borders.append(Border(size, 0, size - 1) if aligned else Border(size, -0.5, size - 0.5))
    table = combined(*_table(coordinates, borders, mode, padding), spatial)
    result = resampled(image, table)
    return [result.reshape((*image.shape[:2], *points)).cast(element).value]


# DeformConv ---------------------------------------------------------------------------------------


def import_deform_conv(node: OnnxNode) -> Sequence[SSAValue]:
    """A convolution whose taps are moved by offsets, between pixels too, and weighted by a mask."""
    image, filters = Term(node.b, node.operand(0)), Term(node.b, node.operand(1))
    _check_positions(node, filters.shape[2:])
    sampled = _deformed(node, image, filters.shape[2:])
    batch, channels, taps, count = sampled.shape
    groups = node.integer("group", 1)
    maps = filters.shape[0]
    columns = sampled.reshape((batch, groups, channels // groups, taps, count))
    kernels = filters.reshape((groups, maps // groups, filters.shape[1], taps))
    total = node.b.einsum(columns.value, kernels.value, equation="ngctp,goct->ngop")
    spatial = node.shape(2)[2:]
    result = image.of(total).reshape((batch, maps, *spatial))
    if node.optional(3) is not None:
        bias = Term(node.b, node.operand(3))
        result = result + bias.reshape((maps, *[1] * len(spatial)))
    return [result.value]


def _check_positions(node: OnnxNode, kernel: Shape) -> None:
    """Refuses offsets for other positions than those of the window."""
    window = filter_window(node, kernel)
    rank = len(kernel)
    pads = node.integers("pads", [0] * (2 * rank))
    if len(pads) != 2 * rank:
        raise ModelError(f"requires {2 * rank} pads, got {len(pads)}")
    steps = zip(window.spatial, kernel, window.strides, window.dilations, strict=True)
    wanted = [
        (dim + pads[at] + pads[at + rank] - (taps - 1) * dilation - 1) // stride + 1
        for at, (dim, taps, stride, dilation) in enumerate(steps)
    ]
    if never_equal(node.shape(2)[2:], tuple(wanted)):
        listed = ", ".join(map(str, wanted))
        raise ModelError(f"requires offsets for [{listed}] positions, got {node.type(2)}")


def _deformed(node: OnnxNode, image: Term, kernel: Shape) -> Term:
    """What each tap reads, times the mask: `[n, channels, taps, positions]`."""
    offsets = Term(node.b, node.operand(2))
    rank, groups = len(kernel), node.integer("offset_group", 1)
    batch, channels, *spatial = image.shape
    positions = offsets.shape[2:]
    wide = compute_type(offsets.type.element)
    moved = offsets.reshape((batch * groups, *kernel, rank, *positions)).cast(wide)
    taps, count = product(kernel), product(positions)
    coordinates: list[Term] = []
    for at in range(rank):
        start = _grid_position(node, at, kernel, positions, wide)
        moves = moved.part(rank + 1, at, 1).reshape((batch * groups, *kernel, *positions))
        coordinates.append((moves + start).reshape((batch * groups, taps * count)))
    sizes = [size_term(node.b, dim, wide) for dim in spatial]
    borders = [Border(size, 0, size - 1) for size in sizes]
    table = combined(*_table(coordinates, borders, "linear", "zeros"), tuple(spatial))
    grouped = image.reshape((batch * groups, channels // groups, *spatial))
    sampled = resampled(grouped, table).reshape((batch, groups, channels // groups, taps, count))
    if node.optional(4) is not None:
        mask = Term(node.b, node.operand(4))
        sampled = sampled * mask.reshape((batch, groups, 1, taps, count))
    return sampled.reshape((batch, channels, taps, count))


def _grid_position(
    node: OnnxNode, axis: int, kernel: Shape, positions: Shape, element: Attribute
) -> Term:
    """Where each tap lies along an axis without offsets: `[kernel..., positions...]`, broadcast."""
    rank = len(kernel)
    ones = [1] * rank
    stride = node.integers("strides", ones)[axis]
    dilation = node.integers("dilations", ones)[axis]
    front = node.integers("pads", [0] * (2 * rank))[axis]
    taps = counted(node.b, kernel[axis]).cast(element) * dilation
    steps = counted(node.b, positions[axis]).cast(element) * stride - front
    shape = [kernel[axis] if at == axis else Expr.of(1) for at in range(rank)]
    where = [positions[axis] if at == axis else Expr.of(1) for at in range(rank)]
    return taps.reshape((*shape, *ones)) + steps.reshape(where)


# RoiAlign -----------------------------------------------------------------------------------------


def import_roi_align(node: OnnxNode) -> Sequence[SSAValue]:
    """Each region of an image in a grid of bins: the mean or maximum of points inside a bin."""
    mode = choice(node, "mode", "avg", ("avg", "max"))
    image, regions = Term(node.b, node.operand(0)), Term(node.b, node.operand(1))
    batch, channels, *spatial = node.shape_of(0, 4)
    count = node.shape_of(1, 2)[0]
    bins = [node.integer("output_height", 1), node.integer("output_width", 1)]
    positions, weights = _region_table(node, regions, spatial, bins, mode)
    index, weight = combined(positions, weights, tuple(spatial))
    which = Term(node.b, node.operand(2)).cast(I64).reshape((count, *[1] * (len(index.shape) - 1)))
    index = index + which * size_term(node.b, product(spatial), I64)
    points, taps = bins[0] * bins[1], product(index.shape[3:])
    index, weight = (x.reshape((count * points, taps)) for x in (index, weight))
    if mode == "max":
        index, weight = (x.reshape((count * points * taps, 1)) for x in (index, weight))
    rows = image.transpose([1, 0, 2, 3]).reshape((channels, batch * product(spatial)))
    factors = weight.cast(compute_type(image.type.element))
    result = image.of(node.b.resample(rows.value, index.value, factors.value, axis=1, batch_dims=0))
    if mode == "max":
        terms = result.reshape((channels, count * points, taps))
        result = image.of(node.b.reduce_max(terms.value, axes=[2], keepdims=False))
    return [result.reshape((channels, count, *bins)).transpose([1, 0, 2, 3]).value]


def _region_table(
    node: OnnxNode, regions: Term, spatial: Sequence[Expr], bins: Sequence[int], mode: str
) -> tuple[list[Term], list[Term]]:
    """Pixels and weights `[regions, bins, bins, points, points, 2]` along both dims, broadcast."""
    halves = choice(
        node, "coordinate_transformation_mode", "half_pixel", ("half_pixel", "output_half_pixel")
    )
    offset = 0.5 if halves == "half_pixel" else 0.0
    scale = node.real("spatial_scale", 1.0)
    wide = compute_type(regions.type.element)
    corners = regions.cast(wide) * scale - offset
    count = regions.shape[0]
    positions: list[Term] = []
    weights: list[Term] = []
    for at in range(2):
        start, end = (corners.part(1, k, 1) for k in (1 - at, 3 - at))
        extent = end - start if offset else (end - start).maximum(1)
        own, most = _points(node, extent / bins[at])
        start, step, own = (x.insert(2) for x in (start, extent / bins[at] / own.maximum(1), own))
        points = counted(node.b, most).cast(wide)
        # A region of fewer points than another has its last one again, which a mean leaves out.
        taken = points.minimum(own - 1) + counted(node.b, bins[at]).cast(wide).insert(1) * own
        x = (start + (taken + 0.5) * step).reshape((count, most * bins[at]))
        size = size_term(node.b, spatial[at], wide)
        (index,), (weight,) = _table([x], [Border(size, 0, size - 1)], "linear", "border")
        weight = ((x >= -1) & (x <= size)).insert(2).where(weight, 0)
        shape = (count, bins[0], 1, most, 1, 2) if at == 0 else (count, 1, bins[1], 1, most, 2)
        full = [1 if dim == 1 else dim for dim in shape]
        held, part = (points, 1 / own.maximum(1)) if mode == "avg" else (points * 0, own * 0 + 1)
        share = (held < own).where(part, 0)
        lead = (count, 1, 1, most, 1, 1) if at == 0 else (count, 1, 1, 1, most, 1)
        positions.append(index.reshape(full))
        weights.append(weight.reshape(full) * share.reshape(lead))
    return _spread(positions), _spread(weights)


def _spread(terms: Sequence[Term]) -> list[Term]:
    """Both terms in the shape that they have together."""
    dims = zip(*(term.shape for term in terms), strict=True)
    full = [one if other == 1 else other for one, other in dims]
    return [term.expand(full) for term in terms]


def _points(node: OnnxNode, extent: Term) -> tuple[Term, Expr]:
    """How many points along an axis each region `[regions, 1]` has in a bin of that extent, and the
    most of them: one for each pixel, unless the node says how many.
    """
    ratio = node.integer("sampling_ratio", 0)
    if ratio > 0:
        return extent * 0 + ratio, Expr.of(ratio)
    own = extent.math("ceil").cast(I64).maximum(0)
    most = own.of(node.b.reduce_max(own.value, axes=[0, 1], keepdims=False)).maximum(1)
    return own.cast(extent.type.element), node.find(most.value)


IMPORTERS: dict[str, Importer] = {
    "DeformConv": import_deform_conv,
    "GridSample": import_grid_sample,
    "RoiAlign": import_roi_align,
}

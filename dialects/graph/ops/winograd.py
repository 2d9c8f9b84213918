"""Winograd's minimal filtering, F(m x m, 3 x 3): a convolution as products of transformed tiles.

With `n = m + 2` points, `y = At ((G w Gt) * (Bt d B)) A` for each tile `d` of n x n elements of the
image, which gives m x m of the result: n * n products for each channel in place of 9 * m * m.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, ClassVar

import numpy as np
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, opt_operand_def, prop_def, result_def

from weft.dialects.expr import Expr
from weft.dialects.graph.core.accumulate import widen
from weft.dialects.graph.core.algebra import Term
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.op import GraphOp
from weft.dialects.graph.core.types import F32, F64, Shape, ShapeAttr, TensorType, tensor, type_of
from weft.dialects.graph.core.window import Window, WindowOp, static
from weft.dialects.loop.builder import Buffers, LoopBuilder
from weft.dialects.loop.scalar import Scalar
from weft.dialects.weights import Array

ELEMENTS = (F32, F64)
"""Narrower floats would lose too much between the steps."""

_FILTERS = 1 << 13
"""Filters that are transformed at once."""

TAPS = 3
"""Of the filter, along each axis."""

POINTS = {2: (0.0, 1.0, -1.0), 4: (0.0, 11 / 16, -11 / 16, 11 / 8, -11 / 8)}
"""Where the polynomials are evaluated, beside infinity, by the elements of a tile of the result.

f32 loses least with those of F(4) near sqrt(1 / 2) and sqrt(2). It has all elements of the matrices
of these exactly: rounded ones change every result by the same part, which adds up over layers.
"""


@cache
def matrices(size: int) -> tuple[Array, Array, Array]:
    """`At [m, n]`, `G [n, 3]` and `Bt [n, n]` in f64, after Cook and Toom."""
    points = POINTS[size]
    count = size + TAPS - 1
    at, g, bt = np.zeros((size, count)), np.zeros((count, TAPS)), np.zeros((count, count))
    for row, point in enumerate(points):
        others = [other for other in points if other != point]
        at[:, row] = [point**power for power in range(size)]
        scale = np.prod([point - other for other in others])
        g[row] = [point**power / scale for power in range(TAPS)]
        bt[row, : count - 1] = np.poly(others)[::-1]
    at[-1, -1] = g[-1, -1] = 1.0
    bt[-1] = np.poly(points)[::-1]
    bt[np.abs(bt) < 1e-12] = 0.0
    return at, g, bt


def tile_counts(spatial: Sequence[Expr], size: int) -> Shape:
    """How many tiles cover a result along each axis, as products of numbers that are not negative:
    run-time checks of sizes take each by itself.
    """
    return tuple((dim + (size - 1)) // size for dim in spatial)


def _applied(matrix: Array, values: Sequence[Scalar]) -> list[Scalar]:
    """A matrix times a vector of scalars, written out. Rows that differ in the sign of the odd (or
    even) columns only, as those of points `p` and `-p` do, share both of their halves.
    """
    found: dict[int, Scalar] = {}
    signs = np.array([(-1.0) ** column for column in range(matrix.shape[1])])
    for row, coefficients in enumerate(matrix):
        if row in found:
            continue
        even, odd = np.where(signs > 0, coefficients, 0.0), np.where(signs < 0, coefficients, 0.0)
        twins = {
            other: sign
            for other in range(row + 1, len(matrix))
            for sign in (1.0, -1.0)
            if np.allclose(matrix[other], sign * (even - odd))
        }
        if not twins or not even.any() or not odd.any():
            found[row] = _combined(coefficients, values)
            continue
        halves = _combined(even, values), _combined(odd, values)
        found[row] = halves[0] + halves[1]
        for other, sign in twins.items():
            first, second = halves if sign > 0 else reversed(halves)
            found[other] = first - second
    return [found[row] for row in range(len(matrix))]


def _combined(coefficients: Array, values: Sequence[Scalar]) -> Scalar:
    """The sum of the values by their coefficients, not all of which are zero."""
    total: Scalar | None = None
    order = np.argsort(np.abs(np.abs(coefficients) - 1.0), kind="stable")
    for at in order:
        factor, value = float(coefficients[at]), values[int(at)]
        if factor == 0.0:
            continue
        if total is None:
            total = value if factor == 1.0 else -value if factor == -1.0 else value * factor
        elif abs(factor) == 1.0:
            total = total + value if factor > 0 else total - value
        else:
            total = total + value * factor
    assert total is not None, "no row is zero"
    return total


def _transform_both_sides(matrix: Array, tile: list[list[Scalar]]) -> list[list[Scalar]]:
    """`M d Mt` of a square tile of scalars."""
    columns = [_applied(matrix, list(column)) for column in zip(*tile, strict=True)]
    return [_applied(matrix, list(row)) for row in zip(*columns, strict=True)]


@irdl_op_definition
class WinogradFilterOp(GraphOp):
    """`y[:, o, c] = G w[o, c] Gt` of filters `[o, c, 3, 3]` for tiles of `size`: the result is
    `[(size + 2)^2, o, c]`. It is computed in f64.
    """

    name = "graph.winograd_filter"
    filters: SSAValue = operand_def(TensorType)
    size: IntegerAttr[Any] = prop_def(IntegerAttr)
    result: SSAValue = result_def(TensorType)

    def infer(self) -> Sequence[TensorType]:
        tensor_type, size = type_of(self.filters), self.size.value.data
        self.require(size in POINTS, f"a size of {set(POINTS)}", self.size)
        self.require(tensor_type.element in ELEMENTS, "filters of f32 or f64", tensor_type)
        if not tensor_type.has_rank:
            return [tensor(None, tensor_type.element)]
        taps = [dim.constant or TAPS for dim in tensor_type.shape[2:]]
        self.require(taps == [TAPS, TAPS], "filters of 3 x 3 taps", tensor_type)
        return [tensor(((size + TAPS - 1) ** 2, *tensor_type.shape[:2]), tensor_type.element)]

    def assumptions(self) -> Sequence[tuple[Expr, Expr]]:
        taps = type_of(self.filters).shape[2:]
        return [(dim, Expr.of(TAPS)) for dim in taps if dim.constant is None]

    def reference(self, *operands: Array) -> Sequence[Array]:
        (filters,) = operands
        g = matrices(self.size.value.data)[1]
        # One product for many filters, then one for each row: einsum multiplies each filter alone.
        # What is between these stays in L2, and is no memory that nobody has touched yet.
        count, rows = filters.shape[0] * filters.shape[1], len(g)
        taps, made = filters.reshape(count, -1), np.empty((rows**2, count), filters.dtype)
        for start in range(0, count, _FILTERS):
            some = taps[start : start + _FILTERS].T.astype(np.float64).reshape(TAPS, -1)
            made[:, start : start + _FILTERS] = (g @ (g @ some).reshape(rows, TAPS, -1)).reshape(
                rows**2, -1
            )
        return [made.reshape(-1, *filters.shape[:2])]

    def lower(self, b: LoopBuilder, operands: Buffers, results: Buffers) -> None:
        tensor_type = type_of(self.filters)
        taps = range(TAPS)
        with b.loops(tensor_type.shape[:2], "oc") as (o, c):
            filters = [[b.load(operands[0], (o, c, r, s)).cast(F64) for s in taps] for r in taps]
            transformed = _transform_both_sides(matrices(self.size.value.data)[1], filters)
            for p, value in enumerate(value for row in transformed for value in row):
                b.store(results[0], (p, o, c), value.cast(tensor_type.element))

    def vjp(self, cotangents: Sequence[SSAValue], b: GraphBuilder) -> Sequence[SSAValue | None]:
        """`Gt y[:, o, c] G` of the cotangents."""
        tensor_type, g = type_of(self.filters), matrices(self.size.value.data)[1]
        matrix = b.constant_of(np.kron(g, g), tensor_type.element)
        taps = Term(b, b.einsum(matrix, cotangents[0], equation="pt,poc->oct"))
        return [taps.reshape(tensor_type.shape).value]


@irdl_op_definition
class WinogradTilesOp(WindowOp):
    """`y[n, c, :, t] = Bt d_t B`, where tile `d_t` of the image `[n, c, h, w]` has `size + 2`
    elements along each axis, and tiles follow each other by `size`.

    `pads` are those of the convolution; a last tile may go further. The result is
    `[n, c, (size + 2)^2, tiles]`.
    """

    name = "graph.winograd_tiles"
    REUSES_OPERANDS: ClassVar = True
    image: SSAValue = operand_def(TensorType)
    size: IntegerAttr[Any] = prop_def(IntegerAttr)
    result: SSAValue = result_def(TensorType)

    def window(self) -> Window:
        """The tiles as windows."""
        size, taps = self.size.value.data, self._taps()
        spatial = taps.spatial
        self.require(taps.strides == taps.dilations == (1, 1), "windows of stride 1", taps.strides)
        reach = [count * size + TAPS - 1 for count in self.tiles]
        after = [
            end - dim - front for end, dim, front in zip(reach, spatial, taps.before, strict=True)
        ]
        kernel = (Expr.of(size + TAPS - 1),) * 2
        return Window(spatial, kernel, (size, size), (1, 1), taps.before, tuple(after))

    @property
    def tiles(self) -> Shape:
        """How many tiles there are along each axis."""
        return tile_counts(self.positions(self._taps()), self.size.value.data)

    def _taps(self) -> Window:
        """The windows of the convolution."""
        return self.window_over(type_of(self.image).shape[2:], (Expr.of(TAPS),) * 2)

    def assumptions(self) -> Sequence[tuple[Expr, Expr]]:
        return self.fitting(self._taps())

    def infer(self) -> Sequence[TensorType]:
        tensor_type = type_of(self.image)
        self.require(self.size.value.data in POINTS, f"a size of {set(POINTS)}", self.size)
        self.require(tensor_type.element in ELEMENTS, "an image of f32 or f64", tensor_type)
        if not tensor_type.has_rank:
            return [tensor(None, tensor_type.element)]
        self.require(tensor_type.rank == 4, "an image of rank 4", tensor_type)
        self.window()
        rows, columns = self.tiles
        taps = (self.size.value.data + TAPS - 1) ** 2
        return [tensor((*tensor_type.shape[:2], taps, rows * columns), tensor_type.element)]

    def reference(self, *operands: Array) -> Sequence[Array]:
        window, (image,) = self.window(), operands
        bt = matrices(self.size.value.data)[2]
        padded = np.pad(widen(image), window.pad_widths())
        kernel = static(window.kernel)
        read = np.empty((*image.shape[:2], *kernel, *static(self.tiles)))
        for taps in np.ndindex(*kernel):
            read[:, :, *taps] = padded[(..., *window.slices(taps))]
        result = np.einsum("pr,ncrsij,qs->ncpqij", bt, read, bt, optimize=True)
        return [result.reshape(static(self.result_type.shape)).astype(image.dtype)]

    def lower(self, b: LoopBuilder, operands: Buffers, results: Buffers) -> None:
        tensor_type, window = type_of(self.image), self.window()
        size = self.size.value.data
        count = size + TAPS - 1
        padded = window.pad(b, operands[0], tensor_type.shape[:2], tensor_type.element, 0)
        rows, columns = self.tiles
        with b.loops((*tensor_type.shape[:2], rows, columns), "nchw") as (n, c, i, j):
            tile = [
                [b.load(padded, (n, c, i * size + r, j * size + s)) for s in range(count)]
                for r in range(count)
            ]
            transformed = _transform_both_sides(matrices(size)[2], tile)
            for p, value in enumerate(value for row in transformed for value in row):
                b.store(results[0], (n, c, p, i * columns + j), value)

    def vjp(self, cotangents: Sequence[SSAValue], b: GraphBuilder) -> Sequence[SSAValue | None]:
        """Each tile's cotangent, transformed back and added up where it was read."""
        window, bt = self.window(), matrices(self.size.value.data)[2]
        tensor_type = type_of(self.image)
        matrix = b.constant_of(np.kron(bt, bt), tensor_type.element)
        tiles = Term(b, b.einsum(matrix, cotangents[0], equation="pq,ncpt->ncqt"))
        windows = tiles.reshape((*tensor_type.shape[:2], *window.kernel, *self.tiles))
        spatial = ShapeAttr(window.spatial)
        return [b.fold(windows.value, spatial=spatial, **window.attributes())]


@irdl_op_definition
class WinogradResultOp(GraphOp):
    """`y[n, o, tile t] = At x[n, o, :, t] A + bias[o]`, cut to `spatial`: the convolution's result
    from the products of tiles `[n, o, (size + 2)^2, tiles]`.
    """

    name = "graph.winograd_result"
    products: SSAValue = operand_def(TensorType)
    bias: SSAValue | None = opt_operand_def(TensorType)
    size: IntegerAttr[Any] = prop_def(IntegerAttr)
    spatial: ShapeAttr = prop_def(ShapeAttr)
    result: SSAValue = result_def(TensorType)

    @property
    def tiles(self) -> Shape:
        """How many tiles there are along each axis."""
        return tile_counts(self.spatial.data or (), self.size.value.data)

    def infer(self) -> Sequence[TensorType]:
        tensor_type, spatial = type_of(self.products), self.spatial.data or ()
        size = self.size.value.data
        self.require(size in POINTS, f"a size of {set(POINTS)}", size)
        self.require(tensor_type.element in ELEMENTS, "products of f32 or f64", tensor_type)
        self.require(len(spatial) == 2, "two spatial dims", [str(dim) for dim in spatial])
        if not tensor_type.has_rank:
            return [tensor(None, tensor_type.element)]
        count = Expr.of((size + TAPS - 1) ** 2)
        wanted = (count, self.tiles[0] * self.tiles[1])
        self.require(
            tensor_type.rank == 4 and tensor_type.shape[2:] == wanted,
            f"products of {wanted}",
            tensor_type,
        )
        if self.bias is not None and type_of(self.bias).has_rank:
            bias = type_of(self.bias)
            self.require(bias.shape == tensor_type.shape[1:2], "a bias for each channel", bias)
        return [tensor((*tensor_type.shape[:2], *spatial), tensor_type.element)]

    def reference(self, *operands: Array) -> Sequence[Array]:
        products, *bias = (widen(operand) for operand in operands)
        size = self.size.value.data
        at, count, (rows, columns) = matrices(size)[0], size + TAPS - 1, static(self.tiles)
        tiles = products.reshape(*products.shape[:2], count, count, rows, columns)
        result = np.einsum("ip,nopqhw,jq->nohiwj", at, tiles, at, optimize=True)
        joined = result.reshape(*products.shape[:2], rows * size, columns * size)
        height, width = static(self.spatial.data or ())
        total = sum((each.reshape(-1, 1, 1) for each in bias), joined[:, :, :height, :width])
        return [total.astype(operands[0].dtype)]

    def lower(self, b: LoopBuilder, operands: Buffers, results: Buffers) -> None:
        """Whole tiles go to a temporary, from which the result takes what it has."""
        tensor_type, size = type_of(self.products), self.size.value.data
        count, (rows, columns) = size + TAPS - 1, self.tiles
        lead = tensor_type.shape[:2]
        whole = b.temporary((*lead, rows * size, columns * size), tensor_type.element, "tiles")
        with b.loops((*lead, rows, columns), "nohw") as (n, o, i, j):
            tile = [
                [b.load(operands[0], (n, o, p * count + q, i * columns + j)) for q in range(count)]
                for p in range(count)
            ]
            for r, row in enumerate(_transform_both_sides(matrices(size)[0], tile)):
                for s, value in enumerate(row):
                    b.store(whole, (n, o, i * size + r, j * size + s), value)
        with b.loops(self.result_type.shape, "nohw") as index:
            value = b.load(whole, index)
            if self.bias is not None:
                value = value + b.load(operands[1], (index[1],))
            b.store(results[0], index, value)

    def vjp(self, cotangents: Sequence[SSAValue], b: GraphBuilder) -> Sequence[SSAValue | None]:
        """The tiles of the cotangent, transformed back; the bias's is its sum."""
        tensor_type, size = type_of(self.products), self.size.value.data
        at, dy = matrices(size)[0], Term(b, cotangents[0])
        spatial = self.spatial.data or ()
        after = [n * size - dim for n, dim in zip(self.tiles, spatial, strict=True)]
        pads = ShapeAttr((Expr.of(0), Expr.of(0), *after))
        taken = b.unfold(cotangents[0], kernel=[size] * 2, strides=[size] * 2, pads=pads)
        tiles = dy.of(taken).reshape((*tensor_type.shape[:2], size * size, tensor_type.shape[3]))
        matrix = b.constant_of(np.kron(at, at), tensor_type.element)
        products = b.einsum(matrix, tiles.value, equation="qp,noqt->nopt")
        return [products, *([] if self.bias is None else [dy.sum([0, 2, 3]).value])]


OPS = (WinogradFilterOp, WinogradTilesOp, WinogradResultOp)

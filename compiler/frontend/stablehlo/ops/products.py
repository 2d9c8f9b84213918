"""dot_general, dot, einsum, products of ragged rows, and convolution."""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec import Struct

from weft.compiler.frontend.stablehlo.node import Node, static_dims
from weft.compiler.frontend.stablehlo.ops.movement import flipped, padded
from weft.dialects.errors import ModelError, UnsupportedError
from weft.dialects.expr import Expr, product
from weft.dialects.graph.core.algebra import Term, counted, joined, shape_attr
from weft.dialects.graph.core.types import BOOL, I32, I64, SIGNED, UNSIGNED
from weft.dialects.stablehlo.attributes import ConvDimsAttr, RecordAttr


def _sides(node: Node) -> list[Term]:
    """Both operands in the type that is computed in, which is the result's or i32 for bools."""
    element = node.result.element
    work = I32 if element == BOOL else element
    return [each.cast(work) for each in node.operands[:2]]


def dot_general(node: Node) -> Sequence[Term]:
    """Sums of products over some dims, for each index of others."""
    record = node.written.get("dot_dimension_numbers")
    dims: list[list[int]] = []
    for field in ("lhs_batching", "rhs_batching", "lhs_contracting", "rhs_contracting"):
        name = f"{field}_dimensions"
        given = record.integers(name) if isinstance(record, RecordAttr) else None
        dims.append(node.integers(name, []) if given is None else given)
    lhs, rhs = _sides(node)
    return [contracted(lhs, rhs, *dims).cast(node.result.element)]


def contracted(
    lhs: Term, rhs: Term, lhs_batch: list[int], rhs_batch: list[int], lhs_sum: list[int],
    rhs_sum: list[int],
) -> Term:  # fmt: skip
    """The product with dims `[batch, rows, columns]`."""
    rows = [at for at in range(len(lhs.shape)) if at not in (*lhs_batch, *lhs_sum)]
    columns = [at for at in range(len(rhs.shape)) if at not in (*rhs_batch, *rhs_sum)]
    batch = [lhs.shape[at] for at in lhs_batch]
    shape = [*batch, *(lhs.shape[at] for at in rows), *(rhs.shape[at] for at in columns)]
    m, n = product(lhs.shape[at] for at in rows), product(rhs.shape[at] for at in columns)
    k = product(lhs.shape[at] for at in lhs_sum)
    for one, other in zip((*lhs_batch, *lhs_sum), (*rhs_batch, *rhs_sum), strict=True):
        if rhs.shape[other] != lhs.shape[one]:
            rhs = _with_dim(rhs, other, lhs.shape[one])
    left = lhs.transpose([*lhs_batch, *rows, *lhs_sum]).reshape([*batch, m, k])
    right = rhs.transpose([*rhs_batch, *rhs_sum, *columns]).reshape([*batch, k, n])
    if k == 0:
        return lhs.number(0).expand(shape)
    return left.matmul(right).reshape(shape)


def _with_dim(x: Term, axis: int, size: Expr) -> Term:
    """A tensor one of whose dims is required to be of a size."""
    dims = [size if at == axis else dim for at, dim in enumerate(x.shape)]
    return x.of(x.b.assume(x.value, shape=shape_attr(dims)))


def dot(node: Node) -> Sequence[Term]:
    """The product of vectors and matrices."""
    lhs, rhs = _sides(node)
    found = contracted(lhs, rhs, [], [], [len(lhs.shape) - 1], [0])
    return [found.cast(node.result.element)]


def einsum(node: Node) -> Sequence[Term]:
    """Sums of products over the letters that the result lacks."""
    equation, element = node.text("einsum_config"), node.result.element
    values = [each.cast(element).value for each in node.operands]
    return [Term(node.b, node.b.einsum(*values, equation=equation))]


def ragged_dot(node: Node) -> Sequence[Term]:
    """The product of groups of rows, one after the other, with a matrix each: rows times the
    matrices of all groups, of which each row has zeros for other groups than its own.
    """
    record = node.record("ragged_dot_dimension_numbers")
    lhs_batch, rhs_batch, lhs_sum, rhs_sum, ragged, group = (
        record.integers(f"{name}_dimensions")
        for name in (
            "lhs_batching", "rhs_batching", "lhs_contracting", "rhs_contracting", "lhs_ragged",
            "rhs_group",
        )
    )  # fmt: skip
    sizes = node.operands[2]
    if len(group) != 1 or len(ragged) != 1 or len(sizes.shape) != 1:
        raise UnsupportedError(f"requires groups of rows with a matrix each, got {record.data}")
    lhs, rhs = _sides(node)
    counts = sizes.cast(I64)
    ends = counts.of(node.b.cumsum(counts.value, axis=0, exclusive=False, reverse=False))
    row = counted(node.b, lhs.shape[ragged[0]])
    own = (row < ends.insert(1)) & (row >= (ends - counts).insert(1))
    dims = [dim if at in ragged else 1 for at, dim in enumerate(lhs.shape)]
    rows = own.reshape([*sizes.shape, *dims]).where(lhs.insert(0), 0.0)
    lhs_batch, lhs_sum = ([at + 1 for at in dims] for dims in (lhs_batch, lhs_sum))
    found = contracted(rows, rhs, lhs_batch, rhs_batch, [0, *lhs_sum], [*group, *rhs_sum])
    return [found.cast(node.result.element)]


class ConvNumbers(Struct, frozen=True):
    """Where the dims of a convolution are: of each tensor `[first, second, *spatial]`."""

    image: list[int]
    kernel: list[int]
    result: list[int]

    @staticmethod
    def of(node: Node) -> ConvNumbers:
        """The numbers that a node's attribute lists."""
        given = node.written.get("dimension_numbers")
        if not isinstance(given, ConvDimsAttr):
            raise ModelError(f"requires dimension_numbers, got {given}")
        found: list[list[int]] = []
        for dims, names in zip(given.data, (("b", "f"), ("o", "i"), ("b", "f")), strict=True):
            order = [*names, *range(len(dims) - 2)]
            found.append([dims.index(each) for each in order])
        return ConvNumbers(*found)


def convolution(node: Node) -> Sequence[Term]:
    """A convolution of any layout, with gaps in the image and the filter, and groups."""
    return convolved(node, node.pairs("padding", len(node.only.shape) - 2))


def convolved(node: Node, pads: Sequence[tuple[int | Expr, int | Expr]]) -> Sequence[Term]:
    """A convolution with that padding."""
    numbers = ConvNumbers.of(node)
    image, kernel = _sides(node)
    if 0 in node.result.shape:
        return [image.number(0).cast(node.result.element).expand(node.result.static)]
    image, kernel = image.transpose(numbers.image), kernel.transpose(numbers.kernel)
    rank = len(numbers.image) - 2
    ones = [1] * rank
    strides, gaps, dilations = (
        node.integers(name, ones) for name in ("window_strides", "lhs_dilation", "rhs_dilation")
    )
    reversed_dims = node.integers("window_reversal", [0] * rank)
    kernel = flipped(kernel, [2 + at for at, flag in enumerate(reversed_dims) if flag])
    interior = [0, 0, *(gap - 1 for gap in gaps)]
    low, high = ([0, 0, *(pair[side] for pair in pads)] for side in (0, 1))
    image = padded(image, image.number(0), low, high, interior)
    group, batches = node.integer("feature_group_count"), node.integer("batch_group_count")
    found = _batch_grouped(image, kernel, strides, dilations, group, batches)
    order = [numbers.result.index(at) for at in range(len(numbers.result))]
    return [found.transpose(order).cast(node.result.element)]


def _batch_grouped(
    image: Term, kernel: Term, strides: list[int], dilations: list[int], group: int, batches: int
) -> Term:
    """Parts of the batch that each have filters of their own."""
    if batches == 1:
        return _convolved(image, kernel, strides, dilations, group)
    size, outputs = static_dims(image)[0] // batches, static_dims(kernel)[0] // batches
    parts = [
        _convolved(
            image.part(0, at * size, size), kernel.part(0, at * outputs, outputs), strides,
            dilations, group,
        )
        for at in range(batches)
    ]  # fmt: skip
    return joined(parts, 1)


def _convolved(
    image: Term, kernel: Term, strides: list[int], dilations: list[int], group: int
) -> Term:
    """`[n, c, ...]` by `[o, c / group, ...]`."""
    rank = len(strides)
    if rank == 0:
        image, kernel = (each.reshape([*each.shape, 1]) for each in (image, kernel))
        found = _convolved(image, kernel, [1], [1], group)
        return found.reshape(found.shape[:2])
    if image.type.element in (*SIGNED, *UNSIGNED):
        return _by_products(image, kernel, strides, dilations, group)
    value = image.b.conv(
        image.value, kernel.value, group=group, strides=strides, dilations=dilations,
        pads=[0] * (2 * rank),
    )  # fmt: skip
    return image.of(value)


def _by_products(
    image: Term, kernel: Term, strides: list[int], dilations: list[int], group: int
) -> Term:
    """A convolution of integers: the windows of the image times the filters."""
    rank = len(strides)
    sizes = static_dims(kernel)[2:]
    attributes = {
        "kernel": sizes, "strides": strides, "dilations": dilations, "pads": [0] * (2 * rank),
    }  # fmt: skip
    windows = image.of(image.b.unfold(image.value, **attributes))
    dims = static_dims(windows)
    batch, channels, spatial = dims[0], dims[1], dims[2 + rank :]
    terms = channels // group * math.prod(sizes)
    columns = windows.reshape([batch, group, terms, math.prod(spatial)])
    outputs = static_dims(kernel)[0]
    filters = kernel.reshape([group, outputs // group, terms])
    return filters.matmul(columns).reshape([batch, outputs, *spatial])


PRODUCTS = {
    "convolution": convolution,
    "dot": dot,
    "dot_general": dot_general,
    "einsum": einsum,
    "unary_einsum": einsum,
}
"""By the name in StableHLO."""

"""ONNX operators that change dims, or repeat and join whole tensors: Reshape, Tile, Concat, ..."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from xdsl.ir import SSAValue

from weft.compiler.frontend.onnx.node import Importer, OnnxNode, dims_attr, normal_axis, unique_axes
from weft.dialects.errors import ModelError, UnsupportedError
from weft.dialects.expr import Expr, product
from weft.dialects.graph.core.types import I64, Shape


def import_reshape(node: OnnxNode) -> Sequence[SSAValue]:
    """0 copies the operand's dim (unless `allowzero`), -1 is what remains."""
    if node.constants.dims(node.operand(1)) is None:
        return [_dynamic_reshape(node)]
    wanted = node.dims(1, "a shape")
    source = node.shape()
    if not node.flag("allowzero"):
        wanted = [_copied(source, axis) if dim == 0 else dim for axis, dim in enumerate(wanted)]
    divided = dividing_shape(source, wanted)
    value = node.assume(node.operand(0), divided)
    return [node.reshape(value, resolve_shape(divided, wanted))]


def _dynamic_reshape(node: OnnxNode) -> SSAValue:
    """A reshape to dims that depend on data: 0 and -1 among them are replaced while running."""
    b, source, parts = node.b, node.shape(), node.elements(1, node.declared_rank())
    zero, one, rest = (b.constant_of(number, I64) for number in (0, 1, -1))
    scalars: list[SSAValue] = []
    for axis, part in enumerate(parts):
        scalar = node.size_scalar(part)
        if axis < len(source) and not node.flag("allowzero"):
            copied = node.size_scalar(source[axis])
            scalar = b.where(b.equal(scalar, zero), copied, scalar)
        scalars.append(scalar)
    others = one
    for scalar in scalars:
        others = b.mul(others, b.where(b.equal(scalar, rest), one, scalar))
    left = b.div(node.size_scalar(node.type().size), b.max(others, one))
    dims = [
        part
        if isinstance(part, Expr) and (part.constant or 0) > 0
        else node.find(b.where(b.equal(scalar, rest), left, scalar))
        for part, scalar in zip(parts, scalars, strict=True)
    ]
    return b.dynamic_reshape(node.operand(0), shape=dims_attr(dims))


def _copied(source: Shape, axis: int) -> Expr:
    if axis >= len(source):
        raise ModelError(f"requires dims of 0 among the operand's {len(source)}, got one at {axis}")
    return source[axis]


def resolve_shape(source: Shape, wanted: Sequence[Expr]) -> list[Expr]:
    """The wanted dims with -1 replaced by the quotient of the sizes, which must be exact: what only
    a call can tell of a divisor that is known, reshaping checks.
    """
    unknown = [axis for axis, dim in enumerate(wanted) if dim == -1]
    if not unknown:
        return list(wanted)
    if len(unknown) > 1:
        raise ModelError(f"requires at most one dim of -1, got {len(unknown)}")
    known_dims = [dim for dim in wanted if dim != -1]
    shared = Counter(source) & Counter(known_dims)
    dividend = product((Counter(source) - shared).elements())
    divisor = product((Counter(known_dims) - shared).elements())
    dim = _exact_quotient(dividend, divisor)
    if dim is None and (divisor.constant or 0) > 0 and dividend.constant is None:
        dim = dividend // divisor
    if dim is None:
        shapes = f"[{', '.join(map(str, source))}] to [{', '.join(map(str, wanted))}]"
        raise UnsupportedError(f"requires a shape that divides the operand's size, got {shapes}")
    return [dim if axis == unknown[0] else each for axis, each in enumerate(wanted)]


def dividing_shape(source: Shape, wanted: Sequence[Expr]) -> Shape:
    """The source's dims, of which one that varies is taken for a multiple of what remains of the
    wanted dims beside a -1, where nothing else makes that whole: `n` for `256 * (n floordiv 256)`.
    """
    known_dims = [dim for dim in wanted if dim != -1]
    if len(known_dims) != len(wanted) - 1:
        return source
    shared = Counter(source) & Counter(known_dims)
    rest, divisor = Counter(source) - shared, product((Counter(known_dims) - shared).elements())
    varying = [dim for dim in rest.elements() if dim.constant is None]
    if len(varying) != 1 or not divisor.constant or divisor.constant < 0:
        return source
    (dim,) = varying
    if _exact_quotient(product(rest.elements()), divisor) is not None:
        return source
    others = product(each for each in rest.elements() if each.constant is not None)
    factor = divisor.constant // math.gcd(divisor.constant, others.constant or 0)
    axis = len(source) - 1 - source[::-1].index(dim)
    return (*source[:axis], dim // factor * factor, *source[axis + 1 :])


def _exact_quotient(dividend: Expr, divisor: Expr) -> Expr | None:
    if divisor == 0:
        return Expr.of(0) if dividend == 0 else None
    quotient = dividend // divisor
    return quotient if quotient * divisor == dividend else None


def import_flatten(node: OnnxNode) -> Sequence[SSAValue]:
    """Two dims: the product of those before the axis, and of the others."""
    shape = node.shape()
    axis = node.integer("axis", 1)
    axis = axis if axis == len(shape) else normal_axis(axis, len(shape))
    return [node.reshape(node.operand(0), [product(shape[:axis]), product(shape[axis:])])]


def import_squeeze(node: OnnxNode) -> Sequence[SSAValue]:
    """Without the dims of 1 at the axes, or without all dims of 1."""
    shape = node.shape()
    given = node.axes(1, len(shape))
    if given is None:
        axes = _axes_of_one(node, shape)
    else:
        axes = {normal_axis(axis, len(shape)) for axis in given}
    for axis in axes:
        if shape[axis] != 1 and shape[axis].constant is not None:
            raise ModelError(f"requires dims of 1 at its axes, got {shape[axis]}")
    ones = [Expr.of(1) if axis in axes else dim for axis, dim in enumerate(shape)]
    kept = [dim for axis, dim in enumerate(shape) if axis not in axes]
    return [node.reshape(node.assume(node.operand(0), ones), kept)]


def _axes_of_one(node: OnnxNode, shape: Shape) -> set[int]:
    """The axes of dims of 1. Those that vary are all 1 where the file declares a result of so few
    dims, and otherwise none is; each call checks that.
    """
    ones = {axis for axis, dim in enumerate(shape) if dim == 1}
    varying = {axis for axis, dim in enumerate(shape) if dim.constant is None}
    rank = node.declared_rank() if varying else None
    if rank == len(shape) - len(ones | varying):
        return ones | varying
    if rank not in (None, len(shape) - len(ones)):
        rule = "requires axes, or a declared rank that tells which dims are 1, where dims vary"
        raise UnsupportedError(f"{rule}, got {rank} dims of [{', '.join(map(str, shape))}]")
    for axis in sorted(varying):
        node.require_other(shape[axis], 1)
    return ones


def import_unsqueeze(node: OnnxNode) -> Sequence[SSAValue]:
    """With dims of 1 inserted, so that they are at the axes of the result."""
    (count,) = node.static_shape(1) or (1,)
    rank = len(node.shape()) + count
    axes = unique_axes(node.axes(1, rank) or (), rank)
    kept = iter(node.shape())
    dims = [Expr.of(1) if axis in axes else next(kept) for axis in range(rank)]
    return [node.reshape(node.operand(0), dims)]


def import_transpose(node: OnnxNode) -> Sequence[SSAValue]:
    """Axes in the order of `perm`, reversed by default."""
    order = node.integers("perm", range(len(node.shape()) - 1, -1, -1))
    return [node.b.transpose(node.operand(0), permutation=order)]


def import_expand(node: OnnxNode) -> Sequence[SSAValue]:
    """Broadcast against a shape."""
    if node.constants.dims(node.operand(1)) is not None:
        return [node.b.expand(node.operand(0), shape=dims_attr(node.dims(1, "a shape")))]
    parts, source = node.elements(1, node.declared_rank()), list(node.shape())
    padded = [Expr.of(1)] * (len(parts) - len(source)) + source[max(0, len(source) - len(parts)) :]
    dims: list[Expr] = []
    for part, dim in zip(parts, padded, strict=True):
        if not isinstance(part, Expr):
            one, size = node.b.constant_of(1, I64), node.size_scalar(dim)
            part = node.find(node.b.where(node.b.equal(part, one), size, part))
        dims.append(part)
    return [node.b.expand(node.operand(0), shape=dims_attr(dims))]


def import_concat(node: OnnxNode) -> Sequence[SSAValue]:
    """One after the other along an axis; a single operand is the result."""
    operands = node.present()
    if len(operands) == 1:
        return operands
    axis = normal_axis(node.attribute("axis").i, len(node.shape()))
    return [node.b.concat(*operands, axis=axis)]


def import_tile(node: OnnxNode) -> Sequence[SSAValue]:
    """Repeated along each axis."""
    repeats = node.found_dims(1)
    return [node.b.tile(node.operand(0), repeats=dims_attr(repeats))]


IMPORTERS: dict[str, Importer] = {
    "Concat": import_concat,
    "Expand": import_expand,
    "Flatten": import_flatten,
    "Reshape": import_reshape,
    "Squeeze": import_squeeze,
    "Tile": import_tile,
    "Transpose": import_transpose,
    "Unsqueeze": import_unsqueeze,
}

"""`x[...]` as graph operators, of tensors that are traced and of arrays of source mode."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np
from msgspec import Struct, field
from xdsl.ir import Block, SSAValue

from weft.array.indexing import Index, invalid, is_mask, is_whole, out_of_bounds
from weft.dialects.expr import Expr, maximum, minimum
from weft.dialects.graph.core.types import ShapeAttr
from weft.dialects.graph.reindexing.constant import ConstantOp

if TYPE_CHECKING:
    from weft.tracing.traced import Recording, Traced


DEPTH: Final = 6
"""Operators in a row by which two masks are known to be computed alike."""


class Box(Struct):
    """What slices and known integers choose: a strided box of an array, its shape as the index has
    it, and the axes of that which arrays and other integers choose from.
    """

    starts: list[Expr]
    sizes: list[Expr]
    steps: list[int]
    shape: list[Expr] = field(default_factory=list[Expr])
    gathered: list[tuple[int, Any]] = field(default_factory=list[tuple[int, Any]])


def chosen(x: Traced, index: Index) -> Traced:
    """The part of a tensor that an index names. Raises InvalidIndexError."""
    parts = index.parts
    if parts and is_mask(parts[0]) and all(map(is_whole, parts[1:])):
        return x.op("gather_nd", x, index_vectors(x.lifted(parts[0])), batch_dims=0)
    box = box_of(x, parts)
    result = x.op(
        "slice", x,
        sizes=ShapeAttr(tuple(box.sizes)), starts=ShapeAttr(tuple(box.starts)), steps=box.steps,
    ).reshape(tuple(box.shape))  # fmt: skip
    if index.apart or sum(bool(array.ndim) for _, array in box.gathered) > 1:
        return _gathered_together(result, box.gathered, index.apart)
    for axis, array in reversed(box.gathered):
        result = x.op("gather", result, array.astype(np.int64), axis=axis)
    return result


def box_of(x: Traced, parts: Sequence[Any]) -> Box:
    """The box of a tensor that the parts of an index name, as far as it is known while tracing."""
    box = Box([Expr.of(0)] * x.ndim, list(x.type.shape), [1] * x.ndim)
    axis = 0
    for part in parts:
        if part is None:
            box.shape.append(Expr.of(1))
            continue
        extent = x.type.shape[axis]
        if isinstance(part, slice):
            box.starts[axis], box.sizes[axis], box.steps[axis] = _range(
                x.recording, cast("slice[Any, Any, Any]", part), extent
            )
            box.shape.append(box.sizes[axis])
        elif (index := _position(x.recording, part, extent)) is not None:
            box.starts[axis], box.sizes[axis] = index, Expr.of(1)
        else:
            for array in _arrays(x.lifted(part)):
                require_within(array, x.type.shape[axis])
                box.gathered.append((len(box.shape), array))
                box.shape.append(x.type.shape[axis])
                axis += 1
            continue
        axis += 1
    return box


def _arrays(part: Traced) -> Sequence[Traced]:
    """An array of an index as one of integers for each axis that it takes."""
    if not is_mask(part):
        return [part]
    if not part.ndim:
        raise invalid("an index requires integers or arrays, got one bool")
    return part.nonzero()


def _gathered_together(x: Traced, gathered: Sequence[tuple[int, Traced]], apart: bool) -> Traced:
    """Arrays of integers, with the axes that they choose from, choose elements together; what they
    choose stands in their place, or comes first where they are apart.
    """
    axes = [axis for axis, _ in gathered]
    vectors = together([array for _, array in gathered])
    first, rest = 0 if apart else axes[0], [axis for axis in range(x.ndim) if axis not in axes]
    found = x.op("gather_nd", x.transpose(*axes, *rest), vectors, batch_dims=0)
    count = vectors.ndim - 1
    back = [*range(count, count + first), *range(count), *range(count + first, found.ndim)]
    return found.transpose(*back) if found.ndim else found


def together(arrays: Sequence[Traced]) -> Traced:
    """Arrays of integers, broadcast to each other, as index vectors."""
    wide = [each.astype(np.int64) for each in arrays]
    total = wide[0]
    for each in wide[1:]:
        total = total.apply("add", each)
    column = (*total.type.shape, Expr.of(1))
    columns = [each.op("expand", each, shape=total.type.shape).reshape(column) for each in wide]
    return columns[0] if len(columns) == 1 else total.op("concat", *columns, axis=total.ndim)


def index_vectors(mask: Traced) -> Traced:
    """Where bools are true, an index vector a row, as many as there are."""
    r = mask.recording
    key = _computation(mask.value), r.block
    found = r.masks.get(key)
    if found is None or found.value.owner.parent_block() is not r.block:
        total = mask.astype(np.int64).reduced("reduce_sum", None, False)
        count = r.bound(total, "count")
        found = r.masks[key] = mask.op("nonzero", mask, count=(count,)).transpose(1, 0)
    return found


def _computation(value: SSAValue, depth: int = DEPTH) -> object:
    """What computes a value, from what is so many operators away: the same for one that is computed
    again, as `~small` is in `x[~small] = f(x[~small])`.
    """
    op = value.owner
    if depth == 0 or isinstance(op, Block) or op.regions:
        return value
    operands = tuple(_computation(each, depth - 1) for each in op.operands)
    metadata = *op.properties.items(), *op.attributes.items()
    return op.name, op.results.index(value), operands, metadata


def require_within(indices: Traced, extent: Expr) -> None:
    """Refuses known indices outside of an axis. Raises InvalidIndexError."""
    size, owner = extent.constant, indices.value.owner
    if size is None or not isinstance(owner, ConstantOp):
        return
    given = owner.array(indices.recording.weights)
    wrong = given[(given < -size) | (given >= size)]
    if wrong.size:
        raise out_of_bounds(wrong.flat[0], size)


def _position(r: Recording, part: Any, extent: Expr) -> Expr | None:
    """An integer as a position that surely is within the axis; None where that is not known."""
    found = r.expression(part)
    if found is None:
        return None
    constant, size = found.constant, extent.constant
    if constant is not None and size is not None:
        if not -size <= constant < size:
            raise out_of_bounds(constant, size)
        return Expr.of(constant % size)
    if constant is not None:
        return extent + constant if constant < 0 else found
    inside = r.at_least(found, 0) and r.at_least(extent - 1 - found, 0)
    return found if inside else None


def _range(r: Recording, part: slice[Any, Any, Any], extent: Expr) -> tuple[Expr, Expr, int]:
    """Start, size and step."""
    given = r.expression(1 if part.step is None else part.step)
    step = None if given is None else given.constant
    if not step:
        raise invalid(f"a slice requires a step that is known, got {part.step!r}")
    size, ends = extent.constant, (part.start, part.stop)
    constants = all(end is None or isinstance(end, int | np.integer) for end in ends)
    if size is not None and constants:
        start, stop, step = slice(*ends, step).indices(size)
        return Expr.of(start), Expr.of(len(range(start, stop, step))), step
    if step == -1 and ends == (None, None):
        return extent - 1, extent, -1
    if step < 0:
        raise invalid(f"a slice backwards requires the whole axis or known ends, got {part}")
    start = Expr.of(0) if part.start is None else _end(r, part.start, extent)
    stop = extent if part.stop is None else _end(r, part.stop, extent)
    length = stop - start
    length = length if r.at_least(length, 0) else maximum([length, 0])
    return start, length if step == 1 else length.ceildiv(step), step


def _end(r: Recording, end: Any, extent: Expr) -> Expr:
    """An end of a slice, within the axis as Python has it."""
    found = r.expression(end)
    if found is None:
        found = _computed_end(r, end, extent)
    elif r.at_least(-found, 1):
        found = extent + found
        found = found if r.at_least(found, 0) else maximum([found, 0])
    elif not r.at_least(found, 0):
        raise invalid(f"a slice requires an end of one sign, got {found}")
    return found if r.at_least(extent - found, 0) else minimum([found, extent])


def _computed_end(r: Recording, end: Any, extent: Expr) -> Expr:
    """An integer that a call computes, counted from the front of an axis, as a size."""
    if getattr(end, "recording", None) is not r or end.ndim or end.dtype.kind not in "iu":
        raise invalid(f"a slice requires integers, got {end!r}")
    whole = end.astype(np.int64)
    return r.bound(whole.op("where", whole < 0, whole.apply("add", r.dims(extent)), whole), "end")

"""`x[...]` and `x[...] = y`, with indices that only a call knows, as graph operators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.array.indexing import is_mask, is_whole, parsed
from weft.dialects.expr import Expr
from weft.dialects.graph.core.types import ShapeAttr
from weft.source.expressions.operators import as_tensor
from weft.source.recording import SourceRecording
from weft.source.values import Array, is_number
from weft.tracing.indexing import Box, box_of, chosen, together
from weft.tracing.traced import Traced


def item(r: SourceRecording, x: Traced, index: Any) -> Array:
    """`x[index]` for one integer, or None."""
    return read(r, x, (index,))


def read(r: SourceRecording, x: Traced, index: Sequence[Any]) -> Array:
    """The part of an array that an index names; one of integers and slices is a view. Raises
    InvalidIndexError.
    """
    found = parsed(tuple(index), x.shape)
    part = r.array(chosen(x, found).value)
    is_view = not any(getattr(each, "ndim", 0) for each in found.parts)
    return part.viewing(x, tuple(index)) if part.ndim and is_view and isinstance(x, Array) else part


# Assignment -----------------------------------------------------------------------------------


def write(r: SourceRecording, x: Array, index: Sequence[Any], value: Any) -> Traced:
    """The array with other elements at an index. Raises InvalidIndexError."""
    new = as_tensor(r, value).astype(x.dtype)
    parts = parsed(tuple(index), x.shape).parts
    if any(map(is_mask, parts)):
        if not new.ndim and is_mask(parts[0]) and all(map(is_whole, parts[1:])):
            return _where(r, x, x.lifted(parts[0]), new)
    else:
        box = box_of(x, parts)
        if not box.gathered:
            return _inserted(r, x, box, new)
        if all(is_number(part) or _is_scalar(part) for part in parts[: _leading(parts)]):
            return _rows(r, x, parts[: _leading(parts)], new)
    numbers = r.apply(
        "range", r.array(r.scalar(int, 0)), r.array(r.scalar(int, 1)),
        size=ShapeAttr((x.type.size,)),
    )  # fmt: skip
    flat = x.reshape((x.type.size,))
    positions = read(r, numbers.reshape(x.type.shape), index)
    expanded = r.apply("expand", new, shape=ShapeAttr(positions.type.shape))
    vectors = positions.reshape((*positions.type.shape, Expr.of(1)))
    changed = r.apply("scatter_nd", flat, vectors, expanded, reduction="none")
    return changed.reshape(x.type.shape)


def _inserted(r: SourceRecording, x: Array, box: Box, new: Traced) -> Traced:
    """The array with another box."""
    updates = r.apply("expand", new, shape=ShapeAttr(tuple(box.shape)))
    starts = ShapeAttr(tuple(box.starts))
    shaped = updates.reshape(tuple(box.sizes))
    return r.apply("insert_slice", x, shaped, starts=starts, steps=box.steps)


def _is_scalar(part: Any) -> bool:
    return isinstance(part, Traced) and not part.ndim


def _leading(parts: Sequence[Any]) -> int:
    """How many parts there are in front of whole slices."""
    count = len(parts)
    while count and is_whole(parts[count - 1]):
        count -= 1
    return count


def _rows(r: SourceRecording, x: Array, positions: Sequence[Any], new: Traced) -> Traced:
    """Integers in front name what is replaced."""
    rest = x.type.shape[len(positions) :]
    expanded = r.apply("expand", new, shape=ShapeAttr(rest)) if rest else new.reshape(())
    vector = together([as_tensor(r, index) for index in positions])
    return r.apply("scatter_nd", x, vector, expanded, reduction="none")


def _where(r: SourceRecording, x: Array, mask: Traced, new: Traced) -> Traced:
    """One number at all places where bools hold."""
    rest = [Expr.of(1)] * (x.ndim - mask.ndim)
    return r.apply("where", mask.reshape((*mask.type.shape, *rest)), new, x)

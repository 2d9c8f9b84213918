"""`x[...] = y` as graph operators, of tensors that are traced and of arrays of source mode."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from weft.array.indexing import is_mask, is_whole, parsed
from weft.array.operators import ArrayOperators, is_number
from weft.dialects.expr import Expr
from weft.dialects.graph.core.types import ShapeAttr
from weft.tracing.indexing import Box, box_of, chosen, together

if TYPE_CHECKING:
    from weft.tracing.traced import Recording, Traced


def _tensor(x: Traced, value: Any) -> Traced:
    """What is assigned, as a tensor of the same graph."""
    return x.constant(np.asarray(value)) if is_number(value) else x.lifted(value)


def written(x: Traced, index: Any, value: Any) -> Traced:
    """The array with other elements at an index. Raises InvalidIndexError."""
    r: Recording = x.recording
    index = cast("tuple[Any, ...]", index) if isinstance(index, tuple) else (index,)
    new = _tensor(x, value).astype(x.dtype)
    parts = parsed(index, x.shape).parts
    if any(map(is_mask, parts)):
        if not new.ndim and is_mask(parts[0]) and all(map(is_whole, parts[1:])):
            return _where(r, x, x.lifted(parts[0]), new)
    else:
        box = box_of(x, parts)
        if not box.gathered:
            return _inserted(r, x, box, new)
        if all(isinstance(part, int) or _is_scalar(part) for part in parts[: _leading(parts)]):
            return _rows(r, x, parts[: _leading(parts)], new)
    zero, one = (r.constant(np.asarray(each)) for each in (0, 1))
    numbers = r.apply("range", zero, one, size=ShapeAttr((x.type.size,)))
    flat = x.shaped((x.type.size,))
    positions = chosen(numbers.shaped(x.type.shape), parsed(index, x.shape))
    fitting = _fitting(r, new, positions.type.shape)
    expanded = r.apply("expand", fitting, shape=ShapeAttr(positions.type.shape))
    vectors = positions.shaped((*positions.type.shape, Expr.of(1)))
    changed = r.apply("scatter_nd", flat, vectors, expanded, reduction="none")
    return changed.shaped(x.type.shape)


def _fitting(r: Recording, new: Traced, shape: Sequence[Expr]) -> Traced:
    """What is assigned, of sizes that are those of what it replaces: a call in which they are not
    ends with an error.
    """
    last = shape[max(0, len(shape) - new.ndim) :]
    if len(last) != new.ndim:
        return new
    dims = tuple(
        own if own.constant is not None and (own.constant == 1 or size.constant is not None)
        else size
        for own, size in zip(new.type.shape, last, strict=True)
    )  # fmt: skip
    return new if dims == tuple(new.type.shape) else r.apply("assume", new, shape=ShapeAttr(dims))


def _inserted(r: Recording, x: Traced, box: Box, new: Traced) -> Traced:
    """The array with another box."""
    updates = r.apply("expand", new, shape=ShapeAttr(tuple(box.shape)))
    starts = ShapeAttr(tuple(box.starts))
    shaped = updates.shaped(tuple(box.sizes))
    return r.apply("insert_slice", x, shaped, starts=starts, steps=box.steps)


def _is_scalar(part: Any) -> bool:
    return isinstance(part, ArrayOperators) and not part.ndim


def _leading(parts: Sequence[Any]) -> int:
    """How many parts there are in front of whole slices."""
    count = len(parts)
    while count and is_whole(parts[count - 1]):
        count -= 1
    return count


def _rows(r: Recording, x: Traced, positions: Sequence[Any], new: Traced) -> Traced:
    """Integers in front name what is replaced."""
    rest = x.type.shape[len(positions) :]
    expanded = r.apply("expand", new, shape=ShapeAttr(rest)) if rest else new.shaped(())
    vector = together([_tensor(x, index).astype(np.int64) for index in positions])
    return r.apply("scatter_nd", x, vector, expanded, reduction="none")


def _where(r: Recording, x: Traced, mask: Traced, new: Traced) -> Traced:
    """One number at all places where bools hold."""
    rest = [Expr.of(1)] * (x.ndim - mask.ndim)
    return r.apply("where", mask.shaped((*mask.type.shape, *rest)), new, x)

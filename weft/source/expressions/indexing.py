"""`x[...]` and `x[...] = y`, with indices that only a call knows, as graph operators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np

from weft.dialects.errors import TypeInferenceError
from weft.dialects.expr import Expr, maximum, minimum
from weft.dialects.graph.core.types import ShapeAttr
from weft.source.expressions.operators import as_tensor, expression
from weft.source.recording import SourceRecording
from weft.source.values import Array, Number, is_number
from weft.tracing.indexing import (
    axes_taken,
    gathered_together,
    index_vectors,
    is_mask,
    is_whole,
    outside,
    spread,
    together,
)
from weft.tracing.traced import Traced

RULE = "an index requires integers, slices, None, ..., arrays of integers or one of bools"


def item(r: SourceRecording, x: Traced, index: Any) -> Array:
    """`x[index]` for one integer, or None."""
    return read(r, x, (index,))


def read(r: SourceRecording, x: Traced, index: Sequence[Any]) -> Array:
    """The part of an array that an index names; one of integers and slices is a view.

    Raises TypeInferenceError for what cannot be an index.
    """
    parts = _spread(x, [_part(r, each) for each in index])
    masks = [part for part in parts if is_mask(part)]
    if masks:
        return _masked(r, x, parts, masks)
    arrays = [part for part in parts if isinstance(part, Traced) and not is_number(part)]
    several = sum(bool(part.ndim) for part in arrays) > 1
    basic, gathered = _basic(r, x, parts)
    result = basic
    apart = any(part.ndim for part in arrays) and _are_apart(parts)
    if several or apart:
        result = gathered_together(basic, gathered, apart)
    else:
        for axis, places in reversed(gathered):
            result = r.apply("gather", result, places.astype(np.int64), axis=axis)
    found = r.array(result.value)
    if found.ndim and not any(part.ndim for part in arrays) and isinstance(x, Array):
        return found.viewing(x, tuple(index))
    return found


def _part(r: SourceRecording, part: Any) -> Any:
    """A part of an index: int, Number, slice, None, ... or a tensor."""
    if part is None or part is Ellipsis or isinstance(part, slice | Number):
        return cast("Any", part)
    if isinstance(part, bool | np.bool_):
        raise TypeInferenceError(f"{RULE}, got {part}")
    if isinstance(part, int | np.integer):
        return int(part)
    if isinstance(part, Traced):
        if part.dtype.kind not in "biu":
            raise TypeInferenceError(f"{RULE}, got {part.type}")
        return part
    array = np.asarray(part)
    if array.dtype.kind not in "biu":
        raise TypeInferenceError(f"{RULE}, got {part!r}")
    return r.constant(array)


def _are_apart(parts: Sequence[Any]) -> bool:
    """Whether slices or None stand between integers and arrays."""
    places = [n for n, part in enumerate(parts) if part is not None and not isinstance(part, slice)]
    return places != list(range(places[0], places[-1] + 1))


def _spread(x: Traced, parts: list[Any]) -> list[Any]:
    """The index with `...` written out."""
    return spread(parts, axes_taken(parts), x.ndim)


@dataclass
class _Box:
    """What slices and known integers choose: a strided box of an array, its shape as the index has
    it, and axes of that which are to be gathered.
    """

    starts: list[Expr]
    sizes: list[Expr]
    steps: list[int]
    shape: list[Expr] = field(default_factory=list[Expr])
    gathered: list[tuple[int, Traced]] = field(default_factory=list[tuple[int, Traced]])


def _basic(
    r: SourceRecording, x: Traced, parts: Sequence[Any]
) -> tuple[Traced, list[tuple[int, Traced]]]:
    """What slices and known integers choose, and which axes of that are to be gathered."""
    box = _box(r, x, parts)
    chosen = r.apply(
        "slice", x,
        sizes=ShapeAttr(tuple(box.sizes)), starts=ShapeAttr(tuple(box.starts)), steps=box.steps,
    )  # fmt: skip
    return r.apply("reshape", chosen, shape=ShapeAttr(tuple(box.shape))), box.gathered


def _box(r: SourceRecording, x: Traced, parts: Sequence[Any]) -> _Box:
    """The box of an array that an index names, as far as it is known while compiling."""
    box = _Box([Expr.of(0)] * x.ndim, list(x.type.shape), [1] * x.ndim)
    axis = 0
    for part in parts:
        if part is None:
            box.shape.append(Expr.of(1))
            continue
        extent = x.type.shape[axis]
        if isinstance(part, slice):
            box.starts[axis], box.sizes[axis], box.steps[axis] = _range(
                r, cast("slice[Any, Any, Any]", part), extent
            )
            box.shape.append(box.sizes[axis])
        elif (place := _place(r, part, extent)) is not None:
            box.starts[axis], box.sizes[axis] = place, Expr.of(1)
        else:
            if (wrong := outside(as_tensor(r, part), extent)) is not None:
                rule = f"an index requires places within {extent}"
                raise TypeInferenceError(f"{rule}, got {wrong}")
            box.gathered.append((len(box.shape), part))
            box.shape.append(extent)
        axis += 1
    return box


def _place(r: SourceRecording, part: Any, extent: Expr) -> Expr | None:
    """An integer as a place that surely lies within the axis; None where that is not known."""
    found = expression(part)
    if found is None:
        return None
    constant, size = found.constant, extent.constant
    if constant is not None and size is not None:
        if not -size <= constant < size:
            raise TypeInferenceError(f"an index requires a place within {size}, got {constant}")
        return Expr.of(constant % size)
    if constant is not None:
        return extent + constant if constant < 0 else found
    inside = r.at_least(found, 0) and r.at_least(extent - 1 - found, 0)
    return found if inside else None


def _range(r: SourceRecording, part: slice[Any, Any, Any], extent: Expr) -> tuple[Expr, Expr, int]:
    """Start, size and step."""
    step = 1 if part.step is None else part.step
    if not isinstance(step, int | np.integer) or not step:
        raise TypeInferenceError(f"a slice requires a step that is known, got {step!r}")
    size, ends = extent.constant, (part.start, part.stop)
    known = all(end is None or isinstance(end, int | np.integer) for end in ends)
    if size is not None and known:
        start, stop, step = slice(part.start, part.stop, int(step)).indices(size)
        return Expr.of(start), Expr.of(len(range(start, stop, step))), step
    if step == -1 and ends == (None, None):
        return extent - 1, extent, -1
    if step < 0:
        raise TypeInferenceError("a slice backwards requires the whole axis or known ends")
    start = Expr.of(0) if part.start is None else _end(r, part.start, extent)
    stop = extent if part.stop is None else _end(r, part.stop, extent)
    length = stop - start
    length = length if r.at_least(length, 0) else maximum([length, 0])
    return start, length if step == 1 else length.ceildiv(int(step)), int(step)


def _end(r: SourceRecording, end: Any, extent: Expr) -> Expr:
    """An end of a slice, within the axis as Python has it."""
    found = expression(int(end)) if isinstance(end, np.integer) else expression(end)
    if found is None:
        if not isinstance(end, Traced) or end.ndim or end.dtype.kind not in "iu":
            raise TypeInferenceError(f"a slice requires integers, got {end!r}")
        size = r.dims(extent)
        whole = end.astype(np.int64)
        below = whole.apply("less", r.array(r.scalar(int, 0)))
        counted = r.apply("where", below, whole.apply("add", size), whole)
        found = r.bound(counted, "end")
    elif r.at_least(-found, 1):
        found = extent + found
        found = found if r.at_least(found, 0) else maximum([found, 0])
    elif not r.at_least(found, 0):
        raise TypeInferenceError(f"a slice requires an end of one sign, got {found}")
    return found if r.at_least(extent - found, 0) else minimum([found, extent])


def _masked(r: SourceRecording, x: Traced, parts: Sequence[Any], masks: Sequence[Any]) -> Array:
    """The elements at which an array of bools holds, as many as there are."""
    mask = masks[0]
    whole = [part for part in parts if not is_mask(part)]
    if len(masks) > 1 or parts[0] is not mask or not all(map(is_whole, whole)):
        raise TypeInferenceError("an index requires an array of bools alone, got more")
    return r.array(r.apply("gather_nd", x, index_vectors(mask), batch_dims=0).value)


# Assignment -----------------------------------------------------------------------------------


def write(r: SourceRecording, x: Array, index: Sequence[Any], value: Any) -> Traced:
    """The array with other elements at an index. Raises TypeInferenceError."""
    new = as_tensor(r, value).astype(x.dtype)
    parts = _spread(x, [_part(r, each) for each in index])
    if any(map(is_mask, parts)):
        if not new.ndim and len([part for part in parts if is_mask(part)]) == 1:
            return _where(r, x, parts, new)
    else:
        box = _box(r, x, parts)
        if not box.gathered:
            return _inserted(r, x, box, new)
        if all(is_number(part) or _is_scalar(part) for part in parts[: _leading(parts)]):
            return _rows(r, x, parts[: _leading(parts)], new)
    numbers = r.apply(
        "range", r.array(r.scalar(int, 0)), r.array(r.scalar(int, 1)),
        size=ShapeAttr((x.type.size,)),
    )  # fmt: skip
    flat = x.reshape((x.type.size,))
    places = read(r, numbers.reshape(x.type.shape), index)
    expanded = r.apply("expand", new, shape=ShapeAttr(places.type.shape))
    vectors = places.reshape((*places.type.shape, Expr.of(1)))
    changed = r.apply("scatter_nd", flat, vectors, expanded, reduction="none")
    return changed.reshape(x.type.shape)


def _inserted(r: SourceRecording, x: Array, box: _Box, new: Traced) -> Traced:
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


def _rows(r: SourceRecording, x: Array, places: Sequence[Any], new: Traced) -> Traced:
    """Integers in front name what is replaced."""
    rest = x.type.shape[len(places) :]
    expanded = r.apply("expand", new, shape=ShapeAttr(rest)) if rest else new.reshape(())
    vector = together([as_tensor(r, place) for place in places])
    return r.apply("scatter_nd", x, vector, expanded, reduction="none")


def _where(r: SourceRecording, x: Array, parts: Sequence[Any], new: Traced) -> Traced:
    """One number at all places where bools hold."""
    mask = next(part for part in parts if is_mask(part))
    if parts[0] is not mask or not all(map(is_whole, parts[1:])):
        raise TypeInferenceError("an index requires an array of bools alone, got more")
    rest = [Expr.of(1)] * (x.ndim - mask.ndim)
    return r.apply("where", mask.reshape((*mask.type.shape, *rest)), new, x)

"""`x[...]`: NumPy's indexing as graph operators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeGuard, cast

import numpy as np

from weft.array.operators import ArrayOperators, users_line
from weft.dialects.errors import TypeInferenceError, WeftError
from weft.dialects.expr import Expr
from weft.dialects.graph.reindexing.constant import ConstantOp

if TYPE_CHECKING:
    from weft.tracing.traced import Traced


def indexed(x: Traced, index: Sequence[Any]) -> Traced:
    """The part of a tensor that integers, slices, `...`, `None` and arrays of integers, or one of
    bools, choose. Raises WeftError, which names the line, for anything else.
    """
    try:
        parts = _spread(x, [_part(x, each) for each in index])
        masks = [part for part in parts if is_mask(part)]
        if masks:
            return _masked(x, parts, masks)
        if any(_is_traced(part) for part in parts):
            parts = [_constant(x, part) for part in parts]
        return _chosen(x, parts)
    except TypeInferenceError as error:
        text, line = str(error), users_line()
        raise WeftError(text if text.startswith(line) else f"{line}: {text}") from error


def _chosen(x: Traced, parts: Sequence[Any]) -> Traced:
    """What integers, slices, None and arrays of integers choose."""
    starts, sizes, steps = [Expr.of(0)] * x.ndim, list(x.type.shape), [1] * x.ndim
    shape: list[Expr] = []
    gathered: list[tuple[int, Traced]] = []
    axis = 0
    for part in parts:
        if part is None:
            shape.append(Expr.of(1))
            continue
        extent = x.type.shape[axis]
        if _is_traced(part):
            require_within(part, extent)
            gathered.append((len(shape), part))
            shape.append(extent)
        elif isinstance(part, slice):
            starts[axis], sizes[axis], steps[axis] = _range(
                cast("slice[Any, Any, Any]", part), extent
            )
            shape.append(sizes[axis])
        else:
            starts[axis], sizes[axis] = _place(int(part), extent), Expr.of(1)
        axis += 1
    chosen = x.op("slice", x, sizes=tuple(sizes), starts=tuple(starts), steps=steps)
    result = chosen.reshape(tuple(shape))
    if len(gathered) > 1:
        return gathered_together(result, gathered)
    for place, places in gathered:
        result = x.op("gather", result, places.astype(np.int64), axis=place)
    return result


def _is_traced(part: Any) -> TypeGuard[Traced]:
    """Whether a part of an index is a tensor that is being traced, not one with values."""
    return isinstance(part, ArrayOperators) and not part.has_values


def _part(x: Traced, part: Any) -> Any:
    """A part of an index: int, slice, None, ... or a tensor of integers or bools."""
    if part is None or part is Ellipsis or isinstance(part, slice):
        return cast("Any", part)
    if isinstance(part, int | np.integer) and not isinstance(part, bool):
        return int(cast("Any", part))
    found = part if _is_traced(part) else _array(part)
    if found.dtype.kind not in "biu":
        rule = "integers, slices, None, ... and arrays of integers or bools"
        raise TypeInferenceError(f"an index requires {rule}, got {part!r}")
    return x.lifted(found)


def _array(part: Any) -> Any:
    array = np.asarray(part)
    return array if array.size else array.astype(np.int64)  # an empty list


def _constant(x: Traced, part: Any) -> Any:
    """An integer beside an array counts as one."""
    return x.lifted(np.asarray(part)) if isinstance(part, int) else part


def is_mask(part: Any) -> bool:
    """Whether a part of an index is an array of bools."""
    return _is_traced(part) and not part.python_kind and part.dtype.kind == "b"


def gathered_together(
    x: Traced, gathered: Sequence[tuple[int, Traced]], apart: bool = False
) -> Traced:
    """Several arrays of integers, with the axes that they choose of, choose elements together; what
    they give takes their place, or comes first where they are apart, as NumPy has it.
    """
    axes = [axis for axis, _ in gathered]
    beside = not apart and axes == list(range(axes[0], axes[0] + len(axes)))
    places = together([place for _, place in gathered])
    first, rest = axes[0] if beside else 0, [axis for axis in range(x.ndim) if axis not in axes]
    order = [*axes, *rest]
    chosen = x.op("gather_nd", x.transpose(*order), places, batch_dims=0)
    count = places.ndim - 1
    back = [*range(count, count + first), *range(count), *range(count + first, chosen.ndim)]
    return chosen.transpose(*back) if chosen.ndim else chosen


def together(places: Sequence[Traced]) -> Traced:
    """Arrays of integers, broadcast to each other, as index vectors."""
    wide = [each.astype(np.int64) for each in places]
    total = wide[0]
    for each in wide[1:]:
        total = total.apply("add", each)
    column = (*total.type.shape, Expr.of(1))
    columns = [each.op("expand", each, shape=total.type.shape).reshape(column) for each in wide]
    return columns[0] if len(columns) == 1 else total.op("concat", *columns, axis=total.ndim)


def _masked(x: Traced, parts: Sequence[Any], masks: Sequence[Any]) -> Traced:
    """The elements at which an array of bools holds, as many as there are."""
    mask = masks[0]
    whole = [part for part in parts if not is_mask(part)]
    if len(masks) > 1 or parts[0] is not mask or not all(map(is_whole, whole)):
        raise TypeInferenceError("an index requires an array of bools alone, got more")
    return x.op("gather_nd", x, index_vectors(mask), batch_dims=0)


def index_vectors(mask: Traced) -> Traced:
    """Where bools are true, an index vector a row, as many as there are."""
    total = mask.astype(np.int64).reduced("reduce_sum", None, False)
    count = mask.recording.bound(total, "count")
    return mask.op("nonzero", mask, count=(count,)).transpose(1, 0)


def is_whole(part: Any) -> bool:
    """Whether a part of an index is `:`."""
    if not isinstance(part, slice):
        return False
    ends = cast("slice[Any, Any, Any]", part)
    return ends.start is None and ends.stop is None and ends.step is None


def _spread(x: Traced, parts: Sequence[Any]) -> list[Any]:
    """The index with `...` written out, one part for each axis; a mask has several."""
    return spread(parts, axes_taken(parts), x.ndim)


def axes_taken(parts: Sequence[Any]) -> int:
    """How many axes the parts of an index choose of."""
    return sum(
        0 if part is None or part is Ellipsis else part.ndim if is_mask(part) else 1
        for part in parts
    )


def spread(index: Sequence[Any], taken: int, rank: int) -> list[Any]:
    """The index with `...` written out as slices of the axes that its parts, which take so many,
    leave. Raises TypeInferenceError where these are too many.
    """
    dots = [position for position, part in enumerate(index) if part is Ellipsis]
    if taken > rank or len(dots) > 1:
        got = f"{taken} for {rank} axes"
        raise TypeInferenceError(f"an index requires a part an axis at most, got {got}")
    at = dots[0] if dots else len(index)
    rest: list[Any] = [slice(None)] * (rank - taken)
    return [*index[:at], *rest, *index[at + 1 :]]


def _place(position: int, extent: Expr) -> Expr:
    size = extent.constant
    if size is not None and not -size <= position < size:
        raise IndexError(f"{users_line()}: an index requires a place within {size}, got {position}")
    return extent + position if position < 0 else Expr.of(position)


def outside(places: Traced, extent: Expr) -> int | None:
    """The first of known places that an axis of known size does not have; None where all are there,
    or only a call knows.
    """
    size, owner = extent.constant, places.value.owner
    if size is None or not isinstance(owner, ConstantOp):
        return None
    chosen = owner.array(places.recording.weights)
    wrong = chosen[(chosen < -size) | (chosen >= size)]
    return int(wrong.flat[0]) if wrong.size else None


def require_within(places: Traced, extent: Expr) -> None:
    """Refuses known places outside of an axis. Raises IndexError, which names the line."""
    wrong = outside(places, extent)
    if wrong is not None:
        rule = f"an index requires places within {extent}"
        raise IndexError(f"{users_line()}: {rule}, got {wrong}")


def _from_front(end: Any, extent: Expr) -> Expr:
    """An end of a slice, counted from the axis's front."""
    return extent + int(end) if _is_negative(end) else Expr.of(end)


def _is_negative(end: Any) -> bool:
    return not isinstance(end, Expr) and int(end) < 0


def _is_within(end: Expr, extent: Expr) -> bool:
    """Whether an axis reaches as far as that, whatever sizes are."""
    (low, _), (least, _) = end.range({}), (extent - end).range({})
    return low is not None and low >= 0 and least is not None and least >= 0


def _range(part: slice[Any, Any, Any], extent: Expr) -> tuple[Expr, Expr, int]:
    """Start, size and step; a size that is not known has to be taken whole, from its ends, or up to
    and from places that are within it at any size.
    """
    step = 1 if part.step is None else int(part.step)
    size, named = extent.constant, any(isinstance(end, Expr) for end in (part.start, part.stop))
    if size is not None and not named:
        start, stop, step = part.indices(size)
        return Expr.of(start), Expr.of(len(range(start, stop, step))), step
    if step == 1 and part.start is None:
        stop = extent if part.stop is None else _from_front(part.stop, extent)
        if part.stop is None or _is_negative(part.stop) or _is_within(stop, extent):
            return Expr.of(0), stop, 1
    elif step == 1 and part.stop is None:
        start = _from_front(part.start, extent)
        if not isinstance(part.start, Expr) or _is_within(start, extent):
            return start, extent - start, 1
    raise WeftError(
        f"{users_line()}: a slice of the unknown size {extent} requires one end and step 1, "
        f"got {part}"
    )

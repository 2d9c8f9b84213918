"""Assignments to elements, and in place: what a call has made may be changed, nothing else."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from types import FunctionType
from typing import Any, cast

import numpy as np

from weft.array.complex_numbers import Complex
from weft.source.expressions.iteration import elements, stacked
from weft.source.expressions.operations import operate
from weft.source.expressions.operators import as_tensor
from weft.source.leaves import shown
from weft.source.run import Run
from weft.source.syntax import Location
from weft.source.undo_log import ArraySlot, DictSlot, ListSlot
from weft.source.values import Array, Spread
from weft.tracing.assignment import written
from weft.tracing.traced import Traced


def set_element(run: Run, holder: Any, index: Any, value: Any, location: Location) -> None:
    """`holder[index] = value`."""
    method = getattr(type(holder), "__setitem__", None)
    if isinstance(holder, Complex):
        given = as_complex(run, value, holder, location)
        for part, elements_ in zip(holder.parts, given.parts, strict=True):
            set_element(run, part, index, elements_, location)
    elif isinstance(holder, Array):
        parts = cast("tuple[Any, ...]", index if isinstance(index, tuple) else (index,))
        if isinstance(value, list | tuple):
            value = stacked(run, list(cast("Sequence[Any]", value)), location)
        replace(run, holder, written(holder, parts, as_tensor(run.recording, value)), location)
    elif isinstance(method, FunctionType):
        run.call(run, method, [holder, index, value], {}, location)
    elif type(holder) in (list, dict):
        if isinstance(index, Traced):
            rule = "an assignment to a list or dict requires an index that is known"
            raise location.refuse(rule, shown(index), "use an array")
        require_made(run, holder, location)
        run.undo_log.note(ListSlot(holder) if type(holder) is list else DictSlot(holder))
        if any(isinstance(each, Spread) for each in holder):
            raise location.refuse(
                "a list that a loop of the graph fills stays as it is", "a change"
            )
        holder[index] = value
    else:
        rule = "an assignment to an element requires an array, list or dict of this call"
        raise location.refuse(rule, shown(holder), "copy it first: np.array(x), x.copy(), list(x)")


def as_complex(run: Run, value: Any, holder: Complex, location: Location) -> Complex:
    """A value for elements of complex numbers."""
    if isinstance(value, list | tuple):
        value = stacked(run, list(cast("Sequence[Any]", value)), location)
    return holder.lifted(value).astype(holder.dtype, copy=False)


def replace(run: Run, array: Array, value: Traced, location: Location) -> None:
    """Gives an array other elements, and the array that it is a part of too."""
    if array.owner:
        rule = "a change of an array requires one that this call has made, and nothing else holds"
        raise location.refuse(rule, f"{array.owner}", "copy it first: x = x.copy()")
    view = array.part_of
    if view is not None and view.link is None and _is_own(run, array, view.base):
        array.part_with()
        view = None
    if view is not None:
        if view.link is None:
            rule = "a change of a part requires it to be known which part of the array it is"
            raise location.refuse(rule, "another view", "copy it first: x.copy()")
        replace(run, view.base, view.link.write(view.base, value), location)
        run.undo_log.assign(ArraySlot(array), Array(run.recording, value.value))
        array.viewing(view.base, view.link)
        return
    number = run.changeable.get(id(array))
    if number is not None:
        run.changed_arguments.setdefault(number, str(location))
    run.undo_log.assign(ArraySlot(array), Array(run.recording, value.value))


def _is_own(run: Run, array: Array, base: Array) -> bool:
    """Whether a part of an array, such as `(x @ y).T`, is all that is left to see of it."""
    views = (base.part_of, *base.shown) if base.part_of else base.shown
    if views or base.owner or id(base) in run.changeable:
        return False
    return not run.undo_log.holds(lambda each: each.is_within(base, array))


def require_made(run: Run, holder: Any, location: Location) -> None:
    """Refuses to change a list or dict that the call did not make."""
    if not run.undo_log.is_made(holder):
        rule = f"a change of a {type(holder).__name__} requires one that this call has made"
        raise location.refuse(
            rule, "one from outside", f"copy it first: {type(holder).__name__}(x)"
        )


def in_place(
    run: Run, node_type: type[ast.AST], before: Any, value: Any, location: Location
) -> Any:
    """`x += y`: arrays and lists are changed, everything else is replaced."""
    if isinstance(before, Complex) and before.ndim:
        after = as_complex(run, operate(run, node_type, before, value, location), before, location)
        for part, elements_ in zip(before.parts, after.parts, strict=True):
            replace(run, part, elements_.broadcast_to(part.shape), location)
        return before
    if isinstance(before, Array) and before.ndim:
        after = operate(run, node_type, before, value, location)
        if np.can_cast(after.dtype, before.dtype, "same_kind"):
            after = after.astype(before.dtype)
        else:
            rule = f"an assignment in place requires the dtype {before.dtype}"
            raise location.refuse(rule, after.dtype, "write x = x + y")
        replace(run, before, after, location)
        return before
    if type(before) is list and node_type is ast.Add:
        require_made(run, before, location)
        run.undo_log.note(ListSlot(before))
        before.extend(elements(run, value, location))
        return before
    return operate(run, node_type, before, value, location)

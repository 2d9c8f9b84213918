"""Methods that change lists, dicts and sets: the undo log records each change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from weft.source.expressions.iteration import elements
from weft.source.leaves import shown
from weft.source.run import Run
from weft.source.syntax import Location
from weft.source.undo_log import DictSlot, ListSlot, SetSlot
from weft.source.values import Spread
from weft.tracing.traced import Traced

CHANGING: Final[Mapping[type, frozenset[str]]] = {
    list: frozenset(("append", "extend", "insert", "pop", "remove", "clear", "sort", "reverse")),
    dict: frozenset(("clear", "pop", "popitem", "setdefault", "update")),
    set: frozenset(("add", "clear", "discard", "pop", "remove", "update")),
}
"""The methods that change what they are called on."""

_SLOTS: Final[Mapping[type, Any]] = {list: ListSlot, dict: DictSlot, set: SetSlot}
_KEEPING: Final = ("append", "extend")
"""Methods that leave what a list holds already."""


def change(
    run: Run, holder: Any, name: str, location: Location, *arguments: Any, **named: Any
) -> Any:
    """Calls a method that changes a list, dict or set. Raises SourceError where the call did not
    make it, or what it holds depends on tensors.
    """
    holder_type = type(holder)
    if not run.undo_log.is_made(holder):
        rule = f"a change of a {holder_type.__name__} requires one that this call has made"
        raise location.refuse(rule, "one from outside", f"copy it first: {holder_type.__name__}(x)")
    if name not in _KEEPING and any(isinstance(each, Spread) for each in holder):
        rule = "a list that a loop of the graph fills requires to be appended to"
        raise location.refuse(rule, name, "make it an array: np.stack(...)")
    if holder_type is not list or name in ("pop", "insert"):
        for each in arguments if name in ("add", "discard", "remove") else arguments[:1]:
            if isinstance(each, Traced):
                rule = f"{name} requires to be known while compiling"
                raise location.refuse(rule, shown(each), "use an array")
    if name in ("sort", "remove") and holder_type is list:
        _require_known(holder, arguments, name, location)
    run.undo_log.note(_SLOTS[holder_type](holder))
    if name == "extend":
        return holder.extend(elements(run, arguments[0], location))
    return getattr(holder, name)(*arguments, **named)


def _require_known(holder: Any, arguments: tuple[Any, ...], name: str, location: Location) -> None:
    if any(isinstance(each, Traced) for each in (*holder, *arguments)):
        rule = f"{name} of a list requires elements that are known"
        advice = "compare and exchange elements, or np.sort an array"
        raise location.refuse(rule, "tensors", advice)

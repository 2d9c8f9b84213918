"""Modules of `weft.nn` in programs: their tensors by paths, and other tensors in their places."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from weft.nn.module import Module
from weft.source.attributes import attribute
from weft.source.journal import NameSlot
from weft.source.outside import Guard
from weft.source.run import Run
from weft.source.syntax import Place

Places = list[tuple[str, Module, str]]
"""Paths, modules and attributes of tensors."""


def places_of(run: Run, place: Place, module: Module) -> Places:
    """Where the tensors of a module are; a guard finds out whether that changes."""
    found = list(Module.tensor_places(module))
    run.outside.watch(Guard(
        "what a module is made of", lambda: _structure(module), _structure(module)
    ), module)  # fmt: skip
    return found


def _structure(module: Module) -> tuple[object, ...]:
    return tuple((path, id(each)) for path, each in Module.modules(module))


def modules_of(run: Run, place: Place, module: Module) -> list[tuple[str, Module]]:
    """A module and all inside it."""
    places_of(run, place, module)
    return list(Module.modules(module))


def tensors_of(run: Run, place: Place, module: Module) -> dict[str, Any]:
    """The tensors of a module by their paths, as they are here."""
    return {
        path: attribute(run, each, name, path, place)
        for path, each, name in places_of(run, place, module)
    }


METHODS: Final[Mapping[Any, Callable[..., Any]]] = {
    Module.tensor_places: places_of,
    Module.modules: modules_of,
}
"""Methods that are generators, which are run while the program is read."""


def is_bound(function: object) -> bool:
    """Whether the function is the generator of `Module.bound`."""
    return function is getattr(Module.bound, "__wrapped__", None)


def bound(
    run: Run,
    module: Module,
    state: Mapping[str, Any],
    *,
    body: Callable[[Any], None],
    place: Place,
) -> None:
    """Runs the body with other tensors in a module, to whose tensors it may assign; afterwards the
    module is as it was.
    """
    places = {path: (each, name) for path, each, name in places_of(run, place, module)}
    unknown = sorted(set(state) - set(places))
    if unknown:
        rule = "a module requires names of its tensors"
        raise place.refuse(rule, ", ".join(unknown), f"it has {', '.join(places)}")
    slots = {path: NameSlot(vars(each), name) for path, (each, name) in places.items()}
    before = {path: slot.get() for path, slot in slots.items()}
    lent = {(id(each), name) for each, name in places.values()}
    run.lent |= lent
    try:
        for path, value in state.items():
            run.journal.assign(slots[path], run.outside.adopt(value, path))
        body(None)
    finally:
        for path, slot in slots.items():
            run.journal.assign(slot, before[path])
        run.lent -= lent

"""Modules of `weft.nn` in programs: their tensors by paths, and other tensors in their places."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from weft.dialects.errors import WeftError
from weft.nn.module import Module, locate
from weft.source.captures import Guard
from weft.source.expressions.attributes import attribute
from weft.source.run import Run
from weft.source.syntax import Location
from weft.source.undo_log import NameSlot

_PARTS: Final = (Module, list, dict, tuple)

TensorAttributes = list[tuple[str, Module, str]]
"""Paths, modules and attributes of tensors."""


def attributes_of(run: Run, location: Location, module: Module) -> TensorAttributes:
    """Where the tensors of a module are; a guard finds out whether that changes."""
    holders = [holder for _, each in Module.modules(module) for holder in _holders(vars(each))]
    before = [(each, _content(each), _values(each)) for each in holders]
    read = lambda: all(_content(each) == ids for each, ids, _ in before)  # noqa: E731
    run.captures.watch(Guard("what a module is made of", read, True), module)
    return list(Module.tensor_attributes(module))


def _holders(holder: Any) -> Iterator[Any]:
    """A container that modules may be in, and those inside it."""
    yield holder
    for each in _values(holder):
        if isinstance(each, list | dict | tuple):
            yield from _holders(each)


def _content(holder: Any) -> tuple[object, ...]:
    """The modules and containers that a container holds, as numbers that tell them apart."""
    return tuple([id(each) for each in _values(holder) if isinstance(each, _PARTS)])


def _values(holder: Any) -> list[Any]:
    return [*(holder.values() if isinstance(holder, dict) else holder)]


def modules_of(run: Run, location: Location, module: Module) -> list[tuple[str, Module]]:
    """A module and all inside it."""
    attributes_of(run, location, module)
    return list(Module.modules(module))


def called(run: Run, location: Location, module: Module, *arguments: Any, **named: Any) -> Any:
    """`module(...)`; what it assigns to is put back with all that the program changes."""
    forward = attribute(run, module, "forward", "forward", location)
    try:
        return run.call(run, forward, arguments, named, location)
    except WeftError as error:
        locate(error, module)
        raise


METHODS: Final[Mapping[Any, Callable[..., Any]]] = {
    Module.tensor_attributes: attributes_of,
    Module.modules: modules_of,
    Module.__call__: called,
}
"""Methods that mean something else while the program is read: the walks are generators."""


def is_bound(function: object) -> bool:
    """Whether the function is the generator of `Module.bound`."""
    return function is getattr(Module.bound, "__wrapped__", None)


def bound(
    run: Run,
    module: Module,
    state: Mapping[str, Any],
    *,
    body: Callable[[Any], None],
    location: Location,
) -> None:
    """Runs the body with other tensors in a module, to whose tensors it may assign; afterwards the
    module is as it was.
    """
    holders = {path: (each, name) for path, each, name in attributes_of(run, location, module)}
    unknown = sorted(set(state) - set(holders))
    if unknown:
        rule = "a module requires names of its tensors"
        raise location.refuse(rule, ", ".join(unknown), f"it has {', '.join(holders)}")
    slots = {path: NameSlot(vars(each), name) for path, (each, name) in holders.items()}
    before = {path: slot.get() for path, slot in slots.items()}
    lent = {(id(each), name) for each, name in holders.values()}
    run.lent |= lent
    try:
        for path, value in state.items():
            run.undo_log.assign(slots[path], run.captures.adopt(value, path))
        body(None)
    finally:
        for path, slot in slots.items():
            run.undo_log.assign(slot, before[path])
        run.lent -= lent

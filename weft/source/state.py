"""The state of modules in programs: a program may assign to it, its changes are further outputs,
and the module gets them when a call has succeeded.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from msgspec import Struct

from weft.eager.tensor import Tensor
from weft.nn.module import Module
from weft.source.expressions.operators import as_tensor
from weft.source.run import Run
from weft.source.syntax import Location
from weft.source.undo_log import NameSlot
from weft.source.values import Array, is_array_like


class State(Struct, frozen=True, eq=False):
    """A tensor of a module's state that a program assigns to: what it is, and the input for it."""

    holder: Module
    name: str
    before: Tensor
    entry: Array

    def now(self) -> Any:
        """What the module holds here."""
        return vars(self.holder)[self.name]


def is_state(holder: Any, name: str) -> bool:
    """Whether an attribute of an object is a tensor of a module's state."""
    return (
        isinstance(holder, Module)
        and name in holder.buffer_names
        and isinstance(vars(holder).get(name), Tensor | Array)
    )


def change_state(run: Run, holder: Module, name: str, value: Any, location: Location) -> None:
    """`module.name = value` for a tensor of its state."""
    if run.captures.frozen:
        rule = "a compiled artifact requires modules whose state stays as it is"
        advice = "model.eval(), or model.apply_updating(state, x), which returns it"
        raise location.refuse(rule, f"a change of {name} of {type(holder).__name__}", advice)
    if not is_array_like(value):
        raise location.refuse("the state of a module requires tensors", type(value).__name__)
    key = id(holder), name
    if key not in run.states:
        before, entry = vars(holder)[name], run.captures.attribute(holder, name, name)
        run.states[key] = State(holder, name, before, entry)
        vars(holder)[name] = entry  # which is what it was in front of every branch and loop, too
    run.undo_log.assign(NameSlot(vars(holder), name), as_tensor(run.recording, value))


@contextmanager
def put_back(run: Run) -> Generator[None]:
    """Inside, a program is read; afterwards modules are as they were."""
    try:
        yield
    finally:
        for state in run.states.values():
            vars(state.holder)[state.name] = state.before


def changed(run: Run) -> list[tuple[State, Any]]:
    """The states that the program has changed, and what they are now."""
    pairs = [(state, state.now()) for state in run.states.values()]
    return [(state, now) for state, now in pairs if now is not state.entry]


@contextmanager
def unchanged(run: Run) -> Generator[None]:
    """Inside, a branch or a loop that a function of weft's makes is built. Raises SourceError where
    it leaves another state in a module.
    """
    before = {id(state): now for state, now in changed(run)}
    yield
    for state, now in changed(run):
        if now is not before.get(id(state), state.entry):
            rule = "a branch or a loop that is a function requires modules whose state stays"
            got = f"a change of {state.name} of {type(state.holder).__name__}"
            raise run.location.refuse(rule, got, "write it as a statement: if, for, while")

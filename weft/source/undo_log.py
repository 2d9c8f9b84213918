"""The undo log: every assignment and mutation of a program goes through it, so that it can be
undone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeAlias, TypeVar

from msgspec import Struct

from weft.array.complex_numbers import Complex
from weft.source.values import Array

Names: TypeAlias = dict[str, Any]
Holder = TypeVar("Holder")


class Missing:
    """Stands where a name has no value."""

    def __repr__(self) -> str:
        return "nothing"


MISSING: Final = Missing()


class Slot(ABC):
    """A place that holds a value and may be changed: slots of one key are one place."""

    @property
    @abstractmethod
    def owner(self) -> object:
        """The object that changes."""

    @property
    @abstractmethod
    def key(self) -> tuple[object, ...]:
        """What tells places apart."""

    @abstractmethod
    def get(self) -> Any:
        """What it holds, as a value that later changes do not touch."""

    @abstractmethod
    def set(self, value: Any) -> None:
        """Makes it hold what `get` gave."""

    @abstractmethod
    def __str__(self) -> str:
        """What errors call it."""


@dataclass(frozen=True, eq=False)
class NameSlot(Slot):
    """A variable of a function, or an attribute of an object that has a dictionary of them."""

    names: Names
    name: str
    variable: bool = False
    """Whether it is a variable, which may be left without a value."""

    @property
    def owner(self) -> object:
        return self.names

    @property
    def key(self) -> tuple[object, ...]:
        return id(self.names), self.name

    def get(self) -> Any:
        return self.names.get(self.name, MISSING)

    def set(self, value: Any) -> None:
        if value is MISSING:
            self.names.pop(self.name, None)
        else:
            self.names[self.name] = value

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, eq=False)
class HolderSlot(Slot, Generic[Holder]):
    """All that an object holds."""

    holder: Holder

    @property
    def owner(self) -> object:
        return self.holder

    @property
    def key(self) -> tuple[object, ...]:
        return (id(self.holder),)


@dataclass(frozen=True, eq=False)
class ListSlot(HolderSlot[list[Any]]):
    """What a list holds."""

    def get(self) -> Any:
        return list(self.holder)

    def set(self, value: Any) -> None:
        self.holder[:] = value

    def __str__(self) -> str:
        return "a list"


@dataclass(frozen=True, eq=False)
class DictSlot(HolderSlot[dict[Any, Any]]):
    """What a dict holds."""

    def get(self) -> Any:
        return dict(self.holder)

    def set(self, value: Any) -> None:
        self.holder.clear()
        self.holder.update(value)

    def __str__(self) -> str:
        return "a dict"


@dataclass(frozen=True, eq=False)
class SetSlot(HolderSlot[set[Any]]):
    """What a set holds."""

    def get(self) -> Any:
        return frozenset(self.holder)

    def set(self, value: Any) -> None:
        self.holder.clear()
        self.holder.update(value)

    def __str__(self) -> str:
        return "a set"


@dataclass(frozen=True, eq=False)
class ArraySlot(HolderSlot[Array]):
    """The elements of an array, which is one value of the graph after the other."""

    def get(self) -> Any:
        return Array(self.holder.recording, self.holder.value)

    def set(self, value: Any) -> None:
        self.holder.replace(value.value)

    def __str__(self) -> str:
        return "an array"


class Change(Struct, frozen=True):
    """What a slot held before a piece of a program, and after it."""

    slot: Slot
    before: Any
    after: Any


class UndoLog:
    """Remembers what slots held, on one level for each piece that may have to be undone.

    What was made on a level is not undone with it: nothing outside can see it.
    """

    def __init__(self) -> None:
        self._levels: list[dict[tuple[object, ...], tuple[Slot, Any]]] = [{}]
        self._made: list[list[object]] = [[]]
        self._level_of: dict[int, int] = {}

    def make(self, value: Any) -> Any:
        """Notes that an object is new; returns it back."""
        self._made[-1].append(value)  # which keeps it alive, so that no other has its id
        self._level_of[id(value)] = len(self._levels) - 1
        return value

    def is_made(self, value: object) -> bool:
        """Whether the program made the object."""
        return id(value) in self._level_of

    def is_made_here(self, value: object) -> bool:
        """Whether the object was made on this level."""
        return self._level_of.get(id(value), -1) >= len(self._levels) - 1

    def holds(self, chosen: Callable[[Array], bool]) -> bool:
        """Whether something that the program made holds such an array."""
        return any(_holds(each, chosen) for made in self._made for each in made)

    def begin(self) -> None:
        """A further level starts here."""
        self._levels.append({})
        self._made.append([])

    def assign(self, slot: Slot, value: Any) -> None:
        """Changes a slot."""
        self.note(slot)
        slot.set(value)

    def note(self, slot: Slot) -> None:
        """Has to be called before a slot changes."""
        if not self.is_made_here(slot.owner):
            level = self._levels[-1]
            if slot.key not in level:
                level[slot.key] = (slot, slot.get())

    def undo(self) -> list[Change]:
        """Ends a level: all slots hold again what they held when it began. Gives the changes."""
        level = self._levels.pop()
        self._hand_on()
        changes = [Change(slot, before, slot.get()) for slot, before in level.values()]
        for change in reversed(changes):
            change.slot.set(change.before)
        return changes

    def keep(self) -> None:
        """Ends a level: what has changed stays, as changes of the level around it."""
        level = self._levels.pop()
        self._hand_on()
        for key, (slot, before) in level.items():
            if not self.is_made_here(slot.owner):
                self._levels[-1].setdefault(key, (slot, before))

    def _hand_on(self) -> None:
        """What was made on a level belongs to the one around it from its end on."""
        made = self._made.pop()
        self._made[-1] += made
        for value in made:
            self._level_of[id(value)] = len(self._levels) - 1


def _holds(holder: Any, chosen: Callable[[Array], bool]) -> bool:
    """Whether a container, or a tuple in it, holds such an array itself; lists and dicts in it are
    objects of their own.
    """
    if isinstance(holder, Array):
        return False
    if isinstance(holder, list | tuple | set | Complex):
        values: Any = holder.parts if isinstance(holder, Complex) else holder
    elif isinstance(holder, dict):
        values = holder.values()
    else:
        values = vars(holder).values() if hasattr(holder, "__dict__") else ()
    return any(
        (isinstance(each, Array) and chosen(each))
        or (isinstance(each, tuple | Complex) and _holds(each, chosen))
        for each in values
    )

"""One reading of a program: what its modules share."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from types import CellType
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from weft.array.complex_numbers import Complex
from weft.array.views import Link
from weft.dialects.errors import SourceError, WeftError
from weft.source.captures import Captures
from weft.source.recording import SourceRecording
from weft.source.syntax import Code, Location
from weft.source.undo_log import MISSING, ArraySlot, Names, NameSlot, UndoLog
from weft.source.values import Array, Number, Undefined

if TYPE_CHECKING:
    from weft.source.state import State

MOST_STATEMENTS = 50_000
"""A program may run so many while it is compiled; one with more has to leave loops to the graph."""
MOST_CALLS = 100
"""Calls within each other."""

RETURNED, VALUE = "<returned>", "<value>"
"""Variables of each call: whether it has returned, and what."""


class Ended(BaseException):
    """A way through the program raises an error, so that nothing stands behind it."""


class Frame(Struct, eq=False):
    """A call of a function: its variables, and what else its names may mean."""

    code: Code
    names: Names
    around: Frame | None = None
    """The call of the function that this one stands in."""
    cells: Mapping[str, CellType] = field(default_factory=dict[str, CellType])
    globals: dict[str, Any] = field(default_factory=dict[str, Any])
    loops: list[str] = field(default_factory=list[str])
    resume: Callable[[Any], None] | None = None
    """What a `yield` runs: the body of the `with` that a context manager is called in."""
    """The loops around the statement that runs, by what their flags start with."""

    def owner(self, name: str) -> Frame | None:
        """The call whose variable the name is; None for a global or a builtin one."""
        frame: Frame | None = self
        while frame is not None and name not in frame.code.locals:
            frame = frame.around
        return frame


class Run(Struct, eq=False):
    """The state of a reading, and the functions that read the parts of a program."""

    recording: SourceRecording
    captures: Captures
    evaluate: Callable[[Run, Frame, ast.expr], Any]
    execute: Callable[[Run, Frame, Sequence[ast.stmt]], None]
    call: Callable[[Run, Any, Sequence[Any], Mapping[str, Any], Location], Any]
    store: Callable[[Run, Frame, ast.expr, Any], None]
    undo_log: UndoLog = field(default_factory=UndoLog)
    location: Location = field(default_factory=lambda: Location("", ast.Pass()))
    statements: int = 0
    depth: int = 0
    copies: int = 1
    """How often the statement that runs is read."""
    regions: int = 0
    """How many regions of the graph are around the statement that runs."""
    changeable: dict[int, int] = field(default_factory=dict[int, int])
    """Arguments that the program may change, by identity: which input each is."""
    changed_arguments: dict[int, str] = field(default_factory=dict[int, str])
    """The inputs that it changes, and the line of the first change."""
    max_recursion: int = MOST_CALLS
    """Calls within each other, behind which the compiled program ends with an error."""
    tries: int = 0
    """How many `try` are around it."""
    lent: set[tuple[int, str]] = field(default_factory=set[tuple[int, str]])
    """Attributes of objects of the surroundings that may be assigned to here, and are put back."""
    states: dict[tuple[int, str], State] = field(default_factory=dict[tuple[int, str], "State"])
    """Tensors of modules' states that the program assigns to."""
    notes: dict[tuple[str, int, str], None] = field(
        default_factory=dict[tuple[str, int, str], None]
    )

    def note(self, location: Location, what: str) -> None:
        """Remembers what a statement became."""
        self.notes[location.file, location.line, what] = None

    @contextmanager
    def at(self, location: Location) -> Generator[None]:
        """Errors of weft's own that come from inside get the place."""
        before, self.location = self.location, location
        try:
            yield
        except SourceError:
            raise
        except WeftError as error:
            raise location.error(str(error).removeprefix(f"{location}: ")) from error
        finally:
            self.location = before

    def assign(self, frame: Frame, name: str, value: Any, location: Location) -> None:
        """Gives a variable a value."""
        owner = frame.owner(name)
        if owner is None:
            rule = "an assignment requires a variable of this function"
            raise location.refuse(rule, f"{name} of its surroundings", "return the value instead")
        self.undo_log.assign(NameSlot(owner.names, name, variable=True), value)

    def lookup(self, frame: Frame, name: str, location: Location) -> Any:
        """What a name means here."""
        owner = frame.owner(name)
        if owner is not None:
            value = owner.names.get(name, MISSING)
            if value is MISSING:
                raise location.refuse("a name requires a value", f"{name} before its assignment")
            return self.usable(value, name, location)
        bottom = frame
        while bottom.around is not None:
            bottom = bottom.around
        if name in bottom.cells:
            return self.captures.cell(bottom.cells[name], name)
        if name in bottom.globals:
            return self.captures.item(bottom.globals, name, name)
        if hasattr(builtins, name):
            return getattr(builtins, name)
        raise location.refuse("a name requires a value", f"{name}, which nothing defines")

    def usable(self, value: Any, name: str, location: Location) -> Any:
        """The value of a name, unless some ways do not define it or it shows what was changed."""
        if isinstance(value, Undefined):
            if value.error is not None:
                raise value.error
            advice = f"give {name} a value before"
            raise location.refuse("a name requires a value on every way", value.reason, advice)
        arrays = value.parts if isinstance(value, Complex) else (value,)
        stale = [each for each in arrays if isinstance(each, Array) and each.stale]
        if not all(map(self._read_again, stale)):
            rule = "a part of an array requires that the array stays as it is"
            got = f"{name}, whose array was changed since"
            raise location.refuse(rule, got, "take a copy: x[i].copy()")
        return value

    def _read_again(self, array: Array) -> bool:
        """Gives a part of an array that was changed since the elements that it shows now; whether
        it is known which these are.
        """
        view = array.part_of
        if view is None or view.link is None or array.shown:
            return False
        if type(view.link) is Link and any(isinstance(each, Array) for each in view.link.how):
            return False  # of an array without axes NumPy makes a copy, of a scalar a view
        if view.base.stale and not self._read_again(view.base):
            return False
        self.undo_log.assign(ArraySlot(array), view.link.read(view.base))
        array.viewing(view.base, view.link)
        return True

    def flag(self, frame: Frame, name: str) -> bool | Number:
        """A flag of a call."""
        return frame.names.get(name, False)

    def count_statement(self, location: Location) -> None:
        """Refuses programs that run on and on while they are compiled."""
        self.statements += 1
        if self.statements > MOST_STATEMENTS:
            rule = f"compiling requires at most {MOST_STATEMENTS} statements"
            advice = "loops whose condition is a tensor, and ranges, become loops of the graph"
            raise location.refuse(rule, "more", advice)

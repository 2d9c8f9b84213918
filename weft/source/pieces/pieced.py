"""`jit(f, fallback="python")`: Python runs what source mode refuses, between compiled pieces."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType, MethodType
from typing import Any, Final, Protocol

from msgspec import Struct

from weft.dialects.errors import SourceError
from weft.eager.tape import DEPTH
from weft.source.pieces.cutting import Cut, Source
from weft.source.signature import is_value
from weft.source.syntax import code_of
from weft.tracing.recognize import is_traced_tensor
from weft.trees import KNOWN, flatten_exactly

MOST_COMPILATIONS: Final = 8
"""A piece is compiled so often for other values before it is left to Python."""


class Compiled(Protocol):
    """What `jit` gives without a fallback."""

    @property
    def compilations(self) -> Sequence[Any]:
        """All compilations."""
        ...

    def __call__(self, *arguments: Any, **named: Any) -> Any: ...

    def explain(self) -> str:
        """Why it was compiled."""
        ...


class _Missing:
    """Stands for a variable without a value."""


MISSING: Final = _Missing()


class Outcome(Struct, frozen=True):
    """Where statements ended: what the function returned, or else its variables."""

    returned: bool
    value: Any
    names: Mapping[str, Any] | None


class Break(Struct, frozen=True):
    """A statement that Python runs: its line, and why it was not compiled."""

    line: int
    reason: str


class Piece:
    """Statements that are compiled, until source mode refuses one of them: then that one is
    Python's, and those around it are pieces.
    """

    def __init__(self, cut: Cut, jitted: Callable[[FunctionType], Compiled]):
        self._cut = cut
        self._make = jitted
        self._compiled: Compiled | None = None
        self._python: FunctionType | None = None
        self._pieces: list[Piece] = []
        self.broken: Break | None = None

    def __call__(self, variables: Mapping[str, Any]) -> Outcome:
        if self.broken is None and not DEPTH.count:  # derivatives go through what Python runs
            given = [variables.get(name, MISSING) for name in self._cut.ins()]
            leaves = flatten_exactly(given, KNOWN)[0]
            if any(map(is_value, leaves)) and not any(each is MISSING for each in leaves):
                found = self._run(given)
                if found is not None:
                    return found
        return self._as_python(variables)

    def _run(self, given: list[Any]) -> Outcome | None:
        """The call of what is compiled; None where that is refused."""
        if self._compiled is None:
            self._compiled = self._make(self._cut.jitted())
        try:
            returned, found = self._compiled(*given)
        except SourceError as error:
            self.break_at(error)
            return None
        if len(self._compiled.compilations) > MOST_COMPILATIONS:
            reason = f"was compiled {MOST_COMPILATIONS} times for other values"
            self.broken = Break(self._cut.statements[0].lineno, reason)
        if returned:
            return Outcome(True, found, None)
        return Outcome(False, None, dict(zip(self._cut.outs(), found, strict=True)))

    def break_at(self, error: SourceError) -> None:
        """Leaves the statement that an error is about to Python."""
        refused = self._cut.at(error.statement)
        self.broken = Break(refused.lineno, str(error).splitlines()[0])
        self._python, pieces = self._cut.python(refused)
        self._pieces = [Piece(each, self._make) for each in pieces]

    def _as_python(self, variables: Mapping[str, Any]) -> Outcome:
        if self._python is None:
            self._python, _ = self._cut.python(None)
        names = self._python.__code__.co_varnames[4 : self._python.__code__.co_argcount]
        run = lambda number, now: self._pieces[number](now)  # noqa: E731
        given = [variables.get(name, MISSING) for name in names]
        return self._python(run, locals, Outcome, MISSING, *given)

    def report(self) -> list[tuple[int, str]]:
        """What became of its statements, and the line where each starts."""
        if self.broken is not None:
            own = f"line {self.broken.line} is Python's: {self.broken.reason}"
            inner = [line for each in self._pieces for line in each.report()]
            return sorted([(self.broken.line, own), *inner])
        count = 0 if self._compiled is None else len(self._compiled.compilations)
        times = "once" if count == 1 else f"{count} times"
        done = f"compiled {times}" if count else "not compiled: no call had arrays for it"
        return [(self._cut.statements[0].lineno, f"{self._cut.lines}: {done}")]

    def breaks(self) -> list[Break]:
        """The statements that Python runs."""
        own = [] if self.broken is None else [self.broken]
        return [*own, *(line for each in self._pieces for line in each.breaks())]


class Pieced:
    """What `jit` gives with `fallback="python"`: a function that is compiled whole where that can
    be, and in pieces otherwise.
    """

    def __init__(
        self, function: Callable[..., Any], whole: Compiled, piece: Callable[..., Compiled]
    ):
        """`piece` makes jitted functions of pieces."""
        functools.update_wrapper(self, function, updated=())
        self.source_function = function
        self._whole = whole
        self._piece = piece
        self._top: Piece | None = None
        self._uncut: str | None = None

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        if self._top is None and self._uncut is None:
            leaves, _ = flatten_exactly((list(arguments), named), KNOWN)
            try:
                return self._whole(*arguments, **named)
            except SourceError as error:
                if any(map(is_traced_tensor, leaves)):
                    raise  # a graph has no Python in it
                self._cut(error)
        if self._top is None:
            return self.source_function(*arguments, **named)
        bound = inspect.signature(self.source_function).bind(*arguments, **named)
        bound.apply_defaults()
        return self._top(self._receiver() | bound.arguments).value

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def _receiver(self) -> dict[str, Any]:
        """What a bound method is bound to, by the name of its first parameter."""
        function = self.source_function
        if not isinstance(function, MethodType):
            return {}
        return {function.__func__.__code__.co_varnames[0]: function.__self__}

    def _cut(self, error: SourceError) -> None:
        """Cuts the function at the statement that was refused."""
        function = self.source_function
        inner = function.__func__ if isinstance(function, MethodType) else function
        if not isinstance(inner, FunctionType):
            self._uncut = str(error).splitlines()[0]
            return
        try:
            source = Source(inner, code_of(inner))
        except SourceError:  # it has no source that could be cut; Python runs it
            self._uncut = str(error).splitlines()[0]
            return
        reason = source.reason_whole()
        if reason is not None:
            self._uncut = f"{str(error).splitlines()[0]}; it is not cut, for {reason}"
            return
        self._top = Piece(Cut(source, source.code.node.body), self._piece)  # pyright: ignore[reportArgumentType]
        self._top.break_at(error)

    @property
    def breaks(self) -> tuple[Break, ...]:
        """The statements that Python runs, each with the reason."""
        if self._uncut is not None:
            return (Break(self.source_function.__code__.co_firstlineno, self._uncut),)
        return () if self._top is None else tuple(self._top.breaks())

    def explain(self) -> str:
        """What became of the function: as `explain` of `Jitted` where it is compiled whole, or else
        a line for each piece and for each statement of Python's.
        """
        name = getattr(self, "__name__", "the function")
        if self._uncut is not None:
            return f"{name} is run by Python: {self._uncut}"
        if self._top is None:
            return self._whole.explain()
        lines = [text for _, text in self._top.report()]
        return "\n  ".join([f"{name} is compiled in pieces", *lines])

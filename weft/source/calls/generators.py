"""Generators of the program: a loop over one runs it with the loop's body in place of each `yield`,
so that both take turns as in Python; what takes all elements at once gets them as a list.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from types import BuiltinFunctionType
from typing import Any, Final

from msgspec import Struct

from weft.source.pieces.names import within
from weft.source.run import Frame, Run
from weft.source.syntax import Location
from weft.source.undo_log import NameSlot

STARTED: Final = "<started>"
"""A variable of a generator's call: whether something takes its elements."""

COMPLETE: Final = (list, tuple, sum, sorted, min, max, set, frozenset, dict)
"""Functions that take all elements before they do anything else."""

ADVICE: Final = "loop over it with for, or over list(...) of it"


class Managed(Struct, eq=False, frozen=True):
    """A context manager that a generator makes, which `with` reads."""

    function: Any
    arguments: Sequence[Any]
    named: Mapping[str, Any]


class Generated(Struct, eq=False, frozen=True):
    """A call of a generator before it runs."""

    frame: Frame

    def __repr__(self) -> str:
        return f"the generator {self.frame.code.name}"


class Resumed(Struct, eq=False, frozen=True):
    """A call of a generator that runs, whose `yield`s resume a loop."""

    frame: Frame


class Left(BaseException):
    """A loop over a generator ends before that does."""


@lru_cache(maxsize=1000)
def is_generator(node: ast.AST) -> bool:
    """Whether a function yields."""
    return isinstance(node, ast.FunctionDef) and yields(node.body)


def yields(body: Sequence[ast.stmt]) -> bool:
    """Whether a generator yields within some statements."""
    return any(isinstance(each, ast.Yield | ast.YieldFrom) for each in within(body))


def generate(
    run: Run, generated: Generated, body: Callable[[Any], None], location: Location
) -> Any:
    """Runs a generator, and a body for each of its elements; gives what it returns. Raises
    SourceError for one that begins again, or yields where a tensor decides.
    """
    frame, regions = generated.frame, run.regions
    if frame.names.get(STARTED):
        raise location.refuse("a generator requires one loop over it", "two", ADVICE)

    def resume(value: Any) -> None:
        if run.regions != regions:
            rule = "a generator requires yields that no tensor decides"
            raise location.refuse(rule, "one in a loop or branch of the graph")
        body(value)

    names = run.undo_log.make(dict(frame.names))
    run.undo_log.assign(NameSlot(frame.names, STARTED), True)
    inner = Frame(frame.code, names, frame.around, frame.cells, frame.globals, resume=resume)
    return run.call(run, Resumed(inner), (), {}, location)


def collected(
    run: Run, function: Any, arguments: Sequence[Any], location: Location
) -> Sequence[Any]:
    """The arguments of a call, generators among them as lists of their elements. Raises SourceError
    for functions that would take turns with one.
    """
    if not any(isinstance(each, Generated) for each in arguments):
        return arguments
    if not any(function is each for each in COMPLETE):
        if isinstance(function, type | BuiltinFunctionType) and function.__module__ == "builtins":
            raise location.refuse("a generator requires a loop over it", function.__name__, ADVICE)
        return arguments
    found: list[Any] = []
    for each in arguments:
        if isinstance(each, Generated):
            elements: list[Any] = run.undo_log.make([])
            generate(run, each, elements.append, location)
            found.append(elements)
        else:
            found.append(each)
    return found

"""Functions that the program defines while it is read, and how arguments meet parameters."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from weft.source.run import Frame, Run
from weft.source.syntax import Code, Location


@dataclass(eq=False)
class Function:
    """A nested function or a lambda: its syntax, the call around it, and its defaults."""

    run: Run
    code: Code
    around: Frame
    defaults: list[Any] = field(default_factory=list[Any])
    named_defaults: dict[str, Any] = field(default_factory=dict[str, Any])

    @staticmethod
    def of(run: Run, frame: Frame, code: Code) -> Function:
        """The function as its `def` makes it."""
        arguments = code.node.args
        defaults = [run.evaluate(run, frame, each) for each in arguments.defaults]
        pairs = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
        named = {
            each.arg: run.evaluate(run, frame, default)
            for each, default in pairs
            if default is not None
        }
        return Function(run, code, frame, defaults, named)

    @property
    def __name__(self) -> str:
        return self.code.name

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """How functions of Python's own call it."""
        return self.run.call(self.run, self, arguments, named, self.run.location)


def bind(
    code: Code,
    defaults: Sequence[Any],
    named_defaults: Mapping[str, Any],
    arguments: Sequence[Any],
    named: Mapping[str, Any],
    location: Location,
) -> dict[str, Any]:
    """The variables that a call starts with. Raises SourceError where arguments do not fit."""
    parameters = code.node.args
    rest = dict(named)
    found: dict[str, Any] = {}
    positional = [*parameters.posonlyargs, *parameters.args]
    for parameter, value in zip(positional, arguments, strict=False):
        found[parameter.arg] = value
    extra = list(arguments[len(positional) :])
    if parameters.vararg is not None:
        found[parameters.vararg.arg] = tuple(extra)
    elif extra:
        raise _misfit(code, f"{len(arguments)} by position", location)
    first = len(positional) - len(defaults)
    for number, parameter in enumerate(positional):
        if parameter.arg in rest and number >= len(parameters.posonlyargs):
            if parameter.arg in found:
                raise _misfit(code, f"{parameter.arg} twice", location)
            found[parameter.arg] = rest.pop(parameter.arg)
        elif parameter.arg not in found and number >= first:
            found[parameter.arg] = defaults[number - first]
    for parameter in parameters.kwonlyargs:
        if parameter.arg in rest:
            found[parameter.arg] = rest.pop(parameter.arg)
        elif parameter.arg in named_defaults:
            found[parameter.arg] = named_defaults[parameter.arg]
    if parameters.kwarg is not None:
        found[parameters.kwarg.arg] = rest
    elif rest:
        raise _misfit(code, ", ".join(rest), location)
    missing = [each.arg for each in (*positional, *parameters.kwonlyargs) if each.arg not in found]
    if missing:
        raise _misfit(code, f"none for {', '.join(missing)}", location)
    return found


def _misfit(code: Code, got: str, location: Location) -> Exception:
    return location.refuse(f"{code.name} requires arguments ({ast.unparse(code.node.args)})", got)

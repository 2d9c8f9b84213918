"""What Python takes values for where it needs a bool."""

from __future__ import annotations

import ast
from types import FunctionType
from typing import Any

import numpy as np

from weft.dialects.errors import SourceError
from weft.source.expressions.operators import binary, condition, negated
from weft.source.run import Run
from weft.source.syntax import Location
from weft.source.values import Number, Spread
from weft.tracing.printing import Text
from weft.tracing.traced import Traced


def refused_text(location: Location, what: str) -> SourceError:
    """What is raised for a text of what only a call knows that is more than printed."""
    rule = "a text of values that only a call knows requires to be printed as it is"
    return location.refuse(rule, what, "print its parts, or write one f-string")


def as_condition(run: Run, value: Any, location: Location) -> bool | Number:
    """Whether a value counts as true. Raises SourceError for a tensor of several elements."""
    if isinstance(value, Text):
        raise refused_text(location, "a condition on it")
    if isinstance(value, Number) and value.python_type is not bool:
        found = binary(run.recording, ast.NotEq, value, 0)
        return found if isinstance(found, bool | Number) else bool(found)
    if isinstance(value, Traced):
        if value.type.size != 1:
            rule = "a condition requires one element"
            advice = "say which: np.any(...), np.all(...)"
            raise location.refuse(rule, str(value.type), advice)
        return condition(run.recording, value)
    if isinstance(value, list) and any(isinstance(each, Spread) for each in value):
        return True
    for name in ("__bool__", "__len__"):
        method = getattr(type(value), name, None)
        if isinstance(method, FunctionType):
            return as_condition(run, run.call(run, method, [value], {}, location), location)
    if isinstance(value, np.ndarray) and value.size != 1:
        raise location.refuse("a condition requires one element", f"{value.size}", "np.any(...)")
    return bool(value)


def negation(run: Run, value: bool | Number) -> bool | Number:
    """`not` of what `truth` gave."""
    return (not value) if isinstance(value, bool) else negated(run.recording, value)

"""What a piece of a function hands on to Python: values that nothing else shows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any, Final, NoReturn, cast

import numpy as np

from weft.array.complex_numbers import Complex
from weft.source.leaves import shown
from weft.source.run import Run
from weft.source.syntax import Location
from weft.source.values import Array, Number

_UNCHANGING: Final = (
    bool, int, float, complex, str, bytes, type(None), slice, range, np.generic, np.dtype, type,
    FunctionType, BuiltinFunctionType, ModuleType, np.ufunc,
)  # fmt: skip
"""What may be handed to Python as it is in every call."""


def handed_on(value: Any, others: Sequence[Any]) -> NoReturn:
    """Stands in pieces, at the last statement that assigns a value, for `require_own`."""
    raise AssertionError("a piece of a function is read, never run")


def require_own(run: Run, location: Location, value: Any, others: Sequence[Any]) -> None:
    """Refuses a value which Python could change or be changed by, seen by another name: a part of
    another array, a list that another name holds, an object of the program's.
    """
    held = set(map(id, _holders(others)))
    for holder in _holders(value):
        if id(holder) in held:
            rule = "a piece of a function requires values of its own to hand on to Python"
            raise location.refuse(rule, "one that another name shows")
        held.add(id(holder))
        if isinstance(holder, Array) and holder.owner:
            rule = "a piece of a function requires arrays that it made to hand on to Python"
            raise location.refuse(rule, holder.owner)
        known = isinstance(holder, (*_UNCHANGING, Array, Number, np.ndarray, list, tuple, dict))
        if not known:
            rule = "a piece of a function requires arrays, numbers, lists and dicts to hand on"
            raise location.refuse(rule, shown(holder))


def _holders(value: Any) -> Iterator[Any]:
    """Everything in a value that may be changed or show what is, and objects of other classes."""
    match value:
        case Complex():
            for part in value.parts:
                yield from _holders(part)
        case Array():
            yield value
            views = (value.part_of, *value.shown) if value.part_of else value.shown
            for view in views:
                yield from _holders(view.base)
        case list() | dict():
            yield value
            for each in value.values() if type(value) is dict else cast("list[Any]", value):
                yield from _holders(each)
        case tuple():
            for each in cast("tuple[Any, ...]", value):
                yield from _holders(each)
        case _ if not isinstance(value, (*_UNCHANGING, Number)):
            yield value
        case _:
            pass

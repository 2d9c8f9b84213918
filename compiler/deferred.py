"""Modules that are imported when something of theirs is first asked for: what a program out of the
cache, or a tensor with values, needs is there long before xDSL has defined its operators.

    if TYPE_CHECKING:
        from weft.dialects import graph
    else:
        graph = deferred("weft.dialects.graph")

This is the one way in which a file defers all that it needs of another. Importing and compiling
make millions of small objects that stay, few of them in cycles: these are looked for rarely then.
"""

from __future__ import annotations

import dataclasses
import gc
import re
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from types import CodeType
from typing import Any, Final

COLLECTION_THRESHOLDS: Final = (1_000_000, 50, 100)
"""When a process that compiles looks for cycles."""


class Deferred:
    """Stands for a module."""

    __slots__ = ("_module", "_name")

    def __init__(self, name: str):
        self._name = name

    def __getattr__(self, name: str) -> Any:
        if name == "_module":
            with fewer_collections():
                self._module = import_module(self._name)
            return self._module
        return getattr(self._module, name)


@contextmanager
def fewer_collections() -> Generator[None]:
    """Lets the interpreter look for cycles rarely, unless it does so even more rarely. What is
    imported meanwhile defines dataclasses quickly.
    """
    before = gc.get_threshold()
    gc.set_threshold(*max(before, COLLECTION_THRESHOLDS))
    try:
        with quicker_dataclasses():
            yield
    finally:
        gc.set_threshold(*before)


@contextmanager
def quicker_dataclasses() -> Generator[None]:
    """Lets methods of dataclasses be compiled once for each text, and those that compare, hash or
    show objects, or refuse changes, when one is first called: xDSL and weft define 1,200 of them.
    """
    if "exec" in dataclasses.__dict__:  # by whoever imports what is imported here, or beside it
        yield
        return
    dataclasses.__dict__["exec"] = _define_methods
    try:
        yield
    finally:
        del dataclasses.__dict__["exec"]


_LATER: Final = (
    r"(?s)def __create_fn__\(.*\):\n def (__(?:eq|hash|repr|setattr|delattr)__)\(.*\n return \1"
)


def _define_methods(text: str, names: dict[str, Any], made: dict[str, Any]) -> None:
    """`exec` for the text of a function that makes a method (several in later versions of Python)
    of what it is given by keyword.
    """
    later = re.fullmatch(_LATER, text)
    if later is None:
        exec(_compiled(text), names, made)
    else:
        made["__create_fn__"] = _deferred_method(later[1], text, names)


@cache
def _compiled(text: str) -> CodeType:
    return compile(text, "<string>", "exec", dont_inherit=True)


def _deferred_method(name: str, text: str, names: dict[str, Any]) -> Callable[..., Any]:
    """A function that makes a method, which puts what the text makes in its own place in its class
    when it is first called.
    """

    def create(**given: Any) -> Any:
        @cache
        def real() -> Any:
            made: dict[str, Any] = {}
            exec(_compiled(text), names, made)
            return made["__create_fn__"](**given)

        def method(self: Any, *arguments: Any) -> Any:
            for owner in type(self).__mro__:
                if vars(owner).get(name) is method:
                    real().__qualname__ = method.__qualname__
                    setattr(owner, name, real())
            return real()(self, *arguments)

        method.__name__ = name
        return method

    return create


def deferred(name: str) -> Any:
    """The module of that name, which is imported when something of it is first asked for."""
    return Deferred(name)

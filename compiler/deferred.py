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

import gc
from collections.abc import Generator
from contextlib import contextmanager
from importlib import import_module
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
    """Lets the interpreter look for cycles rarely, unless it does so even more rarely."""
    before = gc.get_threshold()
    gc.set_threshold(*max(before, COLLECTION_THRESHOLDS))
    try:
        yield
    finally:
        gc.set_threshold(*before)


def deferred(name: str) -> Any:
    """The module of that name, which is imported when something of it is first asked for."""
    return Deferred(name)

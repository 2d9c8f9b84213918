"""Modules that are imported when something of theirs is first asked for: what a program out of the
cache, or a tensor with values, needs is there long before xDSL has defined its operators.

    if TYPE_CHECKING:
        from weft.dialects import graph
    else:
        graph = deferred("weft.dialects.graph")

This is the one way in which a file defers all that it needs of another.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from weft.compiler.rare_collections import rare_collections


class Deferred:
    """Stands for a module."""

    __slots__ = ("_module", "_name")

    def __init__(self, name: str):
        self._name = name

    def __getattr__(self, name: str) -> Any:
        if name == "_module":
            with rare_collections():
                self._module = import_module(self._name)
            return self._module
        return getattr(self._module, name)


def deferred(name: str) -> Any:
    """The module of that name, which is imported when something of it is first asked for."""
    return Deferred(name)

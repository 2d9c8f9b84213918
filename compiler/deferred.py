"""Modules that are imported when something of theirs is first asked for: what a program out of the
cache, or a tensor with values, needs is there long before xDSL has defined its operators.

    if TYPE_CHECKING:
        from weft.dialects import graph
    else:
        graph = deferred("weft.dialects.graph")

This is the one way in which a file defers all that it needs of another. Importing and compiling
make millions of small objects that stay, few of them in cycles: these are looked for rarely then,
and not at once afterwards.
"""

from __future__ import annotations

import dataclasses
import gc
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from typing import Any, Final

COLLECTION_THRESHOLDS: Final = (1_000_000, 50, 100)
"""When a process that compiles looks for cycles."""

MOST_ASIDE: Final = 2 * COLLECTION_THRESHOLDS[0]
"""Objects among which nobody has looked for cycles: with more of them it is time."""


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
    rarely = max(before, COLLECTION_THRESHOLDS)
    gc.set_threshold(*rarely)
    try:
        with quicker_dataclasses():
            yield
    finally:
        if before != rarely:
            _ASIDE.put_aside()
        gc.set_threshold(*before)


@contextmanager
def quicker_dataclasses() -> Generator[None]:
    """Lets methods of dataclasses be compiled when one is first called: xDSL and weft define 1,200,
    most of which nobody calls. Classes that say nothing of themselves get their name for that, and
    not the parameters that only `__init__` has. Where Python compiles all methods of a class at
    once (since 3.13) it does so as ever.
    """
    create: Callable[..., Any] | None = getattr(dataclasses, _CREATE, None)
    if create is None or isinstance(create, _CreateLater):  # by who imports what is imported here
        yield
        return
    inspects = vars(dataclasses).get(_INSPECTS)
    setattr(dataclasses, _CREATE, _CreateLater(create))
    setattr(dataclasses, _INSPECTS, _NoParameters(inspects))
    try:
        yield
    finally:
        setattr(dataclasses, _CREATE, create)
        setattr(dataclasses, _INSPECTS, inspects)


_CREATE: Final = "_create_fn"
_INSPECTS: Final = "inspect"
_LATER: Final = ("__init__", "__eq__", "__hash__", "__repr__", "__setattr__", "__delattr__")


class _NoParameters:
    """In the place of `inspect`, of which dataclasses ask a text for their classes, and since 3.12
    their annotations.
    """

    def __init__(self, inspects: Any):
        self._inspects = inspects

    @staticmethod
    def signature(_: type[Any]) -> str:
        """No parameters."""
        return ""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inspects, name)


class _CreateLater:
    """What makes a method of a dataclass, by what has made it so far."""

    def __init__(self, create: Callable[..., Any]):
        self._create = create

    def __call__(self, name: str, *parts: Any, **names: Any) -> Any:
        make = partial(self._create, name, *parts, **names)
        return _deferred_method(name, make) if name in _LATER else make()


def _deferred_method(name: str, make: Callable[[], Any]) -> Callable[..., Any]:
    """A method that puts the real one in its own place in its class when it is first called."""
    made: list[Any] = []

    def method(self: Any, *arguments: Any, **named: Any) -> Any:
        if not made:
            made.append(make())
        for owner in type(self).__mro__:
            if vars(owner).get(name) is method:
                made[0].__qualname__ = method.__qualname__
                setattr(owner, name, made[0])
        return made[0](self, *arguments, **named)

    method.__name__ = name
    return method


class _Aside:
    """What has become old without a look at it."""

    def __init__(self) -> None:
        self.objects = 0

    def put_aside(self) -> None:
        """Makes all that is new old. With its usual thresholds the interpreter would look through
        it at once, which takes a twelfth of a compilation, and many a process ends before it has
        a use for that. A process that keeps objects of its own frozen, or looks for no cycles, is
        left as it is.
        """
        if not gc.isenabled() or gc.get_freeze_count():
            return
        self.objects += gc.get_count()[0]
        if self.objects > MOST_ASIDE:
            self.objects = 0
            gc.collect()
        else:
            gc.freeze()
            gc.unfreeze()


_ASIDE: Final = _Aside()


def deferred(name: str) -> Any:
    """The module of that name, which is imported when something of it is first asked for."""
    return Deferred(name)

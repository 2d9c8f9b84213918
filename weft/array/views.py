"""Which tensors show elements of which: a write reaches the array that was written through, and
all that show it, as NumPy's views do. Tensors with values and traces share it; source mode has the
undo log.

A tensor that is written to becomes another value; those that show it are read again at once, so
that reading never has to ask. A reshape may be a view or a copy in NumPy, which depends on how
memory is laid out: what the other one would hold then is unknown, and using it is refused.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

from weft.array.operators import users_line
from weft.dialects.errors import WeftError


class Link:
    """How a tensor comes from its base: it shows what an index of integers and slices names."""

    __slots__ = ("base", "how")
    certain = True

    def __init__(self, base: Any, how: Any):
        self.base, self.how = base, how

    def read(self, base: Any) -> Any:
        """What the base shows."""
        return base.part(self.how)

    def write(self, base: Any, part: Any) -> Any:
        """The base with another part."""
        return base.with_part(self.how, part)


class Permuted(Link):
    """The axes in the order `how`."""

    __slots__ = ()

    def read(self, base: Any) -> Any:
        return base.op("transpose", base, permutation=tuple(self.how))

    def write(self, base: Any, part: Any) -> Any:
        back = sorted(range(len(self.how)), key=self.how.__getitem__)
        return part.op("transpose", part, permutation=tuple(back))


class Reshaped(Link):
    """Other dims for the elements, of which NumPy is known to make a view."""

    __slots__ = ()

    def read(self, base: Any) -> Any:
        return base.shaped(self.how)

    def write(self, base: Any, part: Any) -> Any:
        return part.shaped(base.shape)


class Uncertain(Reshaped):
    """Other dims for the elements, of which NumPy may make a view or a copy."""

    __slots__ = ()
    certain = False


class Repeated(Link):
    """Elements repeated along axes, which nothing may change."""

    __slots__ = ()

    def read(self, base: Any) -> Any:
        return base.broadcast_to(self.how)

    def write(self, base: Any, part: Any) -> Any:
        rule = "an assignment requires an array whose elements are its own"
        raise WeftError(f"{users_line()}: {rule}, got one of broadcast_to (x.copy() may change)")


class Views:
    """What is known of a tensor that is a view, has views, or may not be changed."""

    __slots__ = ("fixed", "link", "lost", "own", "rows", "shown")

    def __init__(self, link: Link | None = None, fixed: str = "", rows: bool = False):
        self.link = link
        self.fixed = fixed
        """Why nothing may change it."""
        self.rows = rows
        """Whether NumPy is known to have the elements row by row, without gaps."""
        self.shown: list[weakref.ref[Any]] = []
        self.own = False
        """Whether it is a copy, though an argument has the same value."""
        self.lost = ""
        """Why its elements are unknown."""


def views_of(x: Any) -> Views:
    """The record of a tensor, made where there is none."""
    found = x.views
    if found is None:
        found = Views()
        object.__setattr__(x, "views", found)
    return found


def linked(view: Any, link: Link) -> Any:
    """The tensor, which shows its base from now on."""
    base = views_of(link.base)
    shown = base.shown
    if len(shown) >= 16 and not len(shown) & (len(shown) - 1):
        base.shown = shown = [each for each in shown if each() is not None]
    shown.append(weakref.ref(view))
    object.__setattr__(view, "views", Views(link))
    return view


def reshaped(view: Any, base: Any) -> Any:
    """The result of a reshape, which shows its base for certain where NumPy has that row by row."""
    known = base.views
    rows = known is not None and known.rows
    owns = known is None or known.link is None
    certain = rows or (owns and base.ndim <= 1)
    shape = tuple(view.shape)
    linked(view, (Reshaped if certain else Uncertain)(base, shape)).views.rows = certain
    return view


def root(x: Any) -> Any:
    """The tensor whose elements a view shows."""
    while x.views is not None and x.views.link is not None:
        x = x.views.link.base
    return x


def require_changeable(x: Any) -> None:
    """Refuses to change what the program has not made. Raises WeftError, which names the line."""
    while x is not None:
        views = x.views
        if views is not None and views.fixed:
            rule = "an assignment requires an array that the program made"
            raise WeftError(f"{users_line()}: {rule}, got {views.fixed} (change a copy: x.copy())")
        link = None if views is None else views.link
        x = None if link is None else link.base


def assign(x: Any, value: Any) -> None:
    """Gives a tensor the elements of another one of its shape and dtype, and all that show them."""
    views = x.views
    link = None if views is None else views.link
    if link is not None and link.certain:
        assign(link.base, link.write(link.base, value))
        return
    x.become(value)
    if link is not None:
        _lose(link.base, written=x)
    _refresh(x)


def _refresh(x: Any) -> None:
    """Reads again what shows a tensor that has changed."""
    for view in _live(x):
        link = view.views.link
        if link.certain:
            view.become(link.read(x))
            _refresh(view)
        else:
            _lose(view)


def _lose(x: Any, written: Any = None) -> None:
    """Forgets elements that a reshape may or may not have changed, those of a base too where
    what was written shows it.
    """
    views = views_of(x)
    if views.lost:
        return
    views.lost = f"whether the assignment of {users_line()} reaches it depends on NumPy's memory"
    x.forget_elements()
    link = views.link
    if link is not None and written is not None:
        _lose(link.base, written=x)
    for view in _live(x):
        if view is not written:
            _lose(view)


def _live(x: Any) -> Sequence[Any]:
    views = x.views
    found = [] if views is None else [each() for each in views.shown]
    return [each for each in found if each is not None]


def is_alone(x: Any) -> bool:
    """Whether it shows no other tensor, and no other one shows it."""
    views = x.views
    return views is None or (views.link is None and not _live(x))


def family(x: Any) -> list[Any]:
    """The root of a tensor, and all that show it, in that order."""
    found = [root(x)]
    for each in found:
        found += _live(each)
    return found


def lost(x: Any, name: str) -> WeftError:
    """The error of a tensor whose elements are unknown."""
    views = x.views
    reason = views.lost if views is not None and views.lost else ""
    if not reason:
        return WeftError(f"{users_line()}: a tensor that was donated is used no more, got another "
                         "use of it")  # fmt: skip
    rule = "an array that a reshape shows, or that shows one, requires that neither changes"
    return WeftError(f"{users_line()}: {rule}, got a use of it after that: {reason} "
                     "(reshape a copy: x.copy().reshape(...))")  # fmt: skip

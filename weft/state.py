"""What modules change while they compute: their state. An error puts it back, and a trace, which
has no place for it, refuses to change it.
"""

from __future__ import annotations

import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from weft.array.operators import ArrayOperators, users_line
from weft.dialects.errors import WeftError
from weft.trees import leaves_of

Change = tuple[Any, str, Any, str]
"""An object, its attribute, what that was before, and the line of a change that is traced."""

_MISSING: Final = object()


class Changes(threading.local):
    """The attributes of modules that were assigned to since the outermost call began."""

    log: list[Change] | None = None


CHANGES: Final = Changes()


def values_of(holder: object) -> dict[str, Any]:
    """The attributes of an object, by name."""
    return vars(holder)


def note(holder: Any, name: str, value: Any) -> None:
    """Has to be called before a module's attribute changes."""
    if CHANGES.log is not None:
        line = users_line() if _is_traced(value) else ""
        CHANGES.log.append((holder, name, values_of(holder).get(name, _MISSING), line))


@contextmanager
def put_back_on_error() -> Generator[list[Change]]:
    """Inside, changes are noted; an error puts back what was there before."""
    outer, log = CHANGES.log, list[Change]()
    CHANGES.log = log
    try:
        yield log
    except BaseException:
        put_back(log)
        raise
    else:
        if outer is not None:
            outer += log
    finally:
        CHANGES.log = outer


@contextmanager
def kept_while_traced() -> Generator[None]:
    """Inside, a function is traced: what modules are given of its tensors is put back. Raises
    WeftError, which names the line, where something is left there in the end.
    """
    with put_back_on_error() as log:
        yield
        for holder, name, _, line in log:
            if _is_traced(values_of(holder).get(name)):
                rule = "a trace requires modules whose state stays as it is"
                got = f"a change of {name} of {type(holder).__name__}"
                advice = "model.eval(), or model.apply_updating(state, x), which returns it"
                raise WeftError(f"{line or users_line()}: {rule}, got {got} ({advice})")


@contextmanager
def as_before(log: Sequence[Change]) -> Generator[None]:
    """Inside, what was changed is as it was before."""
    after = [(holder, name, values_of(holder).get(name, _MISSING), "") for holder, name, *_ in log]
    put_back([*log])
    try:
        yield
    finally:
        put_back(after)


def put_back(log: list[Change], start: int = 0) -> None:
    """Takes changes back, the last one first, and forgets them."""
    for holder, name, value, _ in reversed(log[start:]):
        if value is _MISSING:
            values_of(holder).pop(name, None)
        else:
            values_of(holder)[name] = value
    del log[start:]


def _is_traced(value: Any) -> bool:
    """Whether a value is a tensor that is being traced, or a tree that holds one."""
    if isinstance(value, ArrayOperators):
        return not value.has_values
    return isinstance(value, list | tuple | dict) and any(map(_is_traced, leaves_of(value)))

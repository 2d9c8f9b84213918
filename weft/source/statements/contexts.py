"""`with`: context managers that are read, classes and generators, and other tensors of a module."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from types import FunctionType
from typing import Any

import numpy as np

from weft.source.calls.calls import enter, frame_of, is_read
from weft.source.calls.generators import Managed
from weft.source.calls.modules import bound, is_bound
from weft.source.leaves import shown
from weft.source.run import Frame, Run
from weft.source.syntax import Location

Body = Callable[[Any], None]
"""Runs what stands inside, for the value behind `as`."""


def with_(run: Run, frame: Frame, node: ast.With, location: Location) -> None:
    """Runs the body within its contexts, the first outermost."""
    _within(run, frame, node.items, partial(run.execute, run, frame, node.body))


def _within(
    run: Run, frame: Frame, items: Sequence[ast.withitem], body: Callable[[], None]
) -> None:
    if not items:
        body()
        return
    first, *rest = items

    def inside(value: Any) -> None:
        if first.optional_vars is not None:
            run.store(run, frame, first.optional_vars, value)
        _within(run, frame, rest, body)

    manager = run.evaluate(run, frame, first.context_expr)
    _managed(run, manager, inside, Location(frame.code.file, first.context_expr))


def _managed(run: Run, manager: Any, body: Body, location: Location) -> None:
    if isinstance(manager, Managed):
        if is_bound(manager.function):
            bound(run, *manager.arguments, body=body, location=location, **manager.named)
        else:
            _generated(run, manager, body, location)
    elif isinstance(manager, nullcontext):
        body(getattr(manager, "enter_result", None))
    elif isinstance(manager, np.errstate | warnings.catch_warnings):
        _quiet(manager, body, location)
    else:
        _entered(run, manager, body, location)


def _quiet(manager: Any, body: Body, location: Location) -> None:
    """Within settings of warnings, of which compiled programs have none."""
    with manager as value:
        raised = set(np.geterr().values()) - {"ignore", "warn"}
        if raised or value is not None:
            rule = (
                "with requires settings under which numbers raise nothing and nothing is recorded"
            )
            got = "recorded warnings" if not raised else f"{raised.pop()!r}"
            raise location.refuse(rule, got, "weft.jit(..., trap_nan=True) looks for NaN")
        body(None)


def _entered(run: Run, manager: Any, body: Body, location: Location) -> None:
    """Within an object of a class that has `__enter__` and `__exit__`."""
    begin, end = (getattr(type(manager), name, None) for name in ("__enter__", "__exit__"))
    if not all(isinstance(each, FunctionType) and is_read(each) for each in (begin, end)):
        rule = "with requires a context manager whose source can be read"
        advice = "do what the context does around the call of the compiled function"
        raise location.refuse(rule, shown(manager), advice)
    value = run.call(run, begin, [manager], {}, location)
    try:
        body(value)
    except Exception as error:
        if not run.call(run, end, [manager, type(error), error, None], {}, location):
            raise
    else:
        run.call(run, end, [manager, None, None, None], {}, location)


def _generated(run: Run, manager: Managed, body: Body, location: Location) -> None:
    """Within a generator that yields once: its source, with the body in place of the `yield`."""
    yields: list[Any] = []
    regions = run.regions

    def resume(value: Any) -> None:
        yields.append(value)
        if len(yields) == 1 and run.regions == regions:
            body(value)

    run.captures.watch_function(manager.function)
    frame = frame_of(manager.function, manager.arguments, manager.named, location)
    frame.resume = resume
    enter(run, frame, location)
    if len(yields) != 1 or run.regions != regions:
        rule = "a context manager requires one yield that no condition on a tensor decides"
        raise location.refuse(rule, f"{len(yields)} of them")

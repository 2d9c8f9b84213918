"""`match`: patterns of values, alternatives, names and sequences of known length, as conditions."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, cast

from weft.source.expressions.conditions import as_condition
from weft.source.expressions.operations import compared
from weft.source.expressions.operators import both, either
from weft.source.run import Frame, Run
from weft.source.statements.branches import branch
from weft.source.syntax import Location
from weft.source.values import Number

Execute = Callable[[Run, Frame, Sequence[ast.stmt]], None]


def match_(run: Run, frame: Frame, node: ast.Match, location: Location, execute: Execute) -> None:
    """Runs the first case whose pattern and guard hold; where only a call knows whether they do,
    the case and the others behind it are branches.
    """
    _first(run, frame, run.evaluate(run, frame, node.subject), node.cases, execute)


def _first(
    run: Run, frame: Frame, subject: Any, cases: Sequence[ast.match_case], execute: Execute
) -> None:
    if not cases:
        return
    case, others = cases[0], partial(_first, run, frame, subject, cases[1:], execute)
    location = Location(frame.code.file, case.pattern)

    def chosen() -> None:
        _bind(run, frame, subject, case.pattern, location)
        held = True if case.guard is None else run.evaluate(run, frame, case.guard)
        _either_way(run, held, partial(execute, run, frame, case.body), others, location)

    test = _matches(run, frame, subject, case.pattern, location)
    _either_way(run, test, chosen, others, location)


def _either_way(
    run: Run, held: Any, then: Callable[[], None], others: Callable[[], None], location: Location
) -> None:
    test = as_condition(run, held, location)
    if isinstance(test, bool):
        (then if test else others)()
    else:
        branch(run, test, then, others, location)


def _matches(
    run: Run, frame: Frame, subject: Any, pattern: ast.pattern, location: Location
) -> bool | Number:
    """Whether a value is as a pattern says, as far as that is known."""
    match pattern:
        case ast.MatchValue(value=value):
            found = compared(run, ast.Eq(), subject, run.evaluate(run, frame, value), location)
            return as_condition(run, found, location)
        case ast.MatchSingleton(value=value):
            return subject is value
        case ast.MatchAs(pattern=inner):
            return True if inner is None else _matches(run, frame, subject, inner, location)
        case ast.MatchOr(patterns=patterns):
            total: bool | Number = False
            for each in patterns:
                total = either(run.recording, total, _matches(run, frame, subject, each, location))
            return total
        case ast.MatchSequence(patterns=patterns) if not _has_star(patterns):
            parts = _parts(subject)
            total = parts is not None and len(parts) == len(patterns)
            for each, part in zip(patterns, parts or (), strict=False) if total else ():
                total = both(run.recording, total, _matches(run, frame, part, each, location))
            return total
        case _:
            rule = "match requires patterns of values, names and sequences of known length"
            raise location.refuse(rule, ast.unparse(pattern), "use if and elif")


def _bind(run: Run, frame: Frame, subject: Any, pattern: ast.pattern, location: Location) -> None:
    """Gives the names of a pattern that holds their values."""
    match pattern:
        case ast.MatchAs(pattern=inner, name=name):
            if inner is not None:
                _bind(run, frame, subject, inner, location)
            if name is not None:
                run.assign(frame, name, subject, location)
        case ast.MatchSequence(patterns=patterns):
            for each, part in zip(patterns, _parts(subject) or (), strict=True):
                _bind(run, frame, part, each, location)
        case _:
            pass


def _parts(subject: Any) -> Sequence[Any] | None:
    is_sequence = isinstance(subject, list | tuple)
    return cast("Sequence[Any]", subject) if is_sequence else None


def _has_star(patterns: Sequence[ast.pattern]) -> bool:
    return any(isinstance(each, ast.MatchStar) for each in patterns)

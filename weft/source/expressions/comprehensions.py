"""Comprehensions: read element by element."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from weft.source.calls.generators import Generated, generate
from weft.source.expressions.conditions import as_condition
from weft.source.expressions.iteration import iterations_of
from weft.source.expressions.operations import static
from weft.source.run import Frame, Run
from weft.source.syntax import Code, Location, assigned


def comprehend(
    run: Run, frame: Frame, node: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp,
    take: Callable[[Frame], None],
) -> None:  # fmt: skip
    """Calls `take` for each combination of elements that the conditions let through."""
    inner = Frame(_scope(frame, node), {}, frame, frame.cells, frame.globals)

    def over(position: int) -> None:
        if position == len(node.generators):
            take(inner)
            return
        generator = node.generators[position]
        location = Location(frame.code.file, generator.iter)
        source = run.evaluate(run, inner if position else frame, generator.iter)

        def each(element: Any) -> None:
            run.count_statement(location)
            run.store(run, inner, generator.target, element)
            if all(_lets_through(run, inner, condition) for condition in generator.ifs):
                over(position + 1)

        if isinstance(source, Generated):
            generate(run, source, each, location)
            return
        iterations = iterations_of(run, source, location)
        count = iterations.count.constant
        if count is None:
            rule = "a comprehension requires to know how many elements there are"
            raise location.refuse(rule, iterations.count, "use a for statement, and append")
        for number in range(count):
            each(iterations.element(iterations.count * 0 + number))

    over(0)


def _scope(frame: Frame, node: ast.expr) -> Any:
    """The variables of a comprehension."""
    names: set[str] = set()
    for generator in getattr(node, "generators", ()):
        assigned(generator.target, names, set())
    return Code(frame.code.node, frame.code.file, frozenset(names), frozenset())


def _lets_through(run: Run, frame: Frame, node: ast.expr) -> bool:
    location = Location(frame.code.file, node)
    test = as_condition(run, run.evaluate(run, frame, node), location)
    if not isinstance(test, bool):
        rule = "a condition in a comprehension requires to be known while compiling"
        raise location.refuse(rule, "a tensor", "choose with np.where, or x[mask]")
    return test


def list_comprehension(
    run: Run, frame: Frame, node: ast.ListComp | ast.GeneratorExp, location: Location
) -> Any:
    """A list, which a generator expression is too: its elements are computed at once."""
    found: list[Any] = []
    comprehend(run, frame, node, lambda inner: found.append(run.evaluate(run, inner, node.elt)))
    return run.undo_log.make(found)


def set_comprehension(run: Run, frame: Frame, node: ast.SetComp, location: Location) -> Any:
    """A set."""
    found: list[Any] = []
    comprehend(run, frame, node, lambda inner: found.append(run.evaluate(run, inner, node.elt)))
    return run.undo_log.make({static(each, location, "an element of a set") for each in found})


def dict_comprehension(run: Run, frame: Frame, node: ast.DictComp, location: Location) -> Any:
    """A dict."""
    found: dict[Any, Any] = {}

    def take(inner: Frame) -> None:
        key = static(run.evaluate(run, inner, node.key), location, "a key")
        found[key] = run.evaluate(run, inner, node.value)

    comprehend(run, frame, node, take)
    return run.undo_log.make(found)

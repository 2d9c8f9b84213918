"""Python's own functions on values that only a call knows."""

from __future__ import annotations

import ast
import math
import sys
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from weft.array.complex_numbers import Complex
from weft.array.operators import ArrayOperators
from weft.array_api.table import BY_OBJECT
from weft.dialects.printed import escaped
from weft.source.captures import Guard
from weft.source.expressions.attributes import assign_attribute, attribute, item
from weft.source.expressions.conditions import as_condition
from weft.source.expressions.iteration import (
    Iterations,
    elements,
    enumerated,
    iterations_of,
    range_of,
    reversed_,
    zipped,
)
from weft.source.expressions.operations import operate
from weft.source.expressions.operators import both, either
from weft.source.leaves import shown
from weft.source.pieces.handed_on import handed_on, require_own
from weft.source.run import Run
from weft.source.statements.branches import choose
from weft.source.syntax import Location
from weft.source.values import Array, Number, Spread, is_dynamic, is_number, is_scalar
from weft.tracing.printing import Text
from weft.tracing.printing import print as weft_print
from weft.tracing.traced import Traced


def _len(run: Run, location: Location, value: Any) -> Any:
    iterations = iterations_of(run, value, location)
    return run.recording.number(iterations.count)


def _range(run: Run, location: Location, *ends: Any) -> Any:
    numbers = [item(run, location, each) if isinstance(each, Traced) else each for each in ends]
    return range_of(run, numbers, location)


def _abs(run: Run, location: Location, value: Any) -> Any:
    found = abs(value)
    return (
        Number(run.recording, value.python_type, found.value)
        if isinstance(value, Number)
        else found
    )


def _converted(python_type: type) -> Callable[..., Any]:
    def function(run: Run, location: Location, value: Any) -> Any:
        if python_type is bool:
            return as_condition(run, value, location)
        number = item(run, location, value)
        if number.python_type is python_type or (number.expr is not None and python_type is int):
            return number
        return Number(
            run.recording, python_type, run.recording.number_as(number, python_type).value
        )

    return function


def _round(run: Run, location: Location, value: Any, digits: int | None = None) -> Any:
    if digits is not None:
        raise location.refuse("round requires one argument beside tensors", f"{digits} digits")
    found = value.apply("round") if value.dtype.kind == "f" else value
    if isinstance(value, Number):
        return Number(run.recording, int, found.astype(np.int64).value)
    return found


def _extremum(name: str) -> Callable[..., Any]:
    node_type = ast.Lt if name == "min" else ast.Gt

    def function(run: Run, location: Location, *values: Any, key: Any = None, **named: Any) -> Any:
        if key is not None or named:
            raise location.refuse(
                f"{name} requires plain arguments beside tensors", "key or default"
            )
        listed = elements(run, values[0], location) if len(values) == 1 else list(values)
        best = listed[0]
        for each in listed[1:]:
            best = _better(run, node_type, best, each, name, location)
        return best

    return function


def _better(
    run: Run, node_type: type[ast.AST], best: Any, other: Any, name: str, location: Location
) -> Any:
    if not (isinstance(best, Traced) or isinstance(other, Traced)):
        return other if operate(run, node_type, other, best, location) else best
    python_types = [
        each.python_type if isinstance(each, Number) else type(each) for each in (best, other)
    ]
    if is_number(best) and is_number(other) and python_types[0] is python_types[1]:
        numbers: list[Any] = [best, other]
        x, y = (run.recording.number_as(each, python_types[0]) for each in numbers)
        return Number(run.recording, python_types[0], x.apply(name, y).value)
    test = as_condition(run, operate(run, node_type, other, best, location), location)
    if isinstance(test, bool):
        return other if test else best
    return choose(run, test, (lambda: other, lambda: best), location)


def _sum(run: Run, location: Location, values: Any, start: Any = 0) -> Any:
    total = start
    if isinstance(values, Array) and values.type.shape[0].constant is None:
        return operate(run, ast.Add, start, values.reduced("reduce_sum", 0, False), location)
    for each in elements(run, values, location):
        total = operate(run, ast.Add, total, each, location)
    return total


def _quantified(name: str) -> Callable[..., Any]:
    def function(run: Run, location: Location, values: Any) -> Any:
        if isinstance(values, Array):
            return as_condition(run, getattr(values, name)(), location)
        total: Any = name == "all"
        for each in elements(run, values, location):
            test = as_condition(run, each, location)
            total = (both if name == "all" else either)(run.recording, total, test)
        return total

    return function


def _enumerate(run: Run, location: Location, value: Any, start: int = 0) -> Any:
    return enumerated(run, value, start, location)


def _zip(run: Run, location: Location, *values: Any, strict: bool = False) -> Any:
    return zipped(run, values, location)


def _reversed(run: Run, location: Location, value: Any) -> Any:
    return reversed_(run, value, location)


def _map(run: Run, location: Location, function: Any, *values: Any) -> Any:
    iterations = zipped(run, values, location)
    call = lambda i: run.call(run, function, iterations.element(i), {}, location)  # noqa: E731
    return Iterations(iterations.count, call, iterations.even)


def _filter(run: Run, location: Location, function: Any, values: Any) -> Any:
    kept: list[Any] = []
    for each in elements(run, values, location):
        value = each if function is None else run.call(run, function, [each], {}, location)
        test = as_condition(run, value, location)
        if not isinstance(test, bool):
            rule = "filter requires conditions that are known while compiling"
            raise location.refuse(rule, "a tensor", "use x[mask] or np.where")
        kept += [each] * test
    return run.undo_log.make(kept)


def _list(run: Run, location: Location, values: Any = ()) -> Any:
    if isinstance(values, list) and any(isinstance(each, Spread) for each in values):
        return run.undo_log.make(list(values))
    return run.undo_log.make(elements(run, values, location))


def _tuple(run: Run, location: Location, values: Any = ()) -> Any:
    return tuple(elements(run, values, location))


def _dict(run: Run, location: Location, values: Any = (), **named: Any) -> Any:
    pairs = values.items() if isinstance(values, dict) else elements(run, values, location)
    return run.undo_log.make(dict(pairs, **named))


def _set(run: Run, location: Location, values: Any = ()) -> Any:
    found = elements(run, values, location)
    if any(isinstance(each, Traced) for each in found):
        raise location.refuse("a set requires elements that are known while compiling", "tensors")
    return run.undo_log.make(set(found))


def _sorted(
    run: Run, location: Location, values: Any, key: Any = None, reverse: bool = False
) -> Any:
    found = elements(run, values, location)
    keys = found if key is None else [run.call(run, key, [each], {}, location) for each in found]
    if any(isinstance(each, Traced) for each in keys):
        rule = "sorted requires what it compares to be known while compiling"
        raise location.refuse(rule, "tensors", "np.sort of an array")
    order = sorted(range(len(found)), key=lambda position: keys[position], reverse=reverse)
    return run.undo_log.make([found[position] for position in order])


def _isinstance(run: Run, location: Location, value: Any, expected: Any) -> bool:
    wanted = expected if isinstance(expected, tuple) else (expected,)
    if isinstance(value, Number):
        return any(
            each is value.python_type or (each is int and value.python_type is bool)
            for each in wanted
        )
    if isinstance(value, Traced):
        own = np.ndarray if value.ndim else value.dtype.type
        return any(each is ArrayOperators or issubclass(own, each) for each in wanted)
    return isinstance(value, expected)


def _divmod(run: Run, location: Location, x: Any, y: Any) -> Any:
    return tuple(operate(run, each, x, y, location) for each in (ast.FloorDiv, ast.Mod))


def _pow(run: Run, location: Location, x: Any, y: Any) -> Any:
    return operate(run, ast.Pow, x, y, location)


def _getattr(run: Run, location: Location, holder: Any, name: Any, *default: Any) -> Any:
    try:
        return attribute(run, holder, name, name, location)
    except AttributeError:
        if not default:
            raise
        _watch_attribute(run, holder, name)
        return default[0]


def _hasattr(run: Run, location: Location, holder: Any, name: Any) -> bool:
    if isinstance(holder, Number):
        return hasattr(holder.python_type, name)
    if isinstance(holder, Traced | Complex):
        return hasattr(np.ndarray if holder.ndim else holder.dtype.type, name)
    _watch_attribute(run, holder, name)
    return hasattr(holder, name)


def _watch_attribute(run: Run, holder: Any, name: Any) -> None:
    """Has calls find out whether an object of the surroundings has the attribute."""
    if not run.undo_log.is_made(holder):
        read = lambda: hasattr(holder, name)  # noqa: E731
        run.captures.watch(Guard(f"whether there is {name}", read, read()), holder)


def _setattr(run: Run, location: Location, holder: Any, name: Any, value: Any) -> None:
    assign_attribute(run, holder, name, value, location)


def _print(
    run: Run, location: Location, *values: Any, sep: str | None = None, end: str | None = None,
    flush: bool = False, file: Any = None,
) -> None:  # fmt: skip
    """Prints when the program runs, what is known while compiling too."""
    if file is not None and file is not sys.stdout:
        raise location.refuse("print requires the standard output", shown(file), "leave file out")
    for value in values:
        if isinstance(value, Iterations | Spread) or (
            isinstance(value, list) and any(isinstance(each, Spread) for each in value)
        ):
            rule = "print requires values whose form is known while compiling"
            raise location.refuse(
                rule, "a list that a loop of the graph filled", "np.stack(...) it"
            )
    between = " " if sep is None else sep
    whole = Text.joined([Text.of(value) for value in values], between)
    ended = Text.joined([whole, Text(escaped("\n" if end is None else end))])
    run.recording.print(ended.text, ended.values)
    run.note(location, "graph.print")


def _as_text(conversion: str) -> Callable[..., Any]:
    """`str` and `repr`, and `format`, which has a second argument."""

    def function(run: Run, location: Location, value: Any, spec: str = "") -> Any:
        return Text.of(value, conversion, spec)

    return function


def _of_math(name: str, result_type: type = float) -> Callable[..., Any]:
    """A function of `math`, which NumPy has by the name: a number of Python, whatever it is called
    with.
    """

    def function(run: Run, location: Location, *operands: Any) -> Any:
        wide = [item(run, location, x).astype(np.float64) if is_dynamic(x) else float(x)
                for x in operands]  # fmt: skip
        found = BY_OBJECT[getattr(np, name)](*wide)
        wanted = np.dtype(result_type)
        return Number(run.recording, result_type, found.astype(wanted).value)

    return function


def _isscalar(run: Run, location: Location, value: Any) -> bool:
    return is_scalar(value) if isinstance(value, Traced) else np.isscalar(value)


def _iterable(run: Run, location: Location, value: Any) -> bool:
    return bool(value.ndim) if isinstance(value, Traced | Complex) else np.iterable(value)


BUILTINS: Final[Mapping[Any, Callable[..., Any]]] = {
    len: _len, range: _range, abs: _abs, float: _converted(float), int: _converted(int),
    bool: _converted(bool), round: _round, min: _extremum("min"), max: _extremum("max"),
    sum: _sum, any: _quantified("any"), all: _quantified("all"), enumerate: _enumerate,
    zip: _zip, reversed: _reversed, map: _map, filter: _filter, list: _list, tuple: _tuple,
    dict: _dict, set: _set, sorted: _sorted, isinstance: _isinstance, divmod: _divmod, pow: _pow,
    str: _as_text(""), repr: _as_text("r"), format: _as_text(""),
    print: _print, weft_print: _print, handed_on: require_own, getattr: _getattr,
    hasattr: _hasattr, setattr: _setattr,
    np.isscalar: _isscalar, np.iterable: _iterable,
    **{
        getattr(math, name): _of_math(name) for name in (
            "exp", "log", "sqrt", "sin", "cos", "tan", "sinh", "cosh", "tanh", "log2", "log10",
            "log1p", "expm1", "degrees", "radians", "hypot", "fmod", "copysign", "pow", "fabs",
        )
    },
    **{
        getattr(math, f"a{name}"): _of_math(f"arc{name}") for name in (
            "sin", "cos", "tan", "sinh", "cosh", "tanh", "tan2",
        )
    },
    **{
        getattr(math, name): _of_math(name, int) for name in ("floor", "ceil", "trunc")
    },
    **{
        getattr(math, name): _of_math(name, bool) for name in ("isnan", "isinf", "isfinite")
    },
}  # fmt: skip
"""What Python's functions become, where an argument is a tensor or holds some."""

ALWAYS: Final = (
    sum, any, all, map, filter, list, tuple, dict, set, sorted, isinstance, min, max, enumerate,
    zip, reversed, print, weft_print, getattr, hasattr, setattr, handed_on,
)  # fmt: skip
"""Functions that are never Python's own, since what they go through may hold tensors."""

"""What operators, comparisons and `[]` mean: Python's own where all is known, or the graph's."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any, Final, cast

import numpy as np

from weft.array.complex_numbers import Complex
from weft.dialects.errors import WeftError
from weft.eager.tensor import Tensor
from weft.source.expressions.conditions import as_condition, negation, refused_text
from weft.source.expressions.indexing import read
from weft.source.expressions.iteration import Iterations, elements, stacked
from weft.source.expressions.operators import PLAIN, binary, either
from weft.source.leaves import same, shown
from weft.source.run import Run
from weft.source.syntax import Location
from weft.source.values import Array, Number, Spread, is_dynamic, is_number
from weft.tracing.printing import Text
from weft.tracing.traced import Traced

_DUNDERS: Final[dict[type[ast.AST], str]] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "truediv", ast.Mod: "mod",
    ast.FloorDiv: "floordiv", ast.Pow: "pow", ast.MatMult: "matmul", ast.Eq: "eq", ast.NotEq: "ne",
    ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge", ast.USub: "neg",
}  # fmt: skip


def static(value: Any, location: Location, what: str) -> Any:
    """A value that has to be known while compiling."""
    if isinstance(value, Text):
        raise refused_text(location, what)
    if isinstance(value, Traced):
        raise location.refuse(f"{what} requires to be known while compiling", shown(value))
    return value


def operate(run: Run, node_type: type[ast.AST], left: Any, right: Any, location: Location) -> Any:
    """`left <op> right`."""
    found = _overloaded(run, node_type, left, right, location)
    if found is not NotImplemented:
        return found
    if isinstance(left, Text) or isinstance(right, Text):
        raise refused_text(location, "an operator on it")
    if is_complex(left) or is_complex(right):
        return made(run, native(location, PLAIN[node_type], left, right))
    if isinstance(left, Traced) or isinstance(right, Traced):
        if isinstance(left, str) and node_type is ast.Mod:
            rule = "formatting by % requires values that are known"
            raise location.refuse(rule, "a tensor", "an f-string shows it in print")
        if any(isinstance(each, list | tuple) for each in (left, right)):
            left, right = (_as_array(run, each, location) for each in (left, right))
        for each in (left, right):
            _require_array(each, location)
        return binary(run.recording, node_type, left, right)
    return made(run, native(location, PLAIN[node_type], left, right))


def _as_array(run: Run, value: Any, location: Location) -> Any:
    if isinstance(value, list | tuple):
        return stacked(run, list(cast("Sequence[Any]", value)), location)
    return value


def is_complex(value: Any) -> bool:
    """Whether it is complex, a number or numbers; then the arrays' own operators apply."""
    return isinstance(value, complex | Complex) or getattr(
        getattr(value, "dtype", None), "kind", "") == "c"  # fmt: skip


def _require_array(value: Any, location: Location) -> None:
    if not (isinstance(value, Traced | np.ndarray | np.generic) or is_number(value)):
        raise location.refuse("an operator requires numbers or tensors", shown(value))


def made(run: Run, value: Any) -> Any:
    """What Python's own operators gave: new lists may be changed, arrays are of the graph."""
    if isinstance(value, np.ndarray | Tensor) or (isinstance(value, Complex) and value.has_values):
        return run.recording.constant(np.asarray(value))
    return run.undo_log.make(value) if type(value) in (list, dict, set) else value


def holds_dynamic(value: Any) -> bool:
    """Whether a value is one that only a call knows, or holds one."""
    if isinstance(value, Traced | Iterations | Spread | Complex):
        return True
    if isinstance(value, list | tuple):
        return any(map(holds_dynamic, cast("Sequence[Any]", value)))
    if type(value) is dict:
        return any(map(holds_dynamic, cast("dict[Any, Any]", value).values()))
    return False


def native(location: Location, function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    """Calls a function of Python; what it raises gets the place as a note. Raises SourceError where
    one that knows neither NumPy nor weft does not take what only a call knows.
    """
    try:
        return function(*arguments, **named)
    except WeftError:
        raise
    except Exception as error:
        module = (getattr(function, "__module__", None) or "weft").split(".")[0]
        foreign = isinstance(error, TypeError) and module not in ("weft", "numpy")
        if foreign and any(map(holds_dynamic, (*arguments, *named.values()))):
            name = f"{module}.{getattr(function, '__name__', function)}"
            rule = f"{name} requires values that are known while compiling"
            raise location.refuse(rule, str(error)) from error
        if not getattr(error, "__notes__", None):
            error.add_note(f"{location}\n{location.shown()}")
        raise


def _overloaded(
    run: Run, node_type: type[ast.AST], left: Any, right: Any, location: Location
) -> Any:
    """What methods of the user's classes give."""
    name = _DUNDERS.get(node_type)
    if name is None:
        return NotImplemented
    for holder, other, prefix in ((left, right, "__"), (right, left, "__r")):
        method = getattr(type(holder), f"{prefix}{name}__", None)
        if isinstance(method, FunctionType) and not isinstance(holder, Traced):
            found = run.call(run, method, [holder, other], {}, location)
            if found is not NotImplemented:
                return found
    return NotImplemented


def compared(run: Run, op: ast.cmpop, left: Any, right: Any, location: Location) -> Any:
    """`left <op> right` of a comparison."""
    match op:
        case ast.Is() | ast.IsNot():
            if isinstance(left, Number) and isinstance(right, bool):
                found: Any = (
                    operate(run, ast.Eq, left, right, location)
                    if left.python_type is bool
                    else False
                )
            else:
                found = left is right
            return negation(run, found) if isinstance(op, ast.IsNot) else found
        case ast.In() | ast.NotIn():
            if isinstance(left, Text) or isinstance(right, Text):
                raise refused_text(location, "an operator on it")
            found = _contains(run, left, right, location)
            return negation(run, found) if isinstance(op, ast.NotIn) else found
        case _:
            return operate(run, type(op), left, right, location)


def _contains(run: Run, value: Any, holder: Any, location: Location) -> Any:
    """`value in holder`."""
    method = getattr(type(holder), "__contains__", None)
    if isinstance(method, FunctionType) and not isinstance(holder, Traced):
        return as_condition(run, run.call(run, method, [holder, value], {}, location), location)
    if isinstance(holder, Traced):
        found = operate(run, ast.Eq, holder, value, location)
        axes = list(range(found.ndim))
        total = found.astype(np.int64).reduced("reduce_max", axes, False)
        return as_condition(run, total, location)
    if isinstance(holder, dict | set | str | range):
        static(value, location, "what a dict, set, string or range is searched for")
        return native(location, lambda: value in cast("Any", holder))
    total: Any = False
    for each in elements(run, holder, location):
        if same(each, value):
            return True
        test = operate(run, ast.Eq, each, value, location)
        total = either(run.recording, total, as_condition(run, test, location))
    return total


def element(run: Run, holder: Any, index: Any, location: Location) -> Any:
    """`holder[index]`."""
    if isinstance(holder, Traced):
        parts = index if isinstance(index, tuple) else (index,)
        return read(run.recording, holder, cast("tuple[Any, ...]", parts))
    if isinstance(holder, Iterations):
        return holder.element(run.recording.bound(index, "index"))
    method = getattr(type(holder), "__getitem__", None)
    if isinstance(method, FunctionType):
        return run.call(run, method, [holder, index], {}, location)
    if isinstance(holder, list) and any(isinstance(each, Spread) for each in holder):
        values = cast("list[Any]", holder)
        return element(run, stacked(run, values, location), index, location)
    dynamic = index
    if isinstance(index, slice):
        ends = cast("slice[Any, Any, Any]", index)
        dynamic = next((e for e in (ends.start, ends.stop, ends.step) if is_dynamic(e)), None)
    if is_dynamic(dynamic):
        return _chosen(run, holder, index, location)
    return run.captures.adopt(made(run, native(location, lambda: holder[index])), "an element")


def _chosen(run: Run, holder: Any, index: Any, location: Location) -> Any:
    """An element of a list or tuple by a number that only a call knows."""
    if isinstance(holder, np.ndarray):
        return element(run, run.captures.adopt(holder, "an array"), index, location)
    values = list(cast("Sequence[Any]", holder)) if isinstance(holder, list | tuple) else []
    if not values or not all(
        isinstance(each, Traced | np.generic | int | float) for each in values
    ):
        rule = "an index that only a call knows requires a tensor, or a list of them"
        raise location.refuse(rule, shown(holder), "loop with a condition, or stack the elements")
    found = element(run, stacked(run, values, location), index, location)
    python_types = {each.python_type if isinstance(each, Number) else type(each) for each in values}
    if isinstance(found, Array) and not found.ndim and python_types <= {bool, int, float}:
        number_type = float if float in python_types else int if int in python_types else bool
        return Number(run.recording, number_type, found.value)
    return found

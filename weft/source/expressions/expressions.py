"""Expressions: what is known is computed at once, the rest becomes operators of the graph."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any, Final

from weft.source.calls.functions import Function
from weft.source.calls.generators import Generated, collected, generate
from weft.source.expressions.attributes import attribute
from weft.source.expressions.comprehensions import (
    dict_comprehension,
    list_comprehension,
    set_comprehension,
)
from weft.source.expressions.conditions import as_condition, negation
from weft.source.expressions.iteration import elements
from weft.source.expressions.operations import compared, element, native, operate, static
from weft.source.expressions.operators import PLAIN, both, either, unary
from weft.source.leaves import shown
from weft.source.run import Frame, Run
from weft.source.statements.branches import acts, choose, trial
from weft.source.syntax import Location, code_at
from weft.source.values import Number
from weft.tracing.printing import Text, traced_in
from weft.tracing.traced import Traced


def evaluate(run: Run, frame: Frame, node: ast.expr) -> Any:
    """The value of an expression. Raises SourceError for what source mode lacks."""
    read_ = _EXPRESSIONS.get(type(node))
    location = Location(frame.code.file, node)
    if read_ is None:
        rule = "source mode requires expressions that it knows"
        raise location.refuse(rule, type(node).__name__, _ALTERNATIVES.get(type(node), ""))
    with run.at(location):
        return read_(run, frame, node, location)


_ALTERNATIVES: Final[dict[type[ast.expr], str]] = {
    ast.Await: "call a plain function",
}


def _constant(run: Run, frame: Frame, node: ast.Constant, location: Location) -> Any:
    return node.value


def _name(run: Run, frame: Frame, node: ast.Name, location: Location) -> Any:
    return run.lookup(frame, node.id, location)


def _sequence(run: Run, frame: Frame, nodes: Sequence[ast.expr]) -> list[Any]:
    values: list[Any] = []
    for node in nodes:
        if isinstance(node, ast.Starred):
            starred = evaluate(run, frame, node.value)
            values += elements(run, starred, Location(frame.code.file, node))
        else:
            values.append(evaluate(run, frame, node))
    return values


def _tuple(run: Run, frame: Frame, node: ast.Tuple, location: Location) -> Any:
    return tuple(_sequence(run, frame, node.elts))


def _list(run: Run, frame: Frame, node: ast.List, location: Location) -> Any:
    return run.undo_log.make(_sequence(run, frame, node.elts))


def _set(run: Run, frame: Frame, node: ast.Set, location: Location) -> Any:
    return run.undo_log.make(set(_sequence(run, frame, node.elts)))


def _dict(run: Run, frame: Frame, node: ast.Dict, location: Location) -> Any:
    found: dict[Any, Any] = {}
    for key, value in zip(node.keys, node.values, strict=True):
        if key is None:
            found.update(evaluate(run, frame, value))
        else:
            name = static(evaluate(run, frame, key), Location(frame.code.file, key), "a key")
            found[name] = evaluate(run, frame, value)
    return run.undo_log.make(found)


def _binary(run: Run, frame: Frame, node: ast.BinOp, location: Location) -> Any:
    left, right = evaluate(run, frame, node.left), evaluate(run, frame, node.right)
    return operate(run, type(node.op), left, right, location)


def _unary(run: Run, frame: Frame, node: ast.UnaryOp, location: Location) -> Any:
    value = evaluate(run, frame, node.operand)
    if isinstance(node.op, ast.Not):
        return negation(run, as_condition(run, value, location))
    if isinstance(value, Traced):
        return unary(run.recording, type(node.op), value)
    method = getattr(type(value), "__neg__", None)
    if isinstance(node.op, ast.USub) and isinstance(method, FunctionType):
        return run.call(run, method, [value], {}, location)
    return native(location, PLAIN[type(node.op)], value)


def _boolean(run: Run, frame: Frame, node: ast.BoolOp, location: Location) -> Any:
    """`and` and `or`: operands behind one that decides are not read."""
    return _decide(run, frame, node.values, isinstance(node.op, ast.And), location)


def _decide(
    run: Run, frame: Frame, nodes: Sequence[ast.expr], all_: bool, location: Location
) -> Any:
    first = evaluate(run, frame, nodes[0])
    if len(nodes) == 1:
        return first
    test = as_condition(run, first, Location(frame.code.file, nodes[0]))
    if isinstance(test, bool):
        return _decide(run, frame, nodes[1:], all_, location) if test is all_ else first
    rest = lambda: _decide(run, frame, nodes[1:], all_, location)  # noqa: E731
    if _is_bool(first):
        plain = _plain(run, rest)
        if plain is not None:
            return (both if all_ else either)(
                run.recording, test, as_condition(run, rest(), location)
            )
    branches = (rest, lambda: first) if all_ else (lambda: first, rest)
    return choose(run, test, branches, location)


def _is_bool(value: Any) -> bool:
    python_type = value.python_type if isinstance(value, Number) else type(value)
    return python_type is bool or (isinstance(value, Traced) and value.dtype.kind == "b")


def _plain(run: Run, read_: Callable[[], Any]) -> bool | None:
    """Whether an operand is a bool and changes nothing, so that it may always be computed."""
    found: list[bool] = []
    way = trial(run, lambda: found.append(_is_bool(read_())))
    return True if found[0] and not way.changes and not acts(way) else None


def _compare(run: Run, frame: Frame, node: ast.Compare, location: Location) -> Any:
    left = evaluate(run, frame, node.left)
    total: Any = True
    for number, (op, operand) in enumerate(zip(node.ops, node.comparators, strict=True)):
        right = evaluate(run, frame, operand)
        found = compared(run, op, left, right, location)
        if len(node.ops) == 1:
            return found
        test = as_condition(run, found, location)
        if test is False:
            return found
        total = both(run.recording, total, test) if number else test
        left = right
    return total


def _either(run: Run, frame: Frame, node: ast.IfExp, location: Location) -> Any:
    at = Location(frame.code.file, node.test)
    test = as_condition(run, evaluate(run, frame, node.test), at)
    if isinstance(test, bool):
        run.note(at, f"{test}, known while compiling")
        return evaluate(run, frame, node.body if test else node.orelse)
    branches = [lambda each=each: evaluate(run, frame, each) for each in (node.body, node.orelse)]
    return choose(run, test, branches, at)


def _subscript(run: Run, frame: Frame, node: ast.Subscript, location: Location) -> Any:
    holder = evaluate(run, frame, node.value)
    return element(run, holder, evaluate(run, frame, node.slice), location)


def _slice(run: Run, frame: Frame, node: ast.Slice, location: Location) -> Any:
    ends = (node.lower, node.upper, node.step)
    return slice(*(None if end is None else evaluate(run, frame, end) for end in ends))


def _attribute(run: Run, frame: Frame, node: ast.Attribute, location: Location) -> Any:
    holder = evaluate(run, frame, node.value)
    return attribute(run, holder, node.attr, ast.unparse(node), location)


def _call(run: Run, frame: Frame, node: ast.Call, location: Location) -> Any:
    function = evaluate(run, frame, node.func)
    if function is super and not node.args:
        return _super(frame, location)
    arguments = _sequence(run, frame, node.args)
    named: dict[str, Any] = {}
    for keyword in node.keywords:
        value = evaluate(run, frame, keyword.value)
        if keyword.arg is None:
            named.update(value)
        else:
            named[keyword.arg] = value
    arguments = collected(run, function, arguments, location)
    return run.call(run, function, arguments, named, location)


def _super(frame: Frame, location: Location) -> Any:
    """`super()` with what Python fills in."""
    cell = frame.cells.get("__class__")
    if cell is None or not frame.code.node.args.args:
        raise location.refuse("super() requires a method", "a function outside of a class")
    return super(cell.cell_contents, frame.names[frame.code.node.args.args[0].arg])


def _lambda(run: Run, frame: Frame, node: ast.Lambda, location: Location) -> Any:
    return Function.of(run, frame, code_at(node, frame.code.file))


def _text(run: Run, frame: Frame, node: ast.JoinedStr, location: Location) -> Any:
    parts = [evaluate(run, frame, part) for part in node.values]
    if any(isinstance(part, Text) for part in parts):
        return Text.joined([Text.of(part) for part in parts])
    return "".join(parts)


def _formatted(run: Run, frame: Frame, node: ast.FormattedValue, location: Location) -> Any:
    value = evaluate(run, frame, node.value)
    spec = "" if node.format_spec is None else evaluate(run, frame, node.format_spec)
    if next(traced_in(value), None) is not None:
        return _dynamic_text(value, spec, "r" if node.conversion == 114 else "", location)
    convert: Callable[[Any], Any] = {115: str, 114: repr, 97: ascii}.get(
        node.conversion, lambda each: each
    )
    return native(location, format, convert(value), spec)


def _dynamic_text(value: Any, spec: Any, conversion: str, location: Location) -> Text:
    """A value that only a call knows, formatted."""
    rule = "a format of what only a call knows requires to be known itself"
    if not isinstance(spec, str) or "{" in spec or "}" in spec:
        raise location.refuse(rule, "another one")
    if spec and not (isinstance(value, Traced) and not value.ndim):
        raise location.refuse("a format requires one number", shown(value), "print it without one")
    return Text.of(value, conversion, spec)


def _named(run: Run, frame: Frame, node: ast.NamedExpr, location: Location) -> Any:
    value = evaluate(run, frame, node.value)
    run.store(run, frame, node.target, value)
    return value


def _yield(run: Run, frame: Frame, node: ast.Yield, location: Location) -> None:
    """What a generator does in the middle: the body of the loop over it, or of its `with`."""
    assert frame.resume is not None, "a generator runs for something"
    frame.resume(None if node.value is None else evaluate(run, frame, node.value))


def _yield_from(run: Run, frame: Frame, node: ast.YieldFrom, location: Location) -> Any:
    assert frame.resume is not None, "a generator runs for something"
    value = evaluate(run, frame, node.value)
    if isinstance(value, Generated):
        return generate(run, value, frame.resume, location)
    for each in elements(run, value, location):
        frame.resume(each)
    return None


_EXPRESSIONS: Final[dict[type[ast.expr], Callable[[Run, Frame, Any, Location], Any]]] = {
    ast.Constant: _constant,
    ast.Name: _name,
    ast.Tuple: _tuple,
    ast.List: _list,
    ast.Set: _set,
    ast.Dict: _dict,
    ast.BinOp: _binary,
    ast.UnaryOp: _unary,
    ast.BoolOp: _boolean,
    ast.Compare: _compare,
    ast.IfExp: _either,
    ast.Subscript: _subscript,
    ast.Slice: _slice,
    ast.Attribute: _attribute,
    ast.Call: _call,
    ast.Lambda: _lambda,
    ast.ListComp: list_comprehension,
    ast.SetComp: set_comprehension,
    ast.DictComp: dict_comprehension,
    ast.GeneratorExp: list_comprehension,
    ast.JoinedStr: _text,
    ast.FormattedValue: _formatted,
    ast.NamedExpr: _named,
    ast.Yield: _yield,
    ast.YieldFrom: _yield_from,
}

"""Statements: they are run while the program is read; those that hang on tensors become regions."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from typing import Any, Final, cast

from weft.array.complex_numbers import Complex
from weft.dialects.errors import SourceError, WeftError
from weft.source.calls.functions import Function
from weft.source.expressions.attributes import assign_attribute
from weft.source.expressions.conditions import as_condition
from weft.source.expressions.indexing import read
from weft.source.expressions.iteration import elements
from weft.source.expressions.operations import element
from weft.source.leaves import shown
from weft.source.run import RETURNED, VALUE, Frame, Run
from weft.source.statements.branches import branch
from weft.source.statements.changes import in_place, require_made, set_element
from weft.source.statements.contexts import with_
from weft.source.statements.loops import for_, stopped_here, unless_stopped, while_
from weft.source.statements.matching import match_
from weft.source.statements.requirements import end_with_error, require
from weft.source.syntax import Location, code_at
from weft.source.undo_log import MISSING, DictSlot, ListSlot, NameSlot
from weft.tracing.traced import Traced


def execute(run: Run, frame: Frame, statements: Sequence[ast.stmt]) -> None:
    """Runs statements one after the other, until one of them leaves the block.

    Where only a call knows whether one has, the rest becomes a region.
    """
    for position, node in enumerate(statements):
        statement(run, frame, node)
        stopped = stopped_here(run, frame)
        if stopped is True:
            return
        rest = statements[position + 1 :]
        if stopped is not False and rest:
            location = Location(frame.code.file, node)
            behind = partial(execute, run, frame, rest)
            unless_stopped(run, frame, stopped, behind, location)
            return


def statement(run: Run, frame: Frame, node: ast.stmt) -> None:
    """Runs a statement. Raises SourceError for what source mode lacks."""
    location = Location(frame.code.file, node)
    run.count_statement(location)
    function = _STATEMENTS.get(type(node))
    if function is None:
        rule = "source mode requires statements that it knows"
        raise location.refuse(rule, type(node).__name__.lower(), _ALTERNATIVES.get(type(node), ""))
    try:
        with run.at(location):
            function(run, frame, node, location)
    except SourceError as error:
        if run.depth == 1 and error.statement is None:
            error.statement = node.lineno, node.col_offset
        raise


_ALTERNATIVES: Final[dict[type[ast.stmt], str]] = {
    ast.ClassDef: "define the class outside of the compiled function",
    ast.Global: "return the value instead",
    ast.AsyncFor: "use a plain for",
}


def _expression(run: Run, frame: Frame, node: ast.Expr, location: Location) -> None:
    run.evaluate(run, frame, node.value)


def _assign(run: Run, frame: Frame, node: ast.Assign, location: Location) -> None:
    value = run.evaluate(run, frame, node.value)
    for target in node.targets:
        store(run, frame, target, value)


def _annotated(run: Run, frame: Frame, node: ast.AnnAssign, location: Location) -> None:
    if node.value is not None:
        store(run, frame, node.target, run.evaluate(run, frame, node.value))


def store(run: Run, frame: Frame, target: ast.expr, value: Any) -> None:
    """Assigns a value to a target."""
    location = Location(frame.code.file, target)
    match target:
        case ast.Name(id=name):
            run.assign(frame, name, value, location)
        case ast.Tuple(elts=targets) | ast.List(elts=targets):
            _unpack(run, frame, targets, elements(run, value, location), location)
        case ast.Starred(value=inner):
            store(run, frame, inner, run.undo_log.make(list(value)))
        case ast.Attribute(value=inner, attr=name):
            holder = run.evaluate(run, frame, inner)
            assign_attribute(run, holder, name, value, location)
        case ast.Subscript(value=inner, slice=index):
            holder = run.evaluate(run, frame, inner)
            with run.at(location):
                set_element(run, holder, run.evaluate(run, frame, index), value, location)
        case _:
            raise location.refuse("an assignment requires a target", type(target).__name__)


def _unpack(
    run: Run, frame: Frame, targets: Sequence[ast.expr], values: list[Any], location: Location
) -> None:
    starred = [n for n, target in enumerate(targets) if isinstance(target, ast.Starred)]
    if starred:
        (at,) = starred
        behind = len(targets) - at - 1
        if len(values) < at + behind:
            raise location.refuse(f"unpacking requires {at + behind} values or more", len(values))
        middle = values[at : len(values) - behind]
        values = [*values[:at], middle, *values[len(values) - behind :]]
    if len(values) != len(targets):
        raise location.refuse(f"unpacking requires {len(targets)} values", len(values))
    for target, value in zip(targets, values, strict=True):
        store(run, frame, target, value)


def _augmented(run: Run, frame: Frame, node: ast.AugAssign, location: Location) -> None:
    node_type = type(node.op)
    target = node.target
    if isinstance(target, ast.Name):
        before = run.lookup(frame, target.id, Location(frame.code.file, target))
        after = in_place(run, node_type, before, run.evaluate(run, frame, node.value), location)
        store(run, frame, target, after)
        return
    holder = run.evaluate(run, frame, target.value)
    if isinstance(target, ast.Attribute):
        before = getattr(holder, target.attr)
        after = in_place(run, node_type, before, run.evaluate(run, frame, node.value), location)
        assign_attribute(run, holder, target.attr, after, location)
        return
    index = run.evaluate(run, frame, target.slice)
    if isinstance(holder, Traced):
        parts = cast("tuple[Any, ...]", index if isinstance(index, tuple) else (index,))
        before = run.recording.array(read(run.recording, holder, parts).value)
    elif isinstance(holder, Complex):
        before = element(run, holder, index, location).duplicate()
    else:
        before = element(run, holder, index, location)
    after = in_place(run, node_type, before, run.evaluate(run, frame, node.value), location)
    set_element(run, holder, index, after, location)


def _if(run: Run, frame: Frame, node: ast.If, location: Location) -> None:
    at = Location(frame.code.file, node.test)
    test = as_condition(run, run.evaluate(run, frame, node.test), at)
    if isinstance(test, bool):
        run.note(location, f"{test}, known while compiling")
        execute(run, frame, node.body if test else node.orelse)
        return
    branches = [partial(execute, run, frame, body) for body in (node.body, node.orelse)]
    branch(run, test, branches[0], branches[1], at)


def _match(run: Run, frame: Frame, node: ast.Match, location: Location) -> None:
    match_(run, frame, node, location, execute)


def _for(run: Run, frame: Frame, node: ast.For, location: Location) -> None:
    for_(run, frame, node)


def _while(run: Run, frame: Frame, node: ast.While, location: Location) -> None:
    while_(run, frame, node)


def _return(run: Run, frame: Frame, node: ast.Return, location: Location) -> None:
    value = None if node.value is None else run.evaluate(run, frame, node.value)
    run.undo_log.assign(NameSlot(frame.names, VALUE), value)
    run.undo_log.assign(NameSlot(frame.names, RETURNED), True)


def _break(run: Run, frame: Frame, node: ast.Break, location: Location) -> None:
    run.undo_log.assign(NameSlot(frame.names, f"<broken {frame.loops[-1]}>"), True)


def _continue(run: Run, frame: Frame, node: ast.Continue, location: Location) -> None:
    run.undo_log.assign(NameSlot(frame.names, f"<continued {frame.loops[-1]}>"), True)


def _pass(run: Run, frame: Frame, node: ast.stmt, location: Location) -> None:
    pass


def _function(run: Run, frame: Frame, node: ast.FunctionDef, location: Location) -> None:
    function: Any = Function.of(run, frame, code_at(node, frame.code.file))
    for decorator in reversed(node.decorator_list):
        function = run.call(run, run.evaluate(run, frame, decorator), [function], {}, location)
    run.assign(frame, node.name, function, location)


def _raise(run: Run, frame: Frame, node: ast.Raise, location: Location) -> None:
    if run.regions:
        if run.tries or node.exc is None:
            rule = "raise within try requires a condition that is known while compiling"
            advice = "return a value that says so, or check the arguments before the call"
            raise location.refuse(rule, "one that hangs on a tensor", advice)
        end_with_error(run, ast.unparse(node.exc), location)
    error = RuntimeError("no exception to raise again")
    if node.exc is not None:
        error = run.evaluate(run, frame, node.exc)
    error = error() if isinstance(error, type) else error
    error.add_note(f"{location}\n{location.shown()}")
    raise error


def _assert(run: Run, frame: Frame, node: ast.Assert, location: Location) -> None:
    at = Location(frame.code.file, node.test)
    test = as_condition(run, run.evaluate(run, frame, node.test), at)
    if test is True:
        return
    message = "" if node.msg is None else run.evaluate(run, frame, node.msg)
    if run.regions or test is not False:
        require(run, test, ast.unparse(node.test), message, location)
        return
    error = AssertionError(message)
    error.add_note(f"{location}\n{location.shown()}")
    raise error


def _delete(run: Run, frame: Frame, node: ast.Delete, location: Location) -> None:
    for target in node.targets:
        if isinstance(target, ast.Name):
            run.assign(frame, target.id, MISSING, location)
        elif isinstance(target, ast.Subscript):
            holder = run.evaluate(run, frame, target.value)
            index = run.evaluate(run, frame, target.slice)
            if type(holder) not in (list, dict) or isinstance(index, Traced):
                raise location.refuse(
                    "del requires a list or dict and a known index", shown(holder)
                )
            require_made(run, holder, location)
            run.undo_log.note(ListSlot(holder) if type(holder) is list else DictSlot(holder))
            del holder[index]
        else:
            raise location.refuse("del requires a name or an element", type(target).__name__)


def _import(run: Run, frame: Frame, node: ast.Import, location: Location) -> None:
    for alias in node.names:
        module = import_module(alias.name)
        name = alias.asname or alias.name.split(".")[0]
        run.assign(frame, name, module if alias.asname else import_module(name), location)


def _import_from(run: Run, frame: Frame, node: ast.ImportFrom, location: Location) -> None:
    if node.level:
        raise location.refuse("an import inside a function requires a full name", "a relative one")
    module = import_module(node.module or "")
    for alias in node.names:
        run.assign(frame, alias.asname or alias.name, getattr(module, alias.name), location)


def _try(run: Run, frame: Frame, node: ast.Try, location: Location) -> None:
    run.tries += 1
    try:
        execute(run, frame, node.body)
    except WeftError:
        raise
    except Exception as error:
        _handle(run, frame, node, error)
    else:
        if stopped_here(run, frame) is False:
            execute(run, frame, node.orelse)
    finally:
        run.tries -= 1
        execute(run, frame, node.finalbody)


def _handle(run: Run, frame: Frame, node: ast.Try, error: Exception) -> None:
    for handler in node.handlers:
        location = Location(frame.code.file, handler)
        error_types = Exception if handler.type is None else run.evaluate(run, frame, handler.type)
        if isinstance(error, error_types):
            if handler.name is not None:
                run.assign(frame, handler.name, error, location)
            run.note(location, f"taken while compiling: {type(error).__name__}")
            execute(run, frame, handler.body)
            return
    raise error


_STATEMENTS: Final[dict[type[ast.stmt], Callable[[Run, Frame, Any, Location], None]]] = {
    ast.Expr: _expression,
    ast.Assign: _assign,
    ast.AnnAssign: _annotated,
    ast.AugAssign: _augmented,
    ast.If: _if,
    ast.Match: _match,
    ast.For: _for,
    ast.While: _while,
    ast.Return: _return,
    ast.Break: _break,
    ast.Continue: _continue,
    ast.Pass: _pass,
    ast.Nonlocal: _pass,
    ast.FunctionDef: _function,
    ast.Raise: _raise,
    ast.Assert: _assert,
    ast.Delete: _delete,
    ast.Import: _import,
    ast.ImportFrom: _import_from,
    ast.Try: _try,
    ast.With: with_,
}

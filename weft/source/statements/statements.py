"""Statements: they are run while the program is read; those that hang on tensors become regions."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from typing import Any, Final, cast

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
from weft.source.statements.requirements import require
from weft.source.syntax import Place, code_at
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
            place = Place(frame.code.file, node)
            behind = partial(execute, run, frame, rest)
            unless_stopped(run, frame, stopped, behind, place)
            return


def statement(run: Run, frame: Frame, node: ast.stmt) -> None:
    """Runs a statement. Raises SourceError for what source mode lacks."""
    place = Place(frame.code.file, node)
    run.count_statement(place)
    function = _STATEMENTS.get(type(node))
    if function is None:
        rule = "source mode requires statements that it knows"
        raise place.refuse(rule, type(node).__name__.lower(), _ALTERNATIVES.get(type(node), ""))
    with run.at(place):
        function(run, frame, node, place)


_ALTERNATIVES: Final[dict[type[ast.stmt], str]] = {
    ast.ClassDef: "define the class outside of the compiled function",
    ast.Global: "return the value instead",
    ast.Match: "use if and elif",
    ast.AsyncFor: "use a plain for",
}


def _expression(run: Run, frame: Frame, node: ast.Expr, place: Place) -> None:
    run.evaluate(run, frame, node.value)


def _assign(run: Run, frame: Frame, node: ast.Assign, place: Place) -> None:
    value = run.evaluate(run, frame, node.value)
    for target in node.targets:
        store(run, frame, target, value)


def _annotated(run: Run, frame: Frame, node: ast.AnnAssign, place: Place) -> None:
    if node.value is not None:
        store(run, frame, node.target, run.evaluate(run, frame, node.value))


def store(run: Run, frame: Frame, target: ast.expr, value: Any) -> None:
    """Assigns a value to a target."""
    place = Place(frame.code.file, target)
    match target:
        case ast.Name(id=name):
            run.assign(frame, name, value, place)
        case ast.Tuple(elts=targets) | ast.List(elts=targets):
            _unpack(run, frame, targets, elements(run, value, place), place)
        case ast.Starred(value=inner):
            store(run, frame, inner, run.undo_log.make(list(value)))
        case ast.Attribute(value=inner, attr=name):
            holder = run.evaluate(run, frame, inner)
            assign_attribute(run, holder, name, value, place)
        case ast.Subscript(value=inner, slice=index):
            holder = run.evaluate(run, frame, inner)
            with run.at(place):
                set_element(run, holder, run.evaluate(run, frame, index), value, place)
        case _:
            raise place.refuse("an assignment requires a target", type(target).__name__)


def _unpack(
    run: Run, frame: Frame, targets: Sequence[ast.expr], values: list[Any], place: Place
) -> None:
    starred = [n for n, target in enumerate(targets) if isinstance(target, ast.Starred)]
    if starred:
        (at,) = starred
        behind = len(targets) - at - 1
        if len(values) < at + behind:
            raise place.refuse(f"unpacking requires {at + behind} values or more", len(values))
        middle = values[at : len(values) - behind]
        values = [*values[:at], middle, *values[len(values) - behind :]]
    if len(values) != len(targets):
        raise place.refuse(f"unpacking requires {len(targets)} values", len(values))
    for target, value in zip(targets, values, strict=True):
        store(run, frame, target, value)


def _augmented(run: Run, frame: Frame, node: ast.AugAssign, place: Place) -> None:
    node_type = type(node.op)
    target = node.target
    if isinstance(target, ast.Name):
        before = run.lookup(frame, target.id, Place(frame.code.file, target))
        after = in_place(run, node_type, before, run.evaluate(run, frame, node.value), place)
        store(run, frame, target, after)
        return
    holder = run.evaluate(run, frame, target.value)
    if isinstance(target, ast.Attribute):
        before = getattr(holder, target.attr)
        after = in_place(run, node_type, before, run.evaluate(run, frame, node.value), place)
        assign_attribute(run, holder, target.attr, after, place)
        return
    index = run.evaluate(run, frame, target.slice)
    if isinstance(holder, Traced):
        parts = cast("tuple[Any, ...]", index if isinstance(index, tuple) else (index,))
        before = run.recording.array(read(run.recording, holder, parts).value)
    else:
        before = element(run, holder, index, place)
    after = in_place(run, node_type, before, run.evaluate(run, frame, node.value), place)
    set_element(run, holder, index, after, place)


def _if(run: Run, frame: Frame, node: ast.If, place: Place) -> None:
    at = Place(frame.code.file, node.test)
    test = as_condition(run, run.evaluate(run, frame, node.test), at)
    if isinstance(test, bool):
        run.note(place, f"{test}, known while compiling")
        execute(run, frame, node.body if test else node.orelse)
        return
    branches = [partial(execute, run, frame, body) for body in (node.body, node.orelse)]
    branch(run, test, branches[0], branches[1], at)


def _for(run: Run, frame: Frame, node: ast.For, place: Place) -> None:
    for_(run, frame, node)


def _while(run: Run, frame: Frame, node: ast.While, place: Place) -> None:
    while_(run, frame, node)


def _return(run: Run, frame: Frame, node: ast.Return, place: Place) -> None:
    value = None if node.value is None else run.evaluate(run, frame, node.value)
    run.undo_log.assign(NameSlot(frame.names, VALUE), value)
    run.undo_log.assign(NameSlot(frame.names, RETURNED), True)


def _break(run: Run, frame: Frame, node: ast.Break, place: Place) -> None:
    run.undo_log.assign(NameSlot(frame.names, f"<broken {frame.loops[-1]}>"), True)


def _continue(run: Run, frame: Frame, node: ast.Continue, place: Place) -> None:
    run.undo_log.assign(NameSlot(frame.names, f"<continued {frame.loops[-1]}>"), True)


def _pass(run: Run, frame: Frame, node: ast.stmt, place: Place) -> None:
    pass


def _function(run: Run, frame: Frame, node: ast.FunctionDef, place: Place) -> None:
    function: Any = Function.of(run, frame, code_at(node, frame.code.file))
    for decorator in reversed(node.decorator_list):
        function = run.call(run, run.evaluate(run, frame, decorator), [function], {}, place)
    run.assign(frame, node.name, function, place)


def _raise(run: Run, frame: Frame, node: ast.Raise, place: Place) -> None:
    if run.regions:
        rule = "raise requires a condition that is known while compiling"
        advice = "return a value that says so, or check the arguments before the call"
        raise place.refuse(rule, "one that hangs on a tensor", advice)
    error = RuntimeError("no exception to raise again")
    if node.exc is not None:
        error = run.evaluate(run, frame, node.exc)
    error = error() if isinstance(error, type) else error
    error.add_note(f"{place}\n{place.shown()}")
    raise error


def _assert(run: Run, frame: Frame, node: ast.Assert, place: Place) -> None:
    at = Place(frame.code.file, node.test)
    test = as_condition(run, run.evaluate(run, frame, node.test), at)
    if test is True:
        return
    message = "" if node.msg is None else run.evaluate(run, frame, node.msg)
    if run.regions or test is not False:
        require(run, test, ast.unparse(node.test), message, place)
        return
    error = AssertionError(message)
    error.add_note(f"{place}\n{place.shown()}")
    raise error


def _delete(run: Run, frame: Frame, node: ast.Delete, place: Place) -> None:
    for target in node.targets:
        if isinstance(target, ast.Name):
            run.assign(frame, target.id, MISSING, place)
        elif isinstance(target, ast.Subscript):
            holder = run.evaluate(run, frame, target.value)
            index = run.evaluate(run, frame, target.slice)
            if type(holder) not in (list, dict) or isinstance(index, Traced):
                raise place.refuse("del requires a list or dict and a known index", shown(holder))
            require_made(run, holder, place)
            run.undo_log.note(ListSlot(holder) if type(holder) is list else DictSlot(holder))
            del holder[index]
        else:
            raise place.refuse("del requires a name or an element", type(target).__name__)


def _import(run: Run, frame: Frame, node: ast.Import, place: Place) -> None:
    for alias in node.names:
        module = import_module(alias.name)
        name = alias.asname or alias.name.split(".")[0]
        run.assign(frame, name, module if alias.asname else import_module(name), place)


def _import_from(run: Run, frame: Frame, node: ast.ImportFrom, place: Place) -> None:
    if node.level:
        raise place.refuse("an import inside a function requires a full name", "a relative one")
    module = import_module(node.module or "")
    for alias in node.names:
        run.assign(frame, alias.asname or alias.name, getattr(module, alias.name), place)


def _try(run: Run, frame: Frame, node: ast.Try, place: Place) -> None:
    try:
        execute(run, frame, node.body)
    except SourceError:
        raise
    except WeftError:
        raise
    except Exception as error:
        _handle(run, frame, node, error)
    else:
        if stopped_here(run, frame) is False:
            execute(run, frame, node.orelse)
    finally:
        execute(run, frame, node.finalbody)


def _handle(run: Run, frame: Frame, node: ast.Try, error: Exception) -> None:
    for handler in node.handlers:
        place = Place(frame.code.file, handler)
        error_types = Exception if handler.type is None else run.evaluate(run, frame, handler.type)
        if isinstance(error, error_types):
            if handler.name is not None:
                run.assign(frame, handler.name, error, place)
            run.note(place, f"taken while compiling: {type(error).__name__}")
            execute(run, frame, handler.body)
            return
    raise error


_STATEMENTS: Final[dict[type[ast.stmt], Callable[[Run, Frame, Any, Place], None]]] = {
    ast.Expr: _expression,
    ast.Assign: _assign,
    ast.AnnAssign: _annotated,
    ast.AugAssign: _augmented,
    ast.If: _if,
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

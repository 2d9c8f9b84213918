"""A function and the types of its arguments -> a module with the function `main`."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from types import FunctionType, MethodType
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region, SSAValue

from weft.array.complex_numbers import Complex
from weft.array.interleaved import from_interleaved
from weft.array.operators import RUNNING, users_line
from weft.dialects.graph import EffectOp
from weft.dialects.graph.core.types import type_of
from weft.source.calls.calls import call
from weft.source.calls.generators import Generated
from weft.source.captures import Captures
from weft.source.expressions.expressions import evaluate
from weft.source.expressions.indexing import read
from weft.source.leaves import is_leaf, leaf_type_of, value_as
from weft.source.program import Kept, Program, Result, Static, Written
from weft.source.recording import SourceRecording, forget_undone
from weft.source.run import MOST_CALLS, Run
from weft.source.state import changed, put_back, unchanged
from weft.source.statements.changes import set_element
from weft.source.statements.statements import execute, store
from weft.source.syntax import Location, code_of
from weft.source.values import Array, Number, Spread
from weft.state import kept_while_traced
from weft.tracing.printing import Text
from weft.tracing.spec import Spec, names_of
from weft.tracing.traced import Traced
from weft.trees import KNOWN, flatten_exactly, unflatten

STACK = 20_000
"""Python's own calls within each other: a few dozen for each of the program."""


class SourceGraph(Program, frozen=True):
    """A function as a graph, with its constants, and what is to be known to call it."""

    module: ModuleOp
    recording: SourceRecording


def read_function(
    function: Callable[..., Any],
    arguments: Sequence[Any],
    named: Mapping[str, Any],
    *,
    frozen: bool = False,
    writes: bool = False,
    max_recursion: int | None = None,
) -> SourceGraph:
    """The graph of a function whose arguments are Python values, with a `Spec` for each tensor
    among them. With `frozen`, arrays of its surroundings are constants; with `writes`, it may
    change its arguments. The program ends with RecursionError behind `max_recursion` calls.

    Raises SourceError, which shows the line, for what source mode lacks.
    """
    recording = SourceRecording(index=read)
    captures = Captures(recording, recording.block, frozen)
    run = Run(recording, captures, evaluate, execute, call, store)
    run.max_recursion = MOST_CALLS if max_recursion is None else max_recursion
    recording.make = run.undo_log.make
    recording.assign = lambda x, index, value: set_element(run, x, index, value, run.location)
    recording.line = lambda: str(run.location)
    recording.read = lambda called, args, given: call(run, called, args, given, run.location)
    location = _start(function)
    given, forms = flatten_exactly((list(arguments), dict(named)), KNOWN)
    names = _argument_names(function, arguments, named)
    values = [
        leaf.argument(recording, name) if isinstance(leaf, Spec) else leaf
        for leaf, name in zip(given, names, strict=True)
    ]
    arguments_ = [each for each in values if isinstance(each, Array | Complex)]
    if writes:
        for number, each in enumerate(arguments_):
            if isinstance(each, Array) and each.ndim:
                each.own("")
                run.changeable[id(each)] = number
    entered, entered_by_name = unflatten(forms, values)
    recording.enclosing = lambda: unchanged(run)
    with put_back(run), _interpreting(run), run.at(location), kept_while_traced():
        returned = call(run, function, entered, entered_by_name, location)
        return _finished(run, function, returned, arguments_, location)


def _start(function: Any) -> Location:
    """The place that errors show which belong to no statement."""
    inner = function.__func__ if isinstance(function, MethodType) else function
    if isinstance(inner, FunctionType) and not (inner.__module__ or "").startswith("weft."):
        code = code_of(inner)
        return Location(code.file, code.node)
    file, _, line = users_line().rpartition(":")
    return Location(file, ast.Pass(lineno=int(line)))


@contextmanager
def _interpreting(run: Run) -> Generator[None]:
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, STACK))
    token = RUNNING.set(lambda: str(run.location))
    try:
        yield
    finally:
        RUNNING.reset(token)
        sys.setrecursionlimit(limit)


def _argument_names(function: Any, arguments: Sequence[Any], named: Mapping[str, Any]) -> list[str]:
    """A name for each leaf of the arguments."""
    names: list[str] = []
    parameters = names_of(function, len(arguments))
    for parameter, value in [*zip(parameters, arguments, strict=True), *named.items()]:
        leaves, _ = flatten_exactly(value, KNOWN)
        several = len(leaves) > 1
        names += [f"{parameter}_{n}" if several else parameter for n in range(len(leaves))]
    return names


def _finished(
    run: Run, function: Any, returned: Any, arguments: Sequence[Any], location: Location
) -> SourceGraph:
    recording = run.recording
    leaves, form = flatten_exactly(_unspread(run, returned, location), (*KNOWN, Complex))
    outputs: list[SSAValue] = []
    results: list[Static | Result] = []
    for leaf in leaves:
        if isinstance(leaf, Complex):
            results.append(Result(len(outputs), from_interleaved))
            outputs.append(leaf.pairs.value)
        elif isinstance(leaf, Traced):
            results.append(
                Result(len(outputs), leaf.python_type if isinstance(leaf, Number) else None)
            )
            outputs.append(value_as(recording, leaf, leaf_type_of(leaf)))
        elif isinstance(leaf, np.ndarray) and is_leaf(leaf):
            results.append(Result(len(outputs), None))
            outputs.append(recording.constant(leaf).value)  # pyright: ignore
        elif isinstance(leaf, Generated):
            raise location.refuse("results require values", leaf, "list(...) of it?")
        else:
            results.append(Static(leaf))
    states: list[Kept] = []
    for state, now in changed(run):
        states.append(Kept(state.holder, state.name, len(outputs)))
        outputs.append(value_as(recording, now, leaf_type_of(now)))
    written: list[Written] = []
    for number, line in run.changed_arguments.items():
        written.append(Written(number, len(outputs), line))
        outputs.append(arguments[number].value)
    if not outputs and (not run.captures.frozen or _acts(recording.block)):
        outputs.append(recording.scalar(bool, True))  # a compiled program has one at least
    forget_undone(recording.block)
    module = _module(run, function, outputs)
    return SourceGraph(
        tuple(run.captures.captured),
        tuple(run.captures.guards.values()),
        form,
        tuple(results),
        tuple(f"{file}:{line}: {what}" for file, line, what in sorted(run.notes)),
        tuple(states),
        run.captures.keys,
        tuple(written),
        module,
        recording,
    )


def _acts(block: Block) -> bool:
    return any(isinstance(op, EffectOp) for op in block.walk())


def _unspread(run: Run, value: Any, location: Location) -> Any:
    """Lists that loops of the graph filled cannot be handed out."""
    leaves, _ = flatten_exactly(value)
    if any(isinstance(leaf, Spread) for leaf in leaves):
        rule = "a result requires a form that is known while compiling"
        got = "a list that a loop of the graph filled"
        raise location.refuse(rule, got, "return np.stack(...) of it")
    for leaf in leaves:
        if isinstance(leaf, Text):
            rule = "a result requires tensors, numbers or what is known while compiling"
            raise location.refuse(rule, "a text of what only a call knows", "print it")
        if isinstance(leaf, Array) and leaf.stale:
            rule = "a part of an array requires that the array stays as it is"
            raise location.refuse(rule, "a result that was changed since", "return a copy of it")
    return value


def _module(run: Run, function: Any, outputs: Sequence[SSAValue]) -> ModuleOp:
    recording = run.recording
    block = recording.block
    block.add_op(ReturnOp(*outputs))
    types = [type_of(each) for each in block.args], [type_of(each) for each in outputs]
    main = FuncOp("main", types, Region(block))
    names = ["y"] if len(outputs) == 1 else [f"y{position}" for position in range(len(outputs))]
    inputs = _distinct([each.name_hint or "x" for each in block.args])
    main.attributes["input_names"] = ArrayAttr([StringAttr(name) for name in inputs])
    main.attributes["output_names"] = ArrayAttr([StringAttr(name) for name in names])
    title = getattr(function, "__name__", "source").strip("<>")
    main.attributes["model_name"] = StringAttr(title)
    return ModuleOp([main])


def _distinct(names: Sequence[str]) -> list[str]:
    found: list[str] = []
    for name in names:
        again = sum(each == name or each.startswith(f"{name}__") for each in found)
        found.append(f"{name}__{again}" if again else name)
    return found

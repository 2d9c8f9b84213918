"""`trace`: a Python function is run once on tensors without values, and compiled."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Region

from compiler.machine.executable import Executable
from dialects.errors import WeftError
from dialects.graph.dtypes import element_type
from dialects.graph.types import TensorType, tensor
from weft.operators import users_line
from weft.traced import Dim, Recording, Traced
from weft.trees import Structure, flatten, unflatten


@dataclass(frozen=True)
class Spec:
    """An input's dtype and dims: numbers, or names of sizes that each call brings along."""

    dtype: str
    shape: tuple[Dim, ...] = ()

    @property
    def type(self) -> TensorType:
        """The tensor type."""
        return tensor(self.shape, element_type(np.dtype(self.dtype)))


@dataclass(frozen=True)
class Trace:
    """A recorded function: a module with the function `main`, its constants, and the trees of what
    it takes (by the names of parameters) and gives.
    """

    recording: Recording
    module: ModuleOp
    inputs: Structure
    outputs: Structure


def record(function: Callable[..., Any], *examples: Any) -> Trace:
    """The graph of what the function does with inputs like the examples: arrays, or a Spec each.

    Raises WeftError, which names the line, for what a trace cannot hold.
    """
    recording = Recording()
    leaves, structure = flatten(dict(zip(_names(function, len(examples)), examples, strict=True)))
    names = [name for name, _ in leaves]
    arguments = [recording.argument(_spec(example).type, name) for name, example in leaves]
    returned = function(*unflatten(structure, iter(arguments)).values())
    found, shape = flatten(returned)
    values = [
        each if isinstance(each, Traced) else recording.constant(np.asarray(each))
        for _, each in found
    ]
    recording.block.add_op(ReturnOp(*(each.value for each in values)))
    kinds = [each.type for each in recording.block.args], [each.type for each in values]
    main = FuncOp("main", kinds, Region(recording.block))
    outputs = _output_names([name for name, _ in found])
    main.attributes["input_names"] = ArrayAttr([StringAttr(name) for name in names])
    main.attributes["output_names"] = ArrayAttr([StringAttr(name) for name in outputs])
    main.attributes["model_name"] = StringAttr(getattr(function, "__name__", "traced"))
    return Trace(recording, ModuleOp([main]), structure, shape)


def _output_names(paths: Sequence[str]) -> list[str]:
    """Names of results by their paths in what was returned: those in a tuple are `y0`, `y1`, ..."""
    if len(paths) == 1 and (not paths[0] or paths[0].isdecimal()):
        return ["y"]
    return [f"y{path}" if path[:1].isdecimal() else path for path in paths]


def trace(
    function: Callable[..., Any],
    *examples: Any,
    threads: int | None = None,
    target: str = "native",
    strict_fp: bool = False,
    naive: bool = False,
    prefix: str | None = None,
) -> Executable:
    """Compiles what a function does with inputs like the examples: arrays, or `weft.Spec` with
    names for sizes that vary.

    The function is run once, on tensors without values; loops and conditions of Python are run then
    and are not in the result. The options are those of `weft.compile`. Raises WeftError, which
    names the line, for conditions on tensors and for operands that do not fit.
    """
    from compiler.pipeline import compile_module
    from weft.compilation import options_of

    name = prefix or getattr(function, "__name__", "traced").strip("<>")
    options = options_of(b"", target, name, strict_fp=strict_fp, naive=naive)
    recorded = record(function, *examples)
    return compile_module(recorded.module, recorded.recording.weights, options).executable(threads)


def value_and_grad(
    function: Callable[..., Any], argnums: int | Sequence[int] = 0
) -> Callable[..., tuple[Any, Any]]:
    """A function that gives the value of `function`, one float, and its gradient in an argument, or
    a tuple of gradients for several. An argument may be a tree of tensors; so is its gradient.

    On tensors with values, or arrays, it computes at once; while a function is traced it becomes a
    part of the graph. Either may be differentiated again. Raises UnsupportedError that lists
    operators without a derivative.
    """
    several = not isinstance(argnums, int)
    positions = tuple(argnums) if not isinstance(argnums, int) else (argnums,)

    def differentiated(*arguments: Any) -> tuple[Any, Any]:
        leaves, structure = flatten(tuple(arguments[position] for position in positions))

        def of_leaves(*leaves: Any) -> Any:
            given = list(arguments)
            for position, tree in zip(positions, unflatten(structure, iter(leaves)), strict=True):
                given[position] = tree
            return function(*given)

        chosen = [leaf for _, leaf in leaves]
        differentiate = _traced if any(isinstance(each, Traced) for each in chosen) else _eager
        value, found = differentiate(of_leaves, chosen)
        gradients = unflatten(structure, iter(found))
        return value, gradients if several else gradients[0]

    return differentiated


def _eager(function: Callable[..., Any], chosen: Sequence[Any]) -> tuple[Any, Sequence[Any]]:
    """The value and the gradients in all arguments, computed at once."""
    from weft.eager.derivatives import value_and_gradients

    return value_and_gradients(function, chosen)


def _traced(function: Callable[..., Any], chosen: Sequence[Any]) -> tuple[Any, Sequence[Any]]:
    """The value and the gradients in all arguments, as parts of a graph."""
    from compiler.graph.cotangents import cotangents

    first = next(each for each in chosen if isinstance(each, Traced))
    inputs = [first.lifted(each) for each in chosen]
    value = function(*inputs)
    if not isinstance(value, Traced) or value.type.size != 1:
        raise WeftError(f"{users_line()}: a gradient requires one float, got {value}")
    b = value.recording.builder()
    found = cotangents(
        b, [value.value], [b.filled(1.0, value.value)], [each.value for each in inputs]
    )
    return value, [Traced(value.recording, each) for each in found]


def grad(function: Callable[..., Any], argnums: int | Sequence[int] = 0) -> Callable[..., Any]:
    """A function that gives the gradient alone; see value_and_grad."""
    both = value_and_grad(function, argnums)
    return lambda *arguments: both(*arguments)[1]


def _spec(example: Any) -> Spec:
    if isinstance(example, Spec):
        return example
    array = np.asarray(example)
    return Spec(array.dtype.name, array.shape)


def _names(function: Callable[..., Any], count: int) -> list[str]:
    """The parameters' names, where the function has so many by position."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    names = [each.name for each in parameters if each.kind is not each.VAR_POSITIONAL]
    return names[:count] if len(names) >= count else [f"x{n}" for n in range(count)]

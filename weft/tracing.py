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
from weft.traced import Dim, Recording, Traced, listed, users_line


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
    """A recorded function: a module with the function `main`, and its constants."""

    recording: Recording
    module: ModuleOp


def record(function: Callable[..., Any], *examples: Any) -> Trace:
    """The graph of what the function does with inputs like the examples: arrays, or a Spec each.

    Raises WeftError, which names the line, for what a trace cannot hold.
    """
    recording = Recording()
    names = _names(function, len(examples))
    arguments = [
        recording.argument(_spec(example).type, name)
        for name, example in zip(names, examples, strict=True)
    ]
    returned = function(*arguments)
    values = [
        each if isinstance(each, Traced) else recording.constant(np.asarray(each))
        for each in listed(returned)
    ]
    recording.block.add_op(ReturnOp(*(each.value for each in values)))
    kinds = [each.type for each in recording.block.args], [each.type for each in values]
    main = FuncOp("main", kinds, Region(recording.block))
    outputs = ["y"] if len(values) == 1 else [f"y{position}" for position in range(len(values))]
    main.attributes["input_names"] = ArrayAttr([StringAttr(name) for name in names])
    main.attributes["output_names"] = ArrayAttr([StringAttr(name) for name in outputs])
    main.attributes["model_name"] = StringAttr(getattr(function, "__name__", "traced"))
    return Trace(recording, ModuleOp([main]))


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
    a tuple of gradients for several.

    It is for functions that are traced, and may be differentiated again. Raises UnsupportedError
    that lists operators without a derivative.
    """
    several = not isinstance(argnums, int)
    positions = tuple(argnums) if not isinstance(argnums, int) else (argnums,)

    def differentiated(*arguments: Any) -> tuple[Any, Any]:
        from compiler.graph.differentiate import cotangents

        chosen = [arguments[position] for position in positions]
        if not all(isinstance(each, Traced) for each in chosen):
            raise WeftError(f"{users_line()}: a gradient requires arguments that are being traced")
        value = function(*arguments)
        if not isinstance(value, Traced) or value.type.size != 1:
            raise WeftError(f"{users_line()}: a gradient requires one float, got {value}")
        b = value.recording.builder()
        found = cotangents(
            b, [value.value], [b.filled(1.0, value.value)], [each.value for each in chosen]
        )
        gradients = tuple(Traced(value.recording, each) for each in found)
        return value, gradients if several else gradients[0]

    return differentiated


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

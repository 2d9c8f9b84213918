"""`trace`: a Python function is run once on tensors without values, and compiled."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, Unpack, cast

import numpy as np
from msgspec import Struct
from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Region

from weft.array.complex_numbers import part_dtype, separated
from weft.compiler.driver.options import Changes, FunctionChanges, Options
from weft.compiler.frontend.onnx.from_onnx import ImportedModel, Source
from weft.compiler.machine.bindings.names import c_identifier
from weft.compiler.machine.python.executable import Executable
from weft.dialects.errors import OptionError
from weft.dialects.graph.core.types import TensorType
from weft.eager.tensor import Tensor, array_of
from weft.probing.watching import build_watchable
from weft.state import kept_while_traced
from weft.tracing.traced import Dim, Recording, Traced, declared
from weft.trees import Structure, flatten, unflatten


class Spec(Struct, frozen=True):
    """An input's dtype and dims: numbers, or names of sizes that each call brings along."""

    dtype: str
    shape: tuple[Dim, ...] = ()

    @property
    def is_complex(self) -> bool:
        """Whether it is of complex numbers, which are pairs of reals along a last axis."""
        return np.dtype(self.dtype).kind == "c"

    @property
    def type(self) -> TensorType:
        """The tensor type. Raises OptionError for names that the text of a graph does not have."""
        if self.is_complex:
            return declared(part_dtype(np.dtype(self.dtype)).name, (*self.shape, 2))
        return declared(self.dtype, self.shape)

    def argument(self, recording: Recording, name: str) -> Any:
        """A further input of a graph, as the program sees it."""
        found = recording.argument(self.type, name)
        return separated(found) if self.is_complex else found


class Trace(Struct, frozen=True):
    """A recorded function: a module with the function `main`, its constants, and the trees of what
    it takes (by the names of parameters) and gives.
    """

    recording: Recording
    module: ModuleOp
    inputs: Structure
    outputs: Structure

    def imported(self, name: str) -> ImportedModel:
        """The graph as front ends give it, under a name."""
        main = self.module.ops.first
        assert main is not None, "a trace has the function `main`"
        listed = (main.attributes[key] for key in ("input_names", "output_names"))
        names = [tuple(each.data for each in cast("ArrayAttr[StringAttr]", key)) for key in listed]
        return ImportedModel(self.module, self.recording.weights, name, names[0], names[1])


def record(function: Callable[..., Any], *examples: Any) -> Trace:
    """The graph of what the function does with inputs like the examples: arrays, or a Spec each.

    Raises WeftError, which names the line, for what a trace cannot hold.
    """
    recording = Recording()
    leaves, structure = flatten(dict(zip(names_of(function, len(examples)), examples, strict=True)))
    names = [name for name, _ in leaves]
    arguments = [recording.argument(_spec(example).type, name) for name, example in leaves]
    with kept_while_traced():
        returned = function(*unflatten(structure, iter(arguments)).values())
    found, shape = flatten(returned)
    del returned
    recording.end_promoted(recording.block, [each for _, each in found])
    values = [
        each if isinstance(each, Traced) else recording.constant(np.asarray(each))
        for _, each in found
    ]
    recording.block.add_op(ReturnOp(*(each.value for each in values)))
    types = [each.type for each in recording.block.args], [each.type for each in values]
    main = FuncOp("main", types, Region(recording.block))
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
    options: Options | None = None,
    threads: int | None = None,
    trap_nan: bool = False,
    **changes: Unpack[Changes],
) -> Executable:
    """Compiles what a function does with inputs like the examples: arrays, or `weft.Spec` with
    names for sizes that vary.

    The function is run once, on tensors without values; loops and conditions of Python are run then
    and are not in the result. The options are those of `weft.compile`. Raises WeftError, which
    names the line, for conditions on tensors and for operands that do not fit.
    """
    from weft.compiler.driver.pipeline import compile_model
    from weft.probing.inside import build_trapped

    chosen = options_for(function, "traced", options, changes)
    imported = record(function, *examples).imported(chosen.prefix)

    def build(source: Source | ImportedModel, options: Options) -> Executable:
        return compile_model(source, options).executable(threads)

    return (
        build_trapped(imported, chosen, (), build)
        if trap_nan
        else build_watchable(imported, chosen, build)
    )


def options_for(
    function: Callable[..., Any], name: str, options: Options | None, changes: FunctionChanges
) -> Options:
    """The options, with changes, for a function: its name is the prefix where they have none, or
    the name that is given where it has none itself. Raises OptionError for what only models have.
    """
    own = c_identifier(getattr(function, "__name__", name).strip("<>"))
    chosen = (options or Options()).changed(**changes).named(own)
    if chosen.gradients:
        got = ", ".join(chosen.gradients)
        raise OptionError(f"gradients require a model, or weft.grad for a function, got {got}")
    if chosen.buckets.sizes or chosen.values:
        rule = "buckets and values require a model, or weft.compile of a function"
        raise OptionError(f"{rule}, got {chosen.prefix}")
    return chosen


def _spec(example: Any) -> Spec:
    if isinstance(example, Spec):
        return example
    array = array_of(example) if isinstance(example, Tensor) else np.asarray(example)
    return Spec(array.dtype.name, array.shape)


def names_of(function: Callable[..., Any], count: int) -> list[str]:
    """The parameters' names, where the function has so many by position."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    names = [each.name for each in parameters if each.kind is not each.VAR_POSITIONAL]
    return names[:count] if len(names) >= count else [f"x{n}" for n in range(count)]

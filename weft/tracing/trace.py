"""`trace`: a Python function is run once on tensors without values, and compiled."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, Final, Unpack, cast

import numpy as np
from msgspec import Struct
from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Region

from weft.array.complex_numbers import Complex, separated
from weft.array.interleaved import from_interleaved, interleaved, part_dtype
from weft.array.operators import ArrayOperators, users_line
from weft.compiler.driver.options import Changes, FunctionChanges, Options
from weft.compiler.frontend.onnx.from_onnx import ImportedModel, Source
from weft.compiler.machine.bindings.names import c_identifier
from weft.compiler.machine.python.executable import Executable
from weft.dialects.errors import InputError, OptionError
from weft.dialects.graph.core.types import TensorType
from weft.eager.tensor import Tensor, array_of, tensor_of
from weft.probing.watching import build_watchable
from weft.state import kept_while_traced
from weft.tracing.traced import Dim, Recording, Traced, declared
from weft.trees import LEAF, Structure, described, flatten, parts_of, unflatten


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
    are_complex: tuple[bool, ...]
    """Which outputs are pairs that stand for complex numbers."""
    has_complex: bool
    """Whether there are such inputs or outputs."""

    def imported(self, name: str) -> ImportedModel:
        """The graph as front ends give it, under a name."""
        main = self.module.ops.first
        assert main is not None, "a trace has the function `main`"
        listed = (main.attributes[key] for key in ("input_names", "output_names"))
        names = [tuple(each.data for each in cast("ArrayAttr[StringAttr]", key)) for key in listed]
        return ImportedModel(self.module, self.recording.weights, name, names[0], names[1])


def record(function: Callable[..., Any], *examples: Any, whole: bool = False) -> Trace:
    """The graph of what the function does with inputs like the examples: arrays, or a Spec each.
    Complex arrays are two inputs and outputs each; `whole` they are one, of pairs.

    Raises WeftError, which names the line, for what a trace cannot hold.
    """
    recording = Recording()
    given = dict(zip(names_of(function, len(examples)), examples, strict=True))
    leaves, structure = flatten(given, whole=whole)
    names = [name for name, _ in leaves]
    specs = [spec_of(example) for _, example in leaves]
    arguments = [spec.argument(recording, name) for name, spec in zip(names, specs, strict=True)]
    with kept_while_traced():
        returned = function(*unflatten(structure, iter(arguments)).values())
    found, shape = flatten(returned, whole=whole)
    del returned
    are_complex = tuple(parts_of(each) is not None for _, each in found)
    recording.end_promoted(recording.block, [each for _, each in found])
    values = [
        each if isinstance(each, Traced) else recording.constant(np.asarray(each))
        for each in (_in_pairs(each) for _, each in found)
    ]
    recording.block.add_op(ReturnOp(*(each.value for each in values)))
    types = [each.type for each in recording.block.args], [each.type for each in values]
    main = FuncOp("main", types, Region(recording.block))
    outputs = _output_names([name for name, _ in found])
    main.attributes["input_names"] = ArrayAttr([StringAttr(name) for name in names])
    main.attributes["output_names"] = ArrayAttr([StringAttr(name) for name in outputs])
    main.attributes["model_name"] = StringAttr(getattr(function, "__name__", "traced"))
    has_complex = any(are_complex) or any(spec.is_complex for spec in specs)
    return Trace(recording, ModuleOp([main]), structure, shape, are_complex, has_complex)


def _in_pairs(leaf: Any) -> Any:
    """Complex numbers as an artifact gives them; any other leaf as it is."""
    if isinstance(leaf, Complex) and not leaf.has_values:
        return leaf.pairs
    return leaf if parts_of(leaf) is None else interleaved(leaf)


class TracedFunction:
    """What `trace` gives: it is called as the function is, with trees like the examples, and
    returns what the function does; tensors for tensors, arrays for arrays. All else is that of the
    `weft.Executable` in `executable`, which takes and gives the leaves.
    """

    def __init__(self, executable: Executable, trace: Trace, imported: Callable[[], ImportedModel]):
        self.executable, self.imported = executable, imported
        self._inputs, self._outputs = trace.inputs, trace.outputs
        self._names = [name for name, _ in trace.inputs.below]
        self._are_complex = trace.are_complex
        takes_arrays = all(below == LEAF for _, below in trace.inputs.below)
        self._fast_path = takes_arrays and trace.outputs == LEAF and not trace.has_complex
        """Whether arrays alone go in and one comes out."""

    def __getattr__(self, name: str) -> Any:
        if name == "executable":
            raise AttributeError(name)
        return getattr(self.executable, name)

    def __repr__(self) -> str:
        return repr(self.executable)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """What the function returns. Raises InputError for trees unlike those of the examples."""
        if self._fast_path and not named and _ARRAYS.issuperset(map(type, arguments)):
            (found,) = self.executable(*arguments)
            return found if found.ndim else found[()]
        given = {**dict(zip(self._names, arguments, strict=False)), **named}
        ordered = {name: given[name] for name in self._names if name in given}
        leaves, structure = flatten(ordered, whole=True)
        if structure != self._inputs or len(arguments) + len(named) != len(ordered):
            rule = "a traced function requires arguments like its examples"
            raise InputError(f"{users_line()}: {rule}, {described(self._inputs)}, got others")
        tensors = any(isinstance(leaf, ArrayOperators) for _, leaf in leaves)
        outputs = self.executable(*(_given(leaf) for _, leaf in leaves))
        found = [from_interleaved(each) if is_complex else each
                 for each, is_complex in zip(outputs, self._are_complex, strict=True)]  # fmt: skip
        kept = [tensor_of(each) if tensors else each if each.ndim else each[()] for each in found]
        return unflatten(self._outputs, kept)


_ARRAYS: Final = frozenset((np.ndarray,))


def _given(leaf: Any) -> Any:
    """A leaf as the artifact takes it."""
    return leaf if parts_of(leaf) is None else interleaved(leaf)


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
) -> TracedFunction:
    """Compiles what a function does with inputs like the examples: arrays and trees of them, or
    `weft.Spec` with names for sizes that vary. The result is called as the function is.

    The function is run once, on tensors without values; loops and conditions of Python are run then
    and are not in the result. The options are those of `weft.compile`. Raises WeftError, which
    names the line, for conditions on tensors and for operands that do not fit.
    """
    from weft.compiler.driver.pipeline import compile_model
    from weft.probing.inside import build_trapped

    chosen = options_for(function, "traced", options, changes)
    recorded = record(function, *examples, whole=True)
    imported = recorded.imported(chosen.prefix)

    def build(source: Source | ImportedModel, options: Options) -> Executable:
        return compile_model(source, options).executable(threads)

    compiled = (
        build_trapped(imported, chosen, (), build)
        if trap_nan
        else build_watchable(imported, chosen, build)
    )
    leaves, structure = flatten(examples, whole=True)
    specs = unflatten(structure, [spec_of(leaf) for _, leaf in leaves])
    again = lambda: record(function, *specs, whole=True).imported(chosen.prefix)  # noqa: E731
    return TracedFunction(compiled, recorded, again)


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


def spec_of(example: Any) -> Spec:
    """What an example says of its input."""
    if isinstance(example, Spec):
        return example
    array: Any = array_of(example) if isinstance(example, Tensor) else example
    array = array if isinstance(array, Complex) else np.asarray(array)
    return Spec(array.dtype.name, array.shape)


def names_of(function: Callable[..., Any], count: int) -> list[str]:
    """The parameters' names, where the function has so many by position."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    names = [each.name for each in parameters if each.kind is not each.VAR_POSITIONAL]
    return names[:count] if len(names) >= count else [f"x{n}" for n in range(count)]

"""A Python function is run once on tensors without values, which makes a graph of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
from msgspec import Struct
from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Region

from weft.array.complex_numbers import Complex
from weft.array.interleaved import interleaved
from weft.compiler.frontend.imported import ImportedModel
from weft.state import kept_while_traced
from weft.tracing.spec import names_of, spec_of
from weft.tracing.traced import Recording, Traced
from weft.trees import Structure, flatten, parts_of, unflatten


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


def _output_names(paths: Sequence[str]) -> list[str]:
    """Names of results by their paths in what was returned: those in a tuple are `y0`, `y1`, ..."""
    if len(paths) == 1 and (not paths[0] or paths[0].isdecimal()):
        return ["y"]
    return [f"y{path}" if path[:1].isdecimal() else path for path in paths]

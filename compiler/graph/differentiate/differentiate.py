"""graph -> graph: a function gets the gradients of its results, as results of its own.

What comes out is an ordinary graph, which may be differentiated again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint
from xdsl.utils.hints import isa

from weft.compiler.graph.differentiate.cotangents import cotangents
from weft.dialects.errors import ModelError, OptionError
from weft.dialects.graph import OPS_BY_NAME, GraphOp
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.types import FLOATS, type_of


@dataclass(frozen=True)
class DifferentiatePass(ModulePass):
    """Appends to a function the gradients of its first result, which has to be a scalar, in the
    inputs of these names; without names in all that are floats.
    """

    name = "weft-differentiate"
    function: str = "main"
    inputs: tuple[str, ...] = ()

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in op.ops:
            if isinstance(function, FuncOp) and function.sym_name.data == self.function:
                append_gradients(function, self.inputs or None)
                return
        raise OptionError(f"{self.name} requires a function of the module, got @{self.function}")


def append_gradients(
    function: FuncOp,
    inputs: Sequence[str] | None = None,
    ops: Mapping[str, type[GraphOp]] = OPS_BY_NAME,
) -> None:
    """Makes d(first result)/d(input) further results, named `grad_<input>`, for the inputs of these
    names, by default for all floats.

    Raises OptionError for names that are no inputs, ModelError for integer inputs and for a result
    that is no scalar, UnsupportedError that lists all operators on the way without a derivative.
    """
    names = _names(function, "input_names", len(function.body.block.args))
    chosen = _chosen(function, names, inputs)
    terminator = function.get_return_op()
    assert terminator is not None, "a function returns"
    result = terminator.arguments[0]
    tensor_type = type_of(result)
    if tensor_type.element not in FLOATS or tensor_type.size != 1:
        rule = "a first result that is one float"
        raise ModelError(f"gradients require {rule}, got {tensor_type}")
    b = GraphBuilder(InsertPoint.before(terminator), ops)
    found = cotangents(b, [result], [b.filled(1.0, result)], [argument for _, argument in chosen])
    gradients = [f"grad_{name}" for name, _ in chosen]
    append_results(function, list(zip(gradients, found, strict=True)))


def append_results(function: FuncOp, results: Sequence[tuple[str, SSAValue]]) -> None:
    """Gives a function further results, each with a name."""
    terminator = function.get_return_op()
    assert terminator is not None, "a function returns"
    names = _names(function, "input_names", len(function.body.block.args))
    outputs = _names(function, "output_names", len(terminator.arguments))
    values = [*terminator.arguments, *(value for _, value in results)]
    terminator.detach()
    terminator.erase()
    function.body.block.add_op(ReturnOp(*values))
    function.update_function_type()
    for key, listed in (
        ("input_names", names),
        ("output_names", [*outputs, *(name for name, _ in results)]),
    ):
        function.attributes[key] = ArrayAttr([StringAttr(name) for name in listed])


def _chosen(
    function: FuncOp, names: Sequence[str], inputs: Sequence[str] | None
) -> list[tuple[str, SSAValue]]:
    arguments = dict(zip(names, function.body.block.args, strict=True))
    if inputs is None:
        return [(name, value) for name, value in arguments.items() if _is_float(value)]
    unknown = [name for name in inputs if name not in arguments]
    if unknown:
        got = ", ".join(unknown)
        raise OptionError(f"gradients require inputs of {', '.join(names)}, got {got}")
    integers = [name for name in inputs if not _is_float(arguments[name])]
    if integers:
        raise ModelError(f"gradients require inputs of floats, got {', '.join(integers)}")
    return [(name, arguments[name]) for name in inputs]


def _is_float(value: SSAValue) -> bool:
    return type_of(value).element in FLOATS


def _names(function: FuncOp, key: str, count: int) -> list[str]:
    names = function.attributes.get(key)
    if isa(names, ArrayAttr[StringAttr]):
        return [name.data for name in names]
    hints = [argument.name_hint for argument in function.body.block.args]
    if key == "input_names":
        return [hint or f"x{position}" for position, hint in enumerate(hints)]
    return [f"y{position}" for position in range(count)]

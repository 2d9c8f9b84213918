"""graph -> graph: a function gets the gradients of its results, as results of its own.

Reverse mode: the operators are walked from the last to the first; each hands the cotangents of its
results on to its operands, and what reaches a value on several ways is added up. What comes out is
an ordinary graph, which may be differentiated again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint
from xdsl.utils.hints import isa

from dialects.errors import ModelError, OptionError, UnsupportedError
from dialects.graph import OPS, GraphOp
from dialects.graph.builder import GraphBuilder
from dialects.graph.types import FLOATS, type_of

OPS_BY_NAME: Mapping[str, type[GraphOp]] = {each.name.removeprefix("graph."): each for each in OPS}


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
    kind = type_of(result)
    if kind.element not in FLOATS or kind.size != 1:
        rule = "a first result that is one float"
        raise ModelError(f"gradients require {rule}, got {kind}")
    b = GraphBuilder(InsertPoint.before(terminator), ops)
    found = cotangents(b, [result], [b.filled(1.0, result)], [argument for _, argument in chosen])
    outputs = _names(function, "output_names", len(terminator.arguments))
    outputs += [f"grad_{name}" for name, _ in chosen]
    values = [*terminator.arguments, *found]
    terminator.detach()
    terminator.erase()
    function.body.block.add_op(ReturnOp(*values))
    function.update_function_type()
    function.attributes["output_names"] = ArrayAttr([StringAttr(name) for name in outputs])


def cotangents(
    b: GraphBuilder,
    results: Sequence[SSAValue],
    seeds: Sequence[SSAValue],
    inputs: Sequence[SSAValue],
) -> list[SSAValue]:
    """The cotangents of inputs, values of the builder's block, from those of results; zeros for one
    that no result depends on.

    Raises UnsupportedError that lists all operators on the way without a derivative.
    """
    ops = _between(b.builder.insertion_point.block, results, inputs)
    _require_derivatives(ops)
    sums = _Sums(b)
    for result, seed in zip(results, seeds, strict=True):
        sums.add(result, seed)
    for op in reversed(ops):
        arriving = [sums.of.get(result) for result in op.results]
        if any(each is not None for each in arriving):
            whole = [
                b.filled(0.0, result) if each is None else each
                for result, each in zip(op.results, arriving, strict=True)
            ]
            for operand, value in zip(op.operands, op.vjp(whole, b), strict=True):
                if value is not None:
                    sums.add(operand, value)
    return [sums.of[each] if each in sums.of else b.filled(0.0, each) for each in inputs]


@dataclass
class _Sums:
    """What has reached each value so far."""

    b: GraphBuilder
    of: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])

    def add(self, value: SSAValue, cotangent: SSAValue) -> None:
        before = self.of.get(value)
        self.of[value] = cotangent if before is None else self.b.add(before, cotangent)


def _between(
    block: Block, results: Iterable[SSAValue], inputs: Iterable[SSAValue]
) -> list[GraphOp]:
    """The operators, in their order, that depend on an input and that a result depends on."""
    needed: set[Operation] = set()
    stack = [result.owner for result in results]
    while stack:
        owner = stack.pop()
        if isinstance(owner, Operation) and owner not in needed:
            needed.add(owner)
            stack += [operand.owner for operand in owner.operands]
    reached = set(inputs)
    found: list[GraphOp] = []
    for op in list(block.ops):
        if op in needed and any(operand in reached for operand in op.operands):
            floats = [result for result in op.results if _is_float(result)]
            if not floats:
                continue  # comparisons, shapes and the like: nothing passes through
            if not isinstance(op, GraphOp):
                raise UnsupportedError(f"gradients require operators alone, got {op.name}")
            reached.update(op.results)
            found.append(op)
    return found


def _require_derivatives(ops: Iterable[GraphOp]) -> None:
    lacking = [op for op in ops if not op.HAS_VJP]
    if lacking:
        listed = ", ".join(
            f"{op.name} of node '{op.onnx_name}'" if op.onnx_name else op.name for op in lacking
        )
        raise UnsupportedError(f"gradients require operators with derivatives, got {listed}")


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

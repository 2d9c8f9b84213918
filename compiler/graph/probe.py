"""graph -> graph: values inside a function become further results of it.

    %h = graph.watch %a {label = "hidden"} ... return %y      ->      return %y, %a

What a loop computes is stacked, an element an iteration; where the first dim varies between
iterations, as that of what an inner `graph.while` stacks, their rows stand behind one another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, OpResult, SSAValue, SSAValues
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint

from weft.compiler.graph.differentiate.cotangents import fresh_size
from weft.compiler.graph.differentiate.differentiate import append_results
from weft.compiler.graph.differentiate.residuals import extend_results
from weft.dialects.errors import OptionError, UnsupportedError
from weft.dialects.expr import Expr
from weft.dialects.graph import OPS_BY_NAME, CheckpointOp
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.types import ShapeAttr, tensor, type_of
from weft.dialects.graph.regions.control import defined_sizes, names_attr
from weft.dialects.graph.regions.repeat import RepeatOp
from weft.dialects.graph.regions.watch import WatchOp


@dataclass(frozen=True)
class ProbePass(ModulePass):
    """Appends the values of these labels to the results of `main`; a label that several values have
    becomes `label/0`, `label/1`, ...
    """

    name = "weft-probe"
    labels: tuple[str, ...] = ()

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in op.ops:
            if isinstance(function, FuncOp) and function.sym_name.data == "main":
                watch(function, self.labels)


def watched_labels(module: ModuleOp) -> list[str]:
    """The labels of the values that may be watched."""
    return list(dict.fromkeys(op.label.data for op in module.walk() if isinstance(op, WatchOp)))


def watch(function: FuncOp, labels: Sequence[str]) -> None:
    """Makes values further results. Raises OptionError for labels that no value has, and
    UnsupportedError for values of branches, which may not be computed, and for those whose further
    dims vary between iterations.
    """
    found: dict[str, list[WatchOp]] = {}
    for op in function.walk():
        if isinstance(op, WatchOp):
            found.setdefault(op.label.data, []).append(op)
    unknown = [label for label in labels if label not in found]
    if unknown:
        rule = f"watch requires names of values ({', '.join(found) or 'none has one'})"
        raise OptionError(f"{rule}, got {', '.join(unknown)}")
    for label in dict.fromkeys(labels):
        ops = found[label]
        for number, op in enumerate(ops):
            name = label if len(ops) == 1 else f"{label}/{number}"
            # At once: a loop that carries a further value has new results.
            append_results(function, [(name, _outside(op, function.body.block))])


def _outside(op: WatchOp, function: Block) -> SSAValue:
    """The value where the function ends; loops around it stack it."""
    value, block = op.operand, op.parent
    while block is not None and block is not function:
        around, last = block.parent_op(), block.last_op
        assert around is not None, "a block belongs to an operator"
        assert last is not None, "a region ends in what it yields"
        body = around.repeated.block if isinstance(around, RepeatOp) else block
        if not isinstance(around, RepeatOp | CheckpointOp) or body is not block:
            raise UnsupportedError(
                f"watch requires values that every call computes, got {_where(op, around)}"
            )
        inner = _inner_sizes(around)
        varying = [not inner.isdisjoint(dim.symbols()) for dim in type_of(value).shape]
        if any(varying[isinstance(around, RepeatOp) :]):
            rule = "watch requires values of one shape, but for the first dim of those in loops"
            raise UnsupportedError(f"{rule}, got {type_of(value)} of {_where(op, around)}")
        if isinstance(around, RepeatOp) and any(varying):
            value = _appended(around, value)
        else:
            last.operands = [*last.operands, value]
            (value,) = extend_results(around)
        block = around.parent
    return value


def _inner_sizes(op: RepeatOp | CheckpointOp) -> set[str]:
    if isinstance(op, RepeatOp):
        return op.inner_sizes()
    return {name for each in op.walk() for name in defined_sizes(each)}


def _where(op: WatchOp, around: Operation) -> str:
    node = f" ({op.onnx_name})" if op.onnx_name else ""
    return f"{op.label.data}{node} inside {around.name}"


def _appended(loop: RepeatOp, value: SSAValue) -> SSAValue:
    """The rows of all iterations' values, which the loop carries."""
    body, count = loop.repeated.block, len(loop.operands_)
    _, *dims = type_of(value).shape
    rows, element = fresh_size(body, "rows"), type_of(value).element
    carried = tensor([Expr.of(rows), *dims], element)
    for region in loop.regions:
        region.block.insert_arg(carried, count)
    last = body.last_op
    assert last is not None, "a region ends in what it yields"
    longer = GraphBuilder(InsertPoint.before(last), OPS_BY_NAME).concat(
        body.args[count], value, axis=0
    )
    last.operands = [*last.operands[:count], longer, *last.operands[count:]]
    b = GraphBuilder(InsertPoint.before(loop), OPS_BY_NAME)
    none = b.expand(b.constant_of(0, element), shape=ShapeAttr((Expr.of(0), *dims)))
    loop.operands = [*loop.operands, none]
    loop.properties["sizes"] = names_attr([*loop.size_names, rows])
    old = list[OpResult](loop.results)
    new = [OpResult(each, loop, number) for number, each in enumerate(loop.infer())]
    for before, after in zip(old, [*new[:count], *new[count + 1 :]], strict=True):
        after.name_hint = before.name_hint
        before.replace_all_uses_with(after)
    loop.results = SSAValues(new)
    return new[count]

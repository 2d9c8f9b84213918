"""graph -> graph: values inside a function become further results of it.

    %h = graph.watch %a {label = "hidden"} ... return %y      ->      return %y, %a

What a loop computes is stacked, an element an iteration.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, SSAValue
from xdsl.passes import ModulePass

from weft.compiler.graph.differentiate.differentiate import append_results
from weft.compiler.graph.differentiate.residuals import extend_results
from weft.dialects.errors import OptionError, UnsupportedError
from weft.dialects.graph import CheckpointOp
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
    UnsupportedError for values of branches, which may not be computed.
    """
    found: dict[str, list[WatchOp]] = {}
    for op in function.walk():
        if isinstance(op, WatchOp):
            found.setdefault(op.label.data, []).append(op)
    unknown = [label for label in labels if label not in found]
    if unknown:
        rule = f"watch requires names of values ({', '.join(found) or 'none has one'})"
        raise OptionError(f"{rule}, got {', '.join(unknown)}")
    results: list[tuple[str, SSAValue]] = []
    for label in dict.fromkeys(labels):
        ops = found[label]
        for number, op in enumerate(ops):
            name = label if len(ops) == 1 else f"{label}/{number}"
            results.append((name, _outside(op.operand, op, function.body.block)))
    append_results(function, results)


def _outside(value: SSAValue, op: WatchOp, function: Block) -> SSAValue:
    """The value where the function ends; loops around it stack it."""
    block = op.parent
    while block is not None and block is not function:
        around, last = block.parent_op(), block.last_op
        assert around is not None, "a block belongs to an operator"
        assert last is not None, "a region ends in what it yields"
        body = around.repeated.block if isinstance(around, RepeatOp) else block
        if not isinstance(around, RepeatOp | CheckpointOp) or body is not block:
            where = f" ({op.onnx_name})" if op.onnx_name else ""
            got = f"{op.label.data}{where} inside {around.name}"
            raise UnsupportedError(f"watch requires values that every call computes, got {got}")
        last.operands = [*last.operands, value]
        (value,) = extend_results(around)
        block = around.parent
    return value

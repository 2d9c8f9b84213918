"""graph -> graph: the results of nodes that options name begin stages of a pipeline.

%y = graph.add %x, %b {node /layer6/Add}, stage = ["/layer6/Add=1"]
->  %y = graph.add %x, %b, %z = graph.stage %y {index = 1}, and %z where %y was read
"""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from weft.compiler.graph.partition.written import read_stages
from weft.dialects.errors import OptionError
from weft.dialects.graph import ConstantOp, GraphOp, StageOp
from weft.dialects.module_attributes import code_options


class MarkStagesPass(ModulePass):
    """Marks what nodes of the function `main` give to others. Raises OptionError for names that no
    node has.
    """

    name = "weft-mark-stages"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        stages = read_stages(code_options(op).stage)
        for function in op.ops:
            if stages and isinstance(function, FuncOp) and function.sym_name.data == "main":
                _mark(function, stages)


def _mark(function: FuncOp, stages: Mapping[str, int]) -> None:
    nodes: dict[str, list[Operation]] = {name: [] for name in stages}
    for op in function.body.block.ops:
        if isinstance(op, GraphOp) and not isinstance(op, ConstantOp) and op.onnx_name in nodes:
            nodes[op.onnx_name].append(op)
    unknown = [name for name, found in nodes.items() if not found]
    if unknown:
        raise OptionError(f"stages require names of nodes, got {', '.join(unknown)}")
    for name, found in nodes.items():
        for op in found:
            _mark_results(op, set(found), stages[name])


def _mark_results(op: Operation, node: set[Operation], number: int) -> None:
    """Marks an operator's results where others read them than those of its node."""
    block = op.parent
    assert block is not None, "an operator of a function stands in its block"
    for result in op.results:
        uses = [use for use in result.uses if use.operation not in node]
        if uses:
            mark = StageOp.of(result, location=op.location, index=IntegerAttr(number, i64))
            block.insert_op_after(mark, op)
            mark.result.name_hint = result.name_hint
            for use in uses:
                use.operation.operands[use.index] = mark.result

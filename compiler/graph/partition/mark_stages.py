"""graph -> graph: the results of nodes that options name begin stages of a pipeline, and weights
that they name are cut as they say.

%y = graph.add %x, %b {node /layer6/Add}, stage = ["/layer6/Add=1"]
->  %y = graph.add %x, %b, %z = graph.stage %y {index = 1}, and %z where %y was read

%w = graph.constant {key = "w"}, shard = ["w=,model"]
->  %s = graph.shard %w {sharding = #graph.sharding<[[], ["model"]]>}, and %s where %w was read
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, Use
from xdsl.passes import ModulePass

from weft.compiler.graph.partition.read_mesh import read_mesh
from weft.compiler.graph.partition.written import Dims, read_shardings, read_stages
from weft.dialects.errors import OptionError
from weft.dialects.graph import ConstantOp, GraphOp, ShardOp, StageOp
from weft.dialects.graph.mesh.attributes import MeshAttr, ShardingAttr, require_sharding
from weft.dialects.module_attributes import code_options


class MarkStagesPass(ModulePass):
    """Marks what nodes of the function `main` give to others, and its weights. Raises OptionError
    for names of stages that no node has, and shardings that weights cannot have.
    """

    name = "weft-mark-stages"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        options = code_options(op)
        stages, shardings = read_stages(options.stage), read_shardings(options.shard)
        mesh = read_mesh(options.mesh)
        for function in op.ops:
            if mesh and isinstance(function, FuncOp) and function.sym_name.data == "main":
                _mark(function, stages)
                _mark_weights(function, shardings, mesh)


def _mark_weights(function: FuncOp, shardings: Mapping[str, Dims], mesh: MeshAttr) -> None:
    """Marks the weights that have the names of shardings."""
    for op in list(function.body.block.ops):
        if isinstance(op, ConstantOp) and op.key is not None and op.key.data in shardings:
            given, uses = shardings[op.key.data], list(op.result.uses)
            whole = (*given, *[()] * (op.result_type.rank - len(given)))
            require_sharding(op.result_type, whole, mesh, f"the sharding of {op.key.data}")
            mark = ShardOp.of(op.result, location=op.location, sharding=ShardingAttr(whole))
            _insert(mark, op, uses)


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
    for result in op.results:
        uses = [use for use in result.uses if use.operation not in node]
        if uses:
            mark = StageOp.of(result, location=op.location, index=IntegerAttr(number, i64))
            _insert(mark, op, uses)


def _insert(mark: ShardOp | StageOp, marked: Operation, uses: Sequence[Use]) -> None:
    """Puts the mark of an operator's result behind it, where these uses read it then."""
    block = marked.parent
    assert block is not None, "an operator of a function stands in its block"
    block.insert_op_after(mark, marked)
    mark.result.name_hint = mark.operands[0].name_hint
    for use in uses:
        use.operation.operands[use.index] = mark.result

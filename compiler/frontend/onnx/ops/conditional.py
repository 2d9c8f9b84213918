"""ONNX's If -> a branch of the graph, or the one of its branches that can be taken, in place."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from onnx import GraphProto
from xdsl.ir import Block, SSAValue

from weft.compiler.frontend.onnx.branches import SizeNames, joined_sizes, yielded
from weft.compiler.frontend.onnx.declared import check_branches
from weft.compiler.frontend.onnx.failure import Failure
from weft.compiler.frontend.onnx.importer import ControlTable, GraphImporter
from weft.compiler.frontend.onnx.node import OnnxNode, only_element
from weft.compiler.frontend.onnx.values import Results, Value, flattened, forms, rebuilt
from weft.dialects.errors import UnsupportedError
from weft.dialects.graph import IdentityOp, IfOp, ReshapeOp, YieldOp
from weft.dialects.graph.core.types import type_of
from weft.dialects.graph.ops.cast import CastOp
from weft.dialects.graph.ops.comparison import EqualOp
from weft.dialects.graph.regions.effects import AssertOp


class _Branch(Struct):
    """A branch that was imported into a block: what it gives, None where a node of it failed, the
    failures, and whether a branch inside is tried, which these may be for.
    """

    graph: GraphProto
    block: Block
    results: list[Value] | None
    failures: list[Failure]
    has_tried: bool

    @property
    def breaks_rules(self) -> bool:
        """Whether it is no branch that any call could take, for the sizes that there are."""
        broken = bool(self.failures) and all(each.breaks_rule for each in self.failures)
        return broken and not self.has_tried


def import_if(importer: GraphImporter, node: OnnxNode) -> Results:
    """The one branch that a known condition takes, in place; else both."""
    chosen = importer.constants.constant_array(node.operand(0))
    graphs = [node.attribute(name).g for name in ("then_branch", "else_branch")]
    check_branches("If", [graph.output for graph in graphs])
    if chosen is not None:
        with importer.named():
            return importer.import_subgraph(graphs[0 if only_element(chosen, "a condition") else 1])
    condition = node.reshape(node.operand(0), [])
    branches = [_branch(importer, graph) for graph in graphs]
    only = _only_branch(importer, node, branches, condition)
    if only is not None:
        for branch in branches:
            branch.block.erase(safe_erase=False)
        return _assumed(importer, node, branches, only, condition)
    taken = [branch.results for branch in branches if branch.results is not None]
    if len(taken) < len(branches):
        return [None] * len(graphs[0].output)
    first, second = map(forms, taken)
    if first != second:
        rule = "requires branches that give sequences of one length and the same optionals"
        raise UnsupportedError(f"{rule}, got {', '.join(first)} and {', '.join(second)}")
    blocks = [branch.block for branch in branches]
    names = SizeNames(importer.fresh_size, f"{node.proto.name}_size")
    sizes = joined_sizes(blocks, names, importer.constants.equal)
    op = IfOp.of(condition, blocks[0], blocks[1], sizes, node.b.location)
    return rebuilt(importer.b.builder.insert(op).results, taken[0])


def _branch(importer: GraphImporter, graph: GraphProto) -> _Branch:
    before, tried = len(importer.failures), len(importer.tried)
    with importer.nested() as block:
        results = importer.import_subgraph(graph)
    values = [value for value in results if value is not None]
    failures, has_tried = importer.failures[before:], len(importer.tried) > tried
    if len(values) < len(results):
        return _Branch(graph, block, None, failures, has_tried)
    block.add_op(YieldOp.create(operands=flattened(values)))
    return _Branch(graph, block, values, failures, has_tried)


def _only_branch(
    importer: GraphImporter, node: OnnxNode, branches: Sequence[_Branch], condition: SSAValue
) -> int | None:
    """The number of the one branch that can be taken, None where both can: the other one breaks
    rules for the sizes that there are, or gives results of other ranks than the file declares.
    Where that says nothing, one is tried: later nodes cannot take the results of the other.

    Of branches that differ in rank where the condition is that sizes are equal, it is the first:
    exporters write such branches where sizes that were equal when they looked might not be,
    `Squeeze` where a size is 1 for instance.
    """
    sound = [number for number, branch in enumerate(branches) if branch.results is not None]
    if len(sound) == 1 and branches[1 - sound[0]].breaks_rules:
        return sound[0]
    if len(sound) < 2:
        return None
    ranks = [_ranks(branch.block) for branch in branches]
    if ranks[0] == ranks[1]:
        return None
    if _is_of_sizes(importer, condition):
        return 0
    wanted = [importer.ranks.of(name) for name in node.proto.output]
    fits = [number for number in (0, 1) if _may_be(ranks[number], wanted)]
    if len(fits) == 1 or len(ranks[0]) != len(ranks[1]):
        return fits[0] if len(fits) == 1 else None
    return importer.tried.setdefault(node.proto.name, 0)


def _may_be(ranks: Sequence[int | None], wanted: Sequence[int | None]) -> bool:
    """Whether results of these ranks are of the wanted ones, as far as both are known."""
    pairs = zip(ranks, wanted, strict=False)
    return all(None in (rank, other) or rank == other for rank, other in pairs)


def _is_of_sizes(importer: GraphImporter, condition: SSAValue) -> bool:
    """Whether the condition is that two sizes are equal."""
    equal = condition.owner
    while isinstance(equal, (ReshapeOp, CastOp, IdentityOp)):
        equal = equal.operand.owner
    if not isinstance(equal, EqualOp):
        return False
    return all(importer.constants.dims(operand) is not None for operand in equal.operands)


def _assumed(
    importer: GraphImporter,
    node: OnnxNode,
    branches: Sequence[_Branch],
    only: int,
    condition: SSAValue,
) -> Results:
    """The one branch that can be taken, in place; a call that would take the other one ends."""
    word = ("then", "else")[only]
    failures = branches[1 - only].failures
    del importer.failures[len(importer.failures) - len(failures) :]
    if not _is_of_sizes(importer, condition):  # sizes that have to be equal are no surprise
        why = f"breaks a rule: {failures[0].text}" if failures else "gives another rank"
        rule = f"node '{node.proto.name}' (If) requires its {word}-branch in each call"
        importer.warn(f"{rule}, for the other one {why}")
    held = condition if only == 0 else importer.b.logical_not(condition)
    text = f"run requires the {word}-branch of an If, got the other one"
    importer.b.builder.insert(AssertOp.of(held, text, [], importer.b.location))
    with importer.named():
        return importer.import_subgraph(branches[only].graph)


def _ranks(block: Block) -> list[int | None]:
    tensor_types = [type_of(value) for value in yielded(block)]
    return [each.rank if each.has_rank else None for each in tensor_types]


IMPORTERS: ControlTable = {"If": import_if}
"""Importers by ONNX operator."""

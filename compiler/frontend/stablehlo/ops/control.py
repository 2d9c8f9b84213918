"""Control flow -> regions of the graph level; calls."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Block
from xdsl.rewriter import InsertPoint

from weft.compiler.frontend import matrices
from weft.compiler.frontend.matrices import Step
from weft.compiler.frontend.stablehlo.node import Node
from weft.dialects.errors import UnsupportedError
from weft.dialects.expr import ExprLike
from weft.dialects.graph import CaseOp, ConditionOp, IfOp, WhileOp, YieldOp
from weft.dialects.graph.core.algebra import Term
from weft.dialects.graph.core.builder import GraphBuilder


def inner_builder(node: Node, block: Block) -> GraphBuilder:
    """A builder that fills another block."""
    return GraphBuilder(InsertPoint.at_end(block), node.b.ops, node.b.location)


def repeated(node: Node, count: ExprLike, state: Sequence[Term], step: Step) -> list[Term]:
    """The state after so many iterations."""
    return matrices.repeated(node.b, node.scope.fresh_name("i"), count, state, step)


def _branch(node: Node, position: int) -> Block:
    block = Block()
    found = node.body([], position, inner_builder(node, block))
    block.add_op(YieldOp.create(operands=[each.value for each in found]))
    return block


def if_(node: Node) -> Sequence[Term]:
    """One of two regions runs."""
    then, otherwise = (_branch(node, position) for position in (0, 1))
    op = IfOp.of(node.only.value, then, otherwise, location=node.b.location)
    return [Term(node.b, result) for result in node.b.builder.insert(op).results]


def case(node: Node) -> Sequence[Term]:
    """One of several regions runs: the last one for an index outside."""
    branches = [_branch(node, position) for position in range(len(node.op.regions))]
    op = CaseOp.of(node.only.value, branches, location=node.b.location)
    return [Term(node.b, result) for result in node.b.builder.insert(op).results]


def while_(node: Node) -> Sequence[Term]:
    """A region runs as long as another holds of the state."""
    types = [each.type for each in node.operands]
    condition, body = Block(arg_types=types), Block(arg_types=types)
    b = inner_builder(node, condition)
    (holds,) = node.body([Term(b, each) for each in condition.args], 0, b)
    condition.add_op(ConditionOp.create(operands=[holds.value]))
    b = inner_builder(node, body)
    found = node.body([Term(b, each) for each in body.args], 1, b)
    for term, wanted in zip(found, types, strict=True):
        if term.type != wanted:
            raise UnsupportedError(f"requires a state of one type, got {wanted} and {term.type}")
    body.add_op(YieldOp.create(operands=[each.value for each in found]))
    index, count = node.scope.fresh_name("i"), node.scope.fresh_name("iterations")
    values = [each.value for each in node.operands]
    op = WhileOp.of(index, count, values, condition, body, location=node.b.location)
    return [Term(node.b, result) for result in node.b.builder.insert(op).results]


def composite(node: Node) -> Sequence[Term]:
    """What the function that stands for the composite returns."""
    name = node.text("decomposition")
    return node.scope.call(name, node.operands, node.b, elementwise=node.elementwise)


def map_(node: Node) -> Sequence[Term]:
    """A body of scalars on each element."""
    shape = node.only.shape
    return [each.expand(shape) for each in node.applied(node.operands)]


CONTROL = {
    "case": case,
    "composite": composite,
    "if": if_,
    "map": map_,
    "while": while_,
}
"""By the name in StableHLO."""

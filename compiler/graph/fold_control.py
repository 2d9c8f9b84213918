"""graph -> graph, a part of constant folding: a branch that is known to be taken takes the place of
its operator, of which nothing is left.

    %y = graph.if %true : ... { A, graph.yield %a } else { B }      ->      A, %a for %y
"""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.dialects.builtin import FunctionType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Region, SSAValue
from xdsl.rewriter import Rewriter

from dialects.expr import Atom, Expr
from dialects.graph import CaseOp, ConstantOp, IfOp
from dialects.graph.branch import BranchOp
from dialects.graph.control import match_dims, size_atoms, substitute_sizes, yielded
from dialects.graph.types import ShapeAttr, TensorType, type_of
from dialects.weights import WeightStore


def fold_branch(op: BranchOp, function: FuncOp, weights: WeightStore) -> None:
    """Replaces a branch whose condition is a constant by the operators of the region it takes."""
    region = _taken(op, weights)
    block = op.parent
    if region is None or block is None:
        return
    values = list(yielded(region))
    sizes: dict[str, Expr] = {}
    for result, value in zip(op.results_, values, strict=True):
        sizes |= match_dims(type_of(result), type_of(value), op.size_names)
        value.name_hint = value.name_hint or result.name_hint
        result.replace_all_uses_with(value)
    for inner in list(region.block.ops)[:-1]:
        inner.detach()
        block.insert_op_before(inner, op)
    op.detach()
    op.erase()
    if sizes:
        _substitute(function, size_atoms(sizes))


def _taken(op: BranchOp, weights: WeightStore) -> Region | None:
    """The region that a known condition takes."""
    owner = op.operands_[0].owner
    if not isinstance(owner, ConstantOp) or owner.literal is None:
        return None
    number = int(owner.array(weights))
    if isinstance(op, IfOp):
        return op.then if number else op.otherwise
    assert isinstance(op, CaseOp), "a branch is one of two"
    return op.regions[number if 0 <= number < len(op.regions) else -1]


def _substitute(function: FuncOp, sizes: Mapping[Atom, Expr]) -> None:
    """Replaces sizes that the branch had named, in attributes and types."""
    substitute_sizes(function, sizes)
    for op in function.walk():
        arguments = [arg for region in op.regions for block in region.blocks for arg in block.args]
        for value in (*op.results, *arguments):
            _retype(value, sizes)
    returned = function.get_return_op()
    inputs = [argument.type for argument in function.body.block.args]
    outputs = [] if returned is None else [value.type for value in returned.operands]
    function.properties["function_type"] = FunctionType.from_lists(inputs, outputs)


def _retype(value: SSAValue, sizes: Mapping[Atom, Expr]) -> None:
    if isinstance(value.type, TensorType) and value.type.has_rank:
        dims = tuple(dim.substitute(sizes) for dim in value.type.shape)
        kind = TensorType(ShapeAttr(dims), value.type.element)
        if kind != value.type:
            Rewriter.replace_value_with_new_type(value, kind)

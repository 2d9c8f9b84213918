"""graph -> graph, a part of constant folding: a branch that is known to be taken takes the place of
its operator, of which nothing is left, and so do the iterations of a short loop.

    %y = graph.if %true : ... { A, graph.yield %a } else { B }      ->      A, %a for %y
    %y = graph.for %x {count = [2]} ... { A, graph.yield %a }      ->      A, A, %a for %y
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct, field
from xdsl.dialects.builtin import FunctionType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint

from weft.dialects.expr import Atom, Expr
from weft.dialects.graph import OPS_BY_NAME, CaseOp, ConstantOp, DimsOp, ForOp, IfOp
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.types import ShapeAttr, type_of
from weft.dialects.graph.ops.comparison import LogicalNotOp
from weft.dialects.graph.regions.branch import BranchOp
from weft.dialects.graph.regions.control import (
    defined_sizes,
    match_dims,
    retype,
    size_atoms,
    substitute_sizes,
    yielded,
)
from weft.dialects.weights import WeightStore


class UnrollingBudget(Struct):
    """How many operators a loop may become, and how many all that follow may, constants aside;
    what longer ones would have become.
    """

    loop: int
    left: int
    kept: list[int] = field(default_factory=list[int])

    def allows(self, operators: int) -> bool:
        """Whether a loop becomes so many operators; if so, they count."""
        if operators > min(self.loop, self.left):
            self.kept.append(operators)
            return False
        self.left -= operators
        return True


def fold_branch(op: BranchOp, function: FuncOp, weights: WeightStore) -> None:
    """Replaces a branch by the operators of the region that it is known to take."""
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
        replace_sizes(function, size_atoms(sizes))


def _taken(op: BranchOp, weights: WeightStore) -> Region | None:
    """The region that a known condition takes, or any where all do the same."""
    if all(each.is_structurally_equivalent(op.regions[0]) for each in op.regions[1:]):
        return op.regions[0]
    owner = op.operands_[0].owner
    if not isinstance(owner, ConstantOp) or owner.literal is None:
        return _taken_around(op)
    number = int(owner.array(weights))
    if isinstance(op, IfOp):
        return op.then if number else op.otherwise
    assert isinstance(op, CaseOp), "a branch is one of two"
    return op.regions[number if 0 <= number < len(op.regions) else -1]


def _taken_around(op: BranchOp) -> Region | None:
    """The region that is taken inside of one of a branch on the same condition."""
    region = op.parent_region()
    while region is not None and (around := region.parent_op()) is not None:
        if isinstance(around, BranchOp) and len(around.regions) == len(op.regions):
            number = around.get_region_index(region)
            if around.operands_[0] is op.operands_[0]:
                return op.regions[number]
            if _is_negation(around.operands_[0], op.operands_[0]):
                return op.regions[1 - number]
        region = around.parent_region()
    return None


def _is_negation(one: SSAValue, other: SSAValue) -> bool:
    pairs = ((one.owner, other), (other.owner, one))
    return any(isinstance(op, LogicalNotOp) and op.operand is value for op, value in pairs)


def fold_loop(op: ForOp, budget: UnrollingBudget) -> None:
    """Replaces a loop of a few iterations, all of which are known to run, by copies of its body; a
    loop of none by its initial values.
    """
    count = op.iterations.constant
    block = op.parent
    if count is None or block is None or op.size_names:
        return
    stacked = op.results_[len(op.operands_) :]
    if any(inner.regions or defined_sizes(inner) for inner in op.body.block.ops):
        return
    size = sum(not isinstance(inner, (ConstantOp, DimsOp)) for inner in op.body.block.ops) - 1
    if (not count and stacked) or not budget.allows(count * size):
        return
    state = list(op.operands_)
    stacks: list[list[SSAValue]] = [[] for _ in stacked]
    for number in range(count):
        handed = copied_iteration(op, state, number, op)
        state = handed[: len(state)]
        for stack, value in zip(stacks, handed[len(state) :], strict=True):
            stack.append(value)
    rows = [_stack(op, stack) for stack in stacks]
    for result, value in zip(op.results_, [*state, *rows], strict=True):
        value.name_hint = value.name_hint or result.name_hint
        result.replace_all_uses_with(value)
    op.detach()
    op.erase()


def copied_iteration(
    op: ForOp, state: Sequence[SSAValue], number: int | Expr, successor: Operation
) -> list[SSAValue]:
    """Copies the body of a loop in front of an operator, for one iteration; returns the values it
    yields.
    """
    block = successor.parent
    assert block is not None, "a loop that is unrolled stands in a block"
    values: dict[SSAValue, SSAValue] = dict(zip(op.body.block.args, state, strict=True))
    sizes = size_atoms({op.index.data: number})
    for inner in list(op.body.block.ops)[:-1]:
        copy = inner.clone(values)
        block.insert_op_before(copy, successor)
        substitute_sizes(copy, sizes)
        for result in copy.results:
            retype(result, sizes)
    return [values.get(value, value) for value in yielded(op.body)]


def _stack(op: ForOp, values: Sequence[SSAValue]) -> SSAValue:
    """The values along a new first axis."""
    b = GraphBuilder(InsertPoint.before(op), OPS_BY_NAME, op.location)
    rows = [
        b.reshape(value, shape=ShapeAttr((Expr.of(1), *type_of(value).shape))) for value in values
    ]
    return rows[0] if len(rows) == 1 else b.concat(*rows, axis=0)


def replace_sizes(function: FuncOp, sizes: Mapping[Atom, Expr]) -> None:
    """Replaces named sizes everywhere in a function, in attributes and types."""
    substitute_sizes(function, sizes)
    for op in function.walk():
        arguments = [arg for region in op.regions for block in region.blocks for arg in block.args]
        for value in (*op.results, *arguments):
            retype(value, sizes)
    returned = function.get_return_op()
    inputs = [argument.type for argument in function.body.block.args]
    outputs = [] if returned is None else [value.type for value in returned.operands]
    function.properties["function_type"] = FunctionType.from_lists(inputs, outputs)

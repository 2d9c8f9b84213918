"""Control flow -> regions of the graph level; calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct
from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Block, BlockArgument, SSAValue
from xdsl.rewriter import InsertPoint

from weft.compiler.frontend import matrices
from weft.compiler.frontend.matrices import Step
from weft.compiler.frontend.stablehlo.interleaved import joined_parts, separated
from weft.compiler.frontend.stablehlo.node import Node, static_dims
from weft.compiler.frontend.stablehlo.ops.bodies import number_of, word_of
from weft.compiler.frontend.stablehlo.ops.movement import box_at, update_at
from weft.compiler.frontend.stablehlo.types import (
    declared,
    is_complex,
    leaves_of,
    parts_of,
)
from weft.dialects.errors import UnsupportedError
from weft.dialects.expr import ExprLike
from weft.dialects.graph import CaseOp, ConditionOp, HostCallOp, IfOp, WhileOp, YieldOp
from weft.dialects.graph.core.algebra import Term
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.types import tensor
from weft.dialects.stablehlo.op import HloOp


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


class Counter(Struct, frozen=True):
    """A number of a loop's state that goes from one number to another, one further in each
    iteration.
    """

    position: int
    first: int
    bound: int


_EXACT: Final = 1 << 53
"""Whole numbers below it are floats."""


def counter_of(op: HloOp) -> Counter | None:
    """What a loop counts, where its condition is that this is less than a constant."""
    condition, body = (region.block for region in op.regions)
    (holds,), following = _last(condition), _last(body)
    compared = _called(holds, "stablehlo.compare")
    if compared is None or word_of(compared, "comparison_direction") != "LT":
        return None
    number, bound = compared.operands
    position = _position(number, condition)
    if position is None or not isinstance(declared(number.type).element, IntegerType):
        return None
    added = _called(following[position], "stablehlo.add")
    if added is None or added.operands[0] is not body.args[position]:
        return None
    at = _position(bound, condition)
    if at is not None and following[at] is body.args[at]:
        bound = op.operands[at]
    first, last, step = map(number_of, (op.operands[position], bound, added.operands[1]))
    if first is None or last is None or step != 1:
        return None
    if max(abs(first), abs(last)) >= _EXACT:
        return None
    return Counter(position, int(first), int(last))


def _position(value: SSAValue, block: Block) -> int | None:
    """Which argument of a block a value is."""
    if isinstance(value, BlockArgument) and value.block is block:
        return value.index
    return None


def _last(block: Block) -> Sequence[SSAValue]:
    """What a block hands back."""
    assert block.last_op is not None, "a region of StableHLO ends in what it returns"
    return block.last_op.operands


def _called(value: SSAValue, name: str) -> HloOp | None:
    owner = value.owner
    return owner if isinstance(owner, HloOp) and owner.name == name else None


def while_(node: Node) -> Sequence[Term]:
    """A region runs as long as another holds of the state; a known number of times where it counts
    them.
    """
    counter = counter_of(node.op)
    if counter is not None and len(node.operands) == len(node.op.operands):
        return _counted(node, counter)
    return _as_long_as(node)


def _counted(node: Node, counter: Counter) -> Sequence[Term]:
    """A loop that counts: its state but for the counter, which is the number of the iteration."""
    position = counter.position
    element = node.operands[position].type.element

    def step(state: Sequence[Term], number: Term) -> list[Term]:
        at = (number + counter.first).cast(element)
        found = node.body([*state[:position], at, *state[position:]], 1, number.b)
        _require_types(found, node.operands)
        return [*found[:position], *found[position + 1 :]]

    others = [*node.operands[:position], *node.operands[position + 1 :]]
    found = repeated(node, max(0, counter.bound - counter.first), others, step)
    last = node.number(max(counter.first, counter.bound), element)
    return [*found[:position], last, *found[position:]]


def _require_types(found: Sequence[Term], wanted: Sequence[Term]) -> None:
    """Refuses a body that returns a state of other types."""
    for term, like in zip(found, wanted, strict=True):
        if term.type != like.type:
            raise UnsupportedError(f"requires a state of one type, got {like.type} and {term.type}")


def _as_long_as(node: Node) -> Sequence[Term]:
    types = [each.type for each in node.operands]
    condition, body = Block(arg_types=types), Block(arg_types=types)
    b = inner_builder(node, condition)
    (holds,) = node.body([Term(b, each) for each in condition.args], 0, b)
    condition.add_op(ConditionOp.create(operands=[holds.value]))
    b = inner_builder(node, body)
    found = node.body([Term(b, each) for each in body.args], 1, b)
    _require_types(found, node.operands)
    body.add_op(YieldOp.create(operands=[each.value for each in found]))
    index, count = node.scope.fresh_name("i"), node.scope.fresh_name("iterations")
    values = [each.value for each in node.operands]
    op = WhileOp.of(index, count, values, condition, body, location=node.b.location)
    return [Term(node.b, result) for result in node.b.builder.insert(op).results]


def map_(node: Node) -> Sequence[Term]:
    """A body of scalars on each element."""
    shape = node.only.shape
    return [each.expand(shape) for each in node.applied(node.operands)]


def scan(node: Node) -> Sequence[Term]:
    """A body on the slices of some tensors along a dim, one after the other, with a state: what it
    returns is slices of results, and the next state.
    """
    axis, backwards = node.integer("dimension"), node.flag("is_reverse")
    count, states = node.integers("operandSegmentSizes")
    inputs, first = node.operands[:count], node.operands[count:]
    written = node.results[: len(node.results) - states]
    outputs = [node.number(0, each.element).expand(each.static) for each in written]
    length = static_dims(inputs[0])[axis]

    def step(state: Sequence[Term], number: Term) -> list[Term]:
        b = number.b
        at = length - 1 - number if backwards else number
        slices = [_slice_at(Term(b, each.value), at, axis) for each in inputs]
        found = node.body([*slices, *state[len(outputs) :]], b=b)
        pairs = zip(state[: len(outputs)], found, strict=False)
        filled = [_with_slice(x, new, at, axis) for x, new in pairs]
        return [*filled, *found[len(outputs) :]]

    return repeated(node, length, [*outputs, *first], step)


def _slice_at(x: Term, at: Term, axis: int) -> Term:
    """The slice at an index along a dim, which is left out."""
    dims = static_dims(x)
    sizes = [1 if each == axis else dim for each, dim in enumerate(dims)]
    return box_at(x, [at] * len(dims), sizes).reshape(dims[:axis] + dims[axis + 1 :])


def _with_slice(x: Term, new: Term, at: Term, axis: int) -> Term:
    """A tensor with another slice at an index along a dim."""
    starts = [at if each == axis else at * 0 for each in range(len(x.shape))]
    return update_at(x, new.insert(axis), starts)


def tuple_(node: Node) -> Sequence[Term]:
    """All values together."""
    return node.operands


def get_tuple_element(node: Node) -> Sequence[Term]:
    """One of the values of a tuple."""
    counts = [parts_of(each) for each in leaves_of(node.op.operands[0].type, nested=False)]
    index = node.integer("index")
    first = sum(counts[:index])
    return node.operands[first : first + counts[index]]


def after_all(_: Node) -> Sequence[Term]:
    """A token, which stands for nothing: effects keep their order."""
    return []


def host_call(node: Node) -> Sequence[Term]:
    """What a function of the host returns; the last dim of complex arrays has both parts."""
    written = [each.type for each in node.op.results]
    pairs = [(2,) if is_complex(each) else () for each in written]
    held = [declared(each) for each in written]
    types = [
        tensor((*each.static, *pair), each.element) for each, pair in zip(held, pairs, strict=True)
    ]
    values = [each.value for each in joined_parts(node.operands, node.op.operands, node.b)]
    op = HostCallOp.of(node.text("backend_config"), values, types, node.b.location)
    found = [Term(node.b, result) for result in node.b.builder.insert(op).results]
    return separated(found, node.op.results)


CONTROL = {
    "after_all": after_all,
    "case": case,
    "get_tuple_element": get_tuple_element,
    "if": if_,
    "create_token": after_all,
    "map": map_,
    "tuple": tuple_,
    "while": while_,
}
"""By the name in StableHLO."""

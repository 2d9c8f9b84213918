"""ONNX's Loop -> control flow of the graph level.

A body is imported with the types of what the loop starts from; where it yields other dims, these
get names, and it is imported again until types repeat. Where only the first iteration changes a
rank or a dim of 1, which NumPy stretches, it stands in front of the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from functools import partial

import numpy as np
from msgspec import Struct
from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import Block, SSAValue

from weft.compiler.frontend.onnx.branches import SizeNames, agree, assumed, joined_sizes
from weft.compiler.frontend.onnx.importer import ControlTable, GraphImporter
from weft.compiler.frontend.onnx.node import OnnxNode, dims_attr, only, only_element
from weft.compiler.frontend.onnx.ops.sequences import bind_inputs, stacked
from weft.compiler.frontend.onnx.values import Results, Value, tensor_of
from weft.dialects.errors import ModelError, TypeInferenceError, UnsupportedError
from weft.dialects.expr import Expr, Symbol, maximum, minimum
from weft.dialects.graph import ConditionOp, DimsOp, ForOp, IfOp, WhileOp, YieldOp
from weft.dialects.graph.core.types import BOOL, I64, TensorType, tensor, type_of
from weft.dialects.graph.regions.control import defined_sizes
from weft.dialects.graph.regions.effects import AssertOp

MOST_ITERATIONS = 1024
"""Loops that carry sequences are imported iteration by iteration, up to this many."""


class _ChangesOnce(Exception):
    """The first iteration gives what is carried these types, which the others keep."""

    def __init__(self, types: Sequence[TensorType]) -> None:
        super().__init__()
        self.types = types


class _ChangesRank(UnsupportedError):
    """What is carried has another rank in each iteration."""


class LoopBody(Struct):
    """An imported body: its block, the names of carried dims that vary, and what it hands back."""

    block: Block
    sizes: list[str]
    results: list[SSAValue]


def import_body(
    importer: GraphImporter,
    node: OnnxNode,
    initial: Sequence[SSAValue],
    enter: Callable[[Block], Sequence[SSAValue]],
    skipped: int,
    *,
    peels: bool = False,
) -> LoopBody | None:
    """Imports the body until the carried types repeat.

    `enter` gives the values of the body's inputs in a block whose arguments are the carried values;
    carried results follow `skipped` others. None where a node of the body could not be imported.
    Raises _ChangesOnce where `peels` and that is what they do.
    """
    names = SizeNames(importer.fresh_size, f"{node.proto.name}_size")
    tensor_types = [type_of(value) for value in initial]
    equal = importer.constants.equal
    while True:
        found = _import_once(importer, node, tensor_types, enter, skipped)
        if found is None:
            return None
        block, values, yielded = found
        if peels and not names.used and any(map(_is_stretched, tensor_types, yielded)):
            again = _tried(importer, node, yielded, enter, skipped)
            if again is not None and all(map(partial(agree, equal=equal), yielded, again)):
                block.erase(safe_erase=False)
                raise _ChangesOnce(yielded)
        wider = [
            each if agree(each, other, equal) else _widened(each, other, names)
            for each, other in zip(tensor_types, yielded, strict=True)
        ]
        if wider == tensor_types:
            for position, each in enumerate(wider, skipped):
                if (op := assumed(values[position], each, equal)) is not None:
                    block.add_op(op)
                    values[position] = op.result
            return LoopBody(block, names.used, values)
        tensor_types = wider


def _import_once(
    importer: GraphImporter,
    node: OnnxNode,
    tensor_types: Sequence[TensorType],
    enter: Callable[[Block], Sequence[SSAValue]],
    skipped: int,
) -> tuple[Block, list[SSAValue], list[TensorType]] | None:
    """A block of the body for carried values of these types, what it gives, and the types of what
    it carries on.
    """
    with importer.nested(tensor_types) as block:
        bind_inputs(importer, node, enter(block))
        results = importer.import_subgraph(node.attribute("body").g)
    if None in results:
        return None
    values = [tensor_of(value) for value in results if value is not None]
    if len(values) < skipped + len(tensor_types):
        rule = f"requires a body of at least {skipped + len(tensor_types)} outputs"
        raise ModelError(f"{rule}, got {len(values)}")
    carried = values[skipped : skipped + len(tensor_types)]
    return block, values, [type_of(value) for value in carried]


def _tried(
    importer: GraphImporter,
    node: OnnxNode,
    tensor_types: Sequence[TensorType],
    enter: Callable[[Block], Sequence[SSAValue]],
    skipped: int,
) -> list[TensorType] | None:
    """The types that the body carries on from others; None where it cannot be imported so."""
    failures = len(importer.failures)
    found = _import_once(importer, node, tensor_types, enter, skipped)
    del importer.failures[failures:]
    if found is None:
        return None
    found[0].erase(safe_erase=False)
    return found[2]


def _is_stretched(tensor_type: TensorType, yielded: TensorType) -> bool:
    """Whether an iteration gives a value another rank, or another size for a 1."""
    if tensor_type.rank != yielded.rank:
        return True
    pairs = zip(tensor_type.shape, yielded.shape, strict=True)
    return any(dim == 1 and other != 1 for dim, other in pairs)


def _widened(tensor_type: TensorType, yielded: TensorType, names: SizeNames) -> TensorType:
    """The carried type that holds what an iteration yields as well."""
    if tensor_type.rank != yielded.rank:
        rule = "requires carried values of one rank, or a known number of iterations"
        raise _ChangesRank(f"{rule}, got one of {tensor_type}, then {yielded}")
    if tensor_type.element != yielded.element:
        raise UnsupportedError(f"requires a carried value of type {tensor_type}, got {yielded}")
    dims = [
        dim if dim == other or str(dim) in names.used else Expr.of(next(names))
        for dim, other in zip(tensor_type.shape, yielded.shape, strict=True)
    ]
    return tensor(dims, tensor_type.element)


def import_loop(importer: GraphImporter, node: OnnxNode) -> Results:
    """A count and a condition, both optional: `graph.for` where the body does not end the loop."""
    carried = [importer.lookup(name) for name in node.proto.input[2:]]
    if not all(isinstance(value, SSAValue) for value in carried):
        return _unrolled(importer, node, [value for value in carried if value is not None])
    initial = [node.operand(position) for position in range(2, len(node.operands))]
    limit = None if node.optional(0) is None else count_of(importer, node, node.operand(0))
    condition = node.optional(1)
    try:
        return _loop(importer, node, initial, limit, condition, 0)
    except _ChangesOnce as change:
        return _peeled(importer, node, initial, limit, condition, change.types)
    except _ChangesRank:
        if limit is None or limit.constant is None:
            raise
        return _unrolled(importer, node, initial)


def _loop(
    importer: GraphImporter,
    node: OnnxNode,
    initial: Sequence[SSAValue],
    limit: Expr | None,
    condition: SSAValue | None,
    first: int,
) -> Results:
    """The loop of iterations from the first on, of which there are as many as the limit."""
    keep = None if condition is None else importer.constants.constant_array(condition)
    starts = None if condition is None or keep is not None else node_reshape(importer, condition)
    if keep is not None and not only_element(keep, "a condition"):
        limit = Expr.of(0)
    index = importer.fresh_size(f"{node.proto.name}_iteration")
    if limit is not None and limit.constant:
        importer.constants.ranges[Symbol(index)] = (0, limit.constant - 1)

    def enter(block: Block) -> Sequence[SSAValue]:
        return _iteration(importer, Expr.of(index) + first, block.args)

    peels = first == 0 and limit != 0
    body = import_body(importer, node, initial, enter, 1, peels=peels)
    if body is None:
        return [None] * len(node.proto.output)
    constant = importer.constants.constant_array(body.results[0])
    goes_on = None if constant is None else only_element(constant, "a condition")
    if goes_on is None or (limit is None and goes_on):
        return _while(importer, node, index, limit, starts, initial, body)
    assert limit is not None or not goes_on, "a loop without an end is a while"
    iterations = Expr.of(1) if limit is None else limit
    if not goes_on:
        iterations = minimum([iterations, 1])
    if starts is not None:
        iterations = _count_where(importer, node, starts, iterations)
    return repeat(importer, node, iterations, index, initial, body, body.results[1:])


def _iteration(importer: GraphImporter, number: Expr, state: Sequence[SSAValue]) -> list[SSAValue]:
    """What the body of a loop is handed."""
    count = DimsOp.of(values=[number], scalar=UnitAttr(), location=importer.b.location)
    return [importer.b.builder.insert(count).results[0], importer.b.constant_of(True, BOOL), *state]


def _peeled(
    importer: GraphImporter,
    node: OnnxNode,
    initial: Sequence[SSAValue],
    limit: Expr | None,
    condition: SSAValue | None,
    changed: Sequence[TensorType],
) -> Results:
    """The first iteration, after which the state has the `changed` types, and a loop of the others;
    what there is without any where a call may have none.
    """
    runs = _runs(importer, node, limit, condition)
    ranks = [type_of(value).rank for value in initial]
    if runs is not None and ranks != [each.rank for each in changed]:
        text = "run requires an iteration of the loop, which gives its state another rank, got none"
        importer.b.builder.insert(AssertOp.of(runs, text, [], node.b.location))
        runs = None
    if runs is None:
        return _iterations(importer, node, initial, limit)
    with importer.nested() as some:
        results = _iterations(importer, node, initial, limit)
        values = [tensor_of(value) for value in results if value is not None]
        some.add_op(YieldOp.create(operands=values))
    if len(values) < len(results):
        return results
    inner = {name for op in some.walk() for name in defined_sizes(op)}
    with importer.nested() as none:
        stacks = [_no_rows(importer, type_of(value), inner) for value in values[len(initial) :]]
        none.add_op(YieldOp.create(operands=[*initial, *stacks]))
    names = SizeNames(importer.fresh_size, f"{node.proto.name}_size")
    sizes = joined_sizes([some, none], names, importer.constants.equal)
    return importer.b.builder.insert(IfOp.of(runs, some, none, sizes, node.b.location)).results


def _iterations(
    importer: GraphImporter, node: OnnxNode, initial: Sequence[SSAValue], limit: Expr | None
) -> Results:
    """An iteration, and a loop of the others."""
    with importer.named():
        bind_inputs(importer, node, _iteration(importer, Expr.of(0), initial))
        results = importer.import_subgraph(node.attribute("body").g)
    values = [tensor_of(value) for value in results if value is not None]
    if len(values) < len(results):
        return [None] * len(node.proto.output)
    goes_on, state, rows = values[0], values[1 : 1 + len(initial)], values[1 + len(initial) :]
    rest = _loop(importer, node, state, None if limit is None else limit - 1, goes_on, 1)
    others = [tensor_of(value) for value in rest[len(initial) :] if value is not None]
    if len(others) < len(rows):
        return rest
    firsts = (importer.b.reshape(row, shape=dims_attr([1, *type_of(row).shape])) for row in rows)
    stacks = [importer.b.concat(*pair, axis=0) for pair in zip(firsts, others, strict=True)]
    return [*rest[: len(initial)], *stacks]


def _runs(
    importer: GraphImporter, node: OnnxNode, limit: Expr | None, condition: SSAValue | None
) -> SSAValue | None:
    """Whether there is an iteration; None where there is one in every call."""
    b = importer.b
    low = 1 if limit is None else limit.range({})[0]
    some = None
    if limit is not None and (low is None or low < 1):
        some = b.less(b.constant_of(0, I64), scalar_dim(importer, limit))
    if condition is None or importer.constants.constant_array(condition) is not None:
        return some
    starts = node_reshape(importer, condition)
    return starts if some is None else b.logical_and(some, starts)


def _no_rows(importer: GraphImporter, tensor_type: TensorType, inner: AbstractSet[str]) -> SSAValue:
    """A stack of no rows; their dims are 0 where the iterations alone know them."""
    known = (
        dim if inner.isdisjoint(dim.symbols()) else Expr.of(0) for dim in tensor_type.shape[1:]
    )
    return importer.b.expand(
        importer.b.constant_of(0, tensor_type.element), shape=dims_attr([Expr.of(0), *known])
    )


def _unrolled(importer: GraphImporter, node: OnnxNode, state: Sequence[Value]) -> Results:
    """A loop that carries sequences or optionals, or values of a rank for each iteration: its body
    once for each.
    """
    graph = node.attribute("body").g
    limit = None if node.optional(0) is None else node.number(0, "a number of iterations")
    goes_on = node.optional(1) is None or _is_true(importer, node.operand(1))
    stacks: list[list[SSAValue]] = [[] for _ in graph.output[1 + len(state) :]]
    number = 0
    while goes_on and (limit is None or number < limit):
        if number == MOST_ITERATIONS:
            rule = f"requires at most {MOST_ITERATIONS} iterations of a loop that carries sequences"
            raise UnsupportedError(f"{rule}, got {limit or 'more'}")
        with importer.named():
            count = scalar_dim(importer, Expr.of(number))
            bind_inputs(importer, node, [count, importer.b.constant_of(True, BOOL), *state])
            results = importer.import_subgraph(graph)
        values = [value for value in results if value is not None]
        if len(values) < len(results):
            return [None] * len(node.proto.output)
        goes_on = _is_true(importer, tensor_of(values[0]))
        for stack, value in zip(stacks, values[1 + len(state) :], strict=True):
            stack.append(tensor_of(value))
        state = values[1 : 1 + len(state)]
        number += 1
    if stacks and not number:
        raise UnsupportedError("requires an iteration that gives what is stacked, got none")
    return [*state, *(stacked(node, stack, 0) for stack in stacks)]


def _is_true(importer: GraphImporter, condition: SSAValue) -> bool:
    """The condition of a loop that is imported iteration by iteration."""
    constant = importer.constants.constant_array(condition)
    if constant is None:
        rule = "requires a condition that is known while compiling, beside sequences"
        raise UnsupportedError(f"{rule}, got one that depends on data")
    return bool(only_element(constant, "a condition"))


def repeat(
    importer: GraphImporter,
    node: OnnxNode,
    iterations: Expr,
    index: str,
    initial: Sequence[SSAValue],
    body: LoopBody,
    results: Sequence[SSAValue],
) -> Sequence[SSAValue]:
    body.block.add_op(YieldOp.create(operands=list(results)))
    try:
        op = ForOp.of(iterations, index, initial, body.block, body.sizes, node.b.location)
    except TypeInferenceError as error:
        raise UnsupportedError(str(error)) from error
    return importer.b.builder.insert(op).results


def _while(
    importer: GraphImporter,
    node: OnnxNode,
    index: str,
    limit: Expr | None,
    starts: SSAValue | None,
    initial: Sequence[SSAValue],
    body: LoopBody,
) -> Sequence[SSAValue]:
    """The loop whose condition is carried in front of the other values."""
    first = importer.b.constant_of(True, BOOL) if starts is None else starts
    flag = tensor([], BOOL)
    body.block.insert_arg(flag, 0)
    with importer.continued(body.block):
        goes_on = node_reshape(importer, body.results[0])
        body.block.add_op(YieldOp.create(operands=[goes_on, *body.results[1:]]))
    with importer.nested([argument.type for argument in body.block.args]) as test:  # pyright: ignore[reportArgumentType]
        holds: SSAValue = test.args[0]
        if limit is not None:
            b = importer.b
            round_, end = (scalar_dim(importer, dim) for dim in (Expr.of(index), limit))
            holds = b.logical_and(holds, b.less(round_, end))
        test.add_op(ConditionOp.create(operands=[holds]))
    count = importer.fresh_size(f"{node.proto.name}_iterations")
    try:
        op = WhileOp.of(
            index, count, [first, *initial], test, body.block, body.sizes, node.b.location
        )
    except TypeInferenceError as error:
        raise UnsupportedError(str(error)) from error
    return importer.b.builder.insert(op).results[1:]


def node_reshape(importer: GraphImporter, value: SSAValue) -> SSAValue:
    """A tensor of one element as a scalar."""
    return value if type_of(value).rank == 0 else importer.b.reshape(value, shape=dims_attr([]))


def for_each(
    importer: GraphImporter,
    node: OnnxNode,
    iterations: Expr,
    initial: Sequence[SSAValue],
    body: Callable[[Sequence[SSAValue]], Sequence[SSAValue]],
) -> Sequence[SSAValue]:
    """A loop that an importer writes: `body` gives what is carried and stacked, of fixed types."""
    index = importer.fresh_size(f"{node.proto.name}_iteration")
    with importer.nested([type_of(value) for value in initial]) as block:
        results = list(body(block.args))
    return repeat(importer, node, iterations, index, initial, LoopBody(block, [], results), results)


def scalar_dim(importer: GraphImporter, dim: Expr) -> SSAValue:
    """A size as an i64 of rank 0."""
    if dim.constant is not None:
        return importer.b.constant_of(np.array(dim.constant, np.int64), I64)
    return importer.b.builder.insert(DimsOp.of(values=[dim], scalar=UnitAttr())).results[0]


def count_of(importer: GraphImporter, node: OnnxNode, value: SSAValue) -> Expr:
    """A number of iterations: an expression, or a size that the program finds."""
    exprs = importer.constants.dims(value)
    if exprs is not None:
        count = only(exprs, "a number of iterations")
        low, _ = count.range({})
        return count if low is not None and low >= 0 else maximum([count, 0])
    scalar = node.cast(node.reshape(value, []), I64)
    return importer.bind_size(importer.b.max(scalar, importer.b.constant_of(0, I64)), "count")


def _count_where(
    importer: GraphImporter, node: OnnxNode, starts: SSAValue, iterations: Expr
) -> Expr:
    count = importer.b.where(
        starts, scalar_dim(importer, iterations), importer.b.constant_of(0, I64)
    )
    return importer.bind_size(count, "count")


IMPORTERS: ControlTable = {"Loop": import_loop}
"""Importers of what holds graphs, by ONNX operator."""

"""ONNX's Loop and Scan -> control flow of the graph level.

A body is imported with the types of what the loop starts from; where it yields other dims, these
get names, and it is imported again until types repeat.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from msgspec import Struct
from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import Block, SSAValue

from weft.compiler.frontend.onnx.branches import SizeNames, agree, assumed
from weft.compiler.frontend.onnx.importer import ControlTable, GraphImporter
from weft.compiler.frontend.onnx.node import OnnxNode, dims_attr, normal_axis, only, only_element
from weft.compiler.frontend.onnx.ops.sequences import bind_inputs, stacked
from weft.compiler.frontend.onnx.values import Results, Value, tensor_of
from weft.dialects.errors import ModelError, TypeInferenceError, UnsupportedError
from weft.dialects.expr import Expr, Symbol, maximum, minimum
from weft.dialects.graph import ConditionOp, DimsOp, ForOp, WhileOp, YieldOp
from weft.dialects.graph.core.broadcast import agreed_dim
from weft.dialects.graph.core.types import BOOL, I64, TensorType, tensor, type_of

MOST_ITERATIONS = 1024
"""Loops that carry sequences are imported iteration by iteration, up to this many."""


class _Body(Struct):
    """An imported body: its block, the names of carried dims that vary, and what it hands back."""

    block: Block
    sizes: list[str]
    results: list[SSAValue]


def _import_body(
    importer: GraphImporter,
    node: OnnxNode,
    initial: Sequence[SSAValue],
    enter: Callable[[Block], Sequence[SSAValue]],
    skipped: int,
) -> _Body | None:
    """Imports the body until the carried types repeat.

    `enter` gives the values of the body's inputs in a block whose arguments are the carried values;
    carried results follow `skipped` others. None where a node of the body could not be imported.
    """
    graph = node.attribute("body").g
    names = SizeNames(importer.fresh_size, f"{node.proto.name}_size")
    tensor_types = [type_of(value) for value in initial]
    while True:
        with importer.nested(tensor_types) as block:
            bind_inputs(importer, node, enter(block))
            results = importer.import_subgraph(graph)
        if None in results:
            return None
        values = [tensor_of(value) for value in results if value is not None]
        if len(values) < skipped + len(tensor_types):
            rule = f"requires a body of at least {skipped + len(tensor_types)} outputs"
            raise ModelError(f"{rule}, got {len(values)}")
        yielded = [type_of(value) for value in values[skipped : skipped + len(tensor_types)]]
        equal = importer.constants.equal
        wider = [
            each if agree(each, other, equal) else _widened(each, other, names)
            for each, other in zip(tensor_types, yielded, strict=True)
        ]
        if wider == tensor_types:
            for position, each in enumerate(wider, skipped):
                if (op := assumed(values[position], each, equal)) is not None:
                    block.add_op(op)
                    values[position] = op.result
            return _Body(block, names.used, values)
        tensor_types = wider


def _widened(tensor_type: TensorType, yielded: TensorType, names: SizeNames) -> TensorType:
    """The carried type that holds what an iteration yields as well."""
    if tensor_type.rank != yielded.rank or tensor_type.element != yielded.element:
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
    condition = node.optional(1)
    keep = None if condition is None else importer.constants.constant_array(condition)
    starts = None if condition is None or keep is not None else node.reshape(condition, [])
    if keep is not None and not only_element(keep, "a condition"):
        limit: Expr | None = Expr.of(0)
    else:
        limit = None if node.optional(0) is None else count_of(importer, node, node.operand(0))
    index = importer.fresh_size(f"{node.proto.name}_iteration")
    if limit is not None and limit.constant:
        importer.constants.ranges[Symbol(index)] = (0, limit.constant - 1)

    def enter(block: Block) -> Sequence[SSAValue]:
        count = DimsOp.of(values=[Expr.of(index)], scalar=UnitAttr(), location=importer.b.location)
        number = importer.b.builder.insert(count).results[0]
        return [number, importer.b.constant_of(True, BOOL), *block.args]

    body = _import_body(importer, node, initial, enter, 1)
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
    return _for(importer, node, iterations, index, initial, body, body.results[1:])


def _unrolled(importer: GraphImporter, node: OnnxNode, state: list[Value]) -> Results:
    """A loop that carries sequences or optionals: its body once for each iteration."""
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


def _for(
    importer: GraphImporter,
    node: OnnxNode,
    iterations: Expr,
    index: str,
    initial: Sequence[SSAValue],
    body: _Body,
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
    body: _Body,
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
    return _for(importer, node, iterations, index, initial, _Body(block, [], results), results)


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


# Scan -----------------------------------------------------------------------------------------


def import_scan(importer: GraphImporter, node: OnnxNode) -> Results:
    """A body for each position of an axis of the scanned inputs."""
    graph = node.attribute("body").g
    scanned_count = node.attribute("num_scan_inputs").i
    operands = [node.operand(position) for position in range(len(node.operands))]
    initial = operands[: len(operands) - scanned_count]
    scanned = operands[len(initial) :]
    if len(scanned) != scanned_count:
        rule = f"num_scan_inputs requires 1 to {len(operands)}"
        raise ModelError(f"{rule}, got {scanned_count}")
    axes = _for_each(node, "scan_input_axes", scanned_count)
    axes = [normal_axis(axis, type_of(x).rank) for axis, x in zip(axes, scanned, strict=True)]
    counts = {type_of(x).shape[axis] for x, axis in zip(scanned, axes, strict=True)}
    count = agreed_dim(counts)
    if count is None:
        listed = ", ".join(map(str, counts))
        raise ModelError(f"requires scanned inputs of one length, got {listed}")
    rule = "scanned inputs of one length, {}"
    scanned = [
        node.assume_size(x, axis, count, rule) for x, axis in zip(scanned, axes, strict=True)
    ]
    index = importer.fresh_size(f"{node.proto.name}_iteration")
    backward = _for_each(node, "scan_input_directions", scanned_count)

    def enter(block: Block) -> Sequence[SSAValue]:
        elements = [
            _element(importer, x, axis, count - 1 - Expr.of(index) if reverse else Expr.of(index))
            for x, axis, reverse in zip(scanned, axes, backward, strict=True)
        ]
        return [*block.args, *elements]

    body = _import_body(importer, node, initial, enter, 0)
    if body is None:
        return [None] * len(graph.output)
    results = list(_for(importer, node, count, index, initial, body, body.results))
    stacked = results[len(initial) :]
    directions = _for_each(node, "scan_output_directions", len(stacked))
    positions = _for_each(node, "scan_output_axes", len(stacked))
    for position, value in enumerate(stacked):
        value = _reversed(importer, value, count) if directions[position] else value
        results[len(initial) + position] = _moved(importer, value, positions[position])
    return results


def _for_each(node: OnnxNode, name: str, count: int) -> list[int]:
    """An attribute with an integer for each of so many values, by default 0."""
    numbers = node.integers(name, [0] * count)
    if len(numbers) != count:
        raise ModelError(f"{name} requires {count} integers, got {len(numbers)}")
    return numbers


def _element(importer: GraphImporter, value: SSAValue, axis: int, position: Expr) -> SSAValue:
    """What the value holds at one position of an axis."""
    shape = type_of(value).shape
    starts = [position if each == axis else Expr.of(0) for each in range(len(shape))]
    sizes = [Expr.of(1) if each == axis else dim for each, dim in enumerate(shape)]
    part = importer.b.slice(
        value, starts=dims_attr(starts), sizes=dims_attr(sizes), steps=[1] * len(shape)
    )
    rest = [dim for each, dim in enumerate(shape) if each != axis]
    return importer.b.reshape(part, shape=dims_attr(rest))


def _reversed(importer: GraphImporter, value: SSAValue, count: Expr) -> SSAValue:
    shape = type_of(value).shape
    starts = [count - 1, *(Expr.of(0) for _ in shape[1:])]
    return importer.b.slice(
        value, starts=dims_attr(starts), sizes=dims_attr(shape), steps=[-1, *(1 for _ in shape[1:])]
    )


def _moved(importer: GraphImporter, value: SSAValue, axis: int) -> SSAValue:
    """The first axis at that place."""
    rank = type_of(value).rank
    order = list(range(1, rank))
    order.insert(normal_axis(axis, rank), 0)
    return value if axis == 0 else importer.b.transpose(value, permutation=order)


IMPORTERS: ControlTable = {"Loop": import_loop, "Scan": import_scan}
"""Importers of what holds graphs, by ONNX operator."""

"""ONNX's operators on sequences and optionals, which leave tensors alone in the graph."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from weft.compiler.frontend.onnx.importer import ControlTable, GraphImporter
from weft.compiler.frontend.onnx.node import OnnxNode, dims_attr, normal_axis
from weft.compiler.frontend.onnx.values import (
    Nothing,
    Results,
    SequenceValue,
    Value,
    forms,
    tensor_of,
)
from weft.dialects.errors import ModelError, UnsupportedError
from weft.dialects.expr import Expr, minimum
from weft.dialects.graph.core.bounds_check import require_inside
from weft.dialects.graph.core.types import BOOL, I64, type_of

MOST_ELEMENTS = 4096
"""Sequences of more elements than this are refused: each is a value of the graph."""


def _operand(importer: GraphImporter, node: OnnxNode, position: int) -> Value:
    """An operand of any kind."""
    names = node.proto.input
    value = importer.lookup(names[position]) if position < len(names) and names[position] else None
    if value is None:
        raise ModelError(f"{node.proto.op_type} requires operand {position}, got none")
    return value


def _sequence(importer: GraphImporter, node: OnnxNode) -> tuple[SSAValue, ...]:
    """The elements of the first operand."""
    value = _operand(importer, node, 0)
    if not isinstance(value, SequenceValue):
        raise UnsupportedError(f"requires a sequence, got {forms([value])[0]}")
    return value.items


def import_construct(importer: GraphImporter, node: OnnxNode) -> Results:
    """The operands in a row."""
    positions = range(len(node.proto.input))
    return [SequenceValue(tuple(tensor_of(_operand(importer, node, each)) for each in positions))]


def import_empty(importer: GraphImporter, node: OnnxNode) -> Results:
    """No elements."""
    return [SequenceValue(())]


def import_length(importer: GraphImporter, node: OnnxNode) -> Results:
    """How many elements there are, a constant."""
    return [importer.b.constant_of(len(_sequence(importer, node)), I64)]


def _position_in(node: OnnxNode, position: int, count: int, last: int) -> int:
    """A place in a sequence of so many, counted from the front; by default the last that may be."""
    if node.optional(position) is None:
        return last
    index = node.number(position, "a position in a sequence")
    if not -count <= index <= last:
        raise ModelError(f"requires a position from {-count} to {last}, got {index}")
    return index + count if index < 0 else index


def import_at(importer: GraphImporter, node: OnnxNode) -> Results:
    """One element; where only the program knows which, one of a stack of them all."""
    items = _sequence(importer, node)
    exprs = node.constants.dims(node.operand(1))
    if exprs is not None and all(each.constant is not None for each in exprs):
        return [items[_position_in(node, 1, len(items), len(items) - 1)]]
    item_types = {type_of(item) for item in items}
    if len(item_types) != 1:
        rule = "elements of one type, or a position that is known while compiling"
        raise UnsupportedError(f"requires {rule}, got {', '.join(map(str, item_types)) or 'none'}")
    position = node.cast(node.reshape(node.operand(1), []), I64)
    count = Expr.of(len(items))
    rule = f"a position from {-len(items)} to {len(items) - 1} of a sequence"
    require_inside(importer.b, position, -count, count - 1, rule)
    return [importer.b.gather(stacked(node, items, 0), position, axis=0)]


def import_insert(importer: GraphImporter, node: OnnxNode) -> Results:
    """The sequence with one more element, by default behind the others."""
    items = _sequence(importer, node)
    position = _position_in(node, 2, len(items), len(items))
    if len(items) == MOST_ELEMENTS:
        raise UnsupportedError(f"requires sequences of at most {MOST_ELEMENTS}, got more")
    element = tensor_of(_operand(importer, node, 1))
    return [SequenceValue((*items[:position], element, *items[position:]))]


def import_erase(importer: GraphImporter, node: OnnxNode) -> Results:
    """The sequence without one element, by default the last."""
    items = _sequence(importer, node)
    if not items:
        raise ModelError("requires a sequence that has elements, got an empty one")
    position = _position_in(node, 1, len(items), len(items) - 1)
    return [SequenceValue((*items[:position], *items[position + 1 :]))]


def import_concat(importer: GraphImporter, node: OnnxNode) -> Results:
    """All elements along an axis, which may be a new one."""
    items = _sequence(importer, node)
    if not items:
        raise UnsupportedError("requires a sequence that has elements, got an empty one")
    rank = type_of(items[0]).rank
    if node.flag("new_axis"):
        axis = normal_axis(node.attribute("axis").i, rank + 1)
        return [stacked(node, items, axis)]
    axis = normal_axis(node.attribute("axis").i, rank)
    return [items[0] if len(items) == 1 else importer.b.concat(*items, axis=axis)]


def stacked(node: OnnxNode, items: Sequence[SSAValue], axis: int) -> SSAValue:
    """The elements along a new axis."""
    rows: list[SSAValue] = []
    for item in items:
        shape = type_of(item).shape
        rows.append(node.reshape(item, [*shape[:axis], Expr.of(1), *shape[axis:]]))
    return rows[0] if len(rows) == 1 else node.b.concat(*rows, axis=axis)


def import_split(importer: GraphImporter, node: OnnxNode) -> Results:
    """Parts of an axis: of the sizes that a vector lists, of one size, or single places."""
    source, shape = node.operand(0), node.shape()
    axis = normal_axis(node.integer("axis", 0), len(shape))
    is_given = node.optional(1) is not None
    sizes = _part_sizes(node, shape[axis], is_given)
    source = node.assume_size(source, axis, sum(sizes, Expr.of(0)), "sizes that sum to {}")
    shape = type_of(source).shape
    starts = [Expr.of(0) for _ in shape]
    items: list[SSAValue] = []
    for size in sizes:
        extents = [size if each == axis else dim for each, dim in enumerate(shape)]
        part = importer.b.slice(
            source, starts=dims_attr(starts), sizes=dims_attr(extents), steps=[1] * len(shape)
        )
        starts[axis] += size
        if not is_given and not node.flag("keepdims", default=True):
            part = node.reshape(part, [dim for each, dim in enumerate(shape) if each != axis])
        items.append(part)
    return [SequenceValue(tuple(items))]


def _part_sizes(node: OnnxNode, dim: Expr, is_given: bool) -> list[Expr]:
    """The sizes of the parts of an axis."""
    if is_given and node.type(1).rank == 1:
        return node.found_dims(1)
    size = node.number(1, "a size") if is_given else 1
    if size < 1:
        raise ModelError(f"requires parts of at least 1, got {size}")
    if dim.constant is None:
        rule = "requires an axis whose size is known while compiling"
        raise UnsupportedError(f"{rule}, got {dim}")
    if dim.constant > MOST_ELEMENTS * size:
        raise UnsupportedError(f"requires sequences of at most {MOST_ELEMENTS}, got more")
    return [minimum([dim - start, size]) for start in range(0, dim.constant, size)]


def import_map(importer: GraphImporter, node: OnnxNode) -> Results:
    """A body for each element: sequences are walked together, tensors handed to every iteration."""
    graph = node.attribute("body").g
    inputs = [_operand(importer, node, each) for each in range(len(node.proto.input))]
    count = len(_sequence(importer, node))
    iterations: list[list[SSAValue]] = []
    for number in range(count):
        given = [_element(value, number, count) for value in inputs]
        with importer.named():
            bind_inputs(importer, node, given)
            results = importer.import_subgraph(graph)
        values = [tensor_of(value) for value in results if value is not None]
        if len(values) < len(results):
            return [None] * len(results)
        iterations.append(values)
    columns = zip(*iterations, strict=True) if iterations else [() for _ in graph.output]
    return [SequenceValue(tuple(column)) for column in columns]


def _element(value: Value, number: int, count: int) -> Value:
    """What an iteration of a map is handed of an operand."""
    if not isinstance(value, SequenceValue):
        return value
    if len(value.items) != count:
        raise ModelError(f"requires sequences of one length, got {count} and {len(value.items)}")
    return value.items[number]


def bind_inputs(importer: GraphImporter, node: OnnxNode, given: Sequence[Value]) -> None:
    """Names what the body of a node is handed."""
    graph = node.attribute("body").g
    if len(given) != len(graph.input):
        raise ModelError(f"requires a body of {len(given)} inputs, got {len(graph.input)}")
    importer.values.update(zip((each.name for each in graph.input), given, strict=True))


def import_optional(importer: GraphImporter, node: OnnxNode) -> Results:
    """What there is, or nothing."""
    return [_operand(importer, node, 0) if any(node.proto.input) else Nothing()]


def import_has_element(importer: GraphImporter, node: OnnxNode) -> Results:
    """Whether there is anything, a constant."""
    holds = any(node.proto.input) and not isinstance(_operand(importer, node, 0), Nothing)
    return [importer.b.constant_of(holds, BOOL)]


def import_get_element(importer: GraphImporter, node: OnnxNode) -> Results:
    """What an optional holds."""
    value = _operand(importer, node, 0)
    if isinstance(value, Nothing):
        raise UnsupportedError(f"requires an optional that holds something, got {value}")
    return [value]


def import_identity(importer: GraphImporter, node: OnnxNode) -> Results:
    """The operand, of any kind."""
    return [_operand(importer, node, 0)]


IMPORTERS: ControlTable = {
    "ConcatFromSequence": import_concat,
    "Identity": import_identity,
    "Optional": import_optional,
    "OptionalGetElement": import_get_element,
    "OptionalHasElement": import_has_element,
    "SequenceAt": import_at,
    "SequenceConstruct": import_construct,
    "SequenceEmpty": import_empty,
    "SequenceErase": import_erase,
    "SequenceInsert": import_insert,
    "SequenceLength": import_length,
    "SequenceMap": import_map,
    "SplitToSequence": import_split,
}
"""Importers of what gives or takes sequences and optionals, by ONNX operator."""

"""ONNX's Scan -> a loop of the graph level, an iteration for each position of an axis."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Block, SSAValue

from weft.compiler.frontend.onnx.importer import ControlTable, GraphImporter
from weft.compiler.frontend.onnx.node import OnnxNode, dims_attr, normal_axis
from weft.compiler.frontend.onnx.ops.control import import_body, repeat
from weft.compiler.frontend.onnx.values import Results
from weft.dialects.errors import ModelError
from weft.dialects.expr import Expr
from weft.dialects.graph.core.broadcast import agreed_dim
from weft.dialects.graph.core.types import type_of


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

    body = import_body(importer, node, initial, enter, 0)
    if body is None:
        return [None] * len(graph.output)
    results = list(repeat(importer, node, count, index, initial, body, body.results))
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


IMPORTERS: ControlTable = {"Scan": import_scan}
"""Importers of what holds graphs, by ONNX operator."""

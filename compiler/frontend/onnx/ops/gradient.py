"""ONNX's Gradient (`ai.onnx.preview.training`): derivatives of one value of the graph in others."""

from __future__ import annotations

from collections.abc import Sequence

from onnx import NodeProto
from xdsl.ir import Operation, SSAValue

from weft.compiler.frontend.onnx.graph import used_names
from weft.compiler.frontend.onnx.importer import ControlTable, GraphImporter
from weft.compiler.frontend.onnx.node import OnnxNode, decode
from weft.compiler.frontend.onnx.values import Results
from weft.dialects.errors import ModelError, UnsupportedError
from weft.dialects.graph import GraphOp
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.types import FLOATS, type_of


def import_gradient(importer: GraphImporter, node: OnnxNode) -> Results:
    """The derivatives of the sum of `y` in each of `xs`, where these and `zs` have the values of
    the operands: what computes `y` from them is computed once more.
    """
    xs, zs = ([decode(each) for each in _strings(node, name)] for name in ("xs", "zs"))
    y = node.text("y", "")
    if len(node.present()) != len(xs) + len(zs) or not xs:
        rule = f"requires an operand for each of {', '.join([*xs, *zs]) or 'xs'}"
        raise ModelError(f"{rule}, got {len(node.present())}")
    given = [importer.b.identity(each) for each in node.present()]
    last = importer.block.last_op
    with importer.named():
        names = dict(zip([*xs, *zs], given, strict=True))
        importer.values.update(names)
        nodes = _between(importer.model.proto.graph.node, names, y)
        if y not in names and not nodes:
            raise ModelError(f"requires a y that nodes compute, got '{y}'")
        importer.import_nodes(nodes, [y])
        result = importer.value(y)
    if result is None:
        return [None] * len(node.proto.output)
    element = type_of(result).element
    if element not in FLOATS:
        raise ModelError(f"requires floats as y, got {type_of(result)}")
    ops: list[Operation] = []
    while last is not None and (last := last.next_op) is not None:
        ops.append(last)
    return cotangents(importer.b, ops, result, given[: len(xs)])


def _strings(node: OnnxNode, name: str) -> Sequence[bytes]:
    return node.attribute(name).strings if node.has(name) else ()


def _between(nodes: Sequence[NodeProto], names: dict[str, SSAValue], y: str) -> list[NodeProto]:
    """The nodes that a value needs, of those behind values of these names."""
    needed, found = {y} - names.keys(), list[NodeProto]()
    for node in reversed(nodes):
        if not needed.isdisjoint(node.output):
            needed |= used_names(node) - names.keys()
            found.append(node)
    return found[::-1]


def cotangents(
    b: GraphBuilder, ops: Sequence[Operation], result: SSAValue, inputs: Sequence[SSAValue]
) -> list[SSAValue]:
    """The derivatives of the sum of a result in inputs, from which the operators compute it. Raises
    UnsupportedError for control flow, and operators without a derivative.
    """
    reached = set(inputs)
    for op in ops:
        if not reached.isdisjoint(op.operands):
            reached.update(op.results)
    found = {result: b.filled(1.0, result)}
    for op in reversed(ops):
        arriving = [found.get(each) for each in op.results]
        if all(each is None for each in arriving) or reached.isdisjoint(op.results):
            continue
        if not isinstance(op, GraphOp) or not op.has_vjp():
            raise UnsupportedError(f"requires operators with derivatives, got {op.name}")
        whole = [
            b.filled(0.0, value) if each is None else each
            for value, each in zip(op.results, arriving, strict=True)
        ]
        for value, each in zip(op.operands, op.vjp(whole, b), strict=True):
            if each is not None and value in reached:
                found[value] = b.add(found[value], each) if value in found else each
    return [found[each] if each in found else b.filled(0.0, each) for each in inputs]


IMPORTERS: ControlTable = {"Gradient": import_gradient}
"""Importers of what needs the graph around its node, by ONNX operator."""

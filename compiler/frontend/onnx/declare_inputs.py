"""Inputs of an ONNX graph -> arguments of the graph function: one of a tensor or a map, two of
strings.
"""

from __future__ import annotations

from functools import partial

from onnx import TensorProto, ValueInfoProto
from xdsl.ir import SSAValue

from weft.compiler.frontend.onnx.importer import GraphImporter
from weft.compiler.frontend.onnx.load import LoadedModel
from weft.compiler.frontend.onnx.signature import input_dims, input_type, name_hint
from weft.compiler.frontend.onnx.strings.maps import element_of, keys_of
from weft.compiler.frontend.onnx.strings.spans import declared
from weft.compiler.frontend.string_outputs import STRING_PARTS
from weft.dialects.errors import UnsupportedError
from weft.dialects.expr import Expr, product
from weft.dialects.graph.core.types import I64, UI8, ShapeAttr, TensorType, tensor


def declare_inputs(model: LoadedModel, importer: GraphImporter) -> list[UnsupportedError]:
    """Makes arguments of the inputs; returns why some are none, whose users are skipped then."""
    refused: list[UnsupportedError] = []
    for value in model.proto.graph.input:
        try:
            importer.values[value.name] = _declared(importer, value)
        except UnsupportedError as error:
            refused.append(error)
            importer.values[value.name] = None
    return refused


def _declared(importer: GraphImporter, value: ValueInfoProto) -> SSAValue:
    """What nodes read of an input."""
    if value.type.tensor_type.elem_type == TensorProto.STRING:
        return _strings(importer, value)
    if value.type.WhichOneof("value") == "map_type":
        return _map(importer, value)
    return _argument(importer, input_type(value, importer.symbols, importer.ranks.of), value.name)


def _argument(importer: GraphImporter, tensor_type: TensorType, name: str) -> SSAValue:
    argument = importer.block.insert_arg(tensor_type, len(importer.block.args))
    argument.name_hint = name_hint(name)
    return argument


def _strings(importer: GraphImporter, value: ValueInfoProto) -> SSAValue:
    """Two arguments of an input of strings, and numbers of these."""
    name, dims = value.name, input_dims(value, importer.symbols, importer.ranks.of)
    ends = _argument(importer, tensor(dims, I64), name + STRING_PARTS[0])
    size = Expr.of(importer.symbols.fresh(f"{name}_bytes"))
    data = _argument(importer, tensor([size], UI8), name + STRING_PARTS[1])
    flat = importer.b.reshape(ends, shape=ShapeAttr((product(dims),)))
    constant = partial(importer.insert_constant, importer.b, name)
    importer.strings.spans[name] = spans = declared(importer.b, flat, data, tuple(dims))
    return importer.strings.vocabulary.find(importer.b, constant, spans)


def _map(importer: GraphImporter, value: ValueInfoProto) -> SSAValue:
    """Rows of numbers of an input that is a map: a column for each key."""
    name, nodes = value.name, importer.model.proto.graph.node
    importer.maps[name] = keys = keys_of(value, nodes)
    rows = Expr.of(importer.symbols.fresh(f"{name}_rows"))
    return _argument(importer, tensor([rows, len(keys)], element_of(value)), name)

"""One or two faults put into a valid ONNX model: in fields, types, shapes, attributes, initialisers
and the file's bytes.
"""

from __future__ import annotations

from collections.abc import Callable, MutableSequence, Sequence
from typing import Any

import numpy as np
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto

INTEGERS = (0, 1, -1, 2, 3, 7, -7, 64, 1000, 2**31 - 1, -(2**31), 2**31 + 1, 2**62, -(2**63))
"""Values of dims, axes and other integers."""

FLOATS = (0.0, -0.0, 1.0, -1.0, 0.5, 1e30, -1e30, 1e-40, float("inf"), float("-inf"), float("nan"))
TEXTS = ("", "linear", "NOTSET", "SAME_UPPER", "\x1b[31m", "a" * 5000, "é", "none", "*/", "zz")
OPERATORS = (
    *("Add", "Relu", "Reshape", "Concat", "Transpose", "MatMul", "Gather", "Slice", "Cast"),
    *("Softmax", "Conv", "MaxPool", "ReduceSum", "Where", "Expand", "Tile", "Pad", "Squeeze"),
    *("Split", "TopK", "Einsum", "Identity", "Shape", "Loop", "If", "ConstantOfShape", "GRU"),
)

Change = Callable[[ModelProto, np.random.Generator], None]


def mutant(model: ModelProto, chance: np.random.Generator) -> tuple[str, bytes]:
    """What was changed, and the file; the same for the same state of `chance`."""
    changed = ModelProto()
    changed.CopyFrom(model)
    names: list[str] = []
    for _ in range(1 + (chance.random() < 0.3)):
        change = CHANGES[chance.integers(len(CHANGES))]
        change(changed, chance)
        names.append(change.__name__.lstrip("_"))
    data = changed.SerializeToString()
    if chance.random() < 0.15:
        names.append("bytes")
        data = _damaged(data, chance)
    return "+".join(names), data


def _damaged(data: bytes, chance: np.random.Generator) -> bytes:
    """Some bytes other, missing, doubled, or the end cut off."""
    out = bytearray(data)
    kind = chance.integers(4)
    at = int(chance.integers(max(len(out), 1)))
    if kind == 0:
        for _ in range(int(chance.integers(1, 5))):
            out[int(chance.integers(len(out)))] = int(chance.integers(256))
    elif kind == 1:
        del out[at : at + int(chance.integers(1, 9))]
    elif kind == 2:
        out[at:at] = out[at : at + int(chance.integers(1, 17))]
    else:
        del out[at:]
    return bytes(out)


def _pick(items: Sequence[Any], chance: np.random.Generator) -> Any:
    return items[int(chance.integers(len(items)))] if len(items) else None


def _graphs(model: ModelProto) -> list[GraphProto]:
    found = [model.graph]
    for graph in found:
        for node in graph.node:
            found += [each.g for each in node.attribute if each.type == AttributeProto.GRAPH]
    return found


def _nodes(model: ModelProto) -> list[NodeProto]:
    own = [node for graph in _graphs(model) for node in graph.node]
    return own + [node for function in model.functions for node in function.node]


def _values(model: ModelProto) -> list[ValueInfoProto]:
    return [
        value
        for graph in _graphs(model)
        for value in (*graph.input, *graph.output, *graph.value_info)
    ]


def _tensors(model: ModelProto) -> list[TensorProto]:
    own = [tensor for graph in _graphs(model) for tensor in graph.initializer]
    attributes = [each for node in _nodes(model) for each in node.attribute]
    return own + [each.t for each in attributes if each.type == AttributeProto.TENSOR]


def _names(model: ModelProto) -> list[str]:
    names = [value.name for value in _values(model)]
    names += [name for node in _nodes(model) for name in (*node.input, *node.output)]
    return sorted({name for name in names if name})


def _shuffle_list(items: MutableSequence[Any], chance: np.random.Generator) -> None:
    """An element left out, doubled, or swapped with another."""
    if not items:
        return
    at, other = (int(chance.integers(len(items))) for _ in range(2))
    kind = chance.integers(3)
    copies = list(items)
    if kind == 0:
        del copies[at]
    elif kind == 1:
        copies.insert(other, copies[at])
    else:
        copies[at], copies[other] = copies[other], copies[at]
    del items[:]
    items.extend(copies)


def _element_type(model: ModelProto, chance: np.random.Generator) -> None:
    value = _pick(_values(model), chance)
    if value is not None:
        value.type.tensor_type.elem_type = int(chance.integers(0, 28))


def _declared_dim(model: ModelProto, chance: np.random.Generator) -> None:
    value = _pick(_values(model), chance)
    dim = _pick(value.type.tensor_type.shape.dim, chance) if value is not None else None
    if dim is not None and chance.random() < 0.2:
        dim.dim_param = _pick(("n", "", "N + 1", "max", "\x1b[31m"), chance)
    elif dim is not None:
        dim.dim_value = _pick(INTEGERS, chance)


def _declared_rank(model: ModelProto, chance: np.random.Generator) -> None:
    value = _pick(_values(model), chance)
    if value is None:
        return
    dims = value.type.tensor_type.shape.dim
    kind = chance.integers(3)
    if kind == 0:
        value.type.tensor_type.ClearField("shape")
    elif kind == 1:
        dims.add(dim_value=int(_pick(INTEGERS, chance)))
    elif len(dims):
        del dims[int(chance.integers(len(dims)))]


def _declared_kind(model: ModelProto, chance: np.random.Generator) -> None:
    value = _pick(_values(model), chance)
    if value is None:
        return
    kind = chance.integers(4)
    if kind == 0:
        value.ClearField("type")
    elif kind == 1:
        value.type.sequence_type.elem_type.tensor_type.elem_type = 1
    elif kind == 2:
        value.type.optional_type.elem_type.tensor_type.elem_type = 1
    else:
        value.type.map_type.key_type = 7


def _value_name(model: ModelProto, chance: np.random.Generator) -> None:
    value = _pick(_values(model), chance)
    if value is not None:
        value.name = _pick([*_names(model), *TEXTS], chance)


def _value_list(model: ModelProto, chance: np.random.Generator) -> None:
    graph = _pick(_graphs(model), chance)
    _shuffle_list((graph.input, graph.output)[int(chance.integers(2))], chance)


def _node_values(model: ModelProto, chance: np.random.Generator) -> None:
    node = _pick(_nodes(model), chance)
    if node is not None:
        _shuffle_list((node.input, node.output)[int(chance.random() < 0.2)], chance)


def _node_value(model: ModelProto, chance: np.random.Generator) -> None:
    node = _pick(_nodes(model), chance)
    if node is not None:
        names = (node.input, node.output)[int(chance.random() < 0.2)]
        if len(names):
            names[int(chance.integers(len(names)))] = _pick([*_names(model), "", "no"], chance)


def _node_operator(model: ModelProto, chance: np.random.Generator) -> None:
    node = _pick(_nodes(model), chance)
    if node is not None:
        node.op_type = _pick([*OPERATORS, "", "NoSuch", "\x1b[31m"], chance)


def _node_domain(model: ModelProto, chance: np.random.Generator) -> None:
    node = _pick(_nodes(model), chance)
    if node is not None:
        node.domain = _pick(("", "ai.onnx", "ai.onnx.ml", "com.microsoft", "x"), chance)


def _node_list(model: ModelProto, chance: np.random.Generator) -> None:
    _shuffle_list(_pick(_graphs(model), chance).node, chance)


def _attribute_value(model: ModelProto, chance: np.random.Generator) -> None:
    attribute = _pick([each for node in _nodes(model) for each in node.attribute], chance)
    if attribute is None:
        return
    lists = {AttributeProto.INTS: attribute.ints, AttributeProto.FLOATS: attribute.floats}
    if attribute.type == AttributeProto.INT:
        attribute.i = _pick(INTEGERS, chance)
    elif attribute.type == AttributeProto.FLOAT:
        attribute.f = _pick(FLOATS, chance)
    elif attribute.type == AttributeProto.STRING:
        attribute.s = _pick([text.encode() for text in TEXTS] + [b"\xff\0"], chance)
    elif attribute.type in lists and len(lists[attribute.type]):
        numbers = lists[attribute.type]
        hostile = INTEGERS if attribute.type == AttributeProto.INTS else FLOATS
        numbers[int(chance.integers(len(numbers)))] = _pick(hostile, chance)


def _attribute_list(model: ModelProto, chance: np.random.Generator) -> None:
    node = _pick([node for node in _nodes(model) if len(node.attribute)], chance)
    if node is None:
        return
    attribute = _pick(node.attribute, chance)
    if chance.random() < 0.5:
        _shuffle_list(node.attribute, chance)
    elif len(attribute.ints):
        _shuffle_list(attribute.ints, chance)
    elif len(attribute.floats):
        _shuffle_list(attribute.floats, chance)


def _attribute_type(model: ModelProto, chance: np.random.Generator) -> None:
    attribute = _pick([each for node in _nodes(model) for each in node.attribute], chance)
    if attribute is not None:
        attribute.type = int(chance.integers(0, 15))


def _attribute_added(model: ModelProto, chance: np.random.Generator) -> None:
    node = _pick(_nodes(model), chance)
    if node is not None:
        name = _pick(("axis", "axes", "to", "keepdims", "perm", "mode", "value", "zz"), chance)
        number = int(_pick(INTEGERS, chance))
        if chance.random() < 0.5:
            node.attribute.add(name=name, type=AttributeProto.INT, i=number)
        else:
            node.attribute.add(name=name, type=AttributeProto.INTS, ints=[number, 1])


def _tensor_type(model: ModelProto, chance: np.random.Generator) -> None:
    tensor = _pick(_tensors(model), chance)
    if tensor is not None:
        tensor.data_type = int(chance.integers(0, 28))


def _tensor_dims(model: ModelProto, chance: np.random.Generator) -> None:
    tensor = _pick(_tensors(model), chance)
    if tensor is not None and len(tensor.dims) and chance.random() < 0.7:
        tensor.dims[int(chance.integers(len(tensor.dims)))] = _pick(INTEGERS, chance)
    elif tensor is not None:
        _shuffle_list(tensor.dims, chance)


def _tensor_values(model: ModelProto, chance: np.random.Generator) -> None:
    """Numbers that a size, an axis or an index should not have."""
    tensor = _pick(_tensors(model), chance)
    if tensor is None or tensor.data_type not in (1, 6, 7, 11) or not tensor.raw_data:
        return
    kinds = {1: (np.float32, FLOATS), 6: (np.int32, INTEGERS), 7: (np.int64, INTEGERS)}
    kind, hostile = kinds.get(tensor.data_type, (np.float64, FLOATS))
    size = np.dtype(kind).itemsize
    array = np.frombuffer(tensor.raw_data[: len(tensor.raw_data) // size * size], kind).copy()
    for _ in range(int(chance.integers(1, 3)) if array.size else 0):
        number = np.array(_pick(hostile, chance))
        with np.errstate(over="ignore", invalid="ignore"):
            array[int(chance.integers(array.size))] = number.astype(kind)
    tensor.raw_data = array.tobytes()


def _tensor_bytes(model: ModelProto, chance: np.random.Generator) -> None:
    tensor = _pick(_tensors(model), chance)
    if tensor is not None:
        tensor.raw_data = _damaged(tensor.raw_data or b"\0" * 8, chance)


def _versions(model: ModelProto, chance: np.random.Generator) -> None:
    if chance.random() < 0.7 and len(model.opset_import):
        entry = _pick(model.opset_import, chance)
        entry.version = int(_pick((*range(1, 28), 0, -1, 2**31), chance))
    else:
        model.ir_version = int(_pick((0, 1, 3, 7, 10, 99, 2**31), chance))


CHANGES: tuple[Change, ...] = (
    _element_type,
    _declared_dim,
    _declared_rank,
    _declared_kind,
    _value_name,
    _value_list,
    _node_values,
    _node_value,
    _node_operator,
    _node_domain,
    _node_list,
    _attribute_value,
    _attribute_value,
    _attribute_list,
    _attribute_type,
    _attribute_added,
    _tensor_type,
    _tensor_dims,
    _tensor_values,
    _tensor_values,
    _tensor_bytes,
    _versions,
)

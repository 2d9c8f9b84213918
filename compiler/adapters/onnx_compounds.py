"""Sequences and optionals that a model takes: one input of its own for each tensor they hold.

The compiler knows how many tensors a sequence holds at each place, so a model that takes one is
compiled for a number of them, and for their shapes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
from onnx import ModelProto, NodeProto, TypeProto, helper

from weft.dialects.errors import InputError
from weft.dialects.weights import Array


def compound_inputs(model: ModelProto) -> dict[str, TypeProto]:
    """The types of the inputs that are no tensors, by name."""
    return {
        value.name: value.type
        for value in model.graph.input
        if value.type.WhichOneof("value") in ("sequence_type", "optional_type")
    }


def elements_of(name: str, value: Any) -> dict[str, Array]:
    """The tensors of a sequence `x` as `x/0`, ...; the one of an optional; none if it is empty."""
    if value is None:
        return {}
    if isinstance(value, (list, tuple)):
        items = cast(Sequence[Any], value)
        return {f"{name}/{position}": np.asarray(item) for position, item in enumerate(items)}
    return {f"{name}/value": np.asarray(value)}


def with_elements(model: ModelProto, values: Mapping[str, Any]) -> ModelProto:
    """The model with inputs for the tensors of these values, out of which it makes them itself."""
    if not values:
        return model
    bound = ModelProto()
    bound.CopyFrom(model)
    del bound.graph.input[:]
    makers: list[NodeProto] = []
    for given in model.graph.input:
        if given.name not in values:
            bound.graph.input.append(given)
            continue
        value = values[given.name]
        elements = elements_of(given.name, value)
        for name, array in elements.items():
            number = helper.np_dtype_to_tensor_dtype(array.dtype)
            bound.graph.input.append(helper.make_tensor_value_info(name, number, array.shape))
        makers += _makers(given.name, given.type, value, list(elements))
    nodes = [*makers, *bound.graph.node]
    del bound.graph.node[:]
    bound.graph.node.extend(nodes)
    return bound


def _makers(name: str, proto: TypeProto, value: Any, elements: list[str]) -> list[NodeProto]:
    """The nodes that make an input out of its tensors."""
    if proto.WhichOneof("value") == "optional_type":
        held = proto.optional_type.elem_type
        if value is None:
            return [helper.make_node("Optional", [], [name], type=held)]
        if held.WhichOneof("value") == "tensor_type":
            return [helper.make_node("Optional", elements, [name])]
        inner = f"{name}/value"
        return [
            *_makers(inner, held, value, elements),
            helper.make_node("Optional", [inner], [name]),
        ]
    if not isinstance(value, (list, tuple)):
        raise InputError(f"input '{name}' requires a list of arrays, got {type(value).__name__}")
    if elements:
        return [helper.make_node("SequenceConstruct", elements, [name])]
    dtype = proto.sequence_type.elem_type.tensor_type.elem_type
    return [helper.make_node("SequenceEmpty", [], [name], dtype=dtype)]


def gathered(names: Sequence[str], model: ModelProto, results: Mapping[str, Array]) -> list[Any]:
    """What the model returns under these names: an array, or a list where that is a sequence."""
    lists = {
        value.name
        for value in model.graph.output
        if value.type.WhichOneof("value") in ("sequence_type", "optional_type")
    }
    found: list[Any] = []
    for name in names:
        if name in results or name not in lists:
            found.append(results[name])
            continue
        positions = [f"{name}/{position}" for position in range(len(results))]
        found.append([results[each] for each in positions if each in results])
    return found

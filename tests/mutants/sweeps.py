"""Mutants in order instead of by chance: every axis of every operator at every version of it, and
every operand in other ranks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from onnx import AttributeProto, ModelProto, NodeProto, TensorProto, defs, helper, numpy_helper

from tests.mutants.corpus import NEWEST_OPSET, Seed, known_version, other_seeds, seeds

AXES = frozenset({"axis", "axes"})
DEFAULT_DOMAINS = ("", "ai.onnx")
LARGEST = 64
"""Elements of an operand that other ranks are tried of."""

Mutant = tuple[str, str, bytes, dict[str, np.ndarray]]
"""The model's name, the change, the file, and arrays."""


def mutants_of_axes() -> Iterator[Mutant]:
    """Axes at and beyond both ends of their range, at every version of each operator."""
    for seed in _samples():
        (node,) = seed.model.graph.node
        for version in _versions(node.op_type):
            for place, count in _axes(node, seed):
                rank = _rank(seed)
                for axis in sorted({-rank - 1, -rank, -1, 0, rank - 1, rank, rank + 1}):
                    model = _copy(seed.model, version)
                    _set_axis(model, place, [axis, *range(1, count)])
                    change = f"{node.op_type} {version} {place} {axis}"
                    yield seed.name, change, model.SerializeToString(), dict(seed.inputs)


def mutants_of_ranks() -> Iterator[Mutant]:
    """Each operand behind the first, and each lone one, without and with axes of 1, doubled, and
    without elements.
    """
    for seed in _samples():
        (node,) = seed.model.graph.node
        for position, name in enumerate(node.input):
            array = _constants(seed.model).get(name)
            if array is None:
                continue
            for shape, other in _reshaped(array):
                model = _copy(seed.model, None)
                _replace(model, name, other)
                change = f"{node.op_type} operand {position} {list(array.shape)} to {shape}"
                yield seed.name, change, model.SerializeToString(), dict(seed.inputs)


def mutants_of_attributes() -> Iterator[Mutant]:
    """Numbers and lists that attributes should not have, and another word."""
    for seed in _samples():
        (node,) = seed.model.graph.node
        for place, attribute in enumerate(node.attribute):
            for value in _others(attribute):
                model = _copy(seed.model, None)
                changed = helper.make_attribute(attribute.name, value, attr_type=attribute.type)
                model.graph.node[0].attribute[place].CopyFrom(changed)
                change = f"{node.op_type} {attribute.name} {value}"
                yield seed.name, change, model.SerializeToString(), dict(seed.inputs)


def _others(attribute: AttributeProto) -> Sequence[object]:
    if attribute.type == AttributeProto.INT:
        return [-1, 0, 2, 2**62]
    if attribute.type == AttributeProto.FLOAT:
        return [-1.0, float("nan")]
    if attribute.type == AttributeProto.STRING:
        return ["zz"]
    if attribute.type == AttributeProto.INTS and attribute.ints:
        first, *rest = attribute.ints
        return [rest, [first, *rest, 1], [0, *rest], [-1, *rest], [2**62, *rest]]
    return []


def _samples() -> list[Seed]:
    """One model of each operator, number of operands and set of attributes, of one node, whose
    small operands are constants.
    """
    found: dict[object, Seed] = {}
    for seed in (*seeds(), *other_seeds()):
        if len(seed.model.graph.node) != 1:
            continue
        node = seed.model.graph.node[0]
        present = tuple(bool(name) for name in node.input)
        attributes = frozenset(each.name for each in node.attribute) & AXES
        found.setdefault((node.domain, node.op_type, present, attributes), known_version(seed))
    return list(found.values())


def _constants(model: ModelProto) -> dict[str, np.ndarray]:
    return {each.name: numpy_helper.to_array(each) for each in model.graph.initializer}


def _rank(seed: Seed) -> int:
    """The rank of the first operand."""
    name = seed.model.graph.node[0].input[0]
    array = seed.inputs.get(name)
    return (_constants(seed.model)[name] if array is None else array).ndim


def _versions(op_type: str) -> list[int]:
    """The versions of an operator that onnxruntime may know."""
    versions: list[int] = []
    newest = NEWEST_OPSET
    while newest and defs.has(op_type, newest, ""):
        versions.append(defs.get_schema(op_type, newest, "").since_version)
        newest = versions[-1] - 1
    return versions


def _axes(node: NodeProto, seed: Seed) -> Iterator[tuple[str, int]]:
    """Where the node has axes, and how many: an attribute, or the name of an operand."""
    for attribute in node.attribute:
        if attribute.name in AXES:
            yield attribute.name, max(len(attribute.ints), 1)
    constants = _constants(seed.model)
    if node.domain in DEFAULT_DOMAINS and defs.has(node.op_type):
        for formal, name in zip(defs.get_schema(node.op_type).inputs, node.input, strict=False):
            if formal.name in AXES and name in constants and constants[name].size:
                yield name, constants[name].size


def _set_axis(model: ModelProto, place: str, axes: Sequence[int]) -> None:
    for attribute in model.graph.node[0].attribute:
        if attribute.name == place and attribute.type == AttributeProto.INTS:
            attribute.ints[:] = axes
        elif attribute.name == place:
            attribute.i = axes[0]
    constants = _constants(model)
    if place in constants:
        kind = constants[place]
        _replace(model, place, np.array(axes, kind.dtype).reshape(kind.shape))


def _reshaped(array: np.ndarray) -> Iterator[tuple[list[int], np.ndarray]]:
    if array.size > LARGEST:
        return
    others = [array[None], array[..., None], array[:0] if array.ndim else array.reshape(1)[:0]]
    if array.ndim:
        others += [array[:1], np.concatenate([array, array]), array.reshape(-1)]
    if array.size:
        others += [array.reshape(-1)[:1].reshape(()), array.reshape(-1)[:1].reshape(1, 1)]
    for other in others:
        if other.shape != array.shape:
            yield list(other.shape), other


def _replace(model: ModelProto, name: str, array: np.ndarray) -> None:
    (stored,) = (each for each in model.graph.initializer if each.name == name)
    fresh: TensorProto = numpy_helper.from_array(
        np.ascontiguousarray(array).reshape(array.shape), name
    )
    stored.CopyFrom(fresh)


def _copy(model: ModelProto, version: int | None) -> ModelProto:
    """The model at a version of the default domain, its outputs of any shape."""
    copy = ModelProto()
    copy.CopyFrom(model)
    for value in copy.graph.output:
        value.type.tensor_type.ClearField("shape")
    for entry in copy.opset_import:
        if version is not None and entry.domain in DEFAULT_DOMAINS:
            entry.version = version
    return copy

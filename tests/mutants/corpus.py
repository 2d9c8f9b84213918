"""Valid ONNX models that mutants are made of, and arrays that go with them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np
from onnx import ModelProto, NodeProto, defs, numpy_helper

from tests.adapters.onnx_suite import all_cases

LARGEST_MODEL = 40_000
"""Bytes of a model: mutants of larger ones take longer and show nothing else."""

RANDOM_OPERATORS = frozenset(
    {"Bernoulli", "Dropout", "Multinomial", "RandomNormal", "RandomNormalLike"}
    | {"RandomUniform", "RandomUniformLike"}
)
"""Their results are nobody else's."""

MOST_KNOWN = 64
"""Inputs of up to so many integers are likely axes, shapes and the like, and become constants."""


NEWEST_OPSET = 26
NEWEST_IR = 13
"""What onnxruntime takes."""


@dataclass(frozen=True)
class Seed:
    """A valid model with the arrays of one call, by name."""

    name: str
    model: ModelProto
    inputs: Mapping[str, np.ndarray]


@cache
def seeds() -> tuple[Seed, ...]:
    """The cases of ONNX's backend suite whose inputs are tensors."""
    found: list[Seed] = []
    for case in all_cases().values():
        model, sets = case.model, case.data_sets
        operators = {node.op_type for node in model.graph.node}
        if model.ByteSize() > LARGEST_MODEL or not sets or operators & RANDOM_OPERATORS:
            continue
        constants = {tensor.name for tensor in model.graph.initializer}
        names = [value.name for value in model.graph.input if value.name not in constants]
        arrays = sets[0][0]
        older = _older(model)
        if older and len(arrays) == len(names) and all(isinstance(x, np.ndarray) for x in arrays):
            found.append(Seed(case.name, older, dict(zip(names, arrays, strict=True))))
    return tuple(found)


def _older(model: ModelProto) -> ModelProto | None:
    """The model in versions that onnxruntime takes; None for operators that these do not have."""
    older = ModelProto()
    older.CopyFrom(model)
    older.ir_version = min(older.ir_version, NEWEST_IR)
    for entry in older.opset_import:
        if entry.domain in ("", "ai.onnx"):
            entry.version = min(entry.version, NEWEST_OPSET)
    return older if all(map(_is_known, older.graph.node)) else None


def _is_known(node: NodeProto) -> bool:
    if node.domain in ("", "ai.onnx") and defs.has(node.op_type):
        return defs.get_schema(node.op_type).since_version <= NEWEST_OPSET
    return node.domain == "ai.onnx.ml"


def with_known(seed: Seed, chance: np.random.Generator) -> Seed:
    """The model with inputs that are likely to be axes or shapes as constants, and some others."""
    model = ModelProto()
    model.CopyFrom(seed.model)
    left = dict(seed.inputs)
    for name, array in seed.inputs.items():
        known = array.dtype.kind in "iuO" and array.ndim < 2 and array.size <= MOST_KNOWN
        if chance.random() < (0.8 if known else 0.2):
            model.graph.initializer.append(numpy_helper.from_array(np.asarray(array), name))
            (place,) = (n for n, each in enumerate(model.graph.input) if each.name == name)
            del model.graph.input[place]
            del left[name]
    return Seed(seed.name, model, left)

"""Valid ONNX models that mutants are made of, and arrays that go with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from onnx import ModelProto, NodeProto, checker, defs, numpy_helper, shape_inference

from tests.compiler.adapters.onnx_suite import all_cases

LARGEST_MODEL = 40_000
"""Bytes of a model: mutants of larger ones take longer and show nothing else."""

RANDOM_OPERATORS = frozenset(
    {"Bernoulli", "Dropout", "Multinomial", "RandomNormal", "RandomNormalLike"}
    | {"RandomUniform", "RandomUniformLike"}
)
"""Their results are nobody else's."""

MOST_CACHED = 64
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
    """The cases of ONNX's backend suite whose inputs are arrays, of operators that onnxruntime has
    the newest version of.
    """
    return tuple(each for each in _cases() if _is_plain(each))


@cache
def other_seeds() -> tuple[Seed, ...]:
    """The other cases, with scalars as inputs or of older versions of their operators, as far as
    these are enough for them.
    """
    others = [each for each in _cases() if not _is_plain(each)]
    arrays = [
        Seed(each.name, each.model, {name: np.asarray(x) for name, x in each.inputs.items()})
        for each in others
    ]
    return tuple(each for each in arrays if _is_valid(each.model))


@cache
def _cases() -> tuple[Seed, ...]:
    found: list[Seed] = []
    for case in all_cases().values():
        model, sets = case.model, case.data_sets
        operators = {node.op_type for node in model.graph.node}
        if model.ByteSize() > LARGEST_MODEL or not sets or operators & RANDOM_OPERATORS:
            continue
        constants = {tensor.name for tensor in model.graph.initializer}
        names = [value.name for value in model.graph.input if value.name not in constants]
        arrays = sets[0][0]
        tensors = all(isinstance(each, np.ndarray | np.generic) for each in arrays)
        if len(arrays) == len(names) and tensors:
            found.append(Seed(case.name, _older(model), dict(zip(names, arrays, strict=True))))
    return tuple(found)


def _is_plain(seed: Seed) -> bool:
    """Whether inputs are arrays, and onnxruntime takes the newest versions of all operators."""
    arrays = all(isinstance(each, np.ndarray) for each in seed.inputs.values())
    return arrays and all(map(_is_known, seed.model.graph.node))


def _older(model: ModelProto) -> ModelProto:
    """The model in versions that onnxruntime takes."""
    older = ModelProto()
    older.CopyFrom(model)
    older.ir_version = min(older.ir_version, NEWEST_IR)
    for entry in older.opset_import:
        if entry.domain in ("", "ai.onnx"):
            entry.version = min(entry.version, NEWEST_OPSET)
    return older


def _is_known(node: NodeProto) -> bool:
    if node.domain in ("", "ai.onnx") and defs.has(node.op_type):
        return defs.get_schema(node.op_type).since_version <= NEWEST_OPSET
    return node.domain == "ai.onnx.ml"


def _is_valid(model: ModelProto) -> bool:
    try:
        checker.check_model(model, full_check=True)
    except (checker.ValidationError, shape_inference.InferenceError):
        return False
    return True


def with_known(seed: Seed, chance: np.random.Generator) -> Seed:
    """The model with inputs that are likely to be axes or shapes as constants, and some others."""
    names = [
        name
        for name, array in seed.inputs.items()
        if chance.random() < (0.8 if _is_likely(array) else 0.2)
    ]
    return _with_constants(seed, names)


def known_version(seed: Seed) -> Seed:
    """The model with all small inputs behind the first as constants."""
    names = [name for name, array in seed.inputs.items() if array.size <= MOST_CACHED]
    return _with_constants(seed, [name for name in names if name != next(iter(seed.inputs))])


def _is_likely(array: np.ndarray) -> bool:
    return array.dtype.kind in "iuO" and array.ndim < 2 and array.size <= MOST_CACHED


def _with_constants(seed: Seed, names: Sequence[str]) -> Seed:
    model = ModelProto()
    model.CopyFrom(seed.model)
    left = dict(seed.inputs)
    for name in names:
        array = seed.inputs[name]
        model.graph.initializer.append(numpy_helper.from_array(np.asarray(array), name))
        (place,) = (n for n, each in enumerate(model.graph.input) if each.name == name)
        del model.graph.input[place]
        del left[name]
    return Seed(seed.name, model, left)

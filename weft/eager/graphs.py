"""Templates of eager mode -> modules for the compiler."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from msgspec import Struct
from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Region, SSAValue

from weft.dialects.graph.core.dtypes import element_type, numpy_dtype
from weft.dialects.graph.core.types import ShapeAttr, TensorType, tensor, type_of
from weft.dialects.weights import WeightStore
from weft.eager.patterns import Dims
from weft.eager.templates import Derivative, Template
from weft.tracing.traced import Recording


class Built(Struct, frozen=True):
    """A module of the operands `used`, None where nothing is computed; `outputs` are the places of
    the template's results among its own, or the complements of operands' places.
    """

    module: ModuleOp | None
    weights: WeightStore
    used: list[int]
    outputs: list[int]
    abstract_keys: list[tuple[str, int]]


def build(
    template: Template, dims: Sequence[Dims], abstract_keys: Sequence[tuple[str, int]]
) -> Built:
    """The graph of a template whose first operator's operands have these dims; `abstract_keys` are
    dtype and rank of each operand.
    """
    given = [
        tensor(each, element_type(np.dtype(dtype)))
        for each, (dtype, _) in zip(dims, abstract_keys, strict=False)
    ]
    recording = Recording()
    arguments = [
        recording.argument(each, f"x{position}").value
        for position, each in enumerate(_operand_types(template, given))
    ]
    results = template.build(recording, arguments)
    kept = not isinstance(template, Derivative)
    made = list(dict.fromkeys(each for each in results if kept or each not in arguments))
    outputs = [made.index(each) if each in made else ~arguments.index(each) for each in results]
    described = [(numpy_dtype(each.element).name, each.rank) for each in map(type_of, results)]
    _erase_unused(recording.block, made)
    used = list(range(len(arguments))) if kept else _used(recording.block, arguments, made)
    for position in reversed(range(len(arguments))):
        if position not in used:
            recording.block.erase_arg(recording.block.args[position])
    module = _module(recording.block, made, len(used)) if made else None
    return Built(module, recording.weights, used, outputs, described)


def _operand_types(template: Template, given: Sequence[TensorType]) -> list[TensorType]:
    """The types of a template's operands, from those of its first operator's."""
    if not isinstance(template, Derivative):
        return list(given)
    inner = _operand_types(template.of, given)
    recording = Recording()
    arguments = [recording.argument(each, "x").value for each in inner]
    results = [type_of(each) for each in template.of.build(recording, arguments)]
    return [*inner, *results, *(results[position] for position in template.arriving)]


def _erase_unused(block: Block, results: Iterable[SSAValue]) -> None:
    kept = set(results)
    for op in reversed(list(block.ops)):
        if not any(result in kept or result.uses for result in op.results):
            op.detach()
            op.erase()


def _used(block: Block, arguments: list[SSAValue], results: list[SSAValue]) -> list[int]:
    """The operands that are read, and those without which a named size would have no value."""
    used = [position for position, each in enumerate(arguments) if each.uses or each in results]
    bound = {name for position in used for name in _named(arguments[position])}
    for op in block.ops:
        attributes: list[Attribute] = [*op.properties.values(), *(r.type for r in op.results)]
        for name in (name for each in attributes for name in _mentioned(each)):
            owners = [p for p, each in enumerate(arguments) if name in _named(each)]
            if name not in bound and owners:  # else a loop inside defines it
                used.append(owners[0])
                bound.update(_named(arguments[owners[0]]))
    return sorted(used)


def _named(value: SSAValue) -> set[str]:
    """The sizes that are an axis of a tensor."""
    return {str(dim) for dim in type_of(value).shape if str(dim).isidentifier()}


def _mentioned(attribute: Attribute) -> list[str]:
    shape = attribute.dims if isinstance(attribute, TensorType) else attribute
    if not isinstance(shape, ShapeAttr):
        return []
    return [name for dim in shape.data or () for name in dim.symbols()]


def _module(block: Block, results: Sequence[SSAValue], inputs: int) -> ModuleOp:
    block.add_op(ReturnOp(*results))
    types = [each.type for each in block.args], [each.type for each in results]
    main = FuncOp("main", types, Region(block))
    main.attributes["input_names"] = _names("x", inputs)
    main.attributes["output_names"] = _names("y", len(results))
    return ModuleOp([main])


def _names(stem: str, count: int) -> ArrayAttr[StringAttr]:
    return ArrayAttr([StringAttr(f"{stem}{position}") for position in range(count)])

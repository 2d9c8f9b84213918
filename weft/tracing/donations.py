"""The graph of a step, and which of its arguments take the memory of results."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from xdsl.dialects.builtin import ArrayAttr, IntAttr, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.utils.hints import isa

from weft.array.operators import users_line
from weft.compiler.frontend.imported import ImportedModel
from weft.dialects.errors import WeftError
from weft.dialects.loop.program import DONATED
from weft.tracing.trace import Trace, record
from weft.trees import Structure


def donating(
    function: Callable[..., Any],
    *examples: Any,
    donate: Sequence[int],
    name: str,
    noted: bool = True,
) -> tuple[ImportedModel, Trace, list[tuple[int, int]]]:
    """The graph of a step, in which it is `noted` which arguments take results' memory; what was
    traced, and those pairs of an input and an output. Raises as `step` does.
    """
    recorded = record(function, *examples)
    main = recorded.module.ops.first
    assert isinstance(main, FuncOp), "a trace is a function"
    pairs = list(_pairs(main, recorded, donate))
    if noted:
        positions = [ArrayAttr([IntAttr(source), IntAttr(target)]) for source, target in pairs]
        main.attributes[DONATED] = ArrayAttr(positions)
    weights = recorded.recording.weights
    return ImportedModel(recorded.module, weights, name, *_names(main)), recorded, pairs


def _names(main: FuncOp) -> Iterator[tuple[str, ...]]:
    """Those of inputs, and those of outputs."""
    for key in ("input_names", "output_names"):
        names = main.attributes[key]
        assert isa(names, ArrayAttr[StringAttr]), "a trace has names"
        yield tuple(name.data for name in names)


def _pairs(main: FuncOp, recorded: Trace, donate: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Places of donated inputs, and of the outputs that take their memory."""
    returned = main.get_return_op()
    assert returned is not None, "a trace returns"
    results = dict(enumerate(_tails(recorded.outputs)))
    value_types = [value.type for value in returned.arguments]
    names = [(position, tail) for position, tail in _positions(recorded.inputs)]
    for source, (position, tail) in enumerate(names):
        if position not in donate:
            continue
        value_type = main.body.block.args[source].type
        found = [
            index
            for index, each in results.items()
            if each == tail and value_types[index] == value_type
        ]
        if not found:
            rule = f"a donated argument requires a result of its type for {tail or 'it'}"
            raise WeftError(f"{users_line()}: {rule}, got none")
        del results[found[0]]
        yield source, found[0]


def _positions(structure: Structure) -> Iterator[tuple[int, str]]:
    """The argument of each leaf, and the leaf's path in it."""
    for position, (_, below) in enumerate(structure.below):
        for path in _paths(below):
            yield position, path


def _tails(structure: Structure) -> list[str]:
    """The path of each leaf without its first part, where results are several."""
    if structure.node_type is None:
        return [""]
    return [path for _, below in structure.below for path in _paths(below)]


def _paths(structure: Structure, path: str = "") -> Iterator[str]:
    if structure.node_type is None:
        yield path
    for key, below in structure.below:
        yield from _paths(below, f"{path}.{key}" if path else key)

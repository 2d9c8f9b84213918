"""The first value inside of a model at which two forms of it part."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, cast

from msgspec import Struct

from weft.dialects.weights import Array
from weft.probing.differences import Difference, difference

if TYPE_CHECKING:
    from weft.compiler.frontend.imported import ImportedModel, Source

Reader = Callable[[str], Array]
"""Runs a form of the model for the value of a name; each compiles up to that value alone, so that
what leads there is fused as ever.
"""


class Inside(NamedTuple):
    """A value of a model, and the node that computes it."""

    name: str
    node: str
    operator: str


class Parting(Struct, frozen=True):
    """The node at which two runs part, and the difference of its value."""

    value: str
    node: str
    operator: str
    difference: Difference


def values_inside(source: Source | ImportedModel) -> list[Inside]:
    """The first result of each node of an ONNX model, in the order of the nodes; none of a model of
    another kind, whose values cannot be asked for. Raises what loading raises.
    """
    from weft.compiler.frontend.frontends import find_frontend
    from weft.compiler.frontend.onnx.load import load_model

    if find_frontend(source).finished:
        return []
    nodes = load_model(cast("Source", source)).proto.graph.node
    named = [(next(filter(None, node.output), ""), node) for node in nodes]
    return [Inside(name, node.name, node.op_type) for name, node in named if name]


def find_parting(
    values: Sequence[Inside], ours: Reader, theirs: Reader, tolerance: float
) -> Parting | None:
    """The first value, in their order, that differs by more than `tolerance` of its scale while the
    one before does not: found by halving, as if all behind it differed. None where none that was
    looked at does.
    """
    low, high = 0, len(values)
    parting: Parting | None = None
    while low < high:
        middle = (low + high) // 2
        name, node, operator = values[middle]
        found = difference(name, ours(name), theirs(name))
        if found.of_scale <= tolerance:
            low = middle + 1
        else:
            high = middle
            parting = Parting(name, node, operator, found)
    return parting

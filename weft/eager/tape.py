"""What derivatives of eager programs need: the operators that ran, and how each hands cotangents
on.

Nothing is noted but for tensors that a derivative is wanted in. The cotangents of an operator come
from the graph derivative of that very operator, compiled once like the operator itself.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from weft.eager.kinds import kind_of
from weft.eager.templates import Derivative, Template

if TYPE_CHECKING:
    from weft.eager.tensor import Tensor

Backward = Callable[["Node", "list[Tensor | None]", tuple[int, ...]], "Sequence[Tensor]"]
"""From an operator's node, the cotangents of its results and the places of operands, to those of
these operands.
"""

_NUMBERS: Final = count()


class Depth(threading.local):
    """How many derivatives are being taken, each inside the one before."""

    count = 0


DEPTH: Final = Depth()


class Node:
    """An operator that ran: what it took and gave."""

    __slots__ = ("backward", "number", "operands", "results", "template")

    def __init__(
        self,
        backward: Backward | None,
        operands: Sequence[Tensor] = (),
        results: Sequence[Any] = (),
        template: Template | None = None,
    ):
        self.number = next(_NUMBERS)
        self.backward = backward
        self.operands = operands
        self.results = results
        self.template = template


def by_graph(
    node: Node, arriving: list[Tensor | None], wanted: tuple[int, ...]
) -> Sequence[Tensor]:
    """The cotangents of operands by the derivative of the node's graph."""
    given = [(place, each) for place, each in enumerate(arriving) if each is not None]
    assert node.template is not None, "a graph has a derivative"
    places = tuple(place for place, _ in given)
    template = Derivative(node.template, len(node.results), places, wanted)
    tensor = type(node.operands[0])
    results = tensor.made(node.results, [kind_of(array) for array in node.results], node)
    return tensor.computed(template, [*node.operands, *results, *(each for _, each in given)])


def cotangents(
    results: Sequence[Tensor], seeds: Sequence[Tensor], inputs: Sequence[Tensor]
) -> list[Tensor | None]:
    """The cotangents of tensors that began a record, from those of results; None for one that no
    result depends on.
    """
    sums: dict[tuple[Node, int], Tensor] = {}
    for result, seed in zip(results, seeds, strict=True):
        if result.node is not None:
            _add(sums, result, seed)
    order, reached = _between(results, inputs)
    for node in order:
        arriving = [sums.pop((node, place), None) for place in range(len(node.results))]
        if node.backward is None or all(each is None for each in arriving):
            continue
        wanted = tuple(
            place
            for place, each in enumerate(node.operands)
            if each.node in reached and each.array.dtype.kind not in "biu"
        )
        found = node.backward(node, arriving, wanted) if wanted else ()
        for place, value in zip(wanted, found, strict=True):
            _add(sums, node.operands[place], value)
    return [sums.get((each.node, each.place)) if each.node else None for each in inputs]


def _add(sums: dict[tuple[Node, int], Tensor], tensor: Tensor, cotangent: Tensor) -> None:
    assert tensor.node is not None, "a cotangent belongs to what was noted"
    key = tensor.node, tensor.place
    sums[key] = sums[key] + cotangent if key in sums else cotangent


def _between(
    results: Sequence[Tensor], inputs: Sequence[Tensor]
) -> tuple[list[Node], set[Node | None]]:
    """The operators that results come from, last first, without those of the inputs; and all that
    depend on an input.
    """
    leaves = {each.node for each in inputs}
    found: set[Node] = set()
    stack = [each.node for each in results]
    while stack:
        node = stack.pop()
        if node is not None and node not in found and node not in leaves:
            found.add(node)
            stack += [each.node for each in node.operands]
    order = sorted(found, key=lambda node: node.number)
    reached: set[Node | None] = set(leaves)
    for node in order:
        if any(each.node is not None and each.node in reached for each in node.operands):
            reached.add(node)
    return [node for node in reversed(order) if node in reached], reached

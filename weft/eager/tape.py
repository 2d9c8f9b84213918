"""What derivatives of eager programs need: the operators that ran, and how each hands cotangents
on.

Nothing is noted but for tensors that a derivative is wanted in. The cotangents of an operator come
from the graph derivative of that very operator, compiled once like the operator itself.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any, Final, cast

from weft.array.views import root
from weft.dialects.weights import Array
from weft.eager.abstract_values import AbstractValue, abstract_value, abstract_value_of
from weft.eager.kernels import kernel_of
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
        self.operands = [duplicate(each) for each in operands]  # which later writes do not reach
        self.results = results
        self.template = template


def duplicate(x: Any) -> Any:
    """Another tensor of the same elements, which came about in the same way."""
    found: Any = object.__new__(cast("type[Any]", type(x)))
    found._array, found._abstract = x._array, x._abstract
    found._node, found._position = x._node, x._position
    return found


def made(
    tensor: type[Tensor],
    arrays: Sequence[Array],
    node: Node | None,
    abstract_values: Sequence[AbstractValue] | None = None,
) -> list[Tensor]:
    """The results of an operator."""
    results: list[Tensor] = []
    for position, array in enumerate(arrays):
        result = object.__new__(tensor)
        result._array, result._node, result._position = array, node, position
        result._abstract = (
            abstract_value_of(array) if abstract_values is None else abstract_values[position]
        )
        results.append(result)
    return results


def computed(tensor: type[Tensor], template: Template, operands: Sequence[Tensor]) -> list[Tensor]:
    """The results of a template, which are noted where a derivative of an operand is wanted."""
    kernel = kernel_of(template, [operand._abstract for operand in operands])
    arrays = kernel.call(*[operand._array for operand in operands])
    noted = DEPTH.count and any(map(is_recorded, operands))
    node = Node(by_graph, operands, arrays, template) if noted else None
    return made(tensor, arrays, node, kernel.results)


def moved(x: Tensor, array: Array, backward: Backward) -> Tensor:
    """The same elements in another order, or some of them; `backward` moves cotangents."""
    result = object.__new__(type(x))
    result._array = array = array if array.flags.carray else array.copy("C")
    result._abstract, result._position, result._node = (
        abstract_value(x._abstract.dtype, array.ndim),
        0,
        None,
    )
    if x._node is not None and DEPTH.count:
        result._node = Node(backward, [x], [array])
    return result


def is_recorded(x: Tensor) -> bool:
    """Whether it belongs to a record, which derivatives are taken from."""
    return x._node is not None


def is_differentiated(x: Tensor) -> bool:
    """Whether a derivative is being recorded that its elements alone would lose."""
    return x._node is not None and DEPTH.count > 0 and x._abstract.is_float


def detached(x: Tensor) -> Tensor:
    """The elements without the record of how they came about."""
    return type(x).of(x._array)


def forget(x: Tensor) -> None:
    """Lets go of the record that a tensor, and the array that it shows, belong to."""
    x._node = None
    base = root(x)
    if base is not x:
        base._node = None


def recorded(
    values: Sequence[Tensor], operands: Sequence[Tensor], backward: Backward
) -> list[Tensor]:
    """Tensors as the results of an operator whose cotangents `backward` hands on."""
    arrays = [value._array for value in values]
    return made(type(operands[0]), arrays, Node(backward, operands, arrays))


def only(arriving: Sequence[Tensor | None]) -> Tensor:
    """The cotangent of an operator's one result."""
    (cotangent,) = arriving
    assert cotangent is not None, "an operator is walked over when something has arrived"
    return cotangent


def by_graph(
    node: Node, arriving: list[Tensor | None], wanted: tuple[int, ...]
) -> Sequence[Tensor]:
    """The cotangents of operands by the derivative of the node's graph."""
    given = [(position, each) for position, each in enumerate(arriving) if each is not None]
    assert node.template is not None, "a graph has a derivative"
    positions = tuple(position for position, _ in given)
    template = Derivative(node.template, len(node.results), positions, wanted)
    tensor = cast("Any", type(node.operands[0]))
    results = made(tensor, node.results, node)
    return computed(tensor, template, [*node.operands, *results, *(each for _, each in given)])


def cotangents(
    results: Sequence[Tensor], seeds: Sequence[Tensor], inputs: Sequence[Tensor]
) -> list[Tensor | None]:
    """The cotangents of tensors that began a record, from those of results; None for one that no
    result depends on.
    """
    sums: dict[tuple[Node, int], Tensor] = {}
    for result, seed in zip(results, seeds, strict=True):
        if result._node is not None:
            _add(sums, result, seed)
    order, reached = _between(results, inputs)
    for node in order:
        arriving = [sums.pop((node, position), None) for position in range(len(node.results))]
        if node.backward is None or all(each is None for each in arriving):
            continue
        wanted = tuple(
            position
            for position, each in enumerate(node.operands)
            if each._node in reached and each._array.dtype.kind not in "biu"
        )
        found = node.backward(node, arriving, wanted) if wanted else ()
        for position, value in zip(wanted, found, strict=True):
            _add(sums, node.operands[position], value)
    return [sums.get((each._node, each._position)) if each._node else None for each in inputs]


def _add(sums: dict[tuple[Node, int], Tensor], tensor: Tensor, cotangent: Tensor) -> None:
    assert tensor._node is not None, "a cotangent belongs to what was noted"
    key = tensor._node, tensor._position
    sums[key] = sums[key] + cotangent if key in sums else cotangent


def _between(
    results: Sequence[Tensor], inputs: Sequence[Tensor]
) -> tuple[list[Node], set[Node | None]]:
    """The operators that results come from, last first, without those of the inputs; and all that
    depend on an input.
    """
    leaves = {each._node for each in inputs}
    found: set[Node] = set()
    stack = [each._node for each in results]
    while stack:
        node = stack.pop()
        if node is not None and node not in found and node not in leaves:
            found.add(node)
            stack += [each._node for each in node.operands]
    order = sorted(found, key=lambda node: node.number)
    reached: set[Node | None] = set(leaves)
    for node in order:
        if any(each._node is not None and each._node in reached for each in node.operands):
            reached.add(node)
    return [node for node in reversed(order) if node in reached], reached

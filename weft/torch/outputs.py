"""What a graph's results are: values of the executable, arguments, views of either, sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from msgspec import Struct
from torch.fx import Graph, Node

from weft.compiler.frontend.stablehlo.ops.complex_functions import Pair
from weft.compiler.frontend.torch.ops.complex_numbers import on_parts
from weft.dialects.expr import Expr
from weft.dialects.graph.core.algebra import Term
from weft.torch.tensors import dims_of, memory_order, repeated_axes, size_of


class View(Struct, frozen=True):
    """Elements of a tensor's memory, from where that begins."""

    sizes: tuple[Expr, ...]
    strides: tuple[Expr, ...]
    offset: Expr


class Output(Struct, frozen=True):
    """What becomes of a result: `position` is that of the executable's, or `argument` that of an
    argument, which is handed back, or `size` is an expression. With both, the result takes the
    argument's memory where that can be. `order` says how the axes lie, `view` which elements they
    are, `copied` that memory of these strides is made for it, `number` that it is a float.
    """

    position: int | None = None
    argument: int | None = None
    size: Expr | None = None
    order: tuple[int, ...] | None = None
    view: View | None = None
    copied: bool = False
    number: bool = False


class Outputs:
    """Results that have one memory in eager mode have one here: that of the first value in it, or
    of an argument. `values` are those of all nodes, `arguments` the positions of inputs that have
    memory of their own, `written` those of inputs by the number of the result that is written to
    them.
    """

    def __init__(
        self,
        graph: Graph,
        values: Mapping[Node, Any],
        arguments: Mapping[Node, int],
        written: Mapping[int, int],
    ) -> None:
        self.terms: dict[str, Term | Pair] = {}
        self.donated: dict[str, int] = {}
        self._values, self._arguments, self._written = values, arguments, written
        self._numbers: dict[Node, int] = {}
        self._inputs = {
            storage: node
            for node in arguments
            if (storage := _storage(node)) is not None and _is_plain(node.meta["val"])
        }
        self._graph = graph

    def all(self, results: Sequence[Any]) -> tuple[Output, ...]:
        """Of each result in turn."""
        own = [each for number, each in enumerate(results) if number not in self._written]
        self._bases = self._shared({each for each in own if isinstance(each, Node)})
        return tuple(
            self._write(each, self._written[number])
            if number in self._written
            else self._output(each)
            for number, each in enumerate(results)
        )

    def _shared(self, results: set[Node]) -> dict[int, Node]:
        """By memory that several results have, the first value in it: where it fills that."""
        counts: dict[int, int] = {}
        for node in results - self._arguments.keys():
            storage = _storage(node)
            if storage is not None and storage not in self._inputs:
                counts[storage] = counts.get(storage, 0) + 1
        first: dict[int, Node] = {}
        for node in self._graph.nodes:
            storage = _storage(node)
            if storage is not None and counts.get(storage, 0) > 1:
                first.setdefault(storage, node)
        return {storage: node for storage, node in first.items() if _fills(node.meta["val"])}

    def _write(self, node: Node, argument: int) -> Output:
        """A value that an input takes. It is a result of its own, as what else has this value is
        not written when the input is written again.
        """
        order = memory_order(
            next(n for n, at in self._arguments.items() if at == argument).meta["val"]
        )
        name = f"{node.name}_written_{argument}"
        value = self._values[node]
        moved = order is not None and order != list(range(len(order)))
        self.terms[name] = _moved(value, order) if moved and order else value
        self.donated[name] = argument
        laid_out = inverse(order) if moved and order else None
        return Output(position=len(self.terms) - 1, argument=argument, order=laid_out)

    def _output(self, node: Any) -> Output:
        if not isinstance(node, Node):
            return Output(size=Expr.of(node)) if isinstance(node, int) else Output()
        if node in self._arguments:
            return Output(argument=self._arguments[node])
        value, wanted = self._values[node], node.meta.get("val")
        if isinstance(value, Expr) or value is None:
            return Output(size=value)
        if isinstance(wanted, torch.SymFloat):
            return Output(position=self._number(node, value), number=True)
        storage = _storage(node)
        assert storage is not None, "what is no number is a tensor"
        if not _is_plain(wanted):
            return self._own(node)
        source, base = self._inputs.get(storage), self._bases.get(storage, node)
        if source is not None and source.meta["val"].dtype == wanted.dtype:
            start = size_of(source.meta["val"].storage_offset())
            return Output(argument=self._arguments[source], view=_view(wanted, start))
        if base is not node and base.meta["val"].dtype == wanted.dtype:
            self._own(base)
            return Output(position=self._numbers[base], view=_view(wanted, Expr.of(0)))
        return self._own(node)

    def _own(self, node: Node) -> Output:
        """A result in memory of its own: axes in torch's order, repeated ones once."""
        value, wanted = self._values[node], node.meta["val"]
        for axis in repeated_axes(wanted):
            value = _first(value, axis)
        order = memory_order(wanted)
        view = _view(wanted, size_of(wanted.storage_offset()))
        if order is None:
            return Output(position=self._number(node, value), view=view, copied=True)
        moved = order != list(range(len(order)))
        position = self._number(node, _moved(value, order) if moved else value)
        if view.strides != _dense(value.shape, order):
            return Output(position=position, view=view)
        return Output(position=position, order=inverse(order) if moved else None)

    def _number(self, node: Node, term: Term | Pair) -> int:
        """Where the executable gives a node's value."""
        if node not in self._numbers:
            self._numbers[node] = len(self.terms)
            self.terms[node.name] = term
        return self._numbers[node]


def _storage(node: Node) -> int | None:
    value = node.meta.get("val")
    return value.untyped_storage()._cdata if isinstance(value, torch.Tensor) else None


def _is_plain(value: torch.Tensor) -> bool:
    """Whether its memory has a tensor's elements, not their negatives or conjugates."""
    return not value.is_neg() and not value.is_conj()


def _moved(value: Term | Pair, order: Sequence[int]) -> Term | Pair:
    return on_parts(value, lambda part: part.transpose(order))


def _first(value: Term | Pair, axis: int) -> Term | Pair:
    return on_parts(value, lambda part: part.part(axis, 0, 1))


def _fills(value: torch.Tensor) -> bool:
    """Whether a tensor has all of its memory, each element once."""
    dense = memory_order(value) is not None and not repeated_axes(value)
    return dense and size_of(value.storage_offset()) == 0


def _view(value: torch.Tensor, start: Expr) -> View:
    """What of its memory a tensor is, where `start` is counted from."""
    strides = tuple(size_of(step) for step in value.stride())
    return View(tuple(dims_of(value)), strides, size_of(value.storage_offset()) - start)


def _dense(sizes: Sequence[Expr], order: Sequence[int]) -> tuple[Expr, ...] | None:
    """The strides of sizes that lie in an order; None where there are no elements."""
    strides = [Expr.of(1)] * len(sizes)
    step = Expr.of(1)
    for axis in reversed(order):
        strides[axis] = step
        step = step * sizes[axis]
    return None if step == 0 else tuple(strides)


def inverse(order: Sequence[int]) -> tuple[int, ...]:
    """The permutation that takes one back."""
    return tuple(order.index(axis) for axis in range(len(order)))

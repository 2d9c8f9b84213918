"""sort and top_k."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import SSAValue

from weft.compiler.frontend.stablehlo.node import Node
from weft.compiler.frontend.stablehlo.ops.bodies import SortKey, sort_keys
from weft.compiler.frontend.stablehlo.ops.control import repeated
from weft.compiler.frontend.stablehlo.ops.elementwise import total_order
from weft.compiler.frontend.stablehlo.ops.movement import of_one_shape
from weft.compiler.frontend.stablehlo.types import parts_of
from weft.dialects.graph.core.algebra import Term, counted, shape_attr, size_term
from weft.dialects.graph.core.types import FLOATS, I32, I64
from weft.dialects.stablehlo.op import HloOp


def sort(node: Node) -> Sequence[Term]:
    """Lines of all operands in the order of a comparator; equal elements keep theirs."""
    node.operands = of_one_shape(node.operands)
    axis = node.integer("dimension", -1) % len(node.only.shape)
    if node.only.shape[axis].constant in (0, 1):
        return node.operands
    keys = sort_keys(node.op.regions[0].block)
    if keys is None:
        return _exchanged(node, axis)
    order = _order_of(node, keys, axis)
    written = [each for each in node.op.operands for _ in range(parts_of(each.type))]
    return [
        order.cast(each.type.element) if _counts(operand, axis) else _in_order(each, order, axis)
        for operand, each in zip(written, node.operands, strict=True)
    ]


def _order_of(node: Node, keys: Sequence[SortKey], axis: int) -> Term:
    """The indices in the order of keys, sorted by the last one first: equals keep their order."""
    arguments = _interleaved(node, node.operands, node.operands)
    found = node.applied(arguments, wanted=[each.value for each in keys])
    order: Term | None = None
    for key, value in [*zip(keys, found, strict=True)][::-1]:
        line = value.expand(node.only.shape)
        if key.total and line.type.element in FLOATS:
            line = total_order(line)
        if order is not None:
            line = _in_order(line, order, axis)
        place = ordered(line, axis, descending=key.descending)
        order = place if order is None else _in_order(order, place, axis)
    assert order is not None, "a comparator has a key"
    return order


def _in_order(x: Term, order: Term, axis: int) -> Term:
    return x.of(x.b.gather_elements(x.value, order.value, axis=axis))


def _counts(value: SSAValue, axis: int) -> bool:
    """Whether elements are their own indices along an axis."""
    owner = value.owner
    if not isinstance(owner, HloOp) or owner.name != "stablehlo.iota":
        return False
    dimension = owner.written.get("iota_dimension")
    return isinstance(dimension, IntegerAttr) and dimension.value.data == axis


def ordered(key: Term, axis: int, *, descending: bool, count: int | None = None) -> Term:
    """The indices of the first elements in sorted order."""
    size = key.shape[axis] if count is None else count
    return key.of(
        key.b.argsort(key.value, axis=axis, descending=descending, count=shape_attr([size]))
    )


def _exchanged(node: Node, axis: int) -> Sequence[Term]:
    """Lines in the order of any comparator, by merge exchange (Knuth, algorithm 5.2.2M): in each
    of about `log2(n)**2 / 2` passes pairs of elements at a distance take each other's places.
    """
    dims, last = node.only.shape, len(node.only.shape) - 1
    length = size_term(node.b, dims[axis], I64)
    powers = node.stored(2 ** np.arange(62, dtype=np.int64), "powers_of_two")
    below = powers < length
    levels = below.cast(I64).sum([0])
    (passes,) = node.sizes(levels * (levels + 1) / 2)
    top = (below.where(powers, 0).sum([0]) + 1) / 2  # the greatest power below the length
    order = counted(node.b, dims[axis]).insert(*range(1, last - axis + 1)).expand(dims)
    state = [*node.operands, order, top, top, top * 0, top]

    def step(state: Sequence[Term], number: Term) -> list[Term]:
        *lines, half, width, offset, distance = state
        place = counted(number.b, dims[axis])
        behind, before = place + distance, place - distance
        lower = _common_bits(place, half).equals(offset) & (behind < length)
        upper = (before >= 0) & _common_bits(before, half).equals(offset)
        others = [
            each.take(lower.where(behind, upper.where(before, place)), axis) for each in lines
        ]
        upper, moves = (each.insert(*range(1, last - axis + 1)) for each in (upper, lower | upper))
        swaps = moves & _precedes(node, others, lines).equals(upper).math("logical_not")
        ends = width.equals(half)
        return [
            *(swaps.where(other, own) for other, own in zip(others, lines, strict=True)),
            ends.where(half / 2, half),
            ends.where(top, width / 2),
            ends.where(0, half),
            ends.where(half / 2, width - half),
        ]

    return repeated(node, passes, state, step)[: len(node.operands)]


def _common_bits(x: Term, y: Term) -> Term:
    return x.of(x.b.bitwise_and(x.value, y.value))


def _precedes(node: Node, first: Sequence[Term], second: Sequence[Term]) -> Term:
    """Whether elements come before others: what the comparator says of both orders, and where that
    is the same, their places at first, which are the last terms.
    """
    b = second[0].b
    (holds,) = node.applied(_interleaved(node, first, second), b)
    (converse,) = node.applied(_interleaved(node, second, first), b)
    return holds.equals(converse).where(first[-1] < second[-1], holds)


def _interleaved(node: Node, first: Sequence[Term], second: Sequence[Term]) -> list[Term]:
    """The arguments of a comparator: of each operand the one element, then the other."""
    found: list[Term] = []
    at = 0
    for operand in node.op.operands:
        count = parts_of(operand.type)
        found += [*first[at : at + count], *second[at : at + count]]
        at += count
    return found


def top_k(node: Node) -> Sequence[Term]:
    """The greatest elements of each line, from the greatest on, and where they are."""
    x, axis = node.only, len(node.only.shape) - 1
    key = total_order(x) if x.type.element in FLOATS else x
    order = ordered(key, axis, descending=True, count=node.integer("k"))
    values = x.of(node.b.gather_elements(x.value, order.value, axis=axis))
    return [values, order.cast(I32)]


SORTING = {"sort": sort}
"""By the name in StableHLO."""

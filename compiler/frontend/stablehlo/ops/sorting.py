"""sort and top_k."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import SSAValue

from weft.compiler.frontend.stablehlo.node import Node
from weft.compiler.frontend.stablehlo.ops.bodies import comparison
from weft.compiler.frontend.stablehlo.ops.elementwise import total_order
from weft.compiler.frontend.stablehlo.ops.movement import of_one_shape
from weft.compiler.frontend.stablehlo.types import is_complex, parts_of
from weft.dialects.errors import UnsupportedError
from weft.dialects.graph.core.algebra import Term, counted, shape_attr
from weft.dialects.graph.core.types import FLOATS, I32, I64
from weft.dialects.stablehlo.op import HloOp

MOST_COMPARED = 2048
"""Lines up to this long are sorted by a comparator of any form, which compares all pairs."""


def sort(node: Node) -> Sequence[Term]:
    """Lines of all operands in the order of a comparator; equal elements keep theirs."""
    node.operands = of_one_shape(node.operands)
    axis = node.integer("dimension", -1) % len(node.only.shape)
    if node.only.shape[axis].constant in (0, 1):
        return node.operands
    reals = not any(is_complex(each.type) for each in node.op.operands)
    simple = comparison(node.op.regions[0].block) if reals else None
    if simple is not None:
        key = node.operands[simple.key]
        if simple.total and key.type.element in FLOATS:
            key = total_order(key)
        order = ordered(key, axis, descending=simple.direction == "GT")
    else:
        order = _by_pairs(node, axis)
    if not reals:
        return [_in_order(each, order, axis) for each in node.operands]
    return [
        order.cast(each.type.element) if _counts(operand, axis) else _in_order(each, order, axis)
        for operand, each in zip(node.op.operands, node.operands, strict=True)
    ]


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


def _by_pairs(node: Node, axis: int) -> Term:
    """The indices in the order of a comparator: an element's place is the number of those that
    come before it.
    """
    dims = list(node.only.shape)
    size = dims[axis]
    if size.constant is None or size.constant > MOST_COMPARED:
        rule = f"a comparison of one operand's elements for more than {MOST_COMPARED}"
        raise UnsupportedError(f"requires {rule}, got a comparator of another form for {size}")
    last = len(dims)
    square = [*dims, size]
    ones = [each.insert(last).expand(square) for each in node.operands]
    order = list(range(last + 1))
    order[axis], order[last] = last, axis
    others = [each.transpose(order) for each in ones]
    (before,) = node.applied(_interleaved(node, others, ones))
    (behind,) = node.applied(_interleaved(node, ones, others))
    along = [size if at == axis else 1 for at in range(last + 1)]
    own = counted(node.b, size).reshape(along)
    earlier = counted(node.b, size).reshape([*[1] * last, size]) < own
    precedes = before | (behind.math("logical_not") & earlier)
    rank = precedes.expand(square).cast(I64).sum([last])
    zeros = rank.number(0).expand(dims)
    index = counted(node.b, size).reshape(along[:-1]).expand(dims)
    attributes = {"axis": axis, "reduction": "none"}
    return rank.of(node.b.scatter_elements(zeros.value, rank.value, index.value, **attributes))


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

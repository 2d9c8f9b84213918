"""Outer loops that are one: where memory goes on through two neighbouring loops of a reduction in
every buffer, as through the rows of an image in a convolution of one pixel or through the batch of
a product with one matrix, they become one loop, whose tiles fill vectors and registers better.

    for c:  for h:  for w:  t[c, h, w] += ...   ->   for c:  for hw:  t[c, hw] += ...
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import NoneAttr
from xdsl.ir import SSAValue

from compiler.loop.nest import accesses_in
from compiler.loop.primitives import collapse, flatten, pack, stage
from compiler.loop.schedules.gemm.accumulation import aligned
from compiler.loop.schedules.innermost_loops import continues
from dialects.expr import Atom, Expr, Operand, atom_expr
from dialects.loop.ops import AllocOp, ForOp
from dialects.loop.program import KernelOp
from dialects.loop.types import BufferType, ExprsAttr, LayoutAttr, buffer_type


def flatten_outer(
    kernel: KernelOp, nests: Sequence[list[ForOp]], result: SSAValue
) -> tuple[list[list[ForOp]], SSAValue]:
    """Collapses such loops in nests that have the same outer loops, and the dims of their result;
    returns the nests, one more where sums are copied to an argument by such loops, and the result.
    """
    found = [list(nest) for nest in nests]
    level = len(found[0]) - 2
    while level >= 0:
        axis = _axis(found, level, result)
        if axis is not None:
            if not isinstance(result.owner, AllocOp):
                staged = stage(result, kernel, "workspace")
                result = staged.buffer
                copy = aligned(staged.write_back[0], found[0])
                if [loop.extent for loop in copy] == [loop.extent for loop in found[0]]:
                    found.append(copy)
            for nest in found:
                nest[level : level + 2] = [collapse(nest[level], nest[level + 1])]
            assert isinstance(result.owner, AllocOp), "the sums are in a local buffer"
            result = _flatten(result.owner, axis)
        level -= 1
    return found, result


def _flatten(sums: AllocOp, axis: int) -> SSAValue:
    """The sums with two neighbouring dims as one, where they lie as before."""
    layout = _flat_layout(buffer_type(sums.result), axis)
    if layout is None:
        return flatten(sums, axis).result
    row_major = pack(sums.result, None).owner
    assert isinstance(row_major, AllocOp), "another layout is no other place"
    return pack(flatten(row_major, axis).result, layout)


def _axis(nests: Sequence[Sequence[ForOp]], level: int, result: SSAValue) -> int | None:
    """The dim of the result that the outer of two loops counts through, where the inner one counts
    through the next and every other access goes on from one to the other.
    """
    found: int | None = None
    for nest in nests:
        outer, inner = nest[level], nest[level + 1]
        if outer.extent == 1 or inner.extent == 1 or not continues(outer, inner):
            return None
        for access in [each for each in accesses_in(inner) if each.buffer is result]:
            here, there = atom_expr(outer.index), atom_expr(inner.index)
            axes = [n for n, expr in enumerate(access.index) if expr == here]
            if len(axes) != 1 or access.index[axes[0] + 1 : axes[0] + 2] != (there,):
                return None
            if found not in (None, axes[0]):
                return None
            found = axes[0]
    return found if found is not None and _keeps_together(buffer_type(result), found) else None


def _flat_layout(kind: BufferType, axis: int) -> LayoutAttr | None:
    """A buffer's layout with two neighbouring dims as one, None for the row-major order: channels
    in blocks stay where they are.
    """
    if isinstance(kind.layout, NoneAttr):
        return None
    places, storage = list(kind.layout.subscripts.data), list(kind.layout.storage.data)
    at = places.index(Expr.of(Operand(axis)))
    moved: dict[Atom, Expr] = {
        Operand(dim): Expr.of(Operand(dim - 1)) for dim in range(axis + 2, kind.rank)
    }
    places[at : at + 2] = [Expr.of(Operand(axis))]
    storage[at : at + 2] = [storage[at] * storage[at + 1]]
    return LayoutAttr(
        ExprsAttr(tuple(place.substitute(moved) for place in places)), ExprsAttr(tuple(storage))
    )


def _keeps_together(kind: BufferType, axis: int) -> bool:
    """Whether a buffer has two neighbouring dims next to each other, one behind the other."""
    if isinstance(kind.layout, NoneAttr):
        return True
    pair = (Expr.of(Operand(axis)), Expr.of(Operand(axis + 1)))
    places = kind.layout.subscripts.data
    return pair in zip(places, places[1:], strict=False)

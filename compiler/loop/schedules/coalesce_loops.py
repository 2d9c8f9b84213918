"""Loop coalescing: where two nested outer loops of a reduction are contiguous in every buffer, as
the rows of an image in a 1x1 convolution are, or the batch of a product with one matrix, they
become one loop, whose tiles fill vectors and registers better.

    for c:  for h:  for w:  t[c, h, w] += ...   ->   for c:  for hw:  t[c, hw] += ...
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import NoneAttr
from xdsl.ir import SSAValue

from weft.compiler.loop.nest import accesses_to
from weft.compiler.loop.primitives import collapse, flatten, pack, stage_tile
from weft.compiler.loop.schedules.gemm.accumulation import aligned
from weft.compiler.loop.strides import is_contiguous
from weft.dialects.expr import Atom, Expr, Operand
from weft.dialects.loop.ops import AllocOp, ForOp
from weft.dialects.loop.program import KernelOp
from weft.dialects.loop.types import BufferType, ExprsAttr, LayoutAttr, buffer_type_of


def coalesce_outer(
    kernel: KernelOp, nests: Sequence[list[ForOp]], result: SSAValue
) -> tuple[list[list[ForOp]], SSAValue]:
    """Collapses such loops in nests that have the same outer loops, and the dims of their result;
    returns the nests, one more where such loops copy results to an argument, and the result.
    """
    found = [list(nest) for nest in nests]
    level = len(found[0]) - 2
    while level >= 0:
        axis = _axis(found, level, result)
        if axis is not None:
            if not isinstance(result.owner, AllocOp):
                staged = stage_tile(result, kernel, "workspace")
                result = staged.buffer
                copy = aligned(staged.write_back[0], found[0])
                if [loop.extent for loop in copy] == [loop.extent for loop in found[0]]:
                    found.append(copy)
            for nest in found:
                nest[level : level + 2] = [collapse(nest[level], nest[level + 1])]
            assert isinstance(result.owner, AllocOp), "the result is in a local buffer"
            result = _flatten(result.owner, axis)
        level -= 1
    return found, result


def _flatten(result: AllocOp, axis: int) -> SSAValue:
    """The result with two neighbouring dims as one, stored as before."""
    layout = _flat_layout(buffer_type_of(result.result), axis)
    if layout is None:
        return flatten(result, axis).result
    row_major = pack(result.result, None).owner
    assert isinstance(row_major, AllocOp), "another layout is the same allocation"
    return pack(flatten(row_major, axis).result, layout)


def _axis(nests: Sequence[Sequence[ForOp]], level: int, result: SSAValue) -> int | None:
    """The dim of the result that the outer of two loops indexes, where the inner one indexes the
    next and every other access is contiguous from one to the other.
    """
    found: int | None = None
    for nest in nests:
        outer, inner = nest[level], nest[level + 1]
        if outer.extent == 1 or inner.extent == 1 or not is_contiguous(outer, inner):
            return None
        for access in accesses_to(result, inner):
            here, there = Expr.atom(outer.index), Expr.atom(inner.index)
            axes = [n for n, expr in enumerate(access.index) if expr == here]
            if len(axes) != 1 or access.index[axes[0] + 1 : axes[0] + 2] != (there,):
                return None
            if found not in (None, axes[0]):
                return None
            found = axes[0]
    return found if found is not None and _are_contiguous(buffer_type_of(result), found) else None


def _flat_layout(buffer_type: BufferType, axis: int) -> LayoutAttr | None:
    """A buffer's layout with two neighbouring dims as one, None for the row-major order; blocks of
    channels stay as they are.
    """
    if isinstance(buffer_type.layout, NoneAttr):
        return None
    positions, storage = (
        list(buffer_type.layout.subscripts.data),
        list(buffer_type.layout.storage.data),
    )
    at = positions.index(Expr.of(Operand(axis)))
    moved: dict[Atom, Expr] = {
        Operand(dim): Expr.of(Operand(dim - 1)) for dim in range(axis + 2, buffer_type.rank)
    }
    positions[at : at + 2] = [Expr.of(Operand(axis))]
    storage[at : at + 2] = [storage[at] * storage[at + 1]]
    return LayoutAttr(
        ExprsAttr(tuple(position.substitute(moved) for position in positions)),
        ExprsAttr(tuple(storage)),
    )


def _are_contiguous(buffer_type: BufferType, axis: int) -> bool:
    """Whether a buffer stores two neighbouring dims contiguously."""
    if isinstance(buffer_type.layout, NoneAttr):
        return True
    pair = (Expr.of(Operand(axis)), Expr.of(Operand(axis + 1)))
    positions = buffer_type.layout.subscripts.data
    return pair in zip(positions, positions[1:], strict=False)

"""Primitives that say where a buffer's elements lie: pack."""

from __future__ import annotations

from xdsl.dialects.builtin import NoneAttr
from xdsl.ir import SSAValue
from xdsl.rewriter import Rewriter

from compiler.loop.nest import describe, value_name
from compiler.loop.primitives.recording import primitive
from dialects.errors import IllegalSchedule
from dialects.expr import Expr, Operand
from dialects.loop.ops import AccessOp
from dialects.loop.types import BufferType, ExprsAttr, LayoutAttr, buffer_type


@primitive
def pack(buffer: SSAValue, layout: LayoutAttr | None) -> SSAValue:
    """Gives an argument or local buffer of a kernel another layout; subscripts stay as they are.

        %B: !loop.buffer<[64, 96], f32>
        ->  %B: !loop.buffer<[64, 96], f32, [(d1 floordiv 16), d0, (d1 mod 16)] in [6, 64, 16]>

    The caller of the kernel sees the new type and brings the argument into it. Returns the value
    that replaces the buffer. Raises IllegalSchedule for a buffer that is viewed under another
    shape.
    """
    type = buffer_type(buffer)
    for use in buffer.uses:
        if not isinstance(use.operation, AccessOp):
            rule = f"that {value_name(buffer)} is only loaded and stored"
            raise IllegalSchedule(f"pack requires {rule}, got {describe(use.operation)}")
    packed = BufferType(type.dims, type.element, NoneAttr() if layout is None else layout)
    return Rewriter.replace_value_with_new_type(buffer, packed)


def panels(type: BufferType, axis: int, width: int) -> LayoutAttr:
    """The layout in panels of `width` along an axis: number slowest, place in one fastest.

    The last panel is padded where the width does not divide the dim.
    """
    along = Expr.of(Operand(axis))
    others = [(Expr.of(Operand(d)), dim) for d, dim in enumerate(type.shape) if d != axis]
    inner = [expr for expr, _ in others]
    subscripts = (along // width, *inner, along % width)
    storage = (type.shape[axis].ceildiv(width), *(dim for _, dim in others), Expr.of(width))
    return LayoutAttr(ExprsAttr(subscripts), ExprsAttr(storage))

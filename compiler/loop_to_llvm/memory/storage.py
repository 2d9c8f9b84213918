"""What an access is to and from: a buffer in memory, and the lanes of a vector loop."""

from __future__ import annotations

from llvmlite import ir
from msgspec import Struct

from weft.compiler.loop_to_llvm.frame import LaneNumber
from weft.compiler.loop_to_llvm.scalar.elements import lane_mask, storage_bytes, storage_type
from weft.dialects.expr import Expr, Operand
from weft.dialects.loop.types import BufferType, ExprsAttr, LayoutAttr


class Storage(Struct, frozen=True, eq=False):
    """Where a buffer is stored. `private`: on the stack of the one function that uses it, with room
    behind its end; `registers`: it becomes registers.
    """

    pointer: ir.Value
    type: BufferType
    private: bool = False
    registers: bool = False

    @property
    def storage_type(self) -> ir.Type:
        """The LLVM type of an element in memory."""
        return storage_type(self.type.element)

    @property
    def alignment(self) -> int:
        """The bytes that every element is aligned to."""
        return storage_bytes(self.type.element)


class Lanes(Struct, frozen=True, eq=False):
    """The vector loop that code is emitted in: its lane number and which lanes run, all where
    `mask` is None.

    Of a constant mask the first `active` lanes run.
    """

    number: LaneNumber
    mask: ir.Value | None = None
    active: int | None = None

    @property
    def count(self) -> int:
        """How many lanes there are."""
        return self.number.lanes

    @property
    def first(self) -> range:
        """The lanes that a constant mask lets run, or all."""
        return range(self.count if self.active is None else self.active)

    @property
    def is_constant(self) -> bool:
        """Whether the lanes that run are known at compile time."""
        return self.mask is None or self.active is not None

    def all(self) -> ir.Value:
        """The mask, or one that lets all lanes run."""
        if self.mask is not None:
            return self.mask
        return lane_mask(self.count, self.count)


def is_row(buffer_type: BufferType, lanes: int) -> bool:
    """Whether a buffer is one row of at least a vector. Padded, its last vector is stored whole: a
    processor waits until one that was stored with a mask is in the cache before it reads it again.
    """
    size, row = buffer_type.size.constant, buffer_type.storage[-1:]
    return size is not None and size >= lanes and row == (Expr.of(size),)


def padded(buffer_type: BufferType, lanes: int) -> BufferType:
    """The type with rows of whole vectors, so that the vectors of two rows never overlap."""
    if not buffer_type.storage or lanes == 1:
        return buffer_type
    *outer, row = buffer_type.storage
    subscripts = tuple(Expr.of(Operand(position)) for position in range(buffer_type.rank))
    if isinstance(buffer_type.layout, LayoutAttr):
        subscripts = buffer_type.layout.subscripts.data
    storage = ExprsAttr((*outer, row.ceildiv(lanes) * lanes))
    return BufferType(
        buffer_type.dims, buffer_type.element, LayoutAttr(ExprsAttr(subscripts), storage)
    )

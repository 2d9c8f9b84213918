"""Buffers of a kernel on the stack of the function that uses them. In the build of a fuzzer they
lie between poisoned bytes, and a function traps at its end where these were written:

    | poison | buffer | poison |

All of it is poison at first, so that what nobody wrote is none of the results that are expected.
"""

from __future__ import annotations

from typing import Final

from llvmlite import ir

from weft.compiler.loop_to_llvm.frame import Frame
from weft.compiler.loop_to_llvm.scalar.elements import (
    I1,
    I8,
    I64,
    POINTER,
    VOID,
    intrinsic,
    storage_bytes,
    storage_type,
)
from weft.dialects.loop.types import BufferType

STACK_ALIGNMENT: Final = 64
_GUARD: Final = 4 * STACK_ALIGNMENT
"""Bytes of poison on each side."""
_POISON: Final = 0xA5


class Stack:
    """The buffers of one function."""

    def __init__(self, frame: Frame, *, guarded: bool):
        self._frame = frame
        self._guarded = guarded
        self._poisoned: list[tuple[ir.Value, int]] = []

    def allocate(self, buffer_type: BufferType, more: int) -> ir.Value:
        """Where a buffer of constant size lies; whole vectors may be read and rewritten up to so
        many elements behind its end.
        """
        size = buffer_type.size.constant
        assert size is not None, (
            f"a buffer on the stack has a constant size, not {buffer_type.size}"
        )
        bytes_ = storage_bytes(buffer_type.element)
        alignment = max(STACK_ALIGNMENT, bytes_)
        if not self._guarded:
            return self._frame.alloca(storage_type(buffer_type.element), size + more, alignment)
        return self._guard(size * bytes_, more * bytes_, alignment)

    def _guard(self, size: int, more: int, alignment: int) -> ir.Value:
        """Room for so many bytes and more behind them, between poison."""
        builder, total = self._frame.prologue, _GUARD + size + more + _GUARD
        first = self._frame.alloca(I8, total, alignment)
        poison = ir.Constant(I8, _POISON), ir.Constant(I64, total), ir.Constant(I1, 0)
        intrinsic(builder, "memset", VOID, [first, *poison], POINTER, I64)
        start, end = (self._at(first, offset) for offset in (_GUARD, _GUARD + size))
        self._poisoned += [(first, _GUARD), (end, more + _GUARD)]
        return start

    def _at(self, first: ir.Value, offset: int) -> ir.Value:
        builder = self._frame.prologue
        return builder.gep(first, [ir.Constant(I64, offset)], source_etype=I8)

    def check(self) -> None:
        """Ends the process, at the end of the function, where poison was written."""
        builder = self._frame.builder
        for address, size in self._poisoned:
            vector_type = ir.VectorType(I8, size)
            found = builder.load(address, typ=vector_type, align=1)
            wanted = ir.Constant(vector_type, [_POISON] * size)
            differs = builder.bitcast(builder.icmp_unsigned("!=", found, wanted), ir.IntType(size))
            with builder.if_then(builder.icmp_unsigned("!=", differs, differs.type(0))):
                intrinsic(builder, "trap", VOID, [])

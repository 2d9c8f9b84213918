"""Memory of a program that grows: blocks of the context's allocator, each with a pointer and its
bytes on the stack, all given back where the program ends.
"""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir

from weft.compiler.abi.constants import WORKSPACE_ALIGNMENT, Status
from weft.compiler.loop_to_llvm.frame import Frame
from weft.compiler.loop_to_llvm.runtime import Runtime
from weft.compiler.loop_to_llvm.scalar.elements import I64, POINTER, intrinsic

NULL = ir.Constant(POINTER, None)

Fail = Callable[[Status, str, list[ir.Value]], None]
"""Ends the program with a status and a text where the builder stands."""


class GrowableMemory:
    """Emits the blocks of one program."""

    def __init__(self, frame: Frame, runtime: Runtime, context: ir.Value, fail: Fail, count: int):
        self.frame = frame
        self.runtime = runtime
        self.context = context
        self.fail = fail
        zero = ir.Constant(I64, 0)
        self.pointers = [frame.alloca(POINTER, 1, 8) for _ in range(count)]
        self.capacities = [frame.alloca(I64, 1, 8) for _ in range(count)]
        for pointer, capacity in zip(self.pointers, self.capacities, strict=True):
            frame.prologue.store(NULL, pointer)
            frame.prologue.store(zero, capacity)

    def pointer(self, number: int) -> ir.Value:
        """Where a block lies now."""
        return self.frame.builder.load(self.pointers[number], typ=POINTER)

    def reserve(self, number: int, size: ir.Value, *, keep: bool = False) -> ir.Value:
        """Makes a block large enough, at least twice as large as it was; `keep` copies what it
        held. Returns where it is stored.
        """
        builder = self.frame.builder
        capacity = builder.load(self.capacities[number], typ=I64)
        absent = builder.icmp_unsigned("==", self.pointer(number), NULL)
        small = builder.or_(builder.icmp_unsigned("<", capacity, size), absent)
        with builder.if_then(small, likely=False):
            twice = builder.shl(capacity, ir.Constant(I64, 1))
            least = ir.Constant(I64, WORKSPACE_ALIGNMENT)
            larger = intrinsic(builder, "umax", I64, [size, twice], I64)
            bytes_ = intrinsic(builder, "umax", I64, [larger, least], I64)
            self._replace(number, bytes_, capacity if keep else None)
        return self.pointer(number)

    def _replace(self, number: int, size: ir.Value, kept: ir.Value | None) -> None:
        builder = self.frame.builder
        fresh = self.runtime.allocate(builder, self.context, size, WORKSPACE_ALIGNMENT)
        builder.position_at_end(builder.block)  # the run time writes with a builder of its own
        with builder.if_then(builder.icmp_unsigned("==", fresh, NULL), likely=False):
            text = "run requires {} more bytes of memory, got none"
            self.fail(Status.OUT_OF_MEMORY, text, [size])
        old = self.pointer(number)
        with builder.if_then(builder.icmp_unsigned("!=", old, NULL)):
            if kept is not None:
                copy_bytes(builder, fresh, old, kept)
            self._release(old)
        builder.store(fresh, self.pointers[number])
        builder.store(size, self.capacities[number])

    def _release(self, memory: ir.Value) -> None:
        builder = self.frame.builder
        self.runtime.release(builder, self.context, memory)
        builder.position_at_end(builder.block)

    def transfer_ownership(self, number: int) -> ir.Value:
        """A block that is the caller's from now on."""
        memory = self.pointer(number)
        self.frame.builder.store(NULL, self.pointers[number])
        self.frame.builder.store(ir.Constant(I64, 0), self.capacities[number])
        return memory

    def release_all(self) -> None:
        """Gives all blocks back to the allocator."""
        builder = self.frame.builder
        for number in range(len(self.pointers)):
            memory = self.pointer(number)
            with builder.if_then(builder.icmp_unsigned("!=", memory, NULL)):
                self._release(memory)


def copy_bytes(builder: ir.IRBuilder, target: ir.Value, source: ir.Value, size: ir.Value) -> None:
    """Copies memory that does not overlap."""
    function_type = ir.FunctionType(ir.VoidType(), [POINTER, POINTER, I64, ir.IntType(1)])
    name = "llvm.memcpy.p0.p0.i64"
    function = builder.module.globals.get(name) or ir.Function(builder.module, function_type, name)
    builder.call(function, [target, source, size, ir.Constant(ir.IntType(1), 0)])

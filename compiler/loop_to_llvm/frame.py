"""One LLVM function under construction: its blocks, the scopes of its loops, and what it captures
from outside.

Scopes let integer arithmetic be emitted as far out as its operands are known: each loop body and
branch opens one, and remembers which expressions were computed in it. A function outlined from
another one reaches the values of the other through a closure, an array of eight-byte slots that the
outer function fills.
"""

from __future__ import annotations

from collections.abc import Generator, Hashable
from contextlib import contextmanager
from typing import Any

from llvmlite import ir
from msgspec import Struct, field

from weft.compiler.loop_to_llvm.scalar.elements import I64, POINTER
from weft.dialects.interval import Range


class IndexValue(Struct, frozen=True, eq=False):
    """An atom of expressions: a scalar i64; `number` tells a frame's atoms apart in texts."""

    value: ir.Value
    number: int

    def __str__(self) -> str:
        return f"%{self.number}"


class LaneNumber(Struct, frozen=True, eq=False):
    """An atom of expressions: 0, 1, ... in the lanes of the vector loop."""

    lanes: int
    number: int = 0

    def __str__(self) -> str:
        return "%lane"


class LaneValues(Struct, frozen=True, eq=False):
    """An atom of expressions: a vector of i64, one a lane; numbered as `IndexValue`."""

    value: ir.Value
    number: int

    def __str__(self) -> str:
        return f"%{self.number}"


class Scope(Struct, eq=False):
    """A region of straight control flow: a function's, a loop body's or a branch's. `known` maps to
    its values, `offsets` to those that are so many elements of so many bytes behind a pointer,
    `pointers` to values of this scope or of those around it, with their depths.
    """

    block: ir.Block
    known: dict[Hashable, ir.Value] = field(default_factory=dict[Hashable, ir.Value])
    offsets: dict[tuple[ir.Value, int, int], ir.Value] = field(
        default_factory=dict[tuple[ir.Value, int, int], ir.Value]
    )
    pointers: dict[Hashable, tuple[ir.Value, int]] = field(
        default_factory=dict[Hashable, tuple[ir.Value, int]]
    )


class Names:
    """The names of a function's values: nearly all of them are numbered."""

    def __init__(self, others: Any):
        self.others = others
        self.count = 0

    def register(self, name: str, deduplicate: bool = False) -> str:
        """A name that no other value has."""
        if name:
            return self.others.register(name, deduplicate=deduplicate)
        self.count += 1
        return f"v.{self.count}"


class Frame:
    """The function, a builder at its end, its scopes from the outermost to the current, and its
    closure.
    """

    def __init__(self, function: ir.Function, outer: Frame | None = None):
        self.function = function
        function.scope = Names(function.scope)
        self.outer = outer
        self.entry = function.append_basic_block("entry")
        start = function.append_basic_block("start")
        self.prologue = ir.IRBuilder(self.entry)
        self.builder = ir.IRBuilder(start)
        self.scopes = [Scope(start)]
        self.depths: dict[Hashable, int] = {}
        self.ranges: dict[Hashable, Range] = {} if outer is None else dict(outer.ranges)
        self.captured: list[ir.Value] = []
        self._copies: dict[int, ir.Value] = {}
        self._lane_numbers: dict[int, LaneNumber] = {}
        self._atoms = 0 if outer is None else outer.number()

    def finish(self) -> None:
        """Closes the prologue; nothing is emitted afterwards."""
        self.prologue.branch(self.function.blocks[1])

    def local(self, value: ir.Value) -> ir.Value:
        """The value as this function sees it: itself, or what the closure holds of it."""
        if isinstance(value, (ir.Constant, ir.GlobalValue)):
            return value
        owner = value.parent.function if isinstance(value.parent, ir.Block) else value.parent
        if owner is self.function:
            return value
        if id(value) not in self._copies:
            slot = self._slot(self.prologue, self.function.args[0], len(self.captured))
            self._copies[id(value)] = self.prologue.load(slot, typ=value.type)
            self.captured.append(value)
        return self._copies[id(value)]

    def closure(self, values: list[ir.Value]) -> ir.Value:
        """An array on the stack that holds the values, for an outlined function to read."""
        array = self.alloca(I64, max(1, len(values)), 8)
        for position, value in enumerate(values):
            self.builder.store(self.local(value), self._slot(self.builder, array, position))
        return array

    @staticmethod
    def _slot(builder: ir.IRBuilder, array: ir.Value, position: int) -> ir.Value:
        return builder.gep(array, [ir.Constant(I64, position)], source_etype=I64)

    def alloca(self, llvm_type: ir.Type, count: int, alignment: int) -> ir.Value:
        """Room on the stack for this call of the function."""
        array = self.prologue.alloca(ir.ArrayType(llvm_type, count))
        array.align = alignment
        # llvmlite still gives allocations the typed pointers of older LLVMs.
        array.type = POINTER
        return array

    def atom(self, value: ir.Value, bounds: Range = (None, None)) -> IndexValue:
        """An atom for an i64 that is known from the current scope inwards."""
        atom = IndexValue(value, self.number())
        self.depths[atom] = len(self.scopes) - 1
        self.ranges[atom] = bounds
        return atom

    def lane_number(self, lanes: int) -> LaneNumber:
        """The atom of all vector loops of so many lanes, none of which is inside of another."""
        if lanes not in self._lane_numbers:
            self._lane_numbers[lanes] = number = LaneNumber(lanes)
            self.ranges[number] = (0, lanes - 1)
        return self._lane_numbers[lanes]

    def number(self) -> int:
        """A number for the next atom, the same in every run of the compiler."""
        self._atoms += 1
        return self._atoms

    @contextmanager
    def scope(self, block: ir.Block) -> Generator[None]:
        """Emits into the block as a new scope; the current block, which must have ended, stays open
        to hoisting.
        """
        self.scopes[-1].block = self.builder.block
        self.scopes.append(Scope(block))
        self.builder.position_at_end(block)
        yield
        self.scopes.pop()

    @contextmanager
    def hoisted(self, depth: int) -> Generator[ir.IRBuilder]:
        """The builder, placed in the scope of that depth."""
        if depth == len(self.scopes) - 1:
            yield self.builder
            return
        before = self.builder.block
        self.enter(self.scopes[depth].block)
        yield self.builder
        self.enter(before)

    def enter(self, block: ir.Block) -> None:
        """Places the builder at the block's end, before its terminator where it has one."""
        if block.terminator is None:
            self.builder.position_at_end(block)
        else:
            self.builder.position_before(block.terminator)

    def block(self, name: str) -> ir.Block:
        """A new basic block after the others."""
        return self.function.append_basic_block(name)

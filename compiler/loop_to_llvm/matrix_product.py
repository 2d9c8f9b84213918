"""Products of matrices in registers that hold tiles: a `matrix` loop of sums of products of words
becomes tile loads, tile products and tile stores.

    for k matrix:  for i < 32:  for j < 32:  for w < 16:  for q < 4:  acc[i, j] += x[..] * y[..]
    ->  tilezero x 4;  for k:  2 tileloadd of x, 2 of y, 4 tdpbusd;  tilestored x 4

A store waits for the products of its register, and what waits fills the processor. So in a loop
over tiles each register is stored among the first products of the next tile, where it is cleared,
or what is there of the sums is loaded:

    for j:  tilezero x 4;  for k:  ...;  tilestored x 4
    ->  for j:  loads;  tilestored of j - 1, tilezero, tdpbusd of j, x 4;  for k > 0:  ...
        tilestored x 4
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from llvmlite import ir
from msgspec import Struct
from xdsl.ir import Operation, SSAValue

from weft.compiler.loop_to_llvm.control import ControlEmitter
from weft.compiler.loop_to_llvm.frame import Frame
from weft.compiler.loop_to_llvm.matrix_loops import (
    OF_COLUMNS,
    OF_ROWS,
    ROW_BYTES,
    SUMS,
    MatrixProduct,
    Part,
    constant_extent,
)
from weft.compiler.loop_to_llvm.memory.emitter import MemoryEmitter
from weft.compiler.loop_to_llvm.memory.storage import Storage
from weft.compiler.loop_to_llvm.scalar.elements import I8, POINTER, VOID, intrinsic
from weft.compiler.target.target import Target
from weft.dialects.expr import Expr
from weft.dialects.loop.ops import AccessOp, ForOp

Locate = Callable[[AccessOp, Mapping[SSAValue, Expr]], tuple[Storage, Expr]]
"""Where an access is, for given indices."""

_NULL: Final = ir.Constant(POINTER, None)

Held = dict[int, tuple[AccessOp, Expr]]
"""What registers hold of the factors, and from where on."""

Stores = Mapping[int, tuple[ir.Value, ir.Value]]
"""Registers that are stored before they are started anew: where to, unless that is null, and the
bytes from row to row.
"""


class Waiting(Struct, eq=False):
    """Sums in registers that the next tile's products store: variables of where to, null before
    the first tile, and from row to row the bytes, if they are known.
    """

    slots: Sequence[ir.Value]
    distances: Sequence[ir.Value] = ()


class TileRegisters:
    """What the registers of one function hold."""

    def __init__(self, frame: Frame, *, used: bool):
        self._frame = frame
        self.used = used
        self._current: ir.Value | None = None
        self._known: dict[bytes, ir.Value] = {}
        self.waiting: dict[ForOp, Waiting] = {}
        self.left: dict[ForOp, Waiting] = {}
        """What loops have left to those behind them."""

    def configure(self, content: bytes, control: ControlEmitter) -> None:
        """Lets registers hold tiles of these shapes, unless they do."""
        builder, wanted, current = self._frame.builder, self._stored(content), self._slot()
        before = builder.load(current, typ=POINTER)
        with control.when(builder.icmp_unsigned("!=", before, wanted), "configure"):
            intrinsic(builder, "x86.ldtilecfg", VOID, [wanted])
            builder.store(wanted, current)

    def forget(self) -> None:
        """Notes that registers hold nothing any more, after what may use them itself."""
        if self.used:
            self._frame.builder.store(_NULL, self._slot())

    def release(self) -> None:
        """Ends a function: the system saves no registers that hold nothing."""
        if self._known:
            intrinsic(self._frame.builder, "x86.tilerelease", VOID, [])

    def _slot(self) -> ir.Value:
        if self._current is None:
            self._current = self._frame.alloca(POINTER, 1, 8)
            self._frame.prologue.store(_NULL, self._current)
        return self._current

    def _stored(self, content: bytes) -> ir.Value:
        if content not in self._known:
            self._known[content] = self._frame.alloca(I8, len(content), ROW_BYTES)
            value = ir.Constant(ir.VectorType(I8, len(content)), list(content))
            self._frame.prologue.store(value, self._known[content], align=ROW_BYTES)
        return self._known[content]


class MatrixEmitter(Struct, frozen=True):
    """Emits `matrix` loops of a target that has such registers."""

    memory: MemoryEmitter
    target: Target
    control: ControlEmitter
    registers: TileRegisters
    locate: Locate
    extent: Callable[[ForOp], Expr]
    start: Callable[[ForOp, Expr], None]
    """Sets the index of a loop to that of an iteration."""
    operation: Callable[[Operation], None]
    """Emits what is behind a product in an iteration."""

    def emit(self, loop: ForOp) -> bool:
        """Emits a loop, or nothing for one that stores zeros to the sums of such a loop behind it;
        false for others.
        """
        if loop.matrix is None or not self.registers.used:
            following = loop.next_op if self.registers.used else None
            if not isinstance(following, ForOp) or following.matrix is None:
                return False
            return MatrixProduct.of(following).is_cleared_by(loop)
        matrix = MatrixProduct.of(loop)
        self.registers.configure(matrix.configuration(), self.control)
        waiting = self.registers.waiting.get(loop)
        if waiting is not None:
            if self._emit_waiting(matrix, waiting):
                return True
            self._store_waiting(matrix, waiting)
        for register, rows, columns in matrix.sums():
            self._start_sums(matrix, register, rows, columns)
        self._reduce(matrix, matrix.reductions)
        for register, rows, columns in matrix.sums():
            self._move("tilestored64", register, matrix, matrix.store, rows, columns)
        return True

    @contextmanager
    def stored_late(self, loop: ForOp) -> Generator[None]:
        """Around a loop whose iterations each store the sums of the one before, and the first those
        that such a loop in front of it left; nothing for others and inside of such a loop.
        """
        matrix = MatrixProduct.repeated_by(loop) if self.registers.used else None
        if matrix is None or matrix.reductions[0] in self.registers.waiting:
            yield
            return
        builder, product = self.memory.frame.builder, matrix.reductions[0]
        waiting = self.registers.left.pop(loop, None)
        if waiting is None:
            self.registers.configure(matrix.configuration(), self.control)
            waiting = Waiting([self.memory.frame.alloca(POINTER, 1, 8) for _ in matrix.sums()])
            for slot in waiting.slots:
                builder.store(_NULL, slot)
        self.registers.waiting[product] = waiting
        yield
        del self.registers.waiting[product]
        following = loop.next_op
        if isinstance(following, ForOp) and matrix.goes_on_in(loop, following):
            self.registers.left[following] = waiting
            return
        self._store_waiting(matrix, waiting)

    def _store_waiting(self, matrix: MatrixProduct, waiting: Waiting) -> None:
        """Stores what waits, if something does."""
        builder, sums = self.memory.frame.builder, [register for register, *_ in matrix.sums()]
        for register, slot, distance in zip(sums, waiting.slots, waiting.distances, strict=False):
            self._store(register, builder.load(slot, typ=POINTER), distance)
            builder.store(_NULL, slot)

    def _emit_waiting(self, matrix: MatrixProduct, waiting: Waiting) -> bool:
        """Emits a product that stores the sums that wait and lets its own wait; false, and nothing
        emitted, where rows are not known to be as far apart in all of these.
        """
        builder = self.memory.frame.builder
        sums = list(matrix.sums())
        starts = [self._part_of(matrix, matrix.store, rows, columns) for _, rows, columns in sums]
        if any(distance.constant is None for _, distance in starts):
            return False
        waiting.distances = [self.memory.index.uniform(distance) for _, distance in starts]
        before = [builder.load(slot, typ=POINTER) for slot in waiting.slots]
        stores = {
            register: (last, distance)
            for (register, *_), last, distance in zip(sums, before, waiting.distances, strict=True)
        }
        self._reduce(matrix, matrix.reductions, stores)
        for (pointer, _), slot in zip(starts, waiting.slots, strict=True):
            builder.store(pointer, slot)
        return True

    def _reduce(
        self,
        matrix: MatrixProduct,
        loops: Sequence[ForOp],
        stores: Stores | None = None,
        held: Held | None = None,
    ) -> None:
        """Emits products inside of loops, of which the very first ones store what waits. What the
        iteration before of an unrolled loop has loaded is held.
        """
        if not loops:
            self._multiply(matrix, stores or {}, {} if held is None else held)
            return
        loop, *inner = loops
        held = None if loop.unroll is None else {}

        def iteration(number: Expr, stores: Stores | None = None) -> None:
            self.start(loop, number)
            self._reduce(matrix, inner, stores, held)
            _, *others = loop.body.block.ops
            for op in others:
                self.operation(op)

        if loop.unroll is not None:
            for number in range(constant_extent(loop)):
                iteration(Expr.of(number), None if number else stores)
        elif stores is None:
            self.control.count(self.extent(loop), iteration)
        else:
            iteration(Expr.of(0), stores)
            self.control.count(self.extent(loop) - 1, lambda number: iteration(number + 1))

    def _multiply(self, matrix: MatrixProduct, stores: Stores, held: Held) -> None:
        """Loads tiles of both factors, but for what is held, and adds their products to the sums,
        or, of registers that are stored before, starts with them.
        """
        whole = Part(0, 0)
        streamed = matrix.streamed(self.target.l1_bytes)
        by_rows, by_columns = (
            "tileloaddt164" if factor is streamed else "tileloadd64"
            for factor in (matrix.by_rows, matrix.by_columns)
        )
        for n, part in enumerate(matrix.column_parts):
            self._move(by_columns, OF_COLUMNS + n, matrix, matrix.by_columns, whole, part, held)
        for n, rows in enumerate(matrix.row_parts):
            self._move(by_rows, OF_ROWS + n, matrix, matrix.by_rows, rows, whole, held)
            for m, columns in enumerate(matrix.column_parts):
                sums = SUMS + 2 * n + m
                if sums in stores:
                    self._store(sums, *stores[sums])
                    self._start_sums(matrix, sums, rows, columns)
                self._call(matrix.instruction, sums, OF_ROWS + n, OF_COLUMNS + m)

    def _start_sums(self, matrix: MatrixProduct, register: int, rows: Part, columns: Part) -> None:
        """Clears a register, or loads what is there of its sums."""
        if matrix.starts_at_zero:
            self._call("tilezero", register)
        else:
            self._move("tileloadd64", register, matrix, matrix.total, rows, columns)

    def _store(self, register: int, pointer: ir.Value, distance: ir.Value) -> None:
        """Stores a register, unless the pointer is null."""
        holds = self.memory.frame.builder.icmp_unsigned("!=", pointer, _NULL)
        with self.control.when(holds, "late"):
            self._call("tilestored64", register, pointer, distance)

    def _move(
        self,
        name: str,
        register: int,
        matrix: MatrixProduct,
        access: AccessOp,
        rows: Part,
        columns: Part,
        held: Held | None = None,
    ) -> None:
        """Loads or stores a register, what an access reaches from these rows and columns on, unless
        it holds that.
        """
        storage, start, distance = self._reach(matrix, access, rows, columns)
        if held is not None:
            if held.get(register) == (access, start):
                return
            held[register] = access, start
        pointer = self.memory.addresses.pointer(storage, start)
        self._call(name, register, pointer, self.memory.index.uniform(distance))

    def _part_of(
        self, matrix: MatrixProduct, access: AccessOp, rows: Part, columns: Part
    ) -> tuple[ir.Value, Expr]:
        """The address of what an access reaches, and the bytes from row to row."""
        storage, start, distance = self._reach(matrix, access, rows, columns)
        return self.memory.addresses.pointer(storage, start), distance

    def _reach(
        self, matrix: MatrixProduct, access: AccessOp, rows: Part, columns: Part
    ) -> tuple[Storage, Expr, Expr]:
        """Where an access begins from these rows and columns on, and the bytes from a row of the
        register to the next: one for each row of the tile, or for each word of the factor of the
        columns.
        """
        down = matrix.words if access is matrix.by_columns else matrix.rows
        origin = {
            matrix.rows.index: Expr.of(rows.first),
            matrix.columns.index: Expr.of(columns.first),
            matrix.words.index: Expr.of(0),
        }
        if matrix.terms is not None:
            origin[matrix.terms.index] = Expr.of(0)
        storage, start = self.locate(access, origin)
        below = {down.index: origin[down.index] + 1}
        _, following = self.locate(access, below)
        distance = (following - start).simplify(self.memory.frame.ranges) * storage.alignment
        return storage, start.simplify(self.memory.frame.ranges), distance

    def _call(self, name: str, *operands: int | ir.Value) -> None:
        values = [ir.Constant(I8, each) if isinstance(each, int) else each for each in operands]
        intrinsic(self.memory.frame.builder, f"x86.{name}", VOID, values)

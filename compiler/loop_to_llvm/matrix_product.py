"""Products of matrices in registers that hold tiles: a `matrix` loop of sums of products of words
becomes tile loads, tile products and tile stores.

    for k matrix:  for i < 32:  for j < 32:  for w < 16:  for q < 4:  acc[i, j] += x[..] * y[..]
    ->  tilezero x 4;  for k:  2 tileloadd of x, 2 of y, 4 tdpbusd;  tilestored x 4

Registers 0 to 3 hold sums, those of one row of tiles next to each other, 4 and 5 the factor of the
rows, 6 and 7 that of the columns.

A store waits for the products of its register, and what waits fills the processor. So in a loop
over tiles each register is stored among the first products of the next tile, where it is cleared:

    for j:  tilezero x 4;  for k:  ...;  tilestored x 4
    ->  for j:  loads;  tilestored of j - 1, tilezero, tdpbusd of j, x 4;  for k > 0:  ...
        tilestored x 4
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import product
from math import copysign
from typing import Final, NamedTuple

from llvmlite import ir
from msgspec import Struct
from xdsl.dialects import arith
from xdsl.dialects.builtin import FloatAttr, IntegerAttr
from xdsl.ir import Operation, SSAValue

from weft.compiler.loop_to_llvm.control import ControlEmitter
from weft.compiler.loop_to_llvm.frame import Frame
from weft.compiler.loop_to_llvm.memory.emitter import MemoryEmitter
from weft.compiler.loop_to_llvm.memory.storage import Storage
from weft.compiler.loop_to_llvm.scalar.elements import I8, POINTER, VOID, intrinsic
from weft.compiler.target.target import Target
from weft.dialects.expr import Expr
from weft.dialects.expr import product as extent_of
from weft.dialects.loop.ops import AccessOp, AllocOp, ForOp, LoadOp, StoreOp, enclosing_loops
from weft.dialects.loop.scalar import is_float, width

Locate = Callable[[AccessOp, Mapping[SSAValue, Expr]], tuple[Storage, Expr]]
"""Where an access is, for given indices."""

_ROWS: Final = 16
_ROW_BYTES: Final = 64
_WORD: Final = 4
_WORD_BITS: Final = 32
_OF_BF16: Final = "tdpbf16ps"
_SUMS, _OF_ROWS, _OF_COLUMNS = 0, 4, 6
_PALETTE: Final = 1

_NULL: Final = ir.Constant(POINTER, None)

Stores = Mapping[int, tuple[ir.Value, ir.Value]]
"""Registers that are stored before they are cleared: where to, and the bytes from row to row."""

LEAST_STEPS: Final = 5
"""Products along a sum, of which fewer leave L1 no time for the lines that the stores wait for."""

KEPT: Final = 0.75
"""The share of L1 that keeps what is read again: the rest is in the way of other lines."""


class Part(NamedTuple):
    """Some rows or columns of a tile that one register holds: the first, and how many."""

    first: int
    extent: int


class MatrixProduct(Struct, frozen=True, eq=False):
    """The loops and operations inside a `matrix` loop."""

    reductions: Sequence[ForOp]
    rows: ForOp
    columns: ForOp
    words: ForOp
    terms: ForOp | None
    """The loop over the elements of a word; None where these are words."""
    by_rows: LoadOp
    by_columns: LoadOp
    total: LoadOp
    store: StoreOp
    instruction: str

    @staticmethod
    def of(loop: ForOp) -> MatrixProduct:
        """Those of a loop that is marked so, and has therefore no others."""
        nest = list(_nest(loop))
        store = nest[-1].body.block.last_op
        assert isinstance(store, StoreOp), "a product of tiles ends with its store"
        loads = [op for op in nest[-1].body.block.ops if isinstance(op, LoadOp)]
        (total,) = [load for load in loads if load.buffer is store.buffer]
        first, second = (load for load in loads if load is not total)
        terms = nest.pop() if width(first.buffer_type.element) < _WORD_BITS else None
        *reductions, rows, columns, words = nest
        if rows.index not in first.operands_ or columns.index in first.operands_:
            first, second = second, first
        return MatrixProduct(
            reductions, rows, columns, words, terms, first, second, total, store,
            _instruction(first, second),
        )  # fmt: skip

    def is_of(self, target: Target) -> bool:
        """Whether the target has such products."""
        return target.has_matrix_products(2 if self.instruction == _OF_BF16 else _WORD)

    @property
    def row_parts(self) -> list[Part]:
        """The rows by register."""
        return _parts(self.rows)

    @property
    def column_parts(self) -> list[Part]:
        """The columns by register."""
        return _parts(self.columns)

    def configuration(self) -> bytes:
        """What each register holds, as `ldtilecfg` reads it."""
        words = _extent(self.words)
        down, across = enumerate(self.row_parts), enumerate(self.column_parts)
        shapes = {_OF_ROWS + n: (part.extent, words) for n, part in down}
        shapes |= {_OF_COLUMNS + n: (words, part.extent) for n, part in across}
        for register, rows, columns in self.sums():
            shapes[register] = rows.extent, columns.extent
        content = bytearray(_ROW_BYTES)
        content[0] = _PALETTE
        for register, (height, size) in shapes.items():
            content[16 + 2 * register] = size * _WORD
            content[48 + register] = height
        return bytes(content)

    def sums(self) -> Iterator[tuple[int, Part, Part]]:
        """The registers of sums, with their rows and columns."""
        parts = enumerate(self.row_parts), enumerate(self.column_parts)
        for (n, rows), (m, columns) in product(*parts):
            yield _SUMS + 2 * n + m, rows, columns

    def streamed(self, l1_bytes: int) -> LoadOp | None:
        """The factor of which every tile reads another part, as the loop around says, while those
        of both do not fit L1: loaded without being kept there it leaves room for the other one.
        """
        terms = extent_of(each.extent for each in (*self.reductions, self.words)).constant
        extent = _extent(self.rows) + _extent(self.columns)
        if terms is None or terms * _WORD * extent <= KEPT * l1_bytes:
            return None
        factors = self.by_rows, self.by_columns
        for loop in reversed(enclosing_loops(self.reductions[0])):
            indexed = [each for each in factors if loop.index in each.operands_]
            if loop.extent != 1 and indexed:
                return indexed[0] if len(indexed) == 1 else None
        return None

    @staticmethod
    def repeated_by(loop: ForOp) -> MatrixProduct | None:
        """The product, of sums that start at zero, that is all that a nest of loops does over and
        over; None where there is no such one.
        """
        *others, last = loop.body.block.ops or [loop]
        if not isinstance(last, ForOp) or last.parallel is not None or last.unroll is not None:
            return None
        if last.matrix is None:
            return None if others else MatrixProduct.repeated_by(last)
        found, cleared = MatrixProduct.of(last), last.prev_op
        apart = found.store.buffer not in (found.by_rows.buffer, found.by_columns.buffer)
        alone = all(op is cleared or isinstance(op, AllocOp) for op in others)
        steps = extent_of(each.extent for each in found.reductions).constant or 0
        starts_at_zero = isinstance(cleared, ForOp) and found.is_cleared_by(cleared)
        return found if apart and alone and starts_at_zero and steps >= LEAST_STEPS else None

    def is_cleared_by(self, nest: ForOp) -> bool:
        """Whether a nest stores zeros to all that is summed up, and does nothing else."""
        loops = list(_nest(nest))
        store = loops[-1].body.block.last_op
        if len(loops) != 2 or not isinstance(store, StoreOp):
            return False
        value = store.value.owner
        number = value.value if isinstance(value, arith.ConstantOp) else None
        data = number.value.data if isinstance(number, IntegerAttr | FloatAttr) else None
        alike = [each.extent for each in loops] == [self.rows.extent, self.columns.extent]
        return (
            data == 0
            and copysign(1, data) == 1
            and alike
            and len(loops[-1].body.block.ops) <= 2
            and store.buffer is self.store.buffer
            and store.subscripts == self.store.subscripts
            and _order(store, loops) == _order(self.store, (self.rows, self.columns))
        )


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
            self._known[content] = self._frame.alloca(I8, len(content), _ROW_BYTES)
            value = ir.Constant(ir.VectorType(I8, len(content)), list(content))
            self._frame.prologue.store(value, self._known[content], align=_ROW_BYTES)
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
        if waiting is not None and self._emit_waiting(matrix, waiting):
            return True
        cleared = loop.prev_op
        starts_at_zero = isinstance(cleared, ForOp) and matrix.is_cleared_by(cleared)
        for register, rows, columns in matrix.sums():
            if starts_at_zero:
                self._call("tilezero", register)
            else:
                self._move("tileloadd64", register, matrix, matrix.total, rows, columns)
        self._reduce(matrix, matrix.reductions)
        for register, rows, columns in matrix.sums():
            self._move("tilestored64", register, matrix, matrix.store, rows, columns)
        return True

    @contextmanager
    def stored_late(self, loop: ForOp) -> Generator[None]:
        """Around a loop whose iterations each store the sums of the one before; nothing for others
        and inside of such a loop.
        """
        matrix = MatrixProduct.repeated_by(loop) if self.registers.used else None
        if matrix is None or matrix.reductions[0] in self.registers.waiting:
            yield
            return
        builder = self.memory.frame.builder
        self.registers.configure(matrix.configuration(), self.control)
        sums = [register for register, *_ in matrix.sums()]
        waiting = Waiting([self.memory.frame.alloca(POINTER, 1, 8) for _ in sums])
        for register, slot in zip(sums, waiting.slots, strict=True):
            self._call("tilezero", register)
            builder.store(_NULL, slot)
        self.registers.waiting[matrix.reductions[0]] = waiting
        yield
        del self.registers.waiting[matrix.reductions[0]]
        pointers = [builder.load(slot, typ=POINTER) for slot in waiting.slots]
        with self.control.when(builder.icmp_unsigned("!=", pointers[0], _NULL), "last"):
            for register, *target in zip(sums, pointers, waiting.distances, strict=False):
                self._call("tilestored64", register, *target)

    def _emit_waiting(self, matrix: MatrixProduct, waiting: Waiting) -> bool:
        """Emits a product that stores the sums that wait and lets its own wait; false, and nothing
        emitted, where rows are not known to be as far apart in all of these. The first tile stores
        zeros where its own sums will be.
        """
        builder = self.memory.frame.builder
        sums = list(matrix.sums())
        starts = [self._part_of(matrix, matrix.store, rows, columns) for _, rows, columns in sums]
        if any(distance.constant is None for _, distance in starts):
            return False
        waiting.distances = [self.memory.index.uniform(distance) for _, distance in starts]
        before = [builder.load(slot, typ=POINTER) for slot in waiting.slots]
        first = builder.icmp_unsigned("==", before[0], _NULL)
        stores = {
            register: (builder.select(first, start, last), distance)
            for (register, *_), (start, _), last, distance in zip(
                sums, starts, before, waiting.distances, strict=True
            )
        }
        self._reduce(matrix, matrix.reductions, stores)
        for (pointer, _), slot in zip(starts, waiting.slots, strict=True):
            builder.store(pointer, slot)
        return True

    def _reduce(
        self, matrix: MatrixProduct, loops: Sequence[ForOp], stores: Stores | None = None
    ) -> None:
        """Emits products inside of loops, of which the very first ones store what waits."""
        if not loops:
            self._multiply(matrix, stores or {})
            return
        loop, *inner = loops

        def iteration(number: Expr, stores: Stores | None = None) -> None:
            self.start(loop, number)
            self._reduce(matrix, inner, stores)
            _, *others = loop.body.block.ops
            for op in others:
                self.operation(op)

        if stores is None:
            self.control.count(self.extent(loop), iteration)
        else:
            iteration(Expr.of(0), stores)
            self.control.count(self.extent(loop) - 1, lambda number: iteration(number + 1))

    def _multiply(self, matrix: MatrixProduct, stores: Stores) -> None:
        """Loads tiles of both factors and adds their products to the sums, or, of registers that
        are stored before, starts with them.
        """
        whole = Part(0, 0)
        streamed = matrix.streamed(self.target.l1_bytes)
        by_rows, by_columns = (
            "tileloaddt164" if factor is streamed else "tileloadd64"
            for factor in (matrix.by_rows, matrix.by_columns)
        )
        for n, part in enumerate(matrix.column_parts):
            self._move(by_columns, _OF_COLUMNS + n, matrix, matrix.by_columns, whole, part)
        for n, rows in enumerate(matrix.row_parts):
            self._move(by_rows, _OF_ROWS + n, matrix, matrix.by_rows, rows, whole)
            for m in range(len(matrix.column_parts)):
                sums = _SUMS + 2 * n + m
                if sums in stores:
                    self._call("tilestored64", sums, *stores[sums])
                    self._call("tilezero", sums)
                self._call(matrix.instruction, sums, _OF_ROWS + n, _OF_COLUMNS + m)

    def _move(
        self,
        name: str,
        register: int,
        matrix: MatrixProduct,
        access: AccessOp,
        rows: Part,
        columns: Part,
    ) -> None:
        """Loads or stores a register: what an access reaches from these rows and columns on."""
        pointer, distance = self._part_of(matrix, access, rows, columns)
        self._call(name, register, pointer, self.memory.index.uniform(distance))

    def _part_of(
        self, matrix: MatrixProduct, access: AccessOp, rows: Part, columns: Part
    ) -> tuple[ir.Value, Expr]:
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
        return self.memory.addresses.pointer(storage, start), distance

    def _call(self, name: str, *operands: int | ir.Value) -> None:
        values = [ir.Constant(I8, each) if isinstance(each, int) else each for each in operands]
        intrinsic(self.memory.frame.builder, f"x86.{name}", VOID, values)


def _nest(loop: ForOp) -> Iterator[ForOp]:
    """The loop and those that each begin the body of the one before."""
    inner: Operation | None = loop
    while isinstance(inner, ForOp):
        yield inner
        inner = inner.body.block.first_op


def _parts(loop: ForOp) -> list[Part]:
    extent = _extent(loop)
    return [Part(first, min(_ROWS, extent - first)) for first in range(0, extent, _ROWS)]


def _extent(loop: ForOp) -> int:
    extent = loop.extent.constant
    assert extent is not None, "the loops of a tile are of constant length"
    return extent


def _instruction(by_rows: LoadOp, by_columns: LoadOp) -> str:
    """The product of tiles of these: of bf16, or of bytes with and without a sign."""
    element = by_rows.buffer_type.element
    if is_float(element) or width(element) == _WORD_BITS:
        return _OF_BF16
    return f"tdpb{_sign(by_rows)}{_sign(by_columns)}d"


def _sign(load: LoadOp) -> str:
    signed = all(isinstance(use.operation, arith.ExtSIOp) for use in load.result.uses)
    return "s" if signed else "u"


def _order(access: AccessOp, loops: Sequence[ForOp]) -> list[int | None]:
    """The position of each operand among the indices of loops, None for another one."""
    indices = [loop.index for loop in loops]
    return [indices.index(each) if each in indices else None for each in access.operands_]

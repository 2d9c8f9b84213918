"""Products of matrices in registers that hold tiles: a `matrix` loop of sums of products of words
becomes tile loads, tile products and tile stores.

    for k matrix:  for i < 32:  for j < 32:  for w < 16:  for q < 4:  acc[i, j] += x[..] * y[..]
    ->  tilezero x 4;  for k:  2 tileloadd of x, 2 of y, 4 tdpbusd;  tilestored x 4

Registers 0 to 3 hold sums, those of one row of tiles next to each other, 4 and 5 the factor of the
rows, 6 and 7 that of the columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
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
from weft.dialects.loop.ops import AccessOp, ForOp, LoadOp, StoreOp, enclosing_loops
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


class TileRegisters:
    """What the registers of one function hold."""

    def __init__(self, frame: Frame, *, used: bool):
        self._frame = frame
        self._used = used
        self._current: ir.Value | None = None
        self._known: dict[bytes, ir.Value] = {}

    def configure(self, content: bytes, control: ControlEmitter) -> None:
        """Lets registers hold tiles of these shapes, unless they do."""
        builder, wanted, current = self._frame.builder, self._stored(content), self._slot()
        before = builder.load(current, typ=POINTER)
        with control.when(builder.icmp_unsigned("!=", before, wanted), "configure"):
            intrinsic(builder, "x86.ldtilecfg", VOID, [wanted])
            builder.store(wanted, current)

    def forget(self) -> None:
        """Notes that registers hold nothing any more, after what may use them itself."""
        if self._used:
            self._frame.builder.store(ir.Constant(POINTER, None), self._slot())

    def release(self) -> None:
        """Ends a function: the system saves no registers that hold nothing."""
        if self._known:
            intrinsic(self._frame.builder, "x86.tilerelease", VOID, [])

    def _slot(self) -> ir.Value:
        if self._current is None:
            self._current = self._frame.alloca(POINTER, 1, 8)
            self._frame.prologue.store(ir.Constant(POINTER, None), self._current)
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
        if loop.matrix is None:
            following = loop.next_op
            if not isinstance(following, ForOp) or following.matrix is None:
                return False
            return MatrixProduct.of(following).is_cleared_by(loop)
        matrix = MatrixProduct.of(loop)
        self.registers.configure(matrix.configuration(), self.control)
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

    def _reduce(self, matrix: MatrixProduct, loops: Sequence[ForOp]) -> None:
        if not loops:
            self._multiply(matrix)
            return
        loop, *inner = loops

        def iteration(number: Expr) -> None:
            self.start(loop, number)
            self._reduce(matrix, inner)
            _, *others = loop.body.block.ops
            for op in others:
                self.operation(op)

        self.control.count(self.extent(loop), iteration)

    def _multiply(self, matrix: MatrixProduct) -> None:
        """Loads tiles of both factors and adds their products to the sums."""
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
                operands = _SUMS + 2 * n + m, _OF_ROWS + n, _OF_COLUMNS + m
                self._call(matrix.instruction, *operands)

    def _move(
        self,
        name: str,
        register: int,
        matrix: MatrixProduct,
        access: AccessOp,
        rows: Part,
        columns: Part,
    ) -> None:
        """Loads or stores a register: what an access reaches from these rows and columns on, a row
        of the register for each row of the tile, or for each word of the factor of the columns.
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
        pointer = self.memory.addresses.pointer(storage, start)
        self._call(name, register, pointer, self.memory.index.uniform(distance))

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

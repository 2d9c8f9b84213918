"""The loops of a `matrix` loop, and what each register holds of them.

Registers 0 to 3 hold sums, those of one row of tiles next to each other, 4 and 5 the factor of the
rows, 6 and 7 that of the columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import copysign
from typing import Final, NamedTuple

from msgspec import Struct
from xdsl.dialects import arith
from xdsl.dialects.builtin import FloatAttr, IntegerAttr
from xdsl.ir import Operation

from weft.compiler.target.target import Target
from weft.dialects.expr import Expr
from weft.dialects.expr import product as extent_of
from weft.dialects.loop.ops import AccessOp, AllocOp, ForOp, LoadOp, StoreOp, enclosing_loops
from weft.dialects.loop.scalar import is_float, width

_ROWS: Final = 16
ROW_BYTES: Final = 64
_WORD: Final = 4
_WORD_BITS: Final = 32
_OF_BF16: Final = "tdpbf16ps"
SUMS, OF_ROWS, OF_COLUMNS = 0, 4, 6
_PALETTE: Final = 1

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
        words = constant_extent(self.words)
        down, across = enumerate(self.row_parts), enumerate(self.column_parts)
        shapes = {OF_ROWS + n: (part.extent, words) for n, part in down}
        shapes |= {OF_COLUMNS + n: (words, part.extent) for n, part in across}
        for register, rows, columns in self.sums():
            shapes[register] = rows.extent, columns.extent
        content = bytearray(ROW_BYTES)
        content[0] = _PALETTE
        for register, (height, size) in shapes.items():
            content[16 + 2 * register] = size * _WORD
            content[48 + register] = height
        return bytes(content)

    def sums(self) -> Iterator[tuple[int, Part, Part]]:
        """The registers of sums, with their rows and columns."""
        parts = enumerate(self.row_parts), enumerate(self.column_parts)
        for (n, rows), (m, columns) in product(*parts):
            yield SUMS + 2 * n + m, rows, columns

    @property
    def starts_at_zero(self) -> bool:
        """Whether the loop in front of the product clears its sums."""
        cleared = self.reductions[0].prev_op
        return isinstance(cleared, ForOp) and self.is_cleared_by(cleared)

    def streamed(self, l1_bytes: int) -> LoadOp | None:
        """The factor of which every tile reads another part, as the loop around says, while those
        of both do not fit L1: loaded without being kept there it leaves room for the other one.
        """
        terms = extent_of(each.extent for each in (*self.reductions, self.words)).constant
        rows, columns = constant_extent(self.rows), constant_extent(self.columns)
        sums = 2 * rows * columns * _WORD if self.starts_at_zero else 0  # and those of the last
        if terms is None:
            return None
        parts = {self.by_rows: terms * rows * _WORD, self.by_columns: terms * columns * _WORD}
        if (
            sum(max(size, _local_bytes(load)) for load, size in parts.items()) + sums
            <= KEPT * l1_bytes
        ):
            return None
        factors = self.by_rows, self.by_columns
        for loop in reversed(enclosing_loops(self.reductions[0])):
            indexed = [each for each in factors if loop.index in each.operands_]
            if (loop.extent != 1 or self._goes_on_behind(loop)) and indexed:
                return indexed[0] if len(indexed) == 1 else None
        return None

    def _goes_on_behind(self, loop: ForOp) -> bool:
        """Whether the loop behind one multiplies the same factors, as behind the first iteration of
        one that is pipelined.
        """
        following = loop.next_op
        if not isinstance(following, ForOp):
            return False
        loads = {op.buffer for op in following.walk() if isinstance(op, LoadOp)}
        return {self.by_rows.buffer, self.by_columns.buffer} <= loads

    @staticmethod
    def repeated_by(loop: ForOp) -> MatrixProduct | None:
        """The product that is all that a nest of loops does over and over, of sums that start at
        zero or are whole tiles of a buffer; None where there is no such one.
        """
        *others, last = loop.body.block.ops or [loop]
        if not isinstance(last, ForOp) or last.parallel is not None or last.unroll is not None:
            return None
        if last.matrix is None:
            return None if others else MatrixProduct.repeated_by(last)
        return MatrixProduct._alone(last, others)

    @staticmethod
    def _alone(matrix: ForOp, others: Sequence[Operation]) -> MatrixProduct | None:
        """The product of a loop, unless other operations of an iteration do something else, it
        reads what it stores, sums of two tiles might overlap, or it is too short.
        """
        found, cleared = MatrixProduct.of(matrix), matrix.prev_op
        start = found.starts_at_zero
        apart = found.store.buffer not in (found.by_rows.buffer, found.by_columns.buffer)
        alone = all(isinstance(op, AllocOp) or (start and op is cleared) for op in others)
        steps = extent_of(each.extent for each in found.reductions).constant or 0
        whole = start or None not in found._dims_of_sums
        return found if apart and alone and whole and steps >= LEAST_STEPS else None

    @property
    def _dims_of_sums(self) -> list[int | None]:
        """The dims of the buffer that whole tiles of rows and of columns divide; None for others.
        Two tiles have the same sums or none in common where both do.
        """
        return [self._dim_of_sums(each) for each in (self.rows, self.columns)]

    def _dim_of_sums(self, loop: ForOp) -> int | None:
        dims, index = self.store.index, Expr.atom(loop.index)
        own = [n for n, each in enumerate(dims) if loop.index in set(each.atoms())]
        whole = len(own) == 1 and (dims[own[0]] - index) % constant_extent(loop) == 0
        return own[0] if whole else None

    def goes_on_in(self, loop: ForOp, following: ForOp) -> bool:
        """Whether the loop behind one that repeats the product repeats one with such sums, which
        are those of the last tile or have none in common with it.
        """
        plain = all(each.parallel is each.unroll is None for each in (loop, following))
        other = MatrixProduct.repeated_by(following) if plain else None
        return (
            other is not None
            and other.store.buffer is self.store.buffer
            and other.configuration() == self.configuration()
            and None not in self._dims_of_sums
            and other._dims_of_sums == self._dims_of_sums
        )

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


def _local_bytes(load: LoadOp) -> int:
    """What a buffer of the iteration takes: the parts of a factor that are not read are written."""
    if not isinstance(load.buffer.owner, AllocOp):
        return 0
    return (load.buffer_type.size.constant or 0) * width(load.buffer_type.element) // 8


def _nest(loop: ForOp) -> Iterator[ForOp]:
    """The loop and those that each begin the body of the one before."""
    inner: Operation | None = loop
    while isinstance(inner, ForOp):
        yield inner
        inner = inner.body.block.first_op


def _parts(loop: ForOp) -> list[Part]:
    extent = constant_extent(loop)
    return [Part(first, min(_ROWS, extent - first)) for first in range(0, extent, _ROWS)]


def constant_extent(loop: ForOp) -> int:
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

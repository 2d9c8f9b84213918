"""Blocks that are copied with rows and columns swapped: whole vectors are loaded along one, turned
in registers, and stored along the other.

    for i < 16 unroll:  for j < 16 unroll vector(16):  y[i, j] = x[j, i]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from llvmlite import ir
from msgspec import Struct
from xdsl.ir import SSAValue

from weft.compiler.loop_to_llvm.frame import LaneNumber
from weft.compiler.loop_to_llvm.memory.emitter import MemoryEmitter
from weft.compiler.loop_to_llvm.memory.storage import Lanes, Storage
from weft.compiler.loop_to_llvm.scalar.elements import lane_numbers, lanes_of, splat
from weft.dialects.expr import Expr
from weft.dialects.loop.ops import AccessOp, ForOp, LoadOp, StoreOp

Line = tuple[Storage, Expr, LaneNumber]
"""A storage, an address in it, and the lane that moves it."""


class TransposedBlock(Struct, frozen=True):
    """A copy by an unrolled loop around a vector loop of at least as many lanes."""

    outer: ForOp
    inner: ForOp
    load: LoadOp
    store: StoreOp

    @property
    def lanes(self) -> int:
        """Rows and columns of the block."""
        assert self.inner.vector is not None, "the inner loop of a block is a vector loop"
        return self.inner.vector.data


def block_of(loop: ForOp) -> TransposedBlock | None:
    """The block that an unrolled loop copies, if that is all it does."""
    inner = loop.body.block.first_op
    if not isinstance(inner, ForOp) or inner is not loop.body.block.last_op:
        return None
    counting = all(each.lower == 0 and each.step.data == 1 for each in (loop, inner))
    if inner.vector is None or inner.unroll is None or loop.index in inner.operands_:
        return None
    load, store = inner.body.block.first_op, inner.body.block.last_op
    if not isinstance(load, LoadOp) or not isinstance(store, StoreOp) or load.next_op is not store:
        return None
    # In one buffer a store could overwrite what another row of the block has yet to load.
    apart = counting and store.value is load.result and store.buffer is not load.buffer
    return TransposedBlock(loop, inner, load, store) if apart else None


Locate = Callable[[AccessOp, Mapping[SSAValue, Expr]], tuple[Storage, Expr]]
"""Where an access is in the iterations of some indices."""


class TransposeEmitter:
    """Emits one block; `extents` are those of its outer and of its inner loop."""

    def __init__(
        self,
        memory: MemoryEmitter,
        block: TransposedBlock,
        extents: tuple[Expr, Expr],
        locate: Locate,
    ):
        self.memory = memory
        self.frame = memory.frame
        self.block = block
        self.extents = dict(zip((block.outer, block.inner), extents, strict=True))
        self.locate = locate

    def emit(self) -> bool:
        """Loads the lines of the block along one loop and stores them along the other; false where
        they do not lie so.
        """
        block = self.block
        if any(not 1 < self._most(loop) <= block.lanes for loop in self.extents):
            return False
        loads = self._lines(block.load, self._loaded, along=block.outer, across=block.inner)
        stores = self._lines(block.store, block.lanes, along=block.inner, across=block.outer)
        if not all(_is_run(*line) for line in (loads[0], stores[0])):
            return False
        rows = [
            self.memory.load(storage, address, self._lanes(lane, block.outer, block.inner, number))
            for number, (storage, address, lane) in enumerate(loads)
        ]
        missing = [ir.Constant(rows[0].type, None)] * (block.lanes - len(rows))
        columns = transpose(self.frame.builder, [*rows, *missing])
        vectors = [
            (address, columns[number], self._lanes(lane, block.inner, block.outer, number))
            for number, (_, address, lane) in enumerate(stores)
        ]
        past = block.store.nontemporal is not None
        self.memory.store_vectors(stores[0][0], vectors, nontemporal=past)
        return True

    @property
    def _loaded(self) -> int:
        """How many elements of a row are loaded at once: as many as there are where a register can
        hold such parts of several rows, all lanes of one row otherwise.
        """
        columns = self.extents[self.block.outer].constant or self.block.lanes
        return columns if columns & (columns - 1) == 0 else self.block.lanes

    def _most(self, loop: ForOp) -> int:
        """The most iterations of a loop; 0 where that is not known."""
        return self.extents[loop].range(self.frame.ranges)[1] or 0

    def _lines(self, access: AccessOp, lanes: int, *, along: ForOp, across: ForOp) -> list[Line]:
        """Where the access is in each iteration of one loop, a lane for each of the other."""
        lines: list[Line] = []
        for number in range(self._most(across)):
            lane = LaneNumber(lanes)
            self.frame.ranges[lane] = (0, lane.lanes - 1)
            indices = {along.index: Expr.atom(lane), across.index: Expr.of(number)}
            lines.append((*self.locate(access, indices), lane))
        return lines

    def _lanes(self, lane: LaneNumber, along: ForOp, across: ForOp, number: int) -> Lanes:
        """The lanes of a line that there are: none behind the block's end."""
        lanes = self.memory.first_lanes(lane, self.extents[along])
        left = self.extents[across] - number
        if left.constant is not None:
            return lanes
        builder = self.frame.builder
        runs = self.memory.index.is_positive(left)
        return Lanes(lane, builder.and_(lanes.all(), splat(builder, runs, lane.lanes)))


def _is_run(storage: Storage, address: Expr, lane: LaneNumber) -> bool:
    return address.is_affine_in(lane) and address.coefficient(lane) == 1


def transpose(builder: ir.IRBuilder, rows: Sequence[ir.Value]) -> list[ir.Value]:
    """The columns of a block of which the rows are given, both powers of two and no more columns
    than rows. Registers first take in several rows where these are shorter; then they are squares,
    side by side, of twice the size from step to step, in each of which two quarters change places.
    """
    columns = lanes_of(rows[0])
    values = [_join(builder, rows[first::columns]) for first in range(columns)]
    step = 1
    while step < columns:
        for row in range(columns):
            if not row & step:
                pair = values[row], values[row | step]
                values[row], values[row | step] = _exchange(builder, pair, step)
        step *= 2
    return values


def _join(builder: ir.IRBuilder, parts: Sequence[ir.Value]) -> ir.Value:
    """A vector of the lanes of all parts, in their order."""
    while len(parts) > 1:
        order = lane_numbers(*range(2 * lanes_of(parts[0])))
        parts = [
            builder.shuffle_vector(first, second, order)
            for first, second in zip(parts[::2], parts[1::2], strict=True)
        ]
    return parts[0]


def _exchange(
    builder: ir.IRBuilder, pair: tuple[ir.Value, ir.Value], step: int
) -> tuple[ir.Value, ir.Value]:
    """Swaps the odd groups of the first row's lanes with the even ones of the second's."""
    lanes = lanes_of(pair[0])
    upper = [lanes + lane - step if lane & step else lane for lane in range(lanes)]
    lower = [lanes + lane if lane & step else lane + step for lane in range(lanes)]
    first, second = (
        builder.shuffle_vector(*pair, lane_numbers(*order)) for order in (upper, lower)
    )
    return first, second

"""Loads of vectors: contiguous, strided, repeated, gathered and masked, chosen by how an address
varies over lanes.
"""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from weft.compiler.loop_to_llvm.memory.addresses import (
    AddressEmitter,
    covers_first,
    is_data,
    is_run,
)
from weft.compiler.loop_to_llvm.memory.storage import Lanes, Storage
from weft.compiler.loop_to_llvm.scalar.elements import (
    I32,
    POINTER,
    intrinsic,
    lane_numbers,
    lanes_of,
)
from weft.dialects.expr import Expr
from weft.dialects.loop.scalar import is_float

WIDEST_STRIDE = 4
"""Up to this distance between lanes, all elements between them are loaded and shuffled into place.
"""

LEAST_RUN = 2
"""Lanes for each run of neighbouring elements that pay for loading and shuffling it."""


class LoadEmitter:
    """Emits the loads of vectors of one function."""

    def __init__(self, addresses: AddressEmitter):
        self.addresses = addresses
        self.frame = addresses.frame

    def load(self, storage: Storage, address: Expr, lanes: Lanes) -> ir.Value:
        """The elements of an address that varies over the lanes, as they are stored."""
        # From the cheapest form on: a vector load; one load and a shuffle; loads and shuffles for a
        # short stride; a gather, or an element at a time where it is known which lanes run. Lanes
        # that are masked may be behind the end of the buffer, hence what is asked of the mask.
        placed = self.addresses.offsets(address, lanes)
        if placed is None:
            if lanes.is_constant and not is_data(address):
                return self._each(storage, self.addresses.each_lane(address, lanes), lanes)
            return self._gather(storage, address, lanes)
        base, offsets = placed
        if is_run(offsets):
            return self._run(storage, base, lanes)
        if lanes.mask is None and covers_first(offsets):
            return self._repeated(storage, base, offsets)
        stride = offsets[1]
        if is_run(offsets, stride):
            if stride == -1 and lanes.mask is None:
                return self._descending(storage, base, lanes)
            if 1 < stride <= WIDEST_STRIDE and lanes.is_constant:
                return self._first_strided(storage, base, stride, lanes)
            if 1 < stride <= WIDEST_STRIDE:
                return self._strided(storage, base, stride, lanes.count, lanes.mask)
        runs = _runs([offsets[lane] for lane in lanes.first]) if lanes.is_constant else []
        if lanes.is_constant and len(runs) * LEAST_RUN <= len(lanes.first):
            return self._of_runs(storage, base, runs, offsets, lanes)
        if not lanes.is_constant:
            return self._gather_at(storage, self.addresses.pointers(storage, base, offsets), lanes)
        return self._each(storage, [base + offset for offset in offsets], lanes)

    def _run(self, storage: Storage, base: Expr, lanes: Lanes) -> ir.Value:
        """Neighbouring elements; lanes that do not run read only memory that is there."""
        if not self.addresses.is_private(storage):
            return self._window(storage, base, lanes.count, lanes.mask)
        value = self._window(storage, base, lanes.count, None)
        if lanes.mask is None or storage.registers or not is_float(storage.type.element):
            return value
        # What the stack had there before may be subnormal: arithmetic with that takes 100 times as
        # long.
        return self.frame.builder.select(lanes.mask, value, ir.Constant(value.type, None))

    def _window(self, storage: Storage, base: Expr, count: int, mask: ir.Value | None) -> ir.Value:
        """So many neighbouring elements, all or those of a mask."""
        vector_type = ir.VectorType(storage.storage_type, count)
        pointer = self.addresses.pointer(storage, base)
        if mask is None:
            return self.frame.builder.load(pointer, typ=vector_type, align=storage.alignment)
        alignment = ir.Constant(I32, storage.alignment)
        operands = [pointer, alignment, mask, ir.Constant(vector_type, None)]
        return intrinsic(
            self.frame.builder, "masked.load", vector_type, operands, vector_type, POINTER
        )

    def _repeated(self, storage: Storage, base: Expr, offsets: Sequence[int]) -> ir.Value:
        """The first few elements from the base on, each in several lanes."""
        vector_type = ir.VectorType(storage.storage_type, max(offsets) + 1)
        pointer = self.addresses.pointer(storage, base)
        window = self.frame.builder.load(pointer, typ=vector_type, align=storage.alignment)
        return self.frame.builder.shuffle_vector(window, window, lane_numbers(*offsets))

    def _of_runs(
        self,
        storage: Storage,
        base: Expr,
        runs: Sequence[range],
        offsets: Sequence[int],
        lanes: Lanes,
    ) -> ir.Value:
        """Elements of a few runs of neighbouring ones, each loaded once and shuffled into place."""
        builder, count = self.frame.builder, lanes.count
        value: ir.Value = ir.Constant(ir.VectorType(storage.storage_type, count), None)
        for run in runs:
            window = self._window(storage, base + run.start, len(run), None)
            places = [lane for lane in lanes.first if offsets[lane] in run]
            spread = [0] * count
            for lane in places:
                spread[lane] = offsets[lane] - run.start
            wide = builder.shuffle_vector(window, window, lane_numbers(*spread))
            order = [count + lane if lane in places else lane for lane in range(count)]
            value = builder.shuffle_vector(value, wide, lane_numbers(*order))
        return value

    def _descending(self, storage: Storage, base: Expr, lanes: Lanes) -> ir.Value:
        run = self._run(storage, base - (lanes.count - 1), lanes)
        order = lane_numbers(*reversed(range(lanes.count)))
        return self.frame.builder.shuffle_vector(run, run, order)

    def _first_strided(self, storage: Storage, base: Expr, stride: int, lanes: Lanes) -> ir.Value:
        """Every second, third or fourth element for the lanes that run, by vectors of so many that
        nothing behind the last element is read.
        """
        builder, count, active = self.frame.builder, lanes.count, len(lanes.first)
        value: ir.Value = ir.Constant(ir.VectorType(storage.storage_type, count), None)
        taken = 0
        while taken < active:
            size = 1 << ((active - taken).bit_length() - 1)
            part = self._strided(storage, base + taken * stride, stride, size)
            if size == count:
                return part
            order = lane_numbers(*[n % size for n in range(count)])
            wide = builder.shuffle_vector(part, part, order)
            value = self._merge(value, wide, taken, range(size))
            taken += size
        return value

    def _strided(
        self,
        storage: Storage,
        base: Expr,
        stride: int,
        count: int,
        mask: ir.Value | None = None,
    ) -> ir.Value:
        """Every second, third or fourth element, out of whole vectors of which the last ends at the
        last element. Of lanes that a mask leaves out nothing is read.
        """
        last = (count - 1) * (stride - 1)
        starts = [min(number * count, last) for number in range(stride)]
        value: ir.Value = ir.Constant(ir.VectorType(storage.storage_type, count), ir.Undefined)
        taken = 0
        for start in starts:
            window = self._window(storage, base + start, count, self._spread(mask, start, stride))
            reached = min(count, (start + count - 1) // stride + 1)
            value = self._merge(
                value, window, taken, [lane * stride - start for lane in range(taken, reached)]
            )
            taken = reached
        return value

    def _spread(self, mask: ir.Value | None, start: int, stride: int) -> ir.Value | None:
        """Which elements of a window lanes `stride` apart read, where it starts at an element."""
        if mask is None:
            return None
        count = lanes_of(mask)
        lanes = [
            position // stride if position % stride == 0 else count
            for position in range(start, start + count)
        ]
        nothing = ir.Constant(mask.type, None)
        return self.frame.builder.shuffle_vector(mask, nothing, lane_numbers(*lanes))

    def _merge(
        self, value: ir.Value, window: ir.Value, taken: int, picked: Sequence[int]
    ) -> ir.Value:
        """The first `taken` lanes of the value, then the picked ones of the window."""
        count = lanes_of(value)
        order = [*range(taken), *(count + lane for lane in picked)]
        order += [0] * (count - len(order))
        return self.frame.builder.shuffle_vector(value, window, lane_numbers(*order))

    def _each(self, storage: Storage, addresses: Sequence[Expr], lanes: Lanes) -> ir.Value:
        """Elements one by one: no slower than gathers, and on many processors faster."""
        value = ir.Constant(ir.VectorType(storage.storage_type, lanes.count), None)
        for lane in lanes.first:
            pointer = self.addresses.pointer(storage, addresses[lane])
            element = self.frame.builder.load(
                pointer, typ=storage.storage_type, align=storage.alignment
            )
            value = self.frame.builder.insert_element(value, element, ir.Constant(I32, lane))
        return value

    def _gather(self, storage: Storage, address: Expr, lanes: Lanes) -> ir.Value:
        return self._gather_at(storage, self.addresses.scattered(storage, address, lanes), lanes)

    def _gather_at(self, storage: Storage, pointers: ir.Value, lanes: Lanes) -> ir.Value:
        vector_type = ir.VectorType(storage.storage_type, lanes.count)
        alignment = ir.Constant(I32, storage.alignment)
        operands = [pointers, alignment, lanes.all(), ir.Constant(vector_type, None)]
        over = (vector_type, pointers.type)
        return intrinsic(self.frame.builder, "masked.gather", vector_type, operands, *over)


def _runs(offsets: Sequence[int]) -> list[range]:
    """The runs of neighbouring elements that offsets make up."""
    runs: list[range] = []
    for offset in sorted(set(offsets)):
        if runs and runs[-1].stop == offset:
            runs[-1] = range(runs[-1].start, offset + 1)
        else:
            runs.append(range(offset, offset + 1))
    return runs

"""Stores of vectors: contiguous, scattered, masked and non-temporal."""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir
from xdsl.dialects.builtin import NoneAttr

from weft.compiler.loop_to_llvm.memory.addresses import AddressEmitter, is_data, is_run
from weft.compiler.loop_to_llvm.memory.storage import Lanes, Storage
from weft.compiler.loop_to_llvm.scalar.elements import I32, I64, POINTER, intrinsic
from weft.compiler.target.target import LINE
from weft.dialects.expr import Expr, Operand

PlacedVector = tuple[Expr, ir.Value, Lanes]
"""An address, what is stored there, and the lanes that store it."""


class StoreEmitter:
    """Emits the stores of vectors of one function; `unordered` once some were non-temporal."""

    def __init__(self, addresses: AddressEmitter):
        self.addresses = addresses
        self.frame = addresses.frame
        self.unordered = False

    def store(self, storage: Storage, address: Expr, value: ir.Value, lanes: Lanes) -> None:
        """Writes a vector, as it is stored, to an address that varies over the lanes."""
        placed = self.addresses.offsets(address, lanes)
        if placed is None and lanes.is_constant and not is_data(address):
            self._each(storage, self.addresses.each_lane(address, lanes), value, lanes)
        elif placed is None:
            self._scatter(storage, self.addresses.scattered(storage, address, lanes), value, lanes)
        elif is_run(placed[1]):
            self._run(storage, placed[0], value, lanes)
        elif lanes.is_constant:
            addresses = [placed[0] + offset for offset in placed[1]]
            self._each(storage, addresses, value, lanes)
        else:
            self._scatter(storage, self.addresses.pointers(storage, *placed), value, lanes)

    def _run(self, storage: Storage, base: Expr, value: ir.Value, lanes: Lanes) -> None:
        """Neighbouring elements; private memory is rewritten whole, so that it can become
        registers.
        """
        builder, pointer = self.frame.builder, self.addresses.pointer(storage, base)
        private = self.addresses.is_private(storage)
        if lanes.mask is None or (private and _rest_is_padding(storage, base, lanes)):
            builder.store(value, pointer, align=storage.alignment)
        elif lanes.active == 1:
            # LLVM 22 writes the 32 bits of the one lane where a mask lets it alone run and its
            # element was cut out of them.
            self._each(storage, [base], value, lanes)
        elif private:
            old = builder.load(pointer, typ=value.type, align=storage.alignment)
            builder.store(builder.select(lanes.mask, value, old), pointer, align=storage.alignment)
        else:
            operands = [value, pointer, ir.Constant(I32, storage.alignment), lanes.mask]
            intrinsic(builder, "masked.store", ir.VoidType(), operands, value.type, POINTER)

    def _each(
        self, storage: Storage, addresses: Sequence[Expr], value: ir.Value, lanes: Lanes
    ) -> None:
        builder = self.frame.builder
        for lane in lanes.first:
            element = builder.extract_element(value, ir.Constant(I32, lane))
            pointer = self.addresses.pointer(storage, addresses[lane])
            builder.store(element, pointer, align=storage.alignment)

    def _scatter(self, storage: Storage, pointers: ir.Value, value: ir.Value, lanes: Lanes) -> None:
        operands = [value, pointers, ir.Constant(I32, storage.alignment), lanes.all()]
        over = (value.type, pointers.type)
        intrinsic(self.frame.builder, "masked.scatter", ir.VoidType(), operands, *over)

    def store_nontemporal(self, storage: Storage, vectors: Sequence[PlacedVector]) -> bool:
        """Emits non-temporal stores of vectors of one size, for calls whose buffer is aligned to
        that size, or to lines if the vectors are longer, and usual stores for other calls. False,
        and no code, where vectors are not at multiples of their size from the buffer's start.
        """
        bases = [self._whole_vector(address, lanes) for address, _, lanes in vectors]
        size = vectors[0][2].count * storage.alignment
        pointers = [self.addresses.pointer(storage, base) for base in bases if base is not None]
        if len(pointers) < len(vectors) or size & (size - 1):
            return False
        builder, size = self.frame.builder, min(size, LINE)
        past, through, after = (self.frame.block(name) for name in ("past", "through", "after"))
        builder.cbranch(self._is_aligned(storage, size), past, through)
        builder.position_at_end(past)
        only_once = builder.module.add_metadata([ir.Constant(I32, 1)])
        for pointer, (_, value, _) in zip(pointers, vectors, strict=True):
            builder.store(value, pointer, align=size).set_metadata("nontemporal", only_once)
        builder.branch(after)
        builder.position_at_end(through)
        for pointer, (_, value, _) in zip(pointers, vectors, strict=True):
            builder.store(value, pointer, align=storage.alignment)
        builder.branch(after)
        builder.position_at_end(after)
        self.unordered = True
        return True

    def _whole_vector(self, address: Expr, lanes: Lanes) -> Expr | None:
        """Where neighbouring elements begin that fill a vector, at a multiple of its size."""
        placed = None if lanes.mask is not None else self.addresses.offsets(address, lanes)
        if placed is None or not is_run(placed[1]):
            return None
        base = placed[0]
        return base if all(each % lanes.count == 0 for each in base.terms.values()) else None

    def _is_aligned(self, storage: Storage, size: int) -> ir.Value:
        start = self.frame.local(storage.pointer)

        def test(builder: ir.IRBuilder) -> ir.Value:
            odd = builder.and_(builder.ptrtoint(start, I64), ir.Constant(I64, size - 1))
            return builder.icmp_unsigned("==", odd, ir.Constant(I64, 0))

        return self.addresses.index.remember(0, (storage, size), test)


def _rest_is_padding(storage: Storage, base: Expr, lanes: Lanes) -> bool:
    """Whether lanes that do not run are behind the last element of a row of the buffer, in room
    that nothing else is stored in: whatever they compute may be written there.
    """
    layout = storage.type.layout
    if isinstance(layout, NoneAttr) or lanes.active is None:
        return False
    row, position = layout.storage.data[-1], layout.subscripts.data[-1]
    axes = [n for n in range(storage.type.rank) if position == Expr.of(Operand(n))]
    if not axes or row % lanes.count != 0:
        return False
    start = base % row
    return start % lanes.count == 0 and start + lanes.active == storage.type.shape[axes[0]]

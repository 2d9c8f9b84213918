"""Loads, stores and prefetches of a function, of scalars and of vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from llvmlite import ir
from xdsl.dialects.builtin import IntegerType

from weft.compiler.loop_to_llvm.frame import LaneNumber
from weft.compiler.loop_to_llvm.index import IndexEmitter, varies
from weft.compiler.loop_to_llvm.memory.addresses import AddressEmitter, is_run
from weft.compiler.loop_to_llvm.memory.loads import LoadEmitter
from weft.compiler.loop_to_llvm.memory.storage import Lanes, Storage
from weft.compiler.loop_to_llvm.memory.stores import PlacedVector, StoreEmitter
from weft.compiler.loop_to_llvm.scalar.elements import (
    I32,
    POINTER,
    from_storage,
    intrinsic,
    lane_mask,
    lane_numbers,
    lanes_of,
    splat,
    to_storage,
)
from weft.compiler.target.target import LINE, Target
from weft.dialects.expr import Expr
from weft.dialects.loop.types import buffer

WORDS: Final = buffer([], IntegerType(32))
"""The type of memory that is read as numbers of 32 bits."""


class MemoryEmitter:
    """Emits the accesses of one function."""

    def __init__(self, index: IndexEmitter):
        self.index = index
        self.frame = index.frame
        self.addresses = AddressEmitter(index)
        self.loads = LoadEmitter(self.addresses)
        self.stores = StoreEmitter(self.addresses)
        self._words: dict[Storage, Storage] = {}

    def first_lanes(self, number: LaneNumber, active: Expr) -> Lanes:
        """So many lanes from the first on, or all where there are not more."""
        constant_count, count = active.constant, number.lanes
        if constant_count is not None and constant_count >= count:
            return Lanes(number)
        if constant_count is not None:
            return Lanes(number, lane_mask(count, constant_count), constant_count)
        builder = self.frame.builder
        limit = builder.trunc(self.index.uniform(active), I32)
        lanes = lane_numbers(*range(count))
        return Lanes(number, builder.icmp_signed("<", lanes, splat(builder, limit, count)))

    def load(self, storage: Storage, address: Expr, lanes: Lanes | None) -> ir.Value:
        """The element at an address, as a register's value: a vector where the address varies over
        the lanes.
        """
        if lanes is None or not varies(address):
            pointer = self.addresses.pointer(storage, address)
            value = self.frame.builder.load(
                pointer, typ=storage.storage_type, align=storage.alignment
            )
        else:
            value = self.loads.load(storage, address, lanes)
        return from_storage(self.frame.builder, value, storage.type.element)

    def load_word(self, storage: Storage, address: Expr, lanes: Lanes) -> ir.Value:
        """The 32 bits from an element on: a vector where its address, a multiple of 32 bits then,
        varies over the lanes.
        """
        if not varies(address):
            return self.frame.builder.load(
                self.addresses.pointer(storage, address), typ=I32, align=1
            )
        words = self._words.setdefault(storage, Storage(storage.pointer, WORDS, storage.private))
        return self.loads.load(words, address // (4 // storage.alignment), lanes)

    def store(
        self,
        storage: Storage,
        address: Expr,
        value: ir.Value,
        lanes: Lanes | None,
        *,
        nontemporal: bool = False,
    ) -> None:
        """Writes a register's value to an address, by a non-temporal store where that is wanted
        and the vectors fill lines.
        """
        builder = self.frame.builder
        value = to_storage(builder, value, storage.type.element)
        if lanes is None or not varies(address):
            assert not lanes_of(value), (
                "a vector loop does not store all of its lanes to one element"
            )
            builder.store(value, self.addresses.pointer(storage, address), align=storage.alignment)
            return
        value = splat(builder, value, lanes.count)
        if not nontemporal or not self.stores.store_nontemporal(storage, [(address, value, lanes)]):
            self.stores.store(storage, address, value, lanes)

    def store_vectors(
        self, storage: Storage, vectors: Sequence[PlacedVector], *, nontemporal: bool = False
    ) -> None:
        """Writes several vectors, by non-temporal stores where that is wanted and possible for all
        of them: a call tests their alignment once.
        """
        builder, element = self.frame.builder, storage.type.element
        stored = [
            (address, to_storage(builder, value, element), lanes)
            for address, value, lanes in vectors
        ]
        if not nontemporal or not self.stores.store_nontemporal(storage, stored):
            for vector in stored:
                self.stores.store(storage, *vector)

    def finish(self, target: Target) -> None:
        """Ends a function: a fence orders its non-temporal stores before what follows."""
        if self.stores.unordered and target.arch == "x86_64":
            intrinsic(self.frame.builder, "x86.sse.sfence", ir.VoidType(), [])

    def prefetch(self, storage: Storage, address: Expr, lanes: Lanes | None, locality: int) -> None:
        """Prefetches the line of an address: of contiguous lanes each line that they fill, of
        others that of the first. The locality is LLVM's, 3 for L1 and 2 for L2.
        """
        if lanes is None:
            self._prefetch_line(storage, address, locality)
            return
        step = max(1, LINE // storage.alignment)
        runs = (placed := self.addresses.offsets(address, lanes)) is not None and is_run(placed[1])
        for lane in range(0, lanes.count if runs else 1, step):
            self._prefetch_line(storage, self.addresses.at_lane(address, lanes, lane), locality)

    def _prefetch_line(self, storage: Storage, address: Expr, locality: int) -> None:
        to_read, data = ir.Constant(I32, 0), ir.Constant(I32, 1)
        hint = ir.Constant(I32, locality)
        operands = [self.addresses.pointer(storage, address), to_read, hint, data]
        intrinsic(self.frame.builder, "prefetch", ir.VoidType(), operands, POINTER)

"""Addresses of elements: a pointer, the offsets of lanes from it, and pointers of all lanes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from llvmlite import ir

from weft.compiler.loop_to_llvm.frame import LaneValues
from weft.compiler.loop_to_llvm.index import IndexEmitter, varies
from weft.compiler.loop_to_llvm.memory.storage import Lanes, Storage
from weft.compiler.loop_to_llvm.scalar.elements import I64, POINTER, lanes_of
from weft.dialects.expr import Expr


class AddressEmitter:
    """Emits the addresses of one function."""

    def __init__(self, index: IndexEmitter):
        self.index = index
        self.frame = index.frame

    def pointer(self, storage: Storage, address: Expr) -> ir.Value:
        """The pointer to an element; what outer scopes know of the address is added there."""
        offset = address.terms.get((), 0)
        varying = Expr({m: f for m, f in address.terms.items() if m}) if offset else address
        pointer, depth = self._pointer(storage, varying)
        if not offset:
            return pointer
        known, key = self.frame.scopes[depth].offsets, (pointer, offset, storage.alignment)
        found = known.get(key)
        if found is None:
            indices, element = [ir.Constant(I64, offset)], storage.storage_type
            with self.frame.hoisted(depth) as builder:
                found = known[key] = builder.gep(pointer, indices, source_etype=element)
        return found

    def _pointer(self, storage: Storage, address: Expr) -> tuple[ir.Value, int]:
        """The pointer to an element at an address without a constant term, and the depth from which
        on it is known. Unrolled iterations differ in the constant term alone, so each scope keeps
        what it found.
        """
        known = self.frame.scopes[-1].pointers
        found = known.get((storage, address))
        if found is None:
            pointer = self.frame.local(storage.pointer)
            groups, _ = self.index.by_depth(address)
            prefix = Expr({})
            depth = 0
            for depth, group in groups:
                prefix = prefix + group
                pointer = self._step(storage, pointer, depth, prefix, group)
            found = pointer, depth
            if not self.index.binds:
                known[storage, address] = found
        return found

    def _step(
        self, storage: Storage, pointer: ir.Value, depth: int, prefix: Expr, group: Expr
    ) -> ir.Value:
        def advance(builder: ir.IRBuilder) -> ir.Value:
            return builder.gep(
                pointer, [self.index.uniform(group)], source_etype=storage.storage_type
            )

        return self.index.remember(depth, (storage, prefix), advance)

    def is_private(self, storage: Storage) -> bool:
        """Whether whole vectors may be read and rewritten: nobody else sees the memory, and there
        is room behind it.
        """
        return storage.private and self.frame.local(storage.pointer) is storage.pointer

    def offsets(self, address: Expr, lanes: Lanes) -> tuple[Expr, tuple[int, ...]] | None:
        """The first lane's address and the distances of all lanes from it, where these are
        constants.
        """
        if is_data(address):
            return None
        if not address.has_operators():
            base = {m: factor for m, factor in address.terms.items() if lanes.number not in m}
            stride = address.terms.get((lanes.number,), 0)
            if len(base) + (stride != 0) == len(address.terms):
                return Expr(base, operators=False), _multiples(stride, lanes.count)
        base = self.at_lane(address, lanes, 0)
        if address.is_affine_in(lanes.number):
            stride = address.coefficient(lanes.number).constant
            return None if stride is None else (base, _multiples(stride, lanes.count))
        distances = [
            (self.at_lane(address, lanes, lane) - base).constant for lane in range(lanes.count)
        ]
        constant_distances = tuple(distance for distance in distances if distance is not None)
        return (base, constant_distances) if len(constant_distances) == lanes.count else None

    def at_lane(self, address: Expr, lanes: Lanes, lane: int) -> Expr:
        return address.substitute({lanes.number: Expr.of(lane)}, self.frame.ranges)

    def each_lane(self, address: Expr, lanes: Lanes) -> list[Expr]:
        return [self.at_lane(address, lanes, lane) for lane in range(lanes.count)]

    def pointers(self, storage: Storage, base: Expr, offsets: Sequence[int]) -> ir.Value:
        distances = ir.Constant(ir.VectorType(I64, len(offsets)), list(offsets))
        return self._advance(self.pointer(storage, base), distances, storage.storage_type)

    def _advance(self, pointer: ir.Value, distances: ir.Value, llvm_type: ir.Type) -> ir.Value:
        pointers = self.frame.builder.gep(pointer, [distances], source_etype=llvm_type)
        # llvmlite gives every address computation the type of a scalar pointer.
        pointers.type = ir.VectorType(POINTER, lanes_of(distances))
        return pointers

    def scattered(self, storage: Storage, address: Expr, lanes: Lanes) -> ir.Value:
        uniform = Expr({m: f for m, f in address.terms.items() if not varies(Expr({m: 1}))})
        distances = self.index.lanes(address - uniform, lanes.count)
        return self._advance(self.pointer(storage, uniform), distances, storage.storage_type)


def is_data(address: Expr) -> bool:
    """Whether lanes go where values that were computed or loaded say."""
    return LaneValues in map(type, address.atoms())


def covers_first(offsets: Sequence[int]) -> bool:
    """Whether the offsets are those of a power of two of first elements, fewer than lanes and more
    than one, with none left out.
    """
    reached = max(offsets) + 1
    some = 1 < reached < len(offsets) and reached & (reached - 1) == 0
    return some and set(offsets) == set(range(reached))


def is_run(offsets: Sequence[int], stride: int = 1) -> bool:
    """Whether the offsets are the multiples of the stride from 0 on."""
    return tuple(offsets) == _multiples(stride, len(offsets))


@lru_cache(maxsize=1 << 8)
def _multiples(stride: int, count: int) -> tuple[int, ...]:
    return tuple([stride * lane for lane in range(count)])

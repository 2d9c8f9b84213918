"""Loads and stores: scalar, contiguous, strided, gathered and masked, chosen by how an address
varies over lanes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from llvmlite import ir

from compiler.loop_to_llvm.frame import LaneNumber, LaneValues
from compiler.loop_to_llvm.index import IndexEmitter, varies
from compiler.loop_to_llvm.scalar.elements import (
    I1,
    I32,
    I64,
    POINTER,
    from_storage,
    intrinsic,
    lanes_of,
    splat,
    storage_bytes,
    storage_type,
    to_storage,
)
from compiler.target.target import LINE, Target
from dialects.expr import Expr
from dialects.loop.types import BufferType

WIDEST_STRIDE = 4
"""Up to this distance between lanes, all elements between them are loaded and shuffled into place.
"""


@dataclass(frozen=True, eq=False)
class Storage:
    """Where a buffer lies. `private`: on the stack of the one function that uses it, with room
    behind its end.
    """

    pointer: ir.Value
    type: BufferType
    private: bool = False

    @property
    def kind(self) -> ir.Type:
        """The LLVM type of an element in memory."""
        return storage_type(self.type.element)

    @property
    def alignment(self) -> int:
        """The bytes that every element is aligned to."""
        return storage_bytes(self.type.element)


@dataclass(frozen=True, eq=False)
class Lanes:
    """The vector loop that code is emitted in: its lane number and which lanes run, all where
    `mask` is None.

    Of a constant mask the first `active` lanes run.
    """

    number: LaneNumber
    mask: ir.Value | None = None
    active: int | None = None

    @property
    def count(self) -> int:
        """How many lanes there are."""
        return self.number.lanes

    @property
    def first(self) -> range:
        """The lanes that a constant mask lets run, or all."""
        return range(self.count if self.active is None else self.active)

    @property
    def known(self) -> bool:
        """Whether the lanes that run are known at compile time."""
        return self.mask is None or self.active is not None

    def all(self) -> ir.Value:
        """The mask, or one that lets all lanes run."""
        if self.mask is not None:
            return self.mask
        return ir.Constant(ir.VectorType(I1, self.count), [1] * self.count)


PlacedVector = tuple[Expr, ir.Value, Lanes]
"""An address, what is stored there, and the lanes that store it."""


class MemoryEmitter:
    """Emits the accesses of one function."""

    def __init__(self, index: IndexEmitter):
        self.index = index
        self.frame = index.frame
        self.unordered = False

    def first_lanes(self, number: LaneNumber, active: Expr) -> Lanes:
        """So many lanes from the first on, or all where there are not more."""
        known, count = active.constant, number.lanes
        if known is not None and known >= count:
            return Lanes(number)
        if known is not None:
            bits = [1] * known + [0] * (count - known)
            return Lanes(number, ir.Constant(ir.VectorType(I1, count), bits), known)
        builder = self.frame.builder
        limit = builder.trunc(self.index.uniform(active), I32)
        lanes = ir.Constant(ir.VectorType(I32, count), list(range(count)))
        return Lanes(number, builder.icmp_signed("<", lanes, splat(builder, limit, count)))

    def load(self, storage: Storage, address: Expr, lanes: Lanes | None) -> ir.Value:
        """The element at an address, as a register's value: a vector where the address varies over
        the lanes.
        """
        if lanes is None or not varies(address):
            pointer = self.pointer(storage, address)
            value = self.frame.builder.load(pointer, typ=storage.kind, align=storage.alignment)
        else:
            value = self._load_lanes(storage, address, lanes)
        return from_storage(self.frame.builder, value, storage.type.element)

    def store(
        self,
        storage: Storage,
        address: Expr,
        value: ir.Value,
        lanes: Lanes | None,
        *,
        nontemporal: bool = False,
    ) -> None:
        """Writes a register's value to an address, past the caches where that is wanted and the
        vectors fill lines.
        """
        builder = self.frame.builder
        value = to_storage(builder, value, storage.type.element)
        if lanes is None or not varies(address):
            assert not lanes_of(value), (
                "a vector loop does not store all of its lanes to one element"
            )
            builder.store(value, self.pointer(storage, address), align=storage.alignment)
            return
        value = splat(builder, value, lanes.count)
        if not nontemporal or not self._store_past_caches(storage, [(address, value, lanes)]):
            self._store_lanes(storage, address, value, lanes)

    def store_vectors(
        self, storage: Storage, vectors: Sequence[PlacedVector], *, nontemporal: bool = False
    ) -> None:
        """Writes several vectors, past the caches where that is wanted and all of them can go so:
        how they are aligned is asked once.
        """
        builder, element = self.frame.builder, storage.type.element
        stored = [
            (address, to_storage(builder, value, element), lanes)
            for address, value, lanes in vectors
        ]
        if not nontemporal or not self._store_past_caches(storage, stored):
            for vector in stored:
                self._store_lanes(storage, *vector)

    def _store_past_caches(self, storage: Storage, vectors: Sequence[PlacedVector]) -> bool:
        """Writes vectors of one size to memory itself if the buffer is aligned to them, or to lines
        where they are longer, which only a call knows; false where they do not lie at multiples of
        their size from its start.
        """
        bases = [self._whole_vector(address, lanes) for address, _, lanes in vectors]
        size = vectors[0][2].count * storage.alignment
        pointers = [self.pointer(storage, base) for base in bases if base is not None]
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
        placed = None if lanes.mask is not None else self._offsets(address, lanes)
        if placed is None or not _is_run(placed[1]):
            return None
        base = placed[0]
        return base if all(each % lanes.count == 0 for each in base.terms.values()) else None

    def _is_aligned(self, storage: Storage, size: int) -> ir.Value:
        start = self.frame.local(storage.pointer)

        def test(builder: ir.IRBuilder) -> ir.Value:
            odd = builder.and_(builder.ptrtoint(start, I64), ir.Constant(I64, size - 1))
            return builder.icmp_unsigned("==", odd, ir.Constant(I64, 0))

        return self.index.remember(0, (storage, size), test)

    def finish(self, target: Target) -> None:
        """Ends a function: what it wrote past the caches is in place before what follows."""
        if self.unordered and target.arch == "x86_64":
            intrinsic(self.frame.builder, "x86.sse.sfence", ir.VoidType(), [])

    def prefetch(
        self, storage: Storage, address: Expr, lanes: Lanes | None, *, far: bool = False
    ) -> None:
        """Brings the line of an address near, of lanes those that neighbours of them fill, else
        that of the first; a `far` one into the second cache.
        """
        if lanes is None:
            self._prefetch_line(storage, address, far=far)
            return
        step = max(1, LINE // storage.alignment)
        runs = (placed := self._offsets(address, lanes)) is not None and _is_run(placed[1])
        for lane in range(0, lanes.count if runs else 1, step):
            self._prefetch_line(storage, self._at_lane(address, lanes, lane), far=far)

    def _prefetch_line(self, storage: Storage, address: Expr, *, far: bool) -> None:
        to_read, data = ir.Constant(I32, 0), ir.Constant(I32, 1)
        cache = ir.Constant(I32, 2 if far else 3)
        operands = [self.pointer(storage, address), to_read, cache, data]
        intrinsic(self.frame.builder, "prefetch", ir.VoidType(), operands, POINTER)

    def pointer(self, storage: Storage, address: Expr) -> ir.Value:
        """The pointer to an element; what outer scopes know of the address is added there."""
        pointer = self.frame.local(storage.pointer)
        groups, offset = self.index.by_depth(address)
        prefix = Expr({})
        depth = 0
        for depth, group in groups:
            prefix = prefix + group
            pointer = self._step(storage, pointer, depth, prefix, group)
        if offset:
            pointer = self._step(storage, pointer, depth, prefix + offset, Expr.of(offset))
        return pointer

    def _step(
        self, storage: Storage, pointer: ir.Value, depth: int, prefix: Expr, group: Expr
    ) -> ir.Value:
        def advance(builder: ir.IRBuilder) -> ir.Value:
            return builder.gep(pointer, [self.index.uniform(group)], source_etype=storage.kind)

        return self.index.remember(depth, (storage, prefix), advance)

    def _is_private(self, storage: Storage) -> bool:
        """Whether whole vectors may be read and rewritten: nobody else sees the memory, and there
        is room behind it.
        """
        return storage.private and self.frame.local(storage.pointer) is storage.pointer

    def _offsets(self, address: Expr, lanes: Lanes) -> tuple[Expr, tuple[int, ...]] | None:
        """The first lane's address and the distances of all lanes from it, where these are
        constants.
        """
        if _is_data(address):
            return None
        base = self._at_lane(address, lanes, 0)
        if address.is_affine_in(lanes.number):
            stride = address.coefficient(lanes.number).constant
            return None if stride is None else (base, tuple(stride * i for i in range(lanes.count)))
        distances = [
            (self._at_lane(address, lanes, lane) - base).constant for lane in range(lanes.count)
        ]
        known = tuple(distance for distance in distances if distance is not None)
        return (base, known) if len(known) == lanes.count else None

    def _at_lane(self, address: Expr, lanes: Lanes, lane: int) -> Expr:
        return address.substitute({lanes.number: Expr.of(lane)}).simplify(self.frame.ranges)

    def _load_lanes(self, storage: Storage, address: Expr, lanes: Lanes) -> ir.Value:
        placed = self._offsets(address, lanes)
        if placed is None:
            if lanes.known and not _is_data(address):
                return self._load_each(storage, self._each_lane(address, lanes), lanes)
            return self._gather(storage, address, lanes)
        base, offsets = placed
        if _is_run(offsets):
            return self._load_run(storage, base, lanes)
        if lanes.mask is None and _covers_first(offsets):
            return self._load_repeated(storage, base, offsets)
        stride = offsets[1]
        if _is_run(offsets, stride) and (lanes.mask is None or lanes.known):
            if stride == -1 and lanes.mask is None:
                return self._load_descending(storage, base, lanes)
            if 1 < stride <= WIDEST_STRIDE:
                return self._load_first_strided(storage, base, stride, lanes)
        if not lanes.known:
            return self._gather_at(storage, self._pointers(storage, base, offsets), lanes)
        return self._load_each(storage, [base + offset for offset in offsets], lanes)

    def _load_run(self, storage: Storage, base: Expr, lanes: Lanes) -> ir.Value:
        """Neighbouring elements; lanes that do not run read only memory that is there."""
        kind = ir.VectorType(storage.kind, lanes.count)
        pointer = self.pointer(storage, base)
        if lanes.mask is None or self._is_private(storage):
            return self.frame.builder.load(pointer, typ=kind, align=storage.alignment)
        alignment = ir.Constant(I32, storage.alignment)
        operands = [pointer, alignment, lanes.mask, ir.Constant(kind, None)]
        return intrinsic(self.frame.builder, "masked.load", kind, operands, kind, POINTER)

    def _load_repeated(self, storage: Storage, base: Expr, offsets: Sequence[int]) -> ir.Value:
        """The first few elements from the base on, each in several lanes."""
        kind = ir.VectorType(storage.kind, max(offsets) + 1)
        pointer = self.pointer(storage, base)
        window = self.frame.builder.load(pointer, typ=kind, align=storage.alignment)
        order = ir.Constant(ir.VectorType(I32, len(offsets)), list(offsets))
        return self.frame.builder.shuffle_vector(window, window, order)

    def _load_descending(self, storage: Storage, base: Expr, lanes: Lanes) -> ir.Value:
        run = self._load_run(storage, base - (lanes.count - 1), lanes)
        order = ir.Constant(ir.VectorType(I32, lanes.count), list(range(lanes.count))[::-1])
        return self.frame.builder.shuffle_vector(run, run, order)

    def _load_first_strided(
        self, storage: Storage, base: Expr, stride: int, lanes: Lanes
    ) -> ir.Value:
        """Every second, third or fourth element for the lanes that run, by vectors of so many that
        nothing behind the last element is read.
        """
        builder, count, active = self.frame.builder, lanes.count, len(lanes.first)
        value: ir.Value = ir.Constant(ir.VectorType(storage.kind, count), None)
        taken = 0
        while taken < active:
            size = 1 << ((active - taken).bit_length() - 1)
            part = self._load_strided(storage, base + taken * stride, stride, size)
            if size == count:
                return part
            order = ir.Constant(ir.VectorType(I32, count), [n % size for n in range(count)])
            wide = builder.shuffle_vector(part, part, order)
            value = self._merge(value, wide, taken, range(size))
            taken += size
        return value

    def _load_strided(self, storage: Storage, base: Expr, stride: int, count: int) -> ir.Value:
        """Every second, third or fourth element, out of whole vectors of which the last ends at the
        last element.
        """
        kind = ir.VectorType(storage.kind, count)
        last = (count - 1) * (stride - 1)
        starts = [min(number * count, last) for number in range(stride)]
        value: ir.Value = ir.Constant(kind, ir.Undefined)
        taken = 0
        for start in starts:
            pointer = self.pointer(storage, base + start)
            window = self.frame.builder.load(pointer, typ=kind, align=storage.alignment)
            reached = min(count, (start + count - 1) // stride + 1)
            value = self._merge(
                value, window, taken, [lane * stride - start for lane in range(taken, reached)]
            )
            taken = reached
        return value

    def _merge(
        self, value: ir.Value, window: ir.Value, taken: int, picked: Sequence[int]
    ) -> ir.Value:
        """The first `taken` lanes of the value, then the picked ones of the window."""
        count = lanes_of(value)
        order = [*range(taken), *(count + lane for lane in picked)]
        order += [0] * (count - len(order))
        mask = ir.Constant(ir.VectorType(I32, count), order)
        return self.frame.builder.shuffle_vector(value, window, mask)

    def _each_lane(self, address: Expr, lanes: Lanes) -> list[Expr]:
        return [self._at_lane(address, lanes, lane) for lane in range(lanes.count)]

    def _load_each(self, storage: Storage, addresses: Sequence[Expr], lanes: Lanes) -> ir.Value:
        """Elements one by one: no slower than gathers, and on many processors faster."""
        value = ir.Constant(ir.VectorType(storage.kind, lanes.count), None)
        for lane in lanes.first:
            pointer = self.pointer(storage, addresses[lane])
            element = self.frame.builder.load(pointer, typ=storage.kind, align=storage.alignment)
            value = self.frame.builder.insert_element(value, element, ir.Constant(I32, lane))
        return value

    def _pointers(self, storage: Storage, base: Expr, offsets: Sequence[int]) -> ir.Value:
        distances = ir.Constant(ir.VectorType(I64, len(offsets)), list(offsets))
        return self._advance(self.pointer(storage, base), distances, storage.kind)

    def _advance(self, pointer: ir.Value, distances: ir.Value, kind: ir.Type) -> ir.Value:
        pointers = self.frame.builder.gep(pointer, [distances], source_etype=kind)
        # llvmlite gives every address computation the type of a scalar pointer.
        pointers.type = ir.VectorType(POINTER, lanes_of(distances))
        return pointers

    def _gather(self, storage: Storage, address: Expr, lanes: Lanes) -> ir.Value:
        return self._gather_at(storage, self._scattered(storage, address, lanes), lanes)

    def _scattered(self, storage: Storage, address: Expr, lanes: Lanes) -> ir.Value:
        uniform = Expr({m: f for m, f in address.terms.items() if not varies(Expr({m: 1}))})
        distances = self.index.lanes(address - uniform, lanes.count)
        return self._advance(self.pointer(storage, uniform), distances, storage.kind)

    def _gather_at(self, storage: Storage, pointers: ir.Value, lanes: Lanes) -> ir.Value:
        kind = ir.VectorType(storage.kind, lanes.count)
        alignment = ir.Constant(I32, storage.alignment)
        operands = [pointers, alignment, lanes.all(), ir.Constant(kind, None)]
        over = (kind, pointers.type)
        return intrinsic(self.frame.builder, "masked.gather", kind, operands, *over)

    def _store_lanes(self, storage: Storage, address: Expr, value: ir.Value, lanes: Lanes) -> None:
        placed = self._offsets(address, lanes)
        if placed is None and lanes.known and not _is_data(address):
            self._store_each(storage, self._each_lane(address, lanes), value, lanes)
        elif placed is None:
            self._scatter(storage, self._scattered(storage, address, lanes), value, lanes)
        elif _is_run(placed[1]):
            self._store_run(storage, placed[0], value, lanes)
        elif lanes.known:
            addresses = [placed[0] + offset for offset in placed[1]]
            self._store_each(storage, addresses, value, lanes)
        else:
            self._scatter(storage, self._pointers(storage, *placed), value, lanes)

    def _store_run(self, storage: Storage, base: Expr, value: ir.Value, lanes: Lanes) -> None:
        """Neighbouring elements; private memory is rewritten whole, so that it can become
        registers.
        """
        builder, pointer = self.frame.builder, self.pointer(storage, base)
        if lanes.mask is None:
            builder.store(value, pointer, align=storage.alignment)
        elif self._is_private(storage):
            old = builder.load(pointer, typ=value.type, align=storage.alignment)
            builder.store(builder.select(lanes.mask, value, old), pointer, align=storage.alignment)
        else:
            operands = [value, pointer, ir.Constant(I32, storage.alignment), lanes.mask]
            intrinsic(builder, "masked.store", ir.VoidType(), operands, value.type, POINTER)

    def _store_each(
        self, storage: Storage, addresses: Sequence[Expr], value: ir.Value, lanes: Lanes
    ) -> None:
        builder = self.frame.builder
        for lane in lanes.first:
            element = builder.extract_element(value, ir.Constant(I32, lane))
            pointer = self.pointer(storage, addresses[lane])
            builder.store(element, pointer, align=storage.alignment)

    def _scatter(self, storage: Storage, pointers: ir.Value, value: ir.Value, lanes: Lanes) -> None:
        operands = [value, pointers, ir.Constant(I32, storage.alignment), lanes.all()]
        over = (value.type, pointers.type)
        intrinsic(self.frame.builder, "masked.scatter", ir.VoidType(), operands, *over)


def _is_data(address: Expr) -> bool:
    """Whether lanes go where values that were computed or loaded say."""
    return any(isinstance(atom, LaneValues) for atom in address.atoms())


def _covers_first(offsets: Sequence[int]) -> bool:
    """Whether the offsets are those of a power of two of first elements, fewer than lanes and more
    than one, with none left out.
    """
    reached = max(offsets) + 1
    some = 1 < reached < len(offsets) and reached & (reached - 1) == 0
    return some and set(offsets) == set(range(reached))


def _is_run(offsets: Sequence[int], stride: int = 1) -> bool:
    """Whether the offsets are the multiples of the stride from 0 on."""
    return all(offset == stride * lane for lane, offset in enumerate(offsets))

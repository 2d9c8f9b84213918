"""What nests of loops compute, recognised: updates of reductions, sums of products, copies.

Each matcher takes a loop or a nest and returns the operations that play a part, or None.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from msgspec import Struct
from xdsl.dialects import arith
from xdsl.dialects.builtin import BFloat16Type, IntegerType
from xdsl.ir import Operation, SSAValue

from weft.compiler.loop.nest import stores_in
from weft.dialects.loop.arithmetic import DotBf16Op
from weft.dialects.loop.ops import AccessOp, ForOp, LoadOp, StoreOp
from weft.dialects.loop.scalar import F32, compute_type, is_float, width

I32 = IntegerType(32)


class SplitNest(NamedTuple):
    """A nest as loops that are no reductions around loops that all are."""

    outer: list[ForOp]
    reductions: list[ForOp]


class Update(Struct, frozen=True):
    """A store `X[e] = op(X[e], v)`: what a reduction does in one iteration."""

    combiner: str
    load: LoadOp
    combine: Operation
    store: StoreOp

    @property
    def contribution(self) -> SSAValue:
        """The value `v` that is combined into the element."""
        first, second = self.combine.operands
        return second if _source_load(first) is self.load else first


_COMBINERS: dict[type[Operation], str] = {
    arith.AddfOp: "add",
    arith.AddiOp: "add",
    arith.MulfOp: "mul",
    arith.MuliOp: "mul",
    arith.MaximumfOp: "max",
    arith.MaxnumfOp: "max",
    arith.MaxSIOp: "max",
    arith.MaxUIOp: "max",
    arith.MinimumfOp: "min",
    arith.MinnumfOp: "min",
    arith.MinSIOp: "min",
    arith.MinUIOp: "min",
    arith.AndIOp: "and",
    arith.OrIOp: "or",
    arith.XOrIOp: "xor",
}


_WIDENINGS = (arith.ExtFOp, arith.ExtSIOp, arith.ExtUIOp, arith.SIToFPOp, arith.UIToFPOp)


class Product(NamedTuple):
    """The operations of `T += X * Y`."""

    lhs: LoadOp
    rhs: LoadOp
    store: StoreOp

    def other_than(self, factor: LoadOp) -> LoadOp:
        """The factor that is not the given one."""
        return self.rhs if factor is self.lhs else self.lhs

    @property
    def is_unconverted_float(self) -> bool:
        """Whether factors and sum are floats of one type, in which the product is computed."""
        element = self.store.buffer_type.element
        alike = all(access.buffer_type.element == element for access in self)
        return alike and is_float(element) and compute_type(element) == element

    @property
    def terms(self) -> int:
        """How many neighbouring elements of a factor fill a word of 32 bits."""
        return 32 // width(self.lhs.buffer_type.element)


def split_nest(nest: Sequence[ForOp]) -> SplitNest | None:
    """The nest's outer loops and its reductions, if there are both and no reduction is around a
    loop that is none.
    """
    outer = [loop for loop in nest if loop.reduction is None]
    reductions = list(nest[len(outer) :])
    mixed = any(loop.reduction is None for loop in reductions)
    return SplitNest(outer, reductions) if outer and reductions and not mixed else None


def is_straight_line(loop: ForOp) -> bool:
    """Whether a loop's body holds neither loops nor branches."""
    return not any(op.regions for op in loop.body.block.ops)


def sole_update(loop: ForOp) -> Update | None:
    """The update in the straight-line body of a loop that stores nothing else."""
    stores = stores_in(loop) if is_straight_line(loop) else []
    return update_of(stores[0]) if len(stores) == 1 else None


def sum_of_products(loop: ForOp) -> Product | None:
    """`T += X * Y`, if that is the loop's body; narrow elements may be widened first."""
    update = sole_update(loop)
    multiply = None if update is None or update.combiner != "add" else update.contribution.owner
    if update is None or not isinstance(multiply, (arith.MulfOp, arith.MuliOp)):
        return None
    lhs, rhs = (_extended_load(operand) for operand in multiply.operands)
    return None if lhs is None or rhs is None else Product(lhs, rhs, update.store)


def dot_of_words(loop: ForOp) -> Product | None:
    """`T += dot_bf16(X, Y)` of words that are loaded, if that is the loop's body."""
    update = sole_update(loop)
    dot = None if update is None or update.combiner != "add" else update.contribution.owner
    if update is None or not isinstance(dot, DotBf16Op):
        return None
    lhs, rhs = (_source_load(operand) for operand in dot.operands)
    return None if lhs is None or rhs is None else Product(lhs, rhs, update.store)


def product_of_words(loop: ForOp) -> Product | None:
    """`T += X * Y` of numbers that several fill 32 bits of, which they are extended to: of an
    unsigned and a signed byte, whichever is first, or of two bf16.
    """
    found = sum_of_products(loop)
    if found is None or found.lhs is found.rhs:
        return None
    users = [use.operation for load in found[:2] for use in load.result.uses]
    extensions = [each for each in users if each.results and each.results[0].uses]
    by = {type(each) for each in extensions}
    if all(isinstance(load.buffer_type.element, BFloat16Type) for load in found[:2]):
        wide, known = F32, by == {arith.ExtFOp} and found.store.buffer_type.element == F32
    else:
        known = all(width(load.buffer_type.element) == 8 for load in found[:2])
        wide, known = I32, known and by == {arith.ExtUIOp, arith.ExtSIOp}
    alone = len(extensions) == 2 and all(each.results[0].type == wide for each in extensions)
    return found if known and alone else None


def _extended_load(value: SSAValue) -> LoadOp | None:
    owner = value.owner
    while isinstance(owner, _WIDENINGS):
        owner = owner.operands[0].owner
    return owner if isinstance(owner, LoadOp) else None


def copied_by(loop: ForOp) -> StoreOp | None:
    """The store of a loop that does nothing but store what it loads."""
    load, store = loop.body.block.first_op, loop.body.block.last_op
    if not isinstance(load, LoadOp) or not isinstance(store, StoreOp) or load.next_op is not store:
        return None
    return store if store.value is load.result else None


def update_of(access: AccessOp) -> Update | None:
    """The reduction update that an access belongs to, if any."""
    if isinstance(access, StoreOp):
        return _update_by(access)
    for store in _stores_fed_by(access):
        update = _update_by(store)
        if update is not None and update.load is access:
            return update
    return None


def _stores_fed_by(load: AccessOp) -> Iterator[StoreOp]:
    block = load.parent
    assert block is not None, "an access under schedule is in a block"
    for op in block.ops:
        if isinstance(op, StoreOp) and op.buffer is load.buffer:
            yield op


def _update_by(store: StoreOp) -> Update | None:
    combine = _through_casts(store.value)
    if combine is None or type(combine) not in _COMBINERS:
        return None
    for operand in combine.operands:
        load = _source_load(operand)
        if load is not None and load.buffer is store.buffer and load.index == store.index:
            others = [other for other in combine.operands if other is not operand]
            single = len(others) == 1 and len(set(load.result.uses)) == 1
            return Update(_COMBINERS[type(combine)], load, combine, store) if single else None
    return None


def _source_load(value: SSAValue) -> LoadOp | None:
    owner = _through_casts(value)
    return owner if isinstance(owner, LoadOp) else None


def _through_casts(value: SSAValue) -> Operation | None:
    owner = value.owner
    while isinstance(owner, (arith.ExtFOp, arith.TruncFOp)):
        owner = owner.operands[0].owner
    return owner if isinstance(owner, Operation) else None

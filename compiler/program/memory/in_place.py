"""Which results of a kernel may lie where one of its operands lay.

That is so where every iteration that loads the operand loads the very element that it stores to the
result afterwards, so that nothing is overwritten that is still to be read.
"""

from __future__ import annotations

from itertools import combinations

from msgspec import Struct
from xdsl.dialects.builtin import DenseArrayBase, IntegerType
from xdsl.ir import SSAValue
from xdsl.utils.hints import isa

from weft.dialects.expr import Expr
from weft.dialects.loop.ops import AccessOp, LoadOp, PrefetchOp, StoreOp, enclosing_loops
from weft.dialects.loop.program import IN_PLACE, KernelOp
from weft.dialects.loop.types import buffer_type_of


class InPlace(Struct, frozen=True):
    """Two arguments of a kernel by position: an operand, and the result that may take its place."""

    operand: int
    result: int


def in_place_arguments(kernel: KernelOp) -> list[InPlace]:
    """Every operand and result of one type that may share their storage, as noted on the kernel or
    found in its body.
    """
    noted = kernel.attributes.get(IN_PLACE)
    if isa(noted, DenseArrayBase[IntegerType]):
        positions = noted.get_values()
        return [InPlace(*pair) for pair in zip(positions[::2], positions[1::2], strict=True)]
    arguments = list(kernel.body.block.args)
    loads = {value: _accesses(value, LoadOp) for value in arguments}
    stores = {value: _accesses(value, StoreOp) for value in arguments}
    read = [value for value in arguments if loads[value] is not None and not stores[value]]
    written = [value for value in arguments if stores[value] and loads[value] == []]
    return [
        InPlace(operand.index, result.index)
        for result in written
        for operand in read
        if buffer_type_of(operand) == buffer_type_of(result)
        and _goes_along(loads[operand] or [], stores[result] or [])
    ]


def _accesses(value: SSAValue, op_class: type[AccessOp]) -> list[AccessOp] | None:
    """The loads or stores of a buffer; None where anything but prefetches uses it as well."""
    users = [use.operation for use in value.uses if not isinstance(use.operation, PrefetchOp)]
    if not all(isinstance(user, AccessOp) for user in users):
        return None
    return [user for user in users if isinstance(user, op_class)]


def _goes_along(loads: list[AccessOp], stores: list[AccessOp]) -> bool:
    """Whether every block that stores first loads that very element, no iteration stores what
    another one does, and no loads stand elsewhere.
    """
    store_of = {store.parent: store for store in stores}
    if len(store_of) < len(stores) or {load.parent for load in loads} != set(store_of):
        return False
    return _store_each_once(stores) and all(
        load.index == store_of[load.parent].index and load.is_before_in_block(store_of[load.parent])
        for load in loads
    )


def _store_each_once(stores: list[AccessOp]) -> bool:
    """Whether no element is stored twice: each store keeps to a range of addresses of its own."""
    spans = [_span(store) for store in stores]
    found = [span for span in spans if span is not None]
    return len(found) == len(spans) and all(
        _are_disjoint(one, other) for one, other in combinations(found, 2)
    )


def _are_disjoint(one: tuple[Expr, Expr], other: tuple[Expr, Expr]) -> bool:
    """Whether one of two ranges ends before the other begins."""
    gaps = ((second[0] - first[1]).range({})[0] for first, second in ((one, other), (other, one)))
    return any(gap is not None and gap >= 0 for gap in gaps)


def _span(store: AccessOp) -> tuple[Expr, Expr] | None:
    """The range of a store's addresses, its end excluded, where the loops around it are the digits
    of the address, so that no two iterations meet; else None.
    """
    address = store.buffer_type.address(store.index)
    strides = {loop: address.coefficient(loop.index) for loop in enclosing_loops(store)}
    reach = Expr.of(1)
    for loop in sorted(strides, key=lambda loop: _size(strides[loop])):
        address = address - strides[loop] * Expr.atom(loop.index)
        if loop.extent == 1:
            continue
        low, _ = (strides[loop] - reach).range({})
        if low is None or low < 0 or loop.lower != 0 or loop.step.data != 1:
            return None
        reach = strides[loop] * loop.extent
    if any(isinstance(atom, SSAValue) for atom in address.atoms()):
        return None
    return address, address + reach


def _size(stride: Expr) -> int:
    """Orders strides: symbols count as large."""
    return max(
        (abs(factor) << (20 * len(term)) for term, factor in stride.terms.items()), default=0
    )

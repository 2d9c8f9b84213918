"""Which results of a kernel may lie where one of its operands lay.

That is so where every iteration that loads the operand loads the very element that it stores to the
result afterwards, so that nothing is overwritten that is still to be read.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import DenseArrayBase, IntegerType
from xdsl.ir import SSAValue
from xdsl.utils.hints import isa

from dialects.expr import Expr, atom_expr
from dialects.loop.ops import AccessOp, LoadOp, StoreOp, enclosing_loops
from dialects.loop.program import IN_PLACE, KernelOp
from dialects.loop.types import buffer_type


@dataclass(frozen=True)
class InPlace:
    """Two arguments of a kernel by position: an operand, and the result that may take its place."""

    operand: int
    result: int


def in_place_arguments(kernel: KernelOp) -> list[InPlace]:
    """Every operand and result of one type that may share their storage, as noted on the kernel or
    found in its body.
    """
    noted = kernel.attributes.get(IN_PLACE)
    if isa(noted, DenseArrayBase[IntegerType]):
        places = noted.get_values()
        return [InPlace(*pair) for pair in zip(places[::2], places[1::2], strict=True)]
    arguments = list(kernel.body.block.args)
    loads = {value: _accesses(value, LoadOp) for value in arguments}
    stores = {value: _accesses(value, StoreOp) for value in arguments}
    read = [value for value in arguments if loads[value] is not None and not stores[value]]
    written = [value for value in arguments if stores[value] and loads[value] == []]
    return [
        InPlace(operand.index, result.index)
        for result in written
        for operand in read
        if buffer_type(operand) == buffer_type(result)
        and _goes_along(loads[operand] or [], stores[result] or [])
    ]


def _accesses(value: SSAValue, kind: type[AccessOp]) -> list[AccessOp] | None:
    """The loads or stores of a buffer; None where anything else uses it."""
    users = [use.operation for use in value.uses]
    if not all(isinstance(user, AccessOp) for user in users):
        return None
    return [user for user in users if isinstance(user, kind)]


def _goes_along(loads: list[AccessOp], stores: list[AccessOp]) -> bool:
    """Whether each load stands in front of the one store of its block, and reads that very element,
    which no other iteration stores.
    """
    store_of = {store.parent: store for store in stores}
    if not loads or len(store_of) < len(stores) or not all(map(_stores_each_once, stores)):
        return False
    return all(
        (store := store_of.get(load.parent)) is not None
        and load.index == store.index
        and load.is_before_in_block(store)
        for load in loads
    )


def _stores_each_once(store: AccessOp) -> bool:
    """Whether the loops around a store are the digits of its address: no two iterations meet."""
    address = store.buffer_type.address(store.index)
    strides = {loop: address.coefficient(loop.index) for loop in enclosing_loops(store)}
    reach = Expr.of(1)
    for loop in sorted(strides, key=lambda loop: _size(strides[loop])):
        address = address - strides[loop] * atom_expr(loop.index)
        if loop.extent == 1:
            continue
        low, _ = (strides[loop] - reach).range({})
        if low is None or low < 0 or loop.lower != 0 or loop.step.data != 1:
            return False
        reach = strides[loop] * loop.extent
    return not any(isinstance(atom, SSAValue) for atom in address.atoms())


def _size(stride: Expr) -> int:
    """Orders strides: symbols count as large."""
    return max(
        (abs(factor) << (20 * len(term)) for term, factor in stride.terms.items()), default=0
    )

"""What every schedule starts with: loops without iterations go, and pointwise nests move into the
loops that read their results.
"""

from __future__ import annotations

from collections.abc import Callable, Container

from xdsl.dialects import arith
from xdsl.ir import Operation, SSAValue

from weft.compiler.loop.nest import is_pure, loops_in, subscript_atoms, weight_arguments
from weft.compiler.loop.primitives import (
    compute_inline,
    eliminate_dead_buffer,
    eliminate_empty_loop,
)
from weft.dialects.errors import IllegalSchedule
from weft.dialects.loop.arithmetic import is_function
from weft.dialects.loop.ops import AllocOp, LoadOp, StoreOp, enclosing_loops
from weft.dialects.loop.program import KernelOp

Weights = Container[SSAValue]
"""The arguments that are weights."""

CHEAP = 3
"""Operations; a producer no longer than this is computed anew at each of several readers."""


FUNCTION = 10
"""How many operations a mathematical function counts as."""


def simplify(kernel: KernelOp) -> None:
    """Removes empty loops; inlines each producer of a temporary whose
    readers read an element about once, in program order.
    """
    for loop in loops_in(kernel):
        if loop.parent is not None and loop.extent == 0:
            eliminate_empty_loop(loop)
    weights = weight_arguments(kernel)
    temporaries = [op for op in kernel.body.block.ops if isinstance(op, AllocOp)]
    for op in temporaries:
        _inline(op, weights, lambda loads, store: len(loads) == 1 or _cost(store, weights) <= CHEAP)
    for op in temporaries:
        if op.parent is not None:  # a reduction may read by now what the first ones read
            _inline(op, weights, lambda loads, _: _is_squared(loads))


def _inline(op: AllocOp, weights: Weights, allows: Callable[[list[LoadOp], StoreOp], bool]) -> None:
    """Inlines what fills a temporary into all that reads it, if that is allowed."""
    store = _only_store(op.result)
    loads = [use.operation for use in op.result.uses if isinstance(use.operation, LoadOp)]
    if store is not None and allows(loads, store):
        _inline_where_once(store, loads, weights)


def _is_squared(loads: list[LoadOp]) -> bool:
    """Whether both operands of `x * x` in a reduction are all loads: what is computed for each is
    computed once in the end. Nests without reductions become one with what they read instead.
    """
    if len(loads) != 2:
        return False
    one, other = loads
    same = one.parent is other.parent and tuple(one.index) == tuple(other.index)
    return same and any(loop.reduction is not None for loop in enclosing_loops(one))


def drop_stored_only(buffer: SSAValue) -> None:
    """Removes a temporary that is never loaded any more,
    with the nests that did nothing but fill it.
    """
    owner = buffer.owner
    if not isinstance(owner, AllocOp) or any(
        isinstance(use.operation, LoadOp) for use in buffer.uses
    ):
        return
    eliminate_dead_buffer(owner)


def _inline_where_once(store: StoreOp, loads: list[LoadOp], weights: Weights) -> None:
    if not all(_reads_once(load) or _cost(store, weights) == 0 for load in loads):
        return
    try:
        compute_inline(store)
    except IllegalSchedule:
        return


def _only_store(buffer: SSAValue) -> StoreOp | None:
    stores = [use.operation for use in buffer.uses if isinstance(use.operation, StoreOp)]
    return stores[0] if len(stores) == 1 else None


def _cost(store: StoreOp, weights: Weights) -> int:
    """What it takes to compute the stored value: constants and one load are free, and so are wider
    floats and floats of the bytes of a weight; any further load is as much as is cheap, and a
    function such as `exp` counts as many operations.
    """
    block = store.parent
    assert block is not None, "a store is in a block"
    computing = [op for op in block.ops if is_pure(op) and op.operands and not _widens(op, weights)]
    loads = sum(isinstance(op, LoadOp) for op in block.ops)
    operations = sum(FUNCTION if is_function(op) else 1 for op in computing)
    return operations + max(0, loads - 1) * CHEAP


def _widens(op: Operation, weights: Weights) -> bool:
    """Whether an operation is part of reading: wider floats, or floats of the bytes of a weight."""
    load = op.operands[0].owner
    if not isinstance(load, LoadOp):
        return False
    of_weight = load.buffer in weights and isinstance(op, (arith.SIToFPOp, arith.UIToFPOp))
    return of_weight or isinstance(op, arith.ExtFOp)


def _reads_once(load: LoadOp) -> bool:
    """Whether each iteration of the loops around the load reads another element."""
    atoms = subscript_atoms(load)
    return all(loop.index in atoms or loop.extent == 1 for loop in enclosing_loops(load))

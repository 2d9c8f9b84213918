"""The primitive that stores a temporary where its result goes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NoReturn

from xdsl.dialects.builtin import NoneAttr
from xdsl.ir import Operation
from xdsl.rewriter import Rewriter

from weft.compiler.loop.nest import describe, is_inside, redirect
from weft.compiler.loop.primitives.recording import primitive
from weft.dialects.errors import IllegalSchedule
from weft.dialects.expr import Atom, Expr
from weft.dialects.loop.ops import AccessOp, AllocOp, ForOp, LoadOp, StoreOp, enclosing_loops
from weft.dialects.loop.types import buffer_type_of


@primitive
def reuse_buffer(allocation: AllocOp, store: StoreOp) -> None:
    """Has a temporary stored in the buffer of a result, which takes over each element where the
    temporary's is used for the last time.

        t = alloc
        for i:  t[i] = f(x[i]);  s += t[i]   ->   for i:  y[i] = f(x[i]);  s += y[i]
        for i:  y[i] = t[i] * s                   for i:  y[i] = y[i] * s

    Raises IllegalSchedule unless both are of one type, nothing else accesses the result, and in
    each iteration of the loops around all of them the last nest stores every element that those in
    front of it access: each subscript is the same, or the index of a loop of the same bounds.
    """
    temporary, uses = allocation.result, list(store.buffer.uses)
    accesses = [use.operation for use in temporary.uses]
    if buffer_type_of(temporary) != store.buffer_type or not isinstance(
        store.buffer_type.layout, NoneAttr
    ):
        _refuse("buffers of one plain type", store)
    if len(uses) != 1:
        _refuse("that only one operation accesses the result", store)
    shared = _shared_loops(accesses, store)
    last = _child_of(store, shared)
    for access in accesses:
        if not isinstance(access, AccessOp):
            _refuse("that the temporary is loaded and stored alone", access)
        child = _child_of(access, shared)
        same_place = access.parent is store.parent and isinstance(access, LoadOp)
        if not child.is_before_in_block(last) and not (
            same_place and access.is_before_in_block(store) and access.index == store.index
        ):
            _refuse("that the result is stored behind all uses of the temporary", access)
        if not _covers(store, access, shared):
            _refuse("that each element is stored in the last nest too", access)
    for access in accesses:
        assert isinstance(access, AccessOp), "others are refused"
        redirect(access, store.buffer, access.index)
    Rewriter.erase_op(allocation)


def _refuse(rule: str, got: Operation) -> NoReturn:
    raise IllegalSchedule(f"reuse_buffer requires {rule}, got {describe(got)}")


def _shared_loops(accesses: Sequence[Operation], store: StoreOp) -> list[ForOp]:
    """The loops around the store and all accesses, from the outside."""
    around = enclosing_loops(store)
    return [loop for loop in around if all(is_inside(access, loop) for access in accesses)]


def _child_of(op: Operation, shared: Sequence[ForOp]) -> Operation:
    """What of the block inside of the shared loops an operation is, or is inside."""
    inside = [loop for loop in enclosing_loops(op) if loop not in shared]
    return inside[0] if inside else op


def _covers(store: StoreOp, access: AccessOp, shared: Sequence[ForOp]) -> bool:
    """Whether in one iteration of the shared loops a store's nest reaches all that an access does:
    each loop of it indexes a dim of its own.
    """
    own: dict[Atom, ForOp] = {
        loop.index: loop for loop in enclosing_loops(store) if loop not in shared
    }
    other: dict[Atom, ForOp] = {
        loop.index: loop for loop in enclosing_loops(access) if loop not in shared
    }
    left = dict(own)
    for here, there in zip(store.index, access.index, strict=True):
        if here == there and not set(here.atoms()) & own.keys():
            continue
        loop = next((left.pop(i) for i in list(left) if Expr.atom(i) == here), None)
        match = next((each for i, each in other.items() if Expr.atom(i) == there), None)
        if loop is None or match is None or not _same_bounds(loop, match, own | other):
            return False
    return not left


def _same_bounds(first: ForOp, second: ForOp, inner: Mapping[Atom, ForOp]) -> bool:
    fixed = not any(atom in inner for each in (first.lower, first.upper) for atom in each.atoms())
    bounds = first.lower == second.lower and first.upper == second.upper
    return fixed and bounds and first.step == second.step

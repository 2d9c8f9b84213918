"""Loads and stores that only copy: what passes recognise of operators that change a little."""

from __future__ import annotations

from typing import Final

from xdsl.dialects import arith
from xdsl.ir import Operation, SSAValue

from weft.dialects.loop.ops import ForOp, LoadOp, StoreOp

CASTS: Final = (arith.ExtFOp, arith.TruncFOp)


def copying_store(load: Operation) -> StoreOp | None:
    """The store of what was loaded at its own index."""
    if not isinstance(load, LoadOp):
        return None
    value: SSAValue = load.result
    while (user := _only_user(value)) is not None and isinstance(user, CASTS):
        value = user.results[0]
    if not isinstance(user, StoreOp) or user.value is not value or user.index != load.index:
        return None
    if value.type != load.result.type or user.parent is not load.parent:
        return None
    return user


def _only_user(value: SSAValue) -> Operation | None:
    users = [use.operation for use in value.uses]
    return users[0] if len(users) == 1 else None


def only_copies(nest: Operation) -> bool:
    """Whether all that a nest does is one load and one store."""
    inside = [op for op in nest.walk() if not isinstance(op, (ForOp, LoadOp, StoreOp, *CASTS))]
    accesses = [op for op in nest.walk() if isinstance(op, (LoadOp, StoreOp))]
    return not inside and len(accesses) == 2

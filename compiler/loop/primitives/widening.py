"""The primitive that converts elements where they are stored, not wherever they are loaded."""

from __future__ import annotations

from typing import TypeAlias

from xdsl.dialects import arith
from xdsl.rewriter import InsertPoint, Rewriter

from weft.compiler.loop.legality import require_only_accessed
from weft.compiler.loop.nest import describe, reallocate, value_name
from weft.compiler.loop.primitives.recording import primitive
from weft.dialects.errors import IllegalSchedule
from weft.dialects.loop.ops import AllocOp, LoadOp, StoreOp
from weft.dialects.loop.types import BufferType, buffer_type_of

_Extension: TypeAlias = (
    arith.ExtFOp | arith.ExtSIOp | arith.ExtUIOp | arith.SIToFPOp | arith.UIToFPOp
)


@primitive
def widen(allocation: AllocOp) -> AllocOp:
    """Has a local buffer hold what its elements are extended to wherever they are loaded.

        t = alloc [8] x f16                         t = alloc [8] x f32
        for i:  t[i] = x[i]                    ->   for i:  t[i] = extf x[i]
        for j:  for i:  y[j, i] = extf t[i]         for j:  for i:  y[j, i] = t[i]

    Each element is converted once, however often it is loaded, to what it would be there. Raises
    IllegalSchedule for a buffer that is not only loaded and stored, and where loads are not all
    extended alike.
    """
    name = value_name(allocation.result)
    accesses = require_only_accessed("widen", allocation.result)
    loads = [(access, _extensions(access)) for access in accesses if isinstance(access, LoadOp)]
    stores = [access for access in accesses if isinstance(access, StoreOp)]
    extended = [op for _, extensions in loads for op in extensions]
    conversions = {f"{op.name} to {op.result.type}" for op in extended}
    if len(conversions) != 1:
        got = ", ".join(sorted(conversions)) or "no load"
        raise IllegalSchedule(f"widen requires loads of {name} extended to one type, got {got}")
    first = extended[0]
    type = buffer_type_of(allocation.result)
    wide_type = BufferType(type.dims, first.result.type, type.layout)
    wide = reallocate(allocation, wide_type, before=allocation)
    for store in stores:
        value = first.clone({first.input: store.value})
        Rewriter.insert_op(value, InsertPoint.before(store))
        store.operands = [
            {store.value: value.result, allocation.result: wide.result}.get(operand, operand)
            for operand in store.operands
        ]
    for load, extensions in loads:
        loaded = LoadOp.of(wide.result, list(load.index))
        Rewriter.insert_op(loaded, InsertPoint.before(load))
        for extension in extensions:
            Rewriter.replace_op(extension, [], [loaded.result])
        Rewriter.erase_op(load)
    Rewriter.erase_op(allocation)
    return wide


def _extensions(load: LoadOp) -> list[_Extension]:
    """The operations that extend what is loaded; refuses a load that has other uses."""
    found = [use.operation for use in load.result.uses]
    extensions = [op for op in found if isinstance(op, _Extension)]
    if len(extensions) != len(found):
        rule = "loads that are only extended"
        raise IllegalSchedule(f"widen requires {rule}, got {describe(load)}")
    return extensions

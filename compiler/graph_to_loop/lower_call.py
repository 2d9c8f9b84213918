"""Calls of functions that are not compiled here, on buffers: the host's, and the user's own."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation, SSAValue

from weft.dialects.graph import HostCallOp, NativeCallOp
from weft.dialects.graph.core.dtypes import numpy_dtype
from weft.dialects.graph.core.types import type_of
from weft.dialects.loop import effects
from weft.dialects.loop.dynamic import RequireEqualOp
from weft.dialects.printed import escaped


def lower_call(
    op: HostCallOp | NativeCallOp, sources: Sequence[SSAValue], targets: Sequence[SSAValue]
) -> list[Operation]:
    """The call with the buffers that it reads and fills, behind what it requires of sizes."""
    if isinstance(op, HostCallOp):
        return [_host_call(op, sources, targets)]
    sizes = [*op.sizes().values()]
    call = effects.NativeCallOp.of(op.declared.name, op.code, sizes, sources, targets)
    return [*(RequireEqualOp.of(*pair) for pair in op.assumptions()), call]


def _host_call(
    op: HostCallOp, sources: Sequence[SSAValue], targets: Sequence[SSAValue]
) -> Operation:
    parts = [
        ", ".join(f"{{{numpy_dtype(each.element).name},{len(each.shape)},}}" for each in types)
        for types in (map(type_of, op.values), map(type_of, op.found))
    ]
    text = f"{escaped(op.function.data)}({parts[0]}) -> ({parts[1]})"
    return effects.HostCallOp.of(text, sources, targets)

"""The primitive that has memory read ahead."""

from __future__ import annotations

from xdsl.dialects.builtin import UnitAttr
from xdsl.rewriter import InsertPoint, Rewriter

from compiler.loop.nest import describe, is_inside, subscripts
from compiler.loop.primitives.recording import primitive
from dialects.errors import IllegalSchedule
from dialects.expr import atom_expr
from dialects.loop.ops import AllocOp, ForOp, LoadOp, PrefetchOp


@primitive
def prefetch(load: LoadOp, loop: ForOp, ahead: int = 1, *, cache: str = "first") -> PrefetchOp:
    """Brings near what a load reads some iterations later of a loop around it, into the first cache
    or the second.

        for i:  for j:  y[i, j] = f(x[i, j])
        ->  for i:  for j:  prefetch x[i + 1, j];  y[i, j] = f(x[i, j])

    It changes no value, and what lies behind the end of the buffer is not read. Raises
    IllegalSchedule for a loop that is not around the load or does not move it, and for a local
    buffer.
    """
    moved = {atom for expr in subscripts(load) for atom in expr.atoms()}
    if not is_inside(load, loop) or loop.index not in moved or ahead < 1:
        got = f"{describe(load)} and {describe(loop)}"
        raise IllegalSchedule(f"prefetch requires a load that the loop moves forward, got {got}")
    if isinstance(load.buffer.owner, AllocOp):
        rule = "a buffer that is handed to the kernel"
        raise IllegalSchedule(f"prefetch requires {rule}, got {describe(load)}")
    later = atom_expr(loop.index) + ahead * loop.step.data
    place = [expr.substitute({loop.index: later}) for expr in subscripts(load)]
    op = PrefetchOp.of(load.buffer, place)
    if cache not in ("first", "second"):
        raise IllegalSchedule(f"prefetch requires the first cache or the second, got {cache}")
    if cache == "second":
        op.properties["far"] = UnitAttr()
    Rewriter.insert_op(op, InsertPoint.before(load))
    return op

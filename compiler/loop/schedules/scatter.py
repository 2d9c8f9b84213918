"""Scatters of single elements: indices are computed in vectors, a block of them at a time, before
elements are stored one after the other, as they may be stored to the same place.

    for i:  y[f(x[i])] += v[i]   ->   for io:  for ii:  t[ii] = f(x[io, ii])
                                               for ii:  y[t[ii]] += v[io, ii]
"""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects.arith import ConstantOp, IndexCastOp
from xdsl.ir import Operation, SSAValue

from weft.compiler.loop.nest import is_inside, is_pure, perfect_nest, stores_in, values_in
from weft.compiler.loop.primitives import distribute, expand_scalar, tile, unroll, vectorize
from weft.compiler.loop.schedules.innermost_loops import lanes_of, unscheduled
from weft.compiler.loop.strides import stride
from weft.compiler.target.target import Target
from weft.dialects.loop.ops import ForOp, LoadOp
from weft.dialects.loop.program import KernelOp

NAME = "scatter"

BLOCK = 256
"""Indices of a block, which stay in L1."""

UNROLLED = 4
"""Elements that are stored in an iteration."""

LEAST_STEPS = 3
"""Operations that an index takes for which a vector of them pays."""


def apply_all(kernel: KernelOp, target: Target) -> Iterator[str]:
    """Schedules every such loop of the kernel; yields once for each."""
    for nest in unscheduled(kernel):
        loop = perfect_nest(nest)[-1]
        index = _index(loop)
        if index is not None and (loop.extent.constant or 0) >= 2 * BLOCK:
            _apply(loop, index, target)
            yield NAME


def _index(loop: ForOp) -> Operation | None:
    """The operation whose result, of several steps over contiguous loads, is the only number that
    decides where an iteration stores.
    """
    values = {
        value for store in stores_in(loop) for each in store.index for value in values_in(each)
    }
    casts = {each.owner for each in values if each is not loop.index}
    if len(casts) != 1:
        return None
    (cast,) = casts
    if not isinstance(cast, IndexCastOp) or cast.parent is not loop.body.block:
        return None
    steps = _steps(cast.input, loop)
    return steps[0] if steps is not None and len(steps) >= LEAST_STEPS else None


def _steps(value: SSAValue, loop: ForOp) -> list[Operation] | None:
    """The operations of a loop that a number takes, the last one first, but for loads and
    constants; None where these load what the loop stores, or not contiguously.
    """
    stored = {store.buffer for store in stores_in(loop)}
    found: dict[Operation, None] = {}
    pending = [value]
    while pending:
        op = pending.pop().owner
        if not isinstance(op, Operation) or not is_inside(op, loop):
            continue
        if isinstance(op, LoadOp):
            if op.buffer in stored or stride(op, loop) not in (0, 1):
                return None
        elif not is_pure(op):
            return None
        elif not isinstance(op, ConstantOp):
            found[op] = None
            pending += op.operands
    return list(found)


def _apply(loop: ForOp, index: Operation, target: Target) -> None:
    """Splits each block of the loop in front of the use of the index, and computes all of those of
    a block in vectors.
    """
    indices = tile(loop, BLOCK).inner
    stores = distribute(indices, expand_scalar(index))
    vectorize(indices, lanes_of([indices], target))
    unroll(tile(stores, UNROLLED).inner)

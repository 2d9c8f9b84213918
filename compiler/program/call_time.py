"""program -> numbers: about how long the calls of a program take on one thread."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from weft.compiler.program.describe import call_bytes, call_flops
from weft.compiler.target.target import Target
from weft.dialects.expr import Expr
from weft.dialects.loop.program import CallOp, KernelOp

CallTime = Callable[[CallOp], float | None]
"""What a call takes on one thread, in nanoseconds; None where its sizes vary."""

START = 60.0
"""Nanoseconds of a call that does nothing."""

FLOPS_PER_LANE = 4.0
"""Operations of a nanosecond in each lane of a vector: products and sums of matrices."""

BYTES = 96.0
"""Bytes of a nanosecond, of a call whose buffers fit into the second cache."""

FAR_BYTES = 24.0
"""Bytes of a nanosecond, of one whose buffers do not."""


def call_time(
    kernels: Mapping[str, KernelOp],
    target: Target,
    size: Callable[[Expr], float | None] = lambda expr: expr.constant,
) -> CallTime:
    """The time of a call in nanoseconds: computing, or reading and writing all of its buffers.
    `size` says what an expression of sizes is.
    """
    rate = FLOPS_PER_LANE * target.lanes(4)

    def time(call: CallOp) -> float | None:
        computed = size(call_flops(call, kernels[call.kernel]))
        moved = size(call_bytes(call))
        if computed is None or moved is None:
            return None
        bandwidth = BYTES if moved <= target.l2_bytes else FAR_BYTES
        return START + max(computed / rate, moved / bandwidth)

    return time

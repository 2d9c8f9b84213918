"""program -> numbers: about how long the calls of a program take on one thread."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from weft.compiler.program.describe import call_bytes, call_flops
from weft.compiler.target.target import Target
from weft.dialects.expr import Expr
from weft.dialects.loop.program import CallOp, KernelOp

CallTime = Callable[[CallOp], float | None]
"""What a call takes on one thread, in nanoseconds; None where its sizes vary."""

SHARE_OF_PEAK = 0.6
"""Of the multiply-adds that a core could do, what calls do: large products nine tenths of them,
small ones and sums fewer. Calls of SqueezeNet, MobileNet and ShuffleNet take four fifths of the
time that this says on Zen 4, and six tenths with AVX2.
"""


def call_time(
    kernels: Mapping[str, KernelOp],
    target: Target,
    size: Callable[[Expr], float | None] = lambda expr: expr.constant,
) -> CallTime:
    """The time of a call in nanoseconds: computing, or reading and writing all of its buffers.
    `size` says what an expression of sizes is.
    """
    bounds = call_bounds(kernels, target, size)

    def time(call: CallOp) -> float | None:
        found = bounds(call)
        return None if found is None else target.cost.call_ns + max(found)

    return time


def call_bounds(
    kernels: Mapping[str, KernelOp],
    target: Target,
    size: Callable[[Expr], float | None] = lambda expr: expr.constant,
) -> Callable[[CallOp], tuple[float, float] | None]:
    """What a call takes for computing, and for reading and writing all of its buffers."""

    def bounds(call: CallOp) -> tuple[float, float] | None:
        computed = size(call_flops(call, kernels[call.kernel]))
        moved = size(call_bytes(call))
        return None if computed is None or moved is None else bounds_of(computed, moved, target)

    return bounds


def bounds_of(flops: float, moved: float, target: Target) -> tuple[float, float]:
    """Nanoseconds in which so much is computed, and so many bytes of buffers are moved."""
    cost = target.cost
    rate = SHARE_OF_PEAK * 2 * cost.fma_ports * cost.ghz * target.lanes(4)
    return flops / rate, moved / bandwidth(moved, target)


def bandwidth(moved: float, target: Target) -> float:
    """Bytes of a nanosecond, of a call whose buffers have so many together. Those that L2 does not
    hold are mostly weights, which the rest of the program has driven out of L3.
    """
    cost = target.cost
    return cost.l2_bandwidth * cost.ghz if moved <= target.l2_bytes else cost.memory_gbs

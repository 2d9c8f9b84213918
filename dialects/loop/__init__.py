"""The loop level: kernels as loop nests over buffers, and the program that calls them."""

from xdsl.ir import Dialect

from dialects.loop import dynamic, effects, extents
from dialects.loop.arithmetic import ClockOp, GeluOp, IndexOp, RemFOp
from dialects.loop.choose import ChooseOp, RunOp
from dialects.loop.concurrent import ConcurrentOp
from dialects.loop.ops import (
    AllocOp,
    ConditionOp,
    ForOp,
    IfOp,
    LoadOp,
    PrefetchOp,
    StoreOp,
    WhileOp,
)
from dialects.loop.program import CallOp, KernelOp, ProgramOp, ViewOp, WeightOp
from dialects.loop.types import BufferType, ExprsAttr, LayoutAttr

LOOP = Dialect(
    "loop",
    [
        ForOp,
        LoadOp,
        StoreOp,
        PrefetchOp,
        IndexOp,
        ClockOp,
        AllocOp,
        IfOp,
        WhileOp,
        ConditionOp,
        KernelOp,
        ProgramOp,
        CallOp,
        WeightOp,
        ViewOp,
        ChooseOp,
        RunOp,
        ConcurrentOp,
        RemFOp,
        GeluOp,
        *dynamic.OPS,
        *effects.OPS,
        *extents.OPS,
    ],
    [BufferType, ExprsAttr, LayoutAttr],
)

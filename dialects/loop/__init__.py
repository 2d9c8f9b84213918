"""The loop level: kernels as loop nests over buffers, and the program that calls them."""

from weft.dialects.definitions import Dialect
from weft.dialects.loop import communication, dynamic, effects, extents
from weft.dialects.loop.arithmetic import (
    ClockOp,
    DotBf16Op,
    DotBytesOp,
    FieldOp,
    GeluOp,
    IndexOp,
    PackBf16Op,
    RemFOp,
    ThreefryOp,
)
from weft.dialects.loop.concurrent import ConcurrentOp
from weft.dialects.loop.dispatch import CallProgramOp, DispatchOp
from weft.dialects.loop.ops import (
    AllocOp,
    ConditionOp,
    ForOp,
    IfOp,
    LoadOp,
    PrefetchOp,
    StoreOp,
    WhileOp,
)
from weft.dialects.loop.program import CallOp, KernelOp, ProgramOp, ViewOp, WeightOp
from weft.dialects.loop.types import BufferType, ExprsAttr, LayoutAttr

LOOP = Dialect(
    "loop",
    [
        ForOp,
        LoadOp,
        StoreOp,
        PrefetchOp,
        IndexOp,
        ClockOp,
        DotBf16Op,
        DotBytesOp,
        PackBf16Op,
        FieldOp,
        AllocOp,
        IfOp,
        WhileOp,
        ConditionOp,
        KernelOp,
        ProgramOp,
        CallOp,
        WeightOp,
        ViewOp,
        DispatchOp,
        CallProgramOp,
        ConcurrentOp,
        RemFOp,
        GeluOp,
        ThreefryOp,
        *communication.OPS,
        *dynamic.OPS,
        *effects.OPS,
        *extents.OPS,
    ],
    [BufferType, ExprsAttr, LayoutAttr],
)

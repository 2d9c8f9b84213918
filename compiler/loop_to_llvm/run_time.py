"""The run time of one artifact as a module of LLVM IR:
its entry points, context, pool and table of weights.
"""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from compiler.loop_to_llvm.runtime import Counts, Level, Runtime
from compiler.target.target import Target


def emit_run_time(
    target: Target,
    prefix: str,
    counts: Counts,
    metadata: str,
    blob: str,
    offsets: Sequence[int],
    levels: Sequence[Level],
) -> str:
    """The LLVM IR as text. Weights lie at `offsets` bytes into `blob`
    unless a context is given others; programs are those of `levels`.
    """
    module = ir.Module(f"{prefix}.runtime")
    module.triple = target.triple
    Runtime(module, target, prefix).define(
        counts, metadata, [(blob, offset) for offset in offsets], levels
    )
    return str(module)

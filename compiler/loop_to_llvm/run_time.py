"""The run time of one artifact as a module of LLVM IR:
its entry points, context, pool and table of weights.
"""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from compiler.loop_to_llvm.runtime import Counts, Level, Runtime, Weight
from compiler.loop_to_llvm.runtime.outside_weights import OutsideWeights, define_outside_weights
from compiler.loop_to_llvm.runtime.self_test import Golden
from compiler.target.target import Target


def emit_run_time(
    target: Target,
    prefix: str,
    counts: Counts,
    metadata: str,
    table: bytes,
    blob: str,
    offsets: Sequence[int],
    levels: Sequence[Level],
    outside: OutsideWeights | None = None,
    golden: Golden | None = None,
) -> str:
    """The LLVM IR as text. Weights lie at `offsets` bytes into `blob` unless a context is given
    others; those that are `outside` it always is. Programs are those of `levels`.
    A model with `golden` data can test itself.
    """
    module = ir.Module(f"{prefix}.runtime")
    module.triple = target.triple
    run_time = Runtime(module, target, prefix)
    weights: list[Weight] = [(None if outside else blob, offset) for offset in offsets]
    run_time.define(counts, metadata, table, weights, levels, golden)
    if outside is not None:
        define_outside_weights(run_time.pool, outside)
    return str(module)

"""The run time of one artifact as a module of LLVM IR:
its entry points, context and pool.
"""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from weft.compiler.loop_to_llvm.runtime import Counts, Level, Runtime, TableLayout
from weft.compiler.loop_to_llvm.runtime.external_weights import (
    ExternalWeights,
    define_external_weights,
)
from weft.compiler.loop_to_llvm.runtime.self_test import Golden
from weft.compiler.target.target import Target


def emit_run_time(
    target: Target,
    prefix: str,
    counts: Counts,
    table: TableLayout,
    blobs: Sequence[str],
    levels: Sequence[Level],
    outside: ExternalWeights | None = None,
    golden: Golden | None = None,
) -> str:
    """The LLVM IR as text. Weights are in `blobs` unless a context is given others; those that are
    `outside` it always is. Programs are those of `levels`. A model with `golden` data can test
    itself.
    """
    module = ir.Module(f"{prefix}.runtime")
    module.triple = target.triple
    run_time = Runtime(module, target, prefix)
    run_time.define(counts, table, blobs, levels, golden)
    if outside is not None:
        define_external_weights(run_time.pool, outside)
    return str(module)

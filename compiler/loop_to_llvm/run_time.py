"""The run time of artifacts as modules of LLVM IR: entry points, context and pool, which are the
same for all models, and functions that only some artifacts have, which are made for each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from llvmlite import ir

from weft.compiler.loop_to_llvm.runtime import Counts, Level, Runtime
from weft.compiler.loop_to_llvm.runtime.external_weights import (
    ExternalWeights,
    define_external_weights,
)
from weft.compiler.loop_to_llvm.runtime.self_test import Golden
from weft.compiler.target.target import Target


def emit_run_time(target: Target, prefix: str) -> str:
    """The LLVM IR as text of what all models have."""
    return _emitted(target, prefix, lambda run_time: run_time.define())


def emit_levels(target: Target, prefix: str, levels: Sequence[Level]) -> str:
    """The LLVM IR as text of what chooses among programs for these `levels`."""
    return _emitted(target, prefix, lambda run_time: run_time.define_levels(levels))


def emit_external_weights(target: Target, prefix: str, outside: ExternalWeights) -> str:
    """The LLVM IR as text of what an artifact has for weights that are `outside` it."""
    return _emitted(
        target, prefix, lambda run_time: define_external_weights(run_time.pool, outside)
    )


def emit_self_test(target: Target, prefix: str, golden: Golden, counts: Counts) -> str:
    """The LLVM IR as text of the test of a model with this data."""
    return _emitted(target, prefix, lambda run_time: run_time.define_self_test(golden, counts))


def _emitted(target: Target, prefix: str, define: Callable[[Runtime], None]) -> str:
    module = ir.Module(f"{prefix}.runtime")
    module.triple = target.triple
    define(Runtime(module, target, prefix))
    return str(module)

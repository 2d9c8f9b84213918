"""The run time of an artifact -> its object. What the artifact says of itself is another object, so
that the run time is compiled beside the kernels.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from compiler.compile_kernels import KernelCode
from compiler.loop_to_llvm.run_time import emit_run_time
from compiler.loop_to_llvm.runtime import Counts, Level, TableLayout
from compiler.loop_to_llvm.runtime.outside_weights import OutsideWeights
from compiler.loop_to_llvm.runtime.self_test import Golden
from compiler.machine.model_table import model_table
from compiler.machine.object import compile_object
from compiler.machine.signature import Signature
from compiler.options import Options
from compiler.target.features import baseline, feature_groups
from compiler.target.target import Target


@dataclass(frozen=True)
class RunTimeTask:
    """All that decides what the run time's code is, for any processor of the architecture."""

    target: Target
    prefix: str
    counts: Counts
    table: TableLayout
    blobs: tuple[str, ...]
    levels: tuple[Level, ...]
    outside: OutsideWeights | None = None
    golden: Golden | None = None
    keep_texts: bool = False

    @property
    def key(self) -> str:
        """A hash of all that decides what the code is, the compiler aside."""
        return hashlib.sha256(repr(self).encode()).hexdigest()

    def compile(self) -> KernelCode:
        """The object."""
        start = time.perf_counter()
        text = emit_run_time(
            self.target, self.prefix, self.counts, self.table, self.blobs, self.levels,
            self.outside, self.golden,
        )  # fmt: skip
        code = compile_object(text, baseline(self.target))
        return KernelCode(code, "", [], seconds={"run time": time.perf_counter() - start})


def run_time_task(
    signature: Signature,
    facts: Mapping[str, Any],
    options: Options,
    *,
    has_weights: bool,
    outside: OutsideWeights | None = None,
    golden: Golden | None = None,
) -> RunTimeTask:
    """The task for a model of which these facts, its metadata or the part of it that tables have
    room for, are known.
    """
    counts = Counts(
        len(signature.inputs), len(signature.outputs), len(signature.symbols),
        len(signature.found), signature.made,
        max((len(spec.dims) for spec in (*signature.inputs, *signature.outputs)), default=0),
    )  # fmt: skip
    inside = has_weights and outside is None
    return RunTimeTask(
        options.target,
        options.prefix,
        counts,
        TableLayout.of(model_table(facts)),
        (f"{options.prefix}.weights",) if inside else (),
        tuple(Level(each.prefix, feature_groups(each.target)) for each in options.levels()),
        outside,
        golden,
    )

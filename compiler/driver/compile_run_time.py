"""The run time of an artifact -> its object. What the artifact says of itself is another object, so
that the run time is compiled beside the kernels.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from msgspec import Struct

from weft.compiler.abi.constants import ABI_VERSION
from weft.compiler.driver.options import Options
from weft.compiler.driver.workers import KernelCode
from weft.compiler.loop_to_llvm.run_time import emit_run_time
from weft.compiler.loop_to_llvm.runtime import Counts, Level, TableLayout
from weft.compiler.loop_to_llvm.runtime.external_weights import ExternalWeights
from weft.compiler.loop_to_llvm.runtime.self_test import Golden
from weft.compiler.machine.artifact.model_table import model_table
from weft.compiler.machine.artifact.signature import Signature
from weft.compiler.machine.codegen.object_code import compile_object
from weft.compiler.machine.weights.file import EMBEDDED
from weft.compiler.target.features import baseline, feature_groups
from weft.compiler.target.target import Target
from weft.compiler.version import VERSION


class RunTimeTask(Struct, frozen=True):
    """All that decides what the run time's code is, for any processor of the architecture."""

    target: Target
    prefix: str
    counts: Counts
    table: TableLayout
    blobs: tuple[str, ...]
    levels: tuple[Level, ...]
    outside: ExternalWeights | None = None
    golden: Golden | None = None
    keep_texts: bool = False

    @property
    def cost(self) -> int:
        """Less than that of any kernel: who was early is at it already."""
        return 0

    @property
    def key(self) -> str:
        """A hash of all that decides what the code is, the compiler aside."""
        return hashlib.sha256(repr(self).encode()).hexdigest()

    def compile(self) -> KernelCode:
        """The object."""
        start = time.perf_counter()
        is_own = self.outside is not None or self.golden is not None  # a model's, with its weights
        code = _object(self) if is_own else _shared_object(self)
        return KernelCode(code, "", [], [], seconds={"run time": time.perf_counter() - start})


@lru_cache(maxsize=64)
def _shared_object(task: RunTimeTask) -> bytes:
    """The object of models that differ in their kernels alone."""
    return _object(task)


def _object(task: RunTimeTask) -> bytes:
    text = emit_run_time(
        task.target, task.prefix, task.counts, task.table, task.blobs, task.levels,
        task.outside, task.golden,
    )  # fmt: skip
    return compile_object(text, baseline(task.target))


def run_time_task(
    signature: Signature,
    metadata: Mapping[str, Any],
    options: Options,
    *,
    has_weights: bool,
    outside: ExternalWeights | None = None,
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
        TableLayout.of(model_table(metadata)),
        (f"{options.prefix}.weights",) if inside else (),
        tuple(Level(each.prefix, feature_groups(each.target)) for each in options.levels()),
        outside,
        golden,
    )


def likely_run_time(
    signature: Signature, options: Options, *, has_weights: bool
) -> RunTimeTask | None:
    """The task of a model that is not planned yet, which is very likely that of its artifact; None
    for models whose run time waits for what is only known then.
    """
    artifact = options.artifact
    if artifact.weights != EMBEDDED or artifact.self_test or artifact.isa:
        return None
    if options.buckets.sizes or artifact.bare:
        return None
    unknown: dict[str, object] = {"weights_in": EMBEDDED, "weights": [], "workspace_bytes": 0}
    metadata = {**identity(options), **signature.to_json(), **unknown}
    return run_time_task(signature, metadata, options, has_weights=has_weights)


def identity(options: Options) -> dict[str, object]:
    """What is known of an artifact before anything is compiled."""
    return {
        "abi": ABI_VERSION,
        "weft": VERSION,
        "prefix": options.prefix,
        "triple": options.target.triple,
        "cpu": options.target.cpu,
        "features": features(options),
        "bounds": {each.name: [each.least, each.most] for each in options.bounds},
    }


def features(options: Options) -> list[str]:
    """Those that the target has."""
    return [name for name in options.target.features if name.startswith("+")]

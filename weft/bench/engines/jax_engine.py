"""XLA through JAX: one jitted function of the inputs and the weights."""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from typing import Any

import numpy as np

from weft.bench.engines.onnx_plan import Planner
from weft.bench.session import Inputs, Session


def load(model: Path, inputs: Inputs, threads: int, kept: Path | None = None) -> Session:
    """XLA's pool is as large as the process has cores: the worker has given it `threads`."""
    os.environ["NPROC"] = str(threads)
    jax: Any = importlib.import_module("jax")
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_enable_x64", True)
    if kept is not None:
        _keep_programs(jax, kept / f"jax-{jax.__version__}-{threads}")
    functions = importlib.import_module("weft.bench.engines.jax_functions").FUNCTIONS
    planner = Planner(functions, jax.numpy.asarray, jax.eval_shape)
    plan, arrays = planner.plan(model, inputs)
    # Weights are arguments: XLA would fold for minutes what is a constant of the program.
    compiled = jax.jit(plan.run).lower(arrays, plan.constants).compile()

    def call() -> Any:
        return jax.block_until_ready(compiled(arrays, plan.constants))

    return Session(call, lambda results: [np.asarray(each) for each in results])


def _keep_programs(jax: Any, folder: Path) -> None:
    """Has XLA's programs written to a folder, which is for one number of threads."""
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)

"""XLA through JAX: one jitted function of the inputs and the weights."""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from typing import Any

import numpy as np

from compiler.bench.engines.onnx_plan import Planner
from compiler.bench.session import Inputs, Session


def load(model: Path, inputs: Inputs, threads: int) -> Session:
    """XLA's pool is as large as the process has cores: the worker has given it `threads`."""
    os.environ |= {"JAX_PLATFORMS": "cpu", "NPROC": str(threads)}
    jax: Any = importlib.import_module("jax")
    jax.config.update("jax_enable_x64", True)
    functions = importlib.import_module("compiler.bench.engines.jax_functions").FUNCTIONS
    plan, arrays = Planner(functions, jax.numpy.asarray).plan(model, inputs)
    # Weights are arguments: XLA would fold for minutes what is a constant of the program.
    compiled = jax.jit(plan.run).lower(arrays, plan.constants).compile()

    def call() -> Any:
        return jax.block_until_ready(compiled(arrays, plan.constants))

    return Session(call, lambda results: [np.asarray(each) for each in results])

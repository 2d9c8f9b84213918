"""PyTorch, eager and with torch.compile, on the functions that its users would call."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from weft.bench.engines.onnx_plan import Plan, Planner
from weft.bench.session import Inputs, Session
from weft.dialects.weights import Array


def load_eager(model: Path, inputs: Inputs, threads: int, kept: Path | None = None) -> Session:
    """Each operator at once, as it is called."""
    return _load(model, inputs, threads, compiled=False)


def load_compiled(model: Path, inputs: Inputs, threads: int, kept: Path | None = None) -> Session:
    """torch.compile with its best mode for shapes that do not change, weights frozen."""
    config: Any = importlib.import_module("torch._inductor.config")
    config.freezing, config.compile_threads = True, 1
    if kept is not None:
        version = importlib.import_module("torch").__version__
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(kept / f"torch-{version}")
    return _load(model, inputs, threads, compiled=True)


def _load(model: Path, inputs: Inputs, threads: int, *, compiled: bool) -> Session:
    torch: Any = importlib.import_module("torch")
    torch.set_num_threads(threads)
    functions = importlib.import_module("weft.bench.engines.torch_functions").FUNCTIONS

    def to_device(array: Array) -> Any:
        return torch.from_numpy(np.array(array))

    with torch.inference_mode():
        plan, tensors = Planner(functions, to_device).plan(model, inputs)

    run = _compiled(torch, plan) if compiled else partial(_arrays, plan, constants=plan.constants)

    def call() -> Any:
        with torch.inference_mode():
            return run(tensors)

    return Session(call, lambda results: [each.numpy() for each in results])


def _arrays(plan: Plan, given: list[Any], constants: list[Any]) -> list[Any]:
    """The outputs as other engines give them: a view that is a transposed one is no answer yet."""
    return [each.contiguous() for each in plan.run(given, constants)]


def _compiled(torch: Any, plan: Plan) -> Callable[[list[Any]], list[Any]]:
    """A compiled module that owns the constants, as freezing wants it."""

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            for number, constant in enumerate(plan.constants):
                self.register_buffer(f"weight{number}", constant.clone())

        def forward(self, given: list[Any]) -> list[Any]:
            return _arrays(plan, given, list(self.buffers()))

    return torch.compile(Model().eval(), dynamic=False)

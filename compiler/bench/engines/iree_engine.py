"""IREE for this CPU, from ONNX by its own importer, sizes as the inputs have them."""

from __future__ import annotations

import importlib
import subprocess
import sysconfig
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx

from compiler.bench.session import Inputs, PeerLacks, Session
from dialects.weights import Array

SECONDS: Final = 300
"""After which a compilation is given up."""

_FLAGS: Final = (
    "--iree-hal-target-device=local",
    "--iree-hal-local-target-device-backends=llvm-cpu",
    "--iree-llvmcpu-target-cpu=host",
    "--iree-opt-level=O3",
)


def load(model: Path, inputs: Inputs, threads: int) -> Session:
    """A module on the local-task device with one worker for each thread."""
    importlib.import_module("iree.compiler")
    runtime: Any = importlib.import_module("iree.runtime")
    with tempfile.TemporaryDirectory() as folder:
        program, names = _compile(model, inputs, Path(folder))
    runtime.flags.parse_flags(f"--task_topology_group_count={threads}")
    config = runtime.Config("local-task" if threads > 1 else "local-sync")
    module = runtime.load_vm_module(
        runtime.VmModule.copy_buffer(config.vm_instance, program), config
    )
    function = module[_only_function(module)]
    arrays = [runtime.asdevicearray(config.device, inputs[name]) for name in names]

    def results(answer: Any) -> list[Array]:
        several = answer if isinstance(answer, (tuple, list)) else (answer,)
        return [np.array(each.to_host()) for each in several]

    return Session(lambda: function(*arrays), results)


def _only_function(module: Any) -> str:
    names = [name for name in module.vm_module.function_names if not name.startswith("__")]
    return next(name for name in names if not name.endswith("$async"))


def _compile(model: Path, inputs: Inputs, folder: Path) -> tuple[bytes, list[str]]:
    """The program, and the names of the inputs in its order."""
    fixed, text, program = folder / "model.onnx", folder / "model.mlir", folder / "model.vmfb"
    names = _fix_sizes(model, inputs, fixed)
    _run([_tool("iree-import-onnx"), str(fixed), "-o", str(text)])
    _run([_tool("iree-compile"), *_FLAGS, str(text), "-o", str(program)])
    return program.read_bytes(), names


def _fix_sizes(model: Path, inputs: Inputs, path: Path) -> list[str]:
    """Writes the model with its inputs' sizes; returns their names."""
    loaded = onnx.load(str(model))
    given = [value for value in loaded.graph.input if value.name in inputs]
    for value in given:
        shape = value.type.tensor_type.shape
        for dim, size in zip(shape.dim, inputs[value.name].shape, strict=True):
            dim.dim_value = size
    path.write_bytes(loaded.SerializeToString())
    return [value.name for value in given]


def _tool(name: str) -> str:
    return str(Path(sysconfig.get_path("scripts")) / name)


def _run(command: Sequence[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired as error:
        raise PeerLacks(f"{Path(command[0]).name} took more than {SECONDS} s") from error
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if "error" in line.lower()]
        reason = (lines or [f"status {done.returncode}"])[0]
        text = reason.rpartition("error: ")[2]
        raise PeerLacks(f"{Path(command[0]).name}: {text[:200]}")

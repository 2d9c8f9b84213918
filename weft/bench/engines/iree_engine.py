"""IREE for this CPU, from ONNX by its own importer, sizes as the inputs have them."""

from __future__ import annotations

import hashlib
import importlib
import shutil
import subprocess
import sysconfig
import tempfile
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import numpy as np
from onnx.inliner import inline_selected_functions
from onnx.shape_inference import infer_shapes

from weft.bench.engines.onnx_plan import load_upgraded
from weft.bench.session import Inputs, PeerLacks, Session
from weft.dialects.weights import Array

_FLAGS: Final = (
    "--iree-hal-target-device=local", "--iree-hal-local-target-device-backends=llvm-cpu",
    "--iree-llvmcpu-target-cpu=host", "--iree-opt-level=O3",
)  # fmt: skip

_DOUBLES: Final = "--iree-input-demote-f64-to-f32=false"
"""For models of f64, which IREE computes in f32 by itself."""

_TOO_LITTLE_STACK: Final = "exceeded stack allocation limit"
_MORE_STACK: Final = f"--iree-llvmcpu-stack-allocation-limit={1 << 20}"
"""For programs of which a function wants more than the 32 KiB that IREE allows at first."""

_INLINED: Final = [("", "Attention")]
"""Operators that IREE's importer does not have: it is given the operators that ONNX defines them
by.
"""


def load(model: Path, inputs: Inputs, threads: int, kept: Path | None = None) -> Session:
    """A module on the local-task device with one worker for each thread."""
    runtime: Any = importlib.import_module("iree.runtime")
    with tempfile.TemporaryDirectory() as folder:
        program, names = _program(model, inputs, Path(folder), kept)
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


def _program(
    model: Path, inputs: Inputs, folder: Path, kept: Path | None
) -> tuple[bytes, list[str]]:
    """The program, and the names of the inputs in its order; compiled where it is not kept."""
    fixed, program = folder / "model.onnx", folder / "model.vmfb"
    names = _fix_sizes(model, inputs, fixed)
    doubles = any(array.dtype == np.float64 for array in inputs.values())
    flags = (*_FLAGS, _DOUBLES) if doubles else _FLAGS
    if kept is not None:
        key = hashlib.sha256(" ".join((version("iree-base-compiler"), *flags)).encode())
        key.update(fixed.read_bytes())
        program = kept / f"iree-{key.hexdigest()[:32]}.vmfb"
    if not program.exists():
        _compile(fixed, flags, program, folder)
    return program.read_bytes(), names


def _compile(model: Path, flags: Sequence[str], program: Path, folder: Path) -> None:
    """Writes the program whole or not at all."""
    importlib.import_module("iree.compiler")
    text, made = folder / "model.mlir", folder / "made.vmfb"
    _run([_tool("iree-import-onnx"), str(model), "-o", str(text)])
    command = [_tool("iree-compile"), *flags, str(text), "-o", str(made)]
    try:
        _run(command)
    except PeerLacks as lack:
        if _TOO_LITTLE_STACK not in str(lack):
            raise
        _run([*command, _MORE_STACK])
    program.parent.mkdir(parents=True, exist_ok=True)
    shutil.move(made, program)


def _fix_sizes(model: Path, inputs: Inputs, path: Path) -> list[str]:
    """Writes the model with its inputs' sizes, in operators that IREE has; returns their names."""
    loaded = load_upgraded(model)
    given = [value for value in loaded.graph.input if value.name in inputs]
    for value in given:
        shape = value.type.tensor_type.shape
        for dim, size in zip(shape.dim, inputs[value.name].shape, strict=True):
            dim.dim_value = size
    if any((node.domain, node.op_type) in _INLINED for node in loaded.graph.node):
        loaded = inline_selected_functions(loaded, _INLINED, inline_schema_functions=True)
        loaded = infer_shapes(loaded, data_prop=True)
    path.write_bytes(loaded.SerializeToString())
    return [value.name for value in given]


def _tool(name: str) -> str:
    return str(Path(sysconfig.get_path("scripts")) / name)


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if "error" in line.lower()]
        reason = (lines or [f"status {done.returncode}"])[0]
        text = reason.rpartition("error: ")[2]
        raise PeerLacks(f"{Path(command[0]).name}: {text[:200]}")

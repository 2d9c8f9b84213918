"""What onnxruntime and weft say of one file, each in a process of its own with limits of time and
memory.
"""

from __future__ import annotations

import contextlib
import io
import os
import resource
import signal
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime

import compiler.pipeline  # noqa: F401  copies of this process need not import it again
import weft
from compiler.cli.main import main
from dialects.errors import WeftError

MEMORY = 6 << 30
"""Bytes of addresses that one judge may have."""

SECONDS = 60
ELEMENTS = 1 << 22
"""An input of more elements is not made, and its mutant is only compiled."""

_TYPES = {
    "tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(float16)": np.float16,
    "tensor(int64)": np.int64, "tensor(int32)": np.int32, "tensor(int16)": np.int16,
    "tensor(int8)": np.int8, "tensor(uint64)": np.uint64, "tensor(uint32)": np.uint32,
    "tensor(uint16)": np.uint16, "tensor(uint8)": np.uint8, "tensor(bool)": np.bool_,
}  # fmt: skip


@dataclass
class Verdict:
    """`state` is one of ran, refused, failed (in a call), crashed, late; what was said; results."""

    state: str
    kind: str = ""
    text: str = ""
    results: Sequence[Any] = ()
    inputs: Mapping[str, np.ndarray] | None = None
    seconds: float = 0.0
    shown: str = field(default="", repr=False)


def judged(judge: Callable[..., Verdict], *arguments: Any) -> Verdict:
    """The verdict of a judge, in a copy of this process that ends with it."""
    context = get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    start = time.monotonic()
    process = context.Process(target=_answer, args=(theirs, judge, arguments), daemon=False)
    process.start()
    theirs.close()
    verdict: Verdict | None = None
    if ours.poll(SECONDS):
        with contextlib.suppress(EOFError):
            verdict = ours.recv()
    else:
        verdict = Verdict("late", "timeout", f"more than {SECONDS} s")
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid or 0, signal.SIGKILL)
    process.join()
    if verdict is None:
        verdict = Verdict("crashed", f"status {process.exitcode}")
    verdict.seconds = time.monotonic() - start
    return verdict


def _answer(out: Connection, judge: Callable[..., Verdict], arguments: Sequence[Any]) -> None:
    os.setpgid(0, 0)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    try:
        out.send(judge(*arguments))
    except BaseException as error:
        out.send(Verdict("crashed", type(error).__name__, traceback.format_exc()))


def onnxruntime_says(data: bytes, given: Mapping[str, np.ndarray]) -> Verdict:
    """Whether onnxruntime takes the model, and what it computes."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    providers = ["CPUExecutionProvider"]
    try:
        session = onnxruntime.InferenceSession(data, options, providers=providers)
    except Exception as error:
        return Verdict("refused", type(error).__name__, str(error))
    arrays = {each.name: _array(each, given) for each in session.get_inputs()}
    if any(each is None for each in arrays.values()):
        return Verdict("taken", "no input", "")
    try:
        return Verdict("ran", results=session.run(None, arrays), inputs=arrays)
    except Exception as error:
        return Verdict("failed", type(error).__name__, str(error), inputs=arrays)


def onnx_says(data: bytes) -> Verdict:
    """Whether the file keeps ONNX's own rules."""
    try:
        onnx.checker.check_model(data, full_check=True)
    except Exception as error:
        return Verdict("refused", type(error).__name__, str(error))
    return Verdict("taken")


def _array(wanted: Any, given: Mapping[str, np.ndarray]) -> np.ndarray | None:
    """What was given where that fits, else small numbers in the shape that is asked for."""
    dtype = _TYPES.get(wanted.type)
    dims = [each if isinstance(each, int) else 2 for each in wanted.shape or []]
    array = given.get(wanted.name)
    if array is not None and array.ndim == len(wanted.shape or []):
        fits = (
            not isinstance(w, int) or w == g for w, g in zip(wanted.shape, array.shape, strict=True)
        )
        if all(fits) and (dtype is None or array.dtype == dtype):
            return array
    if dtype is None or any(dim < 0 for dim in dims) or _size(dims) > ELEMENTS:
        return None
    return (np.arange(_size(dims)) % 3).reshape(dims).astype(dtype)


def _size(dims: Sequence[int]) -> int:
    size = 1
    for dim in dims:
        size *= dim
    return size


def weft_says(data: bytes, inputs: Mapping[str, np.ndarray] | None) -> Verdict:
    """Whether weft compiles the file, and what it computes; one that it refuses is compiled by the
    command as well, whose output goes with the verdict.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "mutant.onnx"
        path.write_bytes(data)
        try:
            model = weft.compile(path, cache=False, threads=1)
        except WeftError as error:
            said = f"{type(error).__name__}: {error}"
            return Verdict("refused", type(error).__name__, said, shown=_command(path))
        if inputs is None:
            return Verdict("taken")
        try:
            results = model.run(inputs)
        except WeftError as error:
            return Verdict("failed", type(error).__name__, str(error))
        return Verdict("ran", results=list(results.values()))


def _command(path: Path) -> str:
    """The exit status of `weft compile`, and what it prints."""
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        status = main(["compile", str(path), "-o", str(path.with_suffix(".so")), "--no-cache"])
    left = [each.name for each in path.parent.iterdir() if each != path]
    return f"{status} {','.join(left)}\n{said.getvalue()}"

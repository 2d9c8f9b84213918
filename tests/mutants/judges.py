"""What onnxruntime, weft and ONNX's own checker and evaluator say of one file, each in a process of
its own with limits of time and memory.
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
from google.protobuf.message import DecodeError
from onnx.reference import ReferenceEvaluator

import weft
import weft.compiler.driver.pipeline
from weft.cli.main import main
from weft.compiler.frontend.onnx.graph import all_nodes
from weft.compiler.frontend.onnx.tensor import DTYPES
from weft.dialects.errors import WeftError

MEMORY = 6 << 30
"""Bytes of addresses that one judge may have."""

SECONDS = 60
OTHERS_SECONDS = 10
"""That weft may take, and the others: what they need longer for they say nothing of."""

ELEMENTS = 1 << 22
"""An input of more elements is not made, and its mutant is only compiled."""


UNNEEDED = (
    "Field 'shape' of 'type' is required",  # an input of any shape, which onnxruntime takes, too
    "Field 'type' of 'value_info' is required",  # nothing is declared that could be contradicted
    "in initializer but not in graph input",  # up to IR version 3; constants need no declaration
)
"""Rules of ONNX's checker without which a file has one meaning, for onnxruntime as for weft."""


@dataclass
class Verdict:
    """`state` is one of ran, refused, failed (in a call), crashed, late; what was said; results."""

    state: str
    kind: str = ""
    text: str = ""
    results: Sequence[Any] = ()
    seconds: float = 0.0
    shown: str = field(default="", repr=False)


def judged(judge: Callable[..., Verdict], *arguments: Any) -> Verdict:
    """The verdict of a judge, in a copy of this process that ends with it."""
    context = get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    start = time.monotonic()
    limit = SECONDS if judge is weft_says else OTHERS_SECONDS
    process = context.Process(target=_answer, args=(theirs, judge, arguments), daemon=False)
    process.start()
    theirs.close()
    verdict: Verdict | None = None
    if ours.poll(limit):
        with contextlib.suppress(EOFError):
            verdict = ours.recv()
    else:
        verdict = Verdict("late", "timeout", f"more than {limit} s")
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
    arrays = arrays_for(data, given)
    if arrays is None:
        return Verdict("taken", "no input", "")
    try:
        return Verdict("ran", results=session.run(None, arrays))
    except Exception as error:
        return Verdict("failed", type(error).__name__, str(error))


def onnx_says(data: bytes, given: Mapping[str, np.ndarray]) -> Verdict:
    """Whether the file keeps ONNX's own rules, and what its evaluator computes; it is "taken" where
    that cannot.
    """
    try:
        model = onnx.load_from_string(data)
        for node in all_nodes(model):  # whose evaluator knows one spelling of the default domain
            node.domain = "" if node.domain == "ai.onnx" else node.domain
        onnx.checker.check_model(model, full_check=True)
    except Exception as error:
        if not any(rule in str(error) for rule in UNNEEDED):
            return Verdict("refused", type(error).__name__, str(error))
    arrays = arrays_for(data, given)
    if arrays is None:
        return Verdict("taken", "no input", "")
    try:
        results: Any = ReferenceEvaluator(model).run(None, dict(arrays))
    except Exception as error:
        return Verdict("taken", type(error).__name__, str(error))
    return Verdict("ran", results=results)


def arrays_for(data: bytes, given: Mapping[str, np.ndarray]) -> dict[str, np.ndarray] | None:
    """Arrays for the inputs of a file: what was given where that fits, else small numbers in the
    shape that is asked for. None where an input is no tensor, or too large.
    """
    try:
        graph = onnx.load_from_string(data).graph
    except DecodeError:
        return None
    stored = {each.name for each in graph.initializer}
    arrays: dict[str, np.ndarray] = {}
    for value in graph.input:
        array = None if value.name in stored else _array(value, given.get(value.name))
        if array is not None:
            arrays[value.name] = array
        elif value.name not in stored:
            return None
    return arrays


def _array(value: onnx.ValueInfoProto, given: np.ndarray | None) -> np.ndarray | None:
    kind = value.type.tensor_type
    if value.type.WhichOneof("value") != "tensor_type" or kind.elem_type not in DTYPES:
        return None
    dtype, declared = DTYPES[kind.elem_type], kind.shape.dim
    dims = [each.dim_value if each.HasField("dim_value") else 2 for each in declared]
    if given is not None and (given.ndim == len(dims) or not kind.HasField("shape")):
        known = zip(declared, given.shape, strict=False)
        fits = all(not d.HasField("dim_value") or d.dim_value == size for d, size in known)
        if fits and given.dtype == dtype:
            return given
    if dtype.kind == "O" or any(dim < 0 for dim in dims) or _size(dims) > ELEMENTS:
        return None
    return (np.arange(_size(dims)) % 3).reshape(dims).astype(dtype)


def _size(dims: Sequence[int]) -> int:
    size = 1
    for dim in dims:
        size *= dim
    return size


def weft_says(data: bytes, given: Mapping[str, np.ndarray], check_indices: bool = False) -> Verdict:
    """Whether weft compiles the file, and what it computes; one that it refuses is compiled by the
    command as well, whose output goes with the verdict.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "mutant.onnx"
        path.write_bytes(data)
        try:
            model = weft.compile(path, cache=False, threads=1, check_indices=check_indices)
        except WeftError as error:
            said = f"{type(error).__name__}: {error}"
            return Verdict("refused", type(error).__name__, said, shown=_command(path))
        arrays = arrays_for(data, given)
        if arrays is None:
            return Verdict("taken")
        try:
            results = model.run(arrays)
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

"""weft and onnxruntime as functions from arrays to arrays."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnxruntime

import weft
from tests.models.networks import Inputs

Call = Callable[[], list[np.ndarray]]

_ERRORS_ONLY = 3


@dataclass(frozen=True)
class Built:
    """weft's executable, the seconds that it took to compile, and the size of its artifact."""

    call: Call
    compile_seconds: float
    library_bytes: int


def build_weft(model: Path, inputs: Inputs, threads: int) -> Built:
    """Compiles without the cache, exports beside the model, and runs the shared object."""
    library = model.with_name("libmodel.so")
    start = time.perf_counter()
    executable = weft.compile(model, threads=threads, cache=False)
    executable.export(library)
    seconds = time.perf_counter() - start
    del executable
    loaded = weft.load(library, threads=threads)
    return Built(lambda: list(loaded.run(inputs).values()), seconds, library.stat().st_size)


def build_onnxruntime(model: Path, inputs: Inputs, threads: int) -> Call:
    """A session with as many threads, which do not spin while weft has its turn."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = _ERRORS_ONLY
    options.add_session_config_entry("session.force_spinning_stop", "1")
    session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, inputs)

"""weft: compiled, or out of its cache, or an artifact that was compiled before."""

from __future__ import annotations

from pathlib import Path

import weft
from weft.bench.session import Inputs, Session


def load(model: Path, inputs: Inputs, threads: int, kept: Path | None = None) -> Session:
    """A compiled model, or a shared object that `weft compile` wrote."""
    open_model = weft.load if model.suffix == ".so" else weft.compile
    executable = open_model(model, threads=threads)
    arrays = [inputs[spec.name] for spec in executable.inputs]
    return Session(lambda: executable(*arrays), list)

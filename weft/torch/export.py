"""Programs of torch.export as graphs."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import Any

import torch

from weft.api import compile
from weft.compiler.frontend.imported import ImportedModel
from weft.compiler.frontend.torch.from_pt2 import read_pt2
from weft.dialects.errors import UnsupportedError
from weft.torch.decompositions import decompositions


def read_program(program: torch.export.ExportedProgram) -> ImportedModel:
    """The graph of a program; one that weft does not take as it is, is decomposed first. Raises
    UnsupportedError that lists every operator that weft lacks.
    """
    try:
        return read_pt2(_saved(program), "program")
    except UnsupportedError:
        return read_pt2(_saved(program.run_decompositions(decompositions())), "program")


def _saved(program: torch.export.ExportedProgram) -> bytes:
    file = BytesIO()
    torch.export.save(program, file)
    return file.getvalue()


def export(program: torch.export.ExportedProgram, path: str | Path, **options: Any) -> None:
    """Compiles a program to what the suffix of `path` says: `.so`, `.a`, `.wasm` and so on."""
    compile(program, **options).export(path)

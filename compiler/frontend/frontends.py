"""Which front end reads a model: its content or the suffix of its file says so, or else its
Python type.

`weft.compile` traces Python functions itself, and hands on the graph.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from weft.compiler.deferred import deferred
from weft.compiler.frontend.fix_graph import fix_graph
from weft.compiler.frontend.graph_file_names import SUFFIX
from weft.compiler.frontend.imported import ImportedModel, Source
from weft.compiler.frontend.stablehlo.content import is_stablehlo
from weft.dialects.budget import Budget
from weft.dialects.errors import OptionError
from weft.dialects.graph import GraphOp
from weft.dialects.weights import Array

if TYPE_CHECKING:
    from weft.compiler.frontend import from_graph_file
    from weft.compiler.frontend.onnx import from_onnx
    from weft.compiler.frontend.onnx.node import ImporterTable
    from weft.compiler.frontend.onnx.ops import composites
    from weft.compiler.frontend.stablehlo import from_stablehlo
    from weft.compiler.frontend.torch import from_pt2
else:
    from_graph_file = deferred("weft.compiler.frontend.from_graph_file")
    from_onnx = deferred("weft.compiler.frontend.onnx.from_onnx")
    composites = deferred("weft.compiler.frontend.onnx.ops.composites")
    from_stablehlo = deferred("weft.compiler.frontend.stablehlo.from_stablehlo")
    from_pt2 = deferred("weft.compiler.frontend.torch.from_pt2")

PT2: Final = ".pt2"
"""The suffix of programs of torch.export."""


class ImportOptions(Struct, frozen=True):
    """How a model is imported: as `import_model` says; `importers` are those of extensions."""

    ops: Sequence[type[GraphOp]]
    importers: ImporterTable
    outputs: Sequence[str]
    sizes: Mapping[str, int]
    values: Mapping[str, Array]
    replaceable: bool
    budget: Budget | None
    donated: Mapping[str, str]


ReadInputs = Callable[[Any, Mapping[str, int], Mapping[str, Array]], ImportedModel]
"""Reads the inputs of a model, with these values of sizes and inputs."""


class Frontend(Struct, frozen=True):
    """Reads files of these suffixes and models of these types. One whose graphs are `finished`
    takes no options: outputs are those of the graph. `read_inputs` reads no more than what a model
    takes, where that can be told from the rest.
    """

    reads: str
    suffixes: tuple[str, ...]
    types: tuple[type, ...]
    read: Callable[[Any, ImportOptions], ImportedModel]
    read_inputs: Callable[[Any, Mapping[str, int], Mapping[str, Array]], ImportedModel] | None = (
        None
    )
    finished: bool = False
    recognises: Callable[[Any], bool] | None = None
    """Whether it reads a file or bytes, as their content says."""


def _read_graph_file(path: str | os.PathLike[str], options: ImportOptions) -> ImportedModel:
    return fix_graph(from_graph_file.read_graph(Path(path)), options.sizes, options.values)


def _read_pt2(path: str | os.PathLike[str], options: ImportOptions) -> ImportedModel:
    imported = from_pt2.read_pt2(Path(path), Path(path).name)
    return fix_graph(imported, options.sizes, options.values)


def _take_graph(imported: ImportedModel, options: ImportOptions) -> ImportedModel:
    return fix_graph(imported, options.sizes, options.values)


def _read_onnx(source: Source, options: ImportOptions) -> ImportedModel:
    return from_onnx.import_model(
        source,
        options.ops,
        {**composites.COMPOSITES, **options.importers},
        options.outputs,
        options.sizes,
        options.values,
        replaceable=options.replaceable,
        budget=options.budget,
        donated=options.donated,
    )


def _read_stablehlo(
    source: str | os.PathLike[str] | bytes, options: ImportOptions
) -> ImportedModel:
    imported = from_stablehlo.import_file(source, options.budget)
    return fix_graph(imported, options.sizes, options.values)


def _read_onnx_inputs(
    source: Source, sizes: Mapping[str, int], values: Mapping[str, Array]
) -> ImportedModel:
    return from_onnx.import_inputs(source, sizes, values)


def _is_message(source: object) -> bool:
    """Whether a model is an object of ONNX, which its program has imported then."""
    onnx = sys.modules.get("onnx")
    return onnx is not None and isinstance(source, onnx.ModelProto)


FRONTENDS: Final = (
    Frontend("StableHLO", (), (), _read_stablehlo, finished=True, recognises=is_stablehlo),
    Frontend("graph files", (SUFFIX,), (), _read_graph_file, finished=True),
    Frontend("torch.export", (PT2,), (), _read_pt2, finished=True),
    Frontend("graphs", (), (ImportedModel,), _take_graph, finished=True),
    # Paths of any other suffix: ONNX files are called .onnx, .pb or anything else.
    Frontend(
        "ONNX",
        (),
        (str, os.PathLike, bytes),
        _read_onnx,
        _read_onnx_inputs,
        recognises=_is_message,
    ),
)
"""Who reads what; the first that a suffix fits, else the first that a type fits."""


def find_frontend(source: Source | ImportedModel) -> Frontend:
    """The front end that reads a model. Raises OptionError for an object that none reads."""
    for frontend in FRONTENDS:
        if frontend.recognises is not None and frontend.recognises(source):
            return frontend
    suffix = Path(source).suffix if isinstance(source, str | os.PathLike) else None
    by_suffix = (each for each in FRONTENDS if suffix in each.suffixes)
    by_type = (each for each in FRONTENDS if isinstance(source, each.types))
    for frontend in (*by_suffix, *by_type):
        return frontend
    choices = ", ".join(each.reads for each in FRONTENDS)
    got = type(source).__name__
    raise OptionError(f"a model requires a front end that reads it ({choices}), got {got}")

"""What users of weft add to it: handed down as tuples, listed nowhere else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import Struct, field

if TYPE_CHECKING:
    from xdsl.passes import ModulePass

    from weft.compiler.frontend.onnx.node import Importer
    from weft.compiler.graph.simplify.rewrites.expressions import Rewrite
    from weft.compiler.loop.schedules import Schedule
    from weft.dialects.graph import GraphOp


class Extension(Struct, frozen=True):
    """Operators, passes, rewrites, schedules and importers beside weft's own.

    `ops` are classes with all facets; those with an `ONNX` name are imported by it. `passes` run
    over the graph when it is simplified, before operators are grouped into kernels; `rewrites` are
    identities between operators that are tried before weft's, where these are. `schedules` are
    asked before weft's. `onnx` writes the operators of nodes, by ONNX's name, behind the domain and
    a dot where that is not the default one; it comes before weft's importer of that name.
    """

    ops: tuple[type[GraphOp], ...] = ()
    passes: tuple[type[ModulePass], ...] = ()
    rewrites: tuple[Rewrite, ...] = ()
    schedules: tuple[Schedule, ...] = ()
    onnx: Mapping[str, Importer] = field(default_factory=dict[str, "Importer"])

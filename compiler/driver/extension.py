"""What users of weft add to it: handed down as tuples, listed nowhere else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct, field

if TYPE_CHECKING:
    from xdsl.ir import SSAValue
    from xdsl.passes import ModulePass

    from weft.compiler.frontend.onnx.node import Importer, OnnxNode
    from weft.compiler.graph.simplify.rewrites.expressions import Rewrite
    from weft.compiler.loop.schedules import Schedule
    from weft.dialects.graph import GraphOp, NativeFunction


class HasNativeFunction(Protocol):
    """A `weft.NativeKernel`."""

    @property
    def function(self) -> NativeFunction:
        """The function of an object file."""
        ...


class Extension(Struct, frozen=True):
    """Operators, passes, rewrites, schedules, importers and native kernels beside weft's own.

    `ops` are classes with all facets; those with an `ONNX` name are imported by it. `passes` run
    over the graph when it is simplified, before operators are grouped into kernels; `rewrites` are
    identities between operators that are tried before weft's, where these are. `schedules` are
    asked before weft's. `onnx` writes the operators of nodes, by ONNX's name, behind the domain and
    a dot where that is not the default one; it comes before weft's importer of that name.
    `kernels` with an `onnx` name are called by the nodes of that name.
    """

    ops: tuple[type[GraphOp], ...] = ()
    passes: tuple[type[ModulePass], ...] = ()
    rewrites: tuple[Rewrite, ...] = ()
    schedules: tuple[Schedule, ...] = ()
    onnx: Mapping[str, Importer] = field(default_factory=dict[str, "Importer"])
    kernels: tuple[HasNativeFunction, ...] = ()

    def importers(self) -> dict[str, Importer]:
        """What writes the operators of nodes, those of native kernels among them."""
        functions = [each.function for each in self.kernels]
        calls = {each.onnx: partial(_call, each) for each in functions if each.onnx}
        return {**calls, **self.onnx}


def _call(function: NativeFunction, node: OnnxNode) -> Sequence[SSAValue]:
    op = function.call(node.present(), node.b.location)
    return node.b.builder.insert(op).results

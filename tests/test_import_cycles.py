"""Files import each other in one direction: no cycles, and no imports inside functions that hide
one. What there still is of both is listed here with the reason, and the lists only shrink.
"""

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import pytest

from tests.test_layers import module_name, source_files

Graph = Mapping[str, Iterable[str]]

RUN_TIME_CYCLES: Final[Mapping[str, str]] = {
    (
        "weft.array.composed weft.array.composites weft.array.elementwise weft.array.methods "
        "weft.array.operators weft.array.rearrangements weft.array.reductions "
        "weft.array.selections weft.array_api.creation weft.array_api.dispatch "
        "weft.array_api.dtypes weft.array_api.linalg weft.autodiff.custom weft.autodiff.vjp "
        "weft.eager.derivatives weft.eager.graphs weft.eager.indexing weft.eager.kernels "
        "weft.eager.quick weft.eager.tape weft.eager.templates weft.eager.tensor weft.numpy "
        "weft.state weft.tracing.control weft.tracing.indexing weft.tracing.traced weft.trees"
    ): "tensors and the functions made of them: to be cut",
    (
        "weft.source.expressions.indexing weft.source.expressions.operators "
        "weft.source.recording weft.source.values"
    ): "arrays of programs and their indexing: to be cut",
}
"""Files that reach each other when they are loaded, or once their functions are called."""

TYPE_CYCLES: Final[Mapping[str, str]] = {
    (
        "compiler.frontend.onnx.declared compiler.frontend.onnx.importer "
        "compiler.frontend.onnx.ops.control compiler.frontend.onnx.ops.data_dependent "
        "compiler.frontend.onnx.rules compiler.frontend.onnx.sequences"
    ): "importers and the rules that call them: to be cut",
    (
        "dialects.expr.atoms dialects.expr.polynomial"
    ): "an atom holds polynomials, which are made of atoms",
    (
        "dialects.graph.core.builder dialects.graph.core.op dialects.graph.reindexing.constant"
    ): "a builder makes operators, whose lowering takes a builder",
    (
        "weft.source.jit weft.source.known_calls"
    ): "the same cycle with what its types need: to be cut",
    ("weft.source.run weft.source.state"): "a run holds the states that are changed during it",
}
"""Files that reach each other by what their types need."""

LOCAL_IMPORTS: Final[Mapping[str, Sequence[str]]] = {
    "few runs need it, and it takes long to load": (
        "compiler.cli.compare -> compiler.frontend.onnx.load",
        "compiler.cli.compile -> compiler.cli.emit",
        "compiler.cli.inspect -> compiler.driver.pipeline",
        "compiler.cli.inspect -> compiler.loop.schedule_file",
        "compiler.cli.main -> compiler.machine.artifact.artifact",
        "compiler.driver.compile_kernels -> compiler.loop.schedule_file",
        "compiler.driver.pipeline -> compiler.driver.golden",
        "compiler.driver.pipeline -> compiler.graph.differentiate.differentiate",
        "compiler.machine.artifact.artifact -> compiler.machine.elf.archive",
        "compiler.machine.artifact.artifact -> compiler.machine.elf.join_objects",
        "compiler.machine.artifact.artifact -> compiler.machine.wasm.link",
    ),
    "few programs need it, and it takes long to load": (
        "compiler.cli.model -> weft.probing.inside",
        "weft -> weft.probing.inside",
        "weft -> weft.source.jit",
        "weft.eager.kernels -> weft.compilation",
        "weft.source.jit -> weft.source.reading",
        "weft.tracing.trace -> weft.compilation",
        "weft.tracing.trace -> weft.probing.inside",
        "weft.tracing.trace -> weft.probing.watching",
        "weft.training -> weft.compilation",
        "weft.training -> weft.probing.inside",
        "weft.training -> weft.probing.watching",
    ),
    "the compiler is loaded where something has to be compiled": (
        "weft -> compiler.cli.emit",
        "weft.autodiff.derivatives -> compiler.graph.differentiate.cotangents",
        "weft.autodiff.derivatives -> dialects.graph",
        "weft.autodiff.vjp -> compiler.graph.differentiate.cotangents",
        "weft.compilation -> compiler.driver.pipeline",
        "weft.compilation -> compiler.driver.read_model",
        "weft.compilation -> compiler.loop.schedule_file",
        "weft.compilation -> compiler.loop.tuned_file",
        "weft.eager.kernels -> compiler.driver.pipeline",
        "weft.eager.templates -> compiler.graph.differentiate.cotangents",
        "weft.probing.watching -> compiler.graph.probe",
        "weft.probing.watching -> dialects.context",
        "weft.source.jit -> compiler.frontend.onnx.from_onnx",
        "weft.tracing.trace -> compiler.driver.pipeline",
        "weft.training -> compiler.frontend.onnx.from_onnx",
    ),
    "part of a cycle: to be cut": (
        "weft.array.methods -> weft.numpy",
        "weft.array.operators -> weft.array_api.dispatch",
        "weft.array.operators -> weft.numpy",
        "weft.array_api.linalg -> weft.tracing.control",
        "weft.autodiff.custom -> weft.eager.tape",
        "weft.autodiff.derivatives -> weft.autodiff.vjp",
        "weft.autodiff.derivatives -> weft.numpy",
        "weft.autodiff.vjp -> weft.eager.derivatives",
        "weft.autodiff.vjp -> weft.eager.tape",
        "weft.eager.kernels -> weft.eager.graphs",
        "weft.eager.tape -> weft.eager.quick",
        "weft.eager.tape -> weft.eager.tensor",
        "weft.eager.templates -> weft.tracing.traced",
        "weft.source.jit -> weft.autodiff.custom",
        "weft.source.jit -> weft.autodiff.derivatives",
        "weft.source.values -> weft.source.expressions.indexing",
        "weft.tracing.traced -> weft.tracing.indexing",
    ),
}
"""Imports inside functions, by reason."""


@dataclass
class Imports:
    """What the files import of each other: when they are loaded, for types alone, in functions."""

    loaded: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    typed: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    local: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))


def imports_of(sources: Mapping[str, str]) -> Imports:
    """The imports of files, by module name, of one another."""
    found = Imports()
    for module, source in sources.items():
        for node, kind in statements(ast.parse(source), "loaded"):
            getattr(found, kind)[module] |= {*modules_in(node, sources)} - {module}
    return found


def statements(node: ast.AST, kind: str) -> Iterator[tuple[ast.AST, str]]:
    """Import statements below a node, each with when it runs."""
    for name, value in ast.iter_fields(node):
        is_typed = name == "body" and isinstance(node, ast.If) and is_for_types(node)
        inner = "typed" if is_typed else kind
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.Import | ast.ImportFrom):
                yield child, inner
            elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                yield from statements(child, "local")
            elif isinstance(child, ast.stmt | ast.excepthandler):
                yield from statements(child, inner)


def is_for_types(node: ast.If) -> bool:
    return isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def modules_in(node: ast.AST, sources: Mapping[str, str]) -> Iterator[str]:
    """The files that an import names: `from weft import numpy` names `weft.numpy`."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names if alias.name in sources)
    elif isinstance(node, ast.ImportFrom):
        for alias in node.names:
            full = f"{node.module}.{alias.name}"
            yield from [name for name in (full, node.module) if name in sources][:1]


def united(*graphs: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """All edges of several graphs."""
    nodes = {node for graph in graphs for node in graph}
    return {node: set().union(*(graph.get(node, ()) for graph in graphs)) for node in nodes}


def cycles(graph: Graph) -> set[str]:
    """The strongly connected components of more than one node, as a line each."""
    knot = knotted(graph)
    reached = {node: reachable(knot, node) for node in knot}
    parts = {frozenset(other for other in reached[node] if node in reached[other]) for node in knot}
    return {" ".join(sorted(part)) for part in parts if part}


def knotted(graph: Graph) -> dict[str, set[str]]:
    """The graph without nodes from which no cycle is reached."""
    left = {node: {*edges} for node, edges in graph.items()}
    while ends := {node for node in left if not left[node] & left.keys()}:
        left = {node: edges - ends for node, edges in left.items() if node not in ends}
    return {node: edges & left.keys() for node, edges in left.items()}


def reachable(graph: Graph, node: str) -> set[str]:
    found: set[str] = set()
    stack = [*graph.get(node, ())]
    while stack:
        each = stack.pop()
        if each not in found:
            found.add(each)
            stack += graph.get(each, ())
    return found


@pytest.fixture(scope="module")
def found() -> Imports:
    """The imports of this house."""
    return imports_of({module_name(path): path.read_text("utf-8") for path in source_files()})


def test_files_import_each_other_in_one_direction(found: Imports):
    assert cycles(united(found.loaded, found.local)) == RUN_TIME_CYCLES.keys()


def test_types_need_files_in_one_direction(found: Imports):
    run_time = cycles(united(found.loaded, found.local))
    typed = cycles(united(found.loaded, found.local, found.typed))
    assert typed - run_time == TYPE_CYCLES.keys()


def test_functions_import_only_what_is_listed(found: Imports):
    local = {f"{module} -> {other}" for module in found.local for other in found.local[module]}
    assert local == {edge for edges in LOCAL_IMPORTS.values() for edge in edges}


def test_a_cycle_is_found_through_a_function_and_through_types():
    a = "from weft import b\nfrom weft.d import D"
    b = "def f():\n    from weft.c import C"
    c = "if TYPE_CHECKING:\n    import weft.a\nelse:\n    import weft.b"
    found = imports_of({"weft.a": a, "weft.b": b, "weft.c": c, "weft.d": ""})
    assert cycles(united(found.loaded, found.local)) == {"weft.b weft.c"}
    assert cycles(united(found.loaded, found.local, found.typed)) == {"weft.a weft.b weft.c"}
    assert cycles(found.loaded) == set()

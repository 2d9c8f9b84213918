"""Files import each other in one direction: no cycles, and no imports inside functions or by name
that hide one. What there still is of these is listed with the reason, and the lists only shrink.
"""

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import pytest

from tests.test_layers import module_name, source_files

Graph = Mapping[str, Iterable[str]]

RUN_TIME_CYCLES: Final[Mapping[str, str]] = {}
"""Files that reach each other when they are loaded, or once their functions are called."""

TYPE_CYCLES: Final[Mapping[str, str]] = {
    (
        "weft.dialects.expr.atoms weft.dialects.expr.joins weft.dialects.expr.polynomial"
    ): "an atom holds polynomials, which are made of atoms",
    (
        "weft.dialects.graph.core.builder weft.dialects.graph.core.op "
        "weft.dialects.graph.reindexing.constant"
    ): "a builder makes operators, whose lowering takes a builder",
    (
        "weft.eager.abstract_values weft.eager.assignment weft.eager.fast_path "
        "weft.eager.indexing weft.eager.kernels "
        "weft.eager.tape weft.eager.tensor"
    ): "what a tensor is made of takes tensors",
    (
        "weft.source.cached_calls weft.source.jit"
    ): "a cached call is made of a compilation, which finds it",
    (
        "weft.source.recording weft.source.values"
    ): "what a tensor does with indices and graphs takes tensors",
    ("weft.source.run weft.source.state"): "a run holds the states that are changed during it",
    (
        "weft.tracing.assignment weft.tracing.indexing weft.tracing.traced"
    ): "what a tensor does with indices and graphs takes tensors",
}
"""Files that reach each other by what their types need."""

LOCAL_IMPORTS: Final[Mapping[str, Sequence[str]]] = {
    "few runs need it, and it takes long to load": (
        "weft.probing.parting -> weft.compiler.frontend.frontends",
        "weft.probing.parting -> weft.compiler.frontend.onnx.load",
        "weft.cli.compile -> weft.compiler.driver.emit",
        "weft.cli.inspect -> weft.bench.limits",
        "weft.cli.inspect -> weft.cli.drawing.roofline",
        "weft.cli.inspect -> weft.compiler.driver.pipeline",
        "weft.cli.model -> weft.compiler.frontend.onnx.fix_inputs",
        "weft.cli.inspect -> weft.compiler.loop.schedule_file",
        "weft.compiler.driver.compile_kernels -> weft.compiler.loop.schedule_file",
        "weft.compiler.driver.options -> weft.compiler.loop.tuned_file",
        "weft.compiler.driver.pipeline -> weft.compiler.driver.golden",
        "weft.compiler.driver.pipeline -> weft.compiler.graph.differentiate.differentiate",
        "weft.compiler.driver.read_options -> weft.compiler.loop.schedule_file",
        "weft.compiler.machine.artifact.artifact -> weft.compiler.machine.elf.archive",
        "weft.compiler.machine.artifact.artifact -> weft.compiler.machine.elf.join_objects",
        "weft.compiler.machine.artifact.artifact -> weft.compiler.machine.wasm.link",
    ),
    "few programs need it, and it takes long to load": (
        "weft.cli.model -> weft.probing.inside",
        "weft.api -> weft.probing.inside",
        "weft.api -> weft.source.jit",
        "weft.source.jit -> weft.compiler.html",
        "weft.distributed.world -> weft.distributed.shared_memory",
        "weft.distributed.world -> weft.distributed.mpi",
    ),
    "the compiler is loaded where something has to be compiled": (
        "weft.api -> weft.compiler.driver.emit",
        "weft.array.pair_formulas -> weft.compiler.frontend.fourier",
        "weft.array.pair_formulas -> weft.compiler.frontend.stablehlo.ops.complex_functions",
        "weft.array.pair_formulas -> weft.dialects.graph.core.algebra",
        "weft.array.pair_formulas -> weft.dialects.graph.core.types",
        "weft.autodiff.batching -> weft.compiler.graph.batch.batch",
        "weft.autodiff.derivatives -> weft.compiler.graph.differentiate.cotangents",
        "weft.autodiff.vjp -> weft.compiler.graph.differentiate.cotangents",
        "weft.eager.kernels -> weft.compiler.driver.pipeline",
        "weft.eager.kernels -> weft.eager.graphs",
        "weft.eager.templates -> weft.compiler.graph.differentiate.cotangents",
        "weft.eager.templates -> weft.tracing.traced",
        "weft.jax_function -> weft.compiler.frontend.stablehlo.from_jax",
        "weft.jax_plugin -> weft.jax_plugin.register",
        "weft.probing.watching -> weft.compiler.graph.probe",
        "weft.probing.watching -> weft.dialects.context",
    ),
}
"""Imports inside functions, by reason."""

IMPORTS_BY_NAME: Final[Mapping[str, Sequence[str]]] = {
    "NumPy and the array API standard ask a tensor for the functions that are made of tensors": (
        "weft.array.methods -> weft.array_api.dispatch",
        "weft.array.methods -> weft.numpy",
        "weft.array.parts -> weft.numpy",
    ),
    "reals become complex numbers, and lists tensors": (
        "weft.array.operators -> weft.array.complex_numbers",
        "weft.array.operators -> weft.array.rearrangements",
    ),
    "modules of the public interface are loaded when they are first used": ("weft -> weft.",),
    "a command loads what it needs": ("weft.cli.main -> weft.cli.",),
    "a module of the package's is loaded when it is first asked for": ("weft -> weft.",),
    "torch is imported where a program of its is given": ("weft.api -> weft.torch.export",),
    "few models are looked at, by what stands above all that compiles": (
        "weft.api -> weft.view",
        "weft.source.jit -> weft.view",
    ),
    "engines of the benchmark need not be installed": (
        "weft.bench.engines.jax_engine -> weft.bench.engines.jax_functions",
        "weft.bench.engines.torch_engine -> weft.bench.engines.torch_functions",
        "weft.bench.worker -> weft.bench.engines.",
    ),
}
"""What `importlib.import_module` loads, by reason."""


@dataclass
class Imports:
    """What the files import of each other: when loaded, for types, in functions, by name, and when
    something of a module is first asked for.
    """

    loaded: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    typed: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    local: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    named: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    deferred: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))

    @property
    def run_time(self) -> dict[str, set[str]]:
        """What a file needs of others once its functions are called."""
        return united(self.loaded, self.local, self.deferred)


def imports_of(sources: Mapping[str, str]) -> Imports:
    """The imports of files, by module name, of one another."""
    found = Imports()
    for module, source in sources.items():
        tree = ast.parse(source)
        if "import_module" in source:
            found.named[module] |= {*named_in(tree, "import_module")}
        if "deferred" in source:
            found.deferred[module] |= {*named_in(tree, "deferred")}
        for node, kind in statements(tree, "loaded"):
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


def named_in(tree: ast.AST, function: str) -> Iterator[str]:
    """The files of this house that calls of a function name, or the start of their names."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(function):
            name = ast.unparse(node.args[0]).lstrip("f").strip("'")
            if name.startswith("weft."):
                yield name.partition("{")[0]


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
    assert cycles(found.run_time) == RUN_TIME_CYCLES.keys()


def test_types_need_files_in_one_direction(found: Imports):
    run_time = cycles(found.run_time)
    typed = cycles(united(found.run_time, found.typed))
    assert typed - run_time == TYPE_CYCLES.keys()


def test_functions_import_only_what_is_listed(found: Imports):
    local = {f"{module} -> {other}" for module in found.local for other in found.local[module]}
    assert local == {edge for edges in LOCAL_IMPORTS.values() for edge in edges}


def test_only_what_is_listed_is_imported_by_name(found: Imports):
    named = {f"{module} -> {other}" for module in found.named for other in found.named[module]}
    assert named == {edge for edges in IMPORTS_BY_NAME.values() for edge in edges}


def test_what_is_deferred_is_named_for_types_too(found: Imports):
    """So that layers and types are checked there, too."""
    for module, others in found.deferred.items():
        assert others <= found.typed[module], module


def test_a_cycle_is_found_through_a_function_and_through_types():
    a = "from weft import b\nfrom weft.d import D"
    b = "def f():\n    from weft.c import C"
    c = "if TYPE_CHECKING:\n    import weft.a\nelse:\n    import weft.b"
    found = imports_of({"weft.a": a, "weft.b": b, "weft.c": c, "weft.d": ""})
    assert cycles(found.run_time) == {"weft.b weft.c"}
    assert cycles(united(found.run_time, found.typed)) == {"weft.a weft.b weft.c"}
    assert cycles(found.loaded) == set()


def test_a_cycle_is_found_through_what_is_deferred():
    a = "if TYPE_CHECKING:\n    from weft import b\nelse:\n    b = deferred('weft.b')"
    found = imports_of({"weft.a": a, "weft.b": "import weft.a"})
    assert cycles(found.run_time) == {"weft.a weft.b"}

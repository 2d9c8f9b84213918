"""The walls of the house: who may import which package; the layers are in pyproject.toml.

import-linter sees packages of the outside as a whole; `llvmlite.ir` and `llvmlite.binding` have
different homes, so these walls are checked here, on the source.
"""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("weft", "compiler", "dialects")

# what may be imported only from the modules under these names
WALLS = {
    "onnx": ("weft.compiler.frontend", "weft.compiler.adapters", "weft.cli", "weft.bench.engines"),
    "torch": ("weft.torch", "weft.cli", "weft.bench.engines"),
    "jax": (
        "weft.compiler.frontend.stablehlo",
        "weft.jax_function",
        "weft.jax_plugin",
        "weft.bench.engines",
    ),
    "jaxlib": ("weft.compiler.frontend.stablehlo", "weft.jax_plugin"),
    "llvmlite": ("weft.compiler.loop_to_llvm", "weft.compiler.machine"),
    "llvmlite.ir": ("weft.compiler.loop_to_llvm",),
    "llvmlite.binding": ("weft.compiler.machine",),
}

# `dialects` is meaning alone: it is usable without LLVM, ONNX or a terminal
DIALECTS_MAY_IMPORT = {"xdsl", "numpy", "ml_dtypes", "msgspec"} | sys.stdlib_module_names


def source_files() -> list[Path]:
    return sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))


def module_name(path: Path) -> str:
    """What a file is imported as: weft/compiler and weft/dialects are links to folders beside."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    inside = parts if parts[0] == "weft" else ("weft", *parts)
    return ".".join(inside[:-1] if inside[-1] == "__init__" else inside)


def imported_names(source: str) -> Iterator[str]:
    """Each imported name in full: `from llvmlite import ir` gives `llvmlite.ir`."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def is_under(name: str, prefix: str) -> bool:
    return f"{name}.".startswith(f"{prefix}.")


def breaches(module: str, source: str) -> list[str]:
    """The imports of this module that climb over a wall."""
    return [
        f"{module} imports {name}"
        for name in imported_names(source)
        for wall, homes in WALLS.items()
        if is_under(name, wall) and not any(is_under(module, home) for home in homes)
    ]


def test_third_party_packages_stay_in_their_homes():
    found = [
        breach
        for path in source_files()
        for breach in breaches(module_name(path), path.read_text())
    ]
    assert found == []


def test_dialects_import_only_xdsl_and_numpy():
    found = {
        (module_name(path), name)
        for path in (ROOT / "dialects").rglob("*.py")
        for name in imported_names(path.read_text())
        if name.partition(".")[0] not in DIALECTS_MAY_IMPORT and not is_under(name, "weft.dialects")
    }
    assert found == set()


def test_imports_are_absolute():
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in source_files()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and node.level > 0
    ]
    assert found == []


@pytest.mark.parametrize(
    "source",
    [
        "import llvmlite",
        "import llvmlite.ir",
        "import llvmlite.ir as ir",
        "from llvmlite import ir",
        "from llvmlite.ir import IRBuilder",
        "def f():\n    from llvmlite import binding",
        "import onnx",
        "from onnx.helper import make_node",
    ],
)
def test_an_import_over_a_wall_is_seen(source: str):
    assert breaches("weft.compiler.graph.fuse.fuse", source) != []


def test_an_import_at_home_is_allowed():
    assert breaches("weft.compiler.loop_to_llvm.emit", "from llvmlite import ir") == []
    assert (
        breaches("weft.compiler.frontend.onnx.from_onnx", "import onnx\nimport onnxruntime") == []
    )


def test_every_folder_of_modules_is_a_package():
    """A folder without `__init__.py` is invisible to import-linter, which then checks nothing."""
    folders = {path.parent for path in source_files()}
    assert [str(folder) for folder in folders if not (folder / "__init__.py").exists()] == []


def test_every_module_is_in_a_layer():
    layers = layer_names()
    homeless = [
        name
        for name in map(module_name, source_files())
        if not any(is_under(name, layer) or is_under(layer, name) for layer in layers)
    ]
    assert homeless == []


def layer_names() -> set[str]:
    config = tomllib.loads((ROOT / "pyproject.toml").read_text())
    (contract,) = config["tool"]["importlinter"]["contracts"]
    text = " ".join(contract["layers"])
    return set(text.translate(str.maketrans("|:()", "    ")).split())


def calls_of(source: str, names: frozenset[str]) -> list[str]:
    """The calls of functions of these names, as `print` or `stdout.write`."""
    calls = (node.func for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call))
    found = (ast.unparse(function) for function in calls)
    return [name for name in found if any(is_end(name, each) for each in names)]


def is_end(name: str, end: str) -> bool:
    return f".{name}".endswith(f".{end}")


def test_n4_commands_write_to_a_terminal_in_one_place():
    """N4: what names hold reaches no terminal but through `weft/cli/terminal.py`."""
    writers = frozenset({"print", "stdout.write", "stderr.write", "stream.write"})
    folders = (ROOT / "weft" / name for name in ("cli", "bench"))
    found = {
        path.relative_to(ROOT).as_posix(): calls
        for folder in folders
        for path in sorted(folder.rglob("*.py"))
        if (calls := calls_of(path.read_text(), writers))
    }
    assert found == {"weft/cli/terminal.py": ["stream.write"]}


def test_n2_nothing_evaluates_text():
    """N2: neither weft nor what it generates; templates are text of these files too."""
    evaluated = re.compile(r"(?<![\w.])(?<!def )(eval|exec|__import__)\(")
    found = [path for path in source_files() if evaluated.search(path.read_text())]
    assert found == []

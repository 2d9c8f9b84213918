"""Files of repositories -> the functions that may be drawn, each with all that it needs."""

from __future__ import annotations

import ast
import builtins
import subprocess
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
MODULES = ("numpy", "math", "warnings", "itertools", "functools")
"""What a function may import."""
LEAST_STATEMENTS, LEAST_NUMPY, MOST_PARAMETERS, MOST_BYTES = 3, 2, 6, 400_000
ACTING = {
    "open", "exec", "eval", "compile", "globals", "locals", "vars", "input", "print", "breakpoint",
    "exit", "quit", "help", "memoryview", "setattr", "delattr", "super", "classmethod",
    "staticmethod", "property", "id", "hash", "dir",
}  # fmt: skip
"""Builtins that act on the world, or look at the interpreter."""
FILES = {
    "random", "load", "save", "savez", "savez_compressed", "loadtxt", "savetxt", "genfromtxt",
    "fromfile", "tofile", "memmap", "testing", "ctypeslib", "DataSource", "fromregex", "lib",
    "core", "show_config", "seterr",
}  # fmt: skip
"""Attributes of NumPy that read files, draw numbers or look inside it."""
BUILTINS = frozenset(dir(builtins)) - ACTING


class Function(NamedTuple):
    """A function of a repository: its file, its name, and a module that holds it."""

    repository: str
    path: str
    name: str
    text: str


def repositories() -> dict[str, str]:
    """The commits of all repositories."""
    lines = (HERE / "repositories.txt").read_text().splitlines()
    return dict(line.split() for line in lines)


def shown(checkouts: Path, repository: str, path: str) -> str:
    """The text of a file of a repository at its commit."""
    where = checkouts / repository.replace("/", "+") / "repo"
    command = ["git", f"--git-dir={where}", "show", f"{repositories()[repository]}:{path}"]
    return subprocess.run(command, capture_output=True, check=True).stdout.decode(errors="replace")


def paths(checkouts: Path, repository: str) -> list[str]:
    """The files of a repository that may have functions."""
    where = checkouts / repository.replace("/", "+") / "repo"
    commit = repositories()[repository]
    command = ["git", f"--git-dir={where}", "grep", "-l", "import numpy", commit, "--", "*.py"]
    found = subprocess.run(command, capture_output=True, check=False, text=True).stdout.splitlines()
    names = sorted(line.partition(":")[2] for line in found)
    return [name for name in names if not any(p.startswith("test") for p in name.split("/"))]


@cache
def functions(checkouts: Path, repository: str, path: str) -> tuple[Function, ...]:
    """The functions of a file that may be drawn."""
    text = shown(checkouts, repository, path)
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return ()
    if len(text) > MOST_BYTES:
        return ()
    names = top_names(tree)
    found: list[Function] = []
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and names.get(node.name) is node and is_asked(node):
            whole = module_of(node, names, text)
            if whole is not None:
                found.append(Function(repository, path, node.name, whole))
    return tuple(found)


def top_names(tree: ast.Module) -> dict[str, ast.stmt]:
    """What defines each name at the top of a file."""
    names: dict[str, ast.stmt] = {}
    for node in tree.body:
        match node:
            case ast.FunctionDef(name=name):
                names[name] = node
            case ast.Assign(targets=[ast.Name(id=name)]):
                names[name] = node
            case ast.Import(names=[alias]):
                names[(alias.asname or alias.name).split(".")[0]] = node
            case ast.ImportFrom(names=aliases):
                names.update({alias.asname or alias.name: node for alias in aliases})
            case _:
                pass
    return names


def is_asked(node: ast.FunctionDef) -> bool:
    """Whether the rules take the function itself."""
    parameters = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    statements = [each for each in ast.walk(node) if isinstance(each, ast.stmt)]
    numpy_names = [
        each
        for each in ast.walk(node)
        if isinstance(each, ast.Attribute)
        and isinstance(each.value, ast.Name)
        and each.value.id in ("np", "numpy")
    ]
    return (
        1 <= len(parameters) <= MOST_PARAMETERS
        and len(statements) > LEAST_STATEMENTS
        and len(numpy_names) >= LEAST_NUMPY
    )


def is_allowed(node: ast.AST) -> bool:
    """Whether the rules take a function or an assignment that is needed."""
    for each in ast.walk(node):
        match each:
            case ast.FunctionDef(decorator_list=[_, *_]) | ast.ClassDef() | ast.AsyncFunctionDef():
                return False
            case ast.Yield() | ast.YieldFrom() | ast.Await() | ast.Global() | ast.Nonlocal():
                return False
            case ast.Attribute(attr=name) if name in FILES or name.startswith("__"):
                return False
            case ast.Name(id=name) if name in ACTING or name.startswith("__"):
                return False
            case ast.Import() | ast.ImportFrom() if not is_known_import(each):
                return False
            case _:
                pass
    return not isinstance(node, ast.FunctionDef) or not (node.args.vararg or node.args.kwarg)


def is_known_import(node: ast.stmt) -> bool:
    """Whether an import is of a module that functions may use."""
    match node:
        case ast.Import(names=[alias]):
            return alias.name in MODULES
        case ast.ImportFrom(module=str(module), level=0, names=aliases):
            return module in MODULES and not any(each.name in FILES for each in aliases)
        case _:
            return False


def module_of(node: ast.FunctionDef, names: Mapping[str, ast.stmt], text: str) -> str | None:
    """A module with the function and all that it needs; None where the rules forbid some."""
    needed: dict[ast.stmt, None] = {}
    waiting: list[ast.stmt] = [node]
    while waiting:
        each = waiting.pop()
        if each in needed:
            continue
        needed[each] = None
        if isinstance(each, ast.Import | ast.ImportFrom):
            if not is_known_import(each):
                return None
            continue
        if not is_allowed(each):
            return None
        for name in free_names(each):
            if name in names:
                waiting.append(names[name])
            elif name not in BUILTINS:
                return None
    head = "from __future__ import annotations\n"
    pieces = [ast.get_source_segment(text, each) for each in sorted(needed, key=line_of)]
    return head + "\n\n".join(piece for piece in pieces if piece) + "\n"


def line_of(node: ast.stmt) -> int:
    """Where a statement starts."""
    return node.lineno


def free_names(node: ast.stmt) -> Iterator[str]:
    """The names that a statement reads and does not assign; annotations are left out."""
    bound = {each.arg for each in ast.walk(node) if isinstance(each, ast.arg)}
    for each in ast.walk(node):
        match each:
            case ast.Name(id=name, ctx=ast.Store()) | ast.FunctionDef(name=name):
                bound.add(name)
            case ast.ExceptHandler(name=str(name)):
                bound.add(name)
            case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
                bound.update((alias.asname or alias.name).split(".")[0] for alias in aliases)
            case _:
                pass
    annotations = {
        id(inner)
        for each in ast.walk(node)
        for annotation in (getattr(each, "annotation", None), getattr(each, "returns", None))
        if annotation is not None
        for inner in ast.walk(annotation)
    }
    if isinstance(node, ast.Assign):
        bound = set()
    for each in ast.walk(node):
        read = isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load)
        if read and id(each) not in annotations and each.id not in bound:
            yield each.id

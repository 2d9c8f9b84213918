"""Functions -> syntax trees, with the places of their source; errors that show these places."""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterator
from functools import cache
from types import CodeType, FunctionType
from typing import TypeAlias

from msgspec import Struct

from weft.dialects.errors import SourceError

FunctionNode: TypeAlias = ast.FunctionDef | ast.Lambda


class Location(Struct, frozen=True):
    """A piece of a program's text."""

    file: str
    node: ast.AST

    @property
    def line(self) -> int:
        """The number of its first line."""
        return getattr(self.node, "lineno", 0)

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"

    def shown(self) -> str:
        """The line, and marks under the piece."""
        text = linecache.getline(self.file, self.line).rstrip("\n")
        start = _column(text, getattr(self.node, "col_offset", 0))
        end = len(text)
        if getattr(self.node, "end_lineno", self.line) == self.line:
            end = _column(text, getattr(self.node, "end_col_offset", end))
        number = f"{self.line:5} | "
        underline = " " * (len(number) + start) + "^" * max(1, end - start)
        return f"{number}{text}\n{underline}"

    def refuse(self, rule: str, got: object, advice: str = "") -> SourceError:
        """The error `file:line: <rule>, got <facts>`, the place shown, and a way out."""
        return self.error(f"{rule}, got {got}", advice)

    def error(self, text: str, advice: str = "") -> SourceError:
        """The error of a text with the place, which is shown, and a way out."""
        way_out = f"\n        {advice}" if advice else ""
        return SourceError(f"{self}: {text}\n{self.shown()}{way_out}")


def _column(text: str, offset: int) -> int:
    """The column of an offset in UTF-8."""
    return len(text.encode()[:offset].decode(errors="ignore"))


class Code(Struct, frozen=True):
    """A function's syntax: the node, its file, and the names that belong to it."""

    node: FunctionNode
    file: str
    locals: frozenset[str]
    nonlocals: frozenset[str]

    @property
    def name(self) -> str:
        """What errors call it."""
        return "<lambda>" if isinstance(self.node, ast.Lambda) else self.node.name


def code_of(function: FunctionType) -> Code:
    """The syntax of a Python function. Raises SourceError where its source cannot be read."""
    made = getattr(function, "syntax", None)
    if made is not None:  # a piece of a function, which stands in no file
        return made
    code = function.__code__
    tree = _parsed(code.co_filename, "".join(linecache.getlines(code.co_filename)))
    found = [] if tree is None else [node for node in _functions(tree) if _is_of(node, code)]
    lambdas = [node for node in found if isinstance(node, ast.Lambda)]
    if len(lambdas) > 1:  # the one that stands within all others
        found = [max(lambdas, key=lambda node: _extent(node.body)[0])]
    if len(found) != 1:
        rule = f"{code.co_filename}: source mode requires the source of {function.__qualname__}"
        raise SourceError(
            f"{rule}, got {'none' if not found else 'several functions on its line'}"
            "\n        write it into a file, each on a line of its own, or use weft.trace"
        )
    return code_at(found[0], code.co_filename)


@cache
def _parsed(file: str, text: str) -> ast.Module | None:
    try:
        return ast.parse(text, file) if text else None
    except SyntaxError:
        return None


def _functions(tree: ast.Module) -> Iterator[FunctionNode]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.Lambda):
            yield node


def _is_of(node: FunctionNode, code: CodeType) -> bool:
    """Whether the function of that code was made by this node."""
    if isinstance(node, ast.FunctionDef):
        first = node.decorator_list[0].lineno if node.decorator_list else node.lineno
        return node.name == code.co_name and first == code.co_firstlineno
    if code.co_name != "<lambda>" or node.lineno != code.co_firstlineno:
        return False
    start, end = _extent(node.body)
    locations = [location for location in code.co_positions() if None not in location]
    return bool(locations) and all(
        start <= (line, column) and (end_line, end_column) <= end
        for line, end_line, column, end_column in locations
        if (column, end_column) != (0, 0)  # what begins a function has no place
    )


def _extent(node: ast.expr) -> tuple[tuple[int, int], tuple[int, int]]:
    """Where an expression starts and ends: lines and columns."""
    end = node.end_lineno or node.lineno, node.end_col_offset or node.col_offset
    return (node.lineno, node.col_offset), end


def _parameters(node: FunctionNode) -> tuple[str, ...]:
    arguments = node.args
    named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    return tuple(each.arg for each in named)


@cache
def code_at(node: FunctionNode, file: str) -> Code:
    """The syntax of a function that stands within another."""
    arguments = node.args
    starred = [each.arg for each in (arguments.vararg, arguments.kwarg) if each is not None]
    names = {*_parameters(node), *starred}
    outer: set[str] = set()
    body = [node.body] if isinstance(node, ast.Lambda) else node.body
    for each in body:
        assigned(each, names, outer)
    return Code(node, file, frozenset(names - outer), frozenset(outer))


def assigned(node: ast.AST, names: set[str], outer: set[str]) -> None:
    """Collects names that a piece of a function assigns, and those it declares as others'."""
    match node:
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
            names.add(name)
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            names.add(name)
            return
        case ast.Lambda():
            return
        case ast.Nonlocal(names=declared) | ast.Global(names=declared):
            outer.update(declared)
        case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
            names.update((alias.asname or alias.name).split(".")[0] for alias in aliases)
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)):
            names.add(name)
        case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
            for inner in ast.walk(node):
                if isinstance(inner, ast.NamedExpr):
                    names.add(inner.target.id)
            return
        case _:
            pass
    for child in ast.iter_child_nodes(node):
        assigned(child, names, outer)

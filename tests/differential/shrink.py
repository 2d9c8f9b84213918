"""Makes a failing program smaller: assignments that are not needed go, others become one of the
variables that they read.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import replace

from tests.differential.program import Program

Fails = Callable[[Program], bool]


def shrink(program: Program, fails: Fails, attempts: int = 60) -> Program:
    """The smallest program found that still fails, after so many attempts."""
    left, changed = attempts, True
    while changed:
        changed = False
        for text in _smaller(program.text):
            left -= 1
            if left < 0:
                return program
            candidate = replace(program, text=text)
            if fails(candidate):
                program, changed = candidate, True
                break
    return program


def _smaller(text: str) -> Iterator[str]:
    """Texts with one statement fewer, or with one that does less."""
    seen = {text}
    for made in _variants(text):
        ast.fix_missing_locations(made)
        found = ast.unparse(_without_unread(made)) + "\n"
        if found not in seen and len(found) < len(text) + 20:
            seen.add(found)
            yield found


def _variants(text: str) -> Iterator[ast.Module]:
    count = len(_statements(ast.parse(text)))
    for number in reversed(range(count)):
        yield from _replaced(text, number)


def _replaced(text: str, number: int) -> Iterator[ast.Module]:
    tree = ast.parse(text)
    block, place = _statements(tree)[number]
    statement = block[place]
    if isinstance(statement, ast.Return):
        yield from _shorter_returns(text, number)
        return
    if isinstance(statement, ast.If | ast.For | ast.While | ast.FunctionDef):
        if len(block) > 1:
            del block[place]
            yield tree
        return
    if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
        if isinstance(statement.value, ast.Name):
            yield _Renamed(statement.targets[0].id, statement.value.id).visit(tree)
            return
        names = [each.id for each in ast.walk(statement.value) if isinstance(each, ast.Name)]
        for name in dict.fromkeys(
            each for each in names if each[0] in "vxysr" and each[-1].isdigit()
        ):
            tree = ast.parse(text)
            block, place = _statements(tree)[number]
            again = block[place]
            assert isinstance(again, ast.Assign), "the same text has the same statements"
            again.value = ast.Name(name, ast.Load())
            yield tree
    elif len(block) > 1:
        del block[place]
        yield tree


class _Renamed(ast.NodeTransformer):
    """Reads a variable in place of another one, which nothing reads then."""

    def __init__(self, name: str, other: str):
        self.name, self.other = name, other

    def visit_Name(self, node: ast.Name) -> ast.Name:
        if node.id == self.name and isinstance(node.ctx, ast.Load):
            return ast.Name(self.other, ast.Load())
        return node


def _shorter_returns(text: str, number: int) -> Iterator[ast.Module]:
    """The program's results without one that is not the last."""
    block, place = _statements(ast.parse(text))[number]
    value = block[place].value
    for item in range(len(value.elts) - 1) if isinstance(value, ast.Tuple) else ():
        tree = ast.parse(text)
        block, place = _statements(tree)[number]
        del block[place].value.elts[item]
        yield tree


def _statements(tree: ast.Module) -> list[tuple[list[ast.stmt], int]]:
    """The statements of the function `program`, each with the block that it stands in."""
    main = next(
        each for each in tree.body if isinstance(each, ast.FunctionDef) and each.name == "program"
    )
    blocks = [
        block for each in ast.walk(main) for name in ("body", "orelse")
        if isinstance(block := getattr(each, name, None), list) and block
    ]  # fmt: skip
    return [(block, place) for block in blocks for place in range(len(block))]


def _without_unread(tree: ast.Module) -> ast.Module:
    """The module without assignments and functions that nothing reads."""
    while True:
        read = {
            each.id
            for each in ast.walk(tree)
            if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load)
        }
        unread = [
            (block, place) for block, place in _statements(tree)
            if len(block) > 1 and _names(block[place]) and not _names(block[place]) & read
        ]  # fmt: skip
        if not unread:
            return tree
        block, place = unread[-1]
        del block[place]


def _names(statement: ast.stmt) -> set[str]:
    """What a statement gives names to, where it does nothing else."""
    if isinstance(statement, ast.FunctionDef):
        return {statement.name}
    if not isinstance(statement, ast.Assign):
        return set()
    return {each.id for target in statement.targets for each in ast.walk(target)
            if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}  # fmt: skip

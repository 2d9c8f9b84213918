"""Which names statements read and assign: what a piece of a function is given and hands on."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from weft.source.syntax import assigned

_SCOPES = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda


def stored(nodes: Sequence[ast.AST]) -> set[str]:
    """The names that are assigned, on some way."""
    names: set[str] = set()
    for node in nodes:
        assigned(node, names, set())
    return names


def loads(*nodes: ast.AST) -> set[str]:
    """The names that are read, on some way and in functions within; `x += 1` reads x."""
    return {name.id for name in loading(*nodes)}


def loading(*nodes: ast.AST) -> Iterator[ast.Name]:
    """The places that read a name."""
    for node in nodes:
        for each in ast.walk(node):
            if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load):
                yield each
            elif isinstance(each, ast.AugAssign) and isinstance(each.target, ast.Name):
                yield each.target


def needed(statements: Sequence[ast.stmt], known: set[str]) -> set[str]:
    """The names that are read before they have surely been assigned; `known` are those that have,
    and those that have behind the statements are added to it.
    """
    found: set[str] = set()
    for node in statements:
        match node:
            case ast.If(test=test, body=body, orelse=orelse):
                ways = [set(known), set(known)]
                found |= loads(test) - known
                found |= needed(body, ways[0]) | needed(orelse, ways[1])
                known |= ways[0] & ways[1]
            case ast.For(target=target, iter=over, body=body, orelse=orelse):
                found |= (loads(over) - known) | needed(body, known | stored([target]))
                found |= needed(orelse, set(known))
            case ast.While(test=test, body=body, orelse=orelse):
                found |= (loads(test) - known) | needed(body, set(known))
                found |= needed(orelse, set(known))
            case ast.With(items=items, body=body):
                found |= loads(*items) - known
                known |= stored(items)
                found |= needed(body, known)
            case ast.Match() | ast.Try():
                found |= loads(node) - known
            case _:
                found |= loads(node) - known
                known |= stored([node])
    return found


def within(statements: Sequence[ast.stmt]) -> Iterator[ast.AST]:
    """All nodes but those of functions and classes within, of which the first is given."""
    for node in statements:
        yield from _inside(node)


def _inside(node: ast.AST) -> Iterator[ast.AST]:
    yield node
    if not isinstance(node, _SCOPES):
        for child in ast.iter_child_nodes(node):
            yield from _inside(child)


def leaves_loop(node: ast.stmt) -> bool:
    """Whether it holds a `break` or `continue` of a loop around it."""
    if isinstance(node, ast.Break | ast.Continue):
        return True
    if isinstance(node, _SCOPES):
        return False
    own = [] if isinstance(node, ast.For | ast.While) else list(ast.iter_child_nodes(node))
    if isinstance(node, ast.For | ast.While):
        own = list(node.orelse)
    inner = [case.body for case in own if isinstance(case, ast.match_case | ast.ExceptHandler)]
    statements = [each for each in own if isinstance(each, ast.stmt)]
    return any(map(leaves_loop, [*statements, *(each for body in inner for each in body)]))

"""A function's statements -> pieces, and Python's statements between them, as syntax trees."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Sequence
from types import CellType, CodeType, FunctionType
from typing import Any, Final, TypeVar

from msgspec import Struct

from weft.source.pieces.handed_on import handed_on
from weft.source.pieces.names import leaves_loop, loading, needed, stored, within
from weft.source.syntax import Code, code_at

RUN, LOCALS, OUTCOME, MISSING, FOUND, HANDED_ON = (
    "<run>", "<locals>", "<outcome>", "<missing>", "<found>", "<handed_on>",
)  # fmt: skip
"""Names of what surrounds pieces, which no program can have."""

Position = tuple[int, int]
Node = TypeVar("Node", bound=ast.AST)

_KEPT: Final = (
    ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Try, ast.Import, ast.ImportFrom,
    ast.Delete, ast.AsyncFor, ast.AsyncWith,
)  # fmt: skip
_BLOCKS: Final = (ast.If, ast.For, ast.While, ast.With, ast.Match)
_PLAIN: Final = (
    ast.stmt, ast.Name, ast.Constant, ast.Tuple, ast.List, ast.expr_context, ast.UnaryOp,
    ast.unaryop,
)  # fmt: skip
"""What statements are made of that compute nothing."""


class Source(Struct, frozen=True):
    """A function that is cut: its syntax, and itself."""

    function: FunctionType
    code: Code

    @property
    def names(self) -> frozenset[str]:
        """Its parameters and variables."""
        return self.code.locals

    def reason_whole(self) -> str | None:
        """Why it cannot be cut; None where it can."""
        if not isinstance(self.code.node, ast.FunctionDef):
            return "a lambda has one piece"
        body = self.code.node.body
        for node in within(body):
            if isinstance(node, ast.Yield | ast.YieldFrom | ast.Await):
                return "it is a generator"
            if isinstance(node, ast.Global | ast.Nonlocal):
                return "it assigns to names of its surroundings"
            if isinstance(node, ast.Name) and node.id in (
                "locals",
                "vars",
                "eval",
                "exec",
                "super",
            ):
                return f"it asks for {node.id}"
            if isinstance(node, ast.FunctionDef | ast.Lambda | ast.ClassDef):
                read = {name.id for name in loading(node)} & self.names
                if any(name in read for name in stored_behind(body, node)):
                    return "a function in it reads a variable that is assigned later"
        return None

    def compiled(self, name: str, parameters: Sequence[str], body: list[ast.stmt]) -> FunctionType:
        """A function of statements in the surroundings of this one."""
        inner = _definition(name, parameters, body)
        around = _definition("<around>", [*self._cells(), HANDED_ON], [inner])
        module = ast.fix_missing_locations(ast.Module([around], []))
        outer = _code_in(compile(module, self.code.file, "exec"), "<around>")
        code = _code_in(outer, name)
        cells = {**self._cells(), HANDED_ON: CellType(handed_on)}
        closure = tuple(cells[each] for each in code.co_freevars)
        around_it: dict[str, Any] = self.function.__globals__  # pyright: ignore
        found = FunctionType(code, around_it, name, None, closure)
        found.__module__ = self.function.__module__
        found.syntax = code_at(inner, self.code.file)  # pyright: ignore[reportFunctionMemberAccess]
        return found

    def _cells(self) -> dict[str, CellType]:
        function = self.function
        return dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))


def stored_behind(body: Sequence[ast.stmt], node: ast.AST) -> set[str]:
    """The names that are assigned behind the start of a node, or in a loop around it."""
    loops = [
        each
        for each in within(body)
        if isinstance(each, ast.For | ast.While) and any(inner is node for inner in ast.walk(each))
    ]
    line = node.lineno  # pyright: ignore[reportAttributeAccessIssue]
    behind = [
        each
        for each in within(body)
        if isinstance(each, ast.stmt) and each is not node and (each.end_lineno or 0) > line
    ]
    simple = [each for each in behind if each.lineno >= line]
    return stored([*loops, *simple])


class Cut(Struct, frozen=True):
    """Statements of a function that may be one piece."""

    source: Source
    statements: Sequence[ast.stmt]

    @property
    def lines(self) -> str:
        """The lines, as reports show them."""
        first, last = self.statements[0].lineno, self.statements[-1].end_lineno
        return f"line {first}" if first == last else f"lines {first} to {last}"

    def outs(self) -> list[str]:
        """The names that the rest of the function may read."""
        own = {id(each) for each in loading(*self.statements)}
        rest = {name.id for name in loading(self.source.code.node) if id(name) not in own}
        return sorted(stored(self.statements) & (rest | needed(self.statements, set())))

    def ins(self) -> list[str]:
        """The names whose values it needs."""
        known: set[str] = set()
        read = needed(self.statements, known)
        return sorted((read | (set(self.outs()) - known)) & self.source.names)

    def jitted(self) -> FunctionType:
        """The function that is compiled: it returns whether the whole function returns, and what;
        or else the values that it hands on.
        """
        body: list[ast.stmt] = [_returning(each, _pair) for each in self.statements]
        ins, outs = self.ins(), self.outs()
        for number, name in enumerate(outs):
            others = [_name(each) for each in (*ins, *outs[:number]) if each != name]
            given: list[ast.expr] = [_name(name), ast.Tuple(others, ast.Load())]
            checked = ast.Expr(ast.Call(_name(HANDED_ON), given, []))
            body.append(_at(checked, self._last_that_assigns(name)))
        values = ast.Tuple([_name(each) for each in outs], ast.Load())
        body.append(_at(_pair(values, False), self.statements[-1]))
        return self.source.compiled("piece", ins, body)

    def _last_that_assigns(self, name: str) -> ast.stmt:
        return [each for each in self.statements if name in stored([each])][-1]

    def at(self, position: Position | None) -> ast.stmt:
        """The statement at a position; the last one where there is none."""
        for node in ast.walk(ast.Module(list(self.statements), [])):
            if isinstance(node, ast.stmt) and (node.lineno, node.col_offset) == position:
                return node
        return self.statements[-1]

    def python(self, refused: ast.stmt | None) -> tuple[FunctionType, list[Cut]]:
        """The statements as Python runs them, with pieces around the refused one; without one all
        are Python's.
        """
        pieces: list[Cut] = []
        body = (
            [_returning(each, _outcome) for each in self.statements]
            if refused is None
            else self._arranged(self.statements, refused, pieces)
        )
        names = sorted({*self.ins(), *stored(self.statements), *self.outs()} & self.source.names)
        gone = [
            ast.If(
                ast.Compare(_name(name), [ast.Is()], [_name(MISSING)]),
                [ast.Delete([ast.Name(name, ast.Del())])],
                [],
            )
            for name in names
        ]
        names_now = ast.Call(_name(LOCALS), [], [])
        end = ast.Return(
            ast.Call(_name(OUTCOME), [_constant(False), _constant(None), names_now], [])
        )
        whole = [*(_at(each, self.statements[0]) for each in gone), *body]
        whole.append(_at(end, self.statements[-1]))
        parameters = [RUN, LOCALS, OUTCOME, MISSING, *names]
        return self.source.compiled("between", parameters, whole), pieces

    def _arranged(
        self, block: Sequence[ast.stmt], refused: ast.stmt, pieces: list[Cut]
    ) -> list[ast.stmt]:
        found: list[ast.stmt] = []
        waiting: list[ast.stmt] = []

        def end() -> None:
            if waiting:
                found.extend(self._called(list(waiting), pieces))
                waiting.clear()

        for node in block:
            if any(each is refused for each in ast.walk(node)) or _is_kept(node):
                end()
                found.append(self._opened(node, refused, pieces))
            else:
                waiting.append(node)
        end()
        return found

    def _opened(self, node: ast.stmt, refused: ast.stmt, pieces: list[Cut]) -> ast.stmt:
        """A statement of Python's, whose blocks are cut."""
        if not isinstance(node, _BLOCKS):
            return _returning(node, _outcome)
        shown = copy.copy(node)
        if isinstance(shown, ast.Match):
            shown.cases = list(map(copy.copy, shown.cases))
        for holder in shown.cases if isinstance(shown, ast.Match) else [shown]:
            for field in ("body", "orelse"):
                if getattr(holder, field, None):
                    setattr(holder, field, self._arranged(getattr(holder, field), refused, pieces))
        return shown

    def _called(self, statements: list[ast.stmt], pieces: list[Cut]) -> list[ast.stmt]:
        """The call of a piece, and what it hands on; statements that compute nothing stay."""
        if all(isinstance(each, _PLAIN) for node in statements for each in ast.walk(node)):
            return [_returning(each, _outcome) for each in statements]
        cut = Cut(self.source, statements)
        given: list[ast.expr] = [_constant(len(pieces)), ast.Call(_name(LOCALS), [], [])]
        pieces.append(cut)
        names = ast.Attribute(_name(FOUND), "names", ast.Load())
        body: list[ast.stmt] = [
            ast.Assign([ast.Name(FOUND, ast.Store())], ast.Call(_name(RUN), given, [])),
            ast.If(
                ast.Attribute(_name(FOUND), "returned", ast.Load()), [ast.Return(_name(FOUND))], []
            ),
        ]
        for name in cut.outs():
            value = ast.Subscript(names, _constant(name), ast.Load())
            assigned = ast.Assign([ast.Name(name, ast.Store())], value)
            body.append(ast.If(ast.Compare(_constant(name), [ast.In()], [names]), [assigned], []))
        return [_at(each, statements[0]) for each in body]


def _is_kept(node: ast.stmt) -> bool:
    """Whether Python runs the statement in any case: it has blocks of which a piece cannot be part,
    or prints.
    """
    match node:
        case ast.Expr(value=ast.Call(func=ast.Name(id="print")) | ast.Constant()):
            return True
        case _:
            return isinstance(node, _KEPT) or leaves_loop(node) or holds_kept(node)


def holds_kept(node: ast.stmt) -> bool:
    """Whether a block within holds what Python runs in any case."""
    inner = [each for each in within([node]) if each is not node]
    return any(isinstance(each, _KEPT) for each in inner)


def _returning(node: ast.stmt, made: Callable[[ast.expr, bool], ast.stmt]) -> ast.stmt:
    """A statement whose `return`s return something else."""

    class Returns(ast.NodeTransformer):
        def visit_Return(self, node: ast.Return) -> ast.stmt:
            return _at(made(node.value or _constant(None), True), node)

        def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.stmt:
            return node

        def visit_Lambda(self, node: ast.Lambda) -> ast.expr:
            return node

    return Returns().visit(copy.deepcopy(node))


def _pair(value: ast.expr, returned: bool) -> ast.stmt:
    return ast.Return(ast.Tuple([_constant(returned), value], ast.Load()))


def _outcome(value: ast.expr, returned: bool) -> ast.stmt:
    return ast.Return(ast.Call(_name(OUTCOME), [_constant(returned), value, _constant(None)], []))


def _definition(name: str, parameters: Sequence[str], body: list[ast.stmt]) -> ast.FunctionDef:
    given = [ast.arg(each) for each in parameters]
    arguments = ast.arguments([], given, None, [], [], None, [])
    found = ast.FunctionDef(name, arguments, body or [ast.Pass()], [])
    return _at(found, body[0])


def _at(node: Node, like: ast.AST) -> Node:
    """A node, and all in it without a place, at the place of another."""
    return ast.fix_missing_locations(ast.copy_location(node, like))


def _name(name: str) -> ast.expr:
    return ast.Name(name, ast.Load())


def _constant(value: Any) -> ast.expr:
    return ast.Constant(value)


def _code_in(code: CodeType, name: str) -> CodeType:
    """The code of a function that stands in other code."""
    found = [each for each in code.co_consts if isinstance(each, CodeType)]
    return next(each for each in found if each.co_name == name)

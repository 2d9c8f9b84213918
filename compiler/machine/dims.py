"""Sizes of a signature at run time: expressions over the symbols, `batch * seq`,
`(n floordiv 2)`, `max(3, n)`.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate

from dialects.errors import ArtifactError
from dialects.steps import Step

_ALLOWED = (
    ast.Expression, ast.BinOp, ast.UnaryOp, ast.Call, ast.Name, ast.Constant, ast.Load,
    ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod, ast.USub,
)  # fmt: skip

Size = Callable[[Mapping[str, int]], int]


Program = Sequence[tuple[Step, int]]
"""Steps with their operands: a number, or the place of a symbol; 0 for others."""

_BINARY: Mapping[type[ast.operator], Step] = {
    ast.Add: Step.ADD,
    ast.Sub: Step.SUB,
    ast.Mult: Step.MUL,
    ast.FloorDiv: Step.FLOORDIV,
    ast.Mod: Step.MOD,
}


def size_of(dim: int | str) -> Size:
    """The dim as a function of the symbols' values.
    Raises ArtifactError for text that is no such expression.
    """
    if isinstance(dim, int):
        return lambda _: dim
    code = compile(parse_dim(dim), "<dim>", "eval")
    functions = {"__builtins__": {}, "max": max, "min": min}
    return lambda symbols: int(eval(code, functions, dict(symbols)))


def program_of(dim: str, symbols: Sequence[str]) -> Program:
    """The same function as steps on a stack, whose only value at the end it gives.
    Raises ArtifactError for text that is no such expression.
    """
    return [*_steps(parse_dim(dim).body, symbols), (Step.END, 0)]


def depth_of(program: Program) -> int:
    """How many values are on the stack at most."""
    change = (1 if step in (Step.NUMBER, Step.SYMBOL) else -1 for step, _ in program)
    return max(accumulate(change), default=0)


def parse_dim(dim: str) -> ast.Expression:
    """The expression as a tree. Raises ArtifactError for text that is no such expression."""
    text = dim.replace("floordiv", "//").replace(" mod ", " % ")
    try:
        tree = ast.parse(text, mode="eval")
    except SyntaxError as error:
        raise ArtifactError(f"signature requires integer expressions as dims, got {dim}") from error
    strange = [node for node in ast.walk(tree) if not isinstance(node, _ALLOWED)]
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    if strange or any(
        not isinstance(call.func, ast.Name) or call.func.id not in ("max", "min") for call in calls
    ):
        raise ArtifactError(f"signature requires integer expressions as dims, got {dim}")
    return tree


def _steps(node: ast.expr, symbols: Sequence[str]) -> Iterator[tuple[Step, int]]:
    match node:
        case ast.Constant(value=int(number)):
            yield Step.NUMBER, number
        case ast.Name(id=name) if name in symbols:
            yield Step.SYMBOL, symbols.index(name)
        case ast.UnaryOp(operand=operand):
            yield Step.NUMBER, 0
            yield from _steps(operand, symbols)
            yield Step.SUB, 0
        case ast.BinOp(left=left, op=operation, right=right):
            yield from _steps(left, symbols)
            yield from _steps(right, symbols)
            yield _BINARY[type(operation)], 0
        case ast.Call(func=ast.Name(id=name), args=[first, *others]):
            yield from _steps(first, symbols)
            for other in others:
                yield from _steps(other, symbols)
                yield (Step.MIN if name == "min" else Step.MAX), 0
        case _:
            raise ArtifactError(
                f"signature requires dims of the symbols {', '.join(symbols)}, "
                f"got {ast.unparse(node)}"
            )

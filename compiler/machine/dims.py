"""Sizes of a signature at run time: expressions over the symbols, `batch * seq`,
`(n floordiv 2)`, `max(3, n)`.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping

from dialects.errors import ArtifactError

_ALLOWED = (
    ast.Expression, ast.BinOp, ast.UnaryOp, ast.Call, ast.Name, ast.Constant, ast.Load,
    ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod, ast.USub,
)  # fmt: skip

Size = Callable[[Mapping[str, int]], int]


def size_of(dim: int | str) -> Size:
    """The dim as a function of the symbols' values.
    Raises ArtifactError for text that is no such expression.
    """
    if isinstance(dim, int):
        return lambda _: dim
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
    code = compile(tree, "<dim>", "eval")
    functions = {"__builtins__": {}, "max": max, "min": min}
    return lambda symbols: int(eval(code, functions, dict(symbols)))

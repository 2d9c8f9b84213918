"""Sizes as sympy writes them become expressions: `2*s77 + 1`, `Mul(Integer(2), Symbol('s77'))`."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from functools import reduce
from operator import add, mod, mul, sub
from typing import Any, Final

from weft.dialects.errors import UnsupportedError
from weft.dialects.expr import Expr, maximum, minimum

_BINARY: Final[Mapping[type[ast.operator], Callable[[Any, Any], Expr]]] = {
    ast.Add: add,
    ast.Sub: sub,
    ast.Mult: mul,
    ast.FloorDiv: lambda one, other: one // other,
    ast.Mod: mod,
}
_CALLS: Final[Mapping[str, Callable[[list[Expr]], Expr]]] = {
    "Add": lambda parts: reduce(add, parts),
    "Mul": lambda parts: reduce(mul, parts),
    "Pow": lambda parts: _power(*parts),
    "FloorDiv": lambda parts: parts[0] // parts[1],
    "CleanDiv": lambda parts: parts[0] // parts[1],
    "CeilDiv": lambda parts: -((-parts[0]) // parts[1]),
    "Mod": lambda parts: parts[0] % parts[1],
    "PythonMod": lambda parts: parts[0] % parts[1],
    "Max": maximum,
    "Min": minimum,
    "ToFloat": lambda parts: parts[0],
    "TruncToInt": lambda parts: parts[0],  # of a whole number, as all parts are
    "FloorToInt": lambda parts: parts[0],
    "CeilToInt": lambda parts: parts[0],
    "Integer": lambda parts: parts[0],
    "One": lambda parts: Expr.of(1),
    "Zero": lambda parts: Expr.of(0),
}


def parse_size(text: str) -> Expr:
    """The expression of a text of sympy's. Raises UnsupportedError for functions that no size of
    weft's has.
    """
    try:
        return _expression(ast.parse(text, mode="eval").body)
    except (SyntaxError, ZeroDivisionError) as error:
        raise UnsupportedError(f"a size requires a sum of products, got {text!r}") from error


def _expression(node: ast.expr) -> Expr:
    match node:
        case ast.Constant(value=int(number)):
            return Expr.of(number)
        case ast.Constant(value=float(number)) if number.is_integer():
            return Expr.of(int(number))
        case ast.Name(id=name):
            return Expr.of(name)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_expression(operand)
        case ast.BinOp(left=left, op=ast.Pow(), right=right):
            return _power(_expression(left), _expression(right))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            return _BINARY[type(op)](_expression(left), _expression(right))
        case ast.Call(func=function, args=[ast.Constant(value=str(name)), *_]) if (
            _name(function) == "Symbol"
        ):
            return Expr.of(name)
        case ast.Call(func=function, args=parts) if _name(function) in _CALLS:
            return _CALLS[_name(function)]([_expression(part) for part in parts])
        case _:
            rule = "a size requires sums, products, quotients and extrema of sizes"
            raise UnsupportedError(f"{rule}, got {ast.unparse(node)}")


def _name(function: ast.expr) -> str:
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def _power(base: Expr, exponent: Expr) -> Expr:
    count = exponent.constant
    if count is None or count < 0:
        raise UnsupportedError(f"a size requires powers of whole numbers, got {exponent}")
    return reduce(mul, [base] * count, Expr.of(1))

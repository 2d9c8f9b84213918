"""Python's operators on numbers and tensors that only a call knows, with Python's and NumPy's
rules for dtypes.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from weft.array.complex_numbers import Complex
from weft.dialects.errors import TypeInferenceError
from weft.dialects.expr import Expr
from weft.source.recording import SourceRecording
from weft.source.values import Array, Number, is_number
from weft.tracing.traced import Traced

PLAIN: Final[dict[type[ast.AST], Callable[..., Any]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.MatMult: operator.matmul,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Invert: operator.invert,
}
"""What Python does with two values, tensors too."""

_BITS: Final = (ast.BitAnd, ast.BitOr, ast.BitXor)
_COMPARISONS: Final = (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq)


def binary(r: SourceRecording, node_type: type[ast.AST], left: Any, right: Any) -> Any:
    """`left <op> right`, at least one of them dynamic. Raises TypeInferenceError where the graph
    has no such operator.
    """
    if is_number(left) and is_number(right):
        return _numbers(r, node_type, left, right)
    return tensors(node_type, as_tensor(r, left, right), as_tensor(r, right, left))


def as_tensor(r: SourceRecording, value: Any, other: Any = None) -> Any:
    """A number or array as a value of the graph; a Python number takes the dtype of a tensor."""
    if isinstance(value, Traced | Complex):
        return value
    if is_number(value):
        return Number(r, type(value), r.scalar(type(value), value))
    return r.constant(np.asarray(value))


def tensors(node_type: type[ast.AST], x: Traced, y: Traced) -> Traced:
    """The operator on the elements of two tensors."""
    if node_type is ast.MatMult and not (x.ndim and y.ndim):
        raise TypeInferenceError("@ requires operands with axes, got a scalar")
    return PLAIN[node_type](x, y)


def _numbers(r: SourceRecording, node_type: type[ast.AST], left: Any, right: Any) -> Any:
    """Python's own arithmetic, of its own types."""
    found = _expressions(r, node_type, left, right)
    if found is not None:
        return found
    python_types = [
        each.python_type if isinstance(each, Number) else type(each) for each in (left, right)
    ]
    bits = node_type in _BITS and python_types == [bool, bool]
    common = bool if bits else float if float in python_types else int
    if node_type is ast.Div:
        common = float
    if node_type is ast.Pow and common is int and (isinstance(right, Number) or right < 0):
        rule = "** of an int requires an exponent that is known and not negative"
        raise TypeInferenceError(f"{rule}, got {right}")
    x, y = (r.number_as(each, common) for each in (left, right))
    result = tensors(node_type, x, y)
    return Number(r, bool if node_type in _COMPARISONS else common, result.value)


def _expressions(r: SourceRecording, node_type: type[ast.AST], left: Any, right: Any) -> Any:
    """The operator on sizes; None for what no expression over sizes says."""
    x, y = r.expression(left), r.expression(right)
    if x is None or y is None:
        return None
    match node_type:
        case ast.Add:
            return r.number(x + y)
        case ast.Sub:
            return r.number(x - y)
        case ast.Mult:
            return r.number(x * y)
        case ast.FloorDiv | ast.Mod if y.constant is not None and y.constant > 0:
            return r.number(x // y if node_type is ast.FloorDiv else x % y)
        case ast.Lt:
            return _decided(r, y - x, 1)
        case ast.LtE:
            return _decided(r, y - x, 0)
        case ast.Gt:
            return _decided(r, x - y, 1)
        case ast.GtE:
            return _decided(r, x - y, 0)
        case ast.Eq | ast.NotEq:
            if x == y:
                return node_type is ast.Eq
            apart = r.at_least(x - y, 1) or r.at_least(y - x, 1)
            return node_type is ast.NotEq if apart else None
        case _:
            return None


def _decided(r: SourceRecording, difference: Expr, bound: int) -> bool | None:
    """Whether the difference is that much at least, where that is known."""
    if r.at_least(difference, bound):
        return True
    return False if r.at_least(-difference, 1 - bound) else None


def unary(r: SourceRecording, node_type: type[ast.AST], value: Traced) -> Any:
    """`-x`, `+x` or `~x`."""
    if isinstance(value, Number) and node_type is not ast.Invert:
        return (
            binary(r, ast.Sub, 0, value) if node_type is ast.USub else binary(r, ast.Add, 0, value)
        )
    if node_type is ast.UAdd:
        return r.array(value.value)
    if node_type is ast.USub:
        return value.apply("neg")
    result = value.apply("logical_not" if value.dtype.kind == "b" else "bitwise_not")
    return Number(r, int, result.value) if isinstance(value, Number) else result


def negated(r: SourceRecording, value: Number) -> Number:
    """`not` of a bool."""
    return Number(r, bool, value.apply("logical_not").value)


def both(r: SourceRecording, first: bool | Number, second: bool | Number) -> bool | Number:
    """Whether both hold."""
    if isinstance(first, bool):
        return second if first else False
    if isinstance(second, bool):
        return first if second else False
    return Number(r, bool, first.apply("logical_and", second).value)


def either(r: SourceRecording, first: bool | Number, second: bool | Number) -> bool | Number:
    """Whether one holds at least."""
    if isinstance(first, bool):
        return True if first else second
    if isinstance(second, bool):
        return True if second else first
    return Number(r, bool, first.apply("logical_or", second).value)


def condition(r: SourceRecording, value: Traced) -> Number:
    """A tensor of one element as the bool that Python takes it for."""
    if isinstance(value, Number) and value.python_type is bool:
        return value
    one = value if value.ndim == 0 else value.reshape(())
    if one.dtype.kind != "b":
        zero = Array(r, r.builder().constant_of(np.asarray(0), one.type.element))
        one = one.apply("equal", zero).apply("logical_not")
    return Number(r, bool, one.value)

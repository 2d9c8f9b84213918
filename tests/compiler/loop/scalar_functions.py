"""What each scalar operation computes on NumPy scalars; integers are held as signed."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from weft.dialects.loop.threefry import threefry

Function = Callable[..., Any]

_WORD = (1 << 32) - 1


def _unsigned(value: Any) -> Any:
    """The same bits as an unsigned number; bools and indices as they are."""
    return value.view(f"u{value.itemsize}") if isinstance(value, np.signedinteger) else value


def _on_unsigned(function: Function) -> Function:
    return lambda *values: _same(function(*(_unsigned(value) for value in values)), values[0])


def _same(result: Any, like: Any) -> Any:
    return (
        np.asarray(result)
        .astype(np.asarray(_unsigned(like)).dtype)
        .view(np.asarray(like).dtype)[()]
    )


def _truncate(left: Any, right: Any) -> Any:
    """The quotient rounded towards zero."""
    quotient = abs(int(left)) // abs(int(right))
    return quotient if (left < 0) == (right < 0) else -quotient


def _remainder(left: Any, right: Any) -> Any:
    return int(left) - int(right) * _truncate(left, right)


def _saturate(value: Any, low: int, high: int) -> int:
    if math.isnan(value):
        return 0
    return low if value <= low else high if value >= high else int(value)


def float_to_integer(width: int, signed: bool) -> Function:
    """Truncation that saturates; NaN becomes zero."""
    half = 1 << (width - 1)
    low, high = (-half, half - 1) if signed else (0, 2 * half - 1)
    return lambda value: _saturate(value, low, high)


def _wide(function: Function) -> Function:
    """A function of Python's math, in double precision and then rounded; errors become NaN."""

    def rounded(*values: Any) -> Any:
        try:
            return function(*(float(value) for value in values))
        except (ValueError, OverflowError):
            return math.nan

    return rounded


def _dot_bytes(total: Any, unsigned: Any, signed: Any) -> Any:
    left, right = (np.asarray(each, "<i4").reshape(1) for each in (unsigned, signed))
    return int(total) + int(left.view(np.uint8).astype(int) @ right.view(np.int8).astype(int))


def _pack_bf16(low: Any, high: Any) -> int:
    halves = np.array([low, high], np.float32).astype(ml_dtypes.bfloat16)
    return int(halves.view("<i4")[0])


def _dot_bf16(lhs: Any, rhs: Any) -> Any:
    left, right = (
        np.asarray(each, "<i4").reshape(1).view(ml_dtypes.bfloat16).astype(np.float32)
        for each in (lhs, rhs)
    )
    return left @ right


_FLOAT_ORDER: dict[str, Function] = {
    "eq": operator.eq,
    "gt": operator.gt,
    "ge": operator.ge,
    "lt": operator.lt,
    "le": operator.le,
    "ne": operator.ne,
    "no": lambda left, right: True,
}
_FLOAT_PREDICATES = [
    "false",
    "oeq",
    "ogt",
    "oge",
    "olt",
    "ole",
    "one",
    "ord",
    "ueq",
    "ugt",
    "uge",
    "ult",
    "ule",
    "une",
    "uno",
    "true",
]
_INTEGER_PREDICATES = ["eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge"]


def compare_floats(predicate: int) -> Function:
    """The comparison of that number; ordered ones are false and unordered ones true for NaN."""
    name = _FLOAT_PREDICATES[predicate]
    if name in ("true", "false"):
        return lambda left, right: name == "true"
    if name == "ord":
        return lambda left, right: not (np.isnan(left) or np.isnan(right))
    if name == "uno":
        return lambda left, right: bool(np.isnan(left) or np.isnan(right))
    order, unordered = _FLOAT_ORDER[name[1:]], name[0] == "u"

    def compare(left: Any, right: Any) -> bool:
        if np.isnan(left) or np.isnan(right):
            return unordered
        return bool(order(left, right))

    return compare


def compare_integers(predicate: int) -> Function:
    """The comparison of that number."""
    name = _INTEGER_PREDICATES[predicate]
    order = _FLOAT_ORDER[name[-2:]]
    if name[0] == "u":
        return lambda left, right: bool(order(_unsigned(left), _unsigned(right)))
    return lambda left, right: bool(order(left, right))


def _threefry(*pairs: Any) -> Any:
    """Words of random bits in Python's integers."""

    def rotate(word: int, by: int) -> int:
        return word << by & _WORD | word >> (32 - by)

    key, count = ((int(_unsigned(each)) & _WORD, int(_unsigned(each)) >> 32) for each in pairs)
    low, high = threefry(key, count, lambda x, y: x + y & _WORD, operator.xor, rotate, int)
    return np.uint64(high << 32 | low).view(np.int64)


def _digits(value: Any) -> str:
    """The bits of an integer, the highest first."""
    width = value.dtype.itemsize * 8
    return f"{int(value) & (1 << width) - 1:0{width}b}"


FUNCTIONS: dict[str, Function] = {
    "arith.addf": operator.add,
    "arith.subf": operator.sub,
    "arith.mulf": operator.mul,
    "arith.divf": operator.truediv,
    "arith.remf": np.fmod,
    "arith.negf": operator.neg,
    "arith.maximumf": np.maximum,
    "arith.minimumf": np.minimum,
    "arith.maxnumf": np.fmax,
    "arith.minnumf": np.fmin,
    "loop.threefry": _threefry,
    "arith.addi": lambda left, right: left ^ right if isinstance(left, np.bool_) else left + right,
    "arith.subi": lambda left, right: left ^ right if isinstance(left, np.bool_) else left - right,
    "arith.muli": lambda left, right: left & right if isinstance(left, np.bool_) else left * right,
    "arith.divsi": _truncate,
    "arith.remsi": _remainder,
    "arith.divui": _on_unsigned(operator.floordiv),
    "arith.remui": _on_unsigned(operator.mod),
    "arith.floordivsi": lambda left, right: int(left) // int(right),
    "arith.ceildivsi": lambda left, right: -(-int(left) // int(right)),
    "arith.andi": operator.and_,
    "arith.ori": operator.or_,
    "arith.xori": operator.xor,
    "arith.shli": operator.lshift,
    "arith.shrsi": operator.rshift,
    "arith.shrui": _on_unsigned(operator.rshift),
    "arith.maxsi": max,
    "arith.minsi": min,
    "arith.maxui": _on_unsigned(max),
    "arith.minui": _on_unsigned(min),
    "arith.select": lambda condition, then, otherwise: then if condition else otherwise,
    "arith.extsi": lambda value: -int(value) if isinstance(value, np.bool_) else value,
    "arith.extui": _unsigned,
    "arith.trunci": lambda value: value,
    "arith.extf": lambda value: value,
    "arith.truncf": lambda value: value,
    "arith.sitofp": lambda value: -int(value) if isinstance(value, np.bool_) else value,
    "arith.uitofp": _unsigned,
    "arith.index_cast": lambda value: value,
    "arith.index_castui": _unsigned,
    "math.absf": abs,
    "math.absi": abs,
    "math.sqrt": np.sqrt,
    "math.rsqrt": lambda value: 1 / np.sqrt(np.float64(value)),
    "math.exp": np.exp,
    "math.exp2": np.exp2,
    "math.expm1": np.expm1,
    "math.log": np.log,
    "math.log1p": np.log1p,
    "math.log2": np.log2,
    "math.log10": np.log10,
    "math.sin": np.sin,
    "math.cos": np.cos,
    "math.tan": np.tan,
    "math.sinh": np.sinh,
    "math.cosh": np.cosh,
    "math.tanh": np.tanh,
    "math.asin": np.arcsin,
    "math.acos": np.arccos,
    "math.atan": np.arctan,
    "math.atan2": np.arctan2,
    "math.asinh": np.arcsinh,
    "math.acosh": np.arccosh,
    "math.atanh": np.arctanh,
    "math.erf": _wide(math.erf),
    "loop.gelu": _wide(lambda x: x / 2 * math.erf(x * math.sqrt(0.5)) + x / 2),
    "loop.dot_bf16": _dot_bf16,
    "loop.dot_bytes": _dot_bytes,
    "loop.pack_bf16": _pack_bf16,
    "math.powf": np.power,
    "math.fma": lambda a, b, c: np.float64(a) * np.float64(b) + np.float64(c),
    "math.floor": np.floor,
    "math.ceil": np.ceil,
    "math.trunc": np.trunc,
    "math.roundeven": np.rint,
    "math.round": lambda value: np.copysign(np.floor(abs(value) + 0.5), value),
    "math.copysign": np.copysign,
    "math.ctpop": lambda value: _digits(value).count("1"),
    "math.ctlz": lambda value: len(_digits(value)) - len(_digits(value).lstrip("0")),
    "math.cttz": lambda value: len(_digits(value)) - len(_digits(value).rstrip("0")),
}

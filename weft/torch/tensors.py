"""Tensors of torch as weft knows them: element types, sizes, orders of axes in memory, arrays."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from operator import floordiv, mod, truediv
from types import MappingProxyType
from typing import Any, Final
from zlib import crc32

import ml_dtypes
import numpy as np
import torch
from sympy import Function, Integer, Symbol, lambdify
from xdsl.ir import Attribute

from weft.compiler.frontend.torch.ops.complex_numbers import ComplexElement
from weft.compiler.frontend.torch.sizes import parse_size
from weft.dialects.errors import UnsupportedError
from weft.dialects.expr import Expr
from weft.dialects.graph.core.types import (
    BF16,
    BOOL,
    F16,
    F32,
    F64,
    I8,
    I16,
    I32,
    I64,
    UI8,
    UI16,
    UI32,
    UI64,
)

ELEMENTS: Final[dict[Any, Attribute]] = {
    torch.float32: F32,
    torch.float64: F64,
    torch.float16: F16,
    torch.bfloat16: BF16,
    torch.bool: BOOL,
    torch.int8: I8,
    torch.int16: I16,
    torch.int32: I32,
    torch.int64: I64,
    torch.uint8: UI8,
    torch.uint16: UI16,
    torch.uint32: UI32,
    torch.uint64: UI64,
}


def element_of(dtype: torch.dtype) -> Attribute | ComplexElement:
    """The element type of a dtype. Raises UnsupportedError for what is neither a number nor a bool,
    as quantised ones.
    """
    if dtype.is_complex:
        return ComplexElement(ELEMENTS[dtype.to_real()])
    if dtype not in ELEMENTS:
        raise UnsupportedError(f"a tensor requires numbers or bools, got {dtype}")
    return ELEMENTS[dtype]


def element_on_cpu(value: torch.Tensor) -> Attribute | ComplexElement:
    """The element type of a tensor. Raises UnsupportedError for one of another device, and as
    `element_of` does.
    """
    if value.device.type != "cpu":
        raise UnsupportedError(f"a tensor requires memory of the CPU, got one of {value.device}")
    return element_of(value.dtype)


_ROUNDINGS: Final = ("TruncToInt", "FloorToInt", "CeilToInt", "RoundToInt")
"""Sympy's functions that make integers of floats."""

_FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = {
    "TruncToInt": math.trunc, "FloorToInt": math.floor, "CeilToInt": math.ceil, "RoundToInt": round,
    "ToFloat": float, "FloatTrueDiv": truediv, "IntTrueDiv": truediv, "FloatPow": pow,
    "FloorDiv": floordiv, "CleanDiv": floordiv, "Mod": mod, "PythonMod": mod, "Max": max,
    "Min": min, "PowByNatural": pow,
}  # fmt: skip
"""What such numbers are made of, as Python computes it."""


_assumed: ContextVar[Mapping[Symbol, Integer]] = ContextVar(
    "_assumed", default=MappingProxyType({})
)
"""Numbers that symbols are taken for."""


@contextmanager
def assuming(numbers: Mapping[Symbol, int]) -> Generator[None]:
    """Takes symbols for numbers, to ask what would be if they were."""
    before = _assumed.set({symbol: Integer(number) for symbol, number in numbers.items()})
    try:
        yield
    finally:
        _assumed.reset(before)


def size_of(value: Any) -> Expr:
    """An int or SymInt as an expression, in which an integer that floats decide is a symbol."""
    if isinstance(value, int):
        return Expr.of(value)
    part = value.node.expr.xreplace(_assumed.get())
    return parse_size(str(_with_names(part, value.node.shape_env, {})))


def rounded_sizes(value: Any) -> dict[str, Callable[..., int]]:
    """The integers in a SymInt that floats decide, by their symbols: functions of the symbols that
    their parameters name.
    """
    found: dict[str, Any] = {}
    if is_symbolic(value):
        _with_names(value.node.expr, value.node.shape_env, found)
    return {
        name: lambdify(sorted(part.free_symbols, key=str), part, [dict(_FUNCTIONS)])
        for name, part in found.items()
    }


def _with_names(part: Any, env: Any, found: dict[str, Any]) -> Any:
    """An expression with such integers as symbols, which are added to those found."""
    if _is_decided_by_floats(part, env):
        name = f"rounded_{crc32(str(part).encode()):08x}"
        found[name] = part
        return Symbol(name, integer=True, nonnegative=True)
    args = [_with_names(each, env, found) for each in part.args]
    return part.func(*args) if args and args != list(part.args) else part


def _is_decided_by_floats(part: Any, env: Any) -> bool:
    """Whether it is an integer that no expression of sizes is, of sizes of arguments, and not less
    than 0.
    """
    if type(part).__name__ not in _ROUNDINGS:
        return False
    names = {type(each).__name__ for each in part.atoms(Function)}
    given = all(env.var_to_sources.get(symbol) for symbol in part.free_symbols)
    if not given or not names <= _FUNCTIONS.keys() or not env.bound_sympy(part).lower >= 0:
        return False
    try:
        parse_size(str(part))
    except UnsupportedError:
        return True
    return False


def dims_of(value: torch.Tensor) -> list[Expr]:
    """The sizes of a tensor, which may be symbolic."""
    return [size_of(size) for size in value.shape]


def symbols_of(value: Any) -> set[str]:
    """The symbols in an integer, or in a tensor's sizes and strides."""
    if isinstance(value, list | tuple):
        return {name for each in value for name in symbols_of(each)}
    if isinstance(value, torch.Tensor):
        return symbols_of([*value.shape, *value.stride()])
    return {str(each) for each in value.node.expr.free_symbols} if is_symbolic(value) else set()


def is_symbolic(value: Any) -> bool:
    """Whether an integer varies."""
    return isinstance(value, torch.SymInt) and not value.node.expr.is_number


def is_symbol(value: Any) -> bool:
    """Whether an integer is a symbol by itself."""
    return is_symbolic(value) and bool(value.node.expr.is_symbol)


def may_be_negative(value: Any) -> bool:
    """Whether torch has found no reason for a symbol to be a size."""
    if not is_symbol(value):
        return False
    bounds = value.node.shape_env.var_to_range.get(value.node.expr)
    return bounds is not None and bool(bounds.lower < 0)


def hint(value: Any) -> int:
    """An int or SymInt as a number, without a guard."""
    if isinstance(value, int):
        return value
    return int(value.node.hint) if value.node.has_hint() else 2


def repeated_axes(value: torch.Tensor) -> list[int]:
    """The axes along which all elements are the same memory."""
    sizes = [hint(size) for size in value.shape]
    return [a for a, step in enumerate(value.stride()) if hint(step) == 0 and sizes[a] > 1]


def memory_order(value: torch.Tensor) -> list[int] | None:
    """The axes from the slowest to the fastest, where the elements are dense; None otherwise.
    Along axes that repeat elements there is one.
    """
    repeated = repeated_axes(value)
    sizes = [1 if axis in repeated else hint(size) for axis, size in enumerate(value.shape)]
    steps = [hint(step) for step in value.stride()]
    axes = range(len(sizes))
    order = sorted(axes, key=lambda axis: (-steps[axis], sizes[axis] == 1, axis))
    order = order if any(sizes[axis] != 1 for axis in axes) else list(axes)
    expected = 1
    for axis in reversed(order):
        if sizes[axis] != 1 and steps[axis] != expected:
            return None
        expected *= sizes[axis]
    return _ones_in_place(order, sizes)


def _ones_in_place(order: list[int], sizes: Sequence[int]) -> list[int]:
    """The same order in memory with as few axes moved as can be: none, where only dims of 1 do."""
    larger = [axis for axis in order if sizes[axis] != 1]
    return list(range(len(sizes))) if larger == sorted(larger) else order


def to_array(tensor: torch.Tensor | float) -> Any:
    """A tensor's memory as an array: its own, but for views that torch computes first; a float as
    an array without axes. A last axis has both parts of complex numbers.
    """
    if isinstance(tensor, int | float):
        return np.array(tensor, np.float64)
    if tensor.is_complex():
        return torch.view_as_real(tensor.detach().resolve_conj()).numpy(force=True)
    if tensor.dtype is torch.bfloat16:
        return tensor.view(torch.int16).numpy(force=True).view(ml_dtypes.bfloat16)
    return tensor.numpy(force=True)


def to_tensor(array: Any) -> torch.Tensor:
    """An array's memory as a tensor."""
    if array.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def to_complex(pairs: torch.Tensor) -> torch.Tensor:
    """The same memory as complex numbers, whose parts a last axis holds."""
    if not pairs.numel():  # whose strides may be any
        return pairs.new_empty(pairs.shape[:-1], dtype=pairs.dtype.to_complex())
    return torch.view_as_complex(pairs)

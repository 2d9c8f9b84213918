"""NumPy's functions on tensors that only a call knows, with NumPy's rules for dtypes."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from dialects.errors import TypeInferenceError
from dialects.expr import Expr
from dialects.graph.dtypes import element_type
from dialects.graph.types import ShapeAttr
from weft.source.iteration import stacked
from weft.source.operators import as_tensor, promoted, tensors
from weft.source.run import Run
from weft.source.syntax import Place
from weft.source.values import Array, Spread
from weft.traced import Traced

Axis = int | Sequence[int] | None


def tensor_of(run: Run, value: Any, place: Place) -> Traced:
    """A value as a tensor: lists are put together."""
    if isinstance(value, list | tuple):
        parts = [
            each if isinstance(each, Spread) else tensor_of(run, each, place) for each in value
        ]
        return stacked(run, parts, place)
    return as_tensor(run.recording, value)


def floating(x: Traced) -> Traced:
    """Integers as float64."""
    return x if x.dtype.kind not in "biu" else x.astype(np.float64)


def _unary(name: str, floats: bool) -> Callable[..., Any]:
    def function(run: Run, place: Place, x: Any) -> Any:
        x = tensor_of(run, x, place)
        return (floating(x) if floats else x).apply(name)

    return function


def _binary(kind: type[ast.AST]) -> Callable[..., Any]:
    def function(run: Run, place: Place, x: Any, y: Any) -> Any:
        return tensors(kind, tensor_of(run, x, place), tensor_of(run, y, place))

    return function


def _applied(name: str) -> Callable[..., Any]:
    def function(run: Run, place: Place, x: Any, y: Any) -> Any:
        x, y = promoted(tensor_of(run, x, place), tensor_of(run, y, place))
        return x.apply(name, y)

    return function


def _logical(name: str) -> Callable[..., Any]:
    def function(run: Run, place: Place, x: Any, y: Any) -> Any:
        x, y = (tensor_of(run, each, place).astype(np.bool_) for each in (x, y))
        return x.apply(f"logical_{name}", y)

    return function


def _logical_not(run: Run, place: Place, x: Any) -> Any:
    return tensor_of(run, x, place).astype(np.bool_).apply("logical_not")


# Reductions -----------------------------------------------------------------------------------


def _axes(x: Traced, axis: Axis) -> list[int]:
    axes = range(x.ndim) if axis is None else [axis] if isinstance(axis, int) else axis
    return [each % x.ndim for each in axes]


def reduced(x: Traced, name: str, axis: Axis, keepdims: bool) -> Traced:
    """A reduction over axes."""
    axes = _axes(x, axis)
    return x.recording.apply(name, x, axes=axes, keepdims=keepdims) if axes else x


def _reduction(name: str) -> Callable[..., Any]:
    def function(run: Run, place: Place, x: Any, axis: Axis = None, keepdims: bool = False) -> Any:
        x = tensor_of(run, x, place)
        if name in ("reduce_sum", "reduce_prod") and x.dtype.kind in "biu":
            x = x.astype(np.uint64 if x.dtype.kind == "u" else np.int64)
        if name == "reduce_mean":
            x = floating(x)
        return reduced(x, name, axis, keepdims)

    return function


def _any(run: Run, place: Place, x: Any, axis: Axis = None, keepdims: bool = False) -> Any:
    wide = tensor_of(run, x, place).astype(np.bool_).astype(np.int32)
    return reduced(wide, "reduce_max", axis, keepdims).astype(np.bool_)


def _all(run: Run, place: Place, x: Any, axis: Axis = None, keepdims: bool = False) -> Any:
    wide = tensor_of(run, x, place).astype(np.bool_).astype(np.int32)
    return reduced(wide, "reduce_min", axis, keepdims).astype(np.bool_)


def _var(
    run: Run, place: Place, x: Any, axis: Axis = None, ddof: int = 0, keepdims: bool = False
) -> Any:
    x = floating(tensor_of(run, x, place))
    mean = reduced(x, "reduce_mean", axis, True)
    squares = x.apply("sub", mean).apply("pow", as_tensor(run.recording, 2))
    if not ddof:
        return reduced(squares, "reduce_mean", axis, keepdims)
    count = Expr.of(1)
    for each in _axes(x, axis):
        count = count * x.type.shape[each]
    size = as_tensor(run.recording, run.recording.number(count - ddof)).astype(x.dtype)
    return reduced(squares, "reduce_sum", axis, keepdims).apply("div", size)


def _std(run: Run, place: Place, *arguments: Any, **named: Any) -> Any:
    return _var(run, place, *arguments, **named).apply("sqrt")


def _arg(name: str) -> Callable[..., Any]:
    def function(
        run: Run, place: Place, x: Any, axis: int | None = None, keepdims: bool = False
    ) -> Any:
        x = tensor_of(run, x, place)
        if axis is None:
            x, axis = x.reshape((x.type.size,)), 0
        return x.recording.apply(
            name, x, axis=axis % x.ndim, keepdims=keepdims, select_last_index=False
        )

    return function


def _cumulative(name: str) -> Callable[..., Any]:
    def function(run: Run, place: Place, x: Any, axis: int | None = None) -> Any:
        x = tensor_of(run, x, place)
        if axis is None:
            x, axis = x.reshape((x.type.size,)), 0
        if x.dtype.kind in "bi":
            x = x.astype(np.int64)
        return x.recording.apply(name, x, axis=axis % x.ndim, exclusive=False, reverse=False)

    return function


def _count_nonzero(run: Run, place: Place, x: Any, axis: Axis = None) -> Any:
    wide = tensor_of(run, x, place).astype(np.bool_).astype(np.int64)
    return reduced(wide, "reduce_sum", axis, False)


# Products -------------------------------------------------------------------------------------


def _dot(run: Run, place: Place, x: Any, y: Any) -> Any:
    x, y = tensor_of(run, x, place), tensor_of(run, y, place)
    if not x.ndim or not y.ndim:
        return tensors(ast.Mult, x, y)
    if y.ndim > 2 and x.ndim > 1:
        raise TypeInferenceError(f"dot requires a second operand of two axes, got {y.ndim}")
    return tensors(ast.MatMult, x, y)


def _outer(run: Run, place: Place, x: Any, y: Any) -> Any:
    x, y = tensor_of(run, x, place), tensor_of(run, y, place)
    return tensors(ast.Mult, x.reshape((x.type.size, 1)), y.reshape((1, y.type.size)))


def _trace(run: Run, place: Place, x: Any) -> Any:
    x = tensor_of(run, x, place)
    rows = x.type.shape[0]
    eye = _eye(run, place, run.recording.number(rows), dtype=np.bool_)
    zero = as_tensor(run.recording, 0).astype(x.dtype)
    return reduced(run.recording.apply("where", eye, x, zero), "reduce_sum", None, False)


# Shapes ---------------------------------------------------------------------------------------


def sizes(run: Run, shape: Any) -> tuple[Expr, ...]:
    """Dims out of ints and numbers that only a call knows."""
    given = shape if isinstance(shape, tuple | list) else (shape,)
    r = run.recording
    dims: list[Expr] = []
    for each in given:  # pyright: ignore[reportUnknownVariableType]
        dynamic = isinstance(each, Traced)
        dims.append(r.bound(each, "size") if dynamic else Expr.of(int(each)))  # pyright: ignore
    return tuple(dims)


def _reshape(run: Run, place: Place, x: Any, shape: Any) -> Any:
    x = tensor_of(run, x, place)
    given = shape if isinstance(shape, tuple | list) else (shape,)
    dims: list[Any] = [each if _is_rest(each) else sizes(run, each)[0] for each in given]  # pyright: ignore
    result = run.recording.array(x.reshape(tuple(dims)).value)
    return result.viewing(x, None) if isinstance(x, Array) and result.ndim else result


def _is_rest(dim: Any) -> bool:
    return isinstance(dim, int | np.integer) and dim == -1


def part(run: Run, x: Traced, index: tuple[Any, ...]) -> Any:
    """`x[index]`."""
    from weft.source.indexing import read

    return read(run.recording, x, index)


def _transpose(run: Run, place: Place, x: Any, axes: Any = None) -> Any:
    x = tensor_of(run, x, place)
    result = run.recording.array((x.transpose(*axes) if axes is not None else x.transpose()).value)
    return result.viewing(x, None) if isinstance(x, Array) and result.ndim else result


def _swapaxes(run: Run, place: Place, x: Any, first: int, second: int) -> Any:
    x = tensor_of(run, x, place)
    order = list(range(x.ndim))
    order[first], order[second] = order[second], order[first]
    return _transpose(run, place, x, order)


def _expand_dims(run: Run, place: Place, x: Any, axis: int) -> Any:
    x = tensor_of(run, x, place)
    dims = list(x.type.shape)
    dims.insert(axis % (x.ndim + 1), Expr.of(1))
    return _reshape(run, place, x, [run.recording.number(dim) for dim in dims])


def _squeeze(run: Run, place: Place, x: Any, axis: Axis = None) -> Any:
    x = tensor_of(run, x, place)
    ones = [n for n, dim in enumerate(x.type.shape) if dim == 1] if axis is None else _axes(x, axis)
    dims = [dim for n, dim in enumerate(x.type.shape) if n not in ones]
    return _reshape(run, place, x, [run.recording.number(dim) for dim in dims])


def _ravel(run: Run, place: Place, x: Any) -> Any:
    return _reshape(run, place, x, -1)


def _broadcast_to(run: Run, place: Place, x: Any, shape: Any) -> Any:
    x = tensor_of(run, x, place)
    return run.recording.apply("expand", x, shape=ShapeAttr(sizes(run, shape)))


def _concatenate(run: Run, place: Place, arrays: Any, axis: int = 0) -> Any:
    from weft.source.iteration import elements

    parts = promoted(*(tensor_of(run, each, place) for each in elements(run, arrays, place)))
    return run.recording.apply("concat", *parts, axis=axis % parts[0].ndim)


def _stack(run: Run, place: Place, arrays: Any, axis: int = 0) -> Any:
    result = tensor_of(run, arrays if isinstance(arrays, list) else list(arrays), place)
    if axis % result.ndim == 0:
        return result
    order = list(range(1, result.ndim))
    order.insert(axis % result.ndim, 0)
    return result.transpose(*order)


def _repeat(run: Run, place: Place, x: Any, repeats: Any, axis: int | None = None) -> Any:
    x = tensor_of(run, x, place)
    if axis is None:
        x = x.reshape((x.type.size,))
    at = 0 if axis is None else axis % x.ndim
    (count,) = sizes(run, repeats)
    before, extent, after = x.type.shape[:at], x.type.shape[at], x.type.shape[at + 1 :]
    wide = x.reshape((*before, extent, 1, *after))
    shape = ShapeAttr((*before, extent, count, *after))
    expanded = run.recording.apply("expand", wide, shape=shape)
    return expanded.reshape((*before, extent * count, *after))


def _flip(run: Run, place: Place, x: Any, axis: int = 0) -> Any:
    x = tensor_of(run, x, place)
    index = (*[slice(None)] * (axis % x.ndim), slice(None, None, -1))
    return run.recording.array(part(run, x, index).value)


def _roll(run: Run, place: Place, x: Any, shift: int, axis: int | None = None) -> Any:
    x = tensor_of(run, x, place)
    if axis is None:
        flat = x.reshape((x.type.size,))
        return _roll(run, place, flat, shift, 0).reshape(x.type.shape)
    lead = (slice(None),) * (axis % x.ndim)
    if shift == 0:
        return x
    first, second = part(run, x, (*lead, slice(-shift, None))), part(run, x, (*lead, slice(-shift)))
    return run.recording.apply("concat", first, second, axis=axis % x.ndim)


# Creation -------------------------------------------------------------------------------------


def filled(run: Run, shape: Any, value: Any, dtype: Any = None) -> Any:
    """A tensor of one value."""
    scalar = value if isinstance(value, Traced) else None
    if scalar is None:
        b = run.recording.builder()
        array = np.asarray(value, dtype)
        scalar = run.recording.array(b.constant_of(array, element_type(array.dtype)))
    elif dtype is not None:
        scalar = scalar.astype(dtype)
    return run.recording.apply("expand", scalar, shape=ShapeAttr(sizes(run, shape)))


def _zeros(run: Run, place: Place, shape: Any, dtype: Any = np.float64) -> Any:
    return filled(run, shape, 0, dtype)


def _ones(run: Run, place: Place, shape: Any, dtype: Any = np.float64) -> Any:
    return filled(run, shape, 1, dtype)


def _full(run: Run, place: Place, shape: Any, value: Any, dtype: Any = None) -> Any:
    return filled(run, shape, value, dtype)


def _like(value: float) -> Callable[..., Any]:
    def function(run: Run, place: Place, x: Any, dtype: Any = None) -> Any:
        x = tensor_of(run, x, place)
        dims = [run.recording.number(dim) for dim in x.type.shape]
        return filled(run, dims, value, dtype or x.dtype)

    return function


def _full_like(run: Run, place: Place, x: Any, value: Any, dtype: Any = None) -> Any:
    x = tensor_of(run, x, place)
    dims = [run.recording.number(dim) for dim in x.type.shape]
    return filled(run, dims, value, dtype or x.dtype)


def _arange(
    run: Run, place: Place, start: Any, stop: Any = None, step: int = 1, dtype: Any = None
) -> Any:
    from weft.source.iteration import range_of, rounds_of

    r = run.recording
    low, high = (0, start) if stop is None else (start, stop)
    count = rounds_of(run, range_of(run, [low, high, step], place), place).count
    first, by = (as_tensor(r, each).astype(np.int64) for each in (low, step))
    result = r.apply("range", r.array(first.value), r.array(by.value), size=ShapeAttr((count,)))
    return result if dtype is None else result.astype(dtype)


def _eye(run: Run, place: Place, rows: Any, columns: Any = None, dtype: Any = np.float64) -> Any:
    row = _arange(run, place, rows)
    column = row if columns is None else _arange(run, place, columns)
    return row.reshape((row.type.size, 1)).apply("equal", column).astype(dtype)


def _triangle(upper: bool) -> Callable[..., Any]:
    def function(run: Run, place: Place, x: Any, k: int = 0) -> Any:
        return run.recording.apply("trilu", tensor_of(run, x, place), upper=upper, k=k)

    return function


def _array(run: Run, place: Place, value: Any, dtype: Any = None) -> Any:
    x = tensor_of(run, value, place)
    return run.recording.array((x if dtype is None else x.astype(dtype)).value)


# Choice ---------------------------------------------------------------------------------------


def _where(run: Run, place: Place, condition: Any, x: Any, y: Any) -> Any:
    test = tensor_of(run, condition, place).astype(np.bool_)
    x, y = promoted(tensor_of(run, x, place), tensor_of(run, y, place))
    return run.recording.apply("where", test, x, y)


def _clip(run: Run, place: Place, x: Any, low: Any = None, high: Any = None) -> Any:
    x = tensor_of(run, x, place)
    for name, end in (("max", low), ("min", high)):
        if end is not None:
            x, other = promoted(x, tensor_of(run, end, place))
            x = x.apply(name, other)
    return x


def _sort(run: Run, place: Place, x: Any, axis: int = -1) -> Any:
    x = tensor_of(run, x, place)
    order = _argsort(run, place, x, axis)
    return run.recording.apply("gather_elements", x, order, axis=axis % x.ndim)


def _argsort(run: Run, place: Place, x: Any, axis: int = -1) -> Any:
    x = tensor_of(run, x, place)
    count = ShapeAttr((x.type.shape[axis],))
    return run.recording.apply("argsort", x, axis=axis % x.ndim, descending=False, count=count)


def _take(run: Run, place: Place, x: Any, indices: Any, axis: int | None = None) -> Any:
    x, places = tensor_of(run, x, place), tensor_of(run, indices, place).astype(np.int64)
    if axis is None:
        x, axis = x.reshape((x.type.size,)), 0
    return run.recording.apply("gather", x, places, axis=axis % x.ndim)


def _square(run: Run, place: Place, x: Any) -> Any:
    x = tensor_of(run, x, place)
    return x.apply("mul", x)


def _isnan(run: Run, place: Place, x: Any) -> Any:
    return floating(tensor_of(run, x, place)).apply("is_nan")


def _isinf(run: Run, place: Place, x: Any) -> Any:
    return floating(tensor_of(run, x, place)).apply("is_inf", negative=True, positive=True)


def _isfinite(run: Run, place: Place, x: Any) -> Any:
    no = _isnan(run, place, x).apply("logical_or", _isinf(run, place, x))
    return no.apply("logical_not")


def _cast(dtype: Any) -> Callable[..., Any]:
    def function(run: Run, place: Place, x: Any) -> Any:
        return run.recording.array(tensor_of(run, x, place).astype(dtype).value)

    return function


_FLOATS: Final = (
    "exp", "log", "sqrt", "sin", "cos", "tan", "sinh", "cosh", "tanh", "asin", "acos", "atan",
    "asinh", "acosh", "atanh",
)  # fmt: skip

FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    **{name: _unary(name, floats=True) for name in _FLOATS},
    **{f"arc{name[1:]}": _unary(name, floats=True) for name in _FLOATS if name[0] == "a"},
    **{name: _unary(name, floats=False) for name in ("floor", "ceil", "sign", "round")},
    **{name: _unary("abs", floats=False) for name in ("abs", "absolute", "fabs")},
    "negative": _unary("neg", floats=False),
    "rint": _unary("round", floats=True),
    "square": _square,
    "add": _binary(ast.Add), "subtract": _binary(ast.Sub), "multiply": _binary(ast.Mult),
    "divide": _binary(ast.Div), "true_divide": _binary(ast.Div), "power": _binary(ast.Pow),
    "pow": _binary(ast.Pow), "mod": _binary(ast.Mod), "remainder": _binary(ast.Mod),
    "floor_divide": _binary(ast.FloorDiv), "matmul": _binary(ast.MatMult),
    "equal": _binary(ast.Eq), "not_equal": _binary(ast.NotEq), "less": _binary(ast.Lt),
    "less_equal": _binary(ast.LtE), "greater": _binary(ast.Gt), "greater_equal": _binary(ast.GtE),
    "maximum": _applied("max"), "minimum": _applied("min"),
    "logical_and": _logical("and"), "logical_or": _logical("or"), "logical_xor": _logical("xor"),
    "logical_not": _logical_not,
    "sum": _reduction("reduce_sum"), "mean": _reduction("reduce_mean"),
    "prod": _reduction("reduce_prod"),
    **{name: _reduction("reduce_max") for name in ("max", "amax")},
    **{name: _reduction("reduce_min") for name in ("min", "amin")},
    "any": _any, "all": _all, "var": _var, "std": _std, "count_nonzero": _count_nonzero,
    "argmax": _arg("arg_max"), "argmin": _arg("arg_min"),
    "cumsum": _cumulative("cumsum"), "cumprod": _cumulative("cumprod"),
    "dot": _dot, "outer": _outer, "trace": _trace,
    "reshape": _reshape, "transpose": _transpose, "permute_dims": _transpose,
    "swapaxes": _swapaxes, "expand_dims": _expand_dims, "squeeze": _squeeze, "ravel": _ravel,
    "broadcast_to": _broadcast_to, "concatenate": _concatenate, "concat": _concatenate,
    "stack": _stack, "repeat": _repeat, "flip": _flip, "roll": _roll,
    "zeros": _zeros, "ones": _ones, "empty": _zeros, "full": _full, "zeros_like": _like(0),
    "ones_like": _like(1), "empty_like": _like(0), "full_like": _full_like, "arange": _arange,
    "eye": _eye, "tril": _triangle(False), "triu": _triangle(True), "array": _array,
    "asarray": _array, "copy": _array,
    "where": _where, "clip": _clip, "sort": _sort, "argsort": _argsort, "take": _take,
    "isnan": _isnan, "isinf": _isinf, "isfinite": _isfinite,
    **{
        name: _cast(name) for name in (
            "float32", "float64", "float16", "int8", "int16", "int32", "int64", "uint8", "uint16",
            "uint32", "uint64",
        )
    },
    "bool": _cast(np.bool_),
}  # fmt: skip
"""By NumPy's names."""

"""NumPy's functions on tensors that only a call knows, with NumPy's rules for dtypes."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from dialects.errors import TypeInferenceError
from dialects.expr import Expr
from dialects.graph.types import ShapeAttr
from weft.source.numpy_arguments import Axis, axes_of, floating, tensor_of
from weft.source.numpy_shapes import SHAPES, eye
from weft.source.operators import as_tensor, promoted, tensors
from weft.source.run import Run
from weft.source.syntax import Place
from weft.traced import Traced


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


def reduced(x: Traced, name: str, axis: Axis, keepdims: bool) -> Traced:
    """A reduction over axes."""
    axes = axes_of(x, axis)
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
    for each in axes_of(x, axis):
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
        x = x.astype(np.uint8) if x.dtype.kind == "b" else x
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
    diagonal = eye(run, place, run.recording.number(rows), dtype=np.bool_)
    zero = as_tensor(run.recording, 0).astype(x.dtype)
    return reduced(run.recording.apply("where", diagonal, x, zero), "reduce_sum", None, False)


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
    **SHAPES,
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

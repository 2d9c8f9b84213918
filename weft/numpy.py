"""NumPy's functions, by the names of the array API standard, on tensors of every kind: they compute
at once on `weft.Tensor`s, and become part of the graph on tensors that are being traced.

Where all arguments are NumPy's arrays they are NumPy's own, so that one program runs both ways.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from weft.array.composed import (
    atan2,
    copysign,
    hypot,
    log2,
    log10,
    logaddexp,
    nextafter,
    signbit,
    trunc,
)
from weft.array.composites import leader
from weft.array.elementwise import (
    abs,
    acos,
    acosh,
    add,
    alike,
    asin,
    asinh,
    atan,
    atanh,
    bitwise_and,
    bitwise_invert,
    bitwise_left_shift,
    bitwise_or,
    bitwise_right_shift,
    bitwise_xor,
    ceil,
    clip,
    cos,
    cosh,
    divide,
    equal,
    exp,
    expm1,
    floor,
    floor_divide,
    greater,
    greater_equal,
    isfinite,
    isinf,
    isnan,
    less,
    less_equal,
    log,
    log1p,
    logical_and,
    logical_not,
    logical_or,
    logical_xor,
    matmul,
    maximum,
    minimum,
    multiply,
    negative,
    not_equal,
    positive,
    pow,
    reciprocal,
    remainder,
    round,
    sign,
    sin,
    sinh,
    sqrt,
    square,
    subtract,
    tan,
    tanh,
    where,
)
from weft.array.operators import ArrayOperators, axis_of
from weft.array.rearrangements import (
    broadcast_arrays,
    broadcast_to,
    concat,
    expand_dims,
    flip,
    meshgrid,
    moveaxis,
    permute_dims,
    repeat,
    reshape,
    roll,
    squeeze,
    stack,
    tile,
    tril,
    triu,
    unstack,
)
from weft.array.reductions import (
    all,
    any,
    count_nonzero,
    cumulative_prod,
    cumulative_sum,
    max,
    mean,
    min,
    prod,
    std,
    sum,
    var,
)
from weft.array.selections import (
    argmax,
    argmin,
    argsort,
    diff,
    nonzero,
    searchsorted,
    sort,
    take,
    take_along_axis,
    unique_all,
    unique_counts,
    unique_inverse,
    unique_values,
)
from weft.array_api import linalg
from weft.array_api.creation import (
    arange,
    asarray,
    empty,
    empty_like,
    eye,
    from_dlpack,
    full,
    full_like,
    linspace,
    ones,
    ones_like,
    zeros,
    zeros_like,
)
from weft.array_api.dtypes import (
    __array_namespace_info__,
    astype,
    can_cast,
    finfo,
    float16,
    float32,
    float64,
    iinfo,
    int8,
    int16,
    int32,
    int64,
    isdtype,
    result_type,
    uint8,
    uint16,
    uint32,
    uint64,
)
from weft.array_api.linalg import matrix_transpose, tensordot, vecdot
from weft.eager.tensor import Tensor

__all__ = [
    "__array_namespace_info__", "abs", "acos", "acosh", "add", "all", "any", "arange", "argmax",
    "argmin", "argsort", "asarray", "asin", "asinh", "astype", "atan", "atan2", "atanh",
    "bitwise_and", "bitwise_invert", "bitwise_left_shift", "bitwise_or", "bitwise_right_shift",
    "bitwise_xor", "bool", "broadcast_arrays", "broadcast_to", "can_cast", "ceil", "clip",
    "concat", "copysign", "cos", "cosh", "count_nonzero", "cumulative_prod", "cumulative_sum",
    "diff", "divide", "e", "einsum", "empty", "empty_like", "equal", "erf", "exp", "expand_dims",
    "expm1", "eye", "finfo", "flip", "float16", "float32", "float64", "floor", "floor_divide",
    "from_dlpack", "full", "full_like", "greater", "greater_equal", "hypot", "iinfo", "inf",
    "int16", "int32", "int64", "int8", "isdtype", "isfinite", "isinf", "isnan", "less",
    "less_equal", "linalg", "linspace", "log", "log10", "log1p", "log2", "log_softmax",
    "logaddexp", "logical_and", "logical_not", "logical_or", "logical_xor", "matmul",
    "matrix_transpose", "max", "maximum", "mean", "meshgrid", "min", "minimum", "moveaxis",
    "multiply", "nan", "negative", "newaxis", "nextafter", "nonzero", "not_equal", "ones",
    "ones_like", "permute_dims", "pi", "positive", "pow", "prod", "reciprocal", "remainder",
    "repeat", "reshape", "result_type", "roll", "round", "searchsorted", "sign", "signbit", "sin",
    "sinh", "softmax", "sort", "sqrt", "square", "squeeze", "stack", "std", "subtract", "sum",
    "take", "take_along_axis", "tan", "tanh", "tensordot", "tile", "tril", "triu", "trunc",
    "uint16", "uint32", "uint64", "uint8", "unique_all", "unique_counts", "unique_inverse",
    "unique_values", "unstack", "var", "vecdot", "where", "zeros", "zeros_like",
]  # fmt: skip

bool = np.bool_
pi: Final = np.pi
e: Final = np.e
inf: Final = np.inf
nan: Final = np.nan
newaxis: Final = None

__array_api_version__: Final = "2024.12"


def _of_array(function: Callable[..., Any], x: Any, *arguments: Any) -> Any:
    """What a function that NumPy lacks gives for one of its arrays: an array, or a number of rank
    0, as NumPy's functions do.
    """
    return np.asarray(function(Tensor(np.asarray(x)), *arguments))[()]


def erf(x: Any) -> Any:
    """The error function of each element."""
    if not isinstance(x, ArrayOperators):
        return _of_array(erf, x)
    return x.as_float().apply("erf")


def einsum(equation: str, *operands: Any) -> Any:
    """Sums of products by Einstein's notation."""
    whole = equation.replace(" ", "")
    if operands and alike(*operands):
        return operands[0].op("einsum", *operands, equation=whole)
    first = leader(*operands)
    if first is None:
        return np.einsum(equation, *operands)
    tensors = first.lifted(operands[0]).promoted(*operands[1:])
    return first.op("einsum", *tensors, equation=whole)


def softmax(x: Any, axis: int = -1) -> Any:
    """Exponentials that add up to one along an axis."""
    if not isinstance(x, ArrayOperators):
        return _of_array(softmax, x, axis)
    return x.as_float().apply("softmax", axis=axis_of(axis, x.ndim))


def log_softmax(x: Any, axis: int = -1) -> Any:
    """The logarithms of the softmax, computed without its overflow."""
    if not isinstance(x, ArrayOperators):
        return _of_array(log_softmax, x, axis)
    return x.as_float().apply("log_softmax", axis=axis_of(axis, x.ndim))

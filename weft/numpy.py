"""NumPy's functions, by the names of the array API standard, on tensors of every kind: they compute
at once on `weft.Tensor`s, and become part of the graph on tensors that are being traced.

Where all arguments are NumPy's arrays they are NumPy's own, so that one program runs both ways.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from weft.composites import composite
from weft.creation import (
    arange,
    asarray,
    empty,
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
from weft.operators import ArrayOperators, Axes, common_dtype
from weft.tensor import Tensor

__all__ = [  # of creation; everything else here is public as well
    "arange", "asarray", "empty", "eye", "from_dlpack", "full", "full_like", "linspace", "ones",
    "ones_like", "zeros", "zeros_like",
]  # fmt: skip

pi: Final = np.pi
e: Final = np.e
inf: Final = np.inf
nan: Final = np.nan
newaxis: Final = None


def leader(*arguments: Any) -> Any:
    """The first tensor among the arguments, whose kind the result has; None without one.

    Tensors with values go along with others: they become constants of a graph.
    """
    tensors = [each for each in arguments if isinstance(each, ArrayOperators)]
    return next((each for each in tensors if not hasattr(each, "array")), next(iter(tensors), None))


def _lifted(first: Any, operand: Any, like: Any = None) -> Any:
    """The operand as a tensor of the kind of `first`; a number takes the dtype of `like`."""
    if not isinstance(operand, bool | int | float):
        return first.lifted(operand)
    target = first if like is None else like
    if type(target) is Tensor and type(operand) in target.kind.numbers:
        return Tensor.of(np.array(operand, target.kind.dtype))
    return target.lifted(operand)


def _unary(name: str, of_numpy: Callable[[Any], Any], floats: bool = False) -> Callable[..., Any]:
    def function(x: Any) -> Any:
        if not isinstance(x, ArrayOperators):
            return of_numpy(x)
        return x.as_float().apply(name) if floats else x.apply(name)

    function.__name__ = name
    function.__doc__ = f"`{name}` of each element."
    return function


def _binary(name: str, of_numpy: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def function(x: Any, y: Any) -> Any:
        if type(x) is Tensor and type(y) in (Tensor, float, int):
            return x.apply(name, y)
        first = leader(x, y)
        if first is None:
            return of_numpy(x, y)
        like = y if isinstance(y, ArrayOperators) else None
        return _lifted(first, x, like).apply(name, y)

    function.__name__ = name
    function.__doc__ = f"`{name}` of the elements of two arrays, broadcast to each other."
    return function


def _number(name: str) -> Callable[[Any], Any]:
    return lambda x: getattr(np, name)(x)


exp, log, sqrt, sin, cos, tan = (
    _unary(name, _number(name), True) for name in ("exp", "log", "sqrt", "sin", "cos", "tan")
)
sinh, cosh, tanh = (_unary(name, _number(name), True) for name in ("sinh", "cosh", "tanh"))
asin, acos, atan, asinh, acosh, atanh = (
    _unary(name, _number(f"arc{name[1:]}"), True)
    for name in ("asin", "acos", "atan", "asinh", "acosh", "atanh")
)
floor, ceil, sign, round = (
    _unary(name, _number(name)) for name in ("floor", "ceil", "sign", "round")
)
abs, negative = _unary("abs", np.abs), _unary("neg", np.negative)
isnan = _unary("is_nan", np.isnan)
logical_not = _unary("logical_not", np.logical_not)
add, subtract = _binary("add", np.add), _binary("sub", np.subtract)
multiply = _binary("mul", np.multiply)
maximum, minimum = _binary("max", np.maximum), _binary("min", np.minimum)
pow = _binary("pow", np.power)
matmul = _binary("matmul", np.matmul)
equal, less, greater = (
    _binary(name, _numpy) for name, _numpy in
    (("equal", np.equal), ("less", np.less), ("greater", np.greater))
)  # fmt: skip
less_equal, greater_equal = (
    _binary(name, _numpy) for name, _numpy in
    (("less_equal", np.less_equal), ("greater_equal", np.greater_equal))
)  # fmt: skip
logical_and, logical_or, logical_xor = (
    _binary(name, _numpy) for name, _numpy in
    (("logical_and", np.logical_and), ("logical_or", np.logical_or),
     ("logical_xor", np.logical_xor))
)  # fmt: skip


def _operator(apply: Callable[[Any, Any], Any], name: str) -> Callable[[Any, Any], Any]:
    def function(x: Any, y: Any) -> Any:
        return apply(x, y)

    function.__name__ = name
    function.__doc__ = f"`{name}` of the elements of two arrays, broadcast to each other."
    return function


divide = _operator(lambda x, y: x / y, "divide")
floor_divide = _operator(lambda x, y: x // y, "floor_divide")
remainder = _operator(lambda x, y: x % y, "remainder")
not_equal = _operator(lambda x, y: x != y, "not_equal")


def erf(x: Any) -> Any:
    """The error function of each element of a tensor; NumPy has none."""
    return x.as_float().apply("erf")


def square(x: Any) -> Any:
    """Each element times itself."""
    return x * x


def expm1(x: Any) -> Any:
    """`exp(x) - 1`, by `tanh` where the difference would cancel."""
    if not isinstance(x, ArrayOperators):
        return np.expm1(x)
    return composite(_expm1, x)


def _expm1(x: Any) -> Any:
    half = tanh(x * 0.5)
    return where(abs(x) < 0.5, 2.0 * half / (1.0 - half), exp(x) - 1.0)


def log1p(x: Any) -> Any:
    """`log(1 + x)`, by `atanh` where the sum would lose what `x` has."""
    if not isinstance(x, ArrayOperators):
        return np.log1p(x)
    return composite(_log1p, x)


def _log1p(x: Any) -> Any:
    near = where(abs(x) < 0.5, x, 0.0)
    return where(abs(x) < 0.5, 2.0 * atanh(near / (2.0 + near)), log(1.0 + x))


def isinf(x: Any) -> Any:
    """Whether each element is infinite."""
    if not isinstance(x, ArrayOperators):
        return np.isinf(x)
    return x.apply("is_inf", negative=True, positive=True)


def isfinite(x: Any) -> Any:
    """Whether each element is neither infinite nor NaN."""
    if not isinstance(x, ArrayOperators):
        return np.isfinite(x)
    return composite(_isfinite, x)


def _isfinite(x: Any) -> Any:
    return logical_not(logical_or(isnan(x), isinf(x)))


def _reduction(name: str) -> Callable[..., Any]:
    def function(x: Any, axis: Axes = None, keepdims: bool = False) -> Any:
        if isinstance(x, ArrayOperators):
            return getattr(x, name)(axis, keepdims)
        chosen = axis if axis is None or isinstance(axis, int) else tuple(axis)
        return getattr(np, name)(x, chosen, keepdims=keepdims)

    function.__name__ = name
    function.__doc__ = f"The {name} over one axis, several, or all."
    return function


sum, mean, max, min, prod = map(_reduction, ("sum", "mean", "max", "min", "prod"))


def var(x: Any, axis: Axes = None, correction: float = 0.0, keepdims: bool = False) -> Any:
    """The mean square distance from the mean; the count is lessened by `correction`."""
    if not isinstance(x, ArrayOperators):
        chosen = axis if axis is None or isinstance(axis, int) else tuple(axis)
        return np.var(x, chosen, ddof=correction, keepdims=keepdims)
    centred = x - mean(x, axis, True)
    square = mean(centred * centred, axis, keepdims)
    if not correction:
        return square
    axes = range(x.ndim) if axis is None else [axis] if isinstance(axis, int) else axis
    count: Any = 1
    for each in axes:
        count = count * x.shape[each]
    return square * (float(count) / (float(count) - correction))


def std(x: Any, axis: Axes = None, correction: float = 0.0, keepdims: bool = False) -> Any:
    """The square root of the variance."""
    return sqrt(var(x, axis, correction, keepdims))


_any: Any = np.any
_all: Any = np.all


def any(x: Any, axis: Axes = None, keepdims: bool = False) -> Any:
    """Whether an element over axes is not zero."""
    if not isinstance(x, ArrayOperators):
        return _any(x, axis, keepdims=keepdims)
    return composite(_any_over, x, axis=axis, keepdims=keepdims)


def _any_over(x: Any, axis: Axes, keepdims: bool) -> Any:
    return (x != 0).astype(np.int32).max(axis, keepdims).astype(np.bool_)


def all(x: Any, axis: Axes = None, keepdims: bool = False) -> Any:
    """Whether no element over axes is zero."""
    if not isinstance(x, ArrayOperators):
        return _all(x, axis, keepdims=keepdims)
    return composite(_all_over, x, axis=axis, keepdims=keepdims)


def _all_over(x: Any, axis: Axes, keepdims: bool) -> Any:
    return (x != 0).astype(np.int32).min(axis, keepdims).astype(np.bool_)


def _place_of(name: str, of_numpy: Callable[..., Any]) -> Callable[..., Any]:
    def function(x: Any, axis: int | None = None, keepdims: bool = False) -> Any:
        if not isinstance(x, ArrayOperators):
            return of_numpy(x, axis, keepdims=keepdims)
        whole = x.astype(np.uint8) if x.dtype == np.bool_ else x
        along = whole.reshape(-1) if axis is None else whole
        place = 0 if axis is None else axis % x.ndim
        kept = keepdims and axis is not None
        return along.op(name, along, axis=place, keepdims=kept, select_last_index=False)

    function.__name__ = name
    function.__doc__ = "The place of the extreme element along an axis, or in the flat tensor."
    return function


argmax, argmin = _place_of("arg_max", np.argmax), _place_of("arg_min", np.argmin)


def cumulative_sum(x: Any, axis: int = 0) -> Any:
    """The sums of the elements up to each, along an axis."""
    if not isinstance(x, ArrayOperators):
        return np.cumsum(x, axis)
    x = x.as_wide()
    return x.op("cumsum", x, axis=axis % x.ndim, exclusive=False, reverse=False)


_choose: Any = np.where


def where(condition: Any, x: Any, y: Any) -> Any:
    """Elements of `x` where the condition holds, else of `y`."""
    if type(condition) is Tensor:
        if type(x) is not Tensor and type(y) is Tensor:
            x = _lifted(condition, x, y)
        elif type(y) is not Tensor and type(x) is Tensor:
            y = _lifted(condition, y, x)
        if type(x) is type(y) is Tensor and x.kind.dtype == y.kind.dtype:
            return condition.op("where", condition, x, y)
    first = leader(condition, x, y)
    if first is None:
        return _choose(condition, x, y)
    like = next((each for each in (x, y) if isinstance(each, ArrayOperators)), None)
    if like is None:
        then, otherwise = first.constant(x), first.constant(y)
    else:
        then, otherwise = (_lifted(first, each, first.lifted(like)) for each in (x, y))
    common = common_dtype(then.dtype, otherwise.dtype)
    return first.op("where", first.lifted(condition), then.astype(common), otherwise.astype(common))


def clip(x: Any, low: Any = None, high: Any = None) -> Any:
    """The elements brought between two bounds."""
    bounded = x if low is None else maximum(x, low)
    return bounded if high is None else minimum(bounded, high)


def concat(arrays: Sequence[Any], axis: int = 0) -> Any:
    """Arrays one behind the other along an axis."""
    first = leader(*arrays)
    if first is None:
        return np.concatenate(arrays, axis)
    parts = [first.lifted(each) for each in arrays]
    dtypes = {part.dtype for part in parts}
    if len(dtypes) > 1:
        common = common_dtype(*[part.dtype for part in parts])
        parts = [part.astype(common) for part in parts]
    return first.op("concat", *parts, axis=axis % parts[0].ndim)


def stack(arrays: Sequence[Any], axis: int = 0) -> Any:
    """Arrays of one shape along a new axis."""
    if leader(*arrays) is None:
        return np.stack(arrays, axis)
    return concat([expand_dims(each, axis) for each in arrays], axis % (np.ndim(arrays[0]) + 1))


def reshape(x: Any, shape: Sequence[Any]) -> Any:
    """Other dims for the same elements in the same order; one may be -1."""
    return x.reshape(tuple(shape))


def permute_dims(x: Any, axes: Sequence[int]) -> Any:
    """The axes in another order."""
    return x.transpose(*axes)


def expand_dims(x: Any, axis: int = 0) -> Any:
    """A new axis of size 1 in that place of the result."""
    shape = list(x.shape)
    shape.insert(axis % (len(shape) + 1), 1)
    return x.reshape(tuple(shape))


def squeeze(x: Any, axis: int | Sequence[int]) -> Any:
    """The tensor without these axes of size 1."""
    axes = [each % x.ndim for each in ([axis] if isinstance(axis, int) else axis)]
    return x.reshape(tuple(size for place, size in enumerate(x.shape) if place not in axes))


def broadcast_to(x: Any, shape: Sequence[Any]) -> Any:
    """The elements repeated along new axes in front and along those of size 1."""
    if isinstance(x, ArrayOperators):
        return x.broadcast_to(shape)
    return np.broadcast_to(x, tuple(shape))


def flip(x: Any, axis: int) -> Any:
    """The elements along an axis from the last to the first."""
    index = [slice(None)] * (axis % x.ndim) + [slice(None, None, -1)]
    return x[tuple(index)]


def take(x: Any, indices: Any, axis: int = 0) -> Any:
    """The slices along an axis at these places."""
    first = leader(x, indices)
    if first is None:
        return np.take(x, indices, axis)
    table, places = first.lifted(x), first.lifted(indices).astype(np.int64)
    return first.op("gather", table, places, axis=axis % table.ndim)


def take_along_axis(x: Any, indices: Any, axis: int = -1) -> Any:
    """Along an axis, for each place of `indices` the element that it names."""
    first = leader(x, indices)
    if first is None:
        return np.take_along_axis(x, indices, axis)
    table, places = first.lifted(x), first.lifted(indices).astype(np.int64)
    return first.op("gather_elements", table, places, axis=axis % table.ndim)


def triu(x: Any, k: int = 0) -> Any:
    """The elements on and above a diagonal, zeros below."""
    if not isinstance(x, ArrayOperators):
        return np.triu(x, k)
    return x.op("trilu", x, upper=True, k=k)


def tril(x: Any, k: int = 0) -> Any:
    """The elements on and below a diagonal, zeros above."""
    if not isinstance(x, ArrayOperators):
        return np.tril(x, k)
    return x.op("trilu", x, upper=False, k=k)


def einsum(equation: str, *operands: Any) -> Any:
    """Sums of products by Einstein's notation."""
    first = leader(*operands)
    if first is None:
        return np.einsum(equation, *operands)
    whole = equation.replace(" ", "")
    tensors = first.lifted(operands[0]).promoted(*operands[1:])
    return first.op("einsum", *tensors, equation=whole)


def softmax(x: Any, axis: int = -1) -> Any:
    """Exponentials that add up to one along an axis."""
    return x.apply("softmax", axis=axis % x.ndim)


def log_softmax(x: Any, axis: int = -1) -> Any:
    """The logarithms of the softmax, computed without its overflow."""
    return x.apply("log_softmax", axis=axis % x.ndim)

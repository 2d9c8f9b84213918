"""NumPy's functions, by the names of the array API standard, on tensors that are being traced.

Where no argument is traced they are NumPy's own, so that one program runs both ways.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from weft.traced import Operand, Recording, Traced

Axes = int | Sequence[int] | None


def _recording(*arguments: Any) -> Recording | None:
    traced = (each for each in arguments if isinstance(each, Traced))
    first = next(traced, None)
    return None if first is None else first.recording


def _of(recording: Recording, operand: Operand, like: Traced | None = None) -> Traced:
    if isinstance(operand, Traced):
        return operand
    dtype = like.dtype if like is not None and isinstance(operand, bool | int | float) else None
    return recording.constant(np.asarray(operand, dtype))


def _unary(name: str, of_numpy: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def function(x: Any) -> Any:
        return x.apply(name) if isinstance(x, Traced) else of_numpy(x)

    function.__name__ = name
    function.__doc__ = f"`{name}` of each element."
    return function


def _binary(name: str, of_numpy: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def function(x: Any, y: Any) -> Any:
        recording = _recording(x, y)
        if recording is None:
            return of_numpy(x, y)
        return _of(recording, x, y if isinstance(y, Traced) else None).apply(name, y)

    function.__name__ = name
    function.__doc__ = f"`{name}` of the elements of two arrays, broadcast to each other."
    return function


def _number(name: str) -> Callable[[Any], Any]:
    return lambda x: getattr(np, name)(x)


exp, log, sqrt, sin, cos, tan = (
    _unary(name, _number(name)) for name in ("exp", "log", "sqrt", "sin", "cos", "tan")
)
sinh, cosh, tanh, floor, ceil, sign = (
    _unary(name, _number(name)) for name in ("sinh", "cosh", "tanh", "floor", "ceil", "sign")
)
asin, acos, atan = (_unary(name, _number(f"arc{name[1:]}")) for name in ("asin", "acos", "atan"))
abs = _unary("abs", np.abs)
add, subtract = _binary("add", np.add), _binary("sub", np.subtract)
multiply, divide = _binary("mul", np.multiply), _binary("div", np.divide)
maximum, minimum = _binary("max", np.maximum), _binary("min", np.minimum)
pow = _binary("pow", np.power)
matmul = _binary("matmul", np.matmul)
equal, less, greater = (
    _binary(name, _numpy) for name, _numpy in
    (("equal", np.equal), ("less", np.less), ("greater", np.greater))
)  # fmt: skip
logical_and, logical_or = (
    _binary(name, _numpy) for name, _numpy in
    (("logical_and", np.logical_and), ("logical_or", np.logical_or))
)  # fmt: skip


def erf(x: Traced) -> Traced:
    """The error function of each element; NumPy has none, so tensors have to be traced."""
    return x.apply("erf")


def sum(x: Any, axis: Axes = None, keepdims: bool = False) -> Any:
    """The sum over axes."""
    if isinstance(x, Traced):
        return x.sum(axis, keepdims)
    return np.sum(x, _axis(axis), keepdims=keepdims)


def mean(x: Any, axis: Axes = None, keepdims: bool = False) -> Any:
    """The mean over axes."""
    if isinstance(x, Traced):
        return x.mean(axis, keepdims)
    return np.mean(x, _axis(axis), keepdims=keepdims)


def max(x: Any, axis: Axes = None, keepdims: bool = False) -> Any:
    """The greatest element over axes."""
    if isinstance(x, Traced):
        return x.max(axis, keepdims)
    return np.max(x, _axis(axis), keepdims=keepdims)


def min(x: Any, axis: Axes = None, keepdims: bool = False) -> Any:
    """The least element over axes."""
    if isinstance(x, Traced):
        return x.min(axis, keepdims)
    return np.min(x, _axis(axis), keepdims=keepdims)


def _axis(axis: Axes) -> Any:
    return axis if axis is None or isinstance(axis, int) else tuple(axis)


_choose: Any = np.where


def where(condition: Any, x: Any, y: Any) -> Any:
    """Elements of `x` where the condition holds, else of `y`."""
    recording = _recording(condition, x, y)
    if recording is None:
        return _choose(condition, x, y)
    like = next((each for each in (x, y) if isinstance(each, Traced)), None)
    then, otherwise = _of(recording, x, like), _of(recording, y, like)
    common = np.result_type(then.dtype, otherwise.dtype)
    return recording.apply(
        "where", _of(recording, condition), then.astype(common), otherwise.astype(common)
    )


def concat(arrays: Sequence[Any], axis: int = 0) -> Any:
    """Arrays one behind the other along an axis."""
    recording = _recording(*arrays)
    if recording is None:
        return np.concatenate(arrays, axis)
    parts = [_of(recording, each) for each in arrays]
    common = np.result_type(*(part.dtype for part in parts))
    parts = [part.astype(common) for part in parts]
    return recording.apply("concat", *parts, axis=axis % parts[0].ndim)


def reshape(x: Any, shape: Sequence[Any]) -> Any:
    """Other dims for the same elements in the same order; one may be -1."""
    return x.reshape(tuple(shape))


def permute_dims(x: Any, axes: Sequence[int]) -> Any:
    """The axes in another order."""
    return x.transpose(*axes)


def softmax(x: Traced, axis: int = -1) -> Traced:
    """Exponentials that add up to one along an axis."""
    return x.apply("softmax", axis=axis % x.ndim)


def log_softmax(x: Traced, axis: int = -1) -> Traced:
    """The logarithms of the softmax, computed without its overflow."""
    return x.apply("log_softmax", axis=axis % x.ndim)

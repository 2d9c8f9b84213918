"""NumPy's functions on weft's tensors: what `np.sin(x)` and its kin call, with their arguments.

One table for every mode: NumPy looks here where tensors have values or are traced, source mode
where a program calls NumPy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast

import numpy as np

import weft.numpy as wnp
from weft.array.composites import leader
from weft.array.methods import METHODS, refuse_out
from weft.array.operators import ArrayOperators, listed, users_line
from weft.array_api import linalg
from weft.array_api.numpy_composites import COMPOSITES
from weft.dialects.errors import WeftError

_numpy: Any = np  # whose overloads ask for more than arrays


# How tensors come in ----------------------------------------------------------------------------


def operand(value: Any, *others: Any) -> Any:
    """An argument as a tensor: itself, a list with tensors in it stacked, anything else as one of
    the kind of the tensors beside it.
    """
    if isinstance(value, ArrayOperators):
        return value
    if _holds_tensors(value):
        return wnp.stack([operand(each, *value) for each in value])
    first = leader(*others)
    return _numpy.asarray(value) if first is None else first.lifted(value)


def _holds_tensors(values: Any) -> bool:
    if isinstance(values, list | tuple):
        return any(map(_holds_tensors, cast("Sequence[Any]", values)))
    return isinstance(values, ArrayOperators)


def _method(name: str) -> Callable[..., Any]:
    """NumPy's function that does what the method of that name does."""

    def function(x: Any, *arguments: Any, **named: Any) -> Any:
        tensor = operand(x, *arguments, *named.values())
        return getattr(tensor, name)(*arguments, **named)

    return function


def _by_axes(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of `weft.numpy` whose first argument NumPy takes as a list, too."""

    def taken(x: Any, *arguments: Any, **named: Any) -> Any:
        return function(operand(x, *arguments, *named.values()), *arguments, **named)

    return taken


# Functions whose arguments differ from those of the array API -----------------------------------


def _joining(join: Callable[..., Any]) -> Callable[..., Any]:
    """NumPy's arguments for what puts arrays together."""

    def function(arrays: Any, axis: int | None = 0, out: None = None, *, dtype: Any = None) -> Any:
        refuse_out(join.__name__, out)
        given = arrays
        if not isinstance(arrays, ArrayOperators):
            given = [operand(each, *arrays) for each in arrays]
        found = join(given, axis)
        return found if dtype is None else found.astype(dtype)

    return function


def _where(condition: Any, *choices: Any) -> Any:
    if not choices:
        return wnp.nonzero(condition)
    x, y = choices
    operands = (condition, x, y)
    parts = [
        operand(each, *operands) if isinstance(each, list | tuple) else each for each in operands
    ]
    return wnp.where(*parts)


def _clip(
    a: Any, a_min: Any = None, a_max: Any = None, out: None = None, *, min: Any = None,
    max: Any = None,
) -> Any:  # fmt: skip
    refuse_out("clip", out)
    low, high = a_min if min is None else min, a_max if max is None else max
    return wnp.clip(operand(a, low, high), low, high)


def _sort(
    a: Any, axis: int | None = -1, kind: Any = None, order: None = None, *, stable: Any = None
) -> Any:
    return wnp.sort(a.ravel() if axis is None else a, -1 if axis is None else axis)


def _diff(a: Any, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> Any:
    return wnp.diff(operand(a, prepend, append), n=n, axis=axis, prepend=prepend, append=append)


def _count_nonzero(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    return wnp.count_nonzero(a, axis=axis, keepdims=keepdims)


def _like(value: Any) -> Callable[..., Any]:
    def function(a: Any, dtype: Any = None, **named: Any) -> Any:
        return _full_like(a, value, dtype, **named)

    return function


def _full_like(
    a: Any, fill_value: Any, dtype: Any = None, order: str = "K", subok: bool = True,
    shape: Any = None, *, device: Any = None,
) -> Any:  # fmt: skip
    like = operand(a, fill_value)
    if shape is None:
        return wnp.full_like(like, fill_value, dtype=dtype)
    return like.lifted(fill_value).astype(dtype or like.dtype).broadcast_to(listed(shape))


def _tile(A: Any, reps: Any) -> Any:  # noqa: N803  NumPy's name
    return wnp.tile(operand(A), listed(reps))


def _tensordot(a: Any, b: Any, axes: Any = 2) -> Any:
    return wnp.tensordot(a, b, axes=axes)


def _einsum(equation: Any, *operands: Any, out: None = None, optimize: Any = False) -> Any:
    refuse_out("einsum", out)
    return wnp.einsum(equation, *operands)


def _meshgrid(*arrays: Any, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> Any:
    if sparse:
        raise WeftError(f"{users_line()}: meshgrid requires whole grids, got sparse=True")
    return tuple(wnp.meshgrid(*map(operand, arrays), indexing=indexing))


def _broadcast_arrays(*arrays: Any, subok: bool = False) -> Any:
    return tuple(wnp.broadcast_arrays(*(operand(each, *arrays) for each in arrays)))


def _broadcast_to(array: Any, shape: Any, subok: bool = False) -> Any:
    return wnp.broadcast_to(array, listed(shape))


def _take_along_axis(arr: Any, indices: Any, axis: int | None = -1) -> Any:
    tensor = operand(arr, indices)
    return wnp.take_along_axis(tensor.ravel() if axis is None else tensor, indices, axis or 0)


def _fabs(x: Any) -> Any:
    return wnp.abs(x.as_float())


def _rint(x: Any) -> Any:
    return wnp.round(x.as_float())


# The table --------------------------------------------------------------------------------------

_FROM_NOTHING: Final = frozenset((
    "arange", "asarray", "can_cast", "empty", "eye", "from_dlpack", "full", "isdtype", "linspace",
    "ones", "zeros",
))  # fmt: skip
"""Functions that no tensor comes into, and which NumPy does not hand on."""


def _alike(theirs: Any, ours: Any, names: Sequence[str]) -> dict[Any, Callable[..., Any]]:
    """The functions of one name: many have several names in NumPy, and are one object there."""
    found: dict[Any, Callable[..., Any]] = {}
    for name in names:
        function = getattr(theirs, name, None)
        if callable(function) and not isinstance(function, type) and name not in _FROM_NOTHING:
            found[function] = getattr(ours, name)
    return found


FUNCTIONS: Final[Mapping[Any, Callable[..., Any]]] = {
    **_alike(np, wnp, wnp.__all__),
    **_alike(np.linalg, linalg, linalg.__all__),
    **COMPOSITES,
    **{getattr(np, name): _method(name) for name in METHODS if name not in ("astype", "split")
       and hasattr(np, name)},
    np.amax: _method("max"), np.amin: _method("min"), np.around: _method("round"),
    np.clip: _clip, np.concatenate: _joining(wnp.concat), np.stack: _joining(wnp.stack),
    np.where: _where,
    np.sort: _sort, np.diff: _diff, np.count_nonzero: _count_nonzero, np.tile: _tile,
    np.tensordot: _tensordot, np.einsum: _einsum, np.meshgrid: _meshgrid,
    np.broadcast_arrays: _broadcast_arrays, np.broadcast_to: _broadcast_to,
    np.take_along_axis: _take_along_axis, np.full_like: _full_like, np.zeros_like: _like(0),
    np.ones_like: _like(1), np.empty_like: _like(0), np.fabs: _fabs, np.rint: _rint,
    **{each: _by_axes(getattr(wnp, each.__name__))
       for each in (np.expand_dims, np.flip, np.roll, np.moveaxis, np.tril, np.triu)},
}  # fmt: skip
"""What NumPy's functions become, where an argument is a tensor."""

REDUCTIONS: Final[Mapping[tuple[Any, str], str]] = {
    (np.add, "reduce"): "sum", (np.multiply, "reduce"): "prod", (np.maximum, "reduce"): "max",
    (np.minimum, "reduce"): "min", (np.logical_and, "reduce"): "all",
    (np.logical_or, "reduce"): "any", (np.add, "accumulate"): "cumsum",
    (np.multiply, "accumulate"): "cumprod",
}  # fmt: skip
"""Methods of NumPy's functions of two elements that are methods of arrays, along the first axis."""


# What NumPy calls -------------------------------------------------------------------------------


def of_elements(
    function: Any, method: str, operands: Sequence[Any], named: Mapping[str, Any]
) -> Any:
    """What a function of NumPy's of each element, or `reduce`, `accumulate` or `outer` of it, gives
    for tensors. Raises WeftError, which names the function, for what weft lacks.
    """
    name = _name(function)
    refuse_out(name, named.get("out"))
    if (function, method) in REDUCTIONS:
        given = {key: each for key, each in named.items() if key != "out"}
        return _reduced(REDUCTIONS[function, method], *operands, **given)
    function_ = FUNCTIONS.get(function)
    if function_ is None or method not in ("__call__", "outer"):
        raise refusal(name if method == "__call__" else f"{name}.{method}", operands)
    extra = sorted(key for key in named if key != "out" and not _is_default(key, named[key]))
    if extra:
        advice = "convert operands by astype, choose by weft.numpy.where"
        rule = f"{name} requires operands alone"
        raise WeftError(f"{users_line()}: {rule}, got {', '.join(extra)} ({advice})")
    tensors = [operand(each, *operands) for each in operands]
    return function_(*(_apart(*tensors) if method == "outer" else tensors))


def _is_default(key: str, value: Any) -> bool:
    return value is None or (key == "where" and value is True) or (key, value) in _PLAIN


_PLAIN: Final = (("casting", "same_kind"), ("order", "K"), ("subok", True))


def _reduced(method: str, x: Any, axis: Any = 0, *rest: Any, **named: Any) -> Any:
    """A method of arrays along the first axis, unless another one is named."""
    return getattr(operand(x, *named.values()), method)(axis, *rest, **named)


def _apart(x: Any, y: Any) -> tuple[Any, Any]:
    """Operands whose elements meet in all pairs."""
    return x.reshape((*x.shape, *[1] * y.ndim)), y


def of_arrays(function: Any, types: Any, arguments: Sequence[Any], named: Mapping[str, Any]) -> Any:
    """What another function of NumPy's gives for tensors. Raises WeftError, which names it, for one
    that weft lacks, TypeError for arguments that it does not take.
    """
    if not all(issubclass(each, ArrayOperators | np.ndarray | np.generic) for each in types):
        return NotImplemented
    function_ = FUNCTIONS.get(function)
    if function_ is None:
        raise refusal(_name(function), (*arguments, *named.values()))
    return function_(*arguments, **named)


def refusal(name: str, arguments: Sequence[Any]) -> WeftError:
    """What is raised for a function of NumPy's that weft lacks."""
    first = leader(*arguments)
    has_values = first is None or first.has_values
    way = (
        "np.asarray(x) has its elements, without a derivative"
        if has_values
        else ("call it before, and hand in what it gives")
    )
    got = "a weft.Tensor" if has_values else "a tensor that is being traced"
    rule = f"{name} requires arrays of NumPy"
    return WeftError(f"{users_line()}: {rule}, got {got} (weft.numpy has those of tensors; {way})")


def _name(function: Any) -> str:
    """NumPy's function as programs write it."""
    module = getattr(function, "__module__", None) or "numpy"
    return f"{module.replace('numpy', 'np', 1)}.{function.__name__}"

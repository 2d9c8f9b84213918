"""NumPy's functions that make arrays out of nothing, or out of a vector; tensors in every mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np

from weft.array.elementwise import floor, where
from weft.array.operators import ArrayOperators, axis_of, listed
from weft.array.products import diagonal
from weft.array.rearrangements import concat, extents, moveaxis, stack
from weft.array_api.creation import asarray
from weft.array_api.creation import full_like as _full_like
from weft.array_api.operands import holds_tensors, is_integer, known, leaves, operand, refuse
from weft.eager.tensor import Tensor, tensor_of

_numpy: Any = np  # whose overloads ask for more than arrays


def array(
    object: Any, dtype: Any = None, *, copy: bool | None = True, order: str = "K",
    subok: bool = False, ndmin: int = 0, ndmax: int = 0, like: Any = None,
) -> Any:  # fmt: skip
    """An array of numbers, nested lists, or the elements of another array.

    >>> np.array([[v[0], 1.0], [0.0, v[1]]]), np.array(x, dtype=np.float32), np.array([v, v])
    """
    if holds_tensors(object):
        found = operand(object)
        found = found.copy() if found is object and copy else found
        found = found if dtype is None else found.astype(dtype, copy=False)
    else:
        found = Tensor(object, dtype)
    return found.reshape((1,) * (ndmin - found.ndim) + tuple(found.shape)) \
        if found.ndim < ndmin else found  # fmt: skip


def linspace(
    start: Any, stop: Any, num: int = 50, endpoint: bool = True, retstep: bool = False,
    dtype: Any = None, axis: int = 0, *, device: Any = None,
) -> Any:  # fmt: skip
    """So many numbers in equal steps between two ends, of which the last is one of them, or not.

    >>> np.linspace(x, v, 4), np.linspace(v[0], 2, 3, False, True), np.linspace(v, 5, 3, axis=1)
    """
    first = operand(start, stop)
    low, high = (first.lifted(each).as_float() for each in (start, stop))
    low, high = low.promoted(high)
    num = known(num, "linspace")
    count = num - 1 if endpoint else num
    step = (high - low) / max(count, 1)
    steps = np.arange(float(num)).reshape((-1, *[1] * step.ndim)).astype(step.real.dtype)
    found = step * steps + low
    if endpoint and num > 1:
        last = (low * 0 + high).reshape((1, *step.shape))
        found = concat([found[:-1], last])
    if dtype is not None:
        found = (floor(found) if np.dtype(dtype).kind in "iu" else found).astype(dtype)
    found = moveaxis(found, 0, axis)
    return (found, step if count else step * np.nan) if retstep else found


def asanyarray(a: Any, dtype: Any = None, order: Any = None, **named: Any) -> Any:
    """The array itself, or an array of numbers and lists.

    >>> np.asanyarray(x)
    """
    return array(a, dtype) if isinstance(a, list | tuple) else asarray(a, dtype)


def ascontiguousarray(a: Any, dtype: Any = None, *, like: Any = None) -> Any:
    """The array itself where NumPy has its elements row by row, a copy otherwise.

    >>> np.ascontiguousarray(x)
    """
    found = asanyarray(a, dtype)
    if found.ndim < 2:
        return found if found.ndim else found.reshape(1)
    return found.ravel().regrouped(found.shape)


def copy(a: Any, order: str = "K", subok: bool = False) -> Any:
    """Another array of the same elements.

    >>> np.copy(x)
    """
    return operand(a).copy() if holds_tensors(a) else Tensor(a)


def full_like(
    a: Any, fill_value: Any, dtype: Any = None, order: str = "K", subok: bool = True,
    shape: Any = None, *, device: Any = None,
) -> Any:  # fmt: skip
    """Elements of one value, with the dtype and shape of an array unless others are given.

    >>> np.full_like(x, 2.5), np.full_like(i, v[0]), np.full_like(x, 1, dtype=int, shape=(2,))
    """
    a = operand(a, fill_value)
    if shape is None:
        return _full_like(a, fill_value, dtype=dtype)
    return a.lifted(fill_value).astype(dtype or a.dtype).broadcast_to(extents(shape)).duplicate()


def zeros_like(
    a: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None, *,
    device: Any = None,
) -> Any:  # fmt: skip
    """Zeros, with the dtype and shape of an array unless others are given.

    >>> np.zeros_like(x)
    """
    return full_like(a, 0, dtype, order, subok, shape)


def ones_like(
    a: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None, *,
    device: Any = None,
) -> Any:  # fmt: skip
    """Ones, with the dtype and shape of an array unless others are given.

    >>> np.ones_like(x, np.int64)
    """
    return full_like(a, 1, dtype, order, subok, shape)


empty_like = zeros_like


def diag(v: Any, k: int = 0) -> Any:
    """A matrix with these elements on a diagonal, or the diagonal of a matrix.

    >>> np.diag(v), np.diag(v, -1), np.diag(x, 1)
    """
    v = operand(v)
    if v.ndim == 2:
        return diagonal(v, offset=k)
    if v.ndim != 1:
        raise refuse("diag requires a vector or a matrix", f"{v.ndim} axes")
    if is_integer(v.shape[0]):
        size = int(v.shape[0]) + abs(k)
        if not v.shape[0]:
            return v.constant(np.zeros((size, size), v.dtype))
        rows = np.clip(np.arange(size), 0, int(v.shape[0]) - 1)
        across = v[rows][:, None] if k >= 0 else v[rows][None]
        return where(np.eye(size, k=k, dtype=bool), across, v.lifted(0).astype(v.dtype))
    if k:
        raise refuse("diag beside the main diagonal requires a known size", v.shape[0])
    ones = v.lifted(1).astype(np.int64).broadcast_to(v.shape)
    position = ones.cumsum()
    return where(position.reshape((*v.shape, 1)) == position, v, v.lifted(0).astype(v.dtype))


def diagflat(v: Any, k: int = 0) -> Any:
    """A matrix with the flat elements on a diagonal.

    >>> np.diagflat(x, 1)
    """
    return diag(operand(v).reshape(-1), k)


# Out of nothing: NumPy's own, as tensors ---------------------------------------------------------


def _from_nothing(name: str) -> Callable[..., Any]:
    own = getattr(np, name)

    def function(*arguments: Any, **named: Any) -> Any:
        if any(map(holds_tensors, (*arguments, *named.values()))):
            arguments = tuple(_number(each, name) for each in arguments)
            named = {key: _number(each, name) for key, each in named.items()}
        return _tensors(own(*arguments, **named))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"NumPy's `{name}`, as a tensor."
    function.__wrapped__ = own  # pyright: ignore[reportFunctionMemberAccess]
    return function


def _number(value: Any, name: str) -> Any:
    """An argument as NumPy takes it."""
    tensors = [each for each in leaves(value) if isinstance(each, ArrayOperators)]
    if not all(each.has_values for each in tensors):
        raise refuse(f"{name} requires values that are known", "a tensor that is being traced")
    if not isinstance(value, ArrayOperators):
        return value
    return _numpy.asarray(value) if value.ndim else cast("Any", value).item()


def _tensors(found: Any) -> Any:
    if isinstance(found, tuple):
        return tuple(map(_tensors, cast("tuple[Any, ...]", found)))
    return tensor_of(found)


identity, tri, logspace, geomspace = map(
    _from_nothing, ("identity", "tri", "logspace", "geomspace")
)
bartlett, blackman, hamming, hanning, kaiser = map(
    _from_nothing, ("bartlett", "blackman", "hamming", "hanning", "kaiser")
)
indices, diag_indices, tril_indices, triu_indices = map(
    _from_nothing, ("indices", "diag_indices", "tril_indices", "triu_indices")
)


def fromfunction(
    function: Any, shape: Any, *, dtype: Any = float, like: Any = None, **kw: Any
) -> Any:
    """What a function returns for the indices of each axis."""
    grids = _numpy.indices(tuple(listed(shape)), dtype=dtype)
    return function(*(tensor_of(each) for each in grids), **kw)


# Functions of slices --------------------------------------------------------------------------


def apply_along_axis(func1d: Any, axis: int, arr: Any, *args: Any, **kwargs: Any) -> Any:
    """What a function of vectors returns for each one along an axis.

    >>> np.apply_along_axis(np.cumsum, 0, x), np.apply_along_axis(lambda t: t.sum(), 1, x)
    """
    arr = operand(arr)
    position = axis_of(axis, arr.ndim)
    rest = [each for each in range(arr.ndim) if each != position]
    heads = [known(arr.shape[each], "apply_along_axis") for each in rest]
    flat = arr.transpose(*rest, position).reshape(int(np.prod(heads)), arr.shape[position])
    rows = [func1d(flat[row], *args, **kwargs) for row in range(int(np.prod(heads)))]
    found = stack([operand(each, flat) for each in rows])
    inner = found.ndim - 1
    found = found.reshape((*heads, *found.shape[1:]))
    outer = len(heads)
    order = [*range(position), *range(outer, outer + inner), *range(position, outer)]
    return found.transpose(*order) if found.ndim else found


def apply_over_axes(func: Any, a: Any, axes: Any) -> Any:
    """A function of an array and an axis, for several axes one after the other.

    >>> np.apply_over_axes(np.sum, x, [0, 1])
    """
    found = operand(a)
    for axis in listed(axes):
        position = axis_of(axis, found.ndim)
        after = func(found, position)
        if after.ndim != found.ndim:
            shape = list(after.shape)
            after = after.reshape((*shape[:position], 1, *shape[position:]))
        found = after
    return found


def sliding_window_view(
    x: Any, window_shape: Any, axis: Any = None, *, subok: bool = False, writeable: bool = False
) -> Any:
    """All windows of an array, along new last axes."""
    x = operand(x)
    sizes = listed(window_shape)
    axes = [axis_of(each, x.ndim) for each in (range(x.ndim) if axis is None else listed(axis))]
    if writeable or len(axes) != len(sizes):
        raise refuse("sliding_window_view requires a size for each axis", f"{sizes}, {axes}")
    found = x
    for size, position in zip(sizes, axes, strict=True):
        count = known(found.shape[position], "sliding_window_view") - int(size) + 1
        at = np.arange(count)[:, None] + np.arange(int(size))
        taken = found[(*[slice(None)] * position, at)]
        order = [each for each in range(taken.ndim) if each != position + 1]
        found = taken.transpose(*order, position + 1)
    return found


class Joined:
    """`np.r_` and `np.c_`: what stands in brackets, one behind the other along an axis."""

    def __init__(self, columns: bool):
        self._columns = columns

    def __getitem__(self, index: Any) -> Any:
        given = cast("Any", index) if isinstance(index, tuple) else (index,)
        parts = [_part(each) for each in given]
        if self._columns:
            columns = [each.reshape(-1, 1) if each.ndim < 2 else each for each in parts]
            return concat(columns, columns[0].ndim - 1)
        return concat([each if each.ndim else each.reshape(1) for each in parts], 0)


def _part(part: Any) -> Any:
    if isinstance(part, str):
        raise refuse("np.r_ and np.c_ require arrays, numbers and slices", repr(part))
    if isinstance(part, slice):
        return tensor_of(_numpy.r_[part])
    return array(part) if not isinstance(part, ArrayOperators) else part


r_, c_ = Joined(columns=False), Joined(columns=True)


class Grid:
    """`np.mgrid` and `np.ogrid`: NumPy's own, as tensors."""

    def __init__(self, own: Any):
        self._own = own

    def __getitem__(self, index: Any) -> Any:
        return _tensors(self._own[index])


mgrid, ogrid = Grid(np.mgrid), Grid(np.ogrid)

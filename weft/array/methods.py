"""`ArrayMethods`: the methods of arrays and their keywords, one table for all kinds of tensors.

They are NumPy's, by name, order of arguments and meaning; `clone`, `contiguous`, `permute`, `split`
and `view` are PyTorch's. All are written in functions of arrays and operators.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, Final, Self, cast

import numpy as np

from weft.array import elementwise, products, rearrangements, reductions, selections
from weft.array.operators import Axes, axes_of, axis_of, by_rows, listed, users_line
from weft.array.parts import Parts
from weft.dialects.errors import WeftError

METHODS: Final = (
    "all", "any", "argmax", "argmin", "argpartition", "argsort", "astype", "choose", "clip",
    "clone", "compress", "conj", "conjugate", "contiguous", "copy", "cumprod", "cumsum", "diagonal",
    "dot", "fill", "flatten", "item", "max", "mean", "min", "nonzero", "partition", "permute",
    "prod", "put", "ravel", "repeat", "reshape", "round", "searchsorted", "sort", "split",
    "squeeze", "std", "sum", "swapaxes", "take", "tolist", "trace", "transpose", "var", "view",
)  # fmt: skip
"""All of them, by name."""

VIEWS: Final = frozenset((
    "ascontiguousarray", "atleast_1d", "atleast_2d", "atleast_3d", "broadcast_arrays",
    "broadcast_to", "diag", "diagonal", "expand_dims", "flip", "fliplr", "flipud",
    "matrix_transpose", "moveaxis", "permute", "permute_dims", "ravel", "reshape", "rollaxis",
    "rot90", "squeeze", "swapaxes", "transpose", "view",
))  # fmt: skip
"""Methods, and functions of NumPy, whose results show elements of the array itself."""

SAME: Final = frozenset((
    "asanyarray", "asarray", "ascontiguousarray", "astype", "atleast_1d", "atleast_2d",
    "atleast_3d", "contiguous", "diff", "array", "matrix_power", "nan_to_num", "real",
    "real_if_close",
))  # fmt: skip
"""Those that give the array itself, where NumPy's do; what others give is another array."""


class ArrayMethods(Parts):
    """A tensor with the methods of arrays. Those do not take `out`; functions do."""

    __slots__ = ()

    @abstractmethod
    def item(self, *index: Any) -> Any:
        """The one element, or that at an index, as a number of Python's."""

    @abstractmethod
    def tolist(self) -> Any:
        """Nested lists of Python's numbers."""

    @abstractmethod
    def __setitem__(self, index: Any, value: Any) -> None: ...

    def fill(self, value: Any) -> None:
        """Gives all elements one value."""
        self[...] = value

    def sort(
        self, axis: int = -1, kind: Any = None, order: None = None, *, stable: Any = None
    ) -> None:
        """Puts the elements along an axis in sorted order."""
        self[...] = selections.sort(self, axis)

    # NumPy's and the standard's protocols --------------------------------------------------------

    def __array_namespace__(self, api_version: str | None = None) -> Any:
        """The functions of the array API standard on it."""
        return import_module("weft.numpy")

    def __array_ufunc__(self, function: Any, method: str, *operands: Any, **named: Any) -> Any:
        """What NumPy calls for its functions of each element, and for operators of its arrays."""
        dispatch = import_module("weft.array_api.dispatch")
        return dispatch.of_elements(function, method, operands, named)

    def __array_function__(
        self, function: Any, types: Any, arguments: Sequence[Any], named: Mapping[str, Any]
    ) -> Any:
        """What NumPy calls for its other functions."""
        dispatch = import_module("weft.array_api.dispatch")
        return dispatch.of_arrays(function, types, arguments, named)

    # Reductions -------------------------------------------------------------------------------

    def sum(
        self,
        axis: Axes = None,
        dtype: Any = None,
        out: None = None,
        keepdims: bool = False,
        initial: Any = None,
        where: Any = True,
    ) -> Self:
        """The sum over axes, of 64 bits for integers; of bools how many hold."""
        if dtype is out is initial is None and where is True:
            return self.as_wide().reduced("reduce_sum", axis, keepdims)
        found = self._counted("sum", 0, dtype, out, where)
        total = found.as_wide().reduced("reduce_sum", axis, keepdims)
        total = total if initial is None else total + total.lifted(initial).astype(total.dtype)
        return total if dtype is None else total.astype(dtype)

    def prod(
        self,
        axis: Axes = None,
        dtype: Any = None,
        out: None = None,
        keepdims: bool = False,
        initial: Any = None,
        where: Any = True,
    ) -> Self:
        """The product over axes, of 64 bits for integers."""
        found = self._counted("prod", 1, dtype, out, where)
        total = found.as_wide().reduced("reduce_prod", axis, keepdims)
        total = total if initial is None else total * total.lifted(initial).astype(total.dtype)
        return total if dtype is None else total.astype(dtype)

    def mean(
        self,
        axis: Axes = None,
        dtype: Any = None,
        out: None = None,
        keepdims: bool = False,
        *,
        where: Any = True,
    ) -> Self:
        """The mean over axes."""
        if dtype is out is None and where is True:
            return self.as_float().reduced("reduce_mean", axis, keepdims)
        found = self._counted("mean", 0, dtype, out, where).as_float()
        if where is True:
            mean = found.reduced("reduce_mean", axis, keepdims)
        else:
            mean = found.sum(axis, keepdims=keepdims) / self._held(where, axis, keepdims, found)
        return mean if dtype is None else mean.astype(dtype)

    def _counted(self, who: str, neutral: int, dtype: Any, out: Any, where: Any) -> Self:
        """The elements in the dtype that is asked for, neutral ones where they do not count."""
        refuse_out(who, out)
        if isinstance(dtype, bool):
            rule = f"{who} requires a dtype behind the axis"
            raise TypeError(f"{users_line()}: {rule}, got {dtype} (keepdims={dtype})")
        found = self if dtype is None else self.astype(dtype)
        return found if where is True else elementwise.where(where, found, neutral)

    def _held(self, where: Any, axis: Axes, keepdims: bool, like: Any) -> Self:
        """How many elements over axes a mask chooses, in the dtype of a mean of them."""
        mask = self.lifted(where).astype(np.bool_).broadcast_to(self.shape)
        return mask.sum(axis, keepdims=keepdims).astype(like.dtype)

    def max(
        self,
        axis: Axes = None,
        out: None = None,
        keepdims: bool = False,
        initial: Any = None,
        where: Any = True,
    ) -> Self:
        """The greatest element over axes, and `initial`."""
        if out is initial is None and where is True and 0 not in self.shape:
            return self.reduced("reduce_max", axis, keepdims)
        chosen = self._bounded("max", axis, out, initial, where)
        found = chosen.reduced("reduce_max", axis, keepdims)
        return found if initial is None else elementwise.maximum(found, initial)

    def min(
        self,
        axis: Axes = None,
        out: None = None,
        keepdims: bool = False,
        initial: Any = None,
        where: Any = True,
    ) -> Self:
        """The least element over axes, and `initial`."""
        if out is initial is None and where is True and 0 not in self.shape:
            return self.reduced("reduce_min", axis, keepdims)
        chosen = self._bounded("min", axis, out, initial, where)
        found = chosen.reduced("reduce_min", axis, keepdims)
        return found if initial is None else elementwise.minimum(found, initial)

    def _bounded(self, who: str, axis: Axes, out: Any, initial: Any, where: Any) -> Self:
        """The elements, `initial` where they do not count. Raises ValueError for the extremum of
        nothing.
        """
        refuse_out(who, out)
        if initial is None:
            if where is not True:
                rule = f"{who} with where requires initial"
                raise ValueError(f"{users_line()}: {rule}, got none")
            self._require_elements(who, axis)
        return self if where is True else elementwise.where(where, self, initial)

    def _require_elements(self, who: str, axis: Axes) -> None:
        shape = self.shape
        if any(shape[each] == 0 for each in axes_of(axis, self.ndim)):
            rule = f"{who} requires an element"
            raise ValueError(f"{users_line()}: {rule}, got an axis of size 0")

    def var(
        self,
        axis: Axes = None,
        dtype: Any = None,
        out: None = None,
        ddof: float = 0,
        keepdims: bool = False,
        *,
        where: Any = True,
        mean: Any = None,
        correction: float | None = None,
    ) -> Any:
        """The mean square distance from the mean over axes; `ddof`, or `correction`, is taken off
        the number of elements.
        """
        refuse_out("var", out)
        less = ddof if correction is None else correction
        found = (self if dtype is None else self.astype(dtype)).as_float()
        if where is True and mean is None:
            return reductions.var(found, axis, less, keepdims)
        centre = found.mean(axis, keepdims=True, where=where) if mean is None else mean
        distance = found - centre
        total = (distance * distance).sum(axis, keepdims=keepdims, where=where)
        return total / (found._held(where, axis, keepdims, found) - less)

    def std(
        self,
        axis: Axes = None,
        dtype: Any = None,
        out: None = None,
        ddof: float = 0,
        keepdims: bool = False,
        *,
        where: Any = True,
        mean: Any = None,
        correction: float | None = None,
    ) -> Any:
        """The square root of the variance over axes."""
        refuse_out("std", out)
        if dtype is None and where is True and mean is None:
            less = ddof if correction is None else correction
            return reductions.std(self.as_float(), axis, less, keepdims)
        given = {"where": where, "mean": mean, "correction": correction}
        return elementwise.root_of_sums(self.var(axis, dtype, None, ddof, keepdims, **given))

    def any(
        self, axis: Axes = None, out: None = None, keepdims: bool = False, *, where: Any = True
    ) -> Any:
        """Whether an element over axes is not zero."""
        found = self._counted("any", False, None, out, where)
        return reductions.any(found, axis, keepdims)

    def all(
        self, axis: Axes = None, out: None = None, keepdims: bool = False, *, where: Any = True
    ) -> Any:
        """Whether no element over axes is zero."""
        found = self._counted("all", True, None, out, where)
        return reductions.all(found, axis, keepdims)

    def argmax(self, axis: int | None = None, out: None = None, *, keepdims: bool = False) -> Any:
        """The place of the greatest element along an axis, or in the flat tensor."""
        refuse_out("argmax", out)
        self._require_elements("argmax", axis)
        return selections.argmax(self, axis, keepdims)

    def argmin(self, axis: int | None = None, out: None = None, *, keepdims: bool = False) -> Any:
        """The place of the least element along an axis, or in the flat tensor."""
        refuse_out("argmin", out)
        self._require_elements("argmin", axis)
        return selections.argmin(self, axis, keepdims)

    def cumsum(self, axis: int | None = None, dtype: Any = None, out: None = None) -> Any:
        """The sums of the elements up to each along an axis, or in the flat tensor."""
        refuse_out("cumsum", out)
        flat = self.ravel() if axis is None else self
        return reductions.cumulative_sum(flat, axis=axis or 0, dtype=dtype)

    def cumprod(self, axis: int | None = None, dtype: Any = None, out: None = None) -> Any:
        """The products of the elements up to each along an axis, or in the flat tensor."""
        refuse_out("cumprod", out)
        flat = self.ravel() if axis is None else self
        return reductions.cumulative_prod(flat, axis=axis or 0, dtype=dtype)

    def trace(
        self, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, out: None = None
    ) -> Any:
        """The sums of a diagonal of two axes."""
        refuse_out("trace", out)
        matrices = rearrangements.moveaxis(self, (axis1, axis2), (-2, -1))
        return products.trace(matrices, offset=offset, dtype=dtype)

    def dot(self, b: Any, out: None = None) -> Any:
        """The sums of products over the last axis, and the last but one of `b`."""
        refuse_out("dot", out)
        other = self.lifted(b)
        if not self.ndim or not other.ndim:
            return self * other
        return products.tensordot(self, other, axes=([-1], [max(-2, -other.ndim)]))

    # Elements ---------------------------------------------------------------------------------

    def clip(self, min: Any = None, max: Any = None, out: None = None) -> Any:
        """The elements brought between two bounds."""
        refuse_out("clip", out)
        return elementwise.clip(self, min, max)

    def round(self, decimals: int = 0, out: None = None) -> Any:
        """The elements rounded to so many digits behind the point, halves to even digits."""
        refuse_out("round", out)
        is_whole = self.dtype.kind in "iu"
        if decimals >= 0 and is_whole:
            return self.duplicate()
        if decimals == 0:
            return elementwise.round(self)
        scale = 10.0 ** abs(decimals)
        wide = self.as_float()
        if decimals > 0:
            return elementwise.round(wide * scale) / scale
        return (elementwise.round(wide / scale) * scale).astype(self.dtype)

    def argsort(
        self, axis: int | None = -1, kind: Any = None, order: None = None, *, stable: Any = None
    ) -> Any:
        """The places of the elements along an axis, or in the flat tensor, in sorted order; equal
        ones keep theirs, whatever `kind` of sort is asked for.
        """
        flat = self.ravel() if axis is None else self
        return selections.argsort(flat, -1 if axis is None else axis)

    def searchsorted(self, v: Any, side: str = "left", sorter: Any = None) -> Any:
        """The places of the sorted vector in front of which elements go, behind with "right"."""
        return selections.searchsorted(self, v, side=side, sorter=sorter)

    def _require_axis(self) -> None:
        if not self.ndim:
            rule = "nonzero requires an axis"
            raise ValueError(f"{users_line()}: {rule}, got a tensor without one")

    def take(
        self, indices: Any, axis: int | None = None, out: None = None, mode: str = "raise"
    ) -> Any:
        """The slices along an axis, or the elements of the flat tensor, at these places."""
        refuse_out("take", out)
        if mode != "raise":
            raise WeftError(f"{users_line()}: take requires the mode 'raise', got {mode!r}")
        flat = self.ravel() if axis is None else self
        return selections.take(flat, indices, axis or 0)

    # Shapes -----------------------------------------------------------------------------------

    def copy(self, order: str = "C") -> Self:
        """Another array of the same elements."""
        return self

    def clone(self) -> Self:
        """`copy`, by PyTorch's name."""
        return self.copy()

    def contiguous(self) -> Self:
        """Itself: elements always stand without gaps."""
        return self

    def ravel(self, order: str = "C") -> Self:
        """All elements along one axis, by rows or with "F" by columns."""
        if not by_rows("ravel", order):
            return self.transpose().ravel()
        return self.showing(self.shaped(-1))

    def flatten(self, order: str = "C") -> Self:
        """All elements along one axis, by rows or with "F" by columns."""
        return (self if by_rows("flatten", order) else self.transpose()).shaped(-1)

    def view(self, *shape: Any) -> Self:
        """Other dims for the same elements; for a dtype of as many bytes their bits as that."""
        if len(shape) != 1 or not isinstance(shape[0], str | type | np.dtype):
            return self.reshape(*shape)
        dtype: np.dtype[Any] = np.dtype(cast("Any", shape[0]))
        if dtype.itemsize != self.dtype.itemsize or "b" in (dtype.kind, self.dtype.kind):
            rule = f"a view of {self.dtype} requires a dtype of as many bytes"
            raise WeftError(f"{users_line()}: {rule}, got {dtype}")
        return self if dtype == self.dtype else self.op("bitcast", self, to=dtype)

    def permute(self, *dims: Any) -> Self:
        """`transpose`, by PyTorch's name."""
        return self.transpose(*dims)

    def swapaxes(self, axis1: int, axis2: int) -> Self:
        """Two axes exchanged."""
        order = list(range(self.ndim))
        first, second = axis_of(axis1, self.ndim), axis_of(axis2, self.ndim)
        order[first], order[second] = second, first
        return self.transpose(*order)

    def squeeze(self, axis: Axes = None) -> Any:
        """The tensor without axes of size 1: these, or all that are known to be."""
        ones = [position for position, size in enumerate(self.shape) if size == 1]
        return rearrangements.squeeze(self, ones if axis is None else axis)

    def repeat(self, repeats: Any, axis: int | None = None) -> Any:
        """Each slice along an axis, or each element, so many times."""
        return rearrangements.repeat(self, repeats, axis)

    def diagonal(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
        """The elements of a diagonal of two axes, along a new last axis."""
        matrices = rearrangements.moveaxis(self, (axis1, axis2), (-2, -1))
        return products.diagonal(matrices, offset=offset)

    def split(self, split_size: Any, dim: int = 0) -> tuple[Any, ...]:
        """Parts of one size along an axis, the last one of what is left, or of the sizes in a list,
        as PyTorch's tensors give them.
        """
        axis = axis_of(dim, self.ndim)
        extent = self.shape[axis]
        sizes: list[int] = listed(split_size)
        if isinstance(split_size, int) and isinstance(extent, int) and split_size > 0:
            whole, rest = divmod(extent, split_size)
            sizes = [split_size] * whole + [rest] * (rest > 0)
        if sum(sizes) != extent and (isinstance(extent, int) or isinstance(split_size, int)):
            rule = f"split requires sizes that add up to the axis of {extent}"
            raise WeftError(f"{users_line()}: {rule}, got {split_size}")
        return tuple(_parts(self, axis, sizes))


def _parts(x: Any, axis: int, sizes: Sequence[int]) -> list[Any]:
    """Consecutive parts along an axis."""
    front, ends = (slice(None),) * axis, np.cumsum([0, *sizes]).tolist()
    return [x[(*front, slice(*pair))] for pair in zip(ends[:-1], ends[1:], strict=True)]


def refuse_out(who: str, out: Any) -> None:
    """Refuses memory for a result, which no tensor has. Raises WeftError, which names the line."""
    if any(each is not None for each in listed(out)):
        advice = f"bind what {who} gives to a name"
        raise WeftError(f"{users_line()}: {who} requires no out, got one ({advice})")

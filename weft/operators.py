"""`ArrayOperators`: the operators and methods of NumPy's arrays, for every kind of weft's tensors.

A kind says how one graph operator is applied: tensors of values compute it at once, traced ones
append it to a graph. All that is built of operators stands here, once.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Final, Self

import numpy as np

HERE: Final = str(Path(__file__).parent)
Axes = int | Sequence[int] | None


RUNNING: ContextVar[Callable[[], str] | None] = ContextVar("RUNNING", default=None)
"""Says which line runs, while source mode reads a program."""


def users_line() -> str:
    """The line outside of this package that is running, as `file.py:12`."""
    running = RUNNING.get()
    if running is not None:
        return running()
    frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    while frame.f_back is not None and frame.f_code.co_filename.startswith(HERE):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def listed(argument: Any) -> list[Any]:
    """What stands in a tuple or a list; anything else alone."""
    return [*argument] if isinstance(argument, tuple | list) else [argument]


@lru_cache(maxsize=None, typed=True)  # False, 0 and 0.0 are one key otherwise
def common_dtype(*kinds: Any) -> np.dtype[Any]:
    """What NumPy promotes dtypes, and what stands for them, to."""
    return np.result_type(*kinds)


@cache
def number_dtype(kind: type, beside: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype of a Python number beside a tensor: the tensor's, but for an int beside bools and
    a float beside integers, which are those of 64 bits.
    """
    if issubclass(kind, float):
        return beside if beside.kind not in "biu" else np.dtype(np.float64)
    return np.dtype(np.int64) if beside.kind == "b" and kind is not bool else beside


def _functions() -> Any:
    """`weft.numpy`, which is written in the methods here."""
    from weft import numpy

    return numpy


class ArrayOperators(ABC):
    """A tensor. Dtypes are those of NumPy (its NEP 50, which the array API allows), in every mode:
    two are brought to the one that NumPy promotes them to, Python's numbers take that of the tensor
    beside them where it can hold their kind, and integers count as float64 where floats are needed.
    """

    __slots__ = ()
    __array_priority__ = 1000  # so that NumPy leaves operators to this class

    @property
    @abstractmethod
    def dtype(self) -> np.dtype[Any]:
        """The element type as NumPy knows it."""

    @property
    def promoting(self) -> Any:
        """What stands for it where NumPy looks for a common dtype."""
        return self.dtype

    @property
    @abstractmethod
    def shape(self) -> tuple[Any, ...]:
        """Sizes."""

    @property
    @abstractmethod
    def ndim(self) -> int:
        """The number of axes."""

    @abstractmethod
    def results(self, name: str, *operands: Any, **attributes: Any) -> list[Any]:
        """All results of the graph operator of that name on tensors, which need not be this one."""

    @abstractmethod
    def constant(self, value: Any) -> Self:
        """A tensor of this kind with the elements of an array."""

    @abstractmethod
    def reshape(self, *shape: Any) -> Self:
        """Other dims for the same elements in the same order; one may be -1."""

    @abstractmethod
    def broadcast_to(self, shape: Sequence[Any]) -> Self:
        """The elements repeated along new axes in front and along those of size 1."""

    @abstractmethod
    def holding(self) -> Self:
        """Where bools are true, an index vector a row, as many as there are."""

    @abstractmethod
    def __getitem__(self, index: Any) -> Self: ...

    def op(self, name: str, *operands: Any, **attributes: Any) -> Any:
        """The first result of an operator on tensors that have the dtypes that it needs."""
        return self.results(name, *operands, **attributes)[0]

    def apply(self, name: str, *others: Any, **attributes: Any) -> Self:
        """An operator on this tensor and others, brought to one dtype."""
        return self.op(name, *self.promoted(*others), **attributes)

    def promoted(self, *others: Any) -> list[Self]:
        """This tensor and others as tensors of one dtype."""
        arrays = [self, *[self.lifted(other) for other in others]]
        promoting = [array.promoting for array in arrays]
        if promoting.count(promoting[0]) == len(promoting) and promoting[0] is self.dtype:
            return arrays
        common = common_dtype(*promoting)
        return [array.astype(common) for array in arrays]

    def lifted(self, other: Any) -> Self:
        """A number, an array or a tensor of another kind as a tensor of this kind."""
        if isinstance(other, bool | int | float):
            return self.constant(np.asarray(other, number_dtype(type(other), self.dtype)))
        return self.constant(np.asarray(other))

    def __array_namespace__(self, api_version: str | None = None) -> Any:
        """The functions of the array API standard on it."""
        return _functions()

    @property
    def size(self) -> Any:
        """The number of elements."""
        count: Any = 1
        for extent in self.shape:
            count = extent * count
        return count

    @property
    def T(self) -> Self:  # noqa: N802  NumPy's name
        """All axes reversed."""
        return self.transpose()

    @property
    def mT(self) -> Self:  # noqa: N802  the array API's name
        """The last two axes exchanged."""
        return self.transpose(*range(self.ndim - 2), self.ndim - 1, self.ndim - 2)

    def astype(self, dtype: Any) -> Self:
        """The elements converted; the tensor itself where there is nothing to convert."""
        wanted = np.dtype(dtype)
        return self if wanted == self.dtype else self.op("cast", self, to=wanted)

    def transpose(self, *axes: Any) -> Self:
        """The axes in another order; without one reversed."""
        given = listed(axes[0]) if len(axes) == 1 else axes
        order = [axis % self.ndim for axis in given] or list(reversed(range(self.ndim)))
        return self.op("transpose", self, permutation=order)

    def reduced(self, name: str, axis: Axes, keepdims: bool, **attributes: Any) -> Self:
        """A reduction over one axis, several, or all."""
        axes = range(self.ndim) if axis is None else [axis] if isinstance(axis, int) else axis
        chosen = [each % max(1, self.ndim) for each in axes]
        return self.op(name, self, axes=chosen, keepdims=keepdims, **attributes) if chosen else self

    def sum(self, axis: Axes = None, keepdims: bool = False) -> Self:
        """The sum over axes, of 64 bits for integers; of bools how many hold."""
        return self.as_wide().reduced("reduce_sum", axis, keepdims)

    def mean(self, axis: Axes = None, keepdims: bool = False) -> Self:
        """The mean over axes."""
        return self.as_float().reduced("reduce_mean", axis, keepdims)

    def prod(self, axis: Axes = None, keepdims: bool = False) -> Self:
        """The product over axes, of 64 bits for integers."""
        return self.as_wide().reduced("reduce_prod", axis, keepdims)

    def max(self, axis: Axes = None, keepdims: bool = False) -> Self:
        """The greatest element over axes."""
        return self.reduced("reduce_max", axis, keepdims)

    def min(self, axis: Axes = None, keepdims: bool = False) -> Self:
        """The least element over axes."""
        return self.reduced("reduce_min", axis, keepdims)

    def var(self, axis: Axes = None, correction: float = 0.0, keepdims: bool = False) -> Any:
        """The mean square distance from the mean over axes."""
        return _functions().var(self, axis, correction, keepdims)

    def std(self, axis: Axes = None, correction: float = 0.0, keepdims: bool = False) -> Any:
        """The square root of the variance over axes."""
        return _functions().std(self, axis, correction, keepdims)

    def argmax(self, axis: int | None = None, keepdims: bool = False) -> Any:
        """The place of the greatest element along an axis, or in the flat tensor."""
        return _functions().argmax(self, axis, keepdims)

    def argmin(self, axis: int | None = None, keepdims: bool = False) -> Any:
        """The place of the least element along an axis, or in the flat tensor."""
        return _functions().argmin(self, axis, keepdims)

    def any(self, axis: Axes = None, keepdims: bool = False) -> Any:
        """Whether an element over axes is not zero."""
        return _functions().any(self, axis, keepdims)

    def all(self, axis: Axes = None, keepdims: bool = False) -> Any:
        """Whether no element over axes is zero."""
        return _functions().all(self, axis, keepdims)

    def copy(self) -> Self:
        """Itself, since a tensor never changes."""
        return self

    def as_float(self) -> Self:
        """Itself, or float64 where the elements are no floats."""
        return self if self.dtype.kind not in "biu" else self.astype(np.float64)

    def as_wide(self) -> Self:
        """Integers and bools as integers of 64 bits."""
        kind = self.dtype.kind
        return self.astype(np.uint64 if kind == "u" else np.int64) if kind in "biu" else self

    def __add__(self, other: Any) -> Self:
        return self.apply("add", other)

    def __radd__(self, other: Any) -> Self:
        return self.lifted(other) + self

    def __sub__(self, other: Any) -> Self:
        return self.apply("sub", other)

    def __rsub__(self, other: Any) -> Self:
        return self.lifted(other) - self

    def __mul__(self, other: Any) -> Self:
        return self.apply("mul", other)

    def __rmul__(self, other: Any) -> Self:
        return self.lifted(other) * self

    def __truediv__(self, other: Any) -> Self:
        dividend, divisor = (each.as_float() for each in self.promoted(other))
        return dividend.op("div", dividend, divisor)

    def __rtruediv__(self, other: Any) -> Self:
        return self.lifted(other) / self

    def __floordiv__(self, other: Any) -> Self:
        dividend, divisor = self.promoted(other)
        if dividend.dtype.kind not in "biu":
            return dividend.op("floor", dividend.op("div", dividend, divisor))
        rest = dividend.op("mod", dividend, divisor, fmod=False)
        return dividend.op("div", dividend.op("sub", dividend, rest), divisor)

    def __rfloordiv__(self, other: Any) -> Self:
        return self.lifted(other) // self

    def __mod__(self, other: Any) -> Self:
        return self.apply("mod", other, fmod=False)

    def __rmod__(self, other: Any) -> Self:
        return self.lifted(other) % self

    def __divmod__(self, other: Any) -> tuple[Self, Self]:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> tuple[Self, Self]:
        return divmod(self.lifted(other), self)

    def __pow__(self, other: Any) -> Self:
        return self.apply("pow", other)

    def __rpow__(self, other: Any) -> Self:
        return self.lifted(other) ** self

    def __matmul__(self, other: Any) -> Self:
        return self.apply("matmul", other)

    def __rmatmul__(self, other: Any) -> Self:
        return self.lifted(other) @ self

    def __neg__(self) -> Self:
        return self.apply("neg")

    def __pos__(self) -> Self:
        return self

    def __abs__(self) -> Self:
        return self.apply("abs")

    def __invert__(self) -> Self:
        return self.apply("logical_not" if self.dtype == np.bool_ else "bitwise_not")

    def __and__(self, other: Any) -> Self:
        return self._joined("and", other)

    def __or__(self, other: Any) -> Self:
        return self._joined("or", other)

    def __xor__(self, other: Any) -> Self:
        return self._joined("xor", other)

    __rand__, __ror__, __rxor__ = __and__, __or__, __xor__

    def _joined(self, name: str, other: Any) -> Self:
        both = self.promoted(other)
        kind = "logical" if both[0].dtype == np.bool_ else "bitwise"
        return self.op(f"{kind}_{name}", *both)

    def __lshift__(self, other: Any) -> Self:
        return self._shifted("LEFT", other)

    def __rshift__(self, other: Any) -> Self:
        return self._shifted("RIGHT", other)

    def __rlshift__(self, other: Any) -> Self:
        return self.lifted(other) << self

    def __rrshift__(self, other: Any) -> Self:
        return self.lifted(other) >> self

    def _shifted(self, direction: str, other: Any) -> Self:
        return self.op("bit_shift", *self.promoted(other), direction=direction)

    def __lt__(self, other: Any) -> Self:
        return self.apply("less", other)

    def __le__(self, other: Any) -> Self:
        return self.apply("less_equal", other)

    def __gt__(self, other: Any) -> Self:
        return self.apply("greater", other)

    def __ge__(self, other: Any) -> Self:
        return self.apply("greater_equal", other)

    def __eq__(self, other: Any) -> Self:  # pyright: ignore[reportIncompatibleMethodOverride]
        return self.apply("equal", other)

    def __ne__(self, other: Any) -> Self:  # pyright: ignore[reportIncompatibleMethodOverride]
        return ~(self == other)

    __hash__ = object.__hash__

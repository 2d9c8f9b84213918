"""`ArrayOperators`: the operators and methods of NumPy's arrays, for every kind of weft's tensors.

A kind says how one graph operator is applied: tensors of values compute it at once, traced ones
append it to a graph. All that is built of operators stands here, once.
"""

from __future__ import annotations

import os
import sys
from abc import ABCMeta, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from functools import cache, lru_cache
from importlib import import_module
from operator import index
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self, TypeGuard, cast

import numpy as np

from weft.array.bools import on_bools
from weft.array.division import floored, whole

NOT_USERS: Final = (f"{Path(__file__).parents[1]}{os.sep}", f"{Path(np.__file__).parent}{os.sep}")
"""Folders whose functions no line of a user's program is in."""
Axes = int | Sequence[int] | None


RUNNING: ContextVar[Callable[[], str] | None] = ContextVar("RUNNING", default=None)
"""Says which line runs, while source mode reads a program."""


def users_line() -> str:
    """The line of the user's program that is running, as `file.py:12`."""
    running = RUNNING.get()
    if running is not None:
        return running()
    frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    while frame.f_back is not None and frame.f_code.co_filename.startswith(NOT_USERS):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def listed(argument: Any) -> list[Any]:
    """What stands in a tuple or a list; anything else alone."""
    return [*cast("Any", argument)] if isinstance(argument, tuple | list) else [argument]


@lru_cache(maxsize=None, typed=True)  # False, 0 and 0.0 are one key otherwise
def common_dtype(*operands: Any) -> np.dtype[Any]:
    """What NumPy promotes dtypes, and what stands for them, to."""
    return np.result_type(*operands)


@cache
def number_dtype(number_type: type, dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype of a Python number beside a tensor: the tensor's, but the one of 64 bits for an int
    beside bools, and a float or complex number beside integers."""
    if issubclass(number_type, complex):
        return np.result_type(dtype if dtype.kind not in "biu" else np.float64, np.complex64)
    if issubclass(number_type, float):
        return dtype if dtype.kind not in "biu" else np.dtype(np.float64)
    return np.dtype(np.int64) if dtype.kind == "b" and number_type is not bool else dtype


def by_rows(who: str, order: Any) -> bool:
    """Whether an order of elements is by rows; "F" is by columns. Raises ValueError for others."""
    if order not in ("C", "A", "K", "F"):
        rule = f"{who} requires the order of elements 'C', 'A', 'K' or 'F'"
        raise ValueError(f"{users_line()}: {rule}, got {order!r}")
    return order != "F"


def is_number(value: Any) -> TypeGuard[float]:
    """Whether it is a number of Python, which takes the dtype of a tensor beside it; scalars of
    NumPy's have their own, though some are floats of Python too.
    """
    return isinstance(value, bool | int | float | complex) and not isinstance(value, np.generic)


def axis_of(axis: Any, rank: int) -> int:
    """An axis, counted from the front. Raises AxisError for one that `rank` axes do not have."""
    position = axis if type(axis) is int else index(axis)
    if not -rank <= position < rank:
        rule = f"an axis requires a number within {rank} axes"
        raise np.exceptions.AxisError(f"{users_line()}: {rule}, got {axis}")
    return position % rank


def axes_of(axis: Any, rank: int) -> list[int]:
    """One axis, several, or all where None is given, counted from the front; a tensor without axes
    takes 0 and -1 for none, as NumPy does. Raises AxisError for one that is not there, ValueError
    for one that is named twice.
    """
    if axis is None:
        return list(range(rank))
    given: list[Any] = listed(axis)
    if not rank and given in ([0], [-1]):
        return []
    axes = [axis_of(each, rank) for each in given]
    if len({*axes}) != len(axes):
        raise ValueError(f"{users_line()}: axes require each one once, got {tuple(given)}")
    return axes


@lru_cache(maxsize=1024)
def order_of(axes: tuple[Any, ...], rank: int) -> tuple[int, ...]:
    """The axes that a transpose is called with, counted from the front; all of them reversed
    without one. Raises AxisError for one that is not there, ValueError for too few.
    """
    if axes in ((), (None,)):
        return tuple(reversed(range(rank)))
    order = axes_of(axes, rank)
    if len(order) != rank:
        rule = f"a transpose requires each of {rank} axes"
        raise ValueError(f"{users_line()}: {rule}, got {len(order)}")
    return tuple(order)


# Functions of arrays ask each time whether something is one, which takes a third of the time where
# the class is a plain one: abstract methods are for the type checker.
ArrayClass = ABCMeta if TYPE_CHECKING else type


class ArrayOperators(metaclass=ArrayClass):
    """A tensor. Dtypes are those of NumPy (its NEP 50, which the array API allows), in every mode:
    two are brought to the one that NumPy promotes them to, Python's numbers take that of the tensor
    beside them where it can hold their kind, and integers count as float64 where floats are needed.
    """

    __slots__ = ()
    has_values: ClassVar[bool] = False
    """Whether the elements are there; otherwise a graph is being made of them."""

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
    def shaped(self, shape: Any) -> Self:
        """Other dims, or one, for the same elements in the same order; one may be -1."""

    @abstractmethod
    def broadcast_to(self, shape: Sequence[Any]) -> Self:
        """The elements repeated along new axes in front and along those of size 1."""

    @abstractmethod
    def nonzero(self) -> tuple[Any, ...]:
        """The places of the elements that are not zero, a vector an axis."""

    def rolled(self, moves: Sequence[tuple[int, Any]]) -> Self:
        """The elements moved on along axes, by so many places each; the last ones come first."""
        found = self
        for axis, shift in moves:
            front, size = (slice(None),) * axis_of(axis, self.ndim), self.shape[axis]
            by = shift % size if isinstance(size, int) and size else shift
            if by:
                parts = found[(*front, slice(-by, None))], found[(*front, slice(None, -by))]
                found = self.op("concat", *parts, axis=axis_of(axis, self.ndim))
        return found

    @abstractmethod
    def require_within(self, size: Any) -> None:
        """Refuses integers that are no index of an axis of that size, as far as they are known.
        Raises IndexError, which names the line.
        """

    @property
    def numbers(self) -> tuple[type, ...]:
        """Types of Python's numbers that become tensors of this dtype before they are operands."""
        return ()

    def number(self, value: float) -> Self:
        """A number of Python's as a tensor beside this one."""
        return self.lifted(value)

    def composed(
        self, function: Callable[..., Any], operands: Sequence[Any], attributes: Mapping[str, Any]
    ) -> Any:
        """What a function of tensors, one of which is this one, returns."""
        return function(*map(self.lifted, operands), **attributes)

    @abstractmethod
    def __getitem__(self, index: Any) -> Self: ...

    def extent(self, value: Any) -> Any:
        """A size that a program names, as sizes of tensors of this kind are."""
        return int(value)

    def op(self, name: str, *operands: Any, **attributes: Any) -> Any:
        """The first result of an operator on tensors that have the dtypes that it needs."""
        return self.results(name, *operands, **attributes)[0]

    def apply(self, name: str, *others: Any, **attributes: Any) -> Self:
        """An operator on this tensor and others, brought to one dtype."""
        operands = self.promoted(*others)
        of_bools = operands[0].dtype == np.bool_
        return (on_bools if of_bools else type(self).op)(self, name, *operands, **attributes)

    def promoted(self, *others: Any) -> list[Self]:
        """This tensor and others as tensors of one dtype."""
        arrays = [self, *[self.lifted(other) for other in others]]
        promoting = [array.promoting for array in arrays]
        if promoting.count(promoting[0]) == len(promoting) and promoting[0] is self.dtype:
            return arrays
        common = common_dtype(*promoting)
        return [array.astype(common) for array in arrays]

    def lifted(self, other: Any) -> Self:
        """A number, an array, a tensor of another kind or a list of such as one of this kind."""
        if isinstance(other, list | tuple):
            return import_module("weft.array.rearrangements").of_list(self, other)
        dtype = number_dtype(type(other), self.dtype) if is_number(other) else None
        return self.constant(np.asarray(other, dtype))

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

    def reshape(self, *shape: Any, order: str = "C", copy: bool | None = None) -> Self:
        """Other dims for the same elements in the same order, by rows or with "F" by columns; one
        may be -1.
        """
        given = shape[0] if len(shape) == 1 else shape
        if by_rows("reshape", order):
            return self.showing(self.shaped(given))
        return self.transpose().shaped(listed(given)[::-1]).transpose()

    def astype(
        self,
        dtype: Any,
        order: str = "K",
        casting: Any = "unsafe",
        subok: bool = True,
        copy: bool | None = True,
    ) -> Self:
        """The elements converted; the tensor itself where there is nothing to convert. Raises
        TypeError for a conversion that `casting`, one of NumPy's rules, does not allow.
        """
        wanted = np.dtype(dtype)
        if wanted == self.dtype:
            return self.duplicate() if copy else self
        if casting != "unsafe" and not np.can_cast(self.dtype, wanted, casting):
            rule = f"astype requires what casting={casting!r} allows"
            raise TypeError(f"{users_line()}: {rule}, got {self.dtype} to {wanted}")
        if wanted.kind == "c" and self.dtype.kind != "c":
            return import_module("weft.array.complex_numbers").from_real(self, wanted)
        return self.cast(wanted)

    def duplicate(self) -> Self:
        """An array of its own of the same elements, where arrays change."""
        return self

    def showing(self, found: Any) -> Any:
        """A reshape of this tensor, which may show its elements."""
        return found

    def regrouped(self, shape: Any) -> Self:
        """Other dims for the same elements, of which NumPy always makes a view."""
        return self.shaped(shape)

    def cast(self, wanted: np.dtype[Any]) -> Self:
        """The elements converted to another dtype than their own."""
        return self.op("cast", self, to=wanted)

    def transpose(self, *axes: Any) -> Self:
        """The axes in another order; without one reversed."""
        given = tuple(listed(axes[0])) if len(axes) == 1 else axes
        return self.op("transpose", self, permutation=[*order_of(given, self.ndim)])

    def reduced(self, name: str, axis: Axes, keepdims: bool, **attributes: Any) -> Self:
        """A reduction over one axis, several, or all."""
        chosen = axes_of(axis, self.ndim)
        return self.op(name, self, axes=chosen, keepdims=keepdims, **attributes) if chosen else self

    def as_float(self) -> Self:
        """Itself, or float64 where the elements are no floats."""
        return self if self.dtype.kind not in "biu" else self.astype(np.float64)

    def as_wide(self) -> Self:
        """Integers and bools as integers of 64 bits."""
        category = self.dtype.kind
        return (
            self.astype(np.uint64 if category == "u" else np.int64) if category in "biu" else self
        )

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
        dividend, divisor = self._numbers(other)
        return (whole if dividend.dtype.kind in "iu" else floored)(dividend, divisor)

    def __rfloordiv__(self, other: Any) -> Self:
        return self.lifted(other) // self

    def __mod__(self, other: Any) -> Self:
        dividend, divisor = self._numbers(other)
        return dividend.op("mod", dividend, divisor, fmod=False)

    def __rmod__(self, other: Any) -> Self:
        return self.lifted(other) % self

    def __divmod__(self, other: Any) -> tuple[Self, Self]:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> tuple[Self, Self]:
        return divmod(self.lifted(other), self)

    def __pow__(self, other: Any) -> Self:
        base, exponent = self._numbers(other)
        return base.op("pow", base, exponent)

    def _numbers(self, other: Any) -> list[Self]:
        """Both operands as numbers, of which bools are those of 8 bits."""
        both = self.promoted(other)
        return [each.astype(np.int8) for each in both] if both[0].dtype.kind == "b" else both

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
        return self if self.dtype == np.bool_ else self.apply("abs")

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
        prefix = "logical" if both[0].dtype == np.bool_ else "bitwise"
        return self.op(f"{prefix}_{name}", *both)

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

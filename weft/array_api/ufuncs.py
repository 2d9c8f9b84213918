"""`Ufunc`: NumPy's functions of each element on tensors, with `out`, `where` and `dtype`, and their
methods `reduce`, `accumulate`, `outer` and `at`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, cast

import numpy as np

from weft.array import composed, elementwise, products
from weft.array.operators import ArrayOperators, axes_of, axis_of
from weft.array.rearrangements import concat, moveaxis
from weft.array_api.functions import calculus, elements
from weft.array_api.operands import as_tensors, given_tensors, its_own, operand, refuse, stored
from weft.tracing.control import scan

_numpy: Any = np  # whose overloads ask for more than arrays

REDUCTIONS: Final = {
    "add": "sum", "multiply": "prod", "maximum": "max", "minimum": "min", "logical_and": "all",
    "logical_or": "any",
}  # fmt: skip
"""Functions whose `reduce` is a method of arrays."""

_ACCUMULATED: Final = {"add": "cumsum", "multiply": "cumprod"}
_SCATTERED: Final = {"add": "add", "multiply": "mul", "maximum": "max", "minimum": "min"}
"""Functions whose `at` is one operator, and its reduction."""


def _is_small(x: Any) -> bool:
    return x.dtype.char in "?bBhH"


class Ufunc:
    """A function of NumPy's of each element, on tensors; on arrays and numbers it is NumPy's."""

    def __init__(self, own: Any, function: Callable[..., Any]):
        self.own, self.function = own, function
        self.__name__, self.__doc__ = own.__name__, function.__doc__

    @property
    def nin(self) -> int:
        """How many operands it takes."""
        return self.own.nin

    def __call__(
        self,
        *operands: Any,
        out: Any = None,
        where: Any = True,
        dtype: Any = None,
        casting: str = "same_kind",
        order: str = "K",
        subok: bool = True,
        axis: Any = None,
    ) -> Any:
        operands = self._widened(operands)
        plain = out is None and where is True and dtype is None and axis is None
        if plain and len(operands) == self.own.nin:
            found = self.function(*operands)
            if type(found) is np.ndarray:
                return as_tensors(found, operands)
            return its_own(found, operands)
        return self._placed(operands, out, where, dtype, {} if axis is None else {"axis": axis})

    def _widened(self, operands: tuple[Any, ...]) -> tuple[Any, ...]:
        """Operands of bools and of few bits in the dtype that NumPy computes with."""
        if not any(isinstance(each, ArrayOperators) and _is_small(each) for each in operands):
            return operands
        types: Any = [type(each) for each in operands]
        kinds: list[Any] = [
            np.dtype(bool) if own is bool else getattr(each, "dtype", own)
            for each, own in zip(operands, types, strict=True)
        ]
        try:
            found = self.own.resolve_dtypes((*kinds, *[None] * self.own.nout))
        except TypeError:  # of NumPy's, for lists and other dtypes, which the definition refuses
            return operands
        return tuple(
            each.astype(wide) if isinstance(each, ArrayOperators) and _is_small(each)
            and wide.kind in "iuf" else each
            for each, wide in zip(operands, found, strict=False)
        )  # fmt: skip

    def _placed(
        self, given: tuple[Any, ...], out: Any, where: Any, dtype: Any, named: dict[str, Any]
    ) -> Any:
        count = self.own.nin
        if len(given) == count + 1 and out is None:
            given, out = given[:count], given[count]
        if len(given) != count:
            raise refuse(f"{self.__name__} requires {count} operands", len(given))
        several = cast("Any", out) if isinstance(out, tuple) else (out,)
        target: Any = several[0] if len(several) == 1 else several
        if dtype is not None:
            given = tuple(operand(each, *given).astype(dtype) for each in given)
        found = self.function(*given, **named)
        if where is not True:
            if target is None:
                raise refuse(f"{self.__name__} with where requires out", "none",
                             "np.where chooses between arrays")  # fmt: skip
            found = elementwise.where(where, found, target)
        if target is None:
            return found
        if not given_tensors((target,), {}) and isinstance(found, ArrayOperators):
            return stored(target, _numpy.asarray(found), self.__name__)
        return stored(target, found, self.__name__)

    def reduce(
        self, array: Any, axis: Any = 0, dtype: Any = None, out: Any = None,
        keepdims: bool = False, initial: Any = None, where: Any = True,
    ) -> Any:  # fmt: skip
        """The function of all elements along an axis, one after the other."""
        array = operand(array, initial, where)
        name = REDUCTIONS.get(self.__name__)
        named: dict[str, Any] = {"keepdims": keepdims}
        named |= {} if where is True else {"where": where}
        if name is not None:
            named |= {} if initial is None or name in ("all", "any") else {"initial": initial}
            named |= {} if dtype is None or name not in ("sum", "prod") else {"dtype": dtype}
            found = getattr(array, name)(axis, **named)
        else:
            if where is not True:
                raise refuse(f"{self.__name__}.reduce requires all elements", "where")
            found = self._folded(array, axis, keepdims, initial)
        return found if out is None else stored(out, found, f"{self.__name__}.reduce")

    def _folded(self, array: Any, axis: Any, keepdims: bool, initial: Any) -> Any:
        axes = axes_of(axis, array.ndim)
        rest = [each for each in range(array.ndim) if each not in axes]
        left = tuple(array.shape[each] for each in rest)
        flat = array.transpose(*axes, *rest).reshape((-1, *left))
        start = flat[0] if initial is None else flat[0] * 0 + initial

        def step(total: Any, each: Any) -> Any:
            return self.function(total, each), 0

        total, _ = scan(step, start, flat[1:] if initial is None else flat)
        kept = tuple(1 if each in axes else array.shape[each] for each in range(array.ndim))
        return total.reshape(kept) if keepdims else total

    def accumulate(self, array: Any, axis: int = 0, dtype: Any = None, out: Any = None) -> Any:
        """The function of the elements up to each along an axis."""
        array = operand(array)
        array = array if dtype is None else array.astype(dtype)
        position = axis_of(axis, array.ndim)
        if self.__name__ in _ACCUMULATED:
            found = getattr(array, _ACCUMULATED[self.__name__])(position)
        else:
            moved = moveaxis(array, position, 0)

            def step(total: Any, each: Any) -> tuple[Any, Any]:
                after = self.function(total, each)
                return after, after

            _, rows = scan(step, moved[0], moved[1:])
            found = moveaxis(concat([moved[:1], rows]), 0, position)
        return found if out is None else stored(out, found, f"{self.__name__}.accumulate")

    def outer(self, first: Any, second: Any, /, **named: Any) -> Any:
        """The function of all pairs of elements of two arrays."""
        first, second = operand(first, second), operand(second, first)
        return self(first.reshape((*first.shape, *[1] * second.ndim)), second, **named)

    def at(self, array: Any, indices: Any, second: Any = None, /) -> None:
        """Changes an array at indices, as often as each one is named."""
        if not given_tensors((array,), {}):
            self.own.at(array, indices, *([] if second is None else [second]))
            return
        if second is None:
            array[indices] = self.function(array[indices])
            return
        reduction = _SCATTERED.get(self.__name__)
        value = operand(second, array)
        if self.__name__ == "subtract":
            reduction, value = "add", -value
        if reduction is None:
            raise refuse(f"{self.__name__}.at requires add, subtract, multiply, maximum or minimum",
                         self.__name__)  # fmt: skip
        ones = array.constant(np.asarray(1)).broadcast_to(array.shape).reshape(-1)
        numbers = (ones.cumsum() - 1).reshape(array.shape)
        positions = numbers[indices]
        value = value.astype(array.dtype).broadcast_to(positions.shape)
        flat = array.reshape(-1)
        found = flat.op("scatter_nd", flat, positions.reshape((*positions.shape, 1)), value,
                        reduction=reduction)  # fmt: skip
        array[...] = found.reshape(array.shape)

    def reduceat(self, array: Any, indices: Any, axis: int = 0, *rest: Any) -> Any:
        """The function of slices between known indices along an axis."""
        array = operand(array)
        position = axis_of(axis, array.ndim)
        ends: list[Any] = [*np.asarray(indices).tolist(), None]
        front = (slice(None),) * position
        parts: list[Any] = []
        for start, stop in zip(ends[:-1], ends[1:], strict=True):
            one = stop is not None and stop <= start
            part = array[(*front, slice(start, start + 1 if one else stop))]
            parts.append(self.reduce(part, position, keepdims=True))
        return concat(parts, position)


def imported(module: Any) -> Mapping[str, Any]:
    """What a module of NumPy's has by name: to ask it for every name imports its modules too,
    `f2py` and `testing` among them.
    """
    return cast("Mapping[str, Any]", module.__dict__)


def _names() -> dict[np.ufunc, list[str]]:
    """The names of each of NumPy's functions of elements."""
    found: dict[np.ufunc, list[str]] = {}
    for name, own in sorted(imported(np).items(), key=lambda pair: pair[0]):
        if isinstance(own, np.ufunc):
            found.setdefault(own, []).append(name)
    return found


_NAMED: Final = _names()


_OF_TENSORS: Final = (elements, calculus)
_HOMES: Final = (elements, composed, elementwise, calculus, products)


def _definition(own: Any) -> Callable[..., Any] | None:
    """The function of weft's that does what NumPy's does, by any of its names."""
    names = ["abs", *_NAMED[own]] if own is np.absolute else _NAMED[own]
    for home in _HOMES:
        for name in names:
            function = getattr(home, name, None)
            if function is not None:
                return _of_tensors(function, own) if home in _OF_TENSORS else function
    return None


def _of_tensors(function: Callable[..., Any], own: Any) -> Callable[..., Any]:
    """The function, and NumPy's own where there is no tensor."""

    def called(*operands: Any, **named: Any) -> Any:
        return (function if given_tensors(operands, {}) else own)(*operands, **named)

    called.__doc__ = function.__doc__
    return called


def _all() -> dict[Any, Ufunc]:
    pairs = ((own, _definition(own)) for own in _NAMED)
    return {own: Ufunc(own, function) for own, function in pairs if function is not None}


UFUNCS: Final[Mapping[Any, Ufunc]] = _all()
"""By NumPy's own."""

NAMES: Final = {name: UFUNCS[own] for own in UFUNCS for name in _NAMED[own]}
"""By all of NumPy's names for them."""

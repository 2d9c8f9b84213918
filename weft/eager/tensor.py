"""`Tensor`: a tensor with values. Every operator on it runs at once, as a small compiled kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np

from weft.array.complex_numbers import complex_of
from weft.array.methods import ArrayMethods
from weft.array.operators import ArrayOperators, listed, order_of, users_line
from weft.array.views import (
    Link,
    Permuted,
    Repeated,
    Reshaped,
    linked,
    lost,
    reshaped,
    views_of,
)
from weft.compiler.deferred import deferred
from weft.dialects.errors import WeftError
from weft.dialects.weights import Array
from weft.eager.abstract_values import AbstractValue, abstract_value, abstract_value_of, number
from weft.eager.assignment import promote, write, written
from weft.eager.fast_path import install
from weft.eager.indexing import basic_part, check_positions, indexed, rolled
from weft.eager.tape import Node, computed, duplicate, is_differentiated, moved, only
from weft.eager.templates import frozen, operator_of

if TYPE_CHECKING:
    from weft.eager import tensor_html
else:
    tensor_html = deferred("weft.eager.tensor_html")


class Tensor(ArrayMethods):
    """Numbers of one dtype, with NumPy's operators, methods, indexing and assignments.

    It is made of numbers, nested lists or an array, which is copied; `np.asarray` and DLPack give
    its elements without a copy.
    """

    __slots__ = (  # those of traces too: a tensor that gets a traced element becomes one
        "_abstract", "_array", "_dims", "_node", "_position", "recording", "value", "views",
    )  # fmt: skip
    has_values = True
    _array: Array
    _dims: tuple[int, ...]  # where it has let go of its elements
    _abstract: AbstractValue
    _node: Node | None  # the operator that gave it, where a derivative is being recorded
    _position: int  # among that operator's results

    def __new__(cls, value: Any, dtype: Any = None) -> Any:
        """A tensor; of complex numbers a `Complex`."""
        if _is_complex(value, dtype):
            return complex_of(np.array(value, dtype, order="C"), Tensor.of)
        return object.__new__(cls)

    def __init__(self, value: Any, dtype: Any = None):
        source = elements(value) if isinstance(value, Tensor) else value
        array = np.array(source, dtype, order="C")
        if array.dtype.kind not in "biufV":
            raise WeftError(f"{users_line()}: a tensor requires numbers, got {array.dtype}")
        self._array, self._abstract, self._node, self._position = (
            array,
            abstract_value_of(array),
            None,
            0,
        )

    @staticmethod
    def of(array: Array) -> Tensor:
        """A tensor of an array that nothing changes from now on, copied if it is not dense."""
        tensor = object.__new__(Tensor)
        dense = array if array.flags.carray else array.copy("C")
        tensor._array, tensor._abstract = dense, abstract_value_of(dense)
        tensor._node, tensor._position = None, 0
        return tensor

    @property
    def dtype(self) -> np.dtype[Any]:
        """The element type as NumPy knows it."""
        return self._array.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes."""
        return self._array.shape

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return self._array.ndim

    def results(self, name: str, *operands: Any, **attributes: Any) -> list[Any]:
        """All results of the graph operator of that name."""
        for operand in operands:
            if not isinstance(operand, Tensor):
                return operand.results(name, *operands, **attributes)
        if "to" in attributes:
            attributes["to"] = np.dtype(attributes["to"]).name
        return computed(Tensor, operator_of(name, frozen(attributes), len(operands)), operands)

    def constant(self, value: Any) -> Tensor:
        """A tensor of an array's elements."""
        return Tensor(value)

    def lifted(self, other: Any) -> Any:
        """A number or an array as a tensor; a tensor of another kind stays one."""
        return other if isinstance(other, ArrayOperators) else super().lifted(other)

    @property
    def numbers(self) -> tuple[type, ...]:
        """Types of Python's numbers that become tensors of this dtype before they are operands."""
        return self._abstract.numbers

    def number(self, value: float) -> Tensor:
        """A number of Python's as a tensor beside this one."""
        abstract = self._abstract
        return (
            number(Tensor, abstract, value)
            if type(value) in abstract.numbers
            else self.lifted(value)
        )

    def shaped(self, shape: Any) -> Tensor:
        """Other dims, or one, for the same elements in the same order; one may be -1."""
        try:
            array = self._array.reshape(shape)
        except ValueError as error:
            raise WeftError(f"{users_line()}: a reshape requires {error}") from error
        before = self.shape
        return moved(self, array, lambda node, arriving, wanted: [only(arriving).reshape(before)])

    def cast(self, wanted: np.dtype[Any]) -> Tensor:
        """The elements converted to another dtype than their own."""
        return self.apply("cast", to=abstract_value(wanted, 0).key[0])

    def transpose(self, *axes: Any) -> Tensor:
        """The axes in another order; without one reversed."""
        given = tuple(listed(axes[0])) if len(axes) == 1 else axes
        order = order_of(given, self._abstract.rank)
        return linked(self.apply("transpose", permutation=order), Permuted(self, order))

    def broadcast_to(self, shape: Sequence[Any]) -> Tensor:
        """The elements repeated along new axes in front and along those of size 1."""
        before = self.shape
        try:
            array = np.empty(shape, self._abstract.dtype)
            if (
                array.ndim < self._abstract.rank
            ):  # which an assignment allows for sizes of 1 in front
                raise ValueError("sizes are not fewer than those of what is broadcast")
            array[...] = self._array
        except ValueError as error:
            rule = f"a broadcast requires sizes that {list(before)} spreads to"
            raise WeftError(f"{users_line()}: {rule}, got {list(shape)}") from error

        def backward(node: Node, arriving: list[Tensor | None], wanted: object) -> list[Tensor]:
            front = len(shape) - len(before)
            spread = [
                axis + front for axis, size in enumerate(before) if size != shape[axis + front]
            ]
            return [only(arriving).sum([*range(front), *spread]).reshape(before)]

        return linked(moved(self, array, backward), Repeated(self, tuple(shape)))

    def nonzero(self) -> tuple[Tensor, ...]:
        """The places of the elements that are not zero, a vector an axis."""
        self._require_axis()
        return tuple([Tensor.of(positions) for positions in self._array.nonzero()])

    def require_within(self, size: int) -> None:
        """Refuses integers that are no index of an axis of that size."""
        check_positions(self._array, size)

    def rolled(self, moves: Sequence[tuple[int, Any]]) -> Tensor:
        """The elements moved on along axes, by so many places each; the last ones come first."""
        return rolled(self, moves)

    def __getitem__(self, index: Any) -> Tensor:
        if type(index) in _BASIC:
            parts: Any = (index,)
        elif type(index) is tuple and _BASIC.issuperset(map(type, cast("Any", index))):
            parts = cast("Any", index)
        else:
            return indexed(self, index)
        found = basic_part(self, parts)
        return linked(found, Link(self, parts)) if found._array.ndim else found

    def __setitem__(self, index: Any, value: Any) -> None:
        write(self, index, value)

    def part(self, index: Any) -> Tensor:
        """What an index of integers and slices names, as an array of its own."""
        return basic_part(self, index)

    def with_part(self, index: Any, value: Any) -> Tensor:
        """The array with other elements at an index."""
        return written(self, index, value)

    def become(self, value: Any) -> None:
        """Takes over the elements of another tensor, and how they came about."""
        if not isinstance(value, Tensor):
            promote(self, value.recording)
            self.become(value)
            return
        self._array, self._abstract = value._array, value._abstract
        self._node, self._position = value._node, value._position

    def forget_elements(self) -> None:
        """Lets go of elements that are unknown."""
        del self._array

    def showing(self, found: Any) -> Any:
        """A reshape of this tensor, which may show its elements."""
        return reshaped(found, self)

    def regrouped(self, shape: Any) -> Tensor:
        """Other dims for the same elements, of which NumPy always makes a view."""
        return linked(self.shaped(shape), Reshaped(self, shape))

    def duplicate(self) -> Tensor:
        """An array of its own of the same elements."""
        return duplicate(self)

    def copy(self, order: str = "C") -> Tensor:
        """Another array of the same elements, which NumPy has row by row for the order "C"."""
        found = duplicate(self)
        views_of(found).rows = order == "C"
        return found

    def __pos__(self) -> Tensor:
        return duplicate(self)

    def __getattr__(self, name: str) -> Any:
        if name == "views":
            return None
        if name == "_array":
            raise lost(self, name)
        raise AttributeError(f"'Tensor' object has no attribute {name!r}")

    def item(self, *index: Any) -> Any:
        """The one element, or that at an index, as a number of Python's. Raises WeftError while a
        derivative of it is being taken, which a number would lose.
        """
        return elements(self).item(*index)

    def tolist(self) -> Any:
        """Nested lists of Python's numbers; raises what `item` does."""
        return elements(self).tolist()

    def numpy(self) -> Array:
        """The elements as an array that cannot be written. Raises WeftError while a derivative of
        them is being taken, which an array would lose.
        """
        view = elements(self).view()
        view.flags.writeable = False
        return view

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        elements = self.numpy()
        if dtype is not None and np.dtype(dtype) != self.dtype:
            if copy is False:
                raise ValueError("a conversion of elements requires a copy, got copy=False")
            return elements.astype(dtype)
        return elements.copy() if copy else elements

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[Any, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        return elements(self).__dlpack__(
            stream=stream, max_version=max_version, dl_device=dl_device, copy=copy
        )

    def __dlpack_device__(self) -> Any:
        return self._array.__dlpack_device__()

    def __len__(self) -> int:
        return len(self._array)

    def __iter__(self) -> Iterator[Tensor]:
        return (self[position] for position in range(len(self._array)))

    def __bool__(self) -> bool:
        return bool(self._array)

    def __float__(self) -> float:
        return float(elements(self))

    def __int__(self) -> int:
        return int(self._array)

    def __index__(self) -> int:
        return self._array.__index__()

    def __complex__(self) -> complex:
        return complex(elements(self))

    def __repr__(self) -> str:
        text = np.array2string(self._array, separator=", ", prefix="Tensor(")
        return f"Tensor({text}, dtype={self.dtype.name})"

    def _repr_html_(self) -> str:
        return tensor_html.tensor_html(self._array)

    def __str__(self) -> str:
        return str(self._array)

    def __format__(self, spec: str) -> str:
        return format(self._array.item() if self.ndim == 0 else self._array, spec)

    def __reduce__(self) -> tuple[Any, ...]:
        return Tensor, (self._array,)

    def __copy__(self) -> Tensor:
        return duplicate(self)

    def __deepcopy__(self, memo: Any) -> Tensor:
        return duplicate(self)


def _is_complex(value: Any, dtype: Any) -> bool:
    """Whether an array of the value has complex numbers."""
    if dtype is not None:
        return np.dtype(dtype).kind == "c"
    if isinstance(value, list | tuple):
        return np.asarray(cast("Any", value)).dtype.kind == "c"
    return isinstance(value, complex) or getattr(getattr(value, "dtype", None), "kind", "") == "c"


_BASIC: Final = frozenset((int, slice, type(None), type(Ellipsis)))
"""What an index may hold besides arrays."""


array_of: Final[Callable[[Tensor], Array]] = attrgetter("_array")
"""The array that holds a tensor's elements, which nothing may change."""


def tensor_of(array: Array) -> Any:
    """A tensor of an array that nothing changes from now on; of complex numbers a `Complex`."""
    return complex_of(array, Tensor.of) if array.dtype.kind == "c" else Tensor.of(array)


def elements(x: Tensor) -> Array:
    """The same array. Raises WeftError while a derivative of it is being recorded."""
    if is_differentiated(x):
        rule = "elements as an array or number require a tensor that is not being differentiated"
        advice = (
            "weft.numpy has functions of tensors; to show or keep its value without a derivative, "
            "write weft.stop_gradient(x).item() or .numpy()"
        )
        raise WeftError(f"{users_line()}: {rule}, got one that is ({advice})")
    return x._array


def give_up(x: Tensor) -> None:
    """Lets go of the elements, whose memory a compiled step has taken over."""
    x._dims = x._array.shape
    del x._array


def dims_and_dtype(x: Any) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """The shape and the dtype of a tensor, also of one that has let go of its elements."""
    dims = getattr(x, "_dims", None)
    return (tuple(x.shape), x.dtype) if dims is None else (dims, x._abstract.dtype)


class AbsentTensor(Tensor):
    """One whose elements another rank of a pipeline has."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        if name == "_array":
            rule = "a tensor that a stage of a pipeline keeps requires a rank of that stage"
            raise WeftError(f"{users_line()}: {rule}, got a use of it on another")
        return super().__getattr__(name)


def make_absent(x: Tensor) -> None:
    """Lets go of the elements, which only another rank has as they are now."""
    give_up(x)
    x.__class__ = AbsentTensor


install(Tensor)

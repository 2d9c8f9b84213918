"""What arrays of reals have for the sake of complex ones, methods that are NumPy's functions, and
the device that all have.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any, Self

import numpy as np

from weft.array.in_place import InPlace
from weft.array.operators import users_line
from weft.dialects.errors import WeftError


class Flat:
    """`x.flat`: all elements of an array in a row, which may be assigned to; what an index names is
    a copy.
    """

    __slots__ = ("base",)

    def __init__(self, base: Any):
        self.base = base

    def _row(self) -> Any:
        return self.base.regrouped((self.base.size,))

    def __len__(self) -> int:
        return len(self._row())

    def __getitem__(self, index: Any) -> Any:
        return self._row()[index].duplicate()

    def __setitem__(self, index: Any, value: Any) -> None:
        self._row()[index] = value

    def copy(self) -> Any:
        """The elements as a vector of their own."""
        return self[:]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.asarray(self[:], dtype)


class Parts(InPlace):
    """Arrays that are the real parts of themselves."""

    __slots__ = ()

    def compress(self, condition: Any, axis: int | None = None, out: Any = None) -> Any:
        """The slices along an axis, or elements of the flat array, for which a condition holds."""
        return import_module("weft.numpy").compress(condition, self, axis, out)

    def choose(self, choices: Any, out: Any = None, mode: str = "raise") -> Any:
        """For each element, an index, the element of the array of that number."""
        return import_module("weft.numpy").choose(self, choices, out, mode)

    def put(self, indices: Any, values: Any, mode: str = "raise") -> None:
        """Gives the flat array other elements at indices."""
        import_module("weft.numpy").put(self, indices, values, mode)

    def partition(
        self, kth: Any, axis: int = -1, kind: str = "introselect", order: None = None
    ) -> None:
        """Puts the elements along an axis in sorted order, which is a partition."""
        self.flat[...] = import_module("weft.numpy").partition(self, kth, axis).reshape(-1)

    def argpartition(
        self, kth: Any, axis: int | None = -1, kind: str = "introselect", order: None = None
    ) -> Any:
        """The indices of the elements along an axis in sorted order, which is a partition."""
        return import_module("weft.numpy").argpartition(self, kth, axis)

    def __contains__(self, value: Any) -> bool:
        return bool((self == value).any())

    @property
    def flat(self) -> Flat:
        """All elements in a row, by rows."""
        return Flat(self)

    @flat.setter
    def flat(self, value: Any) -> None:
        self.flat[...] = value

    @property
    def itemsize(self) -> int:
        """The bytes of an element."""
        return self.dtype.itemsize

    @property
    def nbytes(self) -> Any:
        """The bytes of all elements."""
        return self.size * self.itemsize

    @property
    def real(self) -> Any:
        """The array itself, of reals."""
        return self

    @property
    def imag(self) -> Any:
        """Zeros, of reals."""
        zeros = self.constant(np.zeros((), self.dtype)).broadcast_to(self.shape)
        return zeros.duplicate()

    def conj(self) -> Any:
        """Another array of the same elements, of reals."""
        return self.duplicate()

    conjugate = conj

    def composed_all(
        self, function: Callable[..., Any], operands: Sequence[Any], attributes: Mapping[str, Any]
    ) -> Sequence[Any]:
        """What a function of tensors, one of which is this one, returns: several."""
        return self.composed(function, operands, attributes)

    @property
    def device(self) -> str:
        """Where the elements lie."""
        return "cpu"

    def to_device(self, device: Any, /, *, stream: Any = None) -> Self:
        """Itself, since there is one device, "cpu". Raises WeftError for another."""
        if device != "cpu":
            raise WeftError(f"{users_line()}: a tensor requires the device 'cpu', got {device!r}")
        return self

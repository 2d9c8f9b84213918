"""What arrays of reals have for the sake of complex ones, and the device that all have."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import numpy as np

from weft.array.in_place import InPlace
from weft.array.operators import users_line
from weft.dialects.errors import WeftError


class Parts(InPlace):
    """Arrays that are the real parts of themselves."""

    __slots__ = ()

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

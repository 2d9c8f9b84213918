"""`x += y` and its kin on arrays: they change, and with them all that shows them."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.array.operators import ArrayOperators, users_line
from weft.array.views import assign, require_changeable
from weft.dialects.errors import WeftError


class InPlace(ArrayOperators):
    """Arrays that may be changed in place."""

    __slots__ = ("__weakref__",)  # here, so that tensors of all modes have one layout

    def _in_place(self, found: Any) -> Any:
        """`x += y`: the array itself with other elements; a scalar of NumPy is another one."""
        if not self.ndim:
            return found
        if tuple(found.shape) != tuple(self.shape) or not np.can_cast(
            found.dtype, self.dtype, "same_kind"
        ):
            rule = f"an assignment in place requires {self.dtype} of {list(self.shape)}"
            got = f"{found.dtype} of {list(found.shape)}"
            raise WeftError(f"{users_line()}: {rule}, got {got} (write x = x + y)")
        require_changeable(self)
        assign(self, found.astype(self.dtype, copy=False))
        return self

    def __iadd__(self, other: Any) -> Any:
        return self._in_place(self + other)

    def __isub__(self, other: Any) -> Any:
        return self._in_place(self - other)

    def __imul__(self, other: Any) -> Any:
        return self._in_place(self * other)

    def __itruediv__(self, other: Any) -> Any:
        return self._in_place(self / other)

    def __ifloordiv__(self, other: Any) -> Any:
        return self._in_place(self // other)

    def __imod__(self, other: Any) -> Any:
        return self._in_place(self % other)

    def __ipow__(self, other: Any) -> Any:
        return self._in_place(self**other)

    def __imatmul__(self, other: Any) -> Any:
        return self._in_place(self @ other)

    def __ilshift__(self, other: Any) -> Any:
        return self._in_place(self << other)

    def __irshift__(self, other: Any) -> Any:
        return self._in_place(self >> other)

    def __iand__(self, other: Any) -> Any:
        return self._in_place(self & other)

    def __ior__(self, other: Any) -> Any:
        return self._in_place(self | other)

    def __ixor__(self, other: Any) -> Any:
        return self._in_place(self ^ other)

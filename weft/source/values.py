"""What variables of a program hold while it becomes a graph: numbers of Python that only a call
knows, and arrays that the program may change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
from msgspec import Struct
from xdsl.ir import SSAValue

from weft.array.complex_numbers import Complex
from weft.array.operators import listed, order_of
from weft.array.views import Link, Permuted, Reshaped
from weft.dialects.errors import SourceError
from weft.dialects.expr import Expr
from weft.dialects.graph.core.types import BOOL, F64, I64, TensorType, tensor, type_of
from weft.tracing.traced import Traced

if TYPE_CHECKING:
    from weft.source.recording import SourceRecording

ELEMENTS: Final = {bool: BOOL, int: I64, float: F64}
"""The element types of Python's numbers."""


class Number(Traced):
    """A bool, int or float of Python that only a call knows. Like a literal, it takes the dtype of
    a tensor beside it. An int may be known as an expression over sizes.
    """

    recording: SourceRecording
    python_type: type
    expr: Expr | None

    def __init__(
        self,
        recording: SourceRecording,
        python_type: type,
        value: SSAValue | None = None,
        expr: Expr | None = None,
    ):
        assert (value is None) != (expr is None), "a number has one source"
        for name, given in (("recording", recording), ("python_type", python_type), ("expr", expr)):
            object.__setattr__(self, name, given)
        object.__setattr__(self, "_value", value)

    @property
    def value(self) -> SSAValue:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The scalar of the graph; an expression becomes one wherever it is asked for, so that each
        region has its own.
        """
        if self.expr is None:
            return self._value  # pyright: ignore
        return self.recording.dims(self.expr).value

    @property
    def type(self) -> TensorType:
        return tensor([], ELEMENTS[self.python_type])

    @property
    def promoting(self) -> bool | int | float:
        return self.python_type()

    @property
    def python_type_name(self) -> str:
        return self.python_type.__name__

    def __repr__(self) -> str:
        size_text = "" if self.expr is None else f" {self.expr}"
        return f"<{self.python_type.__name__}{size_text} that only a call knows>"


class View(Struct, frozen=True, eq=False):
    """How an array comes from which other one, if that is known, and what that array held then."""

    base: Array
    link: Link | None
    seen: SSAValue


class Array(Traced):
    """An array: its elements are another value of the graph whenever the program changes some."""

    recording: SourceRecording
    part_of: View | None
    shown: tuple[View, ...]
    owner: str
    rows: bool

    def __init__(
        self, recording: SourceRecording, value: SSAValue, owner: str = "", rows: bool = False
    ):
        """`owner` says what else the array may be a part of, where it must not be changed, `rows`
        that NumPy is known to have the elements row by row, without gaps.
        """
        object.__setattr__(self, "recording", recording)
        object.__setattr__(self, "value", value)
        object.__setattr__(self, "part_of", None)
        object.__setattr__(self, "shown", ())
        object.__setattr__(self, "owner", owner)
        object.__setattr__(self, "rows", rows)

    def __getitem__(self, index: Any) -> Array:
        parts = index if isinstance(index, tuple) else (index,)
        return self.recording.index(self.recording, self, parts)

    def __setitem__(self, index: Any, value: Any) -> None:
        self.recording.assign(self, index, value)

    def _in_place(self, found: Any) -> Any:
        self.recording.assign(self, ..., found)
        return self

    def showing(self, found: Any) -> Any:
        owns = self.part_of is None and not self.shown
        if self.rows or (owns and self.ndim <= 1):
            object.__setattr__(found, "rows", True)
            return found.viewing(self, Reshaped(self, found.shape))
        return found

    def regrouped(self, shape: Any) -> Any:
        found: Any = self.shaped(shape)
        object.__setattr__(found, "rows", self.rows)
        return found.viewing(self, Reshaped(self, found.shape))

    def transpose(self, *axes: Any) -> Any:
        given = tuple(listed(axes[0])) if len(axes) == 1 else axes
        order = order_of(given, self.ndim)
        found: Any = self.op("transpose", self, permutation=[*order])
        return found.viewing(self, Permuted(self, order))

    def duplicate(self) -> Array:
        return self.recording.array(self.value)

    def copy(self, order: str = "C") -> Array:
        return self.recording.array(self.value, rows=order == "C")

    def replace(self, value: SSAValue) -> None:
        """Gives it other elements."""
        object.__setattr__(self, "value", value)

    def viewing(self, base: Array, link: Link | None) -> Array:
        """The array as a part of another one; without a link nobody can say which."""
        object.__setattr__(self, "part_of", View(base, link, base.value))
        return self

    def part_with(self) -> None:
        """Forgets what it is a part of."""
        object.__setattr__(self, "part_of", None)

    def is_within(self, base: Array, apart: Array | None = None) -> bool:
        """Whether it is the array or shows parts of it, but as a part of another one."""
        if self is apart or self is base:
            return self is base
        views = (self.part_of, *self.shown) if self.part_of else self.shown
        return any(view.base.is_within(base, apart) for view in views)

    def own(self, owner: str) -> None:
        """Says what else the array may be a part of."""
        object.__setattr__(self, "owner", owner)

    def shows(self, base: Array) -> None:
        """Says that its elements may be those of another array."""
        object.__setattr__(self, "shown", (*self.shown, View(base, None, base.value)))

    @property
    def stale(self) -> bool:
        """Whether an array whose elements it shows has been changed since."""
        views = self.shown if self.part_of is None else (self.part_of, *self.shown)
        return any(each.base.value is not each.seen or each.base.stale for each in views)

    def __repr__(self) -> str:
        return f"<array {type_of(self.value)} that only a call knows>"


class Spread(Struct, frozen=True, eq=False):
    """An element of a list that stands for as many as `rows` has along its first axis; without rows
    for those that the rounds before this one appended.
    """

    rows: Array | None


class Undefined(Struct, frozen=True):
    """What a name holds that some ways through the program do not define, or not alike: `error` is
    raised where it is looked at.
    """

    reason: str
    error: SourceError | None = None


def is_dynamic(value: Any) -> bool:
    """Whether only a call knows the value."""
    return isinstance(value, Traced | Complex)


def is_number(value: Any) -> bool:
    """Whether it is a number of Python, known or not."""
    return isinstance(value, Number) or type(value) in ELEMENTS


def is_array_like(value: Any) -> bool:
    """Whether it may be an element of a graph: a tensor, an array or a number."""
    return isinstance(value, Traced | np.ndarray | np.generic) or type(value) in ELEMENTS


def is_scalar(value: Any) -> bool:
    """Whether NumPy would have it as a scalar, which cannot be changed."""
    return not isinstance(value, Traced) or value.ndim == 0

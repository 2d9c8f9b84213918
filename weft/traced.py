"""`Traced`: a tensor that is not computed yet. What Python does with it becomes a graph."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
from xdsl.dialects.builtin import NameLoc, NoneAttr, StringAttr
from xdsl.ir import Block, SSAValue
from xdsl.rewriter import InsertPoint

from dialects.errors import TypeInferenceError, UnsupportedError, WeftError
from dialects.expr import Expr
from dialects.graph import OPS, GraphOp
from dialects.graph.builder import GraphBuilder
from dialects.graph.constant import ConstantOp
from dialects.graph.dtypes import element_type, numpy_dtype
from dialects.graph.types import ShapeAttr, TensorType, type_of
from dialects.weights import Array, WeightStore

_OPS: Final[Mapping[str, type[GraphOp]]] = {op.name.removeprefix("graph."): op for op in OPS}
_HERE: Final = str(Path(__file__).parent)

Operand: TypeAlias = "Traced | Array | float | bool"
Dim = int | str
Index = int | slice | None | Any


@dataclass
class Recording:
    """A graph in the making: the block that operators are appended to, and the constants."""

    block: Block = field(default_factory=Block)
    weights: WeightStore = field(default_factory=WeightStore)
    ops: Mapping[str, type[GraphOp]] = field(default_factory=lambda: _OPS)

    def builder(self) -> GraphBuilder:
        """Appends operators that know the line of the user's program."""
        line = NameLoc(StringAttr(users_line()), NoneAttr())
        return GraphBuilder(InsertPoint.at_end(self.block), self.ops, line)

    def argument(self, kind: TensorType, name: str) -> Traced:
        """A further input."""
        value = self.block.insert_arg(kind, len(self.block.args))
        value.name_hint = name
        return Traced(self, value)

    def constant(self, array: Array) -> Traced:
        """An array that the program brought along."""
        b = self.builder()
        constant = ConstantOp.stored("constant", array, self.weights, b.location)
        return Traced(self, b.builder.insert(constant).results[0])

    def apply(self, name: str, *operands: Traced, **attributes: Any) -> Traced:
        """The first result of an operator. Raises TypeInferenceError that names the line."""
        return self.results(name, *operands, **attributes)[0]

    def results(self, name: str, *operands: Traced, **attributes: Any) -> list[Traced]:
        """All results of an operator. Raises TypeInferenceError that names the line."""
        values = [operand.value for operand in operands]
        try:
            op = self.builder().op(name, *values, **attributes)
        except (TypeInferenceError, UnsupportedError) as error:
            raise type(error)(f"{users_line()}: {error}") from error
        return [Traced(self, result) for result in op.results]


def listed(argument: Any) -> list[Any]:
    """What stands in a tuple or a list; anything else alone."""
    return [*argument] if isinstance(argument, tuple | list) else [argument]


def users_line() -> str:
    """The line outside of this package that is running, as `file.py:12`."""
    frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_HERE):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


@dataclass(frozen=True, eq=False)
class Traced:
    """A tensor of a graph in the making, with the operators and methods of NumPy's arrays.

    Python numbers beside it take its dtype; arrays become constants; two dtypes are brought to the
    one that NumPy promotes them to. It has no value yet: `if`, `while`, `bool` and `float` of it
    raise.
    """

    recording: Recording
    value: SSAValue

    __array_priority__ = 1000  # so that NumPy leaves operators to this class

    @property
    def type(self) -> TensorType:
        """Its dims and element type."""
        return type_of(self.value)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The element type as NumPy knows it."""
        return numpy_dtype(self.type.element)

    @property
    def shape(self) -> tuple[int | Expr, ...]:
        """Sizes; those that are not known yet are expressions over their names."""
        return tuple(dim if dim.constant is None else dim.constant for dim in self.type.shape)

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return self.type.rank

    @property
    def T(self) -> Traced:  # noqa: N802  NumPy's name
        """All axes reversed."""
        return self.transpose()

    def apply(self, name: str, *others: Operand, **attributes: Any) -> Traced:
        """An operator on this tensor and others, brought to one dtype."""
        return self.recording.apply(name, *self._promoted(*others), **attributes)

    def _promoted(self, *others: Operand) -> list[Traced]:
        arrays = [self, *(self._of(other) for other in others)]
        common = np.result_type(*(array.dtype for array in arrays))
        return [array.astype(common) for array in arrays]

    def _of(self, other: Operand) -> Traced:
        if isinstance(other, Traced):
            if other.recording is not self.recording:
                raise WeftError(f"{users_line()}: a graph requires tensors of one trace, got two")
            return other
        if isinstance(other, bool | int | float):
            kept = not isinstance(other, float) or self.dtype.kind not in "biu"
            dtype = self.dtype if kept else np.dtype(np.float32)
            return self.recording.constant(np.asarray(other, dtype))
        return self.recording.constant(np.asarray(other))

    def astype(self, dtype: Any) -> Traced:
        """The elements converted; the tensor itself where there is nothing to convert."""
        wanted = np.dtype(dtype)
        if wanted == self.dtype:
            return self
        return self.recording.apply("cast", self, to=element_type(wanted))

    def reshape(self, *shape: Any) -> Traced:
        """Other dims for the same elements in the same order; one may be -1."""
        known = listed(shape[0]) if len(shape) == 1 else list(shape)
        if -1 in [each for each in known if isinstance(each, int)]:
            rest = Expr.of(1)
            for each in known:
                rest = rest if isinstance(each, int) and each == -1 else rest * Expr.of(each)
            whole = self.type.size // rest
            known = [whole if isinstance(each, int) and each == -1 else each for each in known]
        sizes = ShapeAttr(tuple(Expr.of(each) for each in known))
        return self.recording.apply("reshape", self, shape=sizes)

    def transpose(self, *axes: int) -> Traced:
        """The axes in another order; without one reversed."""
        order = [axis % self.ndim for axis in axes] or list(reversed(range(self.ndim)))
        return self.recording.apply("transpose", self, permutation=order)

    def reduced(
        self, name: str, axis: int | Sequence[int] | None, keepdims: bool, **attributes: Any
    ) -> Traced:
        """A reduction over one axis, several, or all."""
        axes = range(self.ndim) if axis is None else [axis] if isinstance(axis, int) else axis
        chosen = [each % max(1, self.ndim) for each in axes]
        if not chosen:
            return self
        return self.recording.apply(name, self, axes=chosen, keepdims=keepdims, **attributes)

    def sum(self, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Traced:
        """The sum over axes."""
        return self.reduced("reduce_sum", axis, keepdims)

    def mean(self, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Traced:
        """The mean over axes."""
        return self.reduced("reduce_mean", axis, keepdims)

    def max(self, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Traced:
        """The greatest element over axes."""
        return self.reduced("reduce_max", axis, keepdims)

    def min(self, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Traced:
        """The least element over axes."""
        return self.reduced("reduce_min", axis, keepdims)

    def __add__(self, other: Operand) -> Traced:
        return self.apply("add", other)

    def __radd__(self, other: Operand) -> Traced:
        return self._of(other) + self

    def __sub__(self, other: Operand) -> Traced:
        return self.apply("sub", other)

    def __rsub__(self, other: Operand) -> Traced:
        return self._of(other) - self

    def __mul__(self, other: Operand) -> Traced:
        return self.apply("mul", other)

    def __rmul__(self, other: Operand) -> Traced:
        return self._of(other) * self

    def __truediv__(self, other: Operand) -> Traced:
        return self._float().apply("div", other)

    def __rtruediv__(self, other: Operand) -> Traced:
        return self._of(other) / self

    def __pow__(self, other: Operand) -> Traced:
        return self.apply("pow", other)

    def __rpow__(self, other: Operand) -> Traced:
        return self._of(other) ** self

    def __matmul__(self, other: Operand) -> Traced:
        return self.apply("matmul", other)

    def __rmatmul__(self, other: Operand) -> Traced:
        return self._of(other) @ self

    def __neg__(self) -> Traced:
        return self.apply("neg")

    def __abs__(self) -> Traced:
        return self.apply("abs")

    def __lt__(self, other: Operand) -> Traced:
        return self.apply("less", other)

    def __le__(self, other: Operand) -> Traced:
        return self.apply("less_equal", other)

    def __gt__(self, other: Operand) -> Traced:
        return self.apply("greater", other)

    def __ge__(self, other: Operand) -> Traced:
        return self.apply("greater_equal", other)

    def __getitem__(self, index: Any) -> Traced:
        from weft.indexing import indexed

        return indexed(self, listed(index))

    def __len__(self) -> int:
        size = self.type.shape[0].constant if self.ndim else None
        if size is None:
            raise TypeError(f"{users_line()}: len requires a known first size, got {self.type}")
        return size

    def __bool__(self) -> bool:
        raise WeftError(
            f"{users_line()}: a condition requires a value, got a tensor that is being traced "
            "(weft.numpy.where chooses between tensors)"
        )

    __float__ = __int__ = __bool__  # pyright: ignore[reportAssignmentType]

    def _float(self) -> Traced:
        return self if self.dtype.kind not in "biu" else self.astype(np.float32)

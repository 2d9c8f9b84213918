"""`Traced`: a tensor that is not computed yet. What Python does with it becomes a graph."""

from __future__ import annotations

import gc
import re
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from operator import index
from typing import Any, Final, cast

import numpy as np
from xdsl.dialects.builtin import NameLoc, NoneAttr, StringAttr, UnitAttr
from xdsl.ir import Attribute, Block, SSAValue
from xdsl.rewriter import InsertPoint

from weft.array.complex_numbers import Complex, complex_of
from weft.array.indexing import parsed
from weft.array.methods import ArrayMethods
from weft.array.operators import ArrayOperators, listed, order_of, users_line
from weft.array.rearrangements import extents
from weft.array.views import (
    Link,
    Permuted,
    Repeated,
    Reshaped,
    assign,
    linked,
    lost,
    require_changeable,
    reshaped,
    root,
    views_of,
)
from weft.dialects.errors import OptionError, TypeInferenceError, UnsupportedError, WeftError
from weft.dialects.expr import Expr
from weft.dialects.expr_text import is_size_name
from weft.dialects.graph import OPS, BindSizesOp, DimsOp, GraphOp, PrintOp
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.dtypes import element_type, numpy_dtype
from weft.dialects.graph.core.types import I64, ShapeAttr, TensorType, tensor, type_of
from weft.dialects.graph.reindexing.constant import ConstantOp
from weft.dialects.weights import Array, WeightStore
from weft.tracing.assignment import written
from weft.tracing.indexing import chosen, index_vectors, require_within

_OPS: Final[Mapping[str, type[GraphOp]]] = {op.name.removeprefix("graph."): op for op in OPS}

Dim = int | str
Index = int | slice | None | Any


@dataclass
class Recording:
    """A graph in the making: the block that operators are appended to, and the constants."""

    block: Block = field(default_factory=Block)
    weights: WeightStore = field(default_factory=WeightStore)
    ops: Mapping[str, type[GraphOp]] = field(default_factory=lambda: _OPS)
    loops: int = 0
    found: int = 0

    promoted: list[tuple[Any, Array, Block]] = field(default_factory=list[Any])
    """Tensors with values that an assignment made traced, what they held, and in which block."""

    masks: dict[tuple[object, Block], Any] = field(default_factory=dict[Any, Any])
    """Where bools hold, as index vectors: what one mask chooses has one size in all its uses."""

    def promote(self, x: Any) -> None:
        """Makes a traced tensor of one with values."""
        constant, array = self.constant(x._array), x._array
        self.promoted.append((weakref.ref(x), array, self.block))
        views = x.views
        x.__class__ = Traced
        for name, value in (("recording", self), ("value", constant.value), ("views", views)):
            object.__setattr__(x, name, value)
        views_of(x).own = True

    def end_promoted(self, block: Block, returned: Sequence[Any] = ()) -> None:
        """Refuses arrays that the program changed and did not make: what is still there when it, or
        a branch or loop of it, has ended. Raises WeftError.
        """
        ended = [each for each in self.promoted if each[2] is block]
        self.promoted = [each for each in self.promoted if each[2] is not block]
        kept = {id(each) for each in returned}
        alive = [each for each in ended if each[0]() is not None and id(each[0]()) not in kept]
        if alive:
            gc.collect()  # a cycle holds nothing that a program reads
        alive = [each for each in alive if each[0]() is not None]
        if alive:
            rule = "an assignment of a traced element requires an array that the program made"
            raise WeftError(f"{users_line()}: {rule}, got one from outside (return another one)")

    def closed(self) -> AbstractContextManager[None]:
        """Inside, a region of the graph is built, which tensors leave as its results alone."""
        return nullcontext()

    def run(self, function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        """What a function of the program's gives that is compiled elsewhere."""
        return function(*arguments, **named)

    def builder(self) -> GraphBuilder:
        """Appends operators that know the line of the user's program."""
        line = NameLoc(StringAttr(users_line()), NoneAttr())
        return GraphBuilder(InsertPoint.at_end(self.block), self.ops, line)

    def argument(self, tensor_type: TensorType, name: str) -> Traced:
        """A further input."""
        value = self.block.insert_arg(tensor_type, len(self.block.args))
        value.name_hint = hint_of(name)
        return Traced(self, value)

    def constant(self, array: Array) -> Any:
        """An array that the program brought along."""
        if array.dtype.kind == "c":
            return complex_of(array, self.constant)
        b = self.builder()
        constant = ConstantOp.computed("constant", array, self.weights, b.location)
        return Traced(self, b.builder.insert(constant).results[0])

    def array(self, value: SSAValue) -> Traced:
        """A value of the graph as a tensor."""
        return Traced(self, value)

    def held(self, tensor: Any) -> Traced:
        """A tensor with values that the program read."""
        return self.constant(np.asarray(tensor))

    def extent(self, value: Any) -> int | Expr:
        """A size: a number, or an expression over names."""
        return value if isinstance(value, Expr) else int(value)

    def dims(self, expr: Expr) -> Traced:
        """An expression over sizes as an integer."""
        b = self.builder()
        op = DimsOp.of(values=[expr], scalar=UnitAttr(), location=b.location)
        return Traced(self, b.builder.insert(op).results[0])

    def expression(self, value: Any) -> Expr | None:
        """An integer of the program's as an expression over sizes, where it is one."""
        if isinstance(value, Expr):
            return value
        return Expr.of(index(value)) if issubclass(type(value), int | np.integer) else None

    def at_least(self, expr: Expr, bound: int) -> bool:
        """Whether the value is that much at least, whatever sizes are."""
        low, _ = (expr - bound).range({})
        return low is not None and low >= 0

    def bound(self, value: Any, stem: str) -> Expr:
        """An integer as a size of at least 0, which the program finds."""
        self.found += 1
        name = f"{stem}_{self.found}"
        b = self.builder()
        least = b.max(value.astype(np.int64).value, b.constant_of(np.asarray(0), I64))
        b.builder.insert(BindSizesOp.of(least, [name], b.location))
        return Expr.of(name)

    def print(self, text: str, values: Sequence[Traced]) -> None:
        """Appends what prints a text with tensors in its places."""
        b = self.builder()
        b.builder.insert(PrintOp.of(text, [each.value for each in values], b.location))

    def apply(self, name: str, *operands: Traced, **attributes: Any) -> Traced:
        """The first result of an operator. Raises TypeInferenceError that names the line."""
        return self.results(name, *operands, **attributes)[0]

    def results(self, name: str, *operands: Traced, **attributes: Any) -> list[Traced]:
        """All results of an operator. Raises TypeInferenceError that names the line."""
        values = [operand.value for operand in operands]
        given = {key: attribute_of(key, value) for key, value in attributes.items()}
        try:
            op = self.builder().op(name, *values, **given)
        except (TypeInferenceError, UnsupportedError) as error:
            raise type(error)(f"{users_line()}: {error}") from error
        return [Traced(self, result) for result in op.results]


def declared(dtype: str, shape: Sequence[Dim]) -> TensorType:
    """The type of an input, whose dims are numbers or names of sizes. Raises OptionError for names
    that the text of a graph does not have.
    """
    for dim in shape:
        if isinstance(dim, str) and not is_size_name(dim):
            rule = "an input requires names of sizes of letters, digits and _, and none such as d0"
            raise OptionError(f"{rule}, got {dim!r}")
    return tensor(shape, element_type(np.dtype(dtype)))


def hint_of(name: str) -> str:
    """A name as the text of a graph allows it."""
    return re.sub(r"[^A-Za-z0-9_$.-]", "_", name)


def _is_array(part: Any) -> bool:
    """Whether a part of an index is an array or a list, which choose copies."""
    if isinstance(part, list):
        return True
    return bool(getattr(part, "ndim", 0)) or getattr(part, "dtype", None) == np.bool_


def attribute_of(key: str, value: Any) -> Any:
    """An attribute as graph operators take it: element types for dtypes."""
    if key == "to" and not isinstance(value, Attribute):
        return element_type(np.dtype(value))
    return value


@dataclass(frozen=True, eq=False, repr=False)
class Traced(ArrayMethods):
    """A tensor of a graph in the making, with the operators and methods of NumPy's arrays; arrays
    and tensors with values become constants.

    It has no value yet: `if`, `while`, `bool` and `float` of it raise.
    """

    __slots__ = (  # those of tensors with values too, which become traced by assignments
        "_abstract", "_array", "_dims", "_node", "_position", "recording", "value", "views",
    )  # fmt: skip
    recording: Recording
    value: SSAValue

    def __getattr__(self, name: str) -> Any:
        if name == "views":
            return None
        if name == "value":
            raise lost(self, name)
        raise AttributeError(f"a traced tensor has no attribute {name!r}")

    def __repr__(self) -> str:
        shape = ", ".join(map(str, self.shape))
        return f"Traced([{shape}], dtype={self.dtype.name})"

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
    def python_type_name(self) -> str:
        """The name of Python's type that it stands for, where it is no tensor of the program."""
        return ""

    def results(self, name: str, *operands: Any, **attributes: Any) -> list[Any]:
        """All results of a graph operator."""
        given = [self.lifted(each) for each in operands]
        for each in given:
            if isinstance(each, Complex):
                return each.results(name, *given, **attributes)
        return self.recording.results(name, *given, **attributes)

    def extent(self, value: Any) -> int | Expr:
        """A size: a number, or an expression over names."""
        return self.recording.extent(value)

    def constant(self, value: Any) -> Any:
        """An array that the program brought along."""
        return self.recording.constant(np.asarray(value))

    def lifted(self, other: Any) -> Any:
        """A number, an array or a tensor as a part of this graph."""
        if isinstance(other, Traced):
            if other.recording is not self.recording:
                raise WeftError(f"{users_line()}: a graph requires tensors of one trace, got two")
            return other
        if isinstance(other, Complex):
            return Complex([self.lifted(each) for each in other.parts])
        if isinstance(other, ArrayOperators):
            return self.recording.held(other)
        return super().lifted(other)

    def shaped(self, shape: Any) -> Traced:
        """Other dims, or one, for the same elements in the same order; one may be -1."""
        wanted = [self.recording.extent(each) for each in extents(shape)]
        if -1 in [each for each in wanted if isinstance(each, int)]:
            rest = Expr.of(1)
            for each in wanted:
                rest = rest if isinstance(each, int) and each == -1 else rest * Expr.of(each)
            whole = self.type.size // rest
            wanted = [whole if isinstance(each, int) and each == -1 else each for each in wanted]
        sizes = ShapeAttr(tuple(Expr.of(each) for each in wanted))
        return self.recording.apply("reshape", self, shape=sizes)

    def broadcast_to(self, shape: Sequence[Any]) -> Traced:
        """The elements repeated along new axes in front and along those of size 1."""
        sizes = ShapeAttr(tuple(Expr.of(self.recording.extent(each)) for each in extents(shape)))
        found = self.recording.apply("expand", self, shape=sizes)
        return linked(found, Repeated(self, tuple(found.shape))) if type(found) is Traced else found

    def nonzero(self) -> tuple[Traced, ...]:
        """The places of the elements that are not zero, a vector an axis."""
        self._require_axis()
        found = index_vectors(self if self.dtype == np.bool_ else self != 0)
        return tuple(found[:, axis] for axis in range(self.ndim))

    def require_within(self, size: Any) -> None:
        """Refuses integers that are no index of an axis of that size, as far as they are known."""
        require_within(self, Expr.of(size))

    def __getitem__(self, index: Any) -> Traced:
        found = self.part(index)
        parts = cast("Any", index) if isinstance(index, tuple) else (index,)
        is_view = found.ndim and not any(_is_array(each) for each in parts)
        return linked(found, Link(self, index)) if is_view else found

    def part(self, index: Any) -> Traced:
        """What an index names, as a tensor of its own."""
        return chosen(self, parsed(index, self.shape))

    def __setitem__(self, index: Any, value: Any) -> None:
        self.require_changeable()
        assign(self, self.with_part(index, value))

    def require_changeable(self) -> None:
        """Refuses to change arguments, and what a branch or loop around has made."""
        require_changeable(self)
        base = root(self)
        owner = base.value.owner
        block = owner if isinstance(owner, Block) else owner.parent_block()
        if isinstance(owner, Block) and not (base.views and base.views.own):
            rule = "an assignment requires an array that the program made"
            raise WeftError(f"{users_line()}: {rule}, got an argument (change a copy: x.copy())")
        if block is not self.recording.block:
            rule = "an assignment requires an array that the same branch or loop made"
            raise WeftError(f"{users_line()}: {rule}, got one from around it (return it instead)")

    def with_part(self, index: Any, value: Any) -> Traced:
        """The tensor with other elements at an index."""
        return written(self, index, value)

    def become(self, value: Any) -> None:
        """Takes over the value of another tensor."""
        object.__setattr__(self, "value", value.value)

    def forget_elements(self) -> None:
        """Lets go of elements that are unknown."""
        object.__delattr__(self, "value")

    def showing(self, found: Any) -> Any:
        """A reshape of this tensor, which may show its elements."""
        return reshaped(found, self)

    def regrouped(self, shape: Any) -> Any:
        """Other dims for the same elements, of which NumPy always makes a view."""
        return linked(self.shaped(shape), Reshaped(self, shape))

    def transpose(self, *axes: Any) -> Any:
        """The axes in another order; without one reversed."""
        given = tuple(listed(axes[0])) if len(axes) == 1 else axes
        order = order_of(given, self.ndim)
        return linked(self.op("transpose", self, permutation=[*order]), Permuted(self, order))

    def duplicate(self) -> Traced:
        """Another array of the same elements."""
        found = Traced(self.recording, self.value)
        views_of(found).own = True
        return found

    def copy(self, order: str = "C") -> Any:
        """Another array of the same elements, which NumPy has row by row for the order "C"."""
        found = self.duplicate()
        views_of(found).rows = order == "C"
        return found

    clone = copy

    def __pos__(self) -> Any:
        return self.duplicate()

    def __len__(self) -> int:
        size = self.type.shape[0].constant if self.ndim else None
        if size is None:
            raise TypeError(f"{users_line()}: len requires a known first size, got {self.type}")
        return size

    def __iter__(self) -> Iterator[Traced]:
        return (self[position] for position in range(len(self)))

    def __bool__(self) -> bool:
        raise WeftError(
            f"{users_line()}: a condition requires a value, got a tensor that is being traced "
            "(weft.numpy.where chooses between tensors; weft.jit reads `if` and `while`)"
        )

    def _refuse_value(self, *_: Any, **__: Any) -> Any:
        """What `float(x)`, `np.asarray(x)`, `f"{x:.3f}"` and their kin raise."""
        rule = "a number or an array of NumPy requires a value"
        advice = "weft.numpy takes tensors, weft.numpy.stack joins several, weft.print shows values"
        raise WeftError(f"{users_line()}: {rule}, got a tensor that is being traced ({advice})")

    __float__ = __int__ = __index__ = __complex__ = __array__ = __dlpack__ = _refuse_value
    item = tolist = _refuse_value  # pyright: ignore[reportAssignmentType]

    def __format__(self, spec: str) -> str:
        return self._refuse_value() if spec else str(self)

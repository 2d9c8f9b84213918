"""`OnnxNode`: what the importer of an ONNX operator reads, and writes graph operators with."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np
from onnx import AttributeProto, NodeProto
from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import Attribute, SSAValue

from weft.compiler.frontend.onnx.constant_values import ConstantValues, OpenAxes
from weft.compiler.frontend.onnx.tensor import DTYPES
from weft.compiler.frontend.onnx.values import Texts
from weft.dialects.errors import ModelError, UnsupportedError
from weft.dialects.expr import Expr, ExprLike, product
from weft.dialects.graph import ConstantOp, DimsOp
from weft.dialects.graph.core.algebra import Term
from weft.dialects.graph.core.bounds_check import require_most
from weft.dialects.graph.core.broadcast import agreed_dim
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.dtypes import element_type, numpy_dtype
from weft.dialects.graph.core.op import AttributeValue
from weft.dialects.graph.core.types import I64, Shape, ShapeAttr, TensorType, type_of
from weft.dialects.graph.regions.effects import AssertOp
from weft.dialects.graph.reindexing.movement import assumed_dims
from weft.dialects.graph.reindexing.slicing import ConcatOp, below_zero
from weft.dialects.weights import Array

Element = TypeVar("Element")

WIDEST = 8
"""Bytes of the largest element."""


class OnnxNode:
    """A node at the newest opset, its operands imported. Errors do not name it; the caller does.

    `b` inserts graph operators by name, at the node's location; `bind` makes an i64 scalar a size;
    `rank_of` knows the ranks that the file declares, `texts` the numbers of strings.
    """

    def __init__(
        self,
        proto: NodeProto,
        operands: Sequence[SSAValue | None],
        b: GraphBuilder,
        constants: ConstantValues,
        used: Container[str],
        base_dir: Path | None,
        bind: Callable[[SSAValue], Expr],
        rank_of: Callable[[str], int | None],
        texts: Texts,
    ) -> None:
        self.proto = proto
        self.operands = operands
        self.b = b
        self.constants = constants
        self.base_dir = base_dir
        self._bind = bind
        self._rank_of = rank_of
        self.texts = texts
        self._used = used
        self._attributes = {attribute.name: attribute for attribute in proto.attribute}

    # Operands ---------------------------------------------------------------------------------

    def operand(self, position: int) -> SSAValue:
        """A required operand."""
        value = self.optional(position)
        if value is None:
            raise ModelError(f"{self.proto.op_type} requires operand {position}, got none")
        return value

    def optional(self, position: int) -> SSAValue | None:
        """An operand that may be absent."""
        return self.operands[position] if position < len(self.operands) else None

    def present(self) -> list[SSAValue]:
        """All operands that are there."""
        return [operand for operand in self.operands if operand is not None]

    def type(self, position: int = 0) -> TensorType:
        """The type of a required operand."""
        return type_of(self.operand(position))

    def shape(self, position: int = 0) -> Shape:
        """The dims of a required operand, whose rank must be known."""
        return self.type(position).shape

    def shape_of(self, position: int, rank: int) -> Shape:
        """The dims of a required operand of that rank."""
        tensor_type = self.type(position)
        if not tensor_type.has_rank or tensor_type.rank != rank:
            raise ModelError(f"operand {position} requires {rank} dims, got {tensor_type}")
        return tensor_type.shape

    def static_shape(self, position: int = 0) -> tuple[int, ...]:
        """The dims of a required operand, which must be static."""
        shape = self.type(position).static_shape
        if shape is None:
            raise UnsupportedError(
                f"operand {position} requires a static shape, got {self.type(position)}"
            )
        return shape

    def dims(self, position: int, what: str) -> list[Expr]:
        """The integer elements of a required operand, which must be known while compiling."""
        value = self.operand(position)
        exprs = self.constants.dims(value)
        if exprs is None:
            rule = f"requires {what} that is known while compiling"
            raise UnsupportedError(f"{rule}, got {type_of(value)} that depends on data")
        return list(exprs)

    def found_dims(self, position: int) -> list[Expr]:
        """Like `dims`; elements that depend on data become sizes that the program finds."""
        exprs = self.constants.dims(self.operand(position))
        if exprs is not None:
            return list(exprs)
        parts = self.elements(position)
        return [part if isinstance(part, Expr) else self._bind(part) for part in parts]

    def find(self, scalar: SSAValue) -> Expr:
        """An i64 scalar as a size that the program finds; it fails where that is below 0."""
        return self._bind(scalar)

    def elements(self, position: int, count: int | None = None) -> list[Expr | SSAValue]:
        """The elements of an integer vector or scalar: expressions, or i64 scalars where these
        depend on data. Of a vector of any length, there are as many as `count`, which each call
        checks. Raises UnsupportedError where nobody knows how many there are.
        """
        value, tensor_type = self.operand(position), self.type(position)
        is_open = tensor_type.has_rank and [d.constant for d in tensor_type.shape] == [None]
        return self._elements(
            value if count is None or not is_open else self.assume(value, [count])
        )

    def _elements(self, value: SSAValue) -> list[Expr | SSAValue]:
        exprs = self.constants.dims(value)
        if exprs is not None:
            return list(exprs)
        owner, tensor_type = value.owner, type_of(value)
        if isinstance(owner, ConcatOp):
            return [part for operand in owner.operands for part in self._elements(operand)]
        if not tensor_type.has_rank or tensor_type.rank > 1 or tensor_type.static_shape is None:
            raise UnsupportedError(f"requires a vector of known length, got {tensor_type}")
        wide = self.cast(value, I64)
        if tensor_type.rank == 0:
            return [wide]
        count = tensor_type.static_shape[0]
        numbers = [self.b.constant_of(number, I64) for number in range(count)]
        return [self.b.gather(wide, number, axis=0) for number in numbers]

    def require_most(self, size: Expr, most: Expr, rule: str) -> None:
        """Refuses a size above another: now, where it certainly is, or else in each call. The rule
        has a place for the other.
        """
        if below_zero(most - size):
            raise ModelError(f"requires {rule.format(most)}, got {size}")
        require_most(self.b, size, most, rule)

    def require(self, held: Term, rule: str, got: Sequence[Term] = ()) -> None:
        """Ends a call in which a bool does not hold; the integers that are got are shown."""
        facts = ", ".join(["{}"] * len(got)) or "others"
        text = f"run requires {rule}, got {facts}"
        shown = [each.value for each in got]
        self.b.builder.insert(AssertOp.of(held.value, text, shown, self.b.location))

    def require_other(self, size: Expr, other: int) -> None:
        """Ends a call in which a size is that number."""
        found = Term(self.b, self.size_scalar(size))
        self.require((found < other) | (found > other), f"{size} other than {other}", [found])

    def size_scalar(self, size: Expr | SSAValue) -> SSAValue:
        """A size, or an integer, as an i64 of rank 0."""
        if isinstance(size, SSAValue):
            return size
        if size.constant is not None:
            return self.b.constant_of(np.array(size.constant, np.int64), I64)
        op = DimsOp.of(values=[size], scalar=UnitAttr(), location=self.b.location)
        return self.b.builder.insert(op).results[0]

    def numbers(self, position: int, what: str) -> list[int]:
        """Like `dims`, for what must be plain numbers, such as axes."""
        exprs = self.dims(position, what)
        constants = [expr.constant for expr in exprs]
        numbers = [number for number in constants if number is not None]
        if len(numbers) < len(exprs):
            listed = ", ".join(map(str, exprs))
            raise UnsupportedError(f"requires {what} as plain numbers, got [{listed}]")
        return numbers

    def optional_numbers(self, position: int, what: str) -> list[int] | None:
        """`numbers` of an operand that may be absent."""
        return None if self.optional(position) is None else self.numbers(position, what)

    def axes(self, position: int, rank: int) -> list[int] | None:
        """The axes, of a value of so many dims, that an operand lists, which may be absent. Raises
        OpenAxes where only a call knows them: the node becomes a branch for each choice then.
        """
        if self.is_open(position):
            raise OpenAxes(position, rank, self.type(position))
        return self.optional_numbers(position, "axes")

    def number(self, position: int, what: str, default: int | None = None) -> int:
        """The one plain number of an operand, which may be absent where there is a default."""
        if self.optional(position) is None and default is not None:
            return default
        return only(self.numbers(position, what), what)

    def size(self, position: int, what: str) -> Expr:
        """The one integer of a required operand, a size; where it depends on data, one that the
        program finds.
        """
        return only(self.found_dims(position), what)

    def is_open(self, position: int) -> bool:
        """Whether only a call knows the integers of an operand, which may be absent."""
        value = self.optional(position)
        return value is not None and self.constants.dims(value) is None

    def scalars(self, position: int) -> list[Term]:
        """The elements of an integer vector or scalar as i64 scalars, known or not."""
        return [Term(self.b, self.size_scalar(each)) for each in self.elements(position)]

    def array(self, position: int, what: str) -> Array:
        """The elements of a required operand that must be constant."""
        value = self.operand(position)
        array = self.constants.constant_array(value)
        if array is None:
            raise UnsupportedError(f"requires a constant {what}, got {type_of(value)}")
        return array

    # Attributes and outputs -------------------------------------------------------------------

    def has(self, name: str) -> bool:
        """Whether the node has the attribute."""
        return name in self._attributes

    def attribute(self, name: str) -> AttributeProto:
        """An attribute that the operator's schema requires."""
        if name not in self._attributes:
            raise ModelError(f"{self.proto.op_type} requires attribute {name}, got none")
        return self._attributes[name]

    def integer(self, name: str, default: int) -> int:
        """An integer attribute."""
        return self._attributes[name].i if self.has(name) else default

    def flag(self, name: str, *, default: bool = False) -> bool:
        """An integer attribute that is 0 or 1. Raises UnsupportedError for another number: nothing
        says what that means.
        """
        return as_flag(self.integer(name, int(default)), name)

    def real(self, name: str, default: float) -> float:
        """A float attribute."""
        return self._attributes[name].f if self.has(name) else default

    def text(self, name: str, default: str) -> str:
        """A string attribute."""
        return decode(self._attributes[name].s) if self.has(name) else default

    def integers(self, name: str, default: Sequence[int]) -> list[int]:
        """A list of integers."""
        return list(self._attributes[name].ints) if self.has(name) else list(default)

    def reals(self, name: str) -> list[float]:
        """A list of floats, which is empty where the node has none."""
        return list(self._attributes[name].floats) if self.has(name) else []

    def uses(self, position: int) -> bool:
        """Whether something reads the output."""
        outputs = self.proto.output
        return position < len(outputs) and outputs[position] in self._used

    def declared_rank(self) -> int | None:
        """The rank that the file says the first output has."""
        return self._rank_of(self.proto.output[0])

    # Strings ----------------------------------------------------------------------------------

    def has_strings(self, position: int) -> bool:
        """Whether an operand is strings, as numbers."""
        return self.texts.are_numbers(self.proto.input[position])

    def text_numbers(self, name: str) -> Array:
        """The numbers of an attribute's strings."""
        return self.numbers_of_texts([decode(text) for text in self.attribute(name).strings])

    def numbers_of_texts(self, texts: Array | Sequence[str]) -> Array:
        """The numbers of strings that stand in the model."""
        return self.texts.vocabulary.numbers(texts)

    def give_strings(self, position: int) -> None:
        """Says that an output is strings that stand in the model, as numbers."""
        if position < len(self.proto.output):
            self.texts.note_numbers(self.proto.output[position])

    # What importers share ---------------------------------------------------------------------

    def constant(self, array: Array) -> SSAValue:
        """A constant of any size: a small one inline, another in the weight store."""
        self.reserve(array.size)
        op = ConstantOp.stored(self._first_name, array, self.constants.store, self.b.location)
        return self.b.builder.insert(op).results[0]

    def reserve(self, elements: int) -> None:
        """Counts the elements of a constant, before one that may be large is made. Raises
        BudgetError where they take too many bytes.
        """
        self.constants.store.budget.spend_bytes(elements * WIDEST, self.proto.op_type)

    def given(self, array: Array) -> SSAValue:
        """A tensor of the model's own, which may be a weight."""
        op = ConstantOp.given(self._first_name, array, self.constants.store, self.b.location)
        return self.b.builder.insert(op).results[0]

    @property
    def _first_name(self) -> str:
        return next(iter(self.proto.output), self.proto.name)

    def scalar(self, value: float, element: Attribute) -> SSAValue:
        """A constant of rank 0."""
        return self.b.constant_of(value, element)

    def reshape(self, value: SSAValue, shape: Sequence[ExprLike]) -> SSAValue:
        """The value under other dims; the value itself where they are the same. Where only a call
        knows whether they have its size, each call checks that.
        """
        wanted, tensor_type = dims_attr(shape), type_of(value)
        if tensor_type.dims == wanted:
            return value
        size = TensorType(wanted, tensor_type.element).size
        if tensor_type.has_rank and (tensor_type.size - size).constant is None:
            dims = [self.constants.equal.normal(dim) for dim in tensor_type.shape]
            if product(dims) != size:
                return self.b.dynamic_reshape(value, shape=wanted)
            value = self.assume(value, dims)
        return self.b.reshape(value, shape=wanted)

    def assume(self, value: SSAValue, shape: Sequence[ExprLike]) -> SSAValue:
        """The value with dims that each call has to bring; the value itself where it has them."""
        return assumed_dims(self.b, value, dims_attr(shape))

    def assume_size(self, value: SSAValue, axis: int, size: Expr, rule: str) -> SSAValue:
        """The value with a dim that each call has to bring. The rule, which is broken where it
        never can, has a place for the dim that there is.
        """
        dims = list(type_of(value).shape)
        if agreed_dim([dims[axis], size]) is None:
            raise ModelError(f"requires {rule.format(dims[axis])}, got {size}")
        dims[axis] = size
        return self.assume(value, dims)

    def cast(self, value: SSAValue, element: Attribute) -> SSAValue:
        """The value converted to another element type; the value itself where it has that."""
        return value if type_of(value).element == element else self.b.cast(value, to=element)


def only(elements: Sequence[Element], what: str) -> Element:
    """The element of a list of one; raises ModelError for other lists."""
    if len(elements) != 1:
        raise ModelError(f"requires one element as {what}, got {len(elements)}")
    return elements[0]


def only_element(array: Array, what: str) -> np.generic:
    """The element of an array of one; raises ModelError for other arrays."""
    if array.size != 1:
        raise ModelError(f"requires one element as {what}, got {array.size}")
    return array.reshape(-1)[0]


Importer = Callable[[OnnxNode], Sequence[SSAValue]]
"""Writes the graph operators of a node; returns its results, unused trailing ones left out."""

ImporterTable = Mapping[str, Importer]


def dims_attr(dims: Sequence[ExprLike]) -> ShapeAttr:
    """The attribute of a list of dims, which may be empty."""
    return ShapeAttr(tuple(Expr.of(dim) for dim in dims))


def decode(text: bytes) -> str:
    """A string attribute's text; raises ModelError for bytes that are no UTF-8."""
    try:
        return text.decode()
    except UnicodeDecodeError as error:
        raise ModelError(f"a string attribute requires UTF-8, got {text[:40]!r}") from error


def onnx_element(number: int) -> Attribute:
    """The element type of an ONNX data type."""
    if number not in DTYPES:
        raise ModelError(f"a tensor requires a known element type, got {number}")
    return element_type(np.dtype(DTYPES[number]))


def normal_axis(axis: int, rank: int) -> int:
    """The axis counted from the front; raises ModelError where there is none."""
    if not -rank <= axis < rank:
        raise ModelError(f"requires an axis from {-rank} to {rank - 1}, got {axis}")
    return axis % rank


def never_equal(one: Shape, other: Shape) -> bool:
    """Whether dims differ whatever a call brings."""
    pairs = zip(one, other, strict=False)
    return len(one) != len(other) or any((dim - size).constant for dim, size in pairs)


def unique_axes(axes: Iterable[int], rank: int) -> list[int]:
    """The axes counted from the front; raises ModelError where one is twice among them."""
    normal = [normal_axis(axis, rank) for axis in axes]
    if len(set(normal)) < len(normal):
        raise ModelError(f"requires axes that differ, got {normal}")
    return normal


def onnx_number(element: Attribute) -> int:
    """The ONNX data type of an element type."""
    dtype = numpy_dtype(element)
    return next(number for number, known in DTYPES.items() if known == dtype)


def as_flag(value: AttributeValue, name: str) -> bool:
    """An attribute that is 0 or 1 as a bool. Raises UnsupportedError for another value."""
    if value not in (0, 1):
        raise UnsupportedError(f"requires 0 or 1 as its attribute {name}, got {value}")
    return bool(value)


def attribute_value(attribute: AttributeProto) -> AttributeValue:
    """The Python value of an attribute of numbers or text."""
    if attribute.type == AttributeProto.INT:
        return attribute.i
    if attribute.type == AttributeProto.FLOAT:
        return attribute.f
    if attribute.type == AttributeProto.STRING:
        return decode(attribute.s)
    if attribute.type == AttributeProto.INTS:
        return list(attribute.ints)
    type_name = AttributeProto.AttributeType.Name(attribute.type).lower()
    raise UnsupportedError(f"attribute {attribute.name} requires numbers or text, got {type_name}")

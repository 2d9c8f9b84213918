"""Constants: small ones inline, others by their key in the weight store;
and the vector of dims known by expression.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Final

import numpy as np
from xdsl.dialects.builtin import IntegerType, LocationAttr, StringAttr
from xdsl.ir import Attribute, Data, SSAValue
from xdsl.irdl import irdl_attr_definition, irdl_op_definition, opt_prop_def, prop_def, result_def
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from weft.dialects.errors import WeftError
from weft.dialects.expr import Expr, Operand
from weft.dialects.graph.core.dtypes import element_type, numpy_dtype
from weft.dialects.graph.core.op import GraphOp
from weft.dialects.graph.core.sharding_rule import ShardingRule, whole_but
from weft.dialects.graph.core.types import BOOL, I64, INTEGERS, UI64, ShapeAttr, TensorType, tensor
from weft.dialects.loop.builder import Buffers, LoopBuilder
from weft.dialects.weights import Array, WeightStore

INLINE_ELEMENTS = 16
"""Constants up to this many elements are part of the IR's text."""

_DIMS = (*INTEGERS, BOOL)

_STRUCTURE = (I64, UI64, BOOL)


def may_be_replaced(element: Attribute) -> bool:
    """Whether tensors of the element type may be weights: not bools and integers of 64 bits,
    which decide shapes, places and branches.
    """
    return element not in _STRUCTURE


@irdl_attr_definition
class LiteralAttr(Data[tuple[bool | int | float, ...]]):
    """The elements of a small constant in row-major order: `#graph.literal<[1, 2]>`.

    One element may stand for all.
    """

    name = "graph.literal"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[bool | int | float, ...]:
        with parser.in_angle_brackets():
            return tuple(
                parser.parse_comma_separated_list(
                    parser.Delimiter.SQUARE, lambda: _parse_number(parser)
                )
            )

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(f"<[{', '.join(_format_number(number) for number in self.data)}]>")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LiteralAttr) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)

    @cached_property
    def _text(self) -> str:
        return str(self)


def _parse_number(parser: AttrParser) -> bool | int | float:
    sign = -1 if parser.parse_optional_punctuation("-") else 1
    for word, value in (("inf", math.inf), ("nan", math.nan), ("true", True), ("false", False)):
        if parser.parse_optional_keyword(word):
            return sign * value if sign < 0 else value
    number = parser.parse_number(allow_boolean=False)
    return -number if sign < 0 else number


def _format_number(number: bool | int | float) -> str:
    if isinstance(number, bool):
        return "true" if number else "false"
    if isinstance(number, int) or not math.isfinite(number):
        return str(number)
    text = repr(number)
    mantissa, e, exponent = text.partition("e")
    return text if not e or "." in mantissa else f"{mantissa}.0e{exponent}"


@irdl_op_definition
class ConstantOp(GraphOp):
    """A tensor known while compiling: `literal` holds a small one's
    elements, `key` names a stored one.
    """

    name = "graph.constant"
    literal: LiteralAttr | None = opt_prop_def(LiteralAttr)
    key: StringAttr | None = opt_prop_def(StringAttr)
    shape: ShapeAttr = prop_def(ShapeAttr)
    element: Attribute = prop_def(Attribute)
    result: SSAValue = result_def(TensorType)

    @classmethod
    def small(
        cls, array: Array, element: Attribute, location: LocationAttr | None = None
    ) -> ConstantOp:
        """An inline constant; equal elements are written once."""
        values = np.asarray(array).astype(numpy_dtype(element))
        flat = values.reshape(-1)
        number = _number(element)
        numbers = [number(x) for x in (flat[:1] if _is_uniform(flat) else flat)]
        return cls.of(
            literal=LiteralAttr(tuple(numbers)),
            shape=_dims(values.shape),
            element=element,
            location=location,
        )

    @classmethod
    def filled(
        cls, value: Array, shape: Sequence[int], location: LocationAttr | None = None
    ) -> ConstantOp:
        """An inline constant of any shape, everywhere the only element of an array."""
        element = element_type(value.dtype)
        number = _number(element)(value.reshape(1)[0])
        literal = LiteralAttr((number,) if 0 not in shape else ())
        return cls.of(literal=literal, shape=_dims(shape), element=element, location=location)

    @classmethod
    def stored(
        cls, name: str, array: Array, store: WeightStore, location: LocationAttr | None = None
    ) -> ConstantOp:
        """A constant of any size: inline where small, else put into the store."""
        element = element_type(array.dtype)
        if array.size <= INLINE_ELEMENTS:
            return cls.small(array, element, location)
        return cls.keyed(store.add(name, array), array, location)

    @classmethod
    def given(
        cls, name: str, array: Array, store: WeightStore, location: LocationAttr | None = None
    ) -> ConstantOp:
        """A tensor of the model. In a replaceable store it stays one of its own, however small,
        where it may be a weight: single numbers and a few integers are part of the program.
        """
        element = element_type(array.dtype)
        may = store.replaceable and may_be_replaced(element)
        fewest = INLINE_ELEMENTS if isinstance(element, IntegerType) else 1
        if not may or array.size <= fewest:
            if store.replaceable:
                store.fix(name, array)
            return cls.stored(name, array, store, location)
        return cls.keyed(store.give(name, array), array, location)

    @classmethod
    def keyed(cls, key: str, array: Array, location: LocationAttr | None = None) -> ConstantOp:
        """The constant of an array that a store has."""
        shape, element = _dims(array.shape), element_type(array.dtype)
        return cls.of(key=key, shape=shape, element=element, location=location)

    @classmethod
    def computed(
        cls, name: str, array: Array, store: WeightStore, location: LocationAttr | None = None
    ) -> ConstantOp:
        """A constant of any size that is no tensor of the model: also inline where all elements are
        equal, so that operators fold by it.
        """
        if _is_uniform(array.reshape(-1)):
            return cls.filled(array.reshape(-1)[:1], array.shape, location)
        return cls.stored(name, array, store, location)

    def array(self, store: WeightStore | None) -> Array:
        """The value; one that is not inline is looked up in the store, which may have it under
        another shape.
        """
        shape = self.result_type.static_shape
        assert shape is not None, "a constant has a static shape"
        if self.literal is not None:
            values = np.array(self.literal.data, dtype=numpy_dtype(self.element))
            return np.broadcast_to(values[0], shape) if values.size == 1 else values.reshape(shape)
        assert self.key is not None, "a constant has a literal or a key"
        if store is None or self.key.data not in store:
            rule = f"weight {self.key.data} in the weight store"
            raise WeftError(f"{self.name} requires {rule}, got none of that key")
        return store[self.key.data].reshape(shape)

    def infer(self) -> Sequence[TensorType]:
        return [TensorType(self.shape, self.element)]

    def sharding_rule(self) -> ShardingRule | None:
        """One element everywhere is so in any part."""
        if self.literal is None or len(self.literal.data) > 1:
            return None
        return ShardingRule((), (whole_but(self.result_type.rank, ()),))

    def local_properties(self, results: Sequence[TensorType]) -> Mapping[str, Attribute]:
        return {**self.properties, "shape": results[0].dims}

    def reference(self, *operands: Array) -> Sequence[Array]:
        return [self.array(None)]

    def fold_dims(self, *operands: Sequence[Expr] | None) -> Sequence[Expr] | None:
        if self.literal is None or self.result_type.rank > 1 or self.element not in _DIMS:
            return None
        return [Expr.of(int(value)) for value in self.array(None).reshape(-1)]

    def lower(self, b: LoopBuilder, operands: Buffers, results: Buffers) -> None:
        """Stores a literal element by element; a splat in one loop nest.
        Keyed constants become weights instead.
        """
        assert self.literal is not None, (
            "a stored constant is a weight of the program, not a loop nest"
        )
        numbers = self.literal.data
        if len(numbers) == 1:
            with b.loops(self.result_type.shape) as index:
                b.store(results[0], index, b.constant(numbers[0], self.element))
            return
        # Of no elements there is no index to go through, however large the other extents are.
        shape = (self.result_type.static_shape or ()) if numbers else (0,)
        for position, index in enumerate(np.ndindex(*shape)):
            b.store(
                results[0], [int(i) for i in index], b.constant(numbers[position], self.element)
            )


_BEGIN: Final = 64
"""Elements."""


def _is_uniform(elements: Array) -> bool:
    """Whether there are several elements, all of the same number; 0 is not -0."""
    begin = elements[:_BEGIN]  # by which most are told apart
    if elements.size < 2 or not (begin == begin[0]).all() or not (elements == begin[0]).all():
        return False
    patterns = np.ascontiguousarray(elements).view(np.uint8).reshape(elements.size, -1)
    return bool((patterns == patterns[0]).all())


def _dims(shape: Sequence[int]) -> ShapeAttr:
    return ShapeAttr(tuple(Expr.of(int(dim)) for dim in shape))


def _number(element: Attribute) -> type[bool | int | float]:
    """The Python numbers of an element type."""
    if element == BOOL:
        return bool
    return int if isinstance(element, IntegerType) else float


@irdl_op_definition
class DimsOp(GraphOp):
    """A vector of sizes that are known as expressions:
    `graph.dims {values = #graph.shape<[batch, 2 * seq]>}`.

    With `scalar` set it is the one size as a tensor of rank 0.
    """

    name = "graph.dims"
    values: ShapeAttr = prop_def(ShapeAttr)
    scalar: Attribute | None = opt_prop_def(Attribute)
    result: SSAValue = result_def(TensorType)

    def infer(self) -> Sequence[TensorType]:
        assert self.values.data is not None, "a vector of dims lists them"
        return [tensor([] if self.scalar is not None else [len(self.values.data)], I64)]

    def reference(self, *operands: Array) -> Sequence[Array]:
        numbers = [expr.constant for expr in self.values.data or ()]
        self.require(None not in numbers, "known dims to be evaluated", self.values)
        return [np.array(numbers, dtype=np.int64).reshape(self.result_type.static_shape or ())]

    def fold_dims(self, *operands: Sequence[Expr] | None) -> Sequence[Expr] | None:
        return self.values.data

    def lower(self, b: LoopBuilder, operands: Buffers, results: Buffers) -> None:
        for position, expr in enumerate(self.values.data or ()):
            assert not any(isinstance(atom, Operand) for atom in expr.atoms()), (
                "dims mention symbols only"
            )
            b.store(results[0], [] if self.scalar is not None else [position], b.index(expr, I64))


OPS = (ConstantOp, DimsOp)

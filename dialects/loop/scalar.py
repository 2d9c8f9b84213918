"""`Scalar`: a value inside a loop nest with Python's operators,
so that a lowering reads like its formula.

Element types f16, bf16 and narrower floats are computed in f32, integers of 2 and 4 bits in 8:
loads extend, stores round or cut once.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from msgspec import Struct
from xdsl.builder import Builder
from xdsl.dialects import arith, math
from xdsl.dialects.builtin import (
    AnyFloat,
    BFloat16Type,
    BoolAttr,
    FixedBitwidthType,
    Float4E2M1FNType,
    Float6E2M3FNType,
    Float6E3M2FNType,
    Float8E3M4Type,
    Float8E4M3B11FNUZType,
    Float8E4M3FNType,
    Float8E4M3FNUZType,
    Float8E4M3Type,
    Float8E5M2FNUZType,
    Float8E5M2Type,
    Float8E8M0FNUType,
    Float16Type,
    Float32Type,
    Float64Type,
    FloatAttr,
    IndexType,
    IntAttr,
    IntegerAttr,
    IntegerType,
    Signedness,
)
from xdsl.dialects.utils.fast_math import FastMathFlag
from xdsl.ir import Attribute, Operation, SSAValue

from weft.dialects.expr_text import INDEX
from weft.dialects.loop.arithmetic import DotBytesOp, FieldOp, GeluOp, RemFOp, ThreefryOp
from weft.dialects.loop.types import is_integer, register_type

BOOL = IntegerType(1)
F32 = Float32Type()
I64 = IntegerType(64)
UI8 = IntegerType(8, Signedness.UNSIGNED)
NARROW_FLOATS = (
    Float8E3M4Type(),
    Float8E4M3B11FNUZType(),
    Float8E4M3Type(),
    Float8E4M3FNType(),
    Float8E4M3FNUZType(),
    Float8E5M2Type(),
    Float8E5M2FNUZType(),
    Float8E8M0FNUType(),
    Float6E2M3FNType(),
    Float6E3M2FNType(),
    Float4E2M1FNType(),
)
"""Floats of at most 8 bits, which values are stored in and never computed in."""

Number = float | int | bool

_FLOAT_COMPARISONS = {"eq": "oeq", "ne": "une", "lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge"}
_SIGNED_COMPARISONS = {"eq": "eq", "ne": "ne", "lt": "slt", "le": "sle", "gt": "sgt", "ge": "sge"}
_UNSIGNED_COMPARISONS = {"eq": "eq", "ne": "ne", "lt": "ult", "le": "ule", "gt": "ugt", "ge": "uge"}

ANY_ZERO = arith.FastMathFlagsAttr([FastMathFlag.NO_SIGNED_ZEROS])
"""What a greatest or least number says of zeros: that their signs do not matter."""


def is_float(element: Attribute) -> bool:
    """Whether the element type is a floating-point one."""
    float_classes = (Float16Type, BFloat16Type, Float32Type, Float64Type)
    return isinstance(element, float_classes) or element in NARROW_FLOATS


def is_unsigned(element: Attribute) -> bool:
    """Whether the element type counts from zero; bool does."""
    return is_integer(element) and (
        element.signedness.data == Signedness.UNSIGNED or element.width.data == 1
    )


def is_bool(element: Attribute) -> bool:
    """Whether the element type is bool."""
    return element == BOOL


def compute_type(element: Attribute) -> Attribute:
    """The element type in which values of this one are computed."""
    if isinstance(element, (Float16Type, BFloat16Type)) or element in NARROW_FLOATS:
        return F32
    if is_integer(element) and 1 < element.width.data < 8:
        return IntegerType(8, element.signedness)
    return element


def width(element: Attribute) -> int:
    """Bits of an integer or floating-point element type; an index counts as 64."""
    if isinstance(element, IndexType):
        return 64
    assert isinstance(element, FixedBitwidthType), f"an element has a width, not {element}"
    return element.bitwidth


class Scalar(Struct, frozen=True, eq=False):
    """One value of the loop nest under construction:
    where it is built, its SSA value and its element type.
    """

    builder: Builder
    value: SSAValue
    element: Attribute

    def constant(self, number: Number) -> Scalar:
        """A constant of this scalar's element type."""
        return constant(self.builder, number, self.element)

    def _insert(self, op: Operation, element: Attribute | None = None) -> Scalar:
        self.builder.insert(op)
        return Scalar(self.builder, op.results[0], self.element if element is None else element)

    def _other(self, other: Scalar | Number) -> SSAValue:
        return other.value if isinstance(other, Scalar) else self.constant(other).value

    def _binary(
        self,
        other: Scalar | Number,
        for_floats: Callable[[SSAValue, SSAValue], Operation] | None,
        *for_integers: Callable[[SSAValue, SSAValue], Operation],
    ) -> Scalar:
        """Inserts the operation for floats, or the one for signed (then unsigned) integers."""
        right = self._other(other)
        chosen = (
            for_floats
            if is_float(self.element)
            else for_integers[-1 if is_unsigned(self.element) else 0]
        )
        assert chosen is not None, f"this operation is not defined on {self.element}"
        return self._insert(chosen(self.value, right))

    def __add__(self, other: Scalar | Number) -> Scalar:
        return self._binary(other, arith.AddfOp, arith.AddiOp)

    def __sub__(self, other: Scalar | Number) -> Scalar:
        return self._binary(other, arith.SubfOp, arith.SubiOp)

    def __mul__(self, other: Scalar | Number) -> Scalar:
        return self._binary(other, arith.MulfOp, arith.MuliOp)

    def __truediv__(self, other: Scalar | Number) -> Scalar:
        """The quotient; of integers, rounded towards zero and undefined for a zero divisor."""
        return self._binary(other, arith.DivfOp, arith.DivSIOp, arith.DivUIOp)

    def __neg__(self) -> Scalar:
        if is_float(self.element):
            return self._insert(arith.NegfOp(self.value))
        return self.constant(0) - self

    def remainder(self, other: Scalar | Number) -> Scalar:
        """The exact remainder with the dividend's sign."""
        return self._binary(other, RemFOp, arith.RemSIOp, arith.RemUIOp)

    def maximum(self, other: Scalar | Number, *, any_zero: bool = False) -> Scalar:
        """The greater; NaN where either is. With `any_zero` neither of +0 and -0 is the greater,
        which takes fewer instructions.
        """
        floats = partial(arith.MaximumfOp, flags=ANY_ZERO) if any_zero else arith.MaximumfOp
        return self._binary(other, floats, arith.MaxSIOp, arith.MaxUIOp)

    def maximum_number(self, other: Scalar | Number) -> Scalar:
        """The greater; where one is NaN, the other."""
        return self._binary(other, arith.MaxnumfOp, arith.MaxSIOp, arith.MaxUIOp)

    def minimum(self, other: Scalar | Number, *, any_zero: bool = False) -> Scalar:
        """The lesser; NaN where either is. With `any_zero` neither of +0 and -0 is the lesser."""
        floats = partial(arith.MinimumfOp, flags=ANY_ZERO) if any_zero else arith.MinimumfOp
        return self._binary(other, floats, arith.MinSIOp, arith.MinUIOp)

    def __and__(self, other: Scalar | Number) -> Scalar:
        return self._binary(other, None, arith.AndIOp)

    def __or__(self, other: Scalar | Number) -> Scalar:
        return self._binary(other, None, arith.OrIOp)

    def __xor__(self, other: Scalar | Number) -> Scalar:
        return self._binary(other, None, arith.XOrIOp)

    def __invert__(self) -> Scalar:
        """Every bit flipped; of a bool, its negation."""
        return self ^ (True if is_bool(self.element) else -1)

    def shift_left(self, other: Scalar | Number) -> Scalar:
        """Bits shifted up; the count is less than the width."""
        return self._binary(other, None, arith.ShLIOp)

    def shift_right(self, other: Scalar | Number) -> Scalar:
        """Bits shifted down, the sign kept where there is one."""
        return self._binary(other, None, arith.ShRSIOp, arith.ShRUIOp)

    def field(self, low: int, bits: int, *, centred: bool) -> Scalar:
        """Bits of this word of 32 as an f32, counted from half of their range where centred."""
        field = FieldOp.build(
            operands=[self.value],
            properties={
                "low": IntAttr(low),
                "bits": IntAttr(bits),
                "centred": BoolAttr.from_bool(centred),
            },
            result_types=[F32],
        )
        return self._insert(field, F32)

    def dot_bytes(self, unsigned: Scalar, signed: Scalar) -> Scalar:
        """This i32 plus the products of the bytes of one word, unsigned, and another, signed."""
        return self._insert(
            DotBytesOp.build(
                operands=[self.value, unsigned.value, signed.value], result_types=[self.element]
            )
        )

    def threefry(self, count: Scalar) -> Scalar:
        """Two random words of 32 bits in one of 64, of which this is the key."""
        return self._insert(
            ThreefryOp.build(operands=[self.value, count.value], result_types=[self.value.type])
        )

    def compare(self, predicate: str, other: Scalar | Number) -> Scalar:
        """A bool: `eq ne lt le gt ge`; ordered on floats, so that NaN only is `ne`."""
        right = self._other(other)
        if is_float(self.element):
            return self._insert(
                arith.CmpfOp(self.value, right, _FLOAT_COMPARISONS[predicate]), BOOL
            )
        names = _UNSIGNED_COMPARISONS if is_unsigned(self.element) else _SIGNED_COMPARISONS
        return self._insert(arith.CmpiOp(self.value, right, names[predicate]), BOOL)

    def __lt__(self, other: Scalar | Number) -> Scalar:
        return self.compare("lt", other)

    def __le__(self, other: Scalar | Number) -> Scalar:
        return self.compare("le", other)

    def __gt__(self, other: Scalar | Number) -> Scalar:
        return self.compare("gt", other)

    def __ge__(self, other: Scalar | Number) -> Scalar:
        return self.compare("ge", other)

    def select(self, then: Scalar, otherwise: Scalar) -> Scalar:
        """The first where this bool holds, else the second."""
        assert is_bool(self.element), "a choice is made by a bool"
        return self._insert(arith.SelectOp(self.value, then.value, otherwise.value), then.element)

    def is_nan(self) -> Scalar:
        """A bool: whether the value is no number."""
        return self._insert(arith.CmpfOp(self.value, self.value, "uno"), BOOL)

    def math(self, name: str, *others: Scalar) -> Scalar:
        """A function of MLIR's math dialect by its name there, or `gelu`:
        `exp`, `log`, `tanh`, `erf`, `powf`, `floor`, ...
        """
        function: Any = MATH_OPS[name]
        return self._insert(function(self.value, *(other.value for other in others)))

    def cast(self, element: Attribute) -> Scalar:
        """The value as another element type: floats to integers truncate and saturate,
        numbers to bool test for zero.
        """
        if element == self.element:
            return self
        if is_bool(element):
            return self.compare("ne", 0)
        if isinstance(self.element, IndexType) or isinstance(element, IndexType):
            return self._cast_index(element)
        if is_float(self.element) or is_float(element):
            return self._cast_float(element)
        return self._cast_integer(element)

    def _cast_float(self, element: Attribute) -> Scalar:
        target = register_type(element)
        if is_integer(target):
            to_integer = arith.FPToUIOp if is_unsigned(element) else arith.FPToSIOp
            return self._insert(to_integer(self.value, target), element)
        if not is_float(self.element):
            wide = compute_type(element)
            assert isinstance(wide, AnyFloat)
            from_integer = arith.UIToFPOp if is_unsigned(self.element) else arith.SIToFPOp
            return self._insert(from_integer(self.value, wide), wide).cast(element)
        if isinstance(self.value.owner, arith.ExtFOp) and self.value.owner.input.type == element:
            return Scalar(self.builder, self.value.owner.input, element)
        if width(self.element) == width(element):
            return self.cast(F32).cast(element)
        assert isinstance(target, AnyFloat)
        change = arith.ExtFOp if width(element) > width(self.element) else arith.TruncFOp
        return self._insert(change(self.value, target), element)

    def _cast_integer(self, element: Attribute) -> Scalar:
        target = register_type(element)
        if width(element) == width(self.element):
            return Scalar(self.builder, self.value, element)
        assert is_integer(target)
        if width(element) < width(self.element):
            return self._insert(arith.TruncIOp(self.value, target), element)
        extend = arith.ExtUIOp if is_unsigned(self.element) else arith.ExtSIOp
        return self._insert(extend(self.value, target), element)

    def bitcast(self, element: Attribute) -> Scalar:
        """The element of a type of the same width that has the same bits; a bool has eight."""
        if is_bool(self.element):
            return self.cast(UI8).bitcast(element)
        if is_bool(element):
            return self.bitcast(UI8).cast(element)
        if register_type(element) == register_type(self.element):
            return Scalar(self.builder, self.value, element)
        return self._insert(arith.BitcastOp(self.value, register_type(element)), element)

    def _cast_index(self, element: Attribute) -> Scalar:
        if isinstance(element, IndexType):
            wide = self.cast(I64)
            return self._insert(arith.IndexCastOp(wide.value, INDEX), INDEX)
        return self._insert(arith.IndexCastOp(self.value, I64), I64).cast(element)


def constant(builder: Builder, number: Number, element: Attribute) -> Scalar:
    """A constant of that element type."""
    if is_float(element):
        assert isinstance(element, (Float16Type, BFloat16Type, Float32Type, Float64Type))
        attribute: Attribute = FloatAttr(float(number), element)
    elif isinstance(element, IndexType):
        attribute = IntegerAttr(int(number), element)
    else:
        assert is_integer(element)
        attribute = IntegerAttr(_wrap(int(number), element), IntegerType(element.width))
    op = builder.insert(arith.ConstantOp(attribute))
    return Scalar(builder, op.result, element)


def _wrap(number: int, element: IntegerType) -> int:
    """An unsigned number as the signed one of the same bits,
    which is what signless constants hold.
    """
    bits = element.width.data
    return (
        number - (1 << bits)
        if is_unsigned(element) and number >> (bits - 1) > 0 and bits > 1
        else number
    )


MATH_OPS: dict[str, type[Operation]] = {
    **{op.name.removeprefix("math."): op for op in math.Math.operations},
    "gelu": GeluOp,
}
"""MLIR's functions of the math dialect by their names there, and GELU."""

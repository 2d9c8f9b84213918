"""Arithmetic on lanes: LLVM IR for scalars and vectors, written as ordinary Python expressions.

The mathematics is written with `Real`, `Integer` and `Mask` alone. No operation carries a fast-math
flag, and none becomes a library call.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeVar

from llvmlite import ir
from msgspec import Struct

from weft.compiler.loop_to_llvm.vector_math.formats import Format

VECTOR_BITS = 256
"""Wider ones are several vectors side by side, but on AVX-512."""


class _LoadAgain(ir.Instruction):
    """A load that is not merged with others of the same address, nor moved out of a loop."""

    def __init__(self, block: Any, pointer: Any, llvm_type: Any):
        super().__init__(block, llvm_type, "load", [pointer])

    def descr(self, buf: list[str]) -> None:
        """The instruction as text, behind the name of its result."""
        (pointer,) = self.operands
        buf.append(f"load volatile {self.type}, ptr {pointer.get_reference()}, ")
        buf.append(f"align {VECTOR_BITS // 8}\n")


class Emitter(Struct, frozen=True, eq=False):
    """Where operations go: a builder, the lanes (0: a scalar), and what is one instruction: fma,
    and on vectors of 512 bits scaling by a power of two.
    """

    builder: Any
    lanes: int
    has_fma: bool
    has_scale: bool = False

    def shaped(self, element: Any) -> Any:
        """The LLVM type of one such element a lane."""
        return ir.VectorType(element, self.lanes) if self.lanes else element

    def real_type(self, fmt: Format) -> Any:
        """The LLVM type of a `Real` of this format."""
        return self.shaped(ir.DoubleType() if fmt.bits == 64 else ir.FloatType())

    def suffix(self, format_name: str) -> str:
        """How LLVM mangles this shape, such as v8f32."""
        return f"v{self.lanes}{format_name}" if self.lanes else format_name

    def splat(self, element: Any, number: float | int) -> Any:
        """The same constant in every lane."""
        if self.lanes:
            return ir.Constant(self.shaped(element), [number] * self.lanes)
        return ir.Constant(element, number)

    def real(self, fmt: Format, number: float) -> Real:
        """A real constant, rounded to the format."""
        if self.has_fma and not self.has_scale and self.lanes * fmt.bits > VECTOR_BITS:
            return Real(self, fmt, self._load_again(fmt, number))
        return Real(self, fmt, self.splat(self.scalar().real_type(fmt), number))

    def _load_again(self, fmt: Format, number: float) -> Any:
        """A constant for vectors side by side, loaded once for them where they need it. As a
        constant of LLVM's it would be kept for the whole loop; with all registers taken by such
        ones the vectors would be computed one after the other.
        """
        builder, count = self.builder, VECTOR_BITS // fmt.bits
        vector_type = ir.VectorType(self.scalar().real_type(fmt), count)
        name = f"weft.constant.{fmt.name}.{fmt.encode(number):x}"
        held = builder.module.globals.get(name)
        if held is None:
            held = ir.GlobalVariable(builder.module, vector_type, name)
            held.linkage, held.global_constant, held.align = "internal", True, VECTOR_BITS // 8
            held.initializer = ir.Constant(vector_type, [number] * count)
        loaded = _LoadAgain(builder.block, held, vector_type)
        builder._insert(loaded)
        order = [lane % count for lane in range(self.lanes)]
        order_ = ir.Constant(ir.VectorType(ir.IntType(32), self.lanes), order)
        return builder.shuffle_vector(loaded, ir.Constant(vector_type, ir.Undefined), order_)

    def integer(self, bits: int, number: int) -> Integer:
        """An integer constant, wrapped to its width."""
        return Integer(self, bits, self.splat(ir.IntType(bits), number % (1 << bits)))

    def resized(self, value: Any, lanes: int) -> Any:
        """The first lanes of a value, or the value and lanes of anything; 0: a scalar."""
        builder, i32 = self.builder, ir.IntType(32)
        if not isinstance(value.type, ir.VectorType):
            nothing = ir.Constant(ir.VectorType(value.type, lanes), ir.Undefined)
            return builder.insert_element(nothing, value, i32(0))
        if lanes == 0:
            return builder.extract_element(value, i32(0))
        if lanes == value.type.count:
            return value
        order = [min(lane, value.type.count - 1) for lane in range(lanes)]
        nothing = ir.Constant(value.type, ir.Undefined)
        return builder.shuffle_vector(value, nothing, ir.Constant(ir.VectorType(i32, lanes), order))

    def scalar(self) -> Emitter:
        """The same place with one element instead of lanes."""
        return Emitter(self.builder, 0, self.has_fma, self.has_scale)

    def intrinsic(self, name: str, result: Any, operands: Sequence[Any], mangled: str) -> Any:
        """Call `llvm.<name>.<mangled>`, declaring it where the module lacks it."""
        return self.call(f"llvm.{name}.{mangled}", result, operands)

    def call(self, full: str, result: Any, operands: Sequence[Any]) -> Any:
        """Call a function of that name, declaring it where the module lacks it."""
        module = self.builder.module
        declared = module.globals.get(full)
        if declared is None:
            declared = ir.Function(
                module, ir.FunctionType(result, [o.type for o in operands]), name=full
            )
        return self.builder.call(declared, operands)


class Mask(Struct, frozen=True, eq=False):
    """One bool a lane."""

    at: Emitter
    value: Any

    def __and__(self, other: Mask) -> Mask:
        return Mask(self.at, self.at.builder.and_(self.value, other.value))

    def __or__(self, other: Mask) -> Mask:
        return Mask(self.at, self.at.builder.or_(self.value, other.value))

    def __invert__(self) -> Mask:
        return Mask(self.at, self.at.builder.not_(self.value))

    def any(self) -> Any:
        """A scalar i1 that is true when a lane is."""
        if not self.at.lanes:
            return self.value
        packed = ir.IntType(self.at.lanes)
        return self.at.builder.icmp_unsigned(
            "!=", self.at.builder.bitcast(self.value, packed), ir.Constant(packed, 0)
        )


class Integer(Struct, frozen=True, eq=False):
    """One two's-complement integer of `bits` bits a lane."""

    at: Emitter
    bits: int
    value: Any

    def _operand(self, other: Integer | int) -> Any:
        return other.value if isinstance(other, Integer) else self.literal(other).value

    def like(self, value: Any) -> Integer:
        """An LLVM value of this shape and width."""
        return Integer(self.at, self.bits, value)

    def literal(self, number: int) -> Integer:
        """A constant of this width."""
        return self.at.integer(self.bits, number)

    def __add__(self, other: Integer | int) -> Integer:
        return self.like(self.at.builder.add(self.value, self._operand(other)))

    def __sub__(self, other: Integer | int) -> Integer:
        return self.like(self.at.builder.sub(self.value, self._operand(other)))

    def __mul__(self, other: Integer | int) -> Integer:
        return self.like(self.at.builder.mul(self.value, self._operand(other)))

    def __mod__(self, other: Integer) -> Integer:
        """The remainder of unsigned numbers."""
        return self.like(self.at.builder.urem(self.value, other.value))

    def __and__(self, other: Integer | int) -> Integer:
        return self.like(self.at.builder.and_(self.value, self._operand(other)))

    def __or__(self, other: Integer | int) -> Integer:
        return self.like(self.at.builder.or_(self.value, self._operand(other)))

    def __xor__(self, other: Integer | int) -> Integer:
        return self.like(self.at.builder.xor(self.value, self._operand(other)))

    def __lshift__(self, other: Integer | int) -> Integer:
        return self.like(self.at.builder.shl(self.value, self._operand(other)))

    def __rshift__(self, other: Integer | int) -> Integer:
        """A logical shift: zeros enter from the left."""
        return self.like(self.at.builder.lshr(self.value, self._operand(other)))

    def __neg__(self) -> Integer:
        return self.literal(0) - self

    def compare(self, relation: str, other: Integer | int) -> Mask:
        """An unsigned comparison; `relation` is ==, !=, <, <=, > or >=."""
        return Mask(
            self.at, self.at.builder.icmp_unsigned(relation, self.value, self._operand(other))
        )

    def at_most(self, bound: int, *, signed: bool) -> Integer:
        """The smaller of the two."""
        name, other = "smin" if signed else "umin", self.literal(bound).value
        suffix = self.at.suffix(f"i{self.bits}")
        return self.like(self.at.intrinsic(name, other.type, [self.value, other], suffix))

    def leading_zeros(self) -> Integer:
        """Zero bits above the highest set bit; the width for zero."""
        int_name = f"i{self.bits}"
        no_poison = ir.Constant(ir.IntType(1), 0)
        call = self.at.intrinsic(
            "ctlz", self.value.type, [self.value, no_poison], self.at.suffix(int_name)
        )
        return self.like(call)

    def resize(self, bits: int, *, signed: bool = False) -> Integer:
        """Truncate or extend to another width."""
        if bits == self.bits:
            return self
        wanted = self.at.shaped(ir.IntType(bits))
        builder = self.at.builder
        extend = builder.sext if signed else builder.zext
        convert = builder.trunc if bits < self.bits else extend
        return Integer(self.at, bits, convert(self.value, wanted))

    def as_real(self, fmt: Format) -> Real:
        """The number with these bits."""
        wanted = self.at.real_type(fmt)
        return Real(self.at, fmt, self.at.builder.bitcast(self.value, wanted))

    def to_real(self, fmt: Format, *, signed: bool) -> Real:
        """The nearest number, ties to even."""
        builder = self.at.builder
        convert = builder.sitofp if signed else builder.uitofp
        return Real(self.at, fmt, convert(self.value, self.at.real_type(fmt)))


class Real(Struct, frozen=True, eq=False):
    """One floating-point number a lane; Python numbers as operands are constants of its format."""

    at: Emitter
    format: Format
    value: Any

    def _operand(self, other: Real | float) -> Any:
        return other.value if isinstance(other, Real) else self.literal(other).value

    def like(self, value: Any) -> Real:
        """An LLVM value of this shape and format."""
        return Real(self.at, self.format, value)

    def _unary(self, name: str) -> Real:
        suffix = self.at.suffix(self.format.name)
        return self.like(self.at.intrinsic(name, self.value.type, [self.value], suffix))

    def literal(self, number: float) -> Real:
        """A constant of this format."""
        return self.at.real(self.format, number)

    def __add__(self, other: Real | float) -> Real:
        return self.like(self.at.builder.fadd(self.value, self._operand(other)))

    def __sub__(self, other: Real | float) -> Real:
        return self.like(self.at.builder.fsub(self.value, self._operand(other)))

    def __mul__(self, other: Real | float) -> Real:
        return self.like(self.at.builder.fmul(self.value, self._operand(other)))

    def __truediv__(self, other: Real | float) -> Real:
        return self.like(self.at.builder.fdiv(self.value, self._operand(other)))

    def __rsub__(self, other: float) -> Real:
        return self.literal(other) - self

    def __rtruediv__(self, other: float) -> Real:
        return self.literal(other) / self

    def __neg__(self) -> Real:
        return self.like(self.at.builder.fneg(self.value))

    def __abs__(self) -> Real:
        return self._unary("fabs")

    def compare(self, relation: str, other: Real | float) -> Mask:
        """An ordered comparison, false on NaN, except `!=`, which is true on it."""
        builder = self.at.builder
        compare = builder.fcmp_unordered if relation == "!=" else builder.fcmp_ordered
        return Mask(self.at, compare(relation, self.value, self._operand(other)))

    def __lt__(self, other: Real | float) -> Mask:
        return self.compare("<", other)

    def __le__(self, other: Real | float) -> Mask:
        return self.compare("<=", other)

    def __gt__(self, other: Real | float) -> Mask:
        return self.compare(">", other)

    def __ge__(self, other: Real | float) -> Mask:
        return self.compare(">=", other)

    def equals(self, other: Real | float) -> Mask:
        """True where both are numbers of the same value; -0 equals 0."""
        return self.compare("==", other)

    def is_nan(self) -> Mask:
        """True where this is not a number."""
        return self.compare("!=", self)

    def is_negative(self) -> Mask:
        """True where the sign bit is set, on -0 and NaN too."""
        return self.bits().compare(">=", 1 << (self.format.bits - 1))

    def round_with(self, name: str) -> Real:
        """LLVM's floor, ceil, trunc or roundeven, for targets where that is an instruction."""
        return self._unary(name)

    def sqrt(self) -> Real:
        """The correctly rounded square root."""
        return self._unary("sqrt")

    def with_sign_of(self, other: Real) -> Real:
        """This magnitude with the sign bit of `other`."""
        operands = [self.value, other.value]
        suffix = self.at.suffix(self.format.name)
        return self.like(self.at.intrinsic("copysign", self.value.type, operands, suffix))

    def at_least(self, bound: float) -> Real:
        """The larger of the two; NaN stays NaN."""
        limit = self.literal(bound)
        return select(self < limit, limit, self)

    def at_most(self, bound: float) -> Real:
        """The smaller of the two; NaN stays NaN."""
        limit = self.literal(bound)
        return select(self > limit, limit, self)

    def bits(self) -> Integer:
        """The bit pattern."""
        wanted = self.at.shaped(ir.IntType(self.format.bits))
        return Integer(self.at, self.format.bits, self.at.builder.bitcast(self.value, wanted))

    def to(self, fmt: Format) -> Real:
        """The nearest number of another format, ties to even."""
        if fmt == self.format:
            return self
        builder = self.at.builder
        convert = builder.fpext if fmt.bits > self.format.bits else builder.fptrunc
        return Real(self.at, fmt, convert(self.value, self.at.real_type(fmt)))

    def to_integer(self, bits: int, *, signed: bool) -> Integer:
        """Truncate towards zero; out of range saturates and NaN gives 0."""
        if self.at.lanes:  # LLVM's operation that saturates takes a lane at a time
            narrow = bits < 32
            return self._to_narrow(bits, signed) if narrow else self._to_wide(bits, signed)
        name = "fptosi.sat" if signed else "fptoui.sat"
        wanted = self.at.shaped(ir.IntType(bits))
        mangled = f"{self.at.suffix(f'i{bits}')}.{self.at.suffix(self.format.name)}"
        return Integer(self.at, bits, self.at.intrinsic(name, wanted, [self.value], mangled))

    def _to_wide(self, bits: int, signed: bool) -> Integer:
        """The same by a conversion of what is within range, and a choice for the rest."""
        least, most = (-1 << (bits - 1), 1 << (bits - 1)) if signed else (0, 1 << bits)
        above, below = self >= float(most), self < float(least)
        outside = above | below | self.is_nan()
        builder, wanted = self.at.builder, self.at.shaped(ir.IntType(bits))
        convert = builder.fptosi if signed else builder.fptoui
        number = select(outside, self.literal(0.0), self)
        within = Integer(self.at, bits, convert(number.value, wanted))
        result = select(below, within.literal(least), within)
        return select(above, within.literal(most - 1), result)

    def _to_narrow(self, bits: int, signed: bool) -> Integer:
        """The same by 32 bits, of what is brought within range before."""
        most = (1 << (bits - signed)) - 1
        within = self.at_least(-most - 1 if signed else 0).at_most(most)
        number = select(self.is_nan(), self.literal(0.0), within)
        builder = self.at.builder
        wide = builder.fptosi(number.value, self.at.shaped(ir.IntType(32)))
        return Integer(self.at, bits, builder.trunc(wide, self.at.shaped(ir.IntType(bits))))


Value = TypeVar("Value", Real, Integer)


def select(mask: Mask, chosen: Value, otherwise: Value) -> Value:
    """`chosen` where the mask holds, `otherwise` elsewhere."""
    return chosen.like(mask.at.builder.select(mask.value, chosen.value, otherwise.value))


def fma(x: Real, y: Real | float, z: Real | float) -> Real:
    """x*y + z: rounded once where the target fuses, else twice."""
    if not x.at.has_fma:
        return x * y + z
    operands = [o.value if isinstance(o, Real) else x.literal(o).value for o in (x, y, z)]
    suffix = x.at.suffix(x.format.name)
    return Real(x.at, x.format, x.at.intrinsic("fma", x.value.type, operands, suffix))


def polynomial(x: Real, coefficients: Sequence[float]) -> Real:
    """coefficients[0] + coefficients[1]*x + ..., by Horner's rule."""
    total = x.literal(coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        total = fma(total, x, coefficient)
    return total


def nan(like: Real) -> Real:
    """A quiet NaN in every lane."""
    return like.literal(math.nan)


def inf(like: Real) -> Real:
    """Positive infinity in every lane."""
    return like.literal(math.inf)

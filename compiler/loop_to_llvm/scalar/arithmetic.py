"""The operations of arith and math on registers, scalars or vectors alike: one table from operation
to emitter.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from llvmlite import ir
from msgspec import Struct
from xdsl.dialects import arith, math
from xdsl.dialects.builtin import Float32Type, FloatAttr, IntegerAttr
from xdsl.ir import Attribute, Operation

from weft.compiler.loop_to_llvm.scalar.conversions import convert
from weft.compiler.loop_to_llvm.scalar.dot_bytes import REGISTERS, emit_dot
from weft.compiler.loop_to_llvm.scalar.elements import (
    I1,
    constant,
    format_name,
    intrinsic,
    lanes_of,
    register_type,
    shaped,
    splat,
)
from weft.compiler.loop_to_llvm.scalar.fields import emit_field
from weft.compiler.loop_to_llvm.scalar.never_nan import is_number
from weft.compiler.loop_to_llvm.scalar.rounded_integers import emit_rounded, rounded
from weft.compiler.loop_to_llvm.scalar.threefry import emit_threefry
from weft.compiler.loop_to_llvm.vector_math import MATH_FUNCTIONS, call_math
from weft.compiler.target.target import Target
from weft.dialects.loop.arithmetic import DotBytesOp, FieldOp, GeluOp, RemFOp, ThreefryOp
from weft.dialects.loop.scalar import ANY_ZERO, MATH_OPS, width

LOG10_OF_2 = 0.30102999566398119521
SQRT_OF_HALF = 0.70710678118654752440


class Arithmetic(Struct, frozen=True, eq=False):
    """Where operations are emitted, and for which target.

    `contracts`: a product and a sum may become one operation.
    """

    builder: ir.IRBuilder
    target: Target
    contracts: bool

    def emit(self, op: Operation, operands: Sequence[ir.Value]) -> ir.Value:
        """The result of an operation on operands that are all scalars or all vectors of the same
        lanes.
        """
        emitter = EMITTERS.get(type(op))
        assert emitter is not None, f"a kernel may not hold {op.name}"
        return emitter(self, op, list(operands))

    def fma(self, x: ir.Value, y: ir.Value, z: ir.Value) -> ir.Value:
        """x*y + z, rounded once."""
        return intrinsic(self.builder, "fma", x.type, [x, y, z], x.type)

    def literal(self, like: ir.Value, number: float | int) -> ir.Value:
        """A constant of a value's type."""
        lanes = lanes_of(like)
        element = like.type.element if lanes else like.type
        return splat(self.builder, ir.Constant(element, number), lanes)


Emitter = Callable[[Arithmetic, Operation, list[ir.Value]], ir.Value]


def emit_constant(op: arith.ConstantOp) -> ir.Constant:
    """The scalar that an arith.constant holds."""
    value = op.value
    assert isinstance(value, (FloatAttr, IntegerAttr)), (
        f"a kernel's constants are scalars, not {value}"
    )
    return constant(op.result.type, value.value.data)


def _instruction(name: str) -> Emitter:
    """An emitter that is one method of the builder."""
    return lambda at, op, operands: getattr(at.builder, name)(*operands)


def _intrinsic(name: str, *flags: int) -> Emitter:
    """An emitter that calls an LLVM intrinsic which every target expands inline."""

    def emit(at: Arithmetic, op: Operation, operands: list[ir.Value]) -> ir.Value:
        extra = [ir.Constant(I1, flag) for flag in flags]
        llvm_type = operands[0].type
        return intrinsic(at.builder, name, llvm_type, [*operands, *extra], llvm_type)

    return emit


def _extreme(name: str) -> Emitter:
    """An emitter of `maximum` or `minimum`; where zeros of either sign are equal it has no need to
    look at signs. On AVX-512 an extreme that keeps its first operand, if that is NaN, is masked by
    whether the second is one: two instructions, the second of which alone waits for the first
    operand, a running extreme.
    """

    def emit(at: Arithmetic, op: Operation, operands: list[ir.Value]) -> ir.Value:
        assert isinstance(op, (arith.MaximumfOp, arith.MinimumfOp))
        alike = ANY_ZERO.data <= op.fastmath.data
        if alike and at.target.has_masks:
            builder, (first, second) = at.builder, operands
            further = builder.fcmp_ordered(">" if name == "maximum" else "<", second, first)
            extreme = builder.select(further, second, first)
            return builder.select(builder.fcmp_ordered("ord", second, second), extreme, second)
        llvm_type = operands[0].type
        flags = ("nsz",) if alike else ()
        return intrinsic(at.builder, name, llvm_type, operands, llvm_type, flags=flags)

    return emit


def _extreme_number(relation: str) -> Emitter:
    """The second operand where the first is related to it so or is no number, else the first. One
    comparison does where either is a number for certain. The intrinsic takes fewer instructions on
    AVX-512, and is a call of libm on some other targets.
    """

    def emit(at: Arithmetic, op: Operation, operands: list[ir.Value]) -> ir.Value:
        builder, (first, second) = at.builder, operands
        if is_number(op.operands[1]):
            first, second = second, first
        if is_number(op.operands[0]) or is_number(op.operands[1]):
            return builder.select(builder.fcmp_ordered(relation, first, second), second, first)
        if at.target.has_masks:
            name = "maxnum" if relation == "<" else "minnum"
            return intrinsic(builder, name, first.type, [first, second], first.type)
        extreme = builder.select(builder.fcmp_ordered(relation, first, second), second, first)
        return builder.select(builder.fcmp_unordered("uno", first, first), second, extreme)

    return emit


def _dot_bytes(at: Arithmetic, op: Operation, operands: list[ir.Value]) -> ir.Value:
    """The target's dot products where they have so many lanes, else products one by one."""
    total, unsigned, signed = operands
    if at.target.has_dot_products(4) and lanes_of(total) in REGISTERS:
        return emit_dot(at.builder, at.target, total, unsigned, signed)
    up, builder = at.literal(total, 24), at.builder
    for shift in (0, 8, 16, 24):
        left = at.literal(total, 24 - shift)
        factors = (
            builder.lshr(builder.shl(unsigned, left), up),
            builder.ashr(builder.shl(signed, left), up),
        )
        total = builder.add(total, builder.mul(*factors))
    return total


def _field(at: Arithmetic, op: Operation, operands: list[ir.Value]) -> ir.Value:
    assert isinstance(op, FieldOp)
    bits = op.low.data, op.bits.data
    centred = bool(op.centred.value.data)
    return emit_field(at.builder, at.target, operands[0], *bits, centred=centred)


def _threefry(at: Arithmetic, op: Operation, operands: list[ir.Value]) -> ir.Value:
    return emit_threefry(at.builder, *operands)


def _math(name: str) -> Emitter:
    """An emitter that calls one of weft's own vector functions."""
    return lambda at, op, operands: call_math(
        at.builder, name, operands, has_fma=at.target.has_fma, has_scale=at.target.has_scale
    )


def _gelu(at: Arithmetic, op: Operation, operands: list[ir.Value]) -> ir.Value:
    """One function of f32 where multiply-adds are fused, else the formula as it stands."""
    if at.contracts and isinstance(op.results[0].type, Float32Type):
        return _math("gelu")(at, op, operands)
    (x,) = operands
    error = _math("erf")(at, op, [at.builder.fmul(x, at.literal(x, SQRT_OF_HALF))])
    half = at.builder.fmul(x, at.literal(x, 0.5))
    if at.contracts:
        return at.fma(half, error, half)
    return at.builder.fadd(at.builder.fmul(half, error), half)


def _log10(at: Arithmetic, op: Operation, operands: list[ir.Value]) -> ir.Value:
    logarithm = call_math(at.builder, "log2", operands, has_fma=at.target.has_fma)
    return at.builder.fmul(logarithm, at.literal(logarithm, LOG10_OF_2))


def _fma(at: Arithmetic, op: Operation, operands: list[ir.Value]) -> ir.Value:
    assert at.target.has_fma, "math.fma requires a target with fused multiply-add"
    return at.fma(*operands)


def _round(at: Arithmetic, op: Operation, operands: list[ir.Value]) -> ir.Value:
    """The nearest integer, ties away from zero: the fraction that truncation loses is exact, and
    decides.
    """
    (x,) = operands
    whole = call_math(at.builder, "trunc", [x], has_fma=at.target.has_fma)
    lost = intrinsic(at.builder, "fabs", x.type, [at.builder.fsub(x, whole)], x.type)
    away = at.builder.fcmp_ordered(">=", lost, at.literal(x, 0.5))
    step = intrinsic(at.builder, "copysign", x.type, [at.literal(x, 1.0), x], x.type)
    return at.builder.select(away, at.builder.fadd(whole, step), whole)


def _to_integer(*, signed: bool) -> Emitter:
    """An emitter of an integer from a float, which may have been rounded."""
    general = _convert if signed else _convert_unsigned_result

    def emit(at: Arithmetic, op: Operation, operands: list[ir.Value]) -> ir.Value:
        number = rounded(op, operands[0])
        if number is None:
            return general(at, op, operands)
        return emit_rounded(at.builder, number, width(op.results[0].type), signed=signed)

    return emit


def _convert(at: Arithmetic, op: Operation, operands: list[ir.Value]) -> ir.Value:
    source, target = format_name(op.operands[0].type), format_name(op.results[0].type)
    return convert(at.builder, operands[0], source, target, has_f16=at.target.has_f16)


def _convert_unsigned_source(at: Arithmetic, op: Operation, operands: list[ir.Value]) -> ir.Value:
    source, target = format_name(op.operands[0].type), format_name(op.results[0].type)
    return convert(at.builder, operands[0], _unsigned(source), target, has_f16=at.target.has_f16)


def _convert_unsigned_result(at: Arithmetic, op: Operation, operands: list[ir.Value]) -> ir.Value:
    source, target = format_name(op.operands[0].type), format_name(op.results[0].type)
    return convert(at.builder, operands[0], source, _unsigned(target), has_f16=at.target.has_f16)


def _unsigned(name: str) -> str:
    return name if name == "i1" else name.replace("i", "u")


def _resize(name: str) -> Emitter:
    """An emitter that changes an integer's width."""

    def emit(at: Arithmetic, op: Operation, operands: list[ir.Value]) -> ir.Value:
        wanted = shaped(register_type(op.results[0].type), lanes_of(operands[0]))
        return getattr(at.builder, name)(operands[0], wanted)

    return emit


def _bitcast(at: Arithmetic, op: Operation, operands: list[ir.Value]) -> ir.Value:
    """Floats below 8 bits are a byte in a register, integers of their width are not."""
    have, wanted = register_type(op.operands[0].type), register_type(op.results[0].type)
    name = "bitcast"
    if isinstance(have, ir.IntType) and isinstance(wanted, ir.IntType):
        name = "trunc" if wanted.width < have.width else "zext"
    if have == wanted:
        return operands[0]
    return getattr(at.builder, name)(operands[0], shaped(wanted, lanes_of(operands[0])))


def _index_cast(at: Arithmetic, op: Operation, operands: list[ir.Value]) -> ir.Value:
    (value,) = operands
    element: Attribute = op.results[0].type
    wanted = register_type(element)
    have = register_type(op.operands[0].type)
    if wanted == have:
        return value
    resize = at.builder.trunc if wanted.width < have.width else at.builder.sext
    return resize(value, shaped(wanted, lanes_of(value)))


def _integer_division(name: str) -> Emitter:
    """Division that never traps: the divisor is 1 where it is zero or where the quotient would
    overflow.
    """

    def emit(at: Arithmetic, op: Operation, operands: list[ir.Value]) -> ir.Value:
        dividend, divisor = operands
        signed = name.startswith("s")
        return getattr(at.builder, name)(dividend, _safe_divisor(at, dividend, divisor, signed))

    return emit


def _safe_divisor(at: Arithmetic, dividend: ir.Value, divisor: ir.Value, signed: bool) -> ir.Value:
    builder, zero = at.builder, at.literal(divisor, 0)
    unsafe = builder.icmp_unsigned("==", divisor, zero)
    if signed:
        lanes = lanes_of(dividend)
        width = (dividend.type.element if lanes else dividend.type).width
        least = builder.icmp_signed("==", dividend, at.literal(dividend, -(1 << (width - 1))))
        minus = builder.icmp_signed("==", divisor, at.literal(divisor, -1))
        unsafe = builder.or_(unsafe, builder.and_(least, minus))
    return builder.select(unsafe, at.literal(divisor, 1), divisor)


def _rounded_division(direction: int) -> Emitter:
    """Signed division rounded towards minus (-1) or plus (1) infinity."""

    def emit(at: Arithmetic, op: Operation, operands: list[ir.Value]) -> ir.Value:
        builder, (dividend, divisor) = at.builder, operands
        safe = _safe_divisor(at, dividend, divisor, True)
        quotient, remainder = builder.sdiv(dividend, safe), builder.srem(dividend, safe)
        zero = at.literal(dividend, 0)
        inexact = builder.icmp_signed("!=", remainder, zero)
        sign = "<" if direction < 0 else ">="
        outward = builder.icmp_signed(sign, builder.xor(dividend, safe), zero)
        step = at.literal(dividend, direction)
        moved = builder.add(quotient, step)
        return builder.select(builder.and_(inexact, outward), moved, quotient)

    return emit


_FLOAT_RELATIONS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}


def _compare_floats(at: Arithmetic, op: Operation, operands: list[ir.Value]) -> ir.Value:
    assert isinstance(op, arith.CmpfOp)
    name = arith.CMPF_COMPARISON_OPERATIONS[op.predicate.value.data]
    if name in ("false", "true"):
        return splat(at.builder, ir.Constant(I1, int(name == "true")), lanes_of(operands[0]))
    if name in ("ord", "uno"):
        compare = at.builder.fcmp_ordered if name == "ord" else at.builder.fcmp_unordered
        return compare(name, *operands)
    compare = at.builder.fcmp_ordered if name[0] == "o" else at.builder.fcmp_unordered
    return compare(_FLOAT_RELATIONS[name[1:]], *operands)


def _compare_integers(at: Arithmetic, op: Operation, operands: list[ir.Value]) -> ir.Value:
    assert isinstance(op, arith.CmpiOp)
    name = arith.CMPI_COMPARISON_OPERATIONS[op.predicate.value.data]
    compare = at.builder.icmp_unsigned if name[0] == "u" else at.builder.icmp_signed
    return compare(_FLOAT_RELATIONS[name if len(name) == 2 else name[1:]], *operands)


EMITTERS: dict[type[Operation], Emitter] = {
    **{MATH_OPS[each.name]: _math(each.name) for each in MATH_FUNCTIONS if each.name in MATH_OPS},
    arith.AddfOp: _instruction("fadd"),
    arith.SubfOp: _instruction("fsub"),
    arith.MulfOp: _instruction("fmul"),
    arith.DivfOp: _instruction("fdiv"),
    RemFOp: _math("fmod"),
    arith.NegfOp: _instruction("fneg"),
    arith.MaximumfOp: _extreme("maximum"),
    arith.MinimumfOp: _extreme("minimum"),
    arith.MaxnumfOp: _extreme_number("<"),
    arith.MinnumfOp: _extreme_number(">"),
    arith.CmpfOp: _compare_floats,
    arith.CmpiOp: _compare_integers,
    arith.SelectOp: _instruction("select"),
    arith.AddiOp: _instruction("add"),
    arith.SubiOp: _instruction("sub"),
    arith.MuliOp: _instruction("mul"),
    arith.DivSIOp: _integer_division("sdiv"),
    arith.DivUIOp: _integer_division("udiv"),
    arith.RemSIOp: _integer_division("srem"),
    arith.RemUIOp: _integer_division("urem"),
    arith.FloorDivSIOp: _rounded_division(-1),
    arith.CeilDivSIOp: _rounded_division(1),
    arith.AndIOp: _instruction("and_"),
    arith.OrIOp: _instruction("or_"),
    arith.XOrIOp: _instruction("xor"),
    arith.ShLIOp: _instruction("shl"),
    arith.ShRSIOp: _instruction("ashr"),
    arith.ShRUIOp: _instruction("lshr"),
    arith.MaxSIOp: _intrinsic("smax"),
    arith.MaxUIOp: _intrinsic("umax"),
    arith.MinSIOp: _intrinsic("smin"),
    arith.MinUIOp: _intrinsic("umin"),
    arith.ExtFOp: _convert,
    arith.TruncFOp: _convert,
    arith.FPToSIOp: _to_integer(signed=True),
    arith.FPToUIOp: _to_integer(signed=False),
    arith.SIToFPOp: _convert,
    arith.UIToFPOp: _convert_unsigned_source,
    arith.ExtSIOp: _resize("sext"),
    arith.ExtUIOp: _resize("zext"),
    arith.TruncIOp: _resize("trunc"),
    arith.BitcastOp: _bitcast,
    arith.IndexCastOp: _index_cast,
    math.AbsFOp: _intrinsic("fabs"),
    math.AbsIOp: _intrinsic("abs", 0),
    math.CopySignOp: _intrinsic("copysign"),
    math.FmaOp: _fma,
    math.CtPopOp: _intrinsic("ctpop"),
    math.CountLeadingZerosOp: _intrinsic("ctlz", 0),
    math.CountTrailingZerosOp: _intrinsic("cttz", 0),
    math.RoundOp: _round,
    math.Log10Op: _log10,
    DotBytesOp: _dot_bytes,
    FieldOp: _field,
    GeluOp: _gelu,
    ThreefryOp: _threefry,
    math.PowFOp: _math("pow"),
}
"""Every operation on scalars that a kernel may hold, except constants and those on index values."""

"""Conversions between element formats in LLVM IR, each rounded once and none a library call.

Formats are named f16, bf16, f32, f64, i1, i2 to i64, u2 to u64 and as `narrow_floats` has them. In
LLVM IR f16 and bf16 values travel as i16 bit patterns, so that a baseline x86-64 may load, move and
store them, and narrower floats as i8; `lane_type` gives the LLVM type of each format.
"""

from __future__ import annotations

from llvmlite import ir

from weft.compiler.loop_to_llvm.scalar.narrow_floats import (
    NARROW_FLOATS,
    f32_to_narrow,
    narrow_to_f32,
)
from weft.compiler.loop_to_llvm.vector_math.formats import F32, F64
from weft.compiler.loop_to_llvm.vector_math.lanes import Emitter, Integer, Mask, Real, select

_F16_INFINITY = 0x7C00
_F32_INFINITY = F32.encode(float("inf"))
_EXPONENT_GAP = 112 << 23
"""What f32's exponent field exceeds that of f16 by, in place."""

ELEMENT_FORMATS = (
    "f16", "bf16", "f32", "f64", "i1", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64",
)  # fmt: skip
STORED_FORMATS = ("i2", "i4", "u2", "u4", *NARROW_FLOATS)
"""Formats that values are stored in and never computed in.

`convert` takes and gives these and `ELEMENT_FORMATS`.
"""


_FLOAT_LANES: dict[str, ir.Type] = {
    "f32": ir.FloatType(),
    "f64": ir.DoubleType(),
    **dict.fromkeys(("f16", "bf16"), ir.IntType(16)),
    **dict.fromkeys(NARROW_FLOATS, ir.IntType(8)),
}


def lane_type(name: str) -> ir.Type:
    """The LLVM type that one element of a format travels as."""
    return _FLOAT_LANES.get(name) or ir.IntType(int(name[1:]))


def convert(
    builder: ir.IRBuilder, value: ir.Value, source: str, target: str, *, has_f16: bool
) -> ir.Value:
    """Convert a scalar or vector from one of `ELEMENT_FORMATS` and `STORED_FORMATS` to another.

    To a float: the nearest value, ties to even, rounded once; overflow gives infinity and NaN stays
    NaN, where the format has them (`narrow_floats` says what else). Float to integer truncates
    towards zero, saturates out of range and gives 0 for NaN. Integer to integer wraps. To i1 gives
    whether the value differs from zero, so NaN is true.
    `has_f16` says that the target converts between f16 and f32 in an instruction (x86 with F16C,
    aarch64).
    """
    known = ELEMENT_FORMATS + STORED_FORMATS
    for name in (source, target):
        assert name in known, f"convert requires a format of {known}, got {name}"
    if source == target:
        return value
    lanes = value.type.count if isinstance(value.type, ir.VectorType) else 0
    at = Emitter(builder, lanes, has_fma=False)
    if source in ("f32", "f64"):
        return _from_real(Real(at, F32 if source == "f32" else F64, value), target, has_f16)
    if source == "f16":
        return _from_real(f16_to_f32(Integer(at, 16, value), has_f16), target, has_f16)
    if source == "bf16":
        return _from_real(bf16_to_f32(Integer(at, 16, value)), target, has_f16)
    if source in NARROW_FLOATS:
        return _from_real(narrow_to_f32(Integer(at, 8, value), source), target, has_f16)
    return _from_integer(Integer(at, int(source[1:]), value), source[0] == "i", target, has_f16)


def _from_real(x: Real, target: str, has_f16: bool) -> ir.Value:
    """f32 or f64 to any format."""
    if target in ("f32", "f64"):
        return x.to(F32 if target == "f32" else F64).value
    if target == "i1":
        return x.compare("!=", 0.0).value
    if target in ("f16", "bf16", *NARROW_FLOATS):
        single = x if x.format == F32 else round_to_odd(x)
        if target in NARROW_FLOATS:
            return f32_to_narrow(single, target).value
        return (f32_to_f16(single, has_f16) if target == "f16" else f32_to_bf16(single)).value
    return x.to_integer(int(target[1:]), signed=target[0] == "i").value


def _from_integer(x: Integer, signed: bool, target: str, has_f16: bool) -> ir.Value:
    """Any integer to any format; a bool counts as unsigned."""
    signed = signed and x.bits > 1
    if target in ("f32", "f64"):
        return x.to_real(F32 if target == "f32" else F64, signed=signed).value
    if target == "i1":
        return x.compare("!=", 0).value
    if target == "f16":
        # Exact in f32 below 2**24, and infinite in f16 from 65520 on.
        return f32_to_f16(x.to_real(F32, signed=signed), has_f16).value
    if target == "bf16":
        return f32_to_bf16(_integer_to_odd(x, signed)).value
    if target in NARROW_FLOATS:
        return f32_to_narrow(_integer_to_odd(x, signed), target).value
    return x.resize(int(target[1:]), signed=signed).value


def _integer_to_odd(x: Integer, signed: bool) -> Real:
    """An f32 that rounds as x to a format of fewer bits: 16 bits are exact in f32, 32 in f64, and
    longer ones are first cut to 53.
    """
    if x.bits <= 16:
        return x.to_real(F32, signed=signed)
    if x.bits == 64:
        x = _cut_to_odd(x, signed)
    return round_to_odd(x.to_real(F64, signed=signed))


def _cut_to_odd(x: Integer, signed: bool) -> Integer:
    """A 64-bit integer that f64 holds and that rounds as x: its low bits are merged into one."""
    beyond = (x + (1 << 53)).compare(">", 1 << 54) if signed else x.compare(">=", 1 << 53)
    low = x & 0x7FF
    sticky = ((low + 0x7FF) & 0x800) | (x - low)
    return select(beyond, sticky, x)


def round_to_odd(x: Real) -> Real:
    """f64 to the f32 beside it whose last bit is 1, so that rounding again rounds once in all."""
    nearest = x.to(F32)
    bits, back = nearest.bits(), abs(nearest.to(F64))
    even = (bits & 1).compare("==", 0)
    above, below = back > abs(x), back < abs(x)
    odd = select(above & even, bits - 1, select(below & even, bits + 1, bits))
    return odd.as_real(F32)


def bf16_to_f32(x: Integer) -> Real:
    """Exact: the upper half of an f32."""
    return (x.resize(32) << 16).as_real(F32)


def f32_to_bf16(x: Real) -> Integer:
    """The nearest bf16, ties to even; NaN is made quiet and keeps its upper payload."""
    bits = x.bits()
    rounded = (bits + (((bits >> 16) & 1) + 0x7FFF)) >> 16
    return select(x.is_nan(), (bits >> 16) | 0x40, rounded).resize(16)


def f16_to_f32(x: Integer, has_f16: bool) -> Real:
    """Exact."""
    builder = x.at.builder
    if has_f16:
        half = builder.bitcast(x.value, x.at.shaped(ir.HalfType()))
        return Real(x.at, F32, builder.fpext(half, x.at.real_type(F32)))
    wide = x.resize(32)
    shifted = (wide & 0x7FFF) << 13
    normal = shifted + _EXPONENT_GAP
    special = shifted.compare(">=", _F16_INFINITY << 13)
    subnormal = shifted.compare("<", 1 << 23)
    # 2**-14 * (1 + fraction) - 2**-14 needs no subnormal operand.
    unscaled = ((normal + (1 << 23)).as_real(F32) - 2.0**-14).bits()
    magnitude = select(special, normal + _EXPONENT_GAP, select(subnormal, unscaled, normal))
    return (magnitude | ((wide & 0x8000) << 16)).as_real(F32)


def f32_to_f16(x: Real, has_f16: bool) -> Integer:
    """The nearest f16, ties to even; NaN is made quiet and keeps its upper payload."""
    builder = x.at.builder
    if has_f16:
        half = builder.fptrunc(x.value, x.at.shaped(ir.HalfType()))
        return Integer(x.at, 16, builder.bitcast(half, x.at.shaped(ir.IntType(16))))
    bits = x.bits()
    magnitude = bits & 0x7FFFFFFF
    rounding = ((magnitude >> 13) & 1) + 0xFFF
    normal = (magnitude - _EXPONENT_GAP + rounding) >> 13
    # The unit in the last place of 0.5 is f16's smallest number, so that this addition rounds.
    subnormal = (magnitude.as_real(F32) + 0.5).bits() - F32.encode(0.5)
    result = select(magnitude.compare("<", F32.encode(2.0**-14)), subnormal, normal)
    infinite = magnitude.literal(_F16_INFINITY)
    result = select(magnitude.compare(">=", F32.encode(2.0**16)), infinite, result)
    payload = ((magnitude >> 13) & 0x1FF) | 0x7E00
    is_nan: Mask = magnitude.compare(">", _F32_INFINITY)
    return (select(is_nan, payload, result) | ((bits >> 16) & 0x8000)).resize(16)

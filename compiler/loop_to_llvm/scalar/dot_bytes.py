"""Dot products of words in registers: the four bytes or two bf16 of each lane, multiplied and added
up.
"""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from weft.compiler.loop_to_llvm.scalar.conversions import convert
from weft.compiler.loop_to_llvm.scalar.elements import (
    I8,
    I32,
    intrinsic,
    lane_numbers,
    lanes_of,
    shaped,
)
from weft.compiler.target.target import Target


class _BFloat(ir.Type):
    """The type that LLVM's intrinsics want; elsewhere bf16 are their 16 bits."""

    def _to_string(self) -> str:
        return "bfloat"


_BFLOAT = _BFloat()

REGISTERS = (4, 8, 16)
"""Lanes of 32 bits of the vector registers there are."""


def emit_dot(
    builder: ir.IRBuilder, target: Target, total: ir.Value, unsigned: ir.Value, signed: ir.Value
) -> ir.Value:
    """`total` plus the products of the four bytes of each lane, modulo 2^32; all are vectors of
    lanes of 32 bits. The target has dot products of so many lanes.
    """
    lanes = lanes_of(total)
    if target.has_dot_instruction(lanes):
        as_bytes = ir.VectorType(I8, 4 * lanes)
        factors = [builder.bitcast(each, as_bytes) for each in (unsigned, signed)]
        name = f"x86.avx512.vpdpbusd.{32 * lanes}"
        return intrinsic(builder, name, total.type, [total, *factors])
    # Two products of 16 bits each: of the even bytes, then of the odd ones. Products of bytes are
    # not summed in 16 bits, where two of them do not fit.
    for lows, highs in zip(
        _halves(builder, unsigned, signed=False), _halves(builder, signed, signed=True), strict=True
    ):
        total = builder.add(total, _multiply_add(builder, [lows, highs]))
    return total


def emit_dot_of_floats(
    builder: ir.IRBuilder, total: ir.Value, lhs: ir.Value, rhs: ir.Value
) -> ir.Value:
    """`total`, of f32, plus the products of the two bf16 of each lane, of which and of the sums
    those too small for a normal number are zero. The target has such products.
    """
    lanes = lanes_of(total)
    halves = ir.VectorType(_BFLOAT, 2 * lanes)
    factors = [builder.bitcast(each, halves) for each in (lhs, rhs)]
    name = f"x86.avx512bf16.dpbf16ps.{32 * lanes}"
    return intrinsic(builder, name, total.type, [total, *factors])


def emit_pack(builder: ir.IRBuilder, target: Target, low: ir.Value, high: ir.Value) -> ir.Value:
    """Words of two f32 each, rounded to bf16."""
    lanes = lanes_of(low)
    words = shaped(I32, lanes)
    if lanes in REGISTERS and target.has_bf16_conversions(lanes):
        name = f"x86.avx512bf16.cvtne2ps2bf16.{32 * lanes}"
        rounded = intrinsic(builder, name, ir.VectorType(_BFLOAT, 2 * lanes), [high, low])
        halves = builder.bitcast(rounded, ir.VectorType(ir.IntType(16), 2 * lanes))
        order = [each for lane in range(lanes) for each in (lane, lanes + lane)]
        return builder.bitcast(builder.shuffle_vector(halves, halves, lane_numbers(*order)), words)
    narrow = (convert(builder, each, "f32", "bf16", has_f16=False) for each in (low, high))
    below, above = (builder.zext(each, words) for each in narrow)
    return builder.or_(below, builder.shl(above, _number(words, 16)))


def emit_dot_of_words(
    builder: ir.IRBuilder, target: Target, lhs: ir.Value, rhs: ir.Value
) -> ir.Value:
    """The sums of the products of the two bf16 of each lane."""
    lanes = lanes_of(lhs)
    floats = shaped(ir.FloatType(), lanes)
    if lanes in REGISTERS and target.has_bf16_conversions(lanes):
        return emit_dot_of_floats(builder, ir.Constant(floats, None), lhs, rhs)
    lows = [builder.shl(each, _number(each.type, 16)) for each in (lhs, rhs)]
    highs = [builder.and_(each, _number(each.type, -(1 << 16))) for each in (lhs, rhs)]
    products = [
        builder.fmul(*(builder.bitcast(each, floats) for each in pair)) for pair in (lows, highs)
    ]
    return builder.fadd(*products)


def _number(like: ir.Type, number: int) -> ir.Constant:
    count = like.count if isinstance(like, ir.VectorType) else 0
    return ir.Constant(like, [number] * count if count else number)


def _halves(builder: ir.IRBuilder, words: ir.Value, *, signed: bool) -> list[ir.Value]:
    """The even and the odd bytes of each lane, extended to 16 bits."""
    pairs = builder.bitcast(words, ir.VectorType(ir.IntType(16), 2 * lanes_of(words)))
    eight = ir.Constant(pairs.type, [8] * pairs.type.count)
    shift = builder.ashr if signed else builder.lshr
    return [shift(builder.shl(pairs, eight), eight), shift(pairs, eight)]


def _multiply_add(builder: ir.IRBuilder, factors: Sequence[ir.Value]) -> ir.Value:
    """The sums of the products of neighbouring 16 bits, in 32."""
    count = lanes_of(factors[0]) // 2
    names = {4: "x86.sse2.pmadd.wd", 8: "x86.avx2.pmadd.wd", 16: "x86.avx512.pmaddw.d.512"}
    return intrinsic(builder, names[count], ir.VectorType(I32, count), list(factors))

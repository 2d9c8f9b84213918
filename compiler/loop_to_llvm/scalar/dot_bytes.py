"""Dot products of words in registers: the four bytes or two bf16 of each lane, multiplied and added
up.
"""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from weft.compiler.loop_to_llvm.scalar.elements import I8, I32, intrinsic, lanes_of
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

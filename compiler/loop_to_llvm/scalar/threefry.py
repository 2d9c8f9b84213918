"""Random words of Threefry: three instructions a round on vectors of 32-bit lanes."""

from __future__ import annotations

from llvmlite import ir

from weft.compiler.loop_to_llvm.scalar.elements import I32, I64, intrinsic, lanes_of
from weft.dialects.loop.threefry import threefry


def emit_threefry(builder: ir.IRBuilder, key: ir.Value, count: ir.Value) -> ir.Value:
    """Two words of 32 bits in one of 64, as the key and the count are, scalars or vectors."""
    lanes = lanes_of(key)
    word, pair = (ir.VectorType(each, lanes) if lanes else each for each in (I32, I64))

    def number(value: int, kind: ir.Type = word) -> ir.Constant:
        return ir.Constant(kind, [value] * lanes if lanes else value)

    def words(value: ir.Value) -> tuple[ir.Value, ir.Value]:
        upper = builder.lshr(value, number(32, pair))
        return builder.trunc(value, word), builder.trunc(upper, word)

    def rotate(value: ir.Value, by: int) -> ir.Value:
        return intrinsic(builder, "fshl", word, [value, value, number(by)], word)

    low, high = threefry(words(key), words(count), builder.add, builder.xor, rotate, number)
    upper = builder.shl(builder.zext(high, pair), number(32, pair))
    return builder.or_(upper, builder.zext(low, pair))

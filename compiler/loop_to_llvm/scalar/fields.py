"""Fields of words as floats: shifted out and converted, or looked up where a register holds a float
for each code of 4 bits.
"""

from __future__ import annotations

from llvmlite import ir

from weft.compiler.loop_to_llvm.scalar.elements import I32, intrinsic, lanes_of
from weft.compiler.target.target import Target

F32 = ir.FloatType()

TABLE_BITS = 4
TABLE = 1 << TABLE_BITS
"""Floats that one register of 512 bits holds: as many as lanes, and as codes of 4 bits."""


def emit_field(
    builder: ir.IRBuilder, target: Target, word: ir.Value, low: int, bits: int, *, centred: bool
) -> ir.Value:
    """The bits from `low` on of the words of 32, scalars or vectors, as f32."""
    middle = 1 << (bits - 1) if centred else 0
    if bits == TABLE_BITS and lanes_of(word) == TABLE and target.has_masks:
        table = ir.Constant(ir.VectorType(F32, TABLE), [float(n - middle) for n in range(TABLE)])
        # The instruction reads the lowest four bits of an index alone.
        shifted = builder.lshr(word, _number(word, low)) if low else word
        name = "x86.avx512.permvar.sf.512"
        return intrinsic(builder, name, table.type, [table, shifted])
    above = 32 - bits
    if centred:
        # With its highest bit flipped a code is its distance from the middle of the range. All
        # codes of a word are flipped at once: LLVM keeps one such word.
        flips = sum(middle << at for at in range(low % bits, above + 1, bits))
        word = builder.xor(word, _number(word, flips))
        word = builder.shl(word, _number(word, above - low))
        field = builder.ashr(word, _number(word, above))
    else:
        field = builder.and_(builder.lshr(word, _number(word, low)), _number(word, (1 << bits) - 1))
    lanes = lanes_of(word)
    return builder.sitofp(field, ir.VectorType(F32, lanes) if lanes else F32)


def _number(like: ir.Value, number: int) -> ir.Constant:
    """A number of 32 bits, in each lane of a vector if there are some."""
    lanes = lanes_of(like)
    if not lanes:
        return ir.Constant(I32, number)
    return ir.Constant(ir.VectorType(I32, lanes), [number] * lanes)

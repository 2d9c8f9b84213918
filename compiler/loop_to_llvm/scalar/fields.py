"""Fields of words as floats: shifted out and converted, looked up where a register holds a float
for each code of 4 bits, or made the last bits of a float from 2**23 on, where these are one apart.
"""

from __future__ import annotations

from llvmlite import ir

from weft.compiler.loop_to_llvm.scalar.elements import I32, intrinsic, lanes_of
from weft.compiler.target.target import Target

F32 = ir.FloatType()

MANTISSA_BITS = 23
FLOAT_OF_2_TO_23 = 0x4B000000
"""Its bits, of which the last ones count from it."""

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
    if lanes_of(word) and target.has_masks and bits <= MANTISSA_BITS:
        return _from_mantissa(builder, word, low, bits, middle)
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


def _from_mantissa(
    builder: ir.IRBuilder, word: ir.Value, low: int, bits: int, middle: int
) -> ir.Value:
    """The floats from 2**23 on that end in the fields, less 2**23 and the middle. Of its operations
    any port does most, and one those that shift and convert.
    """
    field = builder.lshr(word, _number(word, low)) if low else word
    if low + bits < 32:
        field = builder.and_(field, _number(word, (1 << bits) - 1))
    field = builder.or_(field, _number(word, FLOAT_OF_2_TO_23))
    floats = ir.VectorType(F32, lanes_of(word))
    start = ir.Constant(floats, [float(2**MANTISSA_BITS + middle)] * lanes_of(word))
    return builder.fsub(builder.bitcast(field, floats), start)


def _number(like: ir.Value, number: int) -> ir.Constant:
    """A number of 32 bits, in each lane of a vector if there are some."""
    lanes = lanes_of(like)
    if not lanes:
        return ir.Constant(I32, number)
    return ir.Constant(ir.VectorType(I32, lanes), [number] * lanes)

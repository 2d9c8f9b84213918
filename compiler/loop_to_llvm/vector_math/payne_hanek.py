"""Angles of any size modulo pi/2 (Payne and Hanek): a product with the digits of 2/pi that matter.

The scalar routine is a function of the module, called lane by lane from a branch that is taken only
where some lane needs it. It takes and returns scalars, so that it may be called between functions
of different vector registers.
"""

from __future__ import annotations

from llvmlite import ir

from weft.compiler.loop_to_llvm.vector_math.constants import parts, pi
from weft.compiler.loop_to_llvm.vector_math.formats import F64
from weft.compiler.loop_to_llvm.vector_math.lanes import Emitter, Integer, Mask, Real, select
from weft.compiler.loop_to_llvm.vector_math.slow_path import one_by_one, where_any

_LIMB = 32
_LIMBS = 6
_LEADING_ZEROS = 64
_WORDS = 41
_ROUTINE = "weft.large_angle.f64"
_DIGITS = "weft.two_over_pi"


def _digits_table(module: ir.Module) -> ir.GlobalVariable:
    """2/pi in binary as 32-bit words, most significant first, after `_LEADING_ZEROS` zeros."""
    if _DIGITS in module.globals:
        return module.globals[_DIGITS]
    total = _WORDS * _LIMB
    digits = int((2 / pi()) * 2 ** (total - _LEADING_ZEROS))
    words = [digits >> (total - _LIMB * (i + 1)) & 0xFFFFFFFF for i in range(_WORDS)]
    array_type = ir.ArrayType(ir.IntType(_LIMB), _WORDS)
    table = ir.GlobalVariable(module, array_type, _DIGITS)
    table.linkage = "internal"
    table.global_constant = True
    table.initializer = ir.Constant(array_type, words)
    return table


def _window(at: Emitter, position: Integer) -> list[Integer]:
    """192 digits of 2/pi from a table position on, as 32-bit limbs, least significant first."""
    table = _digits_table(at.builder.module)
    first, shift = position >> 5, position & 31
    words: list[Integer] = []
    for i in range(_LIMBS + 1):
        index = [ir.Constant(ir.IntType(64), 0), (first + i).value]
        word = at.builder.load(at.builder.gep(table, index, inbounds=True))
        words.append(Integer(at, _LIMB, word).resize(64))
    limbs = [
        (((high << _LIMB) | low) << shift) >> _LIMB
        for high, low in zip(words, words[1:], strict=False)
    ]
    return limbs[::-1]


def _product(multiplier: Integer, limbs: list[Integer]) -> list[Integer]:
    """A 53-bit integer times 192 bits, modulo 2**192."""
    low, high = multiplier & 0xFFFFFFFF, multiplier >> _LIMB
    carry = multiplier.literal(0)
    rows: list[Integer] = []
    for limb in limbs:
        total = low * limb + carry
        rows.append(total & 0xFFFFFFFF)
        carry = total >> _LIMB
    carry = multiplier.literal(0)
    result = rows[:1]
    for limb, row in zip(limbs, rows[1:], strict=False):
        total = high * limb + row + carry
        result.append(total & 0xFFFFFFFF)
        carry = total >> _LIMB
    return result


def _fraction_to_angle(high: Integer, low: Integer) -> Real:
    """A fraction of pi/2 in radians, from 128 digits after the point; 1 to 63 zeros lead."""
    zeros = high.leading_zeros() & 63
    leading = (high << zeros) | ((low >> 1) >> (zeros ^ 63))
    coarse = (leading >> 11).to_real(F64, signed=True) * 2.0**-53
    fine = (leading & 0x7FF).to_real(F64, signed=True) * 2.0**-64
    pi_high, pi_low = parts(pi() / 2, F64.precision, 2)
    angle = coarse * pi_high + (coarse * pi_low + fine * pi_high)
    return angle * ((zeros.literal(F64.bias) - zeros) << F64.fraction_bits).as_real(F64)


def _reduce(x: Real) -> tuple[Real, Integer]:
    """r and n modulo 4 with x = r + n*pi/2, for finite |x| of at least 2**12."""
    bits = abs(x).bits()
    exponent = bits >> F64.fraction_bits
    multiplier = (bits & ((1 << F64.fraction_bits) - 1)) | (1 << F64.fraction_bits)
    position = exponent - (F64.bias + F64.fraction_bits + 2 - _LEADING_ZEROS)
    p = _product(multiplier, _window(x.at, position))
    high, low = (p[5] << _LIMB) | p[4], (p[3] << _LIMB) | p[2]
    fraction, rest = (high << 2) | (low >> 62), (low << 2) | (p[1] >> 30)
    beyond_half = fraction >> 63
    flip = -beyond_half
    quadrant = (high >> 62) + beyond_half
    angle = _fraction_to_angle(fraction ^ flip, rest ^ flip)
    negative = x.bits() >> 63
    signed = (angle.bits() ^ ((negative ^ beyond_half) << 63)).as_real(F64)
    return signed, (quadrant ^ -negative) + negative


def _routine(module: ir.Module) -> ir.Function:
    """The scalar reduction as a function of the module: double -> {double, i64}.

    It uses no fused multiply-add, so that it compiles without the target attributes of its callers.
    """
    if _ROUTINE in module.globals:
        return module.globals[_ROUTINE]
    double, pair = ir.DoubleType(), ir.LiteralStructType([ir.DoubleType(), ir.IntType(64)])
    function = ir.Function(module, ir.FunctionType(pair, [double]), _ROUTINE)
    function.linkage = "internal"
    for attribute in ("noinline", "nounwind", "cold"):
        function.attributes.add(attribute)
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    r, quadrant = _reduce(Real(Emitter(builder, 0, has_fma=False), F64, function.args[0]))
    result = builder.insert_value(ir.Constant(pair, ir.Undefined), r.value, 0)
    builder.ret(builder.insert_value(result, quadrant.value, 1))
    return function


def _reduce_one(x: Real) -> tuple[Real, Integer]:
    """One lane through the routine."""
    builder = x.at.builder
    pair = builder.call(_routine(builder.module), [x.to(F64).value])
    r = Real(x.at, F64, builder.extract_value(pair, 0)).to(x.format)
    return r, Integer(x.at, 64, builder.extract_value(pair, 1)).resize(x.format.bits)


def reduce_large_lanes(x: Real, large: Mask, r: Real, quadrant: Integer) -> tuple[Real, Integer]:
    """r and quadrant with the masked lanes reduced anew, where |x| is finite and at least 2**12."""

    def slow_path() -> tuple[Real, Integer]:
        operand = select(large, x, x.literal(2.0**20))
        exact, turns = one_by_one([operand], lambda lane: _reduce_one(*lane))
        return select(large, exact, r), select(large, turns, quadrant)

    angle, turns = where_any(large, [r, quadrant], slow_path)
    return angle, turns

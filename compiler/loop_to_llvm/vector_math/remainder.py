"""The remainder of a division as C's fmod has it: exact, with the dividend's sign.

Where the quotient has at most as many bits as a significand, dividend minus quotient times divisor
is exact in one fused multiply-add, or for f32 in f64. Greater quotients are divided in a function
of the module, eleven bits a step; without fused multiply-add, all of f64 are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from llvmlite import ir

from weft.compiler.loop_to_llvm.vector_math.formats import F32, F64
from weft.compiler.loop_to_llvm.vector_math.lanes import (
    Emitter,
    Integer,
    Mask,
    Real,
    fma,
    nan,
    select,
)
from weft.compiler.loop_to_llvm.vector_math.rounding import trunc
from weft.compiler.loop_to_llvm.vector_math.slow_path import one_by_one, where_any

_ROUTINE = "weft.remainder.f64"
_STEP = 11
"""Bits by which a significand of 53 can be shifted in 64."""


def fmod(x: Real, y: Real) -> Real:
    """`x - trunc(x / y) y`; NaN for infinite x and for y of zero."""
    dividend, divisor = abs(x), abs(y)
    defined = (dividend < math.inf) & (divisor > 0.0)
    quotient, rest = _divided(dividend, divisor)
    rest = select(dividend < divisor, dividend, rest)
    long = (quotient >= _longest(x)) & defined & (divisor <= dividend)

    def slow_path() -> Sequence[Real]:
        operands = [select(long, each, each.literal(1.0)) for each in (dividend, divisor)]
        (exact,) = one_by_one(operands, lambda lane: [_divide_one(*lane)])
        return [select(long, exact, rest)]

    (found,) = where_any(long, [rest], slow_path)
    return select(defined, found, nan(x)).with_sign_of(x)


def _longest(x: Real) -> float:
    """The least quotient that is left to the routine."""
    return 2.0**x.format.fraction_bits if x.at.has_fma or x.format == F32 else 0.0


def _divided(dividend: Real, divisor: Real) -> tuple[Real, Real]:
    """The quotient, and the remainder where the quotient is short."""
    if dividend.at.has_fma:
        quotient = trunc(dividend / divisor)
        rest = fma(-quotient, divisor, dividend)
        return quotient, select(rest < 0.0, rest + divisor, rest)  # the quotient was rounded up
    if dividend.format == F32:
        wide, step = dividend.to(F64), divisor.to(F64)
        quotient = trunc(wide / step)
        rest = wide - quotient * step
        return quotient.to(F32), select(rest < 0.0, rest + step, rest).to(F32)
    return dividend / divisor, dividend


def _divide_one(dividend: Real, divisor: Real) -> Real:
    """One lane through the routine."""
    builder = dividend.at.builder
    operands = [dividend.to(F64).value, divisor.to(F64).value]
    rest = builder.call(_routine(builder.module), operands)
    return Real(dividend.at, F64, rest).to(dividend.format)


def _routine(module: ir.Module) -> ir.Function:
    """The remainder of finite numbers, neither negative nor a divisor of zero, as a function of the
    module; scalars alone, so that it may be called between functions of other vector registers.
    """
    if _ROUTINE in module.globals:
        return module.globals[_ROUTINE]
    double = ir.DoubleType()
    function = ir.Function(module, ir.FunctionType(double, [double, double]), _ROUTINE)
    function.linkage = "internal"
    for attribute in ("noinline", "nounwind", "cold"):
        function.attributes.add(attribute)
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    at = Emitter(builder, 0, has_fma=False)
    dividend, exponent = _parts(Real(at, F64, function.args[0]))
    divisor, least = _parts(Real(at, F64, function.args[1]))
    rest = _shifted_remainder(dividend % divisor, divisor, exponent - least)
    builder.ret(_scaled(rest, least).value)
    return function


def _parts(x: Real) -> tuple[Integer, Integer]:
    """Significand and exponent: the number is the former times two to the latter less the bias of
    subnormal numbers.
    """
    bits = x.bits()
    field = bits >> F64.fraction_bits
    hidden = field.literal(1 << F64.fraction_bits)
    normal = field.compare(">", 0)
    fraction = bits & ((1 << F64.fraction_bits) - 1)
    return fraction | select(normal, hidden, hidden.literal(0)), field - select(
        normal, field.literal(1), field.literal(0)
    )


def _shifted_remainder(rest: Integer, divisor: Integer, shift: Integer) -> Integer:
    """The remainder of `rest * 2**shift`, a few bits at a time; the divisor has 53 bits at most."""
    at, builder = rest.at, rest.at.builder
    entry, loop, done = builder.block, *(builder.append_basic_block(n) for n in ("shift", "done"))
    builder.cbranch(shift.compare(">", 0).value, loop, done)
    builder.position_at_end(loop)
    current, left = (Integer(at, 64, builder.phi(ir.IntType(64))) for _ in range(2))
    step = select(left.compare("<", _STEP), left, left.literal(_STEP))
    next_rest, next_left = (current << step) % divisor, left - step
    for phi, first, following in ((current, rest, next_rest), (left, shift, next_left)):
        phi.value.add_incoming(first.value, entry)
        phi.value.add_incoming(following.value, loop)
    builder.cbranch(next_left.compare(">", 0).value, loop, done)
    builder.position_at_end(done)
    found: Any = builder.phi(ir.IntType(64))
    found.add_incoming(rest.value, entry)
    found.add_incoming(next_rest.value, loop)
    return Integer(at, 64, found)


def _scaled(rest: Integer, exponent: Integer) -> Real:
    """The number of that significand, below 2**53, and that exponent."""
    zeros = rest.leading_zeros() - (63 - F64.fraction_bits)
    shift = select(zeros.compare("<", exponent), zeros, exponent)
    moved, field = rest << shift, exponent - shift
    normal: Mask = moved.compare(">=", 1 << F64.fraction_bits)
    number = (moved & ((1 << F64.fraction_bits) - 1)) | ((field + 1) << F64.fraction_bits)
    return select(normal, number, moved).as_real(F64)

"""What AVX-512 does with lanes in one instruction: scaling by powers of two, clamping a magnitude,
picking numbers out of a table, and estimating reciprocals of square roots.
"""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from weft.compiler.loop_to_llvm.vector_math.lanes import Mask, Real, fma, select


def can_scale(x: Real) -> bool:
    """Whether `scaled` and `within` are instructions on this shape, vscalef and vrange."""
    return x.at.has_scale and x.at.lanes * x.format.bits == 512


def scaled(x: Real, exponent: Real) -> Real:
    """x * 2**floor(exponent), rounded once."""
    rounding = ir.Constant(ir.IntType(32), 4)  # the current mode
    operands = [x.value, exponent.value, x.value, _all_lanes(x), rounding]
    return x.like(x.at.call(_masked("scalef", x), x.value.type, operands))


def within(x: Real, bound: float) -> Real:
    """The number, or one of the magnitude of `bound` where it is farther from 0 or NaN."""
    i32 = ir.IntType(32)
    lesser, rounding = ir.Constant(i32, 6), ir.Constant(i32, 4)  # with its own sign; none
    operands = [x.value, x.literal(bound).value, lesser, x.value, _all_lanes(x), rounding]
    return x.like(x.at.call(_masked("range", x), x.value.type, operands))


def square_root(x: Real) -> Real:
    """The correctly rounded root of f64 by multiply-adds, of which there are two in the time that
    a divider takes for a lane: Newton's steps from an estimate of 14 bits, and the remainder of
    what they lead to. Small numbers are scaled, so that the remainder is exact.
    """
    small = x < 2.0**-700
    y = select(small, x * 2.0**600, x)
    estimate = y.like(y.at.call("llvm.x86.avx512.rsqrt14.pd.512", y.value.type, _unmasked(y)))
    root, half = y * estimate, estimate * 0.5
    for _ in range(2):
        error = fma(-root, half, half.literal(0.5))
        root, half = fma(root, error, root), fma(half, error, half)
    root = fma(fma(-root, root, y), half, root)
    root = select(small, root * 2.0**-300, root)
    return select(_is_zero_or_infinite(x), x, root)


def _unmasked(x: Real) -> list[ir.Value]:
    """A number as the operands of an intrinsic whose mask is left out."""
    return [x.value, x.value, _all_lanes(x)]


def _is_zero_or_infinite(x: Real) -> Mask:
    """Zero of either sign, or infinity above."""
    operands = [x.value, ir.Constant(ir.IntType(32), 0b1110)]
    bools = ir.VectorType(ir.IntType(1), x.at.lanes)
    return Mask(x.at, x.at.call("llvm.x86.avx512.fpclass.pd.512", bools, operands))


def _masked(name: str, x: Real) -> str:
    """An intrinsic on 512 bits of such numbers, with a mask."""
    return f"llvm.x86.avx512.mask.{name}.{'ps' if x.format.bits == 32 else 'pd'}.512"


def _all_lanes(x: Real) -> ir.Constant:
    return ir.Constant(ir.IntType(x.at.lanes), -1)


def can_pick(x: Real) -> bool:
    """Whether `pick` takes few instructions: vpermps, of f32."""
    return x.at.has_scale and x.format.bits == 32


def pick(which: Real, table: Sequence[float]) -> Real:
    """The number out of sixteen, or 32, that the low four bits of a pattern say, or five."""
    at, numbers = which.at, which.at.scalar().real_type(which.format)
    index, vector_type = at.resized(which.bits().value, 16), ir.VectorType(numbers, 16)
    held = [
        ir.Constant(
            vector_type, [ir.Constant(numbers, number) for number in table[start : start + 16]]
        )
        for start in range(0, len(table), 16)
    ]
    if len(held) == 1:
        picked = at.call("llvm.x86.avx512.permvar.sf.512", vector_type, [held[0], index])
    else:
        operands = [held[0], index, held[1]]
        picked = at.call("llvm.x86.avx512.vpermi2var.ps.512", vector_type, operands)
    return which.like(at.resized(picked, at.lanes))


def picked_polynomial(x: Real, which: Real, rows: Sequence[Sequence[float]]) -> Real:
    """One of sixteen polynomials, or 32: the row that the low bits of `which` say."""
    highest, *others = reversed(tuple(zip(*rows, strict=True)))
    total = pick(which, highest)
    for table in others:
        total = fma(total, x, pick(which, table))
    return total

"""Conversions of formats that values are stored in: every code, and every midpoint of two."""

import ml_dtypes
import numpy as np
import pytest
from llvmlite import ir

from tests.compiler.loop_to_llvm.array_loop import ArrayFunction, add_loop, compiled_here
from weft.compiler.loop_to_llvm.scalar.conversions import convert, lane_type
from weft.compiler.loop_to_llvm.scalar.narrow_floats import NARROW_FORMATS, POWER_OF_TWO, Special

DTYPES = {
    "f8E3M4": np.dtype(ml_dtypes.float8_e3m4),
    "f8E4M3": np.dtype(ml_dtypes.float8_e4m3),
    "f8E4M3B11FNUZ": np.dtype(ml_dtypes.float8_e4m3b11fnuz),
    "f8E4M3FN": np.dtype(ml_dtypes.float8_e4m3fn),
    "f8E4M3FNUZ": np.dtype(ml_dtypes.float8_e4m3fnuz),
    "f8E5M2": np.dtype(ml_dtypes.float8_e5m2),
    "f8E5M2FNUZ": np.dtype(ml_dtypes.float8_e5m2fnuz),
    "f8E8M0FNU": np.dtype(ml_dtypes.float8_e8m0fnu),
    "f6E2M3FN": np.dtype(ml_dtypes.float6_e2m3fn),
    "f6E3M2FN": np.dtype(ml_dtypes.float6_e3m2fn),
    "f4E2M1FN": np.dtype(ml_dtypes.float4_e2m1fn),
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
    "i16": np.dtype(np.int16),
}
each_format = pytest.mark.parametrize("name", NARROW_FORMATS)
each_wide = pytest.mark.parametrize("wide", ["f32", "f64"])


def conversion(source: str, target: str, lanes: int = 8) -> ArrayFunction:
    module = ir.Module("conversion")

    def expression(builder: ir.IRBuilder, operands: list[ir.Value]) -> ir.Value:
        return convert(builder, operands[0], source, target, has_f16=False)

    name = f"{source}_to_{target}"
    add_loop(module, name, [lane_type(source)], lane_type(target), lanes, expression)
    return compiled_here(module, name, DTYPES[target], lanes)


def codes_of(name: str) -> np.ndarray:
    bits = 1 + NARROW_FORMATS[name].exponent_bits + NARROW_FORMATS[name].fraction_bits
    return np.arange(1 << bits, dtype=np.uint8)


def positive(name: str, wide: str) -> np.ndarray:
    """All finite numbers from zero up."""
    codes = np.arange(NARROW_FORMATS[name].greatest + 1, dtype=np.uint8)
    return codes.view(DTYPES[name]).astype(DTYPES[wide])


@pytest.mark.parametrize("lanes", [0, 8])
@each_wide
@each_format
def test_codes_widen_exactly(name: str, wide: str, lanes: int) -> None:
    values = codes_of(name).view(DTYPES[name])
    got, expected = conversion(name, wide, lanes)(values), values.astype(DTYPES[wide])
    np.testing.assert_array_equal(got, expected)
    np.testing.assert_array_equal(np.signbit(got[got == 0]), np.signbit(expected[got == 0]))


@each_wide
@each_format
def test_narrowing_rounds_once_to_even(name: str, wide: str) -> None:
    numbers = positive(name, wide)
    lower, upper = numbers[:-1], numbers[1:]
    middle, codes = lower + (upper - lower) / 2, np.arange(len(lower), dtype=np.uint8)
    points = np.concatenate([np.nextafter(middle, lower), middle, np.nextafter(middle, upper)])
    nearest = np.concatenate([codes, codes + (codes & 1), codes + 1])
    narrow = conversion(wide, name)
    np.testing.assert_array_equal(narrow(points).view(np.uint8), nearest)
    kind = NARROW_FORMATS[name]
    zero = 0 if kind.special is Special.NEGATIVE_ZERO else kind.sign
    negative = np.where(nearest == 0, zero, nearest + kind.sign)
    np.testing.assert_array_equal(narrow(-points).view(np.uint8), negative)


@each_format
def test_what_is_too_large_overflows(name: str) -> None:
    numbers = positive(name, "f64")
    half = (numbers[-1] - numbers[-2]) / 2
    points = np.array([numbers[-1] + half, 1e30, np.inf, -1e30, np.nan])
    with np.errstate(all="ignore"):
        expected = points.astype(np.float32).astype(DTYPES[name])
    if NARROW_FORMATS[name].nan is None:  # of which ml_dtypes makes zero of either sign
        assert conversion("f64", name)(points[4:]).view(np.uint8)[0] == NARROW_FORMATS[name].sign
        points, expected = points[:4], expected[:4]
    got = conversion("f64", name)(points).astype(np.float32)
    np.testing.assert_array_equal(got, expected.astype(np.float32))


@each_format
def test_integers_are_rounded(name: str) -> None:
    numbers = np.arange(-600, 600, dtype=np.int16)
    got = conversion("i16", name)(numbers).astype(np.float32)
    expected = numbers.astype(np.float32).astype(DTYPES[name]).astype(np.float32)
    np.testing.assert_array_equal(got, expected)


def test_powers_of_two_widen_exactly() -> None:
    codes = np.arange(256, dtype=np.uint8)
    expected = np.append(2.0 ** np.arange(-127, 128), np.nan)
    got = conversion(POWER_OF_TWO, "f64")(codes.view(DTYPES[POWER_OF_TWO]))
    np.testing.assert_array_equal(got, expected)


def test_powers_of_two_are_the_nearest() -> None:
    exponents = np.arange(-127, 127)
    powers = (2.0**exponents).astype(np.float32)
    points = np.concatenate([powers, np.nextafter(powers * np.float32(1.5), np.float32(0))])
    points = np.concatenate([points, powers * np.float32(1.5)])
    codes = np.concatenate([exponents, exponents, exponents + 1]) + 127
    narrow = conversion("f32", POWER_OF_TWO)
    np.testing.assert_array_equal(narrow(points).view(np.uint8), codes)
    others = np.array([0, -0.0, -1, 3e38, np.inf, np.nan], np.float32)
    assert set(narrow(others).view(np.uint8)) == {255}

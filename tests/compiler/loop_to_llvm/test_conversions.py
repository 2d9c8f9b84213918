"""Conversions between element formats: exact, or else rounded once, on every target."""

import math

import ml_dtypes
import numpy as np
import pytest
from llvmlite import ir

import weft
from tests.compiler.loop_to_llvm.array_loop import (
    HOST_FEATURES,
    ArrayFunction,
    add_loop,
    compiled_here,
    undefined_symbols,
)
from weft.compiler.loop_to_llvm.scalar.conversions import ELEMENT_FORMATS, convert, lane_type

DTYPES = {
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
    "i1": np.dtype(np.bool_),
    **{
        f"{sign}{bits}": np.dtype(f"{sign}{bits // 8}") for sign in "iu" for bits in (8, 16, 32, 64)
    },
}
SMALL = ("f16", "bf16")
INTEGERS = tuple(name for name in ELEMENT_FORMATS if name[0] in "iu" and name != "i1")

native_f16 = pytest.param(
    True,
    marks=pytest.mark.skipif(
        not HOST_FEATURES.get("f16c") and not HOST_FEATURES.get("neon"),
        reason="this machine converts no f16 in an instruction",
    ),
)
both_ways = pytest.mark.parametrize("has_f16", [False, native_f16])


def stored_type(name: str) -> ir.Type:
    """Truth values are stored as bytes."""
    return ir.IntType(8) if name == "i1" else lane_type(name)


def add_conversion(module: ir.Module, source: str, target: str, lanes: int, has_f16: bool) -> str:
    def expression(builder: ir.IRBuilder, operands: list[ir.Value]) -> ir.Value:
        (value,) = operands
        truth = ir.VectorType(ir.IntType(1), lanes) if lanes else ir.IntType(1)
        if source == "i1":
            value = builder.trunc(value, truth)
        result = convert(builder, value, source, target, has_f16=has_f16)
        stored = ir.VectorType(ir.IntType(8), lanes) if lanes else ir.IntType(8)
        return builder.zext(result, stored) if target == "i1" else result

    name = f"{source}_to_{target}"
    add_loop(module, name, [stored_type(source)], stored_type(target), lanes, expression)
    return name


def conversion(source: str, target: str, *, lanes: int = 8, has_f16: bool = False) -> ArrayFunction:
    module = ir.Module("conversion")
    name = add_conversion(module, source, target, lanes, has_f16)
    return compiled_here(module, name, DTYPES[target], lanes)


def all_patterns(name: str) -> np.ndarray:
    return np.arange(1 << 16, dtype=np.uint16).view(DTYPES[name])


def assert_same(got: np.ndarray, expected: np.ndarray) -> None:
    """Equal bit by bit, but any NaN for a NaN."""
    word = f"u{got.dtype.itemsize}"
    unequal = got.view(word) != expected.view(word)
    if got.dtype.kind in "fV":
        unequal &= ~(np.isnan(got) & np.isnan(expected))
    where = np.flatnonzero(unequal)
    assert not len(where), f"{len(where)} differ: {got[where[:5]]} for {expected[where[:5]]}"


def sample(name: str, count: int = 200_000) -> np.ndarray:
    """Bit patterns at random, so every exponent, subnormal numbers, infinities and NaN."""
    words = np.random.default_rng(0).integers(0, 1 << 63, count, dtype=np.uint64) << np.uint64(1)
    if name == "f64":
        return words.view(np.float64)
    return (words >> np.uint64(32)).astype(np.uint32).view(np.float32)


def around_midpoints(small: str, wide: str) -> tuple[np.ndarray, np.ndarray]:
    """Numbers at and next to the middle of neighbours in a small format, and what they round to."""
    last_finite = {"f16": 0x7BFF, "bf16": 0x7F7F}[small]
    below = np.arange(last_finite, dtype=np.uint16)
    lower, upper = (
        w.view(DTYPES[small]).astype(DTYPES[wide]) for w in (below, below + np.uint16(1))
    )
    middle = lower + (upper - lower) / 2
    even = below + (below & np.uint16(1))
    points = np.concatenate(
        [np.nextafter(middle, lower), middle, np.nextafter(middle, upper)], dtype=DTYPES[wide]
    )
    nearest = np.concatenate([below, even, below + np.uint16(1)])
    signed = np.concatenate([nearest, nearest | np.uint16(0x8000)])
    return np.concatenate([points, -points]), signed.view(DTYPES[small])


@both_ways
@pytest.mark.parametrize("small", SMALL)
@pytest.mark.parametrize("wide", ["f32", "f64"])
def test_small_floats_widen_exactly(small: str, wide: str, has_f16: bool) -> None:
    patterns = all_patterns(small)
    with np.errstate(invalid="ignore"):
        expected = patterns.astype(DTYPES[wide])
    assert_same(conversion(small, wide, has_f16=has_f16)(patterns), expected)


@both_ways
@pytest.mark.parametrize("small", SMALL)
@pytest.mark.parametrize("wide", ["f32", "f64"])
def test_narrowing_rounds_once_to_even(small: str, wide: str, has_f16: bool) -> None:
    points, expected = around_midpoints(small, wide)
    assert_same(conversion(wide, small, has_f16=has_f16)(points), expected)


@both_ways
@pytest.mark.parametrize("small", SMALL)
def test_narrowing_all_exponents(small: str, has_f16: bool) -> None:
    points = sample("f32")
    with np.errstate(all="ignore"):
        expected = points.astype(DTYPES[small])
    assert_same(conversion("f32", small, has_f16=has_f16)(points), expected)


@both_ways
@pytest.mark.parametrize("wide", ["f32", "f64"])
@pytest.mark.parametrize(
    ("small", "largest", "half_gap"),
    [("f16", 65504.0, 16.0), ("bf16", 2.0**128 - 2.0**120, 2.0**119)],
)
def test_narrowing_overflows_to_infinity(
    small: str, largest: float, half_gap: float, wide: str, has_f16: bool
) -> None:
    half_way = np.array(largest + half_gap, DTYPES[wide])
    below = np.nextafter(half_way, 0 * half_way)
    points = np.array([below, half_way, math.inf, -half_way], DTYPES[wide])
    expected = np.array([largest, math.inf, math.inf, -math.inf], DTYPES[small])
    assert_same(conversion(wide, small, has_f16=has_f16)(points), expected)


@both_ways
@pytest.mark.parametrize("small", SMALL)
@pytest.mark.parametrize(("wide", "fraction_bits"), [("f32", 23), ("f64", 52)])
def test_narrowing_keeps_every_nan_a_nan(
    small: str, wide: str, fraction_bits: int, has_f16: bool
) -> None:
    infinity = np.array([math.inf, -math.inf], DTYPES[wide])
    word = f"u{DTYPES[wide].itemsize}"
    payloads = np.array([1 << i for i in range(fraction_bits)], word)
    points = (infinity.view(word)[:, None] | payloads).ravel()
    got = conversion(wide, small, has_f16=has_f16)(points.view(DTYPES[wide]))
    assert np.isnan(got).all()


def test_f64_to_f32_rounds_to_nearest() -> None:
    points = sample("f64")
    with np.errstate(all="ignore"):
        assert_same(conversion("f64", "f32")(points), points.astype(np.float32))


@pytest.mark.parametrize(("source", "target"), [("f16", "bf16"), ("bf16", "f16")])
@both_ways
def test_between_small_formats(source: str, target: str, has_f16: bool) -> None:
    patterns = all_patterns(source)
    with np.errstate(all="ignore"):
        expected = patterns.astype(np.float32).astype(DTYPES[target])
    assert_same(conversion(source, target, has_f16=has_f16)(patterns), expected)


def truncated(x: float, low: int, high: int) -> int:
    if math.isnan(x):
        return 0
    return min(max(int(x) if math.isfinite(x) else int(math.copysign(2**80, x)), low), high)


@pytest.mark.parametrize("target", INTEGERS)
@pytest.mark.parametrize("source", ["f16", "bf16", "f32", "f64"])
def test_float_to_integer_truncates_and_saturates(source: str, target: str) -> None:
    info = np.iinfo(DTYPES[target])
    edges = [float(n) + d for n in (info.min, info.max) for d in (-1.5, -0.5, 0.0, 0.5, 1.5)]
    special = [0.0, -0.0, 0.99, -0.99, math.inf, -math.inf, math.nan, 1e30, -1e30]
    spread = np.random.default_rng(1).uniform(info.min, info.max, 400)
    small = np.random.default_rng(2).uniform(-300, 300, 400)
    with np.errstate(over="ignore"):
        points = np.concatenate([edges, special, spread, small]).astype(DTYPES[source])
    expected = [truncated(float(x), int(info.min), int(info.max)) for x in points]
    assert_same(conversion(source, target)(points), np.array(expected, DTYPES[target]))


def integers(name: str) -> np.ndarray:
    """Edges, powers of two and their neighbours, and values of every length."""
    info = np.iinfo(DTYPES[name])
    near_powers = [s * (1 << k) + d for k in range(65) for d in (-1, 0, 1) for s in (-1, 1)]
    drawn = np.random.default_rng(3).integers(info.min, info.max, 3000, DTYPES[name], endpoint=True)
    shorter = [int(n) >> int(k) for n, k in zip(drawn, range(len(drawn)), strict=True) if k < 64]
    inside = [n for n in (*near_powers, *shorter) if info.min <= n <= info.max]
    return np.concatenate([drawn, np.array(inside, DTYPES[name])])


@pytest.mark.parametrize("target", ["f16", "f32", "f64"])
@pytest.mark.parametrize("source", INTEGERS)
def test_integer_to_float_rounds_to_nearest(source: str, target: str) -> None:
    points = integers(source)
    wide = points.astype(np.float64) if target == "f16" else points  # exact up to f16's largest
    with np.errstate(over="ignore"):
        assert_same(conversion(source, target)(points), wide.astype(DTYPES[target]))


@pytest.mark.parametrize("source", INTEGERS)
def test_integer_to_bf16_rounds_once(source: str) -> None:
    lower = [(128 + f) << shift for f in range(128) for shift in range(1, 56)]
    half = [(1 << shift) >> 1 for _ in range(128) for shift in range(1, 56)]
    points, expected = [], []
    for low, step in zip(lower, half, strict=True):
        even = low + (2 * step if low // (2 * step) % 2 else 0)
        rounded = ((step - 1, low), (step, even), (step + 1, low + 2 * step if step > 1 else None))
        for sign in (1, -1):
            points += [sign * (low + d) for d, to in rounded if to is not None]
            expected += [sign * to for _, to in rounded if to is not None]
    info = np.iinfo(DTYPES[source])
    inside = [(p, e) for p, e in zip(points, expected, strict=True) if info.min <= p <= info.max]
    got = conversion(source, "bf16")(np.array([p for p, _ in inside] or [0], DTYPES[source]))
    assert_same(got, np.array([float(e) for _, e in inside] or [0], DTYPES["bf16"]))


@pytest.mark.parametrize("source", ELEMENT_FORMATS)
def test_to_truth_value_is_unequal_to_zero(source: str) -> None:
    points = np.array([0, 1, 2, 127, 0], np.int8).astype(DTYPES[source])
    if source in ("f16", "bf16", "f32", "f64"):
        points = np.concatenate([points, np.array([-0.0, 1e-7, math.nan], DTYPES[source])])
    assert_same(conversion(source, "i1")(points), points != 0)


@pytest.mark.parametrize("target", ELEMENT_FORMATS)
def test_truth_values_are_zero_and_one(target: str) -> None:
    points = np.array([False, True, True, False])
    assert_same(conversion("i1", target)(points), points.astype(DTYPES[target]))


@pytest.mark.parametrize(
    ("source", "target"), [("i8", "i64"), ("u8", "i32"), ("i64", "u8"), ("i32", "u64")]
)
def test_integer_to_integer_extends_or_wraps(source: str, target: str) -> None:
    points = integers(source)
    assert_same(conversion(source, target)(points), points.astype(DTYPES[target]))


@pytest.mark.parametrize("lanes", [0, 1, 4, 16])
def test_every_width_gives_the_same(lanes: int) -> None:
    points = sample("f64", 2000)
    for target in ("f16", "bf16", "i8"):
        wanted = conversion("f64", target)(points)
        assert_same(conversion("f64", target, lanes=lanes)(points), wanted)


@pytest.mark.parametrize(
    ("triple", "cpu", "has_f16"),
    [
        ("x86_64-unknown-linux-gnu", "x86-64", False),
        ("x86_64-unknown-linux-gnu", "x86-64-v3", True),
        ("x86_64-unknown-linux-gnu", "znver4", True),
        ("aarch64-unknown-linux-gnu", "generic", True),
    ],
)
@pytest.mark.parametrize("lanes", [0, 8])
def test_no_conversion_calls_a_library(triple: str, cpu: str, has_f16: bool, lanes: int) -> None:
    module = ir.Module("conversions")
    for source in ELEMENT_FORMATS:
        for target in ELEMENT_FORMATS:
            add_conversion(module, source, target, lanes, has_f16)
    assert undefined_symbols(module, triple, cpu, "") == set()


@pytest.mark.parametrize("dtype", [np.uint8, np.int16])
@pytest.mark.parametrize("width", [1, 2, 17, 33])
def test_a_rest_of_lanes_writes_its_own_elements_alone(dtype, width):
    x = np.arange(2 * width, dtype=np.float32).reshape(2, width)

    def inside(x):
        y = np.full((2, width + 4), 7, dtype)
        y[:, 1 : width + 1] = x.astype(dtype)
        return y

    compiled = weft.compile(inside, (weft.Spec("float32", x.shape),))
    np.testing.assert_array_equal(compiled(x)[0], inside(x))

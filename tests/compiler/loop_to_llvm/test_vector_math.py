"""Vector mathematics: at most 4 ULP off, the special values of Annex F, no library calls."""

import math
from collections.abc import Callable
from functools import cache

import mpmath
import numpy as np
import pytest
from llvmlite import ir

from tests.compiler.loop_to_llvm.array_loop import (
    HOST_FEATURES,
    ArrayFunction,
    add_loop,
    compiled_here,
    undefined_symbols,
)
from weft.compiler.loop_to_llvm.vector_math import MATH_FUNCTIONS, call_math

ARITY = {function.name: function.arity for function in MATH_FUNCTIONS}
ROUNDING = {"floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "roundeven": np.rint}
UNARY = tuple(name for name, arity in ARITY.items() if arity == 1 and name not in ROUNDING)
ELEMENTS = {"f32": ir.FloatType(), "f64": ir.DoubleType()}
DTYPES = {"f32": np.dtype(np.float32), "f64": np.dtype(np.float64)}
MOST_ULPS = 4.0

IN_F64: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "erf": np.vectorize(math.erf, otypes=[np.float64]),
    "rsqrt": lambda x: 1 / np.sqrt(x),
}
EXACT: dict[str, Callable[..., mpmath.mpf]] = {
    "exp2": lambda x: mpmath.power(2, x),
    "log2": lambda x: mpmath.log(x, 2),
    "rsqrt": lambda x: 1 / mpmath.sqrt(x),
}
# where each function does something, for points beside those of all magnitudes
SPAN = {
    **dict.fromkeys(("exp", "expm1", "sinh", "cosh"), {"f32": 105.0, "f64": 746.0}),
    "exp2": {"f32": 152.0, "f64": 1080.0},
    "tanh": {"f32": 10.0, "f64": 20.0},
    "erf": {"f32": 4.0, "f64": 6.0},
    **dict.fromkeys(("asin", "acos", "atanh"), {"f32": 1.0, "f64": 1.0}),
}

both_formats = pytest.mark.parametrize("fmt", ["f32", "f64"])
with_and_without_fma = pytest.mark.parametrize("has_fma", [True, False], ids=["fma", "nofma"])


def add_function(
    module: ir.Module, name: str, fmt: str, lanes: int, has_fma: bool, has_scale: bool = False
) -> None:
    def expression(builder: ir.IRBuilder, operands: list[ir.Value]) -> ir.Value:
        return call_math(builder, name, operands, has_fma=has_fma, has_scale=has_scale)

    element = ELEMENTS[fmt]
    add_loop(module, name, [element] * ARITY.get(name, 1), element, lanes, expression)


@cache
def compiled(
    name: str, fmt: str, *, lanes: int = 8, has_fma: bool = True, has_scale: bool = False
) -> ArrayFunction:
    module = ir.Module("vector_math")
    add_function(module, name, fmt, lanes, has_fma, has_scale)
    return compiled_here(module, name, DTYPES[fmt], lanes)


def all_magnitudes(fmt: str, count: int) -> np.ndarray:
    """Bit patterns at random in equal strata: every exponent and sign, subnormal, infinite, NaN."""
    random = np.random.default_rng(0)
    if fmt == "f32":
        strata = np.arange(count, dtype=np.uint64) * np.uint64((1 << 32) // count)
        drawn = random.integers(0, (1 << 32) // count, count, dtype=np.uint64)
        return (strata + drawn).astype(np.uint32).view(np.float32)
    strata = np.arange(count, dtype=np.uint64) * np.uint64((1 << 64) // count)
    return (strata + random.integers(0, (1 << 64) // count, count, dtype=np.uint64)).view(
        np.float64
    )


def points(name: str, fmt: str, count: int) -> np.ndarray:
    """Half over all magnitudes, a quarter over the span of the function, the rest near 1."""
    random = np.random.default_rng(1)
    span = random.uniform(-1, 1, count // 4) * SPAN.get(name, {}).get(fmt, 50.0)
    near_one = np.exp(random.normal(size=count // 4) * 0.3)
    return np.concatenate([all_magnitudes(fmt, count // 2), span, near_one], dtype=DTYPES[fmt])


def ulps_f32(got: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """Units in the last place from a value known in f64; infinite where the kinds differ."""
    with np.errstate(all="ignore"):
        rounded = exact.astype(np.float32)
        magnitude = np.clip(np.abs(exact), 2.0**-126, 2.0**127)
        unit = np.exp2(np.floor(np.log2(magnitude)) - 23)
        distance = np.abs(got.astype(np.float64) - exact) / unit
    same = (got == rounded) & (np.signbit(got) == np.signbit(rounded))
    same |= np.isnan(got) & np.isnan(rounded)
    finite = np.isfinite(got) & np.isfinite(rounded)
    return np.where(same, 0.0, np.where(finite, distance, np.inf))


def ulps_f64(got: float, exact: mpmath.mpf | mpmath.mpc) -> float:
    """Units in the last place; infinite where one alone is NaN or overflows."""
    if isinstance(exact, mpmath.mpc) or mpmath.isnan(exact):
        return 0.0 if math.isnan(got) else math.inf
    if abs(exact) >= mpmath.mpf(2) ** 1024 * (1 - mpmath.mpf(2) ** -54):
        return 0.0 if math.isinf(got) and (got > 0) == (exact > 0) else math.inf
    if not math.isfinite(got):
        return math.inf
    exponent = int(mpmath.frexp(exact)[1]) - 1 if exact else -1022
    return float(abs(got - exact) / mpmath.mpf(2) ** (max(exponent, -1022) - 52))


def exact_or_nan(name: str, *operands: float) -> mpmath.mpf | mpmath.mpc:
    try:
        function = EXACT.get(name) or getattr(mpmath, name)
        return function(*(mpmath.mpf(float(x)) for x in operands))
    except (ZeroDivisionError, ValueError):
        return mpmath.nan


def within_mpmath(name: str, x: np.ndarray) -> np.ndarray:
    """Without the arguments at which a function is infinite, constant or immensely large."""
    keep = np.isfinite(x)
    if name in SPAN:
        keep &= np.abs(x) <= 2 * SPAN[name]["f64"]
    if name in ("log", "log2", "rsqrt", "atanh", "log1p"):
        keep &= (x != 0) & (np.abs(x) != 1)
    return x[keep]


def assert_close(distance: np.ndarray, got: np.ndarray, *operands: np.ndarray) -> None:
    worst = int(np.argmax(distance))
    facts = f"{got[worst]!r} at {[x[worst] for x in operands]}"
    assert distance[worst] <= MOST_ULPS, f"{distance[worst]} units off: {facts}"


@pytest.mark.parametrize("name", UNARY)
def test_f32_is_within_4_ulp(name: str) -> None:
    x = points(name, "f32", 400_000)
    with np.errstate(all="ignore"):
        exact = (IN_F64.get(name) or getattr(np, name))(x.astype(np.float64))
    for has_fma in (True, False):
        got = compiled(name, "f32", has_fma=has_fma)(x)
        assert_close(ulps_f32(got, exact), got, x)


@pytest.mark.parametrize("name", UNARY)
def test_f64_is_within_4_ulp(name: str) -> None:
    x = within_mpmath(name, points(name, "f64", 3000))
    with mpmath.workprec(140):
        exact = [exact_or_nan(name, value) for value in x]
        for has_fma in (True, False):
            got = compiled(name, "f64", has_fma=has_fma)(x)
            ulps = [ulps_f64(float(g), e) for g, e in zip(got, exact, strict=True)]
            assert_close(np.array(ulps), got, x)


INF, NAN = math.inf, math.nan
BOTH_SIGNS_OF_ZERO = ((0.0, 0.0), (-0.0, -0.0))
SPECIALS = {
    "exp": ((-INF, 0.0), (INF, INF), (0.0, 1.0), (-0.0, 1.0)),
    "exp2": ((-INF, 0.0), (INF, INF), (0.0, 1.0), (-3.0, 0.125), (10.0, 1024.0)),
    "expm1": (*BOTH_SIGNS_OF_ZERO, (-INF, -1.0), (INF, INF)),
    "sinh": (*BOTH_SIGNS_OF_ZERO, (-INF, -INF), (INF, INF)),
    "cosh": ((0.0, 1.0), (-0.0, 1.0), (-INF, INF), (INF, INF)),
    "tanh": (*BOTH_SIGNS_OF_ZERO, (-INF, -1.0), (INF, 1.0)),
    "log": ((1.0, 0.0), (0.0, -INF), (-0.0, -INF), (-1.0, NAN), (-INF, NAN), (INF, INF)),
    "log2": ((1.0, 0.0), (0.0, -INF), (-0.0, -INF), (-1e-40, NAN), (INF, INF), (8.0, 3.0)),
    "log1p": (*BOTH_SIGNS_OF_ZERO, (-1.0, -INF), (-1.5, NAN), (-INF, NAN), (INF, INF)),
    "asinh": (*BOTH_SIGNS_OF_ZERO, (-INF, -INF), (INF, INF)),
    "acosh": ((1.0, 0.0), (0.5, NAN), (-1.0, NAN), (-5.0, NAN), (-INF, NAN), (INF, INF)),
    "atanh": (*BOTH_SIGNS_OF_ZERO, (1.0, INF), (-1.0, -INF), (2.0, NAN), (-INF, NAN), (INF, NAN)),
    "erf": (*BOTH_SIGNS_OF_ZERO, (-INF, -1.0), (INF, 1.0)),
    "sin": (*BOTH_SIGNS_OF_ZERO, (-INF, NAN), (INF, NAN)),
    "cos": ((0.0, 1.0), (-0.0, 1.0), (-INF, NAN), (INF, NAN)),
    "tan": (*BOTH_SIGNS_OF_ZERO, (-INF, NAN), (INF, NAN)),
    "asin": (*BOTH_SIGNS_OF_ZERO, (1.5, NAN), (-INF, NAN), (INF, NAN)),
    "acos": ((1.0, 0.0), (1.5, NAN), (-1.5, NAN), (-INF, NAN), (INF, NAN)),
    "atan": BOTH_SIGNS_OF_ZERO,
    "sqrt": ((0.0, 0.0), (-0.0, -0.0), (INF, INF), (-1.0, NAN), (-INF, NAN), (4.0, 2.0)),
    "rsqrt": ((0.0, INF), (-0.0, -INF), (INF, 0.0), (-1.0, NAN), (-INF, NAN), (4.0, 0.5)),
}


def assert_identical(got: np.ndarray, expected: np.ndarray) -> None:
    """Equal with equal signs of zero, or both NaN."""
    np.testing.assert_array_equal(got, expected)
    number = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(got[number]), np.signbit(expected[number]))


@both_formats
@with_and_without_fma
@pytest.mark.parametrize("name", UNARY)
def test_special_values(name: str, fmt: str, has_fma: bool) -> None:
    x, expected = (np.array(v, DTYPES[fmt]) for v in zip(*SPECIALS[name], (NAN, NAN), strict=True))
    assert_identical(compiled(name, fmt, has_fma=has_fma)(x), expected)


@both_formats
@pytest.mark.parametrize("name", ["expm1", "sinh", "tanh", "log1p", "asinh", "atanh", "sin", "tan"])
def test_subnormal_numbers_are_their_own_image(name: str, fmt: str) -> None:
    smallest = np.finfo(DTYPES[fmt]).smallest_subnormal
    x = smallest * np.array([1, -1, 3, -7, 1001], DTYPES[fmt])
    assert_identical(compiled(name, fmt)(x), x)


def near_multiples_of_half_pi(fmt: str) -> np.ndarray:
    """The numbers nearest to k*pi/2 for k of all lengths, and the f64 that comes nearest of all."""
    random = np.random.default_rng(2)
    longest = {"f32": 126, "f64": 1022}[fmt]
    with mpmath.workprec(1300):
        half_pi = mpmath.pi / 2
        multiples = [mpmath.floor(mpmath.mpf(2) ** e) for e in random.uniform(0, longest, 300)]
        nearest = [float(k * half_pi) for k in multiples]
    return np.array([*nearest, *({"f32": [], "f64": [6381956970095103 * 2.0**797]}[fmt])]).astype(
        DTYPES[fmt]
    )


@both_formats
@with_and_without_fma
@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_angles_next_to_multiples_of_half_pi(name: str, fmt: str, has_fma: bool) -> None:
    x = near_multiples_of_half_pi(fmt)
    got = compiled(name, fmt, has_fma=has_fma)(x)
    with mpmath.workprec(1400):
        exact = [getattr(mpmath, name)(mpmath.mpf(float(value))) for value in x]
    if fmt == "f32":
        ulps = ulps_f32(got, np.array([float(e) for e in exact]))
    else:
        ulps = np.array([ulps_f64(float(g), e) for g, e in zip(got, exact, strict=True)])
    assert_close(ulps, got, x)


@pytest.mark.parametrize("fmt", ["f32", "f64"])
def test_one_large_angle_among_small_ones(fmt: str) -> None:
    x = np.array([0.5, 1e30, -2.0, NAN, INF, -3e25, 0.0, 7.0], DTYPES[fmt])
    expected = np.sin(np.where(np.isfinite(x), x, NAN).astype(np.float64))
    np.testing.assert_allclose(compiled("sin", fmt)(x), expected, rtol=4e-7, atol=0)


def signed(values: np.ndarray) -> np.ndarray:
    return np.concatenate([values, -values])


@with_and_without_fma
def test_pow_f32_is_within_4_ulp(has_fma: bool) -> None:
    random = np.random.default_rng(3)
    x = np.exp(random.normal(size=200_000) * random.choice([0.01, 1, 15], 200_000))
    limit = np.minimum(105 / np.abs(np.log(x)), 1e30)
    y = (random.uniform(-1, 1, len(x)) * limit).astype(np.float32)
    anything = all_magnitudes("f32", 100_000)
    x = np.concatenate([x.astype(np.float32), anything])
    y = np.concatenate([y, random.permutation(anything)])
    got = compiled("pow", "f32", has_fma=has_fma)(x, y)
    with np.errstate(all="ignore"):
        exact = np.power(x.astype(np.float64), y.astype(np.float64))
    assert_close(ulps_f32(got, exact), got, x, y)


@with_and_without_fma
def test_pow_f64_is_within_4_ulp(has_fma: bool) -> None:
    random = np.random.default_rng(4)
    x = np.exp(random.uniform(-1, 1, 4000) * random.choice([1e-6, 0.01, 1, 100, 700], 4000))
    x = x[x != 1]
    y = random.uniform(-1, 1, len(x)) * np.minimum(746 / np.abs(np.log(x)), 1e300)
    got = compiled("pow", "f64", has_fma=has_fma)(x, y)
    with mpmath.workprec(200):
        ulps = [
            ulps_f64(float(g), mpmath.power(mpmath.mpf(float(a)), mpmath.mpf(float(b))))
            for g, a, b in zip(got, x, y, strict=True)
        ]
    assert_close(np.array(ulps), got, x, y)


def annex_f_pow(x: float, y: float) -> float:
    """C's pow, which Python's `math.pow` is but for the exceptions that it raises instead."""
    odd = math.isfinite(y) and math.fmod(abs(y), 2) == 1
    try:
        return math.pow(x, y)
    except OverflowError:
        return -INF if x < 0 and odd else INF
    except ValueError:
        return math.copysign(INF, x if odd else 1.0) if x == 0 else NAN


@both_formats
@with_and_without_fma
def test_pow_special_values(fmt: str, has_fma: bool) -> None:
    exact = np.array([0, 1, 2, 3, 0.5, 4, INF, NAN, 2.0**23 + 1, 2.0**24, 2.0**100, 2.0**-140])
    bases, exponents = (v.ravel() for v in np.meshgrid(signed(exact), signed(exact)))
    with np.errstate(over="ignore"):
        wide = [annex_f_pow(x, y) for x, y in zip(bases, exponents, strict=True)]
        expected = np.array(wide).astype(DTYPES[fmt])
    got = compiled("pow", fmt, has_fma=has_fma)(
        *(v.astype(DTYPES[fmt]) for v in (bases, exponents))
    )
    np.testing.assert_array_equal(
        np.signbit(got) & ~np.isnan(got), np.signbit(expected) & ~np.isnan(expected)
    )
    np.testing.assert_allclose(got, expected, rtol=2 * np.finfo(DTYPES[fmt]).eps, atol=0)


@both_formats
@with_and_without_fma
def test_remainders_are_exact(fmt: str, has_fma: bool) -> None:
    random = np.random.default_rng(6)
    anything = all_magnitudes(fmt, 20_000)
    y = np.exp(random.normal(size=20_000) * 3)
    x = y * np.round(random.uniform(-1, 1, 20_000) * 2.0 ** random.integers(1, 60, 20_000))
    special = np.array([0.0, -0.0, 1.0, 5.0, INF, -INF, NAN, np.finfo(DTYPES[fmt]).tiny / 8])
    pairs = [(anything, random.permutation(anything)), (x, y), np.meshgrid(special, special)]
    for first, second in pairs:
        x, y = (np.ravel(each).astype(DTYPES[fmt]) for each in (first, second))
        with np.errstate(invalid="ignore"):
            expected = np.fmod(x, y)
        assert_identical(compiled("fmod", fmt, has_fma=has_fma)(x, y), expected)


@both_formats
@with_and_without_fma
@pytest.mark.parametrize("name", list(ROUNDING))
def test_rounding_to_integers(name: str, fmt: str, has_fma: bool) -> None:
    ties = np.arange(-9, 9.5, 0.5)
    fractions = np.random.default_rng(5).uniform(-100, 100, 1000)
    limits = signed(
        np.exp2([22.0, 23.0, 51.0, 52.0, 53.0])[:, None] + [-1.5, -0.5, 0.5, 1.0]
    ).ravel()
    x = np.concatenate(
        [ties, -ties, fractions, limits, all_magnitudes(fmt, 10_000)], dtype=DTYPES[fmt]
    )
    with np.errstate(invalid="ignore"):
        expected = ROUNDING[name](x)
    assert_identical(compiled(name, fmt, has_fma=has_fma)(x), expected)


@both_formats
@pytest.mark.parametrize("name", list(ARITY))
def test_every_width_gives_the_same(name: str, fmt: str) -> None:
    x = [points(name, fmt, 400)] * ARITY[name]
    wanted = compiled(name, fmt)(*x)
    for lanes in (0, 2, 16):
        assert_identical(compiled(name, fmt, lanes=lanes)(*x), wanted)


@pytest.mark.skipif(not HOST_FEATURES.get("avx512f"), reason="requires AVX-512")
@pytest.mark.parametrize("name", ["exp", "expm1", "sinh", "erf"])
def test_avx512_scales_by_powers_of_two_and_picks_coefficients(name: str) -> None:
    special, expected = np.array((*SPECIALS[name], (NAN, NAN)), np.float32).T
    x = points(name, "f32", 400_000)
    with np.errstate(all="ignore"):
        exact = (IN_F64.get(name) or getattr(np, name))(x.astype(np.float64))
    got = compiled(name, "f32", lanes=16, has_scale=True)(x)
    assert_close(ulps_f32(got, exact), got, x)
    for lanes in (0, 16):
        same = compiled(name, "f32", lanes=lanes, has_scale=True)(np.repeat(special, 16))
        assert_identical(same, np.repeat(expected, 16))
    for lanes in (0, 2, 8):
        again = compiled(name, "f32", lanes=lanes, has_scale=True)(x[:400])
        assert_identical(again, got[:400])


@pytest.mark.skipif(not HOST_FEATURES.get("avx512f"), reason="requires AVX-512")
def test_square_roots_by_multiply_adds_are_rounded_correctly() -> None:
    halfway = [x for k in (7, 15, 23, -1, -9, -17) for x in next_to_halfway(k)]
    scales = 2.0 ** np.array([0, 2, -2, 100, -100, -700, -900, -1020, 1000])
    special = [0.0, -0.0, INF, -INF, NAN, -1.0, 5e-324, 2.0**-700, np.nextafter(2.0**-700, 0)]
    x = np.concatenate([all_magnitudes("f64", 100_000), np.outer(halfway, scales).ravel(), special])
    with np.errstate(invalid="ignore"):
        assert_identical(compiled("sqrt", "f64", lanes=8, has_scale=True)(x), np.sqrt(x))


def next_to_halfway(k: int) -> list[float]:
    """Numbers of [1, 4) whose root is as near as any to the middle between two numbers, of 53 bits
    and one more: `x * 2**54 = m * m + k` for the odd m that the digits of a root of -k are.
    """
    roots = [1, 3, 5, 7]
    for bits in range(4, 56):
        halves = (each + step for each in roots for step in (0, 1 << (bits - 1)))
        roots = sorted({each % (1 << bits) for each in halves if not (each**2 + k) % (1 << bits)})
    found = [(m**2 + k) >> 54 for m in roots if 1 << 53 <= m < 1 << 54]
    return [math.ldexp(x, -52) for x in found if 1 << 52 <= x < 1 << 54]


@pytest.mark.parametrize("has_scale", [False, True])
def test_gelu_cancels_nothing_where_its_operand_is_negative(has_scale: bool) -> None:
    if has_scale and not HOST_FEATURES.get("avx512f"):
        pytest.skip("requires AVX-512")
    x = np.concatenate([all_magnitudes("f32", 50_000), np.linspace(-9, 9, 50_001, dtype="f4")])
    x = x[np.isfinite(x)]
    wide = x.astype(np.float64)
    tail = np.vectorize(math.erfc, otypes=[np.float64])(np.abs(wide) * math.sqrt(0.5)) / 2
    exact = np.maximum(wide, 0) - np.abs(wide) * tail
    got = [compiled("gelu", "f32", lanes=lanes, has_scale=has_scale)(x) for lanes in (16, 8, 0)]
    difference, negative = np.abs(got[0] - exact), (x > -4) & (x < 0)
    assert np.all(difference <= 2.0**-23 * np.maximum(np.abs(wide), 0.25))
    assert np.all(difference[negative] <= np.maximum(-(2.0**-15) * exact[negative], 2.0**-149))
    for again in got[1:]:
        assert_identical(again, got[0])
    special = np.array([0.0, -0.0, INF, -INF, NAN, -1e38], np.float32)
    expected = np.array([0.0, -0.0, INF, NAN, NAN, 0.0], np.float32)
    assert_identical(compiled("gelu", "f32", lanes=0, has_scale=has_scale)(special), expected)


def test_vectors_side_by_side_load_constants_where_they_need_them() -> None:
    def emitted(lanes: int, has_scale: bool) -> str:
        module = ir.Module("exp")
        add_function(module, "exp", "f32", lanes, has_fma=True, has_scale=has_scale)
        return str(module)

    assert "load volatile <8 x float>" in emitted(32, has_scale=False)
    assert "load volatile" not in emitted(8, has_scale=False)
    assert "load volatile" not in emitted(32, has_scale=True)


def test_a_function_is_defined_once_and_inlined() -> None:
    module = ir.Module("twice")

    def expression(builder: ir.IRBuilder, operands: list[ir.Value]) -> ir.Value:
        once = call_math(builder, "exp", operands, has_fma=True)
        return call_math(builder, "exp", [once], has_fma=True)

    add_loop(module, "exp_exp", [ir.FloatType()], ir.FloatType(), 8, expression)
    defined = [name for name in module.globals if name.startswith("weft.")]
    assert defined == ["weft.exp.v8f32"]
    assert {"alwaysinline", "nounwind"} <= set(module.globals["weft.exp.v8f32"].attributes)


@pytest.mark.parametrize(
    ("triple", "cpu", "has_fma"),
    [
        ("x86_64-unknown-linux-gnu", "x86-64", False),
        ("x86_64-unknown-linux-gnu", "x86-64-v3", True),
        ("x86_64-unknown-linux-gnu", "znver4", True),
        ("aarch64-unknown-linux-gnu", "generic", True),
    ],
)
@pytest.mark.parametrize("lanes", [0, 8])
@both_formats
def test_no_function_calls_a_library(
    triple: str, cpu: str, has_fma: bool, lanes: int, fmt: str
) -> None:
    module = ir.Module("vector_math")
    for name in ARITY:
        add_function(module, name, fmt, lanes, has_fma)
    assert undefined_symbols(module, triple, cpu, "") == set()

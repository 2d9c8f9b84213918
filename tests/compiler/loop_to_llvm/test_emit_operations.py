"""Every operation on scalars, as scalar and as vector code, against NumPy."""

import math
from collections.abc import Callable
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from tests.compiler.loop_to_llvm.compiled_kernel import HOST, CompiledKernel, parse_kernel
from weft.compiler.loop_to_llvm.kernel import emit_kernel
from weft.compiler.loop_to_llvm.scalar.arithmetic import EMITTERS
from weft.compiler.machine.codegen.object_code import compile_object
from weft.compiler.machine.elf.link import undefined_symbols
from weft.compiler.machine.wasm.object_file import read_wasm
from weft.compiler.target import TARGETS
from weft.compiler.target.x86 import X86_64_V2, X86_64_V3, X86_64_V4

LENGTH = 21
NUMPY = {
    "f32": np.float32, "f64": np.float64, "i1": np.bool_, "i8": np.int8, "i16": np.int16,
    "i32": np.int32, "i64": np.int64, "ui8": np.uint8, "ui32": np.uint32,
}  # fmt: skip
Function = Callable[..., np.ndarray]


def kernel_text(line: str, operands: list[str], result: str) -> str:
    """`%r = <line>` of `%a, %b, ...` over arrays, with scalars, vectors and a masked remainder."""
    names = "abc"[: len(operands)]
    buffers = [
        f"%{n}s: !loop.buffer<[{LENGTH}], {t}>" for n, t in zip(names, operands, strict=True)
    ]
    outs = [f"%{o}: !loop.buffer<[{LENGTH}], {result}>" for o in ("scalar", "vector")]
    body = "".join(
        f"%{n} = loop.load %{n}s[%i] : !loop.buffer<[{LENGTH}], {t}>\n"
        for n, t in zip(names, operands, strict=True)
    )
    loops = "".join(
        f"""loop.for %i = 0 to {LENGTH} {marks} {{
          {body} %r = {line}
          loop.store %r, %{out}[%i] : !loop.buffer<[{LENGTH}], {result}>
        }}\n"""
        for marks, out in (("", "scalar"), ("vector(8)", "vector"))
    )
    return f"loop.kernel @op({', '.join(buffers + outs)}) {{ {loops} }}"


def run(line: str, arrays: list[np.ndarray], operands: list[str], result: str) -> np.ndarray:
    """The operation's results, the same for scalar and vector code."""
    kernel = CompiledKernel(kernel_text(line, operands, result))
    scalar, vector = (np.zeros(LENGTH, NUMPY[result]) for _ in range(2))
    kernel(*arrays, scalar, vector)
    np.testing.assert_array_equal(scalar, vector)
    return vector


def floats(dtype: str, seed: int = 0) -> np.ndarray:
    """Numbers of all sizes, with zeros, infinities and NaN."""
    special = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 2.5, -2.5, 0.5, -0.5]
    rest = np.random.default_rng(seed).normal(scale=5, size=LENGTH - len(special))
    values = np.array([*special, *rest], NUMPY[dtype])
    return values if seed == 0 else np.random.default_rng(seed).permutation(values)


def integers(dtype: str, seed: int = 0) -> np.ndarray:
    """Numbers of all sizes, with the extremes and zero."""
    limits = np.iinfo(NUMPY[dtype])
    special = [0, 1, 2, 3, limits.max, limits.min, limits.min + 1, limits.max - 1]
    random = np.random.default_rng(seed)
    rest = random.integers(
        limits.min, limits.max, LENGTH - len(special), NUMPY[dtype], endpoint=True
    )
    values = np.array([*special, *rest], NUMPY[dtype])
    return values if seed == 0 else random.permutation(values)


def signed_zero_maximum(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.where((a == 0) & (b == 0), np.where(np.signbit(a), b, a), np.maximum(a, b))


FLOAT_BINARY: dict[str, Function] = {
    "arith.addf": np.add,
    "arith.subf": np.subtract,
    "arith.mulf": np.multiply,
    "arith.divf": np.divide,
    "arith.remf": np.fmod,
    "arith.maximumf": signed_zero_maximum,
    "arith.minimumf": lambda a, b: -signed_zero_maximum(-a, -b),
    "arith.maxnumf": np.fmax,
    "arith.minnumf": np.fmin,
    "math.copysign": np.copysign,
}
FLOAT_UNARY: dict[str, Function] = {
    "arith.negf": np.negative,
    "math.absf": np.abs,
    "math.sqrt": np.sqrt,
    "math.floor": np.floor,
    "math.ceil": np.ceil,
    "math.trunc": np.trunc,
    "math.roundeven": np.rint,
    "math.round": lambda a: np.copysign(np.floor(np.abs(a) + 0.5), a),
}
MATH: dict[str, Function] = {
    "math.exp": np.exp, "math.exp2": np.exp2, "math.expm1": np.expm1, "math.log": np.log,
    "math.log2": np.log2, "math.log1p": np.log1p, "math.log10": np.log10, "math.sin": np.sin,
    "math.cos": np.cos, "math.tan": np.tan, "math.sinh": np.sinh, "math.cosh": np.cosh,
    "math.tanh": np.tanh, "math.asin": np.arcsin, "math.acos": np.arccos, "math.atan": np.arctan,
    "math.asinh": np.arcsinh, "math.acosh": np.arccosh, "math.atanh": np.arctanh,
    "math.rsqrt": lambda a: 1 / np.sqrt(a),
}  # fmt: skip
INTEGER_BINARY: dict[str, Function] = {
    "arith.addi": np.add,
    "arith.subi": np.subtract,
    "arith.muli": np.multiply,
    "arith.andi": np.bitwise_and,
    "arith.ori": np.bitwise_or,
    "arith.xori": np.bitwise_xor,
    "arith.maxsi": np.maximum,
    "arith.minsi": np.minimum,
}
UNSIGNED_BINARY: dict[str, Function] = {"arith.maxui": np.maximum, "arith.minui": np.minimum}
COMPARISONS: dict[str, Function] = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater,
    "ge": np.greater_equal,
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("name", ["arith.maximumf", "arith.minimumf"])
@np.errstate(all="ignore")
def test_extrema_of_zeros_without_signs(name: str, dtype: str):
    a, b = floats(dtype), floats(dtype, 1)
    result = run(f"{name} %a, %b fastmath<nsz> : {dtype}", [a, b], [dtype] * 2, dtype)
    np.testing.assert_array_equal(result, FLOAT_BINARY[name](a, b))


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("name", FLOAT_BINARY)
@np.errstate(all="ignore")
def test_binary_floats(name: str, dtype: str):
    a, b = floats(dtype), floats(dtype, 1)
    expected = FLOAT_BINARY[name](a, b)
    np.testing.assert_array_equal(
        run(f"{name} %a, %b : {dtype}", [a, b], [dtype] * 2, dtype), expected
    )


@pytest.mark.parametrize("name", ["arith.maximumf", "arith.minimumf"])
def test_extrema_order_zeros_by_sign(name: str):
    a, b = np.zeros(LENGTH, np.float32), -np.zeros(LENGTH, np.float32)
    for left, right in ((a, b), (b, a)):
        result = run(f"{name} %a, %b : f32", [left, right], ["f32"] * 2, "f32")
        assert (np.signbit(result) == (name == "arith.minimumf")).all()


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("name", FLOAT_UNARY)
@np.errstate(all="ignore")
def test_unary_floats(name: str, dtype: str):
    a = floats(dtype)
    result = run(f"{name} %a : {dtype}", [a], [dtype], dtype)
    np.testing.assert_array_equal(result, FLOAT_UNARY[name](a))
    assert (np.signbit(result) == np.signbit(FLOAT_UNARY[name](a)))[~np.isnan(result)].all()


@pytest.mark.parametrize("name", MATH)
@np.errstate(all="ignore")
def test_functions(name: str):
    a = floats("f32")
    wide = MATH[name](a.astype(np.float64)).astype(np.float32)
    np.testing.assert_allclose(run(f"{name} %a : f32", [a], ["f32"], "f32"), wide, rtol=5e-7)


@np.errstate(all="ignore")
def test_erf_and_powf():
    a = np.linspace(-3, 3, LENGTH, dtype=np.float32)
    result = run("math.erf %a : f32", [a], ["f32"], "f32")
    assert abs(result[-1] - 0.99997791) < 1e-6
    assert (result == -result[::-1]).all()
    b = floats("f32", 1)
    power = run("math.powf %a, %b : f32", [abs(a), b], ["f32"] * 2, "f32")
    wide = np.power(abs(a).astype(np.float64), b.astype(np.float64)).astype(np.float32)
    np.testing.assert_allclose(power, wide, rtol=5e-7)


@pytest.mark.parametrize("dtype", ["i8", "i32", "i64"])
@pytest.mark.parametrize("name", INTEGER_BINARY)
@np.errstate(all="ignore")
def test_binary_integers(name: str, dtype: str):
    a, b = integers(dtype), integers(dtype, 1)
    expected = INTEGER_BINARY[name](a, b)
    np.testing.assert_array_equal(
        run(f"{name} %a, %b : {dtype}", [a, b], [dtype] * 2, dtype), expected
    )


@pytest.mark.parametrize("name", UNSIGNED_BINARY)
def test_unsigned_extrema(name: str):
    a, b = integers("ui8"), integers("ui8", 1)
    expected = UNSIGNED_BINARY[name](a, b)
    np.testing.assert_array_equal(run(f"{name} %a, %b : i8", [a, b], ["ui8"] * 2, "ui8"), expected)


@pytest.mark.parametrize(("name", "dtype"), [("shli", "i32"), ("shrsi", "i32"), ("shrui", "ui32")])
def test_shifts(name: str, dtype: str):
    a, b = integers(dtype), (np.arange(LENGTH) % 31).astype(NUMPY[dtype])
    expected = np.left_shift(a, b) if name == "shli" else np.right_shift(a, b)
    result = run(f"arith.{name} %a, %b : i32", [a, b], [dtype] * 2, dtype)
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("dtype", ["i8", "i64"])
@np.errstate(all="ignore")
def test_signed_division_rounds_as_told(dtype: str):
    a, b = integers(dtype), integers(dtype, 1)
    exact = [(int(x), int(y)) for x, y in zip(a, b, strict=True)]
    wrap = NUMPY[dtype]
    rounding: dict[str, Callable[[int, int], int]] = {
        "divsi": lambda x, y: abs(x) // abs(y) * (1 if x * y > 0 else -1),
        "remsi": lambda x, y: abs(x) % abs(y) * (1 if x > 0 else -1),
        "floordivsi": lambda x, y: x // y,
        "ceildivsi": lambda x, y: -(-x // y),
    }
    for name, divide in rounding.items():
        result = run(f"arith.{name} %a, %b : {dtype}", [a, b], [dtype] * 2, dtype)
        for value, (x, y) in zip(result, exact, strict=True):
            assert y == 0 or value == np.array(divide(x, y)).astype(wrap), (name, x, y)


@np.errstate(all="ignore")
def test_unsigned_division():
    a, b = integers("ui32"), integers("ui32", 1)
    for name, function in (("divui", np.floor_divide), ("remui", np.remainder)):
        result = run(f"arith.{name} %a, %b : i32", [a, b], ["ui32"] * 2, "ui32")
        np.testing.assert_array_equal(result[b != 0], function(a, np.maximum(b, 1))[b != 0])


@pytest.mark.parametrize("name", ["divsi", "remsi", "divui", "remui", "floordivsi", "ceildivsi"])
def test_division_never_traps(name: str):
    a, b = np.full(LENGTH, np.iinfo(np.int32).min, np.int32), np.zeros(LENGTH, np.int32)
    b[::2] = -1
    run(f"arith.{name} %a, %b : i32", [a, b], ["i32"] * 2, "i32")


@pytest.mark.parametrize("name", COMPARISONS)
def test_integer_comparisons(name: str):
    for dtype, sign in (("i8", "s"), ("ui8", "u")):
        a, b = integers(dtype), integers(dtype, 1)
        predicate = name if name in ("eq", "ne") else sign + name
        result = run(f"arith.cmpi {predicate}, %a, %b : i8", [a, b], [dtype] * 2, "i1")
        np.testing.assert_array_equal(result, COMPARISONS[name](a, b))


@pytest.mark.parametrize("name", COMPARISONS)
def test_float_comparisons(name: str):
    a, b = floats("f32"), floats("f32", 1)
    unordered = np.isnan(a) | np.isnan(b)
    plain = COMPARISONS[name](a, b)
    for prefix, expected in (("o", plain & ~unordered), ("u", plain | unordered)):
        result = run(f"arith.cmpf {prefix}{name}, %a, %b : f32", [a, b], ["f32"] * 2, "i1")
        np.testing.assert_array_equal(result, expected)


def test_order_comparisons():
    a, b = floats("f32"), floats("f32", 1)
    unordered = np.isnan(a) | np.isnan(b)
    expected = {
        "ord": ~unordered,
        "uno": unordered,
        "true": unordered | True,
        "false": unordered & False,
    }
    for name, truth in expected.items():
        result = run(f"arith.cmpf {name}, %a, %b : f32", [a, b], ["f32"] * 2, "i1")
        np.testing.assert_array_equal(result, truth)


def test_select():
    c, a, b = np.arange(LENGTH) % 3 == 0, integers("i16"), integers("i16", 1)
    result = run("arith.select %a, %b, %c : i16", [c, a, b], ["i1", "i16", "i16"], "i16")
    np.testing.assert_array_equal(result, np.where(c, a, b))


def saturated(values: np.ndarray, dtype: str) -> np.ndarray:
    limits = np.iinfo(NUMPY[dtype])
    clean = np.trunc(np.nan_to_num(values.astype(np.float64), nan=0))
    return np.array([min(max(int(v), limits.min), limits.max) for v in clean], NUMPY[dtype])


CASTS = [
    ("extsi", "i8", "i32", lambda a: a.astype(np.int32)),
    ("extui", "ui8", "i32", lambda a: a.astype(np.int32)),
    ("extui", "i1", "i64", lambda a: a.astype(np.int64)),
    ("trunci", "i32", "i8", lambda a: a.astype(np.int8)),
    ("sitofp", "i32", "f32", lambda a: a.astype(np.float32)),
    ("uitofp", "ui32", "f64", lambda a: a.astype(np.float64)),
    ("uitofp", "i1", "f32", lambda a: a.astype(np.float32)),
    ("fptosi", "f32", "i8", lambda a: saturated(np.clip(a, -1e9, 1e9), "i8")),
    ("fptoui", "f32", "ui8", lambda a: saturated(np.clip(a, -1e9, 1e9), "ui8")),
    ("extf", "f32", "f64", lambda a: a.astype(np.float64)),
    ("truncf", "f64", "f32", lambda a: a.astype(np.float32)),
    ("bitcast", "f32", "i32", lambda a: a.view(np.int32)),
]


@pytest.mark.parametrize(("name", "source", "target", "function"), CASTS)
def test_casts(name: str, source: str, target: str, function: Function):
    if source == "i1":
        a = np.arange(LENGTH) % 3 == 0
    else:
        a = floats(source) if source[0] == "f" else integers(source)
    kinds = source.replace("u", ""), target.replace("u", "")
    result = run(f"arith.{name} %a : {kinds[0]} to {kinds[1]}", [a], [source], target)
    np.testing.assert_array_equal(result, function(a))


def test_bit_counts():
    a = integers("i32")
    bits = [f"{int(v) & 0xFFFFFFFF:032b}" for v in a]
    expected = {
        "math.ctpop": [text.count("1") for text in bits],
        "math.ctlz": [32 - len(text.lstrip("0")) for text in bits],
        "math.cttz": [32 - len(text.rstrip("0")) for text in bits],
        "math.absi": list(np.abs(a)),
    }
    for name, counts in expected.items():
        np.testing.assert_array_equal(run(f"{name} %a : i32", [a], ["i32"], "i32"), counts)


@pytest.mark.skipif(not HOST.has_fma, reason="this CPU has no fused multiply-add")
def test_fma_rounds_once():
    a = np.random.default_rng(0).normal(size=LENGTH)
    result = run("math.fma %a, %b, %c : f64", [a, a, -a * a], ["f64"] * 3, "f64")
    exact = [float(Fraction(v) * Fraction(v) + Fraction(-v * v)) for v in a.tolist()]
    np.testing.assert_array_equal(result, exact)
    assert result.any()


GELU = """loop.kernel @activation(%x: !loop.buffer<[16], {kind}>, %y: !loop.buffer<[16], {kind}>) {{
  loop.for %i = 0 to 16 vector(16) {{
    %a = loop.load %x[%i] : !loop.buffer<[16], {kind}>
    %r = loop.gelu %a : {kind}
    loop.store %r, %y[%i] : !loop.buffer<[16], {kind}>
  }}
}}"""


def test_gelu_is_one_function_where_products_and_sums_fuse():
    kernel = parse_kernel(GELU.format(kind="f32"))
    assert '@"weft.gelu.v16f32"' in emit_kernel(kernel, X86_64_V4)
    assert "weft.gelu" not in emit_kernel(kernel, X86_64_V4, strict_fp=True)
    text = emit_kernel(kernel, X86_64_V3)
    assert '@"weft.gelu.v16f32"' in text
    assert "weft.erf" not in text
    assert "weft.gelu" not in emit_kernel(kernel, X86_64_V2)
    assert "weft.gelu" not in emit_kernel(parse_kernel(GELU.format(kind="f64")), X86_64_V4)


@pytest.mark.parametrize("strict_fp", [False, True])
@pytest.mark.parametrize(("kind", "close"), [("f32", 1e-6), ("f64", 4e-15)])
def test_gelu_is_its_formula(kind: str, close: float, strict_fp: bool):
    x = np.linspace(-4, 4, 16).astype(NUMPY[kind])
    y = np.zeros_like(x)
    CompiledKernel(GELU.format(kind=kind), strict_fp=strict_fp)(x, y)
    expected = [v / 2 * math.erf(v * math.sqrt(0.5)) + v / 2 for v in x.tolist()]
    np.testing.assert_allclose(y, expected, rtol=0, atol=close)


HALVES = """
loop.kernel @halves(%x: !loop.buffer<[21], {kind}>, %y: !loop.buffer<[21], {kind}>,
                    %z: !loop.buffer<[21], {kind}>) {{
  %c = arith.constant 1.5 : {kind}
  loop.for %i = 0 to 21 vector(8) {{
    %a = loop.load %x[%i] : !loop.buffer<[21], {kind}>
    %w = arith.extf %a : {kind} to f32
    %d = arith.extf %c : {kind} to f32
    %p = arith.mulf %w, %d : f32
    %r = arith.truncf %p : f32 to {kind}
    loop.store %r, %y[%i] : !loop.buffer<[21], {kind}>
    loop.store %c, %z[%i] : !loop.buffer<[21], {kind}>
  }}
}}"""


def test_f16_storage():
    x = floats("f32").astype(np.float16)
    y, z = np.zeros_like(x), np.zeros_like(x)
    CompiledKernel(HALVES.format(kind="f16"))(x, y, z)
    np.testing.assert_array_equal(y, x * np.float16(1.5))
    assert (z == 1.5).all()


def test_bf16_storage():
    x = floats("f32").astype(ml_dtypes.bfloat16)
    y, z = np.zeros_like(x), np.zeros_like(x)
    CompiledKernel(HALVES.format(kind="bf16"))(x, y, z)
    np.testing.assert_array_equal(
        y.astype(np.float32), (x * ml_dtypes.bfloat16(1.5)).astype(np.float32)
    )
    assert (z == 1.5).all()


def test_bool_is_stored_as_zero_or_one():
    a, b = floats("f32"), floats("f32", 1)
    result = run("arith.cmpf olt, %a, %b : f32", [a, b], ["f32"] * 2, "i1")
    assert set(result.view(np.uint8)) <= {0, 1}
    odd = np.arange(LENGTH).astype(np.uint8)
    result = run("arith.extui %a : i1 to i32", [odd.view(np.bool_)], ["i1"], "i32")
    np.testing.assert_array_equal(result, odd != 0)


def sample_line(name: str) -> tuple[str, list[str], str] | None:
    """One use of each operation, for targets that this machine cannot run."""
    if name in FLOAT_BINARY or name == "math.powf":
        return f"{name} %a, %b : f32", ["f32"] * 2, "f32"
    if name in MATH or name in FLOAT_UNARY or name in ("math.erf", "loop.gelu"):
        return f"{name} %a : f32", ["f32"], "f32"
    if name == "arith.divsi":
        return f"{name} %a, %b : i32", ["i32"] * 2, "i32"
    if name == "arith.fptosi":
        return f"{name} %a : f32 to i32", ["f32"], "i32"
    return None


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_no_target_needs_a_library(target):
    used = {"memcpy", "memset", "memmove"}
    names = {operation.name for operation in EMITTERS}
    samples = [sample for name in sorted(names) if (sample := sample_line(name))]
    assert len(samples) > 35
    for line, operands, result in samples[:: 1 if target.name == "x86-64" else 4]:
        kernel = parse_kernel(kernel_text(line, operands, result))
        assert needed_by(compile_object(emit_kernel(kernel, target), target)) <= used


def needed_by(code: bytes) -> set[str]:
    """The functions that an object takes from elsewhere."""
    if code.startswith(b"\0asm"):
        return set(read_wasm(code, "kernel").imports)
    return undefined_symbols([code])

"""Mathematical functions as LLVM IR: vectorised, no library calls, at most 4 ULP off.

Every function takes f32 or f64, a scalar or a vector of a power of two lanes, and is defined for
every argument, with the special values of IEEE 754 and of C's Annex F. Nothing relies on fast-math
flags or on flushed subnormals.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from msgspec import Struct

from weft.compiler.loop_to_llvm.vector_math import (
    error_function,
    exponential,
    inverse_trigonometric,
    logarithm,
    power,
    remainder,
    rounding,
    trigonometric,
)
from weft.compiler.loop_to_llvm.vector_math.formats import F32, F64, Format
from weft.compiler.loop_to_llvm.vector_math.lanes import Emitter, Real


class MathFunction(Struct, frozen=True):
    """A name, the number of operands and the expression that is emitted as the function's body."""

    name: str
    arity: int
    body: Callable[..., Real]


MATH_FUNCTIONS = (
    *(MathFunction(body.__name__, 1, body) for body in (
        exponential.exp, exponential.exp2, exponential.expm1, exponential.sinh, exponential.cosh,
        exponential.tanh, logarithm.log, logarithm.log2, logarithm.log1p, logarithm.asinh,
        logarithm.acosh, logarithm.atanh, error_function.erf, trigonometric.sin, trigonometric.cos,
        trigonometric.tan, inverse_trigonometric.asin, inverse_trigonometric.acos,
        inverse_trigonometric.atan, power.sqrt, power.rsqrt, rounding.floor, rounding.ceil,
        rounding.trunc, rounding.roundeven,
    )),
    MathFunction("pow", 2, power.pow), MathFunction("fmod", 2, remainder.fmod),
)  # fmt: skip
"""What `call_math` can emit."""

GELU = MathFunction("gelu", 1, error_function.gelu)
"""One more, of f32 where multiply-adds are fused: the error is absolute, at most a unit in the
last place of max(|x|, 1/4).
"""

_BY_NAME = {function.name: function for function in (*MATH_FUNCTIONS, GELU)}


def _shape(operand: ir.Type) -> tuple[Format, int]:
    """The element format and lane count, 0 for a scalar, of an operand type."""
    element, lanes = operand, 0
    if isinstance(operand, ir.VectorType):
        element, lanes = operand.element, operand.count
    formats = {ir.FloatType(): F32, ir.DoubleType(): F64}
    assert element in formats, f"a math function requires float or double lanes, got {operand}"
    assert lanes & (lanes - 1) == 0, f"a math function requires 2**k lanes, got {lanes}"
    return formats[element], lanes


def _define(
    module: ir.Module, name: str, function: MathFunction, operand: Any, fma: bool, scale: bool
) -> Any:
    """Add the function to the module."""
    fmt, lanes = _shape(operand)
    defined = ir.Function(module, ir.FunctionType(operand, [operand] * function.arity), name)
    defined.linkage = "internal"
    for attribute in ("alwaysinline", "nounwind"):
        defined.attributes.add(attribute)
    builder = ir.IRBuilder(defined.append_basic_block("entry"))
    at = Emitter(builder, lanes, fma, scale)
    result = function.body(*(Real(at, fmt, argument) for argument in defined.args))
    builder.ret(result.value)
    return defined


def call_math(
    builder: ir.IRBuilder,
    name: str,
    args: Sequence[ir.Value],
    *,
    has_fma: bool,
    has_scale: bool = False,
) -> ir.Value:
    """Call the function `name` of `MATH_FUNCTIONS` on float or double operands of one type.

    The module gains an internal, always inlined function such as `weft.exp.v8f32` at the first use.
    `has_fma` says that the target fuses multiply-add and rounds to integers in one instruction
    (x86-64-v3 and above, aarch64, riscv64 with D); without it only additions and multiplications
    are used, to the same accuracy. `has_scale` says that it has AVX-512's vscalef
    and vrange.
    """
    function = _BY_NAME[name]
    assert len(args) == function.arity, (
        f"{name} requires {function.arity} operands, got {len(args)}"
    )
    operand = args[0].type
    fmt, lanes = _shape(operand)
    shape = f"v{lanes}{fmt.name}" if lanes else fmt.name
    full = f"weft.{name}.{shape}" + ("" if has_fma else ".nofma")
    defined = builder.module.globals.get(full)
    if defined is None:
        defined = _define(builder.module, full, function, operand, has_fma, has_scale)
    return builder.call(defined, args)

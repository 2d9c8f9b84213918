"""Mathematical functions as LLVM IR: vectorised, no library calls, at most 4 ULP off.

Every function takes f32 or f64, a scalar or a vector of a power of two lanes, and is defined for
every argument, with the special values of IEEE 754 and of C's Annex F. Nothing relies on fast-math
flags or on flushed subnormals.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from llvmlite import ir
from msgspec import Struct

from weft.compiler.deferred import deferred
from weft.compiler.loop_to_llvm.vector_math.formats import F32, F64, Format
from weft.compiler.loop_to_llvm.vector_math.lanes import Emitter, Real

if TYPE_CHECKING:
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
else:
    error_function = deferred("weft.compiler.loop_to_llvm.vector_math.error_function")
    exponential = deferred("weft.compiler.loop_to_llvm.vector_math.exponential")
    inverse_trigonometric = deferred("weft.compiler.loop_to_llvm.vector_math.inverse_trigonometric")
    logarithm = deferred("weft.compiler.loop_to_llvm.vector_math.logarithm")
    power = deferred("weft.compiler.loop_to_llvm.vector_math.power")
    remainder = deferred("weft.compiler.loop_to_llvm.vector_math.remainder")
    rounding = deferred("weft.compiler.loop_to_llvm.vector_math.rounding")
    trigonometric = deferred("weft.compiler.loop_to_llvm.vector_math.trigonometric")


class MathFunction(Struct, frozen=True):
    """A name, the number of operands, and the module of the expression that is emitted as the
    function's body, which is imported at the first call.
    """

    name: str
    arity: int
    module: Any

    def body(self, *operands: Real) -> Real:
        """The value for operands."""
        return getattr(self.module, self.name)(*operands)


_FAMILIES: Final[Sequence[tuple[Any, Sequence[str]]]] = (
    (exponential, ("exp", "exp2", "expm1", "sinh", "cosh", "tanh")),
    (logarithm, ("log", "log2", "log1p", "asinh", "acosh", "atanh")),
    (error_function, ("erf",)),
    (trigonometric, ("sin", "cos", "tan")),
    (inverse_trigonometric, ("asin", "acos", "atan")),
    (power, ("sqrt", "rsqrt")),
    (rounding, ("floor", "ceil", "trunc", "roundeven")),
)

MATH_FUNCTIONS = (
    *(MathFunction(name, 1, family) for family, names in _FAMILIES for name in names),
    MathFunction("pow", 2, power),
    MathFunction("fmod", 2, remainder),
)
"""What `call_math` can emit."""

GELU = MathFunction("gelu", 1, error_function)
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

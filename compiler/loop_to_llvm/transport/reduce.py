"""`combine(result, one, other, count)`: two arrays become one, by element type and reduction."""

from __future__ import annotations

from typing import Final

from llvmlite import ir

from weft.compiler.loop_to_llvm.runtime.code import (
    I32,
    I64,
    POINTER,
    VOID,
    Code,
    declare_function,
    i32,
    i64,
)

ELEMENTS: Final[tuple[tuple[ir.Type, int], ...]] = (
    (ir.FloatType(), 4), (ir.DoubleType(), 8), (I32, 4), (I64, 8),
)  # fmt: skip
"""By the dtype of a weft_collective: the type of elements, and their bytes."""

_REDUCTIONS: Final = ("sum", "max", "min")
_VECTOR: Final = 64
_COMBINE: Final = ir.FunctionType(VOID, [POINTER, POINTER, POINTER, I64])
_CHOOSE: Final = ir.FunctionType(VOID, [POINTER, POINTER, POINTER, I64, I32, I32])


def define_combine(module: ir.Module) -> ir.Function:
    """`void (result, one, other, count, dtype, reduction)`; the result may be one of the others."""
    function = declare_function(module, "transport.combine", _CHOOSE)
    function.linkage = "internal"
    code = Code(function.append_basic_block("entry"))
    *arrays, dtype, reduction = code.arguments
    for number, (element, size) in enumerate(ELEMENTS):
        for place, name in enumerate(_REDUCTIONS):
            chosen = code.and_(
                code.icmp_unsigned("==", dtype, i32(number)),
                code.icmp_unsigned("==", reduction, i32(place)),
            )
            with code.if_then(chosen):
                code.call(_combination(module, element, size, name), arrays)
                code.ret_void()
    code.ret_void()
    return function


def _combination(module: ir.Module, element: ir.Type, size: int, name: str) -> ir.Function:
    function = declare_function(module, f"transport.{name}.{element}", _COMBINE)
    function.linkage = "internal"
    code = Code(function.append_basic_block("entry"))
    count = code.arguments[3]
    number, lanes = code.variable(I64), _VECTOR // size
    vectors = code.udiv(count, i64(lanes))
    with code.repeat(vectors, number) as vector:
        start = code.mul(vector, i64(lanes))
        _step(code, start, element, ir.VectorType(element, lanes), size, name)
    done = code.mul(vectors, i64(lanes))
    with code.repeat(code.sub(count, done), number) as rest:
        _step(code, code.add(done, rest), element, element, size, name)
    code.ret_void()
    return function


def _step(
    code: Code, start: ir.Value, element: ir.Type, loaded: ir.Type, size: int, name: str
) -> None:
    result, one, other = (code.element(each, start, element) for each in code.arguments[:3])
    x, y = (code.load(each, align=size, typ=loaded) for each in (one, other))
    code.store(_combined(code, x, y, name, element), result, align=size)


def _combined(code: Code, x: ir.Value, y: ir.Value, name: str, element: ir.Type) -> ir.Value:
    """Of floats, a NaN stays."""
    is_integer = isinstance(element, ir.IntType)
    if name == "sum":
        return code.add(x, y) if is_integer else code.fadd(x, y)
    order = ">" if name == "max" else "<"
    if is_integer:
        return code.select(code.icmp_signed(order, x, y), x, y)
    first = code.or_(code.fcmp_ordered(order, x, y), code.fcmp_unordered("uno", x, x))
    return code.select(first, x, y)

"""`combine(result, one, other, count)`: two arrays become one, by element type and reduction; and
`stream(target, source, bytes)`: a copy past the caches.
"""

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
from weft.compiler.loop_to_llvm.runtime.platform import Platform

ELEMENTS: Final[tuple[tuple[ir.Type, int], ...]] = (
    (ir.FloatType(), 4), (ir.DoubleType(), 8), (I32, 4), (I64, 8),
)  # fmt: skip
"""By the dtype of a weft_collective: the type of elements, and their bytes."""

_REDUCTIONS: Final = ("sum", "max", "min")
LINE: Final = 64
"""Bytes of a cache line, and of a vector."""

_COMBINE: Final = ir.FunctionType(VOID, [POINTER, POINTER, POINTER, I64])
_STREAM: Final = ir.FunctionType(VOID, [POINTER, POINTER, I64])
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
    number, lanes = code.variable(I64), LINE // size
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


def define_stream(module: ir.Module, platform: Platform) -> ir.Function:
    """`void (target, source, bytes)` by non-temporal stores, to a target where a line begins."""
    function = declare_function(module, "transport.stream", _STREAM)
    function.linkage = "internal"
    code = Code(function.append_basic_block("entry"))
    target, source, size = code.arguments
    number, element = code.variable(I64), ir.FloatType()
    vector = ir.VectorType(element, LINE // 4)
    lines = code.udiv(size, i64(LINE))
    only_once = module.add_metadata([i32(1)])
    with code.repeat(lines, number) as line:
        place = code.mul(line, i64(LINE))
        found = code.load(code.at(source, place), align=1, typ=vector)
        code.store(found, code.at(target, place), align=LINE).set_metadata("nontemporal", only_once)
    done = code.mul(lines, i64(LINE))
    rest = [code.at(target, done), code.at(source, done), code.sub(size, done)]
    platform.call(code, "memcpy", rest)
    platform.order_stores(code)
    code.ret_void()
    return function

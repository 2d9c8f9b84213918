"""Messages at run time: a format and the values that fill it, each shown in a limited length.

Every writer is `ptr (ptr place, value)` and returns the address behind what it wrote. That of whole
messages is the run time's, which the other modules of a model call.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Final

from llvmlite import ir

from weft.compiler.loop_to_llvm.runtime.code import (
    DOUBLE,
    I8,
    I64,
    POINTER,
    Code,
    compile_plainly,
    declare_function,
    i64,
)
from weft.compiler.loop_to_llvm.runtime.decimal import decimal_writer

TEXT_BYTES: Final = 160
"""Bytes of a text that are shown at most."""

SHAPE_BYTES: Final = 190
"""Bytes of a shape, of which `_SHOWN_DIMS` are shown."""

FLOAT_BYTES: Final = 16


class Part(IntEnum):
    """The bytes of a format that stand for values: an i64, the address of a text, the address and
    the rank of a shape, a double.
    """

    INTEGER = 1
    TEXT = 2
    SHAPE = 3
    FLOAT = 4


_SHOWN_DIMS: Final = 8
_DIGITS: Final = 7


WRITE_MESSAGE: Final = "message.write"
"""The writer's name behind the model's prefix, which no kernel has."""

MESSAGE_WRITER: Final = ir.FunctionType(POINTER, [POINTER, POINTER, POINTER])
"""`ptr (ptr place, ptr format, ptr values)`: writes a format that a zero ends, with the values in
it, of which each takes 8 bytes, a shape 16.
"""


def message_writer(module: ir.Module) -> ir.Function:
    """The MESSAGE_WRITER of the model that a module is a part of, which Runtime declares in it."""
    return next(each for each in module.functions if each.name.endswith(f".{WRITE_MESSAGE}"))


def define_message_writer(function: ir.Function) -> None:
    """Fills a MESSAGE_WRITER that was declared."""
    module = function.module
    writers = {
        Part.INTEGER: decimal_writer(module),
        Part.TEXT: text_writer(module),
        Part.SHAPE: shape_writer(module),
        Part.FLOAT: float_writer(module),
    }
    compile_plainly(function)
    code = Code(function.append_basic_block("entry"))
    address, rest, values = (code.variable(POINTER, each) for each in code.arguments)
    with code.forever() as after:
        byte = code.load(code.load(rest, typ=POINTER), typ=I8)
        code.jump_if(code.icmp_unsigned("==", byte, I8(0)), after)
        code.store(code.at(code.load(rest, typ=POINTER), 1), rest)
        with code.if_then(code.icmp_unsigned(">", byte, I8(max(Part)))):
            code.store(byte, code.load(address, typ=POINTER))
            code.store(code.at(code.load(address, typ=POINTER), 1), address)
        for part, writer in writers.items():
            with code.if_then(code.icmp_unsigned("==", byte, I8(part))):
                _write_value(code, writer, address, values)
    code.ret(code.load(address, typ=POINTER))


def _write_value(code: Code, writer: ir.Function, address: ir.Value, values: ir.Value) -> None:
    """Writes the next of the values, and continues behind it."""
    arguments = [code.load(address, typ=POINTER)]
    for llvm_type in writer.function_type.args[1:]:
        value = code.load(values, typ=POINTER)
        arguments.append(code.load(value, typ=llvm_type))
        code.store(code.at(value, 8), values)
    code.store(code.call(writer, arguments), address)


def text_writer(module: ir.Module) -> ir.Function:
    """Writes a text that a zero ends, or the start of a long one."""
    function, code = _writer(module, "write_text", [POINTER])
    if code is None:
        return function
    start, text = code.arguments
    number = code.variable(I64, i64(0))
    with code.forever() as after:
        position = code.load(number, typ=I64)
        byte = code.load(code.at(text, position), typ=I8)
        code.jump_if(code.icmp_unsigned("==", byte, I8(0)), after)
        code.jump_if(code.icmp_unsigned(">=", position, i64(TEXT_BYTES)), after)
        code.store(byte, code.at(start, position))
        code.store(code.add(position, i64(1)), number)
    code.ret(code.at(start, code.load(number, typ=I64)))
    return function


def shape_writer(module: ir.Module) -> ir.Function:
    """Writes sizes, of an address and a count, as `(2, 3)`, `(8,)`, `()`."""
    decimal = decimal_writer(module)
    function, code = _writer(module, "write_shape", [POINTER, I64])
    if code is None:
        return function
    start, sizes, rank = code.arguments
    number, address = code.variable(I64), code.variable(POINTER)
    code.store(_put(code, start, "("), address)
    with code.repeat(code.least(rank, i64(_SHOWN_DIMS)), number) as axis:
        with code.if_then(code.icmp_unsigned("!=", axis, i64(0))):
            code.store(_put(code, code.load(address, typ=POINTER), ", "), address)
        size = code.load(code.element(sizes, axis, I64), typ=I64, align=8)
        code.store(code.call(decimal, [code.load(address, typ=POINTER), size]), address)
    with code.if_then(code.icmp_unsigned("==", rank, i64(1))):
        code.store(_put(code, code.load(address, typ=POINTER), ","), address)
    with code.if_then(code.icmp_unsigned(">", rank, i64(_SHOWN_DIMS))):
        code.store(_put(code, code.load(address, typ=POINTER), ", ..."), address)
    code.ret(_put(code, code.load(address, typ=POINTER), ")"))
    return function


def float_writer(module: ir.Module) -> ir.Function:
    """Writes a number with seven digits: `-1.250000e-3`, `nan`, `inf`."""
    decimal = decimal_writer(module)
    function, code = _writer(module, "write_float", [DOUBLE])
    if code is None:
        return function
    start, value = code.arguments
    address, rest = code.variable(POINTER, start), code.variable(DOUBLE, value)
    exponent = code.variable(I64, i64(0))
    with code.if_then(code.fcmp_unordered("uno", value, value)):
        code.ret(_put(code, start, "nan"))
    with code.if_then(code.fcmp_ordered("<", value, DOUBLE(0.0))):
        code.store(_put(code, start, "-"), address)
        code.store(code.fneg(value), rest)
    infinite = code.fcmp_ordered("==", code.load(rest, typ=DOUBLE), DOUBLE(float("inf")))
    with code.if_then(infinite):
        code.ret(_put(code, code.load(address, typ=POINTER), "inf"))
    with code.if_then(code.fcmp_ordered("!=", value, DOUBLE(0.0))):
        _scale(code, rest, exponent, ">=", 10.0)
        _scale(code, rest, exponent, "<", 1.0)
    _write_digits(code, decimal, address, rest, exponent)
    with code.if_then(code.icmp_signed("!=", code.load(exponent, typ=I64), i64(0))):
        code.store(_put(code, code.load(address, typ=POINTER), "e"), address)
        power = [code.load(address, typ=POINTER), code.load(exponent, typ=I64)]
        code.store(code.call(decimal, power), address)
    code.ret(code.load(address, typ=POINTER))
    return function


def _scale(code: Code, rest: ir.Value, exponent: ir.Value, outside: str, bound: float) -> None:
    """Divides by ten, or multiplies, as long as the number is outside; counts that."""
    step = 1 if outside == ">=" else -1
    with code.forever() as after:
        value = code.load(rest, typ=DOUBLE)
        within = code.not_(code.fcmp_ordered(outside, value, DOUBLE(bound)))
        code.jump_if(within, after)
        ten = DOUBLE(10.0)
        code.store(code.fdiv(value, ten) if step > 0 else code.fmul(value, ten), rest)
        code.store(code.add(code.load(exponent, typ=I64), i64(step)), exponent)


def _write_digits(
    code: Code, decimal: ir.Function, address: ir.Value, rest: ir.Value, exponent: ir.Value
) -> None:
    """The digits of a number of at least 1 and below 10, or of 0, rounded."""
    unit = 10 ** (_DIGITS - 1)
    scaled = code.fadd(code.fmul(code.load(rest, typ=DOUBLE), DOUBLE(float(unit))), DOUBLE(0.5))
    number = code.variable_at_entry(I64)
    code.store(code.fptosi(scaled, I64), number)
    with code.if_then(code.icmp_signed(">=", code.load(number, typ=I64), i64(10 * unit))):
        code.store(i64(unit), number)
        code.store(code.add(code.load(exponent, typ=I64), i64(1)), exponent)
    digits = code.load(number, typ=I64)
    first = code.load(address, typ=POINTER)
    # One digit more in front, so that there are zeros behind the point as well.
    code.call(decimal, [code.at(first, 1), digits])
    code.store(code.load(code.at(first, 1), typ=I8), first)
    with code.if_then(code.icmp_signed("==", digits, i64(0))):
        _put(code, code.at(first, 2), "0" * (_DIGITS - 1))
    code.store(I8(ord(".")), code.at(first, 1))
    code.store(code.at(first, _DIGITS + 1), address)


def _put(code: Code, address: ir.Value, text: str) -> ir.Value:
    """Writes a few characters; returns the place behind them."""
    for offset, byte in enumerate(text.encode()):
        code.store(I8(byte), code.at(address, offset))
    return code.at(address, len(text))


def _writer(
    module: ir.Module, name: str, operands: Sequence[ir.Type]
) -> tuple[ir.Function, Code | None]:
    """The function, and what to fill it with where it is new."""
    symbol = f"weft.{name}"
    function = module.globals.get(symbol)
    if function is not None:
        return function, None
    function = declare_function(module, symbol, ir.FunctionType(POINTER, [POINTER, *operands]))
    function.linkage = "internal"
    compile_plainly(function)
    return function, Code(function.append_basic_block("entry"))

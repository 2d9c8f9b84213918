"""Integers as text, for messages: nothing of libc's formatted output is needed."""

from __future__ import annotations

from typing import Final

from llvmlite import ir

from weft.compiler.loop_to_llvm.runtime.code import I8, I64, POINTER, Code, declare_function, i64

INTEGER_BYTES: Final = 20
"""The longest text of an i64: a sign and 19 digits."""

_NAME: Final = "weft.write_decimal"
_ZERO: Final = ord("0")


def decimal_writer(module: ir.Module) -> ir.Function:
    """`ptr (ptr place, i64 value)`: writes the value in decimal digits; returns the place behind.

    Each module has a copy of its own, made at its first use.
    """
    function = module.globals.get(_NAME)
    if function is None:
        function = declare_function(module, _NAME, ir.FunctionType(POINTER, [POINTER, I64]))
        function.linkage = "internal"
        _define(Code(function.append_basic_block("entry")))
    return function


def _define(code: Code) -> None:
    start, value = code.arguments
    address, rest = code.variable(POINTER, start), code.variable(I64, value)
    with code.if_then(code.icmp_signed("<", value, i64(0))):
        code.store(I8(ord("-")), start)
        code.store(code.at(start, 1), address)
        code.store(code.neg(value), rest)
    first = code.load(address, typ=POINTER)
    _skip_digits(code, address, code.load(rest, typ=I64))
    end = code.load(address, typ=POINTER)
    with code.forever() as after:  # from the last digit to the first
        here = code.at(code.load(address, typ=POINTER), -1)
        code.store(here, address)
        left = code.load(rest, typ=I64)
        digit = code.trunc(code.urem(left, i64(10)), I8)
        code.store(code.add(digit, I8(_ZERO)), here)
        code.store(code.udiv(left, i64(10)), rest)
        code.jump_if(code.icmp_unsigned("==", here, first), after)
    code.ret(end)


def _skip_digits(code: Code, address: ir.Value, value: ir.Value) -> None:
    """Moves the place behind as many digits as the value has, one at least."""
    left = code.variable(I64, value)
    with code.forever() as after:
        code.store(code.at(code.load(address, typ=POINTER), 1), address)
        code.store(code.udiv(code.load(left, typ=I64), i64(10)), left)
        code.jump_if(code.icmp_unsigned("==", code.load(left, typ=I64), i64(0)), after)

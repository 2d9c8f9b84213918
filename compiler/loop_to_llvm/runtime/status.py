"""What a call can end with, and how its reason gets into the context."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Final

from llvmlite import ir

from compiler.loop_to_llvm.runtime.code import I8, Code, constant_bytes, i32, i64
from compiler.loop_to_llvm.runtime.decimal import INTEGER_BYTES, decimal_writer
from compiler.loop_to_llvm.runtime.layout import CONTEXT, ERROR_BYTES
from compiler.loop_to_llvm.runtime.platform import Platform

NO_CONTEXT_TEXT: Final = "weft requires a context, got NULL (m_create gives it for bad options)"


class Status(IntEnum):
    """The results of `m_run` and its like; the numbers are part of the ABI."""

    OK = 0
    BAD_CALL = 1
    NULL_POINTER = 2
    BAD_DIMS = 3
    BAD_WORKSPACE = 4
    OUT_OF_MEMORY = 5
    BAD_VALUE = 6
    BAD_WEIGHTS = 7


def _write(code: Code, platform: Platform, place: ir.Value, content: bytes) -> ir.Value:
    """Copies the bytes to a place, and gives the one behind them."""
    if content:
        source = constant_bytes(code.module, "error", content)
        platform.call(code, "memcpy", [place, source, i64(len(content))])
    return code.at(place, len(content))


def fail(
    code: Code,
    platform: Platform,
    context: ir.Value,
    status: Status,
    text: str,
    integers: Sequence[ir.Value] = (),
) -> ir.Value:
    """Writes the text into the context, each `{}` in it as the next i64, and gives the status.

    Of two threads that fail at once on one context only one is heard.
    """
    assert text.count("{}") == len(integers), f"a text needs an integer for each {{}}: {text}"
    assert len(text) + INTEGER_BYTES * len(integers) < ERROR_BYTES, f"too long a text: {text}"
    free = CONTEXT.exchange(code, context, "error_busy", i32(0), i32(1), "acquire")
    with code.if_then(free):
        end = CONTEXT.address(code, context, "error")
        for position, part in enumerate(text.split("{}")):
            if position:
                end = code.call(decimal_writer(code.module), [end, integers[position - 1]])
            end = _write(code, platform, end, part.encode())
        code.store(I8(0), end)
        CONTEXT.store_atomic(code, context, "error_busy", i32(0), "release")
    return i32(status)

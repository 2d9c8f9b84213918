"""What a call can end with, and how its reason gets into the context."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Final

from llvmlite import ir

from compiler.loop_to_llvm.runtime.code import Code, constant_bytes, i32, i64
from compiler.loop_to_llvm.runtime.layout import CONTEXT, ERROR_BYTES
from compiler.loop_to_llvm.runtime.platform import Platform

NO_CONTEXT_TEXT: Final = "weft requires a context, got NULL (m_create gives it for bad options)"


class Status(IntEnum):
    """The results of `m_run`; the numbers are part of the ABI."""

    OK = 0
    BAD_CALL = 1
    NULL_POINTER = 2
    BAD_DIMS = 3
    BAD_WORKSPACE = 4
    OUT_OF_MEMORY = 5
    BAD_VALUE = 6


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
    template = text.replace("%", "%%").replace("{}", "%lld").encode() + b"\0"
    free = CONTEXT.exchange(code, context, "error_busy", i32(0), i32(1), "acquire")
    with code.if_then(free):
        place = CONTEXT.address(code, context, "error")
        pattern = constant_bytes(code.module, "error", template)
        arguments = [place, i64(ERROR_BYTES), pattern, *integers]
        platform.call(code, "snprintf", arguments)
        CONTEXT.store_atomic(code, context, "error_busy", i32(0), "release")
    return i32(status)

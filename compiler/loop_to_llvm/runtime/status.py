"""What a call can end with, and how its reason gets into the context."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from llvmlite import ir
from msgspec import Struct

from weft.compiler.abi.constants import Status
from weft.compiler.loop_to_llvm.runtime.code import (
    I8,
    I64,
    POINTER,
    VOID,
    Code,
    compile_plainly,
    constant_bytes,
    declare_function,
    i32,
)
from weft.compiler.loop_to_llvm.runtime.decimal import INTEGER_BYTES
from weft.compiler.loop_to_llvm.runtime.layout import CONTEXT, ERROR_BYTES
from weft.compiler.loop_to_llvm.runtime.message import (
    FLOAT_BYTES,
    SHAPE_BYTES,
    TEXT_BYTES,
    Part,
    message_writer,
)
from weft.dialects.errors import printable, printable_lines, shortened

NO_CONTEXT_TEXT: Final = "weft requires a context, got NULL"


class Sizes(Struct, frozen=True):
    """A shape in memory, to be shown: `rank` i64 at an address."""

    address: ir.Value
    rank: ir.Value


Shown = ir.Value | Sizes
"""What a message shows: an i64, a double, the address of a text that a zero ends, or a shape."""


def clipped(text: object, most: int = 80) -> str:
    """A name or an expression as part of a message: at most that many bytes, and nothing that
    `fail` fills.
    """
    return shortened(printable(text).replace("{}", "{ }"), most)


_PARTS: Final = {ir.PointerType: Part.TEXT, ir.DoubleType: Part.FLOAT, ir.IntType: Part.INTEGER}
_BYTES: Final = {
    Part.TEXT: TEXT_BYTES,
    Part.FLOAT: FLOAT_BYTES,
    Part.INTEGER: INTEGER_BYTES,
    Part.SHAPE: SHAPE_BYTES,
}


def fail(
    code: Code, context: ir.Value, status: Status, text: str, shown: Sequence[Shown] = ()
) -> ir.Value:
    """Writes the text into the context, if there is one, each `{}` in it as the next of what is
    shown, and returns the status.

    Of two threads that fail at once on one context only one is heard.
    """
    form, words = _filled(code, ERROR_BYTES, text, shown)
    code.call(_failer(code.module, len(words)), [context, form, *words])
    return i32(status)


def describe(
    code: Code, address: ir.Value, room: int, text: str, shown: Sequence[Shown] = ()
) -> None:
    """Writes the text to a place with room for so many bytes, each `{}` in it as the next of what
    is shown.
    """
    form, words = _filled(code, room, text, shown)
    values = code.variable_at_entry(ir.ArrayType(I64, max(1, len(words))))
    for position, word in enumerate(words):
        code.store(word, code.at(values, 8 * position))
    code.store(I8(0), code.call(message_writer(code.module), [address, form, values]))


def _filled(
    code: Code, room: int, text: str, shown: Sequence[Shown]
) -> tuple[ir.Value, list[ir.Value]]:
    """The format of a message that has room, and the words that fill it."""
    assert text.count("{}") == len(shown), f"a text needs a value for each {{}}: {text}"
    parts = list(map(_part, shown))
    first, *others = _fitted(text.split("{}"), room - sum(_BYTES[part] for part in parts) - 1)
    content = first
    for part, between in zip(parts, others, strict=True):
        content += bytes([part]) + between
    words = [_as_word(code, word) for each in shown for word in _words(each)]
    return constant_bytes(code.module, "error", content + b"\0"), words


def _part(shown: Shown) -> Part:
    return Part.SHAPE if isinstance(shown, Sizes) else _PARTS[type(shown.type)]


def _words(shown: Shown) -> tuple[ir.Value, ...]:
    return (shown.address, shown.rank) if isinstance(shown, Sizes) else (shown,)


def _fitted(pieces: Sequence[str], room: int) -> list[bytes]:
    """The pieces of a text without bytes that stand for values, or that terminals obey; of those
    that have no room together the longest is cut.
    """
    plain = [printable_lines(piece) for piece in pieces]
    sizes = [len(piece.encode()) for piece in plain]
    longest = sizes.index(max(sizes))
    plain[longest] = shortened(plain[longest], sizes[longest] - max(0, sum(sizes) - room))
    return [piece.encode() for piece in plain]


def _as_word(code: Code, value: ir.Value) -> ir.Value:
    """The 8 bytes that messages have of a value."""
    if isinstance(value.type, ir.PointerType):
        return code.ptrtoint(value, I64)
    return code.bitcast(value, I64) if isinstance(value.type, ir.DoubleType) else value


def _failer(module: ir.Module, count: int) -> ir.Function:
    """`void (context, format, i64 value, ...)`: writes a message into the context; each module has
    a copy of its own, made at its first use.
    """
    name = f"weft.fail_{count}"
    function = module.globals.get(name)
    if function is not None:
        return function
    writer = message_writer(module)
    function_type = ir.FunctionType(VOID, [POINTER, POINTER, *[I64] * count])
    function = declare_function(module, name, function_type)
    function.linkage = "internal"
    compile_plainly(function)
    code = Code(function.append_basic_block("entry"))
    context, form, *words = code.arguments
    code.return_if(code.is_null(context))
    values = code.variable(ir.ArrayType(I64, max(1, count)))
    for position, word in enumerate(words):
        code.store(word, code.at(values, 8 * position))
    free = CONTEXT.exchange(code, context, "error_busy", i32(0), i32(1), "acquire")
    with code.if_then(free):
        address = CONTEXT.address(code, context, "error")
        code.store(I8(0), code.call(writer, [address, form, values]))
        CONTEXT.store_atomic(code, context, "error_busy", i32(0), "release")
    code.ret_void()
    return function

"""The plugin's functions as one module of LLVM IR.

Functions that read members of an object are generated from the declarations; those that are
written neither here nor by Python return an error that says so. The text of the others has three
shorthands:

    %value = get Structure.member %pointer
    set Structure.member %pointer %value
    %error = error 3 "text"
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from string import Template
from typing import Final

from weft.compiler.machine.pjrt.buffers import BUFFERS_IR
from weft.compiler.machine.pjrt.declarations import (
    API,
    ARGUMENTS,
    ERROR,
    FUNCTIONS,
    MAJOR,
    MINOR,
    OBJECTS,
    READERS,
    SET_COPY,
    TABLE_OFFSET,
    Layout,
)
from weft.compiler.machine.pjrt.execute import EXECUTE_IR
from weft.compiler.machine.pjrt.transfers import TRANSFERS_IR
from weft.compiler.machine.python.entry_memory import MEMORY_IR, PLACEHOLDERS, SPARE_BYTES
from weft.compiler.target.target import Target

UNIMPLEMENTED: Final = 12
_PLAIN: Final = "noinline optnone"
"""Of functions that are compiled as they stand."""

_WIDEST: Final = 64
_ELEMENT_BYTES: Final = (0, 1, 1, 2, 4, 8, 1, 2, 4, 8, 2, 4, 8, 2, 8, 16) + 18 * (1,)
"""By the numbers of the API's element types."""

_DO_NOTHING: Final = (
    "Plugin_Initialize",
    "Error_ForEachPayload",
    "Event_Destroy",
    "Event_Error",
    "Event_Await",
    "Client_Destroy",
    "ExecuteContext_Destroy",
    "TopologyDescription_Destroy",
)
"""Functions that have nothing to do, and no error to give."""

_GET: Final = re.compile(r"^  (%[\w.]+) = get (\w+)\.(\w+) (%[\w.]+)$", re.MULTILINE)
_SET: Final = re.compile(r"^  set (\w+)\.(\w+) (%[\w.]+) (\S+)$", re.MULTILINE)
_ERROR: Final = re.compile(r'^  (%[\w.]+) = error (\d+) "(.*)"$', re.MULTILINE)


def plugin_ir(target: Target) -> str:
    """The module as text: the functions that are written in IR, and the three times as many that
    are generated.
    """
    numbers = {
        "error": ERROR,
        "spare_bytes": SPARE_BYTES,
        "descending": ", ".join(f"i64 {_WIDEST - 1 - at}" for at in range(_WIDEST)),
        "element_bytes": ", ".join(f"i8 {size}" for size in _ELEMENT_BYTES),
    }
    text = _Members(MEMORY_IR + BUFFERS_IR + TRANSFERS_IR + EXECUTE_IR).substitute(
        numbers | PLACEHOLDERS | _offsets()
    )
    written = re.findall(r"^define (?:ptr|void) @(\w+)\(", text, re.MULTILINE)
    parts = [text, _set_copy(), *map(_nothing, _DO_NOTHING), *map(_reader, READERS)]
    done = {*written, *_DO_NOTHING, *READERS}
    parts += [_unimplemented(name) for name in FUNCTIONS if name not in done]
    parts += [_api()]
    return f'target triple = "{target.triple}"\n\n' + _expanded("\n".join(parts))


class _Members(Template):
    idpattern = r"\w+(?:\.\w+)?"


def _layout(name: str) -> Layout:
    return ARGUMENTS[name] if name in ARGUMENTS else OBJECTS[name]


def _offsets() -> dict[str, int]:
    """`Structure.member` and `Structure.bytes` of weft's own structures, in bytes."""
    found = {
        f"{name}.{member}": layout.offset(member)
        for name, layout in OBJECTS.items()
        for member in layout.types
    }
    return {f"{name}.bytes": layout.size for name, layout in OBJECTS.items()} | found


def _expanded(text: str) -> str:
    """The text without shorthands."""
    count = 0
    constants: list[str] = []

    def get(found: re.Match[str]) -> str:
        result, name, member, pointer = found.groups()
        layout = _layout(name)
        place = f"  {result}.place = getelementptr i8, ptr {pointer}, i64 {layout.offset(member)}"
        return f"{place}\n  {result} = load {layout.types[member]}, ptr {result}.place"

    def put(found: re.Match[str]) -> str:
        nonlocal count
        name, member, pointer, value = found.groups()
        layout = _layout(name)
        count += 1
        place = f"%place.{count}"
        written = f"  {place} = getelementptr i8, ptr {pointer}, i64 {layout.offset(member)}"
        return f"{written}\n  store {layout.types[member]} {value}, ptr {place}"

    def error(found: re.Match[str]) -> str:
        result, code, message = found.groups()
        length, name = len(message), f"@error.{len(constants)}"
        constants.append(f'{name} = private constant [{length} x i8] c"{message}"')
        return f"  {result} = call ptr @{ERROR}(i32 {code}, ptr {name}, i64 {length})"

    text = _ERROR.sub(error, _SET.sub(put, _GET.sub(get, text)))
    return "\n".join([*constants, text])


def _nothing(name: str) -> str:
    return f"define ptr @{name}(ptr %args) {_PLAIN} {{\n  ret ptr null\n}}\n"


def _unimplemented(name: str) -> str:
    message = f"weft's plugin does not implement PJRT_{name}"
    body = f'  %error = error {UNIMPLEMENTED} "{message}"\n  ret ptr %error\n'
    return f"define ptr @{name}(ptr %args) {_PLAIN} {{\n{body}}}\n"


def _reader(name: str) -> str:
    """A function that copies members of an object into those of the arguments of the same name."""
    owner, (object_name, *members) = READERS[name], ARGUMENTS[name].types
    lines = [f"  %object = get {name}.{object_name} %args"]
    for member in members:
        if member in OBJECTS[owner].types:
            lines += [
                f"  %{member} = get {owner}.{member} %object",
                f"  set {name}.{member} %args %{member}",
            ]
    return "\n".join([f"define ptr @{name}(ptr %args) {_PLAIN} {{", *lines, "  ret ptr null\n}\n"])


def _api() -> str:
    """The function that every plugin exports: it fills the table and returns it."""
    words = TABLE_OFFSET // 8 + len(FUNCTIONS)
    return "\n".join([f"@api = internal global [{words} x i64] zeroinitializer", *_api_lines()])


def _api_lines() -> Iterator[str]:
    size = TABLE_OFFSET + 8 * len(FUNCTIONS)
    yield f"define ptr @{API}() {_PLAIN} {{"
    version = MAJOR | MINOR << 32
    values = {0: f"i64 {size}", 16: "i64 24", 32: f"i64 {version}"}
    values |= {TABLE_OFFSET + 8 * at: f"ptr @{name}" for at, name in enumerate(FUNCTIONS)}
    for offset, value in values.items():
        yield f"  %at.{offset} = getelementptr i8, ptr @api, i64 {offset}"
        yield f"  store {value}, ptr %at.{offset}"
    yield "  ret ptr @api\n}\n"


def _set_copy() -> str:
    body = "  store ptr %function, ptr @copy.strided\n  ret void\n"
    return f"define void @{SET_COPY}(ptr %function) {{\n{body}}}\n"

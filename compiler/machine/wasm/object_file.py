"""Relocatable WebAssembly objects as LLVM writes them, by the tools' conventions for linking."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from msgspec import Struct, field

from weft.compiler.machine.wasm.note import MAGIC
from weft.dialects.errors import ArtifactError, UnsupportedError

CUSTOM, TYPE, IMPORT, FUNCTION, TABLE, MEMORY, GLOBAL, EXPORT = range(8)
ELEMENT, CODE, DATA = 9, 10, 11

_LINKING_VERSION: Final = 2
_SEGMENT_INFO: Final = 5
_SYMBOL_TABLE: Final = 8

WEAK, LOCAL = 1, 2
UNDEFINED, EXPLICIT_NAME = 0x10, 0x40

_LAST: Final = "target_features"
"""The section that LLVM writes last: a file that was cut off at the end of another one lacks it."""

_LARGEST_SHIFT: Final = 16
_I32_CONST: Final = 0x41
_END: Final = 0x0B


class SymbolKind(IntEnum):
    """What a symbol names."""

    FUNCTION = 0
    DATA = 1
    GLOBAL = 2
    SECTION = 3
    TAG = 4
    TABLE = 5


class Symbol(Struct, frozen=True):
    """A symbol: `index` counts functions or globals, for data it is the segment, with `offset`."""

    kind: SymbolKind
    flags: int
    name: str
    index: int
    offset: int = 0

    @property
    def is_defined(self) -> bool:
        return not self.flags & UNDEFINED

    @property
    def is_local(self) -> bool:
        return bool(self.flags & LOCAL)


class Relocation(Struct, frozen=True):
    """A field at an offset into its function or segment; `index` is a symbol, or a type."""

    type: int
    offset: int
    index: int
    addend: int


class Piece(Struct):
    """A function's code or a data segment, with what has to be patched in it."""

    content: bytearray
    alignment: int = 1
    relocations: list[Relocation] = field(default_factory=list[Relocation])


class WasmObject(Struct):
    """What a link takes from an object. `functions` are the defined ones, `imports` the names of
    those that come before them in the index space; `signatures` has the type of each of both.
    """

    name: str
    types: list[bytes] = field(default_factory=list[bytes])
    imports: list[str] = field(default_factory=list[str])
    signatures: list[int] = field(default_factory=list[int])
    functions: list[Piece] = field(default_factory=list[Piece])
    segments: list[Piece] = field(default_factory=list[Piece])
    symbols: list[Symbol] = field(default_factory=list[Symbol])


class Reader:
    """Reads LEB128 numbers and vectors; raises ArtifactError beyond the end."""

    def __init__(self, data: bytes | bytearray, who: str) -> None:
        self.data, self.position, self._who = data, 0, who

    @property
    def is_done(self) -> bool:
        return self.position >= len(self.data)

    def take(self, count: int) -> bytes:
        """The next bytes."""
        end = self.position + count
        if end > len(self.data):
            raise ArtifactError(f"{self._who}: linker requires a whole object, got a truncated one")
        taken = bytes(self.data[self.position : end])
        self.position = end
        return taken

    def byte(self) -> int:
        return self.take(1)[0]

    def unsigned(self) -> int:
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value
            self._bound(shift)

    def signed(self) -> int:
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value - (1 << shift) if byte & 0x40 else value
            self._bound(shift)

    def _bound(self, shift: int) -> None:
        if shift > 63:
            raise ArtifactError(
                f"{self._who}: linker requires numbers of 64 bits, got a longer one"
            )

    def text(self) -> str:
        return self.take(self.unsigned()).decode("utf-8", "replace")


def read_wasm(data: bytes, name: str) -> WasmObject:
    """Parses an object. Raises ArtifactError for a damaged one, UnsupportedError for one with
    parts that this linker lacks the means for.
    """
    reader = Reader(data, name)
    if reader.take(len(MAGIC)) != MAGIC:
        raise ArtifactError(f"{name}: linker requires a WebAssembly object, got another file")
    parsed = WasmObject(name)
    sections: list[tuple[int, bytes]] = []
    while not reader.is_done:
        section_id = reader.byte()
        sections.append((section_id, reader.take(reader.unsigned())))
    starts = _Starts([], [])
    for section_id, content in sections:
        _read_section(parsed, section_id, Reader(content, name), starts)
    titles = [
        _read_custom(parsed, Reader(content, name), sections, starts)
        for section_id, content in sections
        if section_id == CUSTOM
    ]
    if titles[-1:] != [_LAST]:
        raise ArtifactError(f"{name}: linker requires a whole object, got one without its end")
    return parsed


class _Starts(Struct, frozen=True):
    """Where in their section each function and each segment's bytes begin."""

    functions: list[int]
    segments: list[int]


def _read_section(parsed: WasmObject, section_id: int, reader: Reader, starts: _Starts) -> None:
    match section_id:
        case 1:
            for _ in range(reader.unsigned()):
                parsed.types.append(_function_type(reader))
        case 2:
            for _ in range(reader.unsigned()):
                _read_import(parsed, reader)
        case 3:
            parsed.signatures += [reader.unsigned() for _ in range(reader.unsigned())]
        case 10:
            for _ in range(reader.unsigned()):
                size = reader.unsigned()
                starts.functions.append(reader.position)
                parsed.functions.append(Piece(bytearray(reader.take(size))))
        case 11:
            for _ in range(reader.unsigned()):
                _skip_placement(parsed, reader)
                size = reader.unsigned()
                starts.segments.append(reader.position)
                parsed.segments.append(Piece(bytearray(reader.take(size))))
        case 0 | 9 | 12:
            pass  # the linker makes a table of its own
        case _:
            raise UnsupportedError(
                f"{parsed.name}: linker requires code and data alone, got section {section_id}"
            )


def _function_type(reader: Reader) -> bytes:
    start = reader.position
    reader.byte()
    for _ in range(2):
        reader.take(reader.unsigned())
    return bytes(reader.data[start : reader.position])


def _read_import(parsed: WasmObject, reader: Reader) -> None:
    reader.text()
    name, external = reader.text(), reader.byte()
    if external == 0:
        parsed.signatures.append(reader.unsigned())
        parsed.imports.append(name)
    elif external == 1:
        reader.byte()
        _skip_limits(reader)
    elif external == 2:
        _skip_limits(reader)
    else:
        reader.take(2)


def _skip_limits(reader: Reader) -> None:
    has_most = reader.unsigned() & 1
    for _ in range(1 + has_most):
        reader.unsigned()


def _skip_placement(parsed: WasmObject, reader: Reader) -> None:
    flags, opcode = reader.unsigned(), reader.byte()
    reader.signed()
    if flags or opcode != _I32_CONST or reader.byte() != _END:
        raise UnsupportedError(
            f"{parsed.name}: linker requires active segments of memory 0, got flags {flags}"
        )


def _read_custom(
    parsed: WasmObject, reader: Reader, sections: list[tuple[int, bytes]], starts: _Starts
) -> str:
    """Reads a section that has a title, which it returns."""
    title = reader.text()
    if title == "linking":
        _read_linking(parsed, reader)
    elif title.startswith("reloc."):
        target = reader.unsigned()
        section_id = sections[target][0] if target < len(sections) else -1
        if section_id not in (CODE, DATA):
            return title  # of debugging information, which is left out
        first, pieces = (
            (starts.functions, parsed.functions)
            if section_id == CODE
            else (starts.segments, parsed.segments)
        )
        _read_relocations(parsed, reader, first, pieces)
    return title


def _read_relocations(
    parsed: WasmObject, reader: Reader, starts: list[int], pieces: list[Piece]
) -> None:
    number = 0
    for _ in range(reader.unsigned()):
        relocation_type, offset, index = reader.byte(), reader.unsigned(), reader.unsigned()
        addend = reader.signed() if relocation_type in (3, 4, 5, 8, 9) else 0
        while number + 1 < len(starts) and starts[number + 1] <= offset:
            number += 1
        inside = offset - starts[number] if starts else -1
        if not 0 <= inside <= len(pieces[number].content) - 4:
            raise ArtifactError(
                f"{parsed.name}: linker requires relocations inside of their section"
            )
        pieces[number].relocations.append(Relocation(relocation_type, inside, index, addend))


def _read_linking(parsed: WasmObject, reader: Reader) -> None:
    version = reader.unsigned()
    if version != _LINKING_VERSION:
        raise UnsupportedError(
            f"{parsed.name}: linker requires linking version {_LINKING_VERSION}, got {version}"
        )
    while not reader.is_done:
        subsection = reader.byte()
        part = Reader(reader.take(reader.unsigned()), parsed.name)
        if subsection == _SEGMENT_INFO:
            for number in range(part.unsigned()):
                part.text()
                parsed.segments[number].alignment = 1 << min(part.unsigned(), _LARGEST_SHIFT)
                part.unsigned()
        elif subsection == _SYMBOL_TABLE:
            parsed.symbols += [_read_symbol(parsed, part) for _ in range(part.unsigned())]
        else:
            raise UnsupportedError(
                f"{parsed.name}: linker requires plain symbols and segments, got part {subsection}"
            )


def _read_symbol(parsed: WasmObject, reader: Reader) -> Symbol:
    number, flags = reader.byte(), reader.unsigned()
    if number not in list(SymbolKind):
        raise UnsupportedError(f"{parsed.name}: linker requires known symbols, got kind {number}")
    kind = SymbolKind(number)
    if kind is SymbolKind.DATA:
        name = reader.text()
        if flags & UNDEFINED:
            return Symbol(kind, flags, name, -1)
        symbol = Symbol(kind, flags, name, reader.unsigned(), reader.unsigned())
        reader.unsigned()
        return symbol
    index = reader.unsigned()
    if kind is SymbolKind.SECTION:
        return Symbol(kind, flags, "", index)
    if not flags & UNDEFINED or flags & EXPLICIT_NAME:
        return Symbol(kind, flags, reader.text(), index)
    imported = kind is SymbolKind.FUNCTION and index < len(parsed.imports)
    return Symbol(kind, flags, parsed.imports[index] if imported else "", index)

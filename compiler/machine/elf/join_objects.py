"""Several relocatable ELF objects -> one, whose sections are theirs side by side.

Each object is there as it was, byte for byte, but what of it says which symbol is which: one symbol
table takes the place of all, in which a name that one object defines and others use is one symbol,
and relocations name its entries. Nothing is relocated yet.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import BinaryIO, Final

from msgspec import Struct, field

from weft.compiler.machine.elf import records as elf
from weft.compiler.machine.elf.object_file import Data, Symbol, read_symbols
from weft.dialects.errors import ArtifactError, UnsupportedError

_PAGE: Final = 4096
"""No section of an object asks for a larger alignment."""

_REPLACED: Final = frozenset({elf.SHT_SYMTAB, elf.SHT_STRTAB, elf.SHT_RELA, 0x6FFF4C03})
"""Kinds of sections that name symbols, the last of which are those whose addresses matter."""


class _Joined(Struct):
    """What the result has behind the objects."""

    headers: list[elf.SectionHeader] = field(default_factory=list[elf.SectionHeader])
    names: elf.StringTable = field(default_factory=elf.StringTable)
    locals: list[bytes] = field(default_factory=list[bytes])
    globals: dict[str, tuple[Symbol, int]] = field(default_factory=dict[str, tuple[Symbol, int]])


def join_objects(objects: Sequence[Data], out: BinaryIO) -> None:
    """Writes one relocatable object. Raises ArtifactError for objects that define a name twice,
    UnsupportedError for more sections than one has numbers for.
    """
    joined = _Joined([elf.SectionHeader(*[0] * 10)])
    out.write(bytes(elf.FILE_HEADER.size))
    parts: list[_Part] = []
    for number, data in enumerate(objects):
        base = _pad(out, _PAGE)
        out.write(data)
        parts.append(_Part(data, f"object {number}", base, joined))
    if len(joined.headers) + len(parts) * 2 >= elf.SHN_LORESERVE:
        rule = f"a single object requires fewer than {elf.SHN_LORESERVE} sections"
        raise UnsupportedError(f"{rule}, got {len(joined.headers)}; a name in .a holds any number")
    order = {name: len(joined.locals) + 1 + at for at, name in enumerate(joined.globals)}
    table = len(joined.headers) + sum(len(part.relocated) for part in parts)
    for part in parts:
        part.write_relocations(out, joined, order, table)
    _write_tables(out, joined)
    start = _pad(out, 8)
    for header in joined.headers:
        out.write(elf.SECTION_HEADER.pack(*header))
    first = elf.FileHeader(*elf.FILE_HEADER.unpack(objects[0][: elf.FILE_HEADER.size]))
    count = len(joined.headers)
    out.seek(0)
    out.write(
        elf.FILE_HEADER.pack(
            *first._replace(section_offset=start, section_count=count, section_names=count - 1)
        )
    )


class _Part:
    """One of the objects, at `base` of the result."""

    def __init__(self, data: Data, name: str, base: int, joined: _Joined) -> None:
        self.data = data
        self.symbols = read_symbols(data, name)
        self.new_offsets: dict[int, int] = {}
        self.own: dict[int, int] = {}
        first = elf.FileHeader(*elf.FILE_HEADER.unpack(data[: elf.FILE_HEADER.size]))
        end = first.section_offset + first.section_count * elf.SECTION_HEADER.size
        table = data[first.section_offset : end]
        headers = [elf.SectionHeader(*each) for each in elf.SECTION_HEADER.iter_unpack(table)]
        self.relocated = [each for each in headers if each.type == elf.SHT_RELA]
        names = headers[first.section_names]
        strings = data[names.offset : names.offset + names.size]
        for index, header in enumerate(headers[1:], 1):
            if header.type in _REPLACED:
                continue
            self.new_offsets[index] = len(joined.headers)
            text = strings[header.name : strings.index(b"\0", header.name)].decode()
            joined.headers.append(
                header._replace(name=joined.names.add(text), offset=base + header.offset)
            )
        self._define(joined)

    def _define(self, joined: _Joined) -> None:
        """Puts the symbols into the tables: local ones now, others once all are known."""
        for index, symbol in enumerate(self.symbols[1:], 1):
            position = self.new_offsets.get(symbol.section, symbol.section)
            if symbol.is_local:
                self.own[index] = len(joined.locals) + 1
                joined.locals.append(_record(joined, symbol, position))
                continue
            known = joined.globals.get(symbol.name)
            if known is None or _prevails(symbol, known[0]):
                joined.globals[symbol.name] = symbol, position

    def write_relocations(
        self, out: BinaryIO, joined: _Joined, order: dict[str, int], table: int
    ) -> None:
        """The relocations of each section, which name symbols of the table of that number."""
        for header in self.relocated:
            start = _pad(out, 8)
            content = self.data[header.offset : header.offset + header.size]
            for offset, info, addend in elf.RELA.iter_unpack(content):
                number = info >> 32
                symbol = self.own.get(number) or order.get(self.symbols[number].name, 0)
                out.write(elf.RELA.pack(offset, symbol << 32 | info & 0xFFFFFFFF, addend))
            joined.headers.append(
                header._replace(
                    name=joined.names.add(".rela"),
                    offset=start,
                    link=table,
                    info=self.new_offsets[header.info],
                )
            )


def _prevails(symbol: Symbol, known: Symbol) -> bool:
    """Whether a symbol takes the place of another of its name. Raises ArtifactError for two
    definitions.
    """
    if not symbol.is_defined:
        return False
    if known.is_defined and elf.STB_WEAK not in (symbol.binding, known.binding):
        raise ArtifactError(f"joining objects requires each name once, got {symbol.name} twice")
    return not known.is_defined or known.binding == elf.STB_WEAK


def _record(joined: _Joined, symbol: Symbol, position: int) -> bytes:
    info = symbol.binding << 4 | symbol.type
    name = joined.names.add(symbol.name)
    return elf.SYMBOL.pack(name, info, symbol.visibility, position, symbol.value, symbol.size)


def _write_tables(out: BinaryIO, joined: _Joined) -> None:
    """The symbol table and the names of symbols and sections."""
    records = [bytes(elf.SYMBOL.size), *joined.locals]
    records += [_record(joined, symbol, position) for symbol, position in joined.globals.values()]
    start, number = _pad(out, 8), len(joined.headers)
    data = b"".join(records)
    out.write(data)
    names = [joined.names.add(text) for text in (".symtab", ".strtab")]
    first = len(joined.locals) + 1
    joined.headers.append(
        elf.SectionHeader(
            names[0], elf.SHT_SYMTAB, 0, 0, start, len(data), number + 1, first, 8, elf.SYMBOL.size
        )  # fmt: skip
    )
    start = out.tell()
    out.write(joined.names.data)
    joined.headers.append(
        elf.SectionHeader(names[1], elf.SHT_STRTAB, 0, 0, start, len(joined.names.data), 0, 0, 1, 0)
    )


def _pad(out: BinaryIO, alignment: int) -> int:
    """Where the next part starts."""
    position = out.tell()
    out.write(bytes(-position % alignment))
    return position + -position % alignment

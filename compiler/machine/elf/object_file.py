"""Relocatable ELF objects as LLVM emits them: bytes in, sections, symbols and relocations out."""

from collections.abc import Iterable
from functools import cached_property
from mmap import mmap
from struct import Struct

import msgspec

from weft.compiler.machine.elf import records as elf
from weft.dialects.errors import ArtifactError, UnsupportedError


class Relocation(msgspec.Struct, frozen=True):
    """A field at `offset` of its section that holds an address known only at link time."""

    offset: int
    type: int
    symbol: int
    addend: int


class Section(msgspec.Struct, frozen=True):
    """One section; `content` is empty where the file holds no bytes for it. `uses` are the offsets
    of the last fields that have a relocation of a type against a symbol, by both: the run time has
    six of each.
    """

    name: str
    type: int
    flags: int
    size: int
    alignment: int
    content: bytes
    relocations: tuple[Relocation, ...]
    uses: dict[tuple[int, int], int]

    @property
    def is_loaded(self) -> bool:
        """Whether the section belongs in memory, and not to debuggers or linkers alone."""
        return bool(self.flags & elf.SHF_ALLOC)


class Symbol(msgspec.Struct, frozen=True):
    """One symbol; `section` is an index, or one of the reserved ones."""

    name: str
    binding: int
    type: int
    visibility: int
    section: int
    value: int
    size: int

    @property
    def is_local(self) -> bool:
        """Whether other objects cannot name this symbol."""
        return self.binding == elf.STB_LOCAL

    @property
    def is_defined(self) -> bool:
        """Whether this object gives the symbol its place."""
        return self.section != elf.SHN_UNDEF


Data = bytes | mmap
"""An object in memory, or in a file of which only the parts that are read come there."""


class RelocatableObject(msgspec.Struct, frozen=True):
    """One object file; `name` says which in errors. `outward` are the symbols that other objects
    may name, or that it needs of them.
    """

    name: str
    machine: int
    flags: int
    sections: tuple[Section, ...]
    symbols: tuple[Symbol, ...]
    outward: tuple[Symbol, ...]


def read_object(data: Data, name: str) -> RelocatableObject:
    """Parses a relocatable object. Raises ArtifactError where it is damaged or of another kind."""
    reader = _Reader(data, name)
    header, symbols = reader.header, reader.symbols()
    outward = tuple(each for each in symbols if not each.is_local)
    return RelocatableObject(
        name, header.machine, header.flags, reader.sections(), symbols, outward
    )


def read_symbols(data: Data, name: str) -> tuple[Symbol, ...]:
    """The symbol table of a relocatable object, of which nothing else is held in memory. Raises
    ArtifactError where it is damaged or of another kind.
    """
    return _Reader(data, name).symbols()


class _Reader:
    """Reads one object with every offset checked against the size of the file."""

    def __init__(self, data: Data, name: str) -> None:
        self._data = data
        self._name = name

    def _refuse(self, rule: str, got: str) -> ArtifactError:
        return ArtifactError(f"{self._name}: linker requires {rule}, got {got}")

    def _bytes(self, offset: int, size: int) -> bytes:
        if offset + size > len(self._data):
            got = f"bytes {offset} to {offset + size} of {len(self._data)}"
            raise self._refuse("a whole object", got)
        return self._data[offset : offset + size]

    def _table(self, section: elf.SectionHeader, record: Struct) -> list[tuple[int, ...]]:
        data = self._bytes(section.offset, section.size)
        if len(data) % record.size:
            raise self._refuse(f"a table of {record.size}-byte entries", f"{len(data)} bytes")
        return list(record.iter_unpack(data))

    def _text(self, strings: bytes, offset: int) -> str:
        end = strings.find(b"\0", offset)
        if end < 0:
            raise self._refuse("names inside their string table", f"offset {offset}")
        return strings[offset:end].decode(errors="replace")

    @cached_property
    def header(self) -> elf.FileHeader:
        """The file's header, known to be that of a 64-bit little-endian relocatable object."""
        if self._data[:6] != elf.IDENT[:6]:
            raise self._refuse("a 64-bit little-endian ELF object", f"{self._data[:6]!r} ahead")
        head = self._bytes(0, elf.FILE_HEADER.size)
        header = elf.FileHeader(*elf.FILE_HEADER.unpack(head))
        if header.type != elf.ET_REL:
            raise self._refuse("a relocatable object", f"ELF type {header.type}")
        return header

    @cached_property
    def _headers(self) -> list[elf.SectionHeader]:
        count, size = self.header.section_count, elf.SECTION_HEADER.size
        data = self._bytes(self.header.section_offset, count * size)
        return [elf.SectionHeader(*fields) for fields in elf.SECTION_HEADER.iter_unpack(data)]

    def _header_at(self, index: int) -> elf.SectionHeader:
        if index >= len(self._headers):
            raise self._refuse(f"a section index below {len(self._headers)}", str(index))
        return self._headers[index]

    def _strings(self, index: int) -> bytes:
        header = self._header_at(index)
        return self._bytes(header.offset, header.size)

    def sections(self) -> tuple[Section, ...]:
        """All sections by index, each with the relocations that apply to it."""
        names = self._strings(self.header.section_names)
        relocations = self._relocations()
        return tuple(
            Section(
                self._text(names, header.name),
                header.type,
                header.flags,
                header.size,
                max(1, header.alignment),
                b"" if header.type == elf.SHT_NOBITS else self._bytes(header.offset, header.size),
                relocations.get(index, ()),
                _uses(relocations.get(index, ())),
            )
            for index, header in enumerate(self._headers)
        )

    def _relocations(self) -> dict[int, tuple[Relocation, ...]]:
        found: dict[int, tuple[Relocation, ...]] = {}
        for header in self._headers:
            if header.type == elf.SHT_REL:
                raise UnsupportedError(
                    f"{self._name}: linker requires relocations with addends, got SHT_REL"
                )
            if header.type == elf.SHT_RELA:
                found[header.info] = tuple(
                    Relocation(offset, info & 0xFFFFFFFF, info >> 32, addend)
                    for offset, info, addend in self._table(header, elf.RELA)
                )
        return found

    def symbols(self) -> tuple[Symbol, ...]:
        """The symbol table; empty when the object has none."""
        tables = [header for header in self._headers if header.type == elf.SHT_SYMTAB]
        if not tables:
            return ()
        strings = self._strings(tables[0].link)
        records = self._table(tables[0], elf.SYMBOL)
        return tuple(self._symbol(strings, elf.SymbolRecord(*fields)) for fields in records)

    def _symbol(self, strings: bytes, record: elf.SymbolRecord) -> Symbol:
        name = self._text(strings, record.name)
        if len(self._headers) <= record.section < elf.SHN_LORESERVE:
            raise self._refuse(f"the section of symbol '{name}'", f"index {record.section}")
        if not name and record.info >> 4 != elf.STB_LOCAL:
            raise self._refuse("a name of each symbol that is not local", "none")
        return Symbol(
            name,
            record.info >> 4,
            record.info & 15,
            record.other & 3,
            record.section,
            record.value,
            record.size,
        )


def _uses(relocations: Iterable[Relocation]) -> dict[tuple[int, int], int]:
    last: dict[tuple[int, int], int] = {}
    for each in relocations:
        key = each.type, each.symbol
        last[key] = max(each.offset, last.get(key, 0))
    return last

"""What the loader reads of a shared object: names, imports, exports, versions, relocations."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from struct import Struct
from typing import Final

import msgspec

from weft.compiler.machine.elf import records as elf
from weft.compiler.machine.elf.image import OutputSection

_BLOOM_SHIFT: Final = 6
_VERSION_GLOBAL: Final = 1  # the symbol is bound without a version
_VERNEED: Final = Struct("<HHIII")
_VERNAUX: Final = Struct("<IHHII")


class DynamicSymbol(msgspec.Struct, frozen=True):
    """A name that the loader knows: an export where `section` is given, else an import."""

    name: str
    binding: int
    type: int = elf.STT_NOTYPE
    section: OutputSection | None = None
    value: int = 0
    size: int = 0


class DynamicRelocation(msgspec.Struct, frozen=True):
    """A 64-bit field at `offset` of `section` that the loader fills.

    Without a `symbol` it becomes the load address plus `target` plus the addend.
    """

    section: OutputSection
    offset: int
    type: int
    symbol: int
    target: OutputSection | None
    addend: int

    def pack(self) -> bytes:
        """The record, once sections are placed."""
        base = self.target.address if self.target else 0
        info = self.symbol << 32 | self.type
        return elf.RELA.pack(self.section.address + self.offset, info, base + self.addend)


@lru_cache(maxsize=256)
def gnu_hash(name: str) -> int:
    """The hash by which the loader finds a name."""
    value = 5381
    for byte in name.encode():
        value = (value * 33 + byte) & 0xFFFFFFFF
    return value


def _sysv_hash(name: str) -> int:
    """The hash of version names, from the System V ABI."""
    value = 0
    for byte in name.encode():
        value = (value << 4) + byte
        value = (value ^ (value & 0xF0000000) >> 24) & 0x0FFFFFFF
    return value


def _section(name: str, section_type: int, alignment: int, entry_size: int = 0) -> OutputSection:
    return OutputSection(name, section_type, elf.SHF_ALLOC, alignment, entry_size=entry_size)


@dataclass(eq=False)
class DynamicTables:
    """The sections that the loader reads: sized by the constructor, completed by `fill`."""

    soname: str
    needed: Sequence[str]
    imports: Sequence[DynamicSymbol]
    exports: Sequence[DynamicSymbol]
    relocations: Sequence[DynamicRelocation]
    versions: Mapping[str, str]
    relative: int
    hash: OutputSection = field(init=False)
    symbols: OutputSection = field(init=False)
    strings: OutputSection = field(init=False)
    version_of: OutputSection = field(init=False)
    version_needs: OutputSection = field(init=False)
    rela: OutputSection = field(init=False)
    dynamic: OutputSection = field(init=False)

    def __post_init__(self) -> None:
        self._names = elf.StringTable()
        self._buckets = max(1, len(self.exports) // 2)
        self.exports = sorted(self.exports, key=self._hash_order)
        self.strings = _section(".dynstr", elf.SHT_STRTAB, 1)
        self.symbols = _section(".dynsym", elf.SHT_DYNSYM, 8, elf.SYMBOL.size)
        self.symbols.link, self.symbols.info = self.strings, 1
        self.symbols.content = bytearray(self._symbol_table())
        self.hash = _section(".gnu.hash", elf.SHT_GNU_HASH, 8)
        self.hash.link, self.hash.content = self.symbols, bytearray(self._hash_table())
        self._add_versions()
        self.rela = _section(".rela.dyn", elf.SHT_RELA, 8, elf.RELA.size)
        self.rela.link = self.symbols
        self.rela.content = bytearray(elf.RELA.size * len(self.relocations))
        self.dynamic = _section(".dynamic", elf.SHT_DYNAMIC, 8, elf.DYNAMIC.size)
        self.dynamic.flags |= elf.SHF_WRITE
        self.dynamic.link = self.strings
        self.dynamic.content = bytearray(self._dynamic_table())
        self.strings.content = self._names.data

    def fill(self) -> None:
        """Writes the contents that depend on where sections were placed."""
        order = sorted(self.relocations, key=self._relocation_order)
        self.rela.content[:] = b"".join(relocation.pack() for relocation in order)
        self.dynamic.content[:] = self._dynamic_table()
        self.symbols.content[:] = self._symbol_table()

    def resolve_section_indices(self, sections: Sequence[OutputSection]) -> None:
        """Names the section of every export in the symbol table."""
        index = {section: number for number, section in enumerate(sections, start=1)}
        first = 1 + len(self.imports)
        for number, export in enumerate(self.exports, start=first):
            assert export.section is not None, "an export lies in a section"
            at = number * elf.SYMBOL.size + elf.SYMBOL_SECTION
            self.symbols.content[at : at + 2] = index[export.section].to_bytes(2, "little")

    def _hash_order(self, symbol: DynamicSymbol) -> tuple[int, str]:
        return gnu_hash(symbol.name) % self._buckets, symbol.name

    def _relocation_order(self, relocation: DynamicRelocation) -> tuple[bool, int]:
        """Relative ones first, as DT_RELACOUNT says, and then by place."""
        position = relocation.section.address + relocation.offset
        return relocation.type != self.relative, position

    def _symbol_table(self) -> bytes:
        records = [bytes(elf.SYMBOL.size)]
        for symbol in (*self.imports, *self.exports):
            base = symbol.section.address if symbol.section else 0
            info = symbol.binding << 4 | symbol.type
            name = self._names.add(symbol.name)
            index = 1 if symbol.section else elf.SHN_UNDEF
            records.append(elf.SYMBOL.pack(name, info, 0, index, base + symbol.value, symbol.size))
        return b"".join(records)

    def _hash_table(self) -> bytes:
        """Bloom filter, buckets and chains over the exports, which lie ordered by bucket."""
        first = 1 + len(self.imports)
        words = 1 << max(0, (len(self.exports) // 8).bit_length())
        bloom = [0] * words
        buckets = [0] * self._buckets
        hashes = [gnu_hash(export.name) for export in self.exports]
        for number, value in enumerate(hashes, start=first):
            bits = 1 << value % 64 | 1 << (value >> _BLOOM_SHIFT) % 64
            bloom[value // 64 % words] |= bits
            buckets[value % self._buckets] = buckets[value % self._buckets] or number
        positions = [value % self._buckets for value in hashes]
        ends = [here != after for here, after in pairwise([*positions, -1])]
        chain = [value & ~1 | end for value, end in zip(hashes, ends, strict=True)]
        head = Struct("<IIII").pack(self._buckets, first, words, _BLOOM_SHIFT)
        body = Struct(f"<{words}Q{self._buckets}I{len(chain)}I").pack(*bloom, *buckets, *chain)
        return head + body

    def _add_versions(self) -> None:
        """Sections that ask for the versions of `versions`; empty when no import has one."""
        self.version_of = _section(".gnu.version", elf.SHT_GNU_VERSYM, 2, 2)
        self.version_of.link = self.symbols
        self.version_needs = _section(".gnu.version_r", elf.SHT_GNU_VERNEED, 8)
        self.version_needs.link = self.strings
        wanted = {s.name: self.versions[s.name] for s in self.imports if s.name in self.versions}
        if not wanted:
            return
        names = sorted(set(wanted.values()))
        index = {name: number for number, name in enumerate(names, start=_VERSION_GLOBAL + 1)}
        rest = [_VERSION_GLOBAL] * len(self.exports)
        of_imports = [index.get(wanted.get(s.name, ""), _VERSION_GLOBAL) for s in self.imports]
        numbers = [0, *of_imports, *rest]
        self.version_of.content = bytearray(Struct(f"<{len(numbers)}H").pack(*numbers))
        library = self._names.add("libc.so.6")
        needs = bytearray(_VERNEED.pack(1, len(names), library, _VERNEED.size, 0))
        for name in names:
            following = 0 if name == names[-1] else _VERNAUX.size
            offset = self._names.add(name)
            needs += _VERNAUX.pack(_sysv_hash(name), 0, index[name], offset, following)
        self.version_needs.content, self.version_needs.info = needs, 1

    def _dynamic_table(self) -> bytes:
        entries = [(elf.DT_NEEDED, self._names.add(library)) for library in self.needed]
        entries += [
            (elf.DT_SONAME, self._names.add(self.soname)),
            (elf.DT_GNU_HASH, self.hash.address),
            (elf.DT_STRTAB, self.strings.address),
            (elf.DT_SYMTAB, self.symbols.address),
            (elf.DT_STRSZ, len(self._names.data)),
            (elf.DT_SYMENT, elf.SYMBOL.size),
        ]
        if self.relocations:
            relative = sum(r.type == self.relative for r in self.relocations)
            entries += [
                (elf.DT_RELA, self.rela.address),
                (elf.DT_RELASZ, len(self.rela.content)),
                (elf.DT_RELAENT, elf.RELA.size),
                (elf.DT_RELACOUNT, relative),
            ]
        if self.version_needs.content:
            entries += [
                (elf.DT_VERSYM, self.version_of.address),
                (elf.DT_VERNEED, self.version_needs.address),
                (elf.DT_VERNEEDNUM, 1),
            ]
        entries += [
            (elf.DT_FLAGS, elf.DF_BIND_NOW),
            (elf.DT_FLAGS_1, elf.DF_1_NOW),
            (elf.DT_NULL, 0),
        ]
        return b"".join(elf.DYNAMIC.pack(*entry) for entry in entries)

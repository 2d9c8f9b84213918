"""A shared object as its loader reads it: headers, notes, sections, what it needs from others."""

import hashlib
from collections.abc import Iterator
from typing import BinaryIO, Final, NamedTuple

from weft.compiler.machine.elf import records as elf
from weft.compiler.machine.elf.checksum_trailer import (
    DIGEST_SECTION,
    TRAILER_SIZE,
    WEIGHTS_SECTION,
    checksum_trailer,
    is_trailer,
)
from weft.compiler.machine.elf.image import BUILD_ID_SIZE, digest_of_image, is_digested
from weft.dialects.errors import ArtifactError

_BLOCK: Final = 1 << 20


class Note(NamedTuple):
    """One entry of a note segment."""

    owner: bytes
    type: int
    content: bytes
    offset: int  # of the content in the file


class SharedObject:
    """The headers of a shared object, checked against the size of the file."""

    def __init__(self, file: BinaryIO, name: str) -> None:
        self._file = file
        self._name = name
        self._size = file.seek(0, 2)
        head = self.read(0, min(elf.FILE_HEADER.size, self._size))
        if len(head) < elf.FILE_HEADER.size or head[:7] != elf.IDENT[:7]:
            raise self.refuse(
                "a 64-bit little-endian shared object", f"a file that starts {head[:7]!r}"
            )
        self.header = elf.FileHeader(*elf.FILE_HEADER.unpack(head))
        if self.header.type != elf.ET_DYN:
            raise self.refuse("a shared object", f"ELF type {self.header.type}")
        self.programs = self._program_headers()
        sections = self.header.section_count * self.header.section_entry_size
        self._require(self.header.section_offset + sections)

    def refuse(self, rule: str, got: str) -> ArtifactError:
        """The error that says what is wrong with this file."""
        return ArtifactError(f"{self._name}: loader requires {rule}, got {got}")

    def read(self, offset: int, size: int) -> bytes:
        """Bytes of the file, which have to be there."""
        self._require(offset + size)
        self._file.seek(offset)
        return self._file.read(size)

    def _require(self, size: int) -> None:
        """Raises ArtifactError for a file of less bytes."""
        if size > self._size:
            raise self.refuse("a whole file", f"{self._size} bytes where {size} are due")

    def _program_headers(self) -> list[elf.ProgramHeader]:
        if self.header.program_entry_size != elf.PROGRAM_HEADER.size:
            got = f"entries of {self.header.program_entry_size} bytes"
            raise self.refuse("program headers of 56 bytes", got)
        size = self.header.program_count * elf.PROGRAM_HEADER.size
        table = self.read(self.header.program_offset, size)
        headers = [elf.ProgramHeader(*fields) for fields in elf.PROGRAM_HEADER.iter_unpack(table)]
        for header in headers:
            self._require(header.offset + header.file_size)
        return headers

    def notes(self) -> Iterator[Note]:
        """All notes of all note segments."""
        for header in self.programs:
            if header.type == elf.PT_NOTE:
                yield from self._notes_of(header)

    def _notes_of(self, header: elf.ProgramHeader) -> Iterator[Note]:
        data = self.read(header.offset, header.file_size)
        alignment = 8 if header.alignment == 8 else 4
        at = 0
        while at < len(data):
            if at + elf.NOTE.size > len(data):
                raise self.refuse("whole notes", f"one cut off at {at} of {len(data)} bytes")
            owner_size, size, note_type = elf.NOTE.unpack_from(data, at)
            owner = at + elf.NOTE.size
            start = elf.align_up(owner + owner_size, alignment)
            if start + size > len(data):
                raise self.refuse("whole notes", f"one of {size} bytes at {at} of {len(data)}")
            content = data[start : start + size]
            yield Note(
                data[owner : owner + owner_size].rstrip(b"\0"),
                note_type,
                content,
                header.offset + start,
            )
            at = elf.align_up(start + size, alignment)

    def build_id(self) -> Note:
        """The note that holds the build id."""
        for note in self.notes():
            if note.owner == b"GNU" and note.type == elf.NT_GNU_BUILD_ID:
                return note
        raise self.refuse("a build id", "none")

    def digest(self) -> bytes:
        """The build id as `digest_of_loads` makes it of what is in the file."""
        stored = self.build_id()
        first = self.header.program_offset + len(self.programs) * elf.PROGRAM_HEADER.size
        covered = filter(is_digested, self.programs)
        contents = [self._segment(load, first, stored) for load in covered]
        return digest_of_image(self.header, self.programs, contents)

    def check_build_id(self) -> None:
        """Raises ArtifactError unless the build id is the digest of what is loaded."""
        if self.build_id().content != self.digest():
            raise self.refuse(
                "the code and data that were linked", "others than its build id tells"
            )

    def _segment(self, header: elf.ProgramHeader, first: int, build_id: Note) -> bytes:
        """The bytes that the build id covers, where its own are zero."""
        start = max(header.offset, first)
        end = header.offset + header.file_size
        if end < start:
            raise self.refuse("segments after the headers", f"one that ends at {end}")
        content = bytearray(self.read(start, end - start))
        at = build_id.offset - start
        if 0 <= at < len(content):
            content[at : at + BUILD_ID_SIZE] = bytes(BUILD_ID_SIZE)
        return bytes(content)

    def blocks(self, offset: int, end: int) -> Iterator[bytes]:
        """The bytes of a range, some at a time."""
        for start in range(offset, end, _BLOCK):
            yield self.read(start, min(_BLOCK, end - start))

    def has_trailer(self) -> bool:
        """Whether a trailer is at the end, which strip takes away."""
        start = max(0, self._size - TRAILER_SIZE)
        return is_trailer(self.read(start, self._size - start))

    def check_trailer(self) -> None:
        """Raises ArtifactError unless all but the weights is as it was written; without a trailer,
        unless the file ends where its section table does.
        """
        if not self.has_trailer():
            sections = self.header.section_count * elf.SECTION_HEADER.size
            end = self.header.section_offset + sections
            if end != self._size:
                raise self.refuse("a whole file", f"{self._size} bytes where {end} are due")
            return
        start = self._size - TRAILER_SIZE
        if self.read(start, TRAILER_SIZE) != checksum_trailer(self.without_weights()):
            raise self.refuse("the file that was linked", "another than its trailer tells")

    def without_weights(self) -> Iterator[bytes]:
        """The file up to its trailer, but for the section of weights."""
        end = self._size - (TRAILER_SIZE if self.has_trailer() else 0)
        weights = self.sections().get(WEIGHTS_SECTION)
        if weights is None:
            yield from self.blocks(0, end)
        else:
            yield from self.blocks(0, weights.offset)
            yield from self.blocks(weights.offset + weights.size, end)

    def weights_digests(self) -> tuple[bytes, bytes] | None:
        """The digest of the weights that was written, and that of those in the file; None where the
        file has none.
        """
        sections = self.sections()
        weights, stored = sections.get(WEIGHTS_SECTION), sections.get(DIGEST_SECTION)
        if weights is None:
            return None
        if stored is None:
            raise self.refuse("a digest of its weights", "none")
        digest = hashlib.sha256()
        for block in self.blocks(weights.offset, weights.offset + weights.size):
            digest.update(block)
        return self.read(stored.offset, min(stored.size, 32)), digest.digest()

    def sections(self) -> dict[str, elf.SectionHeader]:
        """The sections by name; none where the section table was taken away."""
        count = self.header.section_count
        if count == 0:
            return {}
        if self.header.section_entry_size != elf.SECTION_HEADER.size:
            got = f"entries of {self.header.section_entry_size} bytes"
            raise self.refuse("section headers of 64 bytes", got)
        table = self.read(self.header.section_offset, count * elf.SECTION_HEADER.size)
        headers = [elf.SectionHeader(*each) for each in elf.SECTION_HEADER.iter_unpack(table)]
        if self.header.section_names >= count:
            got = f"section {self.header.section_names} of {count}"
            raise self.refuse("a section of names", got)
        strings = headers[self.header.section_names]
        names = self.read(strings.offset, strings.size)
        return {_text(names, each.name): each for each in headers}

    def at_address(self, address: int, size: int) -> bytes:
        """Bytes that are stored at an address once the file is loaded."""
        for load in self.programs:
            inside = address - load.address
            if load.type == elf.PT_LOAD and 0 <= inside <= load.file_size - size:
                return self.read(load.offset + inside, size)
        raise self.refuse("addresses within its segments", f"{size} bytes at {address:#x}")

    def dynamic(self) -> list[tuple[int, int]]:
        """Tags and values of the dynamic section, up to the one that ends it."""
        for segment in self.programs:
            if segment.type == elf.PT_DYNAMIC:
                whole = segment.file_size // elf.DYNAMIC.size * elf.DYNAMIC.size
                entries = list(elf.DYNAMIC.iter_unpack(self.read(segment.offset, whole)))
                tags = [tag for tag, _ in entries]
                return entries[: tags.index(elf.DT_NULL)] if elf.DT_NULL in tags else entries
        raise self.refuse("a dynamic section", "none")

    def needed(self) -> list[str]:
        """The libraries that it asks for."""
        entries = self.dynamic()
        names = self._strings(dict(entries))
        return [_text(names, value) for tag, value in entries if tag == elf.DT_NEEDED]

    def imports(self) -> list[str]:
        """The names that it takes from others."""
        return [name for name, symbol in self._symbols() if symbol.section == elf.SHN_UNDEF]

    def exports(self) -> list[str]:
        """The names that it gives to others."""
        return [name for name, symbol in self._symbols() if symbol.section != elf.SHN_UNDEF]

    def _symbols(self) -> list[tuple[str, elf.SymbolRecord]]:
        """All dynamic symbols; the table's end is known from the hash table's chains."""
        entries = dict(self.dynamic())
        names, start = self._strings(entries), entries.get(elf.DT_SYMTAB, 0)
        size = elf.SYMBOL.size
        table = self.at_address(start + size, (self._symbol_count(entries) - 1) * size)
        records = [elf.SymbolRecord(*fields) for fields in elf.SYMBOL.iter_unpack(table)]
        return [(_text(names, record.name), record) for record in records]

    def _symbol_count(self, entries: dict[int, int]) -> int:
        table = entries.get(elf.DT_GNU_HASH, 0)
        buckets, first, words, _ = self._words(table, 4)
        positions = self._words(table + 16 + 8 * words, buckets)
        number = max(positions, default=0)
        if number < first:
            return max(first, 1)
        chains = table + 16 + 8 * words + 4 * buckets
        while not self._words(chains + 4 * (number - first), 1)[0] & 1:
            number += 1
        return number + 1

    def _words(self, address: int, count: int) -> list[int]:
        data = self.at_address(address, 4 * count)
        return [int.from_bytes(data[at : at + 4], "little") for at in range(0, len(data), 4)]

    def _strings(self, entries: dict[int, int]) -> bytes:
        return self.at_address(entries.get(elf.DT_STRTAB, 0), entries.get(elf.DT_STRSZ, 0))


def _text(names: bytes, start: int) -> str:
    end = names.find(b"\0", start)
    return names[start:end].decode(errors="replace") if end >= 0 else ""

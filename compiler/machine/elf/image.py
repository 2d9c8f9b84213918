"""A shared object in memory and in its file: sections in segments, placed and written."""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from typing import BinaryIO, Final

from msgspec import Struct, field

from weft.compiler.machine.artifact.replace_file import LARGE_PAGE
from weft.compiler.machine.elf import records as elf
from weft.compiler.machine.elf.checksum_trailer import checksum_trailer

BUILD_ID_SIZE: Final = 20

_PADDING: Final = ".relro_padding"


class OutputSection(Struct, eq=False):
    """One section of the result.

    It is `content`, or `size` bytes that `stream` writes, or `size` zeros that the file leaves out.
    `address` and `offset` are known once the image is placed.
    """

    name: str
    type: int
    flags: int
    alignment: int = 1
    content: bytearray = field(default_factory=bytearray)
    size: int = 0
    stream: Callable[[BinaryIO], None] | None = None
    link: "OutputSection | None" = None
    info: int = 0
    entry_size: int = 0
    address: int = 0
    offset: int = 0

    @property
    def memory_size(self) -> int:
        """How many bytes the section takes once it is loaded."""
        return self.size or len(self.content)

    @property
    def file_size(self) -> int:
        """How many bytes the section takes in the file."""
        return 0 if self.type == elf.SHT_NOBITS else self.memory_size

    def header(self, name: int, link: int) -> elf.SectionHeader:
        """The entry of the section table; `name` and `link` are numbers of other tables."""
        return elf.SectionHeader(
            name,
            self.type,
            self.flags,
            self.address,
            self.offset,
            self.memory_size,
            link,
            self.info,
            self.alignment,
            self.entry_size,
        )

    def reserve(self, size: int, alignment: int) -> int:
        """Makes room for `size` zero bytes and returns their offset."""
        self.alignment = max(self.alignment, alignment)
        offset = elf.align_up(self.memory_size, alignment)
        if self.type == elf.SHT_NOBITS:
            self.size = offset + size
        else:
            self.content += bytes(offset + size - len(self.content))
        return offset

    def append(self, data: bytes, alignment: int) -> int:
        """Adds `data` at the next multiple of `alignment` and returns its offset."""
        offset = self.reserve(len(data), alignment)
        self.content[offset:] = data
        return offset


class Segment(Struct, frozen=True):
    """Sections that are loaded together; `sealed` ones become read-only after relocation."""

    flags: int
    sections: Sequence[OutputSection]
    sealed: bool = False


class Extra(Struct, frozen=True):
    """A program header that points at part of a segment."""

    type: int
    flags: int
    sections: Sequence[OutputSection]
    alignment: int


class Image:
    """A shared object of loadable `segments`, in the order of their addresses.

    Sections without bytes are dropped. A streamed section has to be alone in the last segment.
    """

    def __init__(
        self,
        machine: int,
        flags: int,
        page: int,
        segments: Sequence[Segment],
        extras: Sequence[Extra],
    ) -> None:
        self._machine = machine
        self._flags = flags
        self._page = page
        self._segments = [kept for segment in segments if (kept := _to_load(segment)).sections]
        self._extras = [
            extra for extra in extras if any(part.memory_size for part in extra.sections)
        ]
        self.sections = [section for segment in self._segments for section in segment.sections]
        sealed = any(segment.sealed for segment in self._segments)
        count = len(self._segments) + len(self._extras) + sealed + 1
        self._headers_size = elf.FILE_HEADER.size + count * elf.PROGRAM_HEADER.size
        self._assign_addresses()

    def _assign_addresses(self) -> None:
        """Gives every section its offset and its address.

        Offset and address stay congruent modulo the page, so segments touch in the file and yet
        start on pages of their own in memory.
        """
        offset = address = self._headers_size
        for index, segment in enumerate(self._segments):
            if index:
                page = self._page_of(segment)
                address = elf.align_up(address, page) + offset % page
            for section in segment.sections:
                address = elf.align_up(address, section.alignment)
                offset = elf.align_up(offset, section.alignment)
                section.offset, section.address = offset, address
                if section.name == _PADDING:  # the loader seals whole pages
                    section.size = -address % self._page
                offset += section.file_size
                address += section.memory_size

    def _page_of(self, segment: Segment) -> int:
        """The page of a segment: a large one where it is read from the file and has several, for
        which the loader has to map it where offsets in them are those in the file.
        """
        is_read = not segment.flags & (elf.PF_W | elf.PF_X)
        size = sum(section.file_size for section in segment.sections)
        return max(self._page, LARGE_PAGE) if is_read and size >= 2 * LARGE_PAGE else self._page

    def _load(self, segment: Segment) -> elf.ProgramHeader:
        first, last = segment.sections[0], segment.sections[-1]
        start, address = first.offset, first.address
        if segment is self._segments[0]:
            start = address = 0
        in_file = [part for part in segment.sections if part.file_size]
        file_end = in_file[-1].offset + in_file[-1].file_size if in_file else start
        return elf.ProgramHeader(
            elf.PT_LOAD,
            segment.flags,
            start,
            address,
            address,
            file_end - start,
            last.address + last.memory_size - address,
            self._page_of(segment),
        )

    def _program_headers(self) -> list[elf.ProgramHeader]:
        loads = [self._load(segment) for segment in self._segments]
        sealed = [
            load._replace(type=elf.PT_GNU_RELRO, flags=elf.PF_R, alignment=1)
            for segment, load in zip(self._segments, loads, strict=True)
            if segment.sealed
        ]
        stack = elf.ProgramHeader(elf.PT_GNU_STACK, elf.PF_R | elf.PF_W, 0, 0, 0, 0, 0, 16)
        return [*loads, *map(_extra_header, self._extras), *sealed, stack]

    def write(
        self, out: BinaryIO, build_id: OutputSection, symbols: Sequence[OutputSection]
    ) -> None:
        """Writes the file; `symbols` are the sections that no segment loads, its string table last.

        The last bytes of `build_id` become a digest of all that is loaded but not streamed; behind
        the end of the file comes its trailer.
        """
        headers = self._program_headers()
        head = self._head()
        end = build_id.offset + build_id.file_size
        loads = [header for header in headers if is_digested(header)]
        head[end - BUILD_ID_SIZE : end] = digest_of_image(
            self._file_header(len(headers), 0, 0),
            headers,
            [
                head[max(load.offset, self._headers_size) : load.offset + load.file_size]
                for load in loads
            ],
        )
        tail_offset, tail = self._tail(symbols)
        table_offset = elf.align_up(tail_offset + len(tail), 8)
        table = self._section_table(symbols)
        self._fill_headers(head, headers, self._file_header(len(headers), table_offset, len(table)))
        self._stream(out, head)
        _, tail = self._tail(symbols)  # once more: streaming gave the weights' digest
        tail += bytes(table_offset - tail_offset - len(tail))
        tail += b"".join(elf.SECTION_HEADER.pack(*section) for section in table)
        out.write(tail + checksum_trailer((head, tail)))

    def write_loaded(self, out: BinaryIO) -> None:
        """Writes what the system's loader reads, for it alone: no table of sections, no digest."""
        headers, head = self._program_headers(), self._head()
        header = self._file_header(len(headers), 0, 0)._replace(section_names=0)
        self._fill_headers(head, headers, header)
        self._stream(out, head)

    def _head(self) -> bytearray:
        """All that is loaded and not streamed, behind room for the headers."""
        kept = [section for section in self.sections if section.stream is None]
        head = bytearray(kept[-1].offset + kept[-1].file_size)
        for section in kept:
            head[section.offset : section.offset + section.file_size] = section.content
        return head

    def _fill_headers(
        self, head: bytearray, programs: Iterable[elf.ProgramHeader], header: elf.FileHeader
    ) -> None:
        packed = [elf.FILE_HEADER.pack(*header), *(elf.PROGRAM_HEADER.pack(*h) for h in programs)]
        head[: self._headers_size] = b"".join(packed)

    def _stream(self, out: BinaryIO, head: bytearray) -> None:
        """Writes the head, which is filled up to where the streamed section starts, and that."""
        streamed = [section for section in self.sections if section.stream is not None]
        for section in streamed:
            head += bytes(section.offset - len(head))
        out.write(head)
        for section in streamed:
            assert section.stream is not None, "it is streamed"
            section.stream(out)

    def _tail(self, symbols: Sequence[OutputSection]) -> tuple[int, bytes]:
        """Places the sections that are not loaded; returns where they start and their bytes."""
        last = self.sections[-1]
        start = last.offset + last.file_size
        tail = bytearray()
        for section in symbols:
            tail += bytes(-(start + len(tail)) % section.alignment)
            section.offset = start + len(tail)
            tail += section.content
        names = self._section_names(symbols).data
        return start, bytes(tail + names)

    def _section_names(self, symbols: Sequence[OutputSection]) -> elf.StringTable:
        names = elf.StringTable()
        for section in (*self.sections, *symbols):
            names.add(section.name)
        names.add(".shstrtab")
        return names

    def _section_table(self, symbols: Sequence[OutputSection]) -> list[elf.SectionHeader]:
        names = self._section_names(symbols)
        sections = [*self.sections, *symbols]
        index = {section: number for number, section in enumerate(sections, start=1)}
        table = [elf.SectionHeader(0, 0, 0, 0, 0, 0, 0, 0, 0, 0)]
        for section in sections:
            link = index[section.link] if section.link else 0
            table.append(section.header(names.add(section.name), link))
        end = sections[-1].offset + sections[-1].file_size
        name, size = names.add(".shstrtab"), len(names.data)
        return [*table, elf.SectionHeader(name, elf.SHT_STRTAB, 0, 0, end, size, 0, 0, 1, 0)]

    def _file_header(self, programs: int, table_offset: int, sections: int) -> elf.FileHeader:
        return elf.FileHeader(
            elf.IDENT,
            elf.ET_DYN,
            self._machine,
            1,
            0,
            elf.FILE_HEADER.size,
            table_offset,
            self._flags,
            elf.FILE_HEADER.size,
            elf.PROGRAM_HEADER.size,
            programs,
            elf.SECTION_HEADER.size,
            sections,
            sections - 1,
        )


def is_digested(header: elf.ProgramHeader) -> bool:
    """Whether the build id covers a segment: all that is loaded but the weights, which are
    read-only, and not the segment with the headers.
    """
    return header.type == elf.PT_LOAD and (header.flags != elf.PF_R or header.offset == 0)


def digest_of_image(
    header: elf.FileHeader,
    programs: Iterable[elf.ProgramHeader],
    contents: Iterable[bytes | bytearray],
) -> bytes:
    """The build id: a digest of what is loaded where, with which rights; strip keeps it valid.

    `contents` are those of the segments, as far as the build id covers them.
    """
    kept = header._replace(section_offset=0, section_entry_size=0, section_count=0, section_names=0)
    digest = hashlib.sha256(elf.FILE_HEADER.pack(*kept))
    for program in programs:
        digest.update(elf.PROGRAM_HEADER.pack(*program))
    for content in contents:
        digest.update(len(content).to_bytes(8, "little"))
        digest.update(content)
    return digest.digest()[:BUILD_ID_SIZE]


def _to_load(segment: Segment) -> Segment:
    kept = [section for section in segment.sections if section.memory_size]
    if kept and segment.sealed:
        writable = elf.SHF_ALLOC | elf.SHF_WRITE
        kept.append(OutputSection(_PADDING, elf.SHT_NOBITS, writable))
    return Segment(segment.flags, kept, segment.sealed)


def _extra_header(extra: Extra) -> elf.ProgramHeader:
    kept = [section for section in extra.sections if section.memory_size]
    first, last = kept[0], kept[-1]
    size = last.address + last.memory_size - first.address
    return elf.ProgramHeader(
        extra.type,
        extra.flags,
        first.offset,
        first.address,
        first.address,
        size,
        size,
        extra.alignment,
    )

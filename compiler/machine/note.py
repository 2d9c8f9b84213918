"""The note of a compiled artifact: readable without loading it, and kept by strip."""

import hashlib
from collections.abc import Iterator
from os import PathLike, fspath
from typing import BinaryIO, Final, NamedTuple

from compiler.machine import elf
from compiler.machine.elf_image import BUILD_ID_SIZE, digest_of_loads
from compiler.machine.wasm_note import MAGIC, read_wasm_note
from dialects.errors import ArtifactError

_OWNER: Final = b"weft"
_CONTENT: Final = 1
_DIGEST: Final = 2


def weft_note(content: bytes) -> bytes:
    """The section `.note.weft`: the content and a digest that shows whether it was damaged."""
    digest = hashlib.sha256(content).digest()
    return elf.pack_note(_OWNER, _CONTENT, content) + elf.pack_note(_OWNER, _DIGEST, digest)


def read_note(path: str | PathLike[str]) -> bytes:
    """What `link_shared` was given as `note`.

    Raises ArtifactError for a truncated, damaged or foreign file.
    """
    with _open(path) as file:
        if file.read(len(MAGIC)) == MAGIC:
            return read_wasm_note(path)
        notes = [n for n in _SharedObject(file, fspath(path)).notes() if n.owner == _OWNER]
    contents = [note.content for note in notes if note.kind == _CONTENT]
    digests = [note.content for note in notes if note.kind == _DIGEST]
    if not notes:
        raise ArtifactError(
            f"{fspath(path)}: loader requires an artifact of weft, got no .note.weft"
        )
    if len(contents) != 1 or digests != [hashlib.sha256(contents[0]).digest()]:
        raise ArtifactError(
            f"{fspath(path)}: loader requires an intact .note.weft, got a damaged one"
        )
    return contents[0]


def read_machine(path: str | PathLike[str]) -> str:
    """The architecture of a shared object as LLVM's triples spell it; raises as `read_note`."""
    with _open(path) as file:
        return elf.machine_name(_SharedObject(file, fspath(path)).header.machine)


def check_image(path: str | PathLike[str]) -> None:
    """Raises ArtifactError unless code and data are those that `link_shared` wrote.

    Weights are not read: their digests belong into the note.
    """
    with _open(path) as file:
        _SharedObject(file, fspath(path)).check_build_id()


def seal_image(path: str | PathLike[str]) -> None:
    """Writes the build id that `check_image` expects over the one that another linker reserved."""
    with open(path, "r+b") as file:
        shared = _SharedObject(file, fspath(path))
        place, digest = shared.build_id(), shared.digest()
        assert len(place.content) == BUILD_ID_SIZE, "the build id was reserved with the right size"
        file.seek(place.offset)
        file.write(digest)


def _open(path: str | PathLike[str]) -> BinaryIO:
    try:
        return open(path, "rb")
    except OSError as error:
        raise ArtifactError(
            f"{fspath(path)}: loader requires a readable file, got {error.strerror}"
        ) from error


class _Note(NamedTuple):
    owner: bytes
    kind: int
    content: bytes
    offset: int  # of the content in the file


class _SharedObject:
    """The headers of a shared object, checked against the size of the file."""

    def __init__(self, file: BinaryIO, name: str) -> None:
        self._file = file
        self._name = name
        self._size = file.seek(0, 2)
        head = self._read(0, min(elf.FILE_HEADER.size, self._size))
        if len(head) < elf.FILE_HEADER.size or head[:7] != elf.IDENT[:7]:
            raise self._refuse(
                "a 64-bit little-endian shared object", f"a file that starts {head[:7]!r}"
            )
        self.header = elf.FileHeader(*elf.FILE_HEADER.unpack(head))
        if self.header.kind != elf.ET_DYN:
            raise self._refuse("a shared object", f"ELF type {self.header.kind}")
        self._programs = self._program_headers()

    def _refuse(self, rule: str, facts: str) -> ArtifactError:
        return ArtifactError(f"{self._name}: loader requires {rule}, got {facts}")

    def _read(self, offset: int, size: int) -> bytes:
        if offset + size > self._size:
            facts = f"{self._size} bytes where {offset + size} are due"
            raise self._refuse("a whole file", facts)
        self._file.seek(offset)
        return self._file.read(size)

    def _program_headers(self) -> list[elf.ProgramHeader]:
        if self.header.program_entry_size != elf.PROGRAM_HEADER.size:
            facts = f"entries of {self.header.program_entry_size} bytes"
            raise self._refuse("program headers of 56 bytes", facts)
        size = self.header.program_count * elf.PROGRAM_HEADER.size
        table = self._read(self.header.program_offset, size)
        headers = [elf.ProgramHeader(*fields) for fields in elf.PROGRAM_HEADER.iter_unpack(table)]
        for header in headers:
            end = header.offset + header.file_size
            if end > self._size:
                raise self._refuse("a whole file", f"{self._size} bytes where {end} are due")
        return headers

    def notes(self) -> Iterator[_Note]:
        """All notes of all note segments."""
        for header in self._programs:
            if header.kind == elf.PT_NOTE:
                yield from self._notes_of(header)

    def _notes_of(self, header: elf.ProgramHeader) -> Iterator[_Note]:
        data = self._read(header.offset, header.file_size)
        alignment = 8 if header.alignment == 8 else 4
        at = 0
        while at < len(data):
            if at + elf.NOTE.size > len(data):
                raise self._refuse("whole notes", f"one cut off at {at} of {len(data)} bytes")
            owner_size, size, kind = elf.NOTE.unpack_from(data, at)
            owner = at + elf.NOTE.size
            start = elf.align_up(owner + owner_size, alignment)
            if start + size > len(data):
                raise self._refuse("whole notes", f"one of {size} bytes at {at} of {len(data)}")
            content = data[start : start + size]
            yield _Note(
                data[owner : owner + owner_size].rstrip(b"\0"), kind, content, header.offset + start
            )
            at = elf.align_up(start + size, alignment)

    def build_id(self) -> _Note:
        """The note that holds the build id."""
        for note in self.notes():
            if note.owner == b"GNU" and note.kind == elf.NT_GNU_BUILD_ID:
                return note
        raise self._refuse("a build id", "none")

    def digest(self) -> bytes:
        """The build id as `digest_of_loads` makes it of what is in the file."""
        stored = self.build_id()
        first = self.header.program_offset + len(self._programs) * elf.PROGRAM_HEADER.size
        # The weights are left out: read-only, and not the segment with the headers.
        covered = [
            load
            for load in self._programs
            if load.kind == elf.PT_LOAD and (load.flags != elf.PF_R or load.offset == 0)
        ]
        return digest_of_loads((load, self._segment(load, first, stored)) for load in covered)

    def check_build_id(self) -> None:
        """Raises ArtifactError unless the build id is the digest of what is loaded."""
        if self.build_id().content != self.digest():
            raise self._refuse(
                "the code and data that were linked", "others than its build id tells"
            )

    def _segment(self, header: elf.ProgramHeader, first: int, build_id: _Note) -> bytes:
        """The bytes that the build id covers, where its own are zero."""
        start = max(header.offset, first)
        end = header.offset + header.file_size
        if end < start:
            raise self._refuse("segments after the headers", f"one that ends at {end}")
        content = bytearray(self._read(start, end - start))
        at = build_id.offset - start
        if 0 <= at < len(content):
            content[at : at + BUILD_ID_SIZE] = bytes(BUILD_ID_SIZE)
        return bytes(content)

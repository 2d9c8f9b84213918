"""Objects -> a static library: a System V `ar` archive with the symbol index that linkers read."""

from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import BinaryIO, Final

from weft.compiler.machine.elf.object_file import Data, read_symbols
from weft.dialects.errors import ArtifactError

_MAGIC: Final = b"!<arch>\n"
_HEADER_SIZE: Final = 60
_LONGEST_SHORT_NAME: Final = 15


def write_archive(members: Sequence[tuple[str, Data]], out: BinaryIO) -> None:
    """Writes the static library of ELF objects, each under its file name; it is the same in every
    run.

    Raises ArtifactError for a damaged object or a name that an archive cannot hold.
    """
    for name, _ in members:
        if not name or any(character in name for character in "/\n\0"):
            raise ArtifactError(f"archive requires plain file names, got {name!r}")
    symbols = [_defined_symbols(name, data) for name, data in members]
    long_names, fields = _name_fields([name for name, _ in members])
    sizes = [_HEADER_SIZE + len(data) + len(data) % 2 for _, data in members]
    before = len(_MAGIC) + len(_index(symbols, [0] * len(members))) + len(long_names)
    offsets = list(accumulate(sizes, initial=before))[: len(members)]
    if offsets and offsets[-1] >= 1 << 32:
        raise ArtifactError(f"archive requires members below 4 GiB, got one at {offsets[-1]}")
    out.write(_MAGIC + _index(symbols, offsets) + long_names)
    for field, (_, data) in zip(fields, members, strict=True):
        out.write(_header(field, len(data), 0o644))
        out.write(data)
        out.write(_padding(len(data)))


def _defined_symbols(name: str, data: Data) -> list[str]:
    """The names by which a linker may ask for this member."""
    symbols = read_symbols(data, name)
    return [symbol.name for symbol in symbols if not symbol.is_local and symbol.is_defined]


def _name_fields(names: Iterable[str]) -> tuple[bytes, list[str]]:
    """The member that holds long names (empty if there are none), and every member's name field."""
    table = bytearray()
    fields: list[str] = []
    for name in names:
        if len(name.encode()) <= _LONGEST_SHORT_NAME:
            fields.append(f"{name}/")
        else:
            fields.append(f"/{len(table)}")
            table += name.encode() + b"/\n"
    return (_member("//", bytes(table)) if table else b""), fields


def _index(symbols: Sequence[Sequence[str]], offsets: Sequence[int]) -> bytes:
    """The member that maps symbols to the offsets of the members that define them."""
    pairs = [(name, at) for names, at in zip(symbols, offsets, strict=True) for name in names]
    numbers = [len(pairs), *(at for _, at in pairs)]
    content = b"".join(number.to_bytes(4, "big") for number in numbers)
    content += b"".join(name.encode() + b"\0" for name, _ in pairs)
    return _member("/", content, 0)


def _member(field: str, data: bytes, mode: int | None = None) -> bytes:
    """Header, content and padding."""
    return _header(field, len(data), mode) + data + _padding(len(data))


def _padding(size: int) -> bytes:
    return b"\n" * (size % 2)


def _header(field: str, size: int, mode: int | None) -> bytes:
    """The header of a member; time and owner are zero so that results repeat.

    Only the member of long names has no mode: its other fields are blank.
    """
    owner = ("0", "0", "0", f"{mode:o}") if mode is not None else ("", "", "", "")
    time, user, group, rights = owner
    encoded = field.encode()
    header = encoded + b" " * (16 - len(encoded))
    header += f"{time:<12}{user:<6}{group:<6}{rights:<8}{size:<10}`\n".encode()
    assert len(header) == _HEADER_SIZE, "an archive header has 60 bytes"
    return header

"""A relocatable ELF object -> one whose symbols start with another name: code that was compiled
once serves models of any prefix.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from weft.compiler.machine.elf import records as elf

ANY_PREFIX: Final = "<prefix>"
"""What symbols start with until the object is taken into an artifact."""


def rename_symbols(data: bytes, old: str, new: str) -> bytes:
    """The object that LLVM made, with `new` in the place of `old` at the start of names. The names
    are behind the object then, together with those that stay.
    """
    if old == new:
        return data
    return renamed(
        data, lambda name: new + name.removeprefix(old) if name.startswith(old) else name
    )


def renamed(data: bytes, new_name: Callable[[str], str]) -> bytes:
    """The object with other names of symbols, which are behind the object then."""
    head = elf.FileHeader(*elf.FILE_HEADER.unpack_from(data))
    content = bytearray(data)
    start, size = head.section_offset, elf.SECTION_HEADER.size
    places = range(start, start + head.section_count * size, size)
    headers = [elf.SectionHeader(*elf.SECTION_HEADER.unpack_from(data, each)) for each in places]
    symbols = next(each for each in headers if each.type == elf.SHT_SYMTAB)
    strings = headers[symbols.link]
    names = bytearray(data[strings.offset : strings.offset + strings.size])
    for place in range(symbols.offset, symbols.offset + symbols.size, elf.SYMBOL.size):
        record = elf.SymbolRecord(*elf.SYMBOL.unpack_from(data, place))
        name = bytes(names[record.name : names.index(b"\0", record.name)])
        new = new_name(name.decode(errors="surrogateescape")).encode(errors="surrogateescape")
        if new != name:
            elf.SYMBOL.pack_into(content, place, *record._replace(name=len(names)))
            names += new + b"\0"
    moved = strings._replace(offset=len(data), size=len(names))
    elf.SECTION_HEADER.pack_into(content, places[symbols.link], *moved)
    return bytes(content + names)

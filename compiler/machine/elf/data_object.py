"""Read-only bytes -> a relocatable ELF object that defines them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from weft.compiler.machine.elf import records as elf

ALIGNMENT: Final = 64


def data_object(contents: Mapping[str, bytes], like: bytes) -> bytes:
    """An object that defines hidden read-only bytes by name, aligned to 64, for the machine that an
    object is `like`.
    """
    names, data, symbols = elf.StringTable(), bytearray(), [bytes(elf.SYMBOL.size)]
    kind = elf.STB_GLOBAL << 4 | elf.STT_OBJECT
    for name, content in contents.items():
        data += bytes(-len(data) % ALIGNMENT)
        symbols.append(
            elf.SYMBOL.pack(names.add(name), kind, elf.STV_HIDDEN, 1, len(data), len(content))
        )
        data += content
    parts = [
        (".rodata", elf.SHT_PROGBITS, elf.SHF_ALLOC, bytes(data), 0, 0, ALIGNMENT, 0),
        (".note.GNU-stack", elf.SHT_PROGBITS, 0, b"", 0, 0, 1, 0),  # else a stack that is code
        (".symtab", elf.SHT_SYMTAB, 0, b"".join(symbols), 4, 1, 8, elf.SYMBOL.size),
    ]
    for name in (*(part[0] for part in parts), ".strtab"):
        names.add(name)
    parts.append((".strtab", elf.SHT_STRTAB, 0, bytes(names.data), 0, 0, 1, 0))
    out, headers = bytearray(elf.FILE_HEADER.size), [bytes(elf.SECTION_HEADER.size)]
    for name, section, flags, content, link, info, alignment, entry in parts:
        out += bytes(-len(out) % alignment)
        place = names.add(name), section, flags, 0, len(out), len(content)
        headers.append(elf.SECTION_HEADER.pack(*place, link, info, alignment, entry))
        out += content
    out += bytes(-len(out) % 8)
    header = elf.FileHeader(*elf.FILE_HEADER.unpack_from(like))._replace(
        section_offset=len(out), section_count=len(headers), section_names=len(headers) - 1
    )
    out[: elf.FILE_HEADER.size] = elf.FILE_HEADER.pack(*header)
    return bytes(out) + b"".join(headers)

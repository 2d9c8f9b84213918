"""The part of ELF-64, little endian, that weft reads and writes: its records and their numbers."""

from struct import Struct
from typing import Final, NamedTuple

MAGIC: Final = b"\x7fELF"
IDENT: Final = MAGIC + bytes([2, 1, 1]) + bytes(9)  # 64 bits, little endian, version 1, System V

ET_REL: Final = 1
ET_DYN: Final = 3

EM_X86_64: Final = 62
EM_AARCH64: Final = 183
EM_RISCV: Final = 243
MACHINE_NAMES: Final = {EM_X86_64: "x86_64", EM_AARCH64: "aarch64", EM_RISCV: "riscv64"}

SHT_PROGBITS: Final = 1
SHT_SYMTAB: Final = 2
SHT_STRTAB: Final = 3
SHT_RELA: Final = 4
SHT_DYNAMIC: Final = 6
SHT_NOTE: Final = 7
SHT_NOBITS: Final = 8
SHT_REL: Final = 9
SHT_DYNSYM: Final = 11
SHT_GNU_HASH: Final = 0x6FFFFFF6
SHT_GNU_VERNEED: Final = 0x6FFFFFFE
SHT_GNU_VERSYM: Final = 0x6FFFFFFF
SHT_X86_64_UNWIND: Final = 0x70000001

SHF_WRITE: Final = 0x1
SHF_ALLOC: Final = 0x2
SHF_EXECINSTR: Final = 0x4
SHF_TLS: Final = 0x400
SHF_X86_64_LARGE: Final = 0x10000000

SHN_UNDEF: Final = 0
SHN_LORESERVE: Final = 0xFF00
SHN_ABS: Final = 0xFFF1

STB_LOCAL: Final = 0
STB_GLOBAL: Final = 1
STB_WEAK: Final = 2
STT_NOTYPE: Final = 0
STT_OBJECT: Final = 1
STT_FUNC: Final = 2
STT_SECTION: Final = 3
STT_TLS: Final = 6
STV_DEFAULT: Final = 0
STV_HIDDEN: Final = 2

PT_LOAD: Final = 1
PT_DYNAMIC: Final = 2
PT_NOTE: Final = 4
PT_TLS: Final = 7
PT_GNU_EH_FRAME: Final = 0x6474E550
PT_GNU_STACK: Final = 0x6474E551
PT_GNU_RELRO: Final = 0x6474E552
PT_GNU_PROPERTY: Final = 0x6474E553

PF_X: Final = 1
PF_W: Final = 2
PF_R: Final = 4

DT_NULL: Final = 0
DT_NEEDED: Final = 1
DT_STRTAB: Final = 5
DT_SYMTAB: Final = 6
DT_RELA: Final = 7
DT_RELASZ: Final = 8
DT_RELAENT: Final = 9
DT_STRSZ: Final = 10
DT_SYMENT: Final = 11
DT_INIT: Final = 12
DT_FINI: Final = 13
DT_SONAME: Final = 14
DT_TEXTREL: Final = 22
DT_INIT_ARRAY: Final = 25
DT_FINI_ARRAY: Final = 26
DT_FLAGS: Final = 30
DT_GNU_HASH: Final = 0x6FFFFEF5
DT_VERSYM: Final = 0x6FFFFFF0
DT_RELACOUNT: Final = 0x6FFFFFF9
DT_FLAGS_1: Final = 0x6FFFFFFB
DT_VERNEED: Final = 0x6FFFFFFE
DT_VERNEEDNUM: Final = 0x6FFFFFFF
DF_BIND_NOW: Final = 8
DF_1_NOW: Final = 1

NT_GNU_BUILD_ID: Final = 3
NT_GNU_PROPERTY_TYPE_0: Final = 5
GNU_PROPERTY_X86_ISA_1_NEEDED: Final = 0xC0008002


class FileHeader(NamedTuple):
    """The first 64 bytes of the file."""

    ident: bytes
    type: int
    machine: int
    version: int
    entry: int
    program_offset: int
    section_offset: int
    flags: int
    header_size: int
    program_entry_size: int
    program_count: int
    section_entry_size: int
    section_count: int
    section_names: int


class SectionHeader(NamedTuple):
    """One section, as linkers see the file."""

    name: int
    type: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int
    entry_size: int


class ProgramHeader(NamedTuple):
    """One segment, as the loader sees the file."""

    type: int
    flags: int
    offset: int
    address: int
    physical_address: int
    file_size: int
    memory_size: int
    alignment: int


class SymbolRecord(NamedTuple):
    """One entry of a symbol table."""

    name: int
    info: int
    other: int
    section: int
    value: int
    size: int


FILE_HEADER: Final = Struct("<16sHHIQQQIHHHHHH")
SECTION_HEADER: Final = Struct("<IIQQQQIIQQ")
PROGRAM_HEADER: Final = Struct("<IIQQQQQQ")
SYMBOL: Final = Struct("<IBBHQQ")
SYMBOL_SECTION: Final = 6  # where the number of the section is in it
RELA: Final = Struct("<QQq")
DYNAMIC: Final = Struct("<qQ")
NOTE: Final = Struct("<III")


def align_up(value: int, alignment: int) -> int:
    """The least multiple of `alignment`, a power of two, that is not below `value`."""
    return (value + alignment - 1) & -alignment


def machine_name(machine: int) -> str:
    """The name of an ELF machine number as LLVM's triples spell it."""
    return MACHINE_NAMES.get(machine, f"machine {machine}")


def pack_note(owner: bytes, note_type: int, content: bytes, alignment: int = 4) -> bytes:
    """One entry of a note section; `owner` is written with its closing zero."""
    name = owner + b"\0"
    head = NOTE.pack(len(name), len(content), note_type) + name
    head += bytes(-len(head) % alignment)
    return head + content + bytes(-len(content) % alignment)


class StringTable:
    """A table of zero-terminated names, each stored once."""

    def __init__(self) -> None:
        self.data = bytearray(b"\0")
        self._offsets = {"": 0}

    def add(self, text: str) -> int:
        """The offset of `text` in the table, which it is added to on first use."""
        if text not in self._offsets:
            self._offsets[text] = len(self.data)
            self.data += text.encode() + b"\0"
        return self._offsets[text]

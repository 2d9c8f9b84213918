"""What each relocation type computes and how it is written, on x86-64 and aarch64.

Types and fields are those of the processor supplements of the System V ABI.
"""

import struct
from collections.abc import Callable, Mapping
from enum import Enum, auto
from typing import Final, NamedTuple, TypeAlias

from msgspec import Struct

from weft.compiler.machine.elf import records as elf

# encode(section, offset, value, place) writes the field at `offset`, whose address will be `place`.
Encode: TypeAlias = Callable[[bytearray, int, int, int], None]

_SIGNED32: Final = struct.Struct("<i")


class OutOfRangeError(Exception):
    """A value does not fit its field; the linker adds which symbol and type it was."""


class Base(Enum):
    """What a relocation's addend is added to."""

    NOTHING = auto()
    SYMBOL = auto()
    ABSOLUTE = auto()  # a 64-bit pointer: the loader adds where the object landed
    CALL = auto()
    GOT_SLOT = auto()
    PAIRED = auto()  # the symbol marks the instruction that has the upper bits of this value
    TLS_SLOTS = auto()  # two slots by which code finds a thread's own copy of a variable
    TLS_MODULE_SLOTS = auto()  # two by which it finds the thread's block of all such variables
    TLS_OFFSET = auto()  # of a variable in that block


THREAD_LOCAL: Final = (Base.TLS_SLOTS, Base.TLS_MODULE_SLOTS, Base.TLS_OFFSET)
"""What refers to thread-local variables, and to nothing else."""


class Rule(NamedTuple):
    """One relocation type of one machine; `width` is how many bytes it may touch."""

    name: str
    base: Base
    encode: Encode
    width: int = 4


class Machine(Struct, frozen=True):
    """What the linker knows about one architecture; `page` is the largest that its systems use.

    `thread_local` is the type by which the loader fills the two slots of a thread-local variable.
    The second slot is the variable's offset less `tls_bias`; where that is None the loader fills
    both, and is told the offset by the addend.
    """

    number: int
    page: int
    rules: Mapping[int, Rule]
    relative: int
    absolute: int
    glob_dat: int
    stub: Callable[[int, int], bytes]
    versions: Mapping[str, str]
    thread_local: int
    tls_bias: int | None


def require(fits: bool, value: int, field: str) -> None:
    if not fits:
        raise OutOfRangeError(f"{value:#x} for {field}")


def signed(value: int, bits: int) -> int:
    require(-(1 << bits - 1) <= value < 1 << bits - 1, value, f"a signed field of {bits} bits")
    return value & (1 << bits) - 1


def put(section: bytearray, offset: int, size: int, value: int) -> None:
    section[offset : offset + size] = (value & (1 << 8 * size) - 1).to_bytes(size, "little")


def leave(section: bytearray, offset: int, value: int, position: int) -> None:
    """Leaves the place as it is."""


def put_relative64(section: bytearray, offset: int, value: int, position: int) -> None:
    put(section, offset, 8, value - position)


def put_relative32(section: bytearray, offset: int, value: int, position: int) -> None:
    put_offset32(section, offset, value - position, position)


def put_offset32(section: bytearray, offset: int, value: int, position: int) -> None:
    try:
        _SIGNED32.pack_into(section, offset, value)
    except struct.error as error:
        raise OutOfRangeError(f"{value:#x} for a signed field of 32 bits") from error


def insert(section: bytearray, offset: int, mask: int, bits: int) -> None:
    """Replaces the bits under `mask` of the instruction at `offset`."""
    word = int.from_bytes(section[offset : offset + 4], "little")
    put(section, offset, 4, word & ~mask | bits & mask)


def _insert_adr(section: bytearray, offset: int, immediate: int) -> None:
    """Writes the split immediate of adr and adrp."""
    insert(section, offset, 0x60FFFFE0, (immediate & 3) << 29 | (immediate >> 2) << 5)


def _adrp(section: bytearray, offset: int, value: int, position: int) -> None:
    pages = (value >> 12) - (position >> 12)
    _insert_adr(section, offset, signed(pages, 21))


def _adr(section: bytearray, offset: int, value: int, position: int) -> None:
    _insert_adr(section, offset, signed(value - position, 21))


def _add_low12(section: bytearray, offset: int, value: int, position: int) -> None:
    insert(section, offset, 0xFFF << 10, (value & 0xFFF) << 10)


def _load_low12(scale: int) -> Encode:
    """The offset of a load or store of `1 << scale` bytes, which counts in such units."""

    def encode(section: bytearray, offset: int, value: int, position: int) -> None:
        require(value % (1 << scale) == 0, value, f"an offset in units of {1 << scale} bytes")
        insert(section, offset, 0xFFF << 10, (value & 0xFFF) >> scale << 10)

    return encode


def _branch(bits: int, shift: int) -> Encode:
    """A distance in instructions of 4 bytes, `bits` wide, at bit `shift` of the instruction."""

    def encode(section: bytearray, offset: int, value: int, position: int) -> None:
        distance = value - position
        require(distance % 4 == 0, distance, "a distance in units of 4 bytes")
        mask = (1 << bits) - 1
        insert(section, offset, mask << shift, signed(distance >> 2, bits) << shift)

    return encode


def _x86_64_stub(stub: int, slot: int) -> bytes:
    """`jmp *slot(%rip)`, padded with int3."""
    code = bytearray(b"\xff\x25\0\0\0\0".ljust(16, b"\xcc"))
    put_relative32(code, 2, slot - 4, stub + 2)
    return bytes(code)


def _aarch64_stub(stub: int, slot: int) -> bytes:
    """`adrp x16, slot; ldr x17, [x16, #slot]; br x17; nop`."""
    words = (0x90000010, 0xF9400211, 0xD61F0220, 0xD503201F)
    code = bytearray(b"".join(word.to_bytes(4, "little") for word in words))
    _adrp(code, 0, slot, stub)
    _load_low12(3)(code, 4, slot, stub + 4)
    return bytes(code)


STUB_SIZE: Final = 16

# An unversioned import binds to the oldest version of a symbol. For these of x86-64's C library
# the oldest one has another interface or data structure than its headers have described since.
_X86_64_VERSIONS: Final = {
    **{
        f"pthread_cond_{verb}": "GLIBC_2.3.2"
        for verb in ("broadcast", "destroy", "init", "signal", "timedwait", "wait")
    },
    "pthread_getaffinity_np": "GLIBC_2.3.4",
    "pthread_setaffinity_np": "GLIBC_2.3.4",
    "sched_getaffinity": "GLIBC_2.3.4",
    "sched_setaffinity": "GLIBC_2.3.4",
    "realpath": "GLIBC_2.3",
}

X86_64: Final = Machine(
    number=elf.EM_X86_64,
    page=0x1000,
    rules={
        0: Rule("R_X86_64_NONE", Base.NOTHING, leave, 0),
        1: Rule("R_X86_64_64", Base.ABSOLUTE, leave, 8),
        2: Rule("R_X86_64_PC32", Base.SYMBOL, put_relative32),
        4: Rule("R_X86_64_PLT32", Base.CALL, put_relative32),
        9: Rule("R_X86_64_GOTPCREL", Base.GOT_SLOT, put_relative32),
        19: Rule("R_X86_64_TLSGD", Base.TLS_SLOTS, put_relative32),
        20: Rule("R_X86_64_TLSLD", Base.TLS_MODULE_SLOTS, put_relative32),
        21: Rule("R_X86_64_DTPOFF32", Base.TLS_OFFSET, put_offset32),
        24: Rule("R_X86_64_PC64", Base.SYMBOL, put_relative64, 8),
        41: Rule("R_X86_64_GOTPCRELX", Base.GOT_SLOT, put_relative32),
        42: Rule("R_X86_64_REX_GOTPCRELX", Base.GOT_SLOT, put_relative32),
    },
    relative=8,
    absolute=1,
    glob_dat=6,
    stub=_x86_64_stub,
    versions=_X86_64_VERSIONS,
    thread_local=16,
    tls_bias=0,
)

AARCH64: Final = Machine(
    number=elf.EM_AARCH64,
    page=0x10000,
    rules={
        0: Rule("R_AARCH64_NONE", Base.NOTHING, leave, 0),
        257: Rule("R_AARCH64_ABS64", Base.ABSOLUTE, leave, 8),
        260: Rule("R_AARCH64_PREL64", Base.SYMBOL, put_relative64, 8),
        261: Rule("R_AARCH64_PREL32", Base.SYMBOL, put_relative32),
        273: Rule("R_AARCH64_LD_PREL_LO19", Base.SYMBOL, _branch(19, 5)),
        274: Rule("R_AARCH64_ADR_PREL_LO21", Base.SYMBOL, _adr),
        275: Rule("R_AARCH64_ADR_PREL_PG_HI21", Base.SYMBOL, _adrp),
        277: Rule("R_AARCH64_ADD_ABS_LO12_NC", Base.SYMBOL, _add_low12),
        278: Rule("R_AARCH64_LDST8_ABS_LO12_NC", Base.SYMBOL, _load_low12(0)),
        279: Rule("R_AARCH64_TSTBR14", Base.CALL, _branch(14, 5)),
        280: Rule("R_AARCH64_CONDBR19", Base.CALL, _branch(19, 5)),
        282: Rule("R_AARCH64_JUMP26", Base.CALL, _branch(26, 0)),
        283: Rule("R_AARCH64_CALL26", Base.CALL, _branch(26, 0)),
        284: Rule("R_AARCH64_LDST16_ABS_LO12_NC", Base.SYMBOL, _load_low12(1)),
        285: Rule("R_AARCH64_LDST32_ABS_LO12_NC", Base.SYMBOL, _load_low12(2)),
        286: Rule("R_AARCH64_LDST64_ABS_LO12_NC", Base.SYMBOL, _load_low12(3)),
        299: Rule("R_AARCH64_LDST128_ABS_LO12_NC", Base.SYMBOL, _load_low12(4)),
        311: Rule("R_AARCH64_ADR_GOT_PAGE", Base.GOT_SLOT, _adrp),
        312: Rule("R_AARCH64_LD64_GOT_LO12_NC", Base.GOT_SLOT, _load_low12(3)),
        314: Rule("R_AARCH64_PLT32", Base.CALL, put_relative32),
        562: Rule("R_AARCH64_TLSDESC_ADR_PAGE21", Base.TLS_SLOTS, _adrp),
        563: Rule("R_AARCH64_TLSDESC_LD64_LO12", Base.TLS_SLOTS, _load_low12(3)),
        564: Rule("R_AARCH64_TLSDESC_ADD_LO12", Base.TLS_SLOTS, _add_low12),
        569: Rule("R_AARCH64_TLSDESC_CALL", Base.TLS_SLOTS, leave),
    },
    relative=1027,
    absolute=257,
    glob_dat=1025,
    stub=_aarch64_stub,
    versions={},
    thread_local=1031,
    tls_bias=None,
)

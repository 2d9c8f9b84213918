"""Relocations of 64-bit RISC-V; types and fields are those of the RISC-V ELF psABI.

An address is made of two instructions: the first adds the upper 20 bits of a distance to the
program counter, the second the lower 12, and its relocation names the first.
"""

from __future__ import annotations

from typing import Final

from weft.compiler.machine.elf import records as elf
from weft.compiler.machine.elf.relocation import (
    Base,
    Encode,
    Machine,
    Rule,
    insert,
    leave,
    put,
    put_relative32,
    require,
    signed,
)


def _upper(value: int) -> int:
    """The upper 20 bits of a distance, in place, so that a signed lower part completes them."""
    signed(value + 0x800, 32)
    return value + 0x800 & 0xFFFFF000


def _hi20(section: bytearray, offset: int, value: int, position: int) -> None:
    insert(section, offset, 0xFFFFF000, _upper(value - position))


def _lo12_i(section: bytearray, offset: int, value: int, position: int) -> None:
    insert(section, offset, 0xFFF << 20, (value - position & 0xFFF) << 20)


def _lo12_s(section: bytearray, offset: int, value: int, position: int) -> None:
    low = value - position & 0xFFF
    insert(section, offset, 0xFE000F80, low >> 5 << 25 | (low & 0x1F) << 7)


def _call(section: bytearray, offset: int, value: int, position: int) -> None:
    """`auipc` and the `jalr` behind it."""
    _hi20(section, offset, value, position)
    _lo12_i(section, offset + 4, value, position)


def _scattered(bits: int, width: int, pieces: tuple[tuple[int, int, int], ...]) -> Encode:
    """A signed distance of `bits` bits in halves of instructions: `count` of its bits from bit
    `source` on go to bit `to` of an instruction of `width` bytes.
    """
    mask = sum((1 << count) - 1 << to for _, count, to in pieces)

    def encode(section: bytearray, offset: int, value: int, position: int) -> None:
        distance = value - position
        require(distance % 2 == 0, distance, "a distance in units of 2 bytes")
        field = signed(distance, bits)
        word = int.from_bytes(section[offset : offset + width], "little") & ~mask
        for source, count, to in pieces:
            word |= (field >> source & (1 << count) - 1) << to
        put(section, offset, width, word)

    return encode


_branch = _scattered(13, 4, ((12, 1, 31), (5, 6, 25), (1, 4, 8), (11, 1, 7)))
_jal = _scattered(21, 4, ((20, 1, 31), (1, 10, 21), (11, 1, 20), (12, 8, 12)))
_short_branch = _scattered(9, 2, ((8, 1, 12), (3, 2, 10), (6, 2, 5), (1, 2, 3), (5, 1, 2)))
_short_jump = _scattered(
    12, 2,
    ((11, 1, 12), (4, 1, 11), (8, 2, 9), (10, 1, 8), (6, 1, 7), (7, 1, 6), (1, 3, 3), (5, 1, 2)),
)  # fmt: skip


def _sum(width: int, sign: int) -> Encode:
    """Adds to what is there, or subtracts from it: how differences of labels are written."""

    def encode(section: bytearray, offset: int, value: int, position: int) -> None:
        present = int.from_bytes(section[offset : offset + width], "little")
        put(section, offset, width, present + sign * value)

    return encode


def _set(width: int) -> Encode:
    def encode(section: bytearray, offset: int, value: int, position: int) -> None:
        put(section, offset, width, value)

    return encode


def _set6(section: bytearray, offset: int, value: int, position: int) -> None:
    section[offset] = section[offset] & 0xC0 | value & 0x3F


def _sub6(section: bytearray, offset: int, value: int, position: int) -> None:
    section[offset] = section[offset] & 0xC0 | section[offset] - value & 0x3F


def _stub(stub: int, slot: int) -> bytes:
    """`auipc t3, slot; ld t3, slot(t3); jr t3; nop`."""
    words = (0x00000E17, 0x000E3E03, 0x000E0067, 0x00000013)
    code = bytearray(b"".join(word.to_bytes(4, "little") for word in words))
    _call(code, 0, slot, stub)
    return bytes(code)


RISCV64: Final = Machine(
    number=elf.EM_RISCV,
    page=0x1000,
    rules={
        0: Rule("R_RISCV_NONE", Base.NOTHING, leave, 0),
        2: Rule("R_RISCV_64", Base.ABSOLUTE, leave, 8),
        16: Rule("R_RISCV_BRANCH", Base.SYMBOL, _branch),
        17: Rule("R_RISCV_JAL", Base.CALL, _jal),
        18: Rule("R_RISCV_CALL", Base.CALL, _call, 8),
        19: Rule("R_RISCV_CALL_PLT", Base.CALL, _call, 8),
        20: Rule("R_RISCV_GOT_HI20", Base.GOT_SLOT, _hi20),
        22: Rule("R_RISCV_TLS_GD_HI20", Base.TLS_SLOTS, _hi20),
        23: Rule("R_RISCV_PCREL_HI20", Base.SYMBOL, _hi20),
        24: Rule("R_RISCV_PCREL_LO12_I", Base.PAIRED, _lo12_i),
        25: Rule("R_RISCV_PCREL_LO12_S", Base.PAIRED, _lo12_s),
        33: Rule("R_RISCV_ADD8", Base.SYMBOL, _sum(1, 1), 1),
        34: Rule("R_RISCV_ADD16", Base.SYMBOL, _sum(2, 1), 2),
        35: Rule("R_RISCV_ADD32", Base.SYMBOL, _sum(4, 1)),
        36: Rule("R_RISCV_ADD64", Base.SYMBOL, _sum(8, 1), 8),
        37: Rule("R_RISCV_SUB8", Base.SYMBOL, _sum(1, -1), 1),
        38: Rule("R_RISCV_SUB16", Base.SYMBOL, _sum(2, -1), 2),
        39: Rule("R_RISCV_SUB32", Base.SYMBOL, _sum(4, -1)),
        40: Rule("R_RISCV_SUB64", Base.SYMBOL, _sum(8, -1), 8),
        44: Rule("R_RISCV_RVC_BRANCH", Base.SYMBOL, _short_branch, 2),
        45: Rule("R_RISCV_RVC_JUMP", Base.SYMBOL, _short_jump, 2),
        51: Rule("R_RISCV_RELAX", Base.NOTHING, leave, 0),
        52: Rule("R_RISCV_SUB6", Base.SYMBOL, _sub6, 1),
        53: Rule("R_RISCV_SET6", Base.SYMBOL, _set6, 1),
        54: Rule("R_RISCV_SET8", Base.SYMBOL, _set(1), 1),
        55: Rule("R_RISCV_SET16", Base.SYMBOL, _set(2), 2),
        56: Rule("R_RISCV_SET32", Base.SYMBOL, _set(4)),
        57: Rule("R_RISCV_32_PCREL", Base.SYMBOL, put_relative32),
        59: Rule("R_RISCV_PLT32", Base.CALL, put_relative32),
    },
    relative=3,
    absolute=2,
    glob_dat=2,
    stub=_stub,
    versions={},
    thread_local=7,
    tls_bias=0x800,
)

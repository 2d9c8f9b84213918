"""The formats of floating-point numbers that the mathematics is written for."""

from __future__ import annotations

import struct

from msgspec import Struct


class Format(Struct, frozen=True):
    """An IEEE 754 binary format: its name, its width and its stored significand bits."""

    name: str
    bits: int
    fraction_bits: int

    @property
    def precision(self) -> int:
        """Significand bits, the hidden one included."""
        return self.fraction_bits + 1

    @property
    def bias(self) -> int:
        """The exponent field of 1.0, which is also the largest exponent."""
        return (1 << (self.bits - self.precision - 1)) - 1

    @property
    def smallest_normal(self) -> float:
        """The least positive number with a full significand."""
        return 2.0 ** (1 - self.bias)

    def encode(self, value: float) -> int:
        """The bit pattern of `value` rounded to this format."""
        if self.bits == 64:
            return struct.unpack("<Q", struct.pack("<d", value))[0]
        return struct.unpack("<I", struct.pack("<f", value))[0]


F32 = Format("f32", 32, 23)
F64 = Format("f64", 64, 52)

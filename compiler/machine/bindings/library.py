"""The shared object that a generated file is for."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from weft.compiler.machine.artifact.signature import Signature

INTEGERS: Final = tuple(f"{u}int{bits}" for u in ("", "u") for bits in (8, 16, 32, 64))
"""The types of integers by NumPy's names."""


class Library(Struct, frozen=True):
    """The file `lib<stem>.so` of a model, whose functions start with the prefix; `version` is the
    model's own.
    """

    prefix: str
    stem: str
    signature: Signature
    version: int = 0

    @property
    def name(self) -> str:
        """What the file is called."""
        return f"lib{self.stem}.so"

"""Weights as bytes that a link defines and streams into its result, never held in memory whole."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import BinaryIO, Final

from compiler.machine import elf
from compiler.machine.elf_image import OutputSection
from dialects.errors import ArtifactError

# What loaders align an image to, whatever its headers ask for.
SMALLEST_PAGE: Final = 4096


@dataclass(frozen=True)
class WeightBlob:
    """Read-only bytes that the link defines under a hidden symbol.

    `write` puts exactly `size` bytes into the file that it is given, once, while the result is
    written; `alignment` is a power of two of at most 4096. Code reaches a blob at any distance when
    it declares the symbol `external` with default visibility (a slot of the global offset table),
    or keeps its address in initialised writable data.
    """

    symbol: str
    size: int
    alignment: int
    write: Callable[[BinaryIO], None]


def weights_section(weights: Sequence[WeightBlob]) -> tuple[OutputSection, list[int]]:
    """The section of all blobs and their offsets in it."""
    section = OutputSection(".weights", elf.SHT_PROGBITS, elf.SHF_ALLOC)
    offsets: list[int] = []
    for blob in weights:
        if blob.alignment not in (1 << power for power in range(13)) or blob.size < 0:
            raise ArtifactError(
                f"linker requires a size and an alignment of a power of two up to {SMALLEST_PAGE}, "
                f"got {blob.size} and {blob.alignment} for weights '{blob.symbol}'"
            )
        section.alignment = max(section.alignment, blob.alignment)
        offsets.append(elf.align_up(section.size, blob.alignment))
        section.size = offsets[-1] + blob.size
    section.stream = partial(_stream, weights)
    return section, offsets


def _stream(weights: Sequence[WeightBlob], out: BinaryIO) -> None:
    start = out.tell()
    for blob in weights:
        out.write(bytes(-(out.tell() - start) % blob.alignment))
        before = out.tell()
        blob.write(out)
        written = out.tell() - before
        if written != blob.size:
            raise ArtifactError(
                f"linker requires {blob.size} bytes of weights '{blob.symbol}', got {written}"
            )

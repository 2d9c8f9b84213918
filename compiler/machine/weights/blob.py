"""Weights as bytes that a link defines and streams into its result, never held in memory whole."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, BinaryIO, Final, Protocol, cast

from msgspec import Struct

from weft.compiler.deferred import deferred
from weft.compiler.machine.elf import records as elf
from weft.compiler.machine.elf.checksum_trailer import DIGEST_SECTION, WEIGHTS_SECTION
from weft.compiler.machine.elf.image import OutputSection
from weft.dialects.errors import ArtifactError

if TYPE_CHECKING:
    from concurrent import futures
else:
    futures = deferred("concurrent.futures")

# What loaders align an image to, whatever its headers ask for.
SMALLEST_PAGE: Final = 4096

LARGE: Final = 1 << 18
"""Bytes for which another thread is worth its start."""

_HOLE: Final = memoryview(bytes(1 << 20))


class WeightBlob(Struct, frozen=True):
    """Read-only bytes that the link defines under a hidden symbol.

    `write` puts exactly `size` bytes into the file that it is given, once, while the result is
    written; `alignment` is a power of two of at most 4096. Code reaches a blob at any distance when
    it declares the symbol `external` with default visibility (a slot of the global offset table),
    or keeps its address in initialised writable data. `digest` is the SHA-256 of the bytes, where
    that is known.
    """

    symbol: str
    size: int
    alignment: int
    write: Callable[[BinaryIO], None]
    digest: bytes | None = None


def weights_section(
    weights: Sequence[WeightBlob],
) -> tuple[OutputSection, OutputSection, list[int]]:
    """The section of all blobs, that of its digest, and the offsets of the blobs; the digest is
    filled in when the blobs have been streamed.
    """
    section = OutputSection(WEIGHTS_SECTION, elf.SHT_PROGBITS, elf.SHF_ALLOC)
    digest = OutputSection(DIGEST_SECTION, elf.SHT_PROGBITS, 0)
    digest.content += bytes(hashlib.sha256().digest_size if weights else 0)
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
    section.stream = partial(_stream, weights, digest)
    return section, digest, offsets


class Hash(Protocol):
    """What sums up bytes that it is given one after the other."""

    def update(self, data: memoryview, /) -> None:
        """Takes the next bytes."""
        ...

    def digest(self) -> bytes:
        """The sum of all of them."""
        ...


class HashingFile:
    """A file that hashes what is written to it and hands it on; large pieces are hashed by another
    thread while they are written.
    """

    def __init__(self, out: BinaryIO, hasher: Hash | None = None) -> None:
        self._out = out
        self._hash = hashlib.sha256() if hasher is None else hasher

    @cached_property
    def _background(self) -> futures.Executor:
        return futures.ThreadPoolExecutor(1)

    def tell(self) -> int:
        """The position in the file behind it."""
        return self._out.tell()

    def write(self, content: bytes | bytearray | memoryview) -> int:
        """Writes all of the content."""
        data = memoryview(content)
        if data.nbytes < LARGE:
            self._hash.update(data)
            return self._out.write(data)
        hashed = self._background.submit(self._hash.update, data)
        try:
            return self._out.write(data)
        finally:
            hashed.result()

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Leaves a hole, which reads as zeros; goes forward from where it is alone."""
        assert whence == os.SEEK_CUR, "what is hashed is written in order"
        for start in range(0, offset, len(_HOLE)):
            self._hash.update(_HOLE[: offset - start])
        return self._out.seek(offset, whence)

    def digest(self) -> bytes:
        """The sum of all that was written, SHA-256 unless another was asked for."""
        return self._hash.digest()


def _stream(weights: Sequence[WeightBlob], digest: OutputSection, file: BinaryIO) -> None:
    known = weights[0].digest if len(weights) == 1 else None
    hashing = HashingFile(file)
    out = file if known else cast("BinaryIO", hashing)
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
    if weights:
        digest.content[:] = known or hashing.digest()

"""The metadata in a WebAssembly module: a custom section, with a digest of its content."""

from __future__ import annotations

import hashlib
from os import PathLike, fspath
from typing import BinaryIO, Final

from dialects.errors import ArtifactError

MAGIC: Final = b"\0asm\x01\0\0\0"

_NAME: Final = b"weft"
_DIGEST: Final = hashlib.sha256().digest_size


def wasm_note(content: bytes) -> bytes:
    """The custom section's content: its name, a digest, and the metadata."""
    return bytes([len(_NAME)]) + _NAME + hashlib.sha256(content).digest() + content


def read_wasm_note(path: str | PathLike[str]) -> bytes:
    """What `link_wasm` was given as `note`. Raises ArtifactError for a damaged or foreign file."""
    name = fspath(path)
    with open(path, "rb") as file:
        file.seek(0, 2)
        size = file.tell()
        file.seek(len(MAGIC))
        while file.tell() < size:
            kind, length = file.read(1)[0], _unsigned(file, name)
            end = file.tell() + length
            if end > size:
                raise ArtifactError(
                    f"{name}: loader requires a whole file, got {size} bytes of {end}"
                )
            if kind == 0 and file.read(1 + len(_NAME)) == bytes([len(_NAME)]) + _NAME:
                digest = file.read(_DIGEST)
                content = file.read(end - file.tell())
                if hashlib.sha256(content).digest() != digest:
                    raise ArtifactError(
                        f"{name}: loader requires intact metadata, got damaged ones"
                    )
                return content
            file.seek(end)
    raise ArtifactError(f"{name}: loader requires an artifact of weft, got no section 'weft'")


def _unsigned(file: BinaryIO, name: str) -> int:
    value = shift = 0
    while True:
        byte = file.read(1)
        if not byte or shift > 28:
            raise ArtifactError(f"{name}: loader requires whole sections, got a damaged one")
        value |= (byte[0] & 0x7F) << shift
        shift += 7
        if byte[0] < 0x80:
            return value

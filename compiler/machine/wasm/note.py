"""The metadata in a WebAssembly module: a custom section, with a digest of its content."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from os import PathLike, fspath
from typing import BinaryIO, Final

from weft.dialects.errors import ArtifactError

MAGIC: Final = b"\0asm\x01\0\0\0"

_NAME: Final = b"weft"
_TRAILER: Final = b"weft.digest"
_CUSTOM, _IMPORT, _EXPORT = 0, 2, 7
_BLOCK: Final = 1 << 20
_DIGEST: Final = hashlib.sha256().digest_size


def wasm_note(content: bytes) -> bytes:
    """The custom section's content: its name, a digest, and the metadata."""
    return bytes([len(_NAME)]) + _NAME + hashlib.sha256(content).digest() + content


def wasm_trailer(digest: bytes) -> bytes:
    """The last section of a module, whole: the SHA-256 of all before it."""
    content = bytes([len(_TRAILER)]) + _TRAILER + digest
    return bytes([_CUSTOM, len(content)]) + content


def read_wasm_note(path: str | PathLike[str]) -> bytes:
    """What `link_wasm` was given as `note`. Raises ArtifactError for a damaged or foreign file."""
    name = fspath(path)
    with open(path, "rb") as file:
        for section_id, end in _sections(file, name):
            if section_id == _CUSTOM and file.read(1 + len(_NAME)) == bytes([len(_NAME)]) + _NAME:
                digest = file.read(_DIGEST)
                content = file.read(end - file.tell())
                if hashlib.sha256(content).digest() != digest:
                    raise _refuse(name, "intact metadata", "damaged ones")
                return content
    raise _refuse(name, "an artifact of weft", "no section 'weft'")


def check_wasm(path: str | PathLike[str]) -> list[str]:
    """The functions that a module exports. Raises ArtifactError unless it is what `link_wasm`
    wrote, to the last byte, and imports nothing.
    """
    name = fspath(path)
    with open(path, "rb") as file:
        size = file.seek(0, 2)
        trailer = len(wasm_trailer(bytes(_DIGEST)))
        digest = hashlib.sha256()
        file.seek(0)
        for start in range(0, max(0, size - trailer), _BLOCK):
            digest.update(file.read(min(_BLOCK, size - trailer - start)))
        if file.read() != wasm_trailer(digest.digest()):
            raise _refuse(name, "the module that was linked", "another than its digest tells")
        exports: list[str] = []
        for section_id, end in _sections(file, name):
            if section_id == _IMPORT:
                raise _refuse(name, "a module that imports nothing", "one that does")
            if section_id == _EXPORT:
                exports = _exports(file, name, end)
    return exports


def _exports(file: BinaryIO, name: str, end: int) -> list[str]:
    names: list[str] = []
    for _ in range(_unsigned(file, name)):
        names.append(file.read(_unsigned(file, name)).decode())
        file.read(1)
        _unsigned(file, name)
    if file.tell() != end:
        raise _refuse(name, "whole sections", "a damaged one")
    return names


def _sections(file: BinaryIO, name: str) -> Iterator[tuple[int, int]]:
    """The kind of each section and where it ends, with the file at its content."""
    size = file.seek(0, 2)
    end = len(MAGIC)
    while end < size:
        file.seek(end)
        section_id, length = file.read(1)[0], _unsigned(file, name)
        end = file.tell() + length
        if end > size:
            raise _refuse(name, "a whole file", f"{size} bytes of {end}")
        yield section_id, end


def _refuse(name: str, rule: str, got: str) -> ArtifactError:
    return ArtifactError(f"{name}: loader requires {rule}, got {got}")


def _unsigned(file: BinaryIO, name: str) -> int:
    value = shift = 0
    while True:
        byte = file.read(1)
        if not byte or shift > 28:
            raise _refuse(name, "whole sections", "a damaged one")
        value |= (byte[0] & 0x7F) << shift
        shift += 7
        if byte[0] < 0x80:
            return value

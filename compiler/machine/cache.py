"""Compiled models on disk, and kernels on their own for models that share them, found by a hash of
everything that they were made from.

An entry is one file that appears when it is complete, so that processes need no locks:

    magic, size of the head, CRC-32 of all that follows, head (JSON), objects, weights

The check is for what disks and crashes do; it is the cheapest that finds it, since weights are
large. An entry of a kernel is the SHA-256 of what follows, and that.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import mmap
import os
import struct
import time
import warnings
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final, cast

from compiler.machine.artifact import Compiled, replacing
from compiler.machine.signature import Signature
from compiler.machine.stored_weights import StoredWeights
from compiler.machine.weight_blob import HashingFile
from compiler.machine.weights import ALIGNMENT, WeightSource
from compiler.target.target import Target
from dialects.errors import ArtifactError, OptionError

SUFFIX: Final = ".weft"
KERNEL_SUFFIX: Final = ".weft-kernel"
DEFAULT_LIMIT: Final = 4 << 30

_MAGIC: Final = b"weftbin2"
_DIGEST_SIZE: Final = 32
_FRONT: Final = struct.Struct("<8sQQ")
_BLOCK: Final = 1 << 20
_ABANDONED: Final = 3600
"""Seconds after which a file that never became an entry belongs to a process that died."""


class CacheWarning(UserWarning):
    """The cache could not be written; the model was compiled all the same."""


@dataclass(frozen=True)
class Cache:
    """Entries in a folder; when they take more than `limit` bytes, those unused longest go."""

    folder: Path
    limit: int = DEFAULT_LIMIT

    def find(self, key: str, target: Target) -> Compiled | None:
        """The entry of that key, whose weights stay in the file; None where there is none that is
        whole.
        """
        path = self._path(key)
        try:
            with path.open("rb") as file:
                data = _map(file) if _is_whole(file) else None
            os.utime(path)
        except OSError:
            return None
        return None if data is None else _read(data, target)

    def keep(self, key: str, compiled: Compiled) -> Compiled:
        """Stores a compiled model; returns it as the cache has it, or as it was, with a
        CacheWarning, where it cannot be stored.
        """
        path = self._path(key)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with replacing(path) as out:
                _write(compiled, out)
            self._shrink(path)
            with path.open("rb") as file:
                data = _map(file)
        except (OSError, ArtifactError) as error:
            rule = "cache requires a folder that can be written"
            warnings.warn(f"{rule}, got {error}", CacheWarning, stacklevel=2)
            return compiled
        return _read(data, compiled.target)

    def find_kernel(self, key: str) -> bytes | None:
        """The bytes that were kept under that key; None where there are none that are whole."""
        path = self._path(key, KERNEL_SUFFIX)
        try:
            data = path.read_bytes()
            os.utime(path)
        except OSError:
            return None
        content = data[_DIGEST_SIZE:]
        return content if data[:_DIGEST_SIZE] == hashlib.sha256(content).digest() else None

    def keep_kernel(self, key: str, data: bytes) -> None:
        """Stores bytes where that is possible; `keep` warns of a folder that cannot be written."""
        with contextlib.suppress(OSError, ArtifactError):
            self.folder.mkdir(parents=True, exist_ok=True)
            with replacing(self._path(key, KERNEL_SUFFIX)) as out:
                out.write(hashlib.sha256(data).digest() + data)

    def _path(self, key: str, suffix: str = SUFFIX) -> Path:
        return self.folder / f"{key}{suffix}"

    def _shrink(self, newest: Path) -> None:
        """Removes what was used longest ago; another process may do the same at the same time."""
        entries: list[tuple[float, int, Path]] = []
        for path in self.folder.iterdir():
            with contextlib.suppress(FileNotFoundError):
                status = path.stat()
                if path.suffix in (SUFFIX, KERNEL_SUFFIX):
                    entries.append((status.st_mtime, status.st_size, path))
                elif SUFFIX in path.name and status.st_mtime < time.time() - _ABANDONED:
                    path.unlink()
        excess = sum(size for _, size, _ in entries) - self.limit
        for _, size, path in sorted(entries):
            if excess <= 0:
                return
            if path != newest:
                path.unlink(missing_ok=True)
                excess -= size


def default_cache(environment: Mapping[str, str]) -> Cache:
    """The user's cache: $WEFT_CACHE_DIR, $XDG_CACHE_HOME/weft or ~/.cache/weft, of at most
    $WEFT_CACHE_LIMIT bytes. Raises OptionError for a limit that is no number.
    """
    limit = environment.get("WEFT_CACHE_LIMIT") or str(DEFAULT_LIMIT)
    if not limit.isdecimal():
        raise OptionError(f"WEFT_CACHE_LIMIT requires a number of bytes, got {limit}")
    if environment.get("WEFT_CACHE_DIR"):
        return Cache(Path(environment["WEFT_CACHE_DIR"]), int(limit))
    base = environment.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Cache(Path(base) / "weft", int(limit))


def cache_key(parts: Iterable[str]) -> str:
    """The key of what these parts describe, which have to be told apart by their order."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _map(file: BinaryIO) -> memoryview:
    """The bytes of a file, which stay when it is removed."""
    return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


def _write(compiled: Compiled, out: BinaryIO) -> None:
    """Streams an entry; its checksum is filled in when all is written."""
    content: dict[str, Any] = {
        "prefix": compiled.prefix,
        "metadata": compiled.metadata,
        "objects": [[name, len(data)] for name, data in compiled.objects.items()],
        "exports": compiled.exports,
        "libc": sorted(compiled.libc),
        "weights": [
            [each.key, each.transform, each.elements, each.dtype]
            for each in compiled.weights.sources
        ],
    }
    head = json.dumps(content).encode()
    out.write(_FRONT.pack(_MAGIC, len(head), 0))
    summed = HashingFile(out, checksum := _Checksum())
    summed.write(head)
    for data in compiled.objects.values():
        summed.write(data)
    for blob in compiled.blobs():
        summed.write(bytes(-out.tell() % ALIGNMENT))
        blob.write(cast("BinaryIO", summed))
    out.seek(0)
    out.write(_FRONT.pack(_MAGIC, len(head), checksum.value))


@dataclass
class _Checksum:
    """A CRC-32 in the manner of hashlib."""

    value: int = 0

    def update(self, data: memoryview, /) -> None:
        self.value = zlib.crc32(data, self.value)

    def digest(self) -> bytes:
        return self.value.to_bytes(4, "little")


def _checksum(file: BinaryIO) -> int:
    """Of all that follows the front; read, not mapped, which would keep it in memory."""
    file.seek(_FRONT.size)
    checksum = 0
    while block := file.read(_BLOCK):
        checksum = zlib.crc32(block, checksum)
    return checksum


def _is_whole(file: BinaryIO) -> bool:
    """Whether these are the bytes that were written."""
    front = file.read(_FRONT.size)
    if len(front) < _FRONT.size:
        return False
    magic, _, checksum = _FRONT.unpack(front)
    return magic == _MAGIC and checksum == _checksum(file)


def _read(data: memoryview, target: Target) -> Compiled:
    """The model of an entry that is whole."""
    head_size: int = _FRONT.unpack_from(data)[1]
    position = _FRONT.size + head_size
    head = json.loads(bytes(data[_FRONT.size : position]))
    objects: dict[str, bytes] = {}
    for name, size in head["objects"]:
        objects[name] = bytes(data[position : position + size])
        position += size
    sources = [WeightSource(*each) for each in head["weights"]]
    return Compiled(
        head["prefix"],
        target,
        Signature.from_json(head["metadata"]),
        objects,
        tuple(head["exports"]),
        frozenset(head["libc"]),
        StoredWeights(sources, data[position + -position % ALIGNMENT :]),
        head["metadata"],
    )

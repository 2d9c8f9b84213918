"""Compiled models on disk, found by a hash of everything that they were made from.

An entry is one file that appears when it is complete:

    magic, size of the head, start of the weights, SHA-256 of sizes, head and objects,
    SHA-256 of the weights, head (JSON), objects, weights

The weights' digest is the one that artifacts carry.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import struct
import sys
import time
import warnings
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO, Final, cast

import msgspec

from weft.compiler.machine.artifact.artifact import Compiled
from weft.compiler.machine.artifact.replace_file import replacing
from weft.compiler.machine.artifact.signature import Signature
from weft.compiler.machine.artifact.store import (
    LARGE,
    TICK,
    CacheWarning,
    Store,
    file_key,
    make_private,
    note_use,
    store_settings,
)
from weft.compiler.machine.weights.blob import HashingFile
from weft.compiler.machine.weights.cached import StoredWeights
from weft.compiler.machine.weights.prepare import ALIGNMENT, WeightSource
from weft.compiler.machine.weights.prepared import PreparedWeights
from weft.compiler.target.target import Target
from weft.dialects.errors import ArtifactError

_MAGIC: Final = b"weftbin3"
_FRONT: Final = struct.Struct("<8sQQ32s32s")
_SIZES: Final = struct.Struct("<QQ")
_BLOCK: Final = 1 << 20


class Cache(Store, frozen=True, dict=True):
    """A store of compiled models too."""

    def find(self, key: str, target: Target) -> Compiled | None:
        """The entry of that key, whose weights stay in the file; None where there is none that is
        whole.
        """
        path = self.path_of(key)
        try:
            if not self.is_trusted:
                return None
            with path.open("rb") as file:
                whole = self._is_known(path, file) or _is_whole(file)
                data = _map(file) if whole else None
            note_use(path)
        except OSError:
            return None
        return None if data is None else _read(data, target)

    def keep(self, key: str, compiled: Compiled) -> Compiled:
        """Stores a compiled model; returns it as the cache has it, whose weights are in the file,
        or as it was where it has none, or with a CacheWarning where it cannot be stored. What only
        this process can run is not.
        """
        if compiled.only_here:
            return compiled
        path = self.path_of(key)
        try:
            make_private(self.folder)
            if not self.is_trusted:
                return compiled
            with replacing(path) as out:
                _write(compiled, out)
            self.keep_limit(path)
            with path.open("rb") as file:
                self._know(path, file)
                if not compiled.weights.sources:
                    return compiled
                data = _map(file)
        except (OSError, ArtifactError) as error:
            rule = "cache requires a folder that can be written"
            warnings.warn(f"{rule}, got {error}", CacheWarning, stacklevel=2)
            return compiled
        return _read(data, compiled.target)

    def _is_known(self, path: Path, file: BinaryIO) -> bool:
        """Whether this entry was written in whole, and not since the machine was started."""
        key = file_key("entry", path, os.fstat(file.fileno()))
        return key is not None and self.find_kernel(key) is not None

    def _know(self, path: Path, file: BinaryIO) -> None:
        """Remembers a large entry that was written in whole. Its time is set back, so that whatever
        is written into it from now on gives it another.
        """
        if os.fstat(file.fileno()).st_size < LARGE:
            return
        now = time.time_ns()
        os.utime(path, ns=(now, now - TICK))
        key = file_key("entry", path, os.fstat(file.fileno()))
        if key is not None:
            self.keep_kernel(key, b"whole")


def default_cache(environment: Mapping[str, str]) -> Cache:
    """The user's cache. Raises OptionError as `store_settings` does."""
    return _cache_of(*store_settings(environment))


@lru_cache(maxsize=8)
def _cache_of(folder: Path, limit: int) -> Cache:
    """One for all compilations of a process, which asks once whether it is to be trusted."""
    return Cache(folder, limit)


def _map(file: BinaryIO) -> memoryview:
    """The bytes of a file, which stay when it is removed. A small one is read: each that is mapped
    takes a descriptor, of which a process has a thousand.
    """
    if os.fstat(file.fileno()).st_size < LARGE:
        file.seek(0)
        return memoryview(file.read())
    return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


def description(compiled: Compiled) -> dict[str, Any]:
    """All of a compiled model but code and weights, in JSON's types."""
    return {
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


def compiled_of(
    head: Mapping[str, Any], objects: memoryview, weights: PreparedWeights, target: Target
) -> Compiled:
    """The compiled model of a description, the objects that it lists, and weights."""
    code: dict[str, bytes] = {}
    position = 0
    for name, size in head["objects"]:
        code[name] = bytes(objects[position : position + size])
        position += size
    return Compiled(
        head["prefix"],
        target,
        Signature.from_json(head["metadata"]),
        code,
        tuple(head["exports"]),
        frozenset(head["libc"]),
        weights,
        head["metadata"],
    )


def _write(compiled: Compiled, out: BinaryIO) -> None:
    """Streams an entry; its digests are filled in when all is written."""
    head = msgspec.json.encode(description(compiled))
    size = _FRONT.size + len(head) + sum(map(len, compiled.objects.values()))
    padding = -size % ALIGNMENT
    sizes = len(head), size + padding
    out.write(bytes(_FRONT.size))
    described = HashingFile(out, hashlib.sha256(_SIZES.pack(*sizes)))
    for part in (head, *compiled.objects.values(), bytes(padding)):
        described.write(part)
    weights = HashingFile(out)
    for blob in compiled.blobs():
        blob.write(cast("BinaryIO", weights))
    out.seek(0)
    out.write(_FRONT.pack(_MAGIC, *sizes, described.digest(), weights.digest()))


def _is_whole(file: BinaryIO) -> bool:
    """Whether these are the bytes that were written."""
    front = file.read(_FRONT.size)
    if len(front) < _FRONT.size:
        return False
    magic, head_size, start, *digests = _FRONT.unpack(front)
    described, weights = hashlib.sha256(_SIZES.pack(head_size, start)), hashlib.sha256()
    for block in _blocks(file, start - _FRONT.size):
        described.update(block)
    for block in _blocks(file):
        weights.update(block)
    return magic == _MAGIC and digests == [described.digest(), weights.digest()]


def _blocks(file: BinaryIO, size: int = sys.maxsize) -> Iterator[bytes]:
    """The next bytes of a file, or all that follow; read, not mapped, which would keep them in
    memory.
    """
    while size > 0 and (block := file.read(min(_BLOCK, size))):
        size -= len(block)
        yield block


def _read(data: memoryview, target: Target) -> Compiled:
    """The model of an entry that is whole."""
    _, head_size, start, _, digest = _FRONT.unpack_from(data)
    position = _FRONT.size + head_size
    head = json.loads(bytes(data[_FRONT.size : position]))
    sources = [WeightSource(*each) for each in head["weights"]]
    weights = StoredWeights(sources, data[start:], digest)
    return compiled_of(head, data[position:start], weights, target)

"""Compiled models on disk, and kernels on their own for models that share them, found by a hash of
everything that they were made from.

An entry is one file that appears when it is complete, so that processes need no locks:

    magic, size of the head, start of the weights, SHA-256 of sizes, head and objects,
    SHA-256 of the weights, head (JSON), objects, weights

The weights' digest is the one that artifacts carry. An entry of a kernel
is the SHA-256 of what follows, and that.

Large files are not read again to see what is in them as long as nothing says that they have
changed: neither place, size and times nor a restart of the machine, after which a file may be other
than it was when it was read.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import mmap
import os
import stat
import struct
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, cached_property
from pathlib import Path
from typing import Any, BinaryIO, Final, cast

from msgspec import Struct

from weft.compiler.machine.artifact.artifact import Compiled
from weft.compiler.machine.artifact.cache_folder import cache_folder
from weft.compiler.machine.artifact.replace_file import replacing
from weft.compiler.machine.artifact.signature import Signature
from weft.compiler.machine.weights.blob import HashingFile
from weft.compiler.machine.weights.cached import StoredWeights
from weft.compiler.machine.weights.prepare import ALIGNMENT, WeightSource
from weft.compiler.target.target import Target
from weft.dialects.errors import ArtifactError, OptionError

SUFFIX: Final = ".weft"
KERNEL_SUFFIX: Final = ".weft-kernel"
DEFAULT_LIMIT: Final = 4 << 30

_MAGIC: Final = b"weftbin3"
_DIGEST_SIZE: Final = 32
_FRONT: Final = struct.Struct("<8sQQ32s32s")
_SIZES: Final = struct.Struct("<QQ")
_BLOCK: Final = 1 << 20
_ABANDONED: Final = 3600
"""Seconds after which a file that never became an entry belongs to a process that died."""

_LARGE: Final = 1 << 20
"""Bytes from which on it takes longer to read a file than to look up what is known of it."""

_LOOKS: Final = 64
"""How often a process that writes as much as the limit looks at what is there."""

_WRITTEN: Final[dict[Path, int]] = {}
"""Bytes of models that this process wrote into a folder since it looked at its entries."""

_TICK: Final = 2_000_000_000
"""Nanoseconds within which two changes of a file may leave the same time, on any file system."""


class CacheWarning(UserWarning):
    """The cache could not be written; the model was compiled all the same."""


class Cache(Struct, frozen=True, dict=True):
    """Entries in a folder; when they take more than `limit` bytes, and a 64th of it at most, those
    unused longest go.

    What is in a cache is loaded and run. So its folder has to belong to this user, or to root, and
    nobody else may write to it; nor may everybody to a folder that it is in, but for those where
    nobody may remove what is not theirs, such as /tmp. Another folder is not used, which a
    CacheWarning tells; one that is not there yet is made for this user alone.
    """

    folder: Path
    limit: int = DEFAULT_LIMIT

    @cached_property
    def is_trusted(self) -> bool:
        """Whether nobody else may put anything into the folder, which is there. Raises OSError."""
        wrong = _distrust(self.folder.resolve())
        if wrong:
            rule = "cache requires a folder that only its user may write to"
            warnings.warn(f"{rule}, got {wrong}; it is not used", CacheWarning, stacklevel=3)
        return not wrong

    def find(self, key: str, target: Target) -> Compiled | None:
        """The entry of that key, whose weights stay in the file; None where there is none that is
        whole.
        """
        path = self._path(key)
        try:
            if not self.is_trusted:
                return None
            with path.open("rb") as file:
                whole = self._is_known(path, file) or _is_whole(file)
                data = _map(file) if whole else None
            _used(path)
        except OSError:
            return None
        return None if data is None else _read(data, target)

    def remembered(self, subject: str, path: Path, find: Callable[[], bytes]) -> bytes:
        """What `find` gives for a file's contents, which is remembered under `subject` for a large
        file. Raises OSError for a file that is not there.
        """
        status = path.stat()
        settled = max(status.st_mtime_ns, status.st_ctime_ns) < time.time_ns() - _TICK
        key = _file_key(subject, path, status, status.st_ctime_ns)
        if key is None or not settled:
            return find()
        cached = self.find_kernel(key)
        if cached is None:
            self.keep_kernel(key, cached := find())
        return cached

    def keep(self, key: str, compiled: Compiled) -> Compiled:
        """Stores a compiled model; returns it as the cache has it, or as it was, with a
        CacheWarning, where it cannot be stored.
        """
        path = self._path(key)
        try:
            _make_private(self.folder)
            if not self.is_trusted:
                return compiled
            with replacing(path) as out:
                _write(compiled, out)
            self._limit(path)
            with path.open("rb") as file:
                self._know(path, file)
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
            if not self.is_trusted:
                return None
            data = path.read_bytes()
            _used(path)
        except OSError:
            return None
        content = data[_DIGEST_SIZE:]
        return content if data[:_DIGEST_SIZE] == hashlib.sha256(content).digest() else None

    def keep_kernel(self, key: str, data: bytes) -> None:
        """Stores bytes where that is possible; `keep` warns of a folder that cannot be written."""
        with contextlib.suppress(OSError, ArtifactError):
            _make_private(self.folder)
            if self.is_trusted:
                with replacing(self._path(key, KERNEL_SUFFIX)) as out:
                    out.write(hashlib.sha256(data).digest() + data)

    def _is_known(self, path: Path, file: BinaryIO) -> bool:
        """Whether this entry was written in whole, and not since the machine was started."""
        key = _file_key("entry", path, os.fstat(file.fileno()))
        return key is not None and self.find_kernel(key) is not None

    def _know(self, path: Path, file: BinaryIO) -> None:
        """Remembers an entry that was written in whole. Its time is set back, so that whatever is
        written into it from now on gives it another.
        """
        now = time.time_ns()
        os.utime(path, ns=(now, now - _TICK))
        key = _file_key("entry", path, os.fstat(file.fileno()))
        if key is not None:
            self.keep_kernel(key, b"whole")

    def _path(self, key: str, suffix: str = SUFFIX) -> Path:
        return self.folder / f"{key}{suffix}"

    def _limit(self, newest: Path) -> None:
        """Keeps the limit, to a part of it: to look at all entries takes as long as a small model
        does to compile, so this process looks once, and again when it has written that part.
        """
        written = _WRITTEN.get(self.folder, self.limit) + newest.stat().st_size
        if written * _LOOKS >= self.limit:
            self._shrink(newest)
            written = 0
        _WRITTEN[self.folder] = written

    def _shrink(self, newest: Path) -> None:
        """Removes what was used longest ago; another process may do the same at the same time."""
        entries: list[tuple[float, int, str]] = []
        for entry in os.scandir(self.folder):
            with contextlib.suppress(FileNotFoundError):
                status = entry.stat()
                if entry.name.endswith((SUFFIX, KERNEL_SUFFIX)):
                    entries.append((status.st_atime, status.st_size, entry.path))
                elif SUFFIX in entry.name and status.st_mtime < time.time() - _ABANDONED:
                    os.unlink(entry.path)
        excess = sum(size for _, size, _ in entries) - self.limit
        for _, size, path in sorted(entries):
            if excess <= 0:
                return
            if path != str(newest):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(path)
                excess -= size


def _make_private(folder: Path) -> None:
    if not folder.parent.exists():
        _make_private(folder.parent)
    folder.mkdir(mode=0o700, exist_ok=True)


def _distrust(folder: Path) -> str:
    """Who else may write to a folder, in words; nothing where nobody may."""
    status = folder.stat()
    if status.st_uid not in (0, os.geteuid()):
        return f"{folder} of the user {status.st_uid}"
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return f"{folder} of mode {stat.S_IMODE(status.st_mode):o} (chmod 700 makes it one)"
    for parent in folder.parents:
        mode = parent.stat().st_mode
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            return f"{folder} in {parent} of mode {stat.S_IMODE(mode):o}"
    return ""


def default_cache(environment: Mapping[str, str]) -> Cache:
    """The user's cache: $WEFT_CACHE_DIR, $XDG_CACHE_HOME/weft or ~/.cache/weft, of at most
    $WEFT_CACHE_LIMIT bytes. Raises OptionError for a limit that is no number.
    """
    limit = environment.get("WEFT_CACHE_LIMIT") or str(DEFAULT_LIMIT)
    if not limit.isdecimal():
        raise OptionError(f"WEFT_CACHE_LIMIT requires a number of bytes, got {limit}")
    return Cache(cache_folder(environment), int(limit))


def cache_key(parts: Iterable[str]) -> str:
    """The key of what these parts describe, which have to be told apart by their order."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _map(file: BinaryIO) -> memoryview:
    """The bytes of a file, which stay when it is removed. A small one is read: each that is mapped
    takes a descriptor, of which a process has a thousand.
    """
    if os.fstat(file.fileno()).st_size < _LARGE:
        file.seek(0)
        return memoryview(file.read())
    return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


def _used(path: Path) -> None:
    """Notes that an entry was used; its time of change stays."""
    os.utime(path, ns=(time.time_ns(), path.stat().st_mtime_ns))


def _file_key(subject: str, path: Path, status: os.stat_result, *more: int) -> str | None:
    """The key of what is known of a large file as it is, until the machine starts again."""
    start = _start_of_machine()
    if status.st_size < _LARGE or start is None:
        return None
    same = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, *more)
    return cache_key([subject, start, os.path.realpath(path), *map(str, same)])


@cache
def _start_of_machine() -> str | None:
    """What tells one start of the machine from another; None where nothing does."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text()
    except OSError:
        return None


def _write(compiled: Compiled, out: BinaryIO) -> None:
    """Streams an entry; its digests are filled in when all is written."""
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
        StoredWeights(sources, data[start:], digest),
        head["metadata"],
    )

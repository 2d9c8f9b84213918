"""Bytes on disk by key, for this user alone: what was compiled, and what is known of files.

An entry is one file that appears when it is complete, so that processes need no locks: the SHA-256
of what follows, and that. Large files are not read again to see what is in them as long as nothing
says that they have changed: neither place, size and times nor a restart of the machine, after which
a file may be other than it was when it was read.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import stat
import time
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from functools import cache, cached_property
from pathlib import Path
from typing import Final

from msgspec import Struct

from weft.compiler.machine.artifact.cache_folder import cache_folder
from weft.compiler.machine.artifact.replace_file import replacing
from weft.dialects.errors import ArtifactError, OptionError

SUFFIX: Final = ".weft"
KERNEL_SUFFIX: Final = ".weft-kernel"
DEFAULT_LIMIT: Final = 4 << 30

LARGE: Final = 1 << 20
"""Bytes from which on it takes longer to read a file than to look up what is known of it."""

TICK: Final = 2_000_000_000
"""Nanoseconds within which two changes of a file may leave the same time, on any file system."""

_DIGEST_SIZE: Final = 32
_ABANDONED: Final = 3600
"""Seconds after which a file that never became an entry belongs to a process that died."""

_LOOKS: Final = 64
"""How often a process that writes as much as the limit looks at what is there."""

_WRITTEN: Final[dict[Path, int]] = {}
"""Bytes that this process wrote into a folder since it looked at its entries."""


class CacheWarning(UserWarning):
    """The cache could not be written; the model was compiled all the same."""


class Entry(Struct, frozen=True):
    """A file of a store: when it was used last, its bytes, its path, and the end of its name."""

    used: float
    size: int
    path: str
    suffix: str

    def remove(self) -> None:
        """Removes it; another process may do the same at the same time."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path)


class Store(Struct, frozen=True, dict=True):
    """Entries in a folder; when they take more than `limit` bytes, and a 64th of it at most, those
    unused longest go.

    What is in a store is loaded and run. So its folder has to belong to this user, or to root, and
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

    def remembered(self, subject: str, path: Path, find: Callable[[], bytes]) -> bytes:
        """What `find` gives for a file's contents, which is remembered under `subject` for a large
        file. Raises OSError for a file that is not there.
        """
        status = path.stat()
        settled = max(status.st_mtime_ns, status.st_ctime_ns) < time.time_ns() - TICK
        key = file_key(subject, path, status, status.st_ctime_ns)
        if key is None or not settled:
            return find()
        cached = self.find_kernel(key)
        if cached is None:
            self.keep_kernel(key, cached := find())
        return cached

    def find_kernel(self, key: str) -> bytes | None:
        """The bytes that were kept under that key; None where there are none that are whole."""
        path = self.path_of(key, KERNEL_SUFFIX)
        try:
            if not self.is_trusted:
                return None
            data = path.read_bytes()
            note_use(path)
        except OSError:
            return None
        content = data[_DIGEST_SIZE:]
        return content if data[:_DIGEST_SIZE] == hashlib.sha256(content).digest() else None

    def keep_kernel(self, key: str, data: bytes) -> None:
        """Stores bytes where that is possible; `keep` warns of a folder that cannot be written."""
        with contextlib.suppress(OSError, ArtifactError):
            make_private(self.folder)
            if self.is_trusted:
                path = self.path_of(key, KERNEL_SUFFIX)
                with replacing(path) as out:
                    out.write(hashlib.sha256(data).digest() + data)
                self.keep_limit(path)

    def path_of(self, key: str, suffix: str = SUFFIX) -> Path:
        """Where the entry of a key is."""
        return self.folder / f"{key}{suffix}"

    @contextlib.contextmanager
    def alone(self, key: str) -> Generator[None]:
        """Lets one process or thread at a time make the entry of a key; others wait, until it has
        ended, however it ends. They do not where the folder cannot be written.
        """
        try:
            make_private(self.folder)
            file = self.path_of(key, f"{SUFFIX}.lock").open("ab")
        except OSError:
            yield
            return
        with file:
            fcntl.flock(file, fcntl.LOCK_EX)
            try:
                yield
            finally:
                fcntl.flock(file, fcntl.LOCK_UN)  # a process that was forked meanwhile has it, too

    def keep_limit(self, newest: Path) -> None:
        """Keeps the limit, to a part of it: to look at all entries takes as long as a small model
        does to compile, so this process looks once, and again when it has written that part.
        """
        written = _WRITTEN.get(self.folder, self.limit) + newest.stat().st_size
        if written * _LOOKS >= self.limit:
            self._shrink(newest)
            written = 0
        _WRITTEN[self.folder] = written

    def _shrink(self, newest: Path) -> None:
        """Removes what was used longest ago."""
        entries = sorted(self.entries(), key=lambda each: each.used)
        excess = sum(each.size for each in entries) - self.limit
        for entry in entries:
            if excess <= 0:
                return
            if entry.path != str(newest):
                entry.remove()
                excess -= entry.size

    def entries(self) -> Iterator[Entry]:
        """What is there. Files that never became an entry go, once they are old. Raises OSError."""
        for file in os.scandir(self.folder):
            with contextlib.suppress(FileNotFoundError):
                status = file.stat()
                suffix = os.path.splitext(file.name)[1]
                if suffix in (SUFFIX, KERNEL_SUFFIX):
                    yield Entry(status.st_atime, status.st_size, file.path, suffix)
                elif SUFFIX in file.name and status.st_mtime < time.time() - _ABANDONED:
                    os.unlink(file.path)


def make_private(folder: Path) -> None:
    """Makes a folder for this user alone, unless it is there."""
    if folder.is_dir():
        return
    if not folder.parent.exists():
        make_private(folder.parent)
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


def store_settings(environment: Mapping[str, str]) -> tuple[Path, int]:
    """The user's folder: $WEFT_CACHE_DIR, $XDG_CACHE_HOME/weft or ~/.cache/weft, and the limit of
    $WEFT_CACHE_LIMIT bytes. Raises OptionError for a limit that is no number.
    """
    limit = environment.get("WEFT_CACHE_LIMIT") or str(DEFAULT_LIMIT)
    if not limit.isdecimal():
        raise OptionError(f"WEFT_CACHE_LIMIT requires a number of bytes, got {limit}")
    return cache_folder(environment), int(limit)


def default_store(environment: Mapping[str, str]) -> Store:
    """The user's store. Raises OptionError as `store_settings` does."""
    return Store(*store_settings(environment))


def cache_key(parts: Iterable[str]) -> str:
    """The key of what these parts describe, which have to be told apart by their order."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def note_use(path: Path) -> None:
    """Notes that an entry was used; its time of change stays."""
    os.utime(path, ns=(time.time_ns(), path.stat().st_mtime_ns))


def file_key(subject: str, path: Path, status: os.stat_result, *more: int) -> str | None:
    """The key of what is known of a large file as it is, until the machine starts again."""
    start = start_of_machine()
    if status.st_size < LARGE or start is None:
        return None
    same = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, *more)
    return cache_key([subject, start, os.path.realpath(path), *map(str, same)])


@cache
def start_of_machine() -> str | None:
    """What tells one start of the machine from another; None where nothing does."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text()
    except OSError:
        return None

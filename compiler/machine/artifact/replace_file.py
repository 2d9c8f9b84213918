"""Files that appear, or change, only when they are complete."""

from __future__ import annotations

import contextlib
import io
import os
import stat
from collections.abc import Callable, Generator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, cast

import numpy as np
import numpy.typing as npt
from typing_extensions import Buffer

from weft.compiler.deferred import deferred
from weft.dialects.errors import ArtifactError

if TYPE_CHECKING:
    from concurrent import futures
else:
    futures = deferred("concurrent.futures")

Bytes = npt.NDArray[np.uint8]

LARGE_PAGE: Final = 2 << 20
"""Bytes of the pages that processors have beside the small ones."""

_BLOCK: Final = 1 << 20
"""Bytes that are compared at a time, which stay in a cache meanwhile."""


class _LargePages(io.BufferedRandom):
    """A file that is written in whole large pages: Linux keeps it in such pages then, as far as its
    file system has them, and whoever maps it reads through fewer entries of the TLB.
    """

    def __init__(self, raw: io.FileIO) -> None:
        super().__init__(raw, LARGE_PAGE)

    def write(self, content: Buffer, /) -> int:
        """Writes all of the content; whole pages of it without copying them first."""
        data = memoryview(content).cast("B")
        position = self.tell()
        end = position + len(data)
        while position < end:
            left = data[len(data) - (end - position) :]
            room = LARGE_PAGE - position % LARGE_PAGE
            if room == LARGE_PAGE <= len(left):
                self.flush()
                position += self.raw.write(left[: len(left) // LARGE_PAGE * LARGE_PAGE])
            else:
                position += super().write(left[:room])
                if position % LARGE_PAGE == 0:
                    self.flush()
        return len(data)


@contextlib.contextmanager
def replacing(path: Path, mode: int = 0o644) -> Generator[BinaryIO]:
    """A file that takes its name only when it is complete; it replaces another of that name.
    Raises ArtifactError where that is none: a device, which root could replace, a pipe or a folder.
    """
    if path.exists() and not path.is_file():
        raise ArtifactError(f"{path} requires a regular file or a free name, got another kind")
    try:
        name = f"{path.parent}{os.sep}.{path.name}.{os.urandom(8).hex()}"
        descriptor = os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        rule = "requires a folder that can be written"
        raise ArtifactError(f"{path} {rule}, got {error.strerror}") from error
    try:
        with _LargePages(io.FileIO(descriptor, "w+b")) as out:
            yield cast("BinaryIO", out)
        os.chmod(name, mode)
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)
        raise


@contextlib.contextmanager
def rewriting(path: Path, mode: int = 0o644) -> Generator[BinaryIO]:
    """`replacing` for what is written from the start to the end, and is often there already: a file
    of just these bytes stays, and gets only the time and the mode that it would have got.
    """
    with contextlib.ExitStack() as files:
        old = files.enter_context(_own_file(path))
        background = files.enter_context(futures.ThreadPoolExecutor(1))
        out = _Rewriting(old, background, lambda: files.enter_context(replacing(path, mode)))
        yield cast("BinaryIO", out)
        if out.is_unchanged():
            os.chmod(path, mode)
            os.utime(path)


def _own_file(path: Path) -> BinaryIO:
    """A regular file of this user, to read; an empty one where there is no such file."""
    with contextlib.suppress(OSError):
        status = path.lstat()
        if stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid():
            return path.open("rb", buffering=0)
    return open(os.devnull, "rb", buffering=0)


class _Rewriting:
    """A file that begins as another does: it is made when what is written to it differs. Another
    thread, `beside`, compares half of what is large.
    """

    def __init__(
        self, old: BinaryIO, background: futures.Executor, create: Callable[[], BinaryIO]
    ) -> None:
        self._old = old.fileno()
        self._background = background
        self._create = create
        self._same = 0
        self._new: BinaryIO | None = None

    def tell(self) -> int:
        """The position in the file."""
        return self._same if self._new is None else self._new.tell()

    def write(self, content: bytes | bytearray | memoryview) -> int:
        """Writes all of the content."""
        data = memoryview(content).cast("B")
        if self._new is None and self._is_next(data):
            self._same += len(data)
            return len(data)
        return self._started().write(data)

    def is_unchanged(self) -> bool:
        """Whether all that was written is all that there was; else the file is made by now."""
        if self._new is None and os.pread(self._old, 1, self._same):
            self._started()
        return self._new is None

    def _is_next(self, data: memoryview) -> bool:
        """Whether these are the next bytes of the other file."""
        if len(data) <= _BLOCK:
            return _is_at(self._old, self._same, data)
        middle = len(data) // 2
        rest = self._background.submit(_is_at, self._old, self._same + middle, data[middle:])
        return _is_at(self._old, self._same, data[:middle]) and rest.result()

    def _started(self) -> BinaryIO:
        """The file itself, with what was the same so far."""
        if self._new is None:
            self._new = self._create()
            while (left := self._same - self._new.tell()) > 0:
                block = os.pread(self._old, min(_BLOCK, left), self._new.tell())
                if not block:
                    raise ArtifactError("export requires that nobody else writes the file, got one")
                self._new.write(block)
        return self._new


def _is_at(file: int, offset: int, data: memoryview) -> bool:
    """Whether a file has these bytes there. Only what it really holds when it is read counts:
    somebody may cut it off at any time.
    """
    block = np.empty(min(_BLOCK, len(data)), np.uint8)
    for start in range(0, len(data), _BLOCK):
        due = np.frombuffer(data[start : start + _BLOCK], np.uint8)
        there = block[: due.size]
        if os.preadv(file, [there.data], offset + start) != due.size or not _are_equal(due, there):
            return False
    return True


def _are_equal(left: Bytes, right: Bytes) -> bool:
    """Whether two runs of bytes are the same: compared by words, of which there are fewer."""
    words = left.size - left.size % 8
    return np.array_equal(left[:words].view(np.uint64), right[:words].view(np.uint64)) and (
        np.array_equal(left[words:], right[words:])
    )

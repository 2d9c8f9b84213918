"""One pool of threads for all contexts of this process that compute with the same number of them. A
call has the workers while no other call has them, and its own thread else: several callers start no
more threads than one.
"""

from __future__ import annotations

import ctypes
import os
import threading
import weakref
from typing import Any, Final, Protocol

from weft.compiler.abi.constants import MOST_THREADS, THREADS_VARIABLE
from weft.compiler.abi.structs import OPTIONS
from weft.compiler.target.usable_cores import usable_cores
from weft.dialects.errors import ArtifactError

_POOLS: Final[weakref.WeakValueDictionary[tuple[int, int], ThreadPool]] = (
    weakref.WeakValueDictionary()
)
"""By process, for a fork copies no threads, and number of threads."""

_ONCE: Final = threading.Lock()


class Options(ctypes.Structure):
    """What a context is created from."""

    _fields_ = OPTIONS.ctypes_fields


class Library(Protocol):
    """Loaded code: addresses by symbol."""

    def address(self, symbol: str) -> int:
        """Where an exported function lies. Raises ArtifactError where there is none."""
        ...


class ThreadPool:
    """Workers that end with this object. Their code is that of an artifact, which is held; none of
    its weights is. `shortage` says what could not be started.
    """

    def __init__(self, library: Library, prefix: str, threads: int):
        create, self.loop, end, reason = (
            library.address(f"{prefix}_{name}")
            for name in ("create_pool", "parallel_for", "destroy", "last_error")
        )
        pointer = ctypes.c_void_p
        options = Options(size=ctypes.sizeof(Options), threads=threads)
        self.context: int | None = ctypes.CFUNCTYPE(pointer, pointer)(create)(ctypes.byref(options))
        said = ctypes.CFUNCTYPE(ctypes.c_char_p, pointer)(reason)(self.context)
        self.shortage = said.decode()
        if self.context is None:
            raise ArtifactError(f"{prefix} {self.shortage}")
        destroy = ctypes.CFUNCTYPE(None, pointer)(end)
        weakref.finalize(self, _end, destroy, self.context, library).atexit = False


def thread_pool(library: Library, prefix: str, threads: int | None) -> ThreadPool | None:
    """The pool for a context of so many threads, or of as many as there are by default; of the
    library's code where there is none yet. None for a context that starts no worker, or where the
    artifact was made before it could share them.

    Raises ArtifactError where no pool can be had.
    """
    count = threads or _default_threads()
    if count == 1:
        return None
    key = os.getpid(), count
    with _ONCE:
        pool = _POOLS.get(key)
        if pool is None:
            try:
                library.address(f"{prefix}_create_pool")
            except ArtifactError:
                return None
            pool = _POOLS[key] = ThreadPool(library, prefix, count)
        return pool


def _default_threads() -> int:
    """How many threads a context has whose options do not say, as artifacts count them; 1 where
    they refuse what the environment says.
    """
    text = os.environ.get(THREADS_VARIABLE)
    if text is None:
        return min(usable_cores(), MOST_THREADS)
    return int(text) if text.isdecimal() and 1 <= int(text) <= MOST_THREADS else 1


def _end(destroy: Any, context: int, library: Library) -> None:
    """Ends the threads while their code, which is held for that, is still there."""
    destroy(context)

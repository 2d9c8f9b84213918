"""Object files -> code in this process: linked in memory as an artifact would be, and opened by the
system's loader.
"""

from __future__ import annotations

import ctypes
import os
import weakref
from _ctypes import dlclose
from collections.abc import Sequence
from itertools import count
from typing import BinaryIO

from weft.compiler.machine.elf import records as elf
from weft.compiler.machine.elf.link import Given, WeightBlob, link_shared, read_objects
from weft.dialects.errors import ArtifactError, UnsupportedError

_loaded = count()
"""Numbers what this process loads."""


class LoadedCode:
    """Code in this process, callable as long as this object lives."""

    def __init__(self, library: ctypes.CDLL):
        self._library = library
        self._close = weakref.finalize(self, dlclose, library._handle)
        self._close.atexit = False  # threads of the host may still be calling

    def address(self, symbol: str) -> int:
        """Where an exported function or datum lies."""
        try:
            function = self._library[symbol]
        except AttributeError as error:
            raise ArtifactError(
                f"loaded code requires the symbol {symbol}, got objects that do not define it"
            ) from error
        return ctypes.cast(function, ctypes.c_void_p).value or 0


def load_objects(
    objects: Sequence[Given],
    exports: Sequence[str] | None = None,
    *,
    weights: Sequence[WeightBlob] = (),
) -> LoadedCode:
    """Links object files for this machine and loads the result; `exports` is every visible symbol
    by default.

    Raises ArtifactError where objects contradict each other or need a symbol that neither they nor
    libc have.
    """
    names = _visible(objects) if exports is None else exports
    with _file_in_memory() as out:
        link_image(objects, names, out, weights=weights)
        return _loaded_from(out)


def link_image(
    objects: Sequence[Given],
    exports: Sequence[str],
    out: BinaryIO,
    *,
    weights: Sequence[WeightBlob] = (),
) -> None:
    """Links object files to what `load_image` loads."""
    link_shared(
        objects, soname="weft.so", exports=exports, weights=weights, loaded_here=True, out=out
    )


def load_image(image: bytes) -> LoadedCode:
    """The code of what `link_image` wrote."""
    with _file_in_memory() as out:
        out.write(image)
        return _loaded_from(out)


def _file_in_memory() -> BinaryIO:
    if not hasattr(os, "memfd_create"):
        raise UnsupportedError("loading code requires Linux, got a system without memfd_create")
    return os.fdopen(os.memfd_create("weft"), "wb")


def _loaded_from(out: BinaryIO) -> LoadedCode:
    out.flush()
    try:
        return load_library(out.fileno())
    except OSError as error:
        raise ArtifactError(f"loading code requires resolvable symbols, got {error}") from error


def load_library(descriptor: int) -> LoadedCode:
    """The code of an open shared object, which may be closed then. Raises OSError for one that the
    system's loader refuses.
    """
    # The loader takes files of one path for one, and numbers of descriptors are used again. To keep
    # them open is no way either: a process may have fewer of them than kernels. So the path spells
    # a count, in bits: `/` and `/./` lead to the same file.
    bits = f"{next(_loaded):b}".replace("0", "/").replace("1", "/./")
    path = f"/proc/self/fd/{bits}/{descriptor}"
    return LoadedCode(ctypes.CDLL(path, mode=os.RTLD_NOW | os.RTLD_LOCAL))


def _visible(objects: Sequence[Given]) -> list[str]:
    symbols = (symbol for each in read_objects(objects) for symbol in each.outward)
    return [
        symbol.name
        for symbol in symbols
        if symbol.is_defined and symbol.visibility != elf.STV_HIDDEN
    ]

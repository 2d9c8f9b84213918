"""Object files -> code in this process: linked in memory as an artifact would be, and opened by the
system's loader.
"""

from __future__ import annotations

import ctypes
import os
import weakref
from _ctypes import dlclose
from collections.abc import Sequence

from weft.compiler.machine.elf import records as elf
from weft.compiler.machine.elf.link import WeightBlob, link_shared, read_objects
from weft.dialects.errors import ArtifactError, UnsupportedError


class LoadedCode:
    """Code in this process, callable as long as this object lives."""

    def __init__(self, library: ctypes.CDLL, descriptor: int):
        self._library = library
        self._close = weakref.finalize(self, _unload, library, descriptor)
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
    objects: Sequence[bytes],
    exports: Sequence[str] | None = None,
    *,
    weights: Sequence[WeightBlob] = (),
) -> LoadedCode:
    """Links object files for this machine and loads the result; `exports` is every visible symbol
    by default.

    Raises ArtifactError where objects contradict each other or need a symbol that neither they nor
    libc have.
    """
    if not hasattr(os, "memfd_create"):
        raise UnsupportedError("loading code requires Linux, got a system without memfd_create")
    # The loader tells files apart by path, so the descriptor stays open as long as the code is
    # loaded.
    descriptor = os.memfd_create("weft")
    try:
        with os.fdopen(os.dup(descriptor), "wb") as out:
            names = _visible(objects) if exports is None else exports
            link_shared(objects, soname="weft.so", exports=names, weights=weights, out=out)
        library = ctypes.CDLL(f"/proc/self/fd/{descriptor}", mode=os.RTLD_NOW | os.RTLD_LOCAL)
    except OSError as error:
        os.close(descriptor)
        raise ArtifactError(f"loading code requires resolvable symbols, got {error}") from error
    except BaseException:
        os.close(descriptor)
        raise
    return LoadedCode(library, descriptor)


def _visible(objects: Sequence[bytes]) -> list[str]:
    symbols = (symbol for each in read_objects(objects) for symbol in each.symbols)
    return [
        symbol.name
        for symbol in symbols
        if symbol.is_defined and not symbol.is_local and symbol.visibility != elf.STV_HIDDEN
    ]


def _unload(library: ctypes.CDLL, descriptor: int) -> None:
    dlclose(library._handle)
    os.close(descriptor)

"""Objects of weft's own code that come with it, as any compiler's library does: code that is the
same for all models and all CPUs of an architecture, and that a first call would wait for.

An object goes with a key of all that it was made from. Where that has changed since, it is compiled
as if none had come; `python -m weft.compiler.driver.compile_run_time` writes it anew.
"""

from __future__ import annotations

import hashlib
import os
import zlib
from collections.abc import Callable, Iterable
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Final

from msgspec import Struct

from weft.compiler.machine.artifact.compiler_digest import compiler_digest
from weft.compiler.machine.artifact.store import cache_key, default_store
from weft.compiler.machine.codegen.jit import LoadedCode, link_image, load_image, load_objects

_LINKER: Final = Path(__file__).parents[1] / "elf"

_FOLDER: Final = Path(__file__).with_name("prebuilt")


def find_prebuilt(name: str, key: str) -> bytes | None:
    """The object of that name, if it was made from what the key tells."""
    try:
        content = (_FOLDER / name).read_bytes()
    except FileNotFoundError:
        return None
    made_from, _, packed = content.partition(b"\n")
    return zlib.decompress(packed) if made_from == key.encode() else None


class OwnCode(Struct, frozen=True):
    """Functions of weft's own that this process calls, by the names that they export: all that
    their code is made from, as `texts` and `sources`, and how that is compiled. They come with weft
    as a shared object.
    """

    name: str
    exports: tuple[str, ...]
    texts: tuple[str, ...]
    sources: tuple[Path, ...]
    compiled: Callable[[], bytes]

    def load(self) -> LoadedCode:
        """The code in this process: what comes with weft, what the cache has, or what is compiled
        now, which the cache keeps.
        """
        image = find_prebuilt(self.name, self._key)
        return load_objects([self._object()], self.exports) if image is None else load_image(image)

    def write(self) -> None:
        """Has the code come with weft."""
        image = BytesIO()
        link_image([self.compiled()], self.exports, image)
        write_prebuilt(self.name, self._key, image.getvalue())

    def _object(self) -> bytes:
        store = default_store(os.environ)
        key = cache_key([compiler_digest(), self.name, self._key])
        code = store.find_kernel(key)
        if code is None:
            code = self.compiled()
            store.keep_kernel(key, code)
        return code

    @property
    def _key(self) -> str:
        return prebuilt_key([*self.texts, digest_of(self.sources), digest_of((_LINKER,))])


def write_prebuilt(name: str, key: str, code: bytes) -> None:
    """Has the object come with weft from now on."""
    _FOLDER.mkdir(exist_ok=True)
    (_FOLDER / name).write_bytes(key.encode() + b"\n" + zlib.compress(code, 9))


def prebuilt_key(parts: Iterable[str]) -> str:
    """A key of these texts."""
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


@cache
def digest_of(sources: tuple[Path, ...]) -> str:
    """A hash of Python files and of those in folders."""
    hasher = hashlib.sha256()
    for source in sources:
        files = sorted(source.glob("*.py")) if source.is_dir() else [source]
        for file in files:
            hasher.update(file.name.encode())
            hasher.update(file.read_bytes())
    return hasher.hexdigest()

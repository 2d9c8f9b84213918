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
from pathlib import Path
from typing import Final

from weft.compiler.machine.artifact.compiler_digest import compiler_digest
from weft.compiler.machine.artifact.store import cache_key, default_store

_FOLDER: Final = Path(__file__).with_name("prebuilt")


def find_prebuilt(name: str, key: str) -> bytes | None:
    """The object of that name, if it was made from what the key tells."""
    try:
        content = (_FOLDER / name).read_bytes()
    except FileNotFoundError:
        return None
    made_from, _, packed = content.partition(b"\n")
    return zlib.decompress(packed) if made_from == key.encode() else None


def object_of(name: str, ir_text: str, compiled: Callable[[], bytes]) -> bytes:
    """The object of IR: what comes with weft, what the cache has, or what is compiled now, which
    the cache keeps.
    """
    code = find_prebuilt(name, prebuilt_key([ir_text]))
    if code is not None:
        return code
    store, key = default_store(os.environ), cache_key([compiler_digest(), ir_text])
    code = store.find_kernel(key)
    if code is None:
        code = compiled()
        store.keep_kernel(key, code)
    return code


def write_prebuilt(name: str, key: str, code: bytes) -> None:
    """Has the object come with weft from now on."""
    _FOLDER.mkdir(exist_ok=True)
    (_FOLDER / name).write_bytes(key.encode() + b"\n" + zlib.compress(code, 9))


def prebuilt_key(parts: Iterable[str], sources: Iterable[Path] = ()) -> str:
    """A key of these texts, and of Python files and of those in folders."""
    hasher = hashlib.sha256("\n".join(parts).encode())
    for source in sources:
        files = sorted(source.glob("*.py")) if source.is_dir() else [source]
        for file in files:
            hasher.update(file.name.encode())
            hasher.update(file.read_bytes())
    return hasher.hexdigest()

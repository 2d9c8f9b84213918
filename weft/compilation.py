"""A model and options -> a compiled model, out of the cache where it was compiled before.

What a hit needs is imported at once; the compiler itself (half a second) only when it has to work.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Unpack, cast

from msgspec import Struct

from weft.compiler.deferred import deferred, fewer_collections
from weft.compiler.driver.options import DEFAULT_PREFIX, Changes, Options
from weft.compiler.frontend.graph_file_names import SUFFIX, weights_path
from weft.compiler.machine.artifact.artifact import Compiled
from weft.compiler.machine.artifact.cache import Cache
from weft.compiler.machine.artifact.compiler_digest import compiler_digest
from weft.compiler.machine.artifact.store import cache_key
from weft.compiler.machine.bindings.names import c_identifier
from weft.compiler.machine.weights.blob import Hash
from weft.dialects.budget import Budget
from weft.dialects.errors import ModelError

if TYPE_CHECKING:
    from weft.compiler.driver import deadline, pipeline, session
    from weft.compiler.driver.extension import Extension
    from weft.compiler.frontend.imported import ImportedModel, Source
    from weft.compiler.frontend.onnx import wire
else:
    deadline = deferred("weft.compiler.driver.deadline")
    pipeline = deferred("weft.compiler.driver.pipeline")
    session = deferred("weft.compiler.driver.session")
    wire = deferred("weft.compiler.frontend.onnx.wire")

_SERIALISED = "SerializeToString"
"""The method by which a model in memory is told from what is none, without importing onnx."""

_LOCATION = b"\x0a\x08location"
_VALUE = b"\x12"
_HASHED = 1 << 26
_LONGEST_PATH = 4096 + 3
"""Bytes that hold the longest path of Linux, and its tag and length."""


def compile_cached(
    source: Source | ImportedModel,
    options: Options,
    cache: Cache | None,
    start: Callable[[], session.Session] | None = None,
    extensions: Sequence[Extension] = (),
    budget: Budget | None = None,
    key: str | None = None,
) -> Compiled:
    """The compiled model, which the cache keeps; without a cache it is always compiled, and so is
    what no key tells apart: one compiled with extensions, or a graph that a program built, unless
    whoever built it has a `key` for it.

    `start` begins a compilation, if there has to be one, which may use `budget`. Raises ModelError
    for a damaged model, UnsupportedError for one that needs what weft lacks, BudgetError for one
    that would use more than it may.
    """
    budget = Budget() if budget is None else budget
    unkeyed = cache is None or bool(extensions) or hasattr(source, "module")
    key = key if unkeyed else model_key(cast("Source", source), options, cache)
    found = cache.find(key, options.target) if cache and key else None
    if found is not None:
        return found
    # The ranks of a mesh compile the same: the first one does, and the others find it.
    turn = cache.alone(key) if cache and key and options.mesh else None
    with turn or nullcontext():
        found = cache.find(key, options.target) if turn and cache and key else None
        if found is not None:
            return found
        with fewer_collections(), deadline.deadline(budget):
            current = session.unwatched(options) if start is None else start()
            current.extensions = tuple(extensions)
            current.store = None if cache is None else CachedKernels(cache)
            current.budget = budget
            compiled = pipeline.compile_model(source, options, current)
            return cache.keep(key, compiled) if cache and key else compiled


class CachedKernels(Struct, frozen=True):
    """The kernels of a cache that this compiler made."""

    cache: Cache

    def find_kernel(self, key: str) -> bytes | None:
        return self.cache.find_kernel(cache_key([key, compiler_digest()]))

    def keep_kernel(self, key: str, data: bytes) -> None:
        self.cache.keep_kernel(cache_key([key, compiler_digest()]), data)


def options_of(
    source: Source | ImportedModel, options: Options | None = None, **changes: Unpack[Changes]
) -> Options:
    """The options of a compilation: those that are given, or the default ones, with some changed by
    keyword. Symbols start with the model's name unless there is a prefix.

    Raises OptionError for what no option can be, and IllegalSchedule for a schedule with lines that
    are no calls of primitives.
    """
    return (options or Options()).changed(**changes).named(_name_of(source))


def _name_of(source: Source | ImportedModel) -> str:
    if isinstance(source, (str, os.PathLike)):
        return c_identifier(Path(source).stem)
    if hasattr(source, "module"):
        return c_identifier(cast("ImportedModel", source).name)
    return DEFAULT_PREFIX


def model_key(source: Source, options: Options, cache: Cache | None = None) -> str | None:
    """A hash of the model with its external weights, the options and the compiler; None for a model
    whose files cannot all be read, or that is no model, which the front end will explain. The cache
    remembers the hashes of large files.
    """
    if not isinstance(source, str | os.PathLike | bytes) and not hasattr(source, _SERIALISED):
        return None
    try:
        contents = list(_content_digests(source, cache))
    except OSError:
        return None
    return cache_key([*contents, options.digest, compiler_digest()])


def _content_digests(source: Source, cache: Cache | None) -> Iterator[str]:
    """The hash of a model, then the name and the hash of every other file that it names."""
    if isinstance(source, (str, os.PathLike)):
        path = Path(source)
        digest, *locations = _remembered(path, _imported, cache)
        yield digest
        weights = weights_path(path)
        if path.suffix == SUFFIX and weights.exists():
            yield from _remembered(weights, _digest, cache)
        for location in locations:
            (digest,) = _remembered(_inside(path.parent, location), _digest, cache)
            yield f"{location} {digest}"
    elif isinstance(source, bytes):
        yield hashlib.sha256(source).hexdigest()
    else:
        yield hashlib.sha256(source.SerializeToString(deterministic=True)).hexdigest()


def _remembered(path: Path, find: Callable[[Path], list[str]], cache: Cache | None) -> list[str]:
    """What `find` gives for a file, out of the cache where it remembers that."""
    if cache is None:
        return find(path)
    return json.loads(
        cache.remembered(find.__name__, path, lambda: json.dumps(find(path)).encode())
    )


def _imported(path: Path) -> list[str]:
    """The hash of a model, and the other files that it names. While a large one, which nobody has
    asked for before, is hashed, the compiler is imported, which it mostly needs.
    """
    with _mapped(path) as data:
        hasher = hashlib.sha256()
        background = threading.Thread(target=_hash, args=(hasher, data))
        background.start()
        try:
            locations = external_locations(data)
            if len(data) >= _HASHED and background.is_alive():
                pipeline.compile_model  # noqa: B018  # pyright: ignore[reportUnusedExpression]
        finally:
            background.join()
        return [hasher.hexdigest(), *locations]


def _digest(path: Path) -> list[str]:
    with _mapped(path) as data:
        hasher = hashlib.sha256()
        _hash(hasher, data)
        return [hasher.hexdigest()]


def _hash(hasher: Hash, data: mmap.mmap | bytes) -> None:
    """Hashes a file; what was hashed is no memory of this process any more."""
    with memoryview(data) as whole:
        for start in range(0, len(whole), _HASHED):
            hasher.update(whole[start : start + _HASHED])
            if isinstance(data, mmap.mmap):
                data.madvise(mmap.MADV_DONTNEED, start, min(_HASHED, len(whole) - start))


@contextmanager
def _mapped(path: Path) -> Generator[mmap.mmap | bytes]:
    with path.open("rb") as file:
        if os.fstat(file.fileno()).st_size == 0:
            yield b""
            return
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            yield data


def _inside(folder: Path, location: str) -> Path:
    path = (folder / location).resolve()
    if not path.is_relative_to(folder.resolve()) or not path.is_file():
        raise OSError(f"an external file requires a place beside the model, got {location}")
    return path


def external_locations(data: mmap.mmap | bytes) -> list[str]:
    """The files that a serialised model names as places of its weights.

    Protocol buffers write such a pair as the key `location`, a tag, a length and the name. Raises
    OSError for bytes that have the key and not the rest.
    """
    found: dict[str, None] = {}
    for part in _without_weights(data):
        at = part.find(_LOCATION)
        while at >= 0:
            start = at + len(_LOCATION)
            found[_location(bytes(part[start : start + _LONGEST_PATH]))] = None
            at = part.find(_LOCATION, start)
    return list(found)


def _without_weights(data: mmap.mmap | bytes) -> Sequence[mmap.mmap | bytes]:
    """What may name files: all but the elements of tensors, of which a model mostly is. All of what
    is no whole model.
    """
    try:
        split = wire.split_model(memoryview(data), "model")
    except ModelError:
        return [data]
    return [split.skeleton, *(header for header, _ in split.initializers)]


def _location(data: bytes) -> str:
    """The text of a length-delimited field of number 2 that starts here."""
    size, shift, position = 0, 0, 1
    while position < len(data):
        size |= (data[position] & 0x7F) << shift
        shift, position = shift + 7, position + 1
        if data[position - 1] < 0x80:
            break
    text = data[position : position + size]
    if data[:1] != _VALUE or len(text) != size or b"\0" in text:
        raise OSError(f"an external location requires a path, got {data[:20]!r}")
    return os.fsdecode(text)

"""A compiled model as objects and weights: run in this process, or written as a shared object with a header."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import tempfile
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from compiler.machine.archive import archive
from compiler.machine.executable import Executable
from compiler.machine.header import header
from compiler.machine.jit import load_objects
from compiler.machine.link import WeightBlob, link_shared, undefined_symbols
from compiler.machine.note import check_image, read_machine, read_note
from compiler.machine.signature import Signature
from compiler.machine.weights import ALIGNMENT, Weights
from compiler.target.target import Target
from dialects.errors import ArtifactError, WeftError

ABI_VERSION = 1


@dataclass(frozen=True)
class Compiled:
    """Everything an artifact is made of.

    `objects` hold the run time, the program and the kernels; `exports` are the C functions; `libc` what they may
    need from outside; `metadata` describes the model and how it was compiled.
    """

    prefix: str
    target: Target
    signature: Signature
    objects: Mapping[str, bytes]
    exports: tuple[str, ...]
    libc: frozenset[str]
    weights: Weights
    metadata: Mapping[str, Any]

    def executable(self, threads: int | None = None) -> Executable:
        """The model in this process."""
        empty = WeightBlob(self.weights_symbol, ALIGNMENT, ALIGNMENT, _write_nothing)
        blobs = (empty,) if self.weights.sources else ()
        library = load_objects(list(self.objects.values()), self.exports, weights=blobs)
        arrays = [self.weights.prepare(source) for source in self.weights.sources]
        return Executable(
            library, self.prefix, self.signature,
            threads=threads, weights=arrays, exporter=self, metadata=self.metadata,
        )  # fmt: skip

    @property
    def weights_symbol(self) -> str:
        """The symbol of the blob of all weights."""
        return f"{self.prefix}.weights"

    def blob(self) -> WeightBlob:
        """All weights, one after the other, each on a cache line."""
        size = sum(_aligned(self.weights.bytes(source)) for source in self.weights.sources)
        return WeightBlob(self.weights_symbol, size, ALIGNMENT, partial(_write_weights, self.weights))

    def export(self, path: str | Path) -> None:
        """Writes `path` as a shared object and the header beside it; no file is left behind by a failure."""
        path = Path(path)
        missing = undefined_symbols(list(self.objects.values())) - self.libc - {self.weights_symbol}
        assert not missing, f"generated code needs nothing but libc, not {sorted(missing)}"
        note = json.dumps(self.metadata, sort_keys=True).encode()
        with _replacing(path) as out:
            link_shared(
                list(self.objects.values()), soname=path.name, exports=self.exports, note=note,
                weights=(self.blob(),) if self.weights.sources else (), out=out,
            )  # fmt: skip
        self.export_header(path.with_suffix(".h"))

    def export_archive(self, path: str | Path) -> None:
        """Writes a static library, whose weights the host hands in at `create`, and the header."""
        path = Path(path)
        if self.weights.sources:
            raise ArtifactError(f"{path} requires a model without stored weights, got {len(self.weights.sources)}")
        with _replacing(path) as out:
            out.write(archive([(f"{name}.o", content) for name, content in self.objects.items()]))
        self.export_header(path.with_suffix(".h"))

    def export_header(self, path: str | Path) -> None:
        """Writes the C header."""
        size = self.metadata.get("workspace_bytes")
        text = header(self.prefix, self.signature, workspace_size=size if isinstance(size, int) else None)
        with _replacing(Path(path)) as out:
            out.write(text.encode())


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def weight_offsets(weights: Weights) -> list[int]:
    """Where each weight starts in the blob, in bytes."""
    offsets: list[int] = []
    position = 0
    for source in weights.sources:
        offsets.append(position)
        position += _aligned(weights.bytes(source))
    return offsets


def _write_weights(weights: Weights, out: BinaryIO) -> None:
    for source in weights.sources:
        weights.write(source, out)
        size = weights.bytes(source)
        out.write(bytes(_aligned(size) - size))


def _write_nothing(out: BinaryIO) -> None:
    out.write(bytes(ALIGNMENT))


@contextlib.contextmanager
def _replacing(path: Path) -> Generator[BinaryIO]:
    """A file that takes its name only when it is complete."""
    try:
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        raise WeftError(f"{path} requires a folder that can be written, got {error.strerror}") from error
    try:
        with os.fdopen(descriptor, "wb") as out:
            yield out
        os.chmod(name, 0o755 if path.suffix == ".so" else 0o644)
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)
        raise


class _SharedObject:
    """A shared object that the system's loader has opened."""

    def __init__(self, path: Path):
        try:
            self._library = ctypes.CDLL(str(path.resolve()), mode=os.RTLD_NOW | os.RTLD_LOCAL)
        except OSError as error:
            raise ArtifactError(f"{path} requires a system that can load it, got {error}") from error

    def address(self, symbol: str) -> int:
        try:
            return ctypes.cast(self._library[symbol], ctypes.c_void_p).value or 0
        except AttributeError as error:
            raise ArtifactError(f"artifact requires the function {symbol}, got none") from error


def read_metadata(path: str | Path) -> dict[str, Any]:
    """What an artifact says of itself, read without loading it. Raises ArtifactError for any other file."""
    try:
        content = json.loads(read_note(Path(path)))
    except ValueError as error:
        raise ArtifactError(f"{path} requires metadata in JSON, got {error}") from error
    if not isinstance(content, dict) or content.get("abi") != ABI_VERSION:
        got = content.get("abi") if isinstance(content, dict) else content
        raise ArtifactError(f"{path} requires ABI version {ABI_VERSION}, got {got}")
    return content


def load(path: str | Path, host: Target, *, threads: int | None = None) -> Executable:
    """Opens an artifact after checking that it is whole and made for this machine."""
    path = Path(path)
    metadata = read_metadata(path)
    check_image(path)
    machine = read_machine(path)
    if machine != host.arch:
        raise ArtifactError(f"{path} requires a {machine} machine, got {host.arch}")
    lacking = [feature for feature in metadata.get("features", []) if feature not in host.features]
    if lacking:
        raise ArtifactError(f"{path} requires a CPU with {', '.join(lacking)}, got {host.cpu} without")
    signature = Signature.from_json(metadata)
    return Executable(_SharedObject(path), metadata["prefix"], signature, threads=threads, metadata=metadata)

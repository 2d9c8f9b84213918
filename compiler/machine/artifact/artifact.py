"""A compiled model as objects and weights: run in this process, or written as a shared object or a
static library, each with a C header.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import tempfile
from collections.abc import Callable, Generator, Mapping
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final
from weakref import WeakValueDictionary

from msgspec import Struct

from weft.compiler.abi.constants import ABI_VERSION
from weft.compiler.deferred import deferred
from weft.compiler.machine.artifact.replace_file import replacing, rewriting
from weft.compiler.machine.artifact.signature import Signature
from weft.compiler.machine.bindings.names import base_name, base_name_of_library
from weft.compiler.machine.codegen.jit import LoadedCode, load_library, load_objects
from weft.compiler.machine.elf.link import (
    LINKED_ARCHES,
    link_shared,
    read_objects,
    undefined_symbols,
)
from weft.compiler.machine.elf.linkers import LINKERS, WEFT
from weft.compiler.machine.elf.note import check_image, read_machine, read_note
from weft.compiler.machine.elf.object_file import Data, RelocatableObject, read_object
from weft.compiler.machine.python.executable import Executable
from weft.compiler.machine.weights.blob import WeightBlob
from weft.compiler.machine.weights.external import Given, weights_for
from weft.compiler.machine.weights.file import EMBEDDED, FILE, SUFFIX, file_header
from weft.compiler.machine.weights.prepared import PreparedWeights, empty_blobs, prepared_blobs
from weft.compiler.target.target import Target
from weft.compiler.target.x86 import X86_64
from weft.dialects.errors import ArtifactError, OptionError

if TYPE_CHECKING:
    from weft.compiler.machine.bindings import files, header, library
    from weft.compiler.machine.elf import system_linker
    from weft.compiler.machine.weights import verify_weights
else:
    files = deferred("weft.compiler.machine.bindings.files")
    header = deferred("weft.compiler.machine.bindings.header")
    library = deferred("weft.compiler.machine.bindings.library")
    system_linker = deferred("weft.compiler.machine.elf.system_linker")
    verify_weights = deferred("weft.compiler.machine.weights.verify_weights")

WASM = "wasm32"

_MAGICS: Final = (b"\x7fELF", b"\0asm")

EXPORTS: Final = (".so", ".a", ".o", ".mlir", ".wasm")
"""What a model may be exported as; the graph, `.mlir`, where it is at hand."""

_COMMON_OBJECTS: Final = ("runtime", "levels")
"""What models of one prefix have in common."""

_Writing = Callable[[Path, int], contextlib.AbstractContextManager[BinaryIO]]


class Compiled(Struct, frozen=True):
    """Everything an artifact is made of.

    `objects` hold the run time, the program and the kernels; `exports` are the C functions; `libc`
    what they may need from outside; `metadata` describes the model and how it was compiled.
    """

    prefix: str
    target: Target
    signature: Signature
    objects: Mapping[str, bytes]
    exports: tuple[str, ...]
    libc: frozenset[str]
    weights: PreparedWeights
    metadata: Mapping[str, Any]

    def executable(
        self,
        threads: int | None = None,
        base: Executable | None = None,
        *,
        is_native: bool = False,
    ) -> Executable:
        """The model in this process, with so many threads, or one for each processor; without
        weights it may share those of a model that it runs `base`. With `is_native`, native code
        calls it.
        """
        assert base is None or not self.weights.sources, "contexts with weights are not shared"
        is_inside = self.weights_in == EMBEDDED
        blobs = empty_blobs(self.weights, self.weights_symbol) if is_inside else ()
        objects = [
            _read_common(data) if name in _COMMON_OBJECTS else data
            for name, data in self.objects.items()
        ]
        library = load_objects(objects, self.exports, weights=blobs)
        distinct = dict.fromkeys(self.weights.sources)
        prepared = {source: self.weights.prepare(source) for source in distinct}
        arrays = [prepared[source] for source in self.weights.sources]
        return Executable(
            library,
            self.prefix,
            self.signature,
            threads=threads,
            weights=arrays,
            exporter=self,
            metadata=self.metadata,
            base=base,
            is_native=is_native,
        )

    @property
    def weights_in(self) -> str:
        """Where artifacts have their weights, one of PLACES."""
        return self.metadata["weights_in"]

    @property
    def weights_symbol(self) -> str:
        """The symbol of the blob of all weights."""
        return f"{self.prefix}.weights"

    @property
    def only_here(self) -> list[str]:
        """The functions of the user's that the code calls and only this process has."""
        calls = self.metadata.get("native_calls", ())
        return [each["name"] for each in calls if "sha256" not in each]

    @property
    def note(self) -> bytes:
        """The metadata as artifacts carry it."""
        return json.dumps(self.metadata, sort_keys=True).encode()

    def blobs(self) -> tuple[WeightBlob, ...]:
        """All weights as one blob, each on a cache line; nothing where there are none."""
        return prepared_blobs(self.weights, self.weights_symbol)

    def _embedded(self) -> tuple[WeightBlob, ...]:
        return self.blobs() if self.weights_in == EMBEDDED else ()

    def export(self, path: str | Path, *, linker: str = WEFT) -> None:
        """Writes `path` as a shared object and the header beside it, and the file of weights where
        they are to lie there; a failure leaves no file. `linker` is one of LINKERS.

        Raises OptionError for a path that the header would overwrite or an unknown linker,
        UnsupportedError for one that is missing, ArtifactError for a folder that cannot be written.
        """
        if linker not in LINKERS:
            raise OptionError(f"linker requires one of {', '.join(LINKERS)}, got {linker}")
        path = Path(path)
        if self.target.arch == WASM:
            rule = "a target with shared objects, or a name in .wasm"
            raise OptionError(f"export requires {rule}, got {path} for {self.target.name}")
        objects = list(self.objects.values())
        missing = undefined_symbols(objects) - self.libc - {self.weights_symbol}
        assert not missing, f"generated code needs nothing but libc, not {sorted(missing)}"
        with self._with_header(path, rewriting, 0o755) as out:
            self._link(linker)(
                objects,
                soname=path.name,
                exports=self.exports,
                note=self.note,
                weights=self._embedded(),
                out=out,
            )

    def _link(self, linker: str) -> Callable[..., None]:
        if linker != WEFT:
            return partial(system_linker.link_with_tool, linker=linker)
        if self.target.arch not in LINKED_ARCHES:
            return system_linker.link_with_tool
        # What every processor can load: `create` asks for what the kernels need.
        level = 1 if self.target.arch == X86_64.arch else None
        return partial(link_shared, isa_level=level)

    def export_as(self, path: str | Path, *, linker: str = WEFT) -> None:
        """Writes what the suffix of `path` says: a shared object, a static library, one object or a
        WebAssembly module. Raises OptionError for another suffix, and as they do.
        """
        suffix = Path(path).suffix
        if suffix == ".so":
            return self.export(path, linker=linker)
        if linker != WEFT:
            raise OptionError(f"linker {linker} requires a shared object, got {path}")
        writers = {".a": self.export_archive, ".o": self.export_object, ".wasm": self.export_wasm}
        if suffix not in writers:
            rule = f"export requires a name in {', '.join(EXPORTS)}"
            raise OptionError(f"{rule}, got {path}")
        return writers[suffix](path)

    def export_wasm(self, path: str | Path) -> None:
        """Writes `path` as a WebAssembly module, which imports nothing, and the header beside it.

        Raises OptionError for another target than WebAssembly, UnsupportedError for weights that no
        memory of 4 GiB holds.
        """
        path = Path(path)
        if self.target.arch != WASM:
            rule = f"the target {WASM}"
            raise OptionError(f"export to {path.name} requires {rule}, got {self.target.name}")
        from weft.compiler.machine.wasm.link import link_wasm  # few models become one

        with self._with_header(path) as out:
            link_wasm(
                list(self.objects.values()),
                exports=self.exports,
                note=self.note,
                weights=self._embedded(),
                out=out,
            )

    def export_archive(self, path: str | Path) -> None:
        """Writes `path` as a static library that holds the weights too, and the header beside it;
        a failure leaves no file. The weights take disk space twice meanwhile, and no memory.
        """
        from weft.compiler.machine.elf.archive import write_archive  # few models become one

        path = Path(path)
        members: list[tuple[str, Data]] = [
            (f"{name}.o", content) for name, content in self.objects.items()
        ]
        with self._with_header(path) as out:
            if not self.weights.sources:
                write_archive(members, out)
                return
            with self._weights_object(path.parent) as weights:
                write_archive([*members, ("weights.o", weights)], out)

    def export_object(self, path: str | Path) -> None:
        """Writes `path` as one relocatable object that holds the weights too, and the header beside
        it; a failure leaves no file.
        """
        from weft.compiler.machine.elf.join_objects import join_objects  # few models become one

        path = Path(path)
        members: list[Data] = list(self.objects.values())
        with self._with_header(path) as out:
            if not self.weights.sources:
                join_objects(members, out)
                return
            with self._weights_object(path.parent) as weights:
                join_objects([*members, weights], out)

    @contextlib.contextmanager
    def _weights_object(self, folder: Path) -> Generator[mmap.mmap]:
        """The object of the weights, in a file without a name."""
        with tempfile.TemporaryFile(dir=folder) as weights:
            self._write_weights_object(weights)
            weights.flush()
            with mmap.mmap(weights.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
                yield mapped

    def export_objects(self, folder: str | Path) -> None:
        """Writes every object, the weights and the header into a folder."""
        self._require_movable()
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in self.objects.items():
            with replacing(folder / f"{name}.o") as out:
                out.write(content)
        if self.weights.sources:
            with replacing(folder / "weights.o") as out:
                self._write_weights_object(out)
        if self.weights_in == FILE:
            with replacing(folder / f"{self.prefix}{SUFFIX}") as out:
                self._write_weights_file(out)
        self.export_header(folder / f"{self.prefix}.h")

    def export_form(self, form: str, path: str | Path) -> list[Path]:
        """Writes what helps others to use the shared object `path` (one of BINDINGS) beside it, and
        returns where. Raises OptionError for one that linkers would not find.
        """
        path = Path(path)
        stem = base_name_of_library(path)
        described = library.Library(
            self.prefix, stem, self.signature, self.metadata["model_version"]
        )
        written: list[Path] = []
        for name, write in files.BINDINGS[form].items():
            written.append(path.with_name(name.format(stem=stem, prefix=self.prefix)))
            with replacing(written[-1]) as out:
                out.write(write(described).encode())
        return written

    def export_header(self, path: str | Path) -> None:
        """Writes the C header."""
        with replacing(Path(path)) as out:
            out.write(self._header().encode())

    @contextlib.contextmanager
    def _with_header(
        self, path: Path, writing: _Writing = replacing, mode: int = 0o644
    ) -> Generator[BinaryIO]:
        """The file `path` to write; it and the header beside it appear together, or not at all."""
        base_name(path)
        self._require_movable()
        header_path = path.with_suffix(".h")
        if header_path == path:
            raise OptionError(f"export requires a name that does not end in .h, got {path}")
        with contextlib.ExitStack() as opened:
            opened.enter_context(replacing(header_path)).write(self._header().encode())
            if self.weights_in == FILE:
                self._write_weights_file(opened.enter_context(rewriting(path.with_suffix(SUFFIX))))
            yield opened.enter_context(writing(path, mode))

    def _require_movable(self) -> None:
        """Raises ArtifactError for code that calls what only this process has."""
        if only := ", ".join(self.only_here):
            rule = "export requires native kernels of object files"
            raise ArtifactError(f"{rule}, got {only} at an address of this process")

    def _write_weights_file(self, out: BinaryIO) -> None:
        out.write(file_header(self.metadata))
        for blob in self.blobs():
            blob.write(out)

    def _header(self) -> str:
        size = self.metadata.get("workspace_bytes")
        constant = size if isinstance(size, int) else None
        return header.header(
            self.prefix, self.signature, workspace_size=constant, weights=self.metadata
        )

    def _write_weights_object(self, out: BinaryIO) -> None:
        (like, *_) = read_objects(list(self.objects.values()))
        system_linker.write_weights_object(like, self._embedded(), self.note, out, apart=True)


@lru_cache(maxsize=8)
def _read_common(data: bytes) -> RelocatableObject:
    """What was read of one of the common objects, once for those who follow."""
    return read_object(data, "the run time")


_LOADED: Final[WeakValueDictionary[tuple[int, int], LoadedCode]] = WeakValueDictionary()
"""Shared objects of this process, by device and inode, as the system's loader knows them."""


def _open_shared(path: Path) -> LoadedCode:
    """A shared object that the system's loader has opened.

    It is opened through a descriptor: for a path that it knows, the loader gives what lay there
    before. For a file that it knows it gives the same code, so those who open it again share it.
    """
    try:
        file = path.open("rb")
    except OSError as error:
        raise ArtifactError(f"{path} requires a readable file, got {error.strerror}") from error
    with file:
        status = os.fstat(file.fileno())
        code = _LOADED.get((status.st_dev, status.st_ino))
        if code is None:
            try:
                code = load_library(file.fileno())
            except OSError as error:
                rule = "requires a system that can load it"
                raise ArtifactError(f"{path} {rule}, got {error}") from error
            _LOADED[status.st_dev, status.st_ino] = code
    return code


def read_metadata(path: str | Path) -> dict[str, Any]:
    """What an artifact says of itself, read without loading it.

    Raises ArtifactError for any other file.
    """
    try:
        content = json.loads(read_note(Path(path)))
    except ValueError as error:
        raise ArtifactError(f"{path} requires metadata in JSON, got {error}") from error
    if not isinstance(content, dict) or content.get("abi") != ABI_VERSION:
        got = content.get("abi") if isinstance(content, dict) else content
        raise ArtifactError(f"{path} requires ABI version {ABI_VERSION}, got {got}")
    return content


def is_artifact(path: str | os.PathLike[str]) -> bool:
    """Whether a file is a shared object or a WebAssembly module by its first bytes. Raises
    OSError.
    """
    with open(path, "rb") as file:
        return file.read(4) in _MAGICS


def load(
    path: str | Path,
    host: Target,
    *,
    threads: int | None = None,
    weights: Given = None,
    verify: bool = False,
) -> Executable:
    """Opens an artifact after checking that it is whole and made for this machine. `weights` are
    those that are not in it: the path of their file, or arrays by the names of logical tensors.
    With `verify` the weights' digests are checked too, for which all of them are read.
    """
    path = Path(path)
    metadata = read_metadata(path)
    if metadata["triple"].startswith(WASM):
        raise ArtifactError(f"{path} requires a WebAssembly engine, got a {host.arch} process")
    check_image(path)
    check_runs_on(host, {**metadata, "triple": read_machine(path)}, str(path))
    if verify:
        verify_weights.check_weights(
            path, metadata, Path(weights) if isinstance(weights, (str, Path)) else None
        )
    library = _open_shared(path)
    return Executable(
        library,
        metadata["prefix"],
        Signature.from_json(metadata),
        threads=threads,
        weights=weights_for(path, metadata, library, weights),
        metadata=metadata,
    )


def check_runs_on(host: Target, metadata: Mapping[str, Any], who: str) -> None:
    """Raises ArtifactError unless the machine has the architecture and the CPU features that an
    artifact was made for.
    """
    arch = str(metadata["triple"]).split("-", 1)[0]
    if arch != host.arch:
        raise ArtifactError(f"{who} requires a {arch} machine, got {host.arch}")
    lacking = [feature for feature in metadata.get("features", []) if feature not in host.features]
    if lacking:
        raise ArtifactError(f"{who} requires a CPU with {', '.join(lacking)}, got {host.cpu}")

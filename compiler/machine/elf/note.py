"""The note of a compiled artifact: readable without loading it, and kept by strip."""

import hashlib
from os import PathLike, fspath
from typing import TYPE_CHECKING, BinaryIO, Final

from weft.compiler.deferred import deferred
from weft.compiler.machine.elf import records as elf
from weft.compiler.machine.elf.checksum_trailer import checksum_trailer
from weft.compiler.machine.elf.image import BUILD_ID_SIZE
from weft.compiler.machine.elf.shared_object import SharedObject
from weft.dialects.errors import ArtifactError

if TYPE_CHECKING:
    from weft.compiler.machine.wasm import note as wasm
else:
    wasm = deferred("weft.compiler.machine.wasm.note")

_OWNER: Final = b"weft"
_CONTENT: Final = 1
_DIGEST: Final = 2


def weft_note(content: bytes) -> bytes:
    """The section `.note.weft`: the content and a digest that shows whether it was damaged."""
    digest = hashlib.sha256(content).digest()
    return elf.pack_note(_OWNER, _CONTENT, content) + elf.pack_note(_OWNER, _DIGEST, digest)


def read_note(path: str | PathLike[str]) -> bytes:
    """What `link_shared` was given as `note`.

    Raises ArtifactError for a truncated, damaged or foreign file.
    """
    with open_artifact(path) as file:
        if file.read(len(wasm.MAGIC)) == wasm.MAGIC:
            return wasm.read_wasm_note(path)
        notes = [n for n in SharedObject(file, fspath(path)).notes() if n.owner == _OWNER]
    contents = [note.content for note in notes if note.type == _CONTENT]
    digests = [note.content for note in notes if note.type == _DIGEST]
    if not notes:
        raise ArtifactError(
            f"{fspath(path)}: loader requires an artifact of weft, got no .note.weft"
        )
    if len(contents) != 1 or digests != [hashlib.sha256(contents[0]).digest()]:
        raise ArtifactError(
            f"{fspath(path)}: loader requires an intact .note.weft, got a damaged one"
        )
    return contents[0]


def read_machine(path: str | PathLike[str]) -> str:
    """The architecture of a shared object as LLVM's triples spell it; raises as `read_note`."""
    with open_artifact(path) as file:
        return elf.machine_name(SharedObject(file, fspath(path)).header.machine)


def check_image(path: str | PathLike[str]) -> None:
    """Raises ArtifactError unless headers, code and data are those that `link_shared` wrote.

    Weights are not read: `verify` does that.
    """
    with open_artifact(path) as file:
        SharedObject(file, fspath(path)).check_build_id()


def append_trailer(path: str | PathLike[str]) -> None:
    """Writes the build id that `check_image` expects over the one that another linker reserved, and
    the digest of the file behind its end.
    """
    with open(path, "r+b") as file:
        shared = SharedObject(file, fspath(path))
        where, digest = shared.build_id(), shared.digest()
        assert len(where.content) == BUILD_ID_SIZE, "the build id was reserved with the right size"
        file.seek(where.offset)
        file.write(digest)
        file.flush()
        end = checksum_trailer(shared.without_weights())
        file.seek(0, 2)
        file.write(end)


def open_artifact(path: str | PathLike[str]) -> BinaryIO:
    """The file to read; raises ArtifactError where that cannot be."""
    try:
        return open(path, "rb")
    except OSError as error:
        raise ArtifactError(
            f"{fspath(path)}: loader requires a readable file, got {error.strerror}"
        ) from error

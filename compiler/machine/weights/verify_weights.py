"""Whether the weights of an artifact are those that it was written with, to the last byte."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from weft.compiler.machine.elf.note import open_artifact
from weft.compiler.machine.elf.shared_object import SharedObject
from weft.compiler.machine.weights.file import CALLER, FILE, SUFFIX, check_weights_file
from weft.dialects.errors import ArtifactError


def check_weights(
    path: Path, metadata: Mapping[str, Any], weights: Path | None = None
) -> str | None:
    """The digest of the weights, all of which are read; None where there are none, or where they
    are the caller's. Those outside are in the file `weights`, by default that of its name.

    Raises ArtifactError for weights that are not those of the digest, or that have none.
    """
    if metadata.get("weights_in") == FILE:
        check_weights_file(path.with_suffix(SUFFIX) if weights is None else weights, metadata)
        return str(metadata["weights_sha256"])
    with open_artifact(path) as file:
        shared = SharedObject(file, str(path))
        digests = shared.weights_digests()
        if digests is None and metadata.get("weights") and metadata.get("weights_in") != CALLER:
            rule = "requires a digest of its weights"
            raise ArtifactError(f"{path} {rule}, got a file whose sections were taken away")
        if digests is not None and digests[0] != digests[1]:
            raise shared.refuse("the weights that were linked", "others than their digest tells")
    return None if digests is None else digests[0].hex()

"""The weights that an artifact does not have inside: mapped from their file, or prepared from
arrays by the artifact itself.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from weft.compiler.machine.artifact.signature import DTYPES
from weft.compiler.machine.codegen.jit import LoadedCode
from weft.compiler.machine.weights.file import (
    CALLER,
    EMBEDDED,
    FILE,
    SUFFIX,
    data_bytes,
    map_weights,
)
from weft.compiler.machine.weights.prepare import ALIGNMENT
from weft.dialects.errors import ArtifactError, InputError, OptionError
from weft.dialects.weights import Array, digest_of

Given = str | os.PathLike[str] | Mapping[str, Array] | None


def weights_for(
    path: Path, metadata: Mapping[str, Any], library: LoadedCode, given: Given
) -> list[Array] | None:
    """The weights of the artifact at `path`, None where it has them; by default out of the file
    beside it.

    Raises OptionError for weights in a form that the artifact does not take, ArtifactError for a
    file of others, InputError for arrays that do not fit.
    """
    home = metadata.get("weights_in", EMBEDDED)
    is_path = isinstance(given, (str, os.PathLike))
    if home == FILE and (given is None or is_path):
        return map_weights(path.with_suffix(SUFFIX) if given is None else Path(given), metadata)
    if home == CALLER and isinstance(given, Mapping):
        return _prepare(path, metadata, library, given)
    if home == EMBEDDED and given is None:
        return None
    rules = {EMBEDDED: "none", FILE: "the path of a file", CALLER: "arrays by name"}
    got = "none" if given is None else "a path" if is_path else "arrays"
    raise OptionError(f"{path} requires weights as {rules[home]}, got {got}")


def _prepare(
    path: Path, metadata: Mapping[str, Any], library: LoadedCode, given: Mapping[str, Array]
) -> list[Array]:
    for name, digest in metadata["fixed_weights"].items():
        if name in given and digest_of(np.asarray(given[name])) != digest:
            rule = f"weight '{name}' as it was compiled with, for its values have decided something"
            raise InputError(f"{path} requires {rule}, got others")
    arrays = _checked(path, metadata["logical_weights"], given)
    pointers = (ctypes.c_void_p * len(arrays))(*(array.ctypes.data for array in arrays))
    size = data_bytes(metadata["weights"])
    room = np.empty(size + ALIGNMENT, np.uint8)
    start = -room.ctypes.data % ALIGNMENT
    prepared = room[start : start + size]
    callback_type = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)
    function = callback_type(library.address(f"{metadata['prefix']}_prepare_weights"))
    if arrays and (status := function(ctypes.addressof(pointers), prepared.ctypes.data)):
        raise ArtifactError(f"{path} requires weights to start, got status {status}")
    return [prepared[each["offset"] :][: each["bytes"]] for each in metadata["weights"]]


def _checked(
    path: Path, wanted: Sequence[Mapping[str, Any]], given: Mapping[str, Array]
) -> list[Array]:
    """The arrays for the logical tensors, dense. Raises InputError naming all that do not fit."""
    problems = [problem for each in wanted if (problem := _problem(each, given)) is not None]
    if problems:
        raise InputError(f"{path} requires {'; '.join(problems)}")
    return [np.ascontiguousarray(given[each["name"]]) for each in wanted]


def _problem(wanted: Mapping[str, Any], given: Mapping[str, Array]) -> str | None:
    """What is wrong with the array for a logical tensor."""
    name, dims = wanted["name"], tuple(wanted["dims"])
    rule = f"{wanted['dtype']} {list(dims)} for weight '{name}'"
    if name not in given:
        return f"{rule}, got none"
    array = np.asarray(given[name])
    if array.dtype != DTYPES[wanted["dtype"]] or array.shape != dims:
        return f"{rule}, got {array.dtype} {list(array.shape)}"
    return None

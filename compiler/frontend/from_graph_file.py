"""A graph file -> graph: the text of a graph, which says whether it is optimised yet, and its
weights in a file beside it.

`net.mlir` is what `weft-opt` reads too, with a version and the SHA-256 of `net.weights`; that holds
a magic, the size of its head, the head (JSON: dtype, shape and place by key) and the tensors, each
on a cache line. All of it is read and compared when the graph is.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np
from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, ModuleOp, StringAttr, UnitAttr, i64
from xdsl.dialects.func import FuncOp
from xdsl.utils.exceptions import ParseError, VerifyException
from xdsl.utils.hints import isa

from weft.compiler.frontend.graph_file_names import STAMP, weights_path
from weft.compiler.frontend.imported import MAIN, ImportedModel
from weft.compiler.frontend.onnx.tensor import DTYPES
from weft.dialects.context import parse_module
from weft.dialects.errors import ModelError
from weft.dialects.graph import ConstantOp
from weft.dialects.graph.core.dtypes import numpy_dtype
from weft.dialects.weights import Array, WeightStore, byte_blocks

VERSION: Final = 3
DIGEST: Final = "weft.weights_sha256"
UNOPTIMISED: Final = "weft.unoptimised"
ALIGNMENT: Final = 64
_MAGIC: Final = b"WEFTWGT1"
_FRONT: Final = struct.Struct("<8sQ")
_BLOCK: Final = 1 << 20


def graph_text(
    module: ModuleOp, weights_digest: str | None = None, *, optimised: bool = True
) -> str:
    """The text of a graph, stamped with the version of the format, the digest of its weights, where
    it has some, and whether it has yet to be optimised; whoever compiles it says for what target.
    """
    copy = module.clone()
    copy.attributes.clear()
    copy.attributes[STAMP] = IntegerAttr(VERSION, i64)
    if not optimised:
        copy.attributes[UNOPTIMISED] = UnitAttr()
    if weights_digest is not None:
        copy.attributes[DIGEST] = StringAttr(weights_digest)
    return f"{copy!s}\n"


def write_weights(module: ModuleOp, weights: WeightStore, file: BinaryIO) -> str:
    """Streams the tensors that the graph names; returns the digest of all that was written."""
    out = _Hashing(file)
    arrays = {key: np.asarray(weights[key]) for key in _keys(module)}
    head: dict[str, tuple[str, list[int], int]] = {}
    position = 0
    for key, array in arrays.items():
        head[key] = (array.dtype.name, list(array.shape), position)
        position += -(-array.nbytes // ALIGNMENT) * ALIGNMENT
    text = json.dumps(head).encode()
    out.write(_FRONT.pack(_MAGIC, len(text)) + text)
    out.write(bytes(-(_FRONT.size + len(text)) % ALIGNMENT))
    for array in arrays.values():
        for block in byte_blocks(array) if array.size else ():
            out.write(block.data)
        out.write(bytes(-array.nbytes % ALIGNMENT))
    return out.digest.hexdigest()


class _Hashing:
    """A file, and the digest of what is written into it."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file
        self.digest = hashlib.sha256()

    def write(self, data: bytes | memoryview) -> None:
        self.digest.update(data)
        self.file.write(data)


def has_weights(module: ModuleOp) -> bool:
    """Whether the graph names tensors of the store."""
    return bool(_keys(module))


def _keys(module: ModuleOp) -> list[str]:
    constants = (op for op in module.walk() if isinstance(op, ConstantOp))
    return list(dict.fromkeys(op.key.data for op in constants if op.key is not None))


def read_graph(path: Path) -> ImportedModel:
    """Reads a graph file; its weights stay in their file until they are needed.

    Raises ModelError for a file that is damaged, no graph, or of another version, and for weights
    that are not those that were written with it.
    """
    try:
        module = parse_module(path.read_text(encoding="utf-8"), str(path))
        module.verify()
    except (OSError, UnicodeDecodeError, ParseError, VerifyException) as problem:
        raise ModelError(f"{path} requires a graph that can be read, got {problem}") from problem
    stamp = module.attributes.get(STAMP)
    if not isa(stamp, IntegerAttr) or stamp.value.data != VERSION:
        rule = f"requires a graph file of version {VERSION}, as this weft writes it"
        raise ModelError(f"{path} {rule}, got {'none' if stamp is None else stamp}")
    if module.attributes.pop(UNOPTIMISED, None) is not None:
        del module.attributes[STAMP]  # which says that nothing is left to do
    functions = [op for op in module.ops if isinstance(op, FuncOp)]
    mains = [each for each in functions if len(functions) == 1 or each.sym_name.data == MAIN]
    if len(mains) != 1:
        raise ModelError(f"{path} requires one function, or one @{MAIN}, got {len(functions)}")
    weights = WeightStore()
    _check_digest(path, module)
    for key, array in _read_weights(path, _keys(module)).items():
        weights.add(key, array)
    for op in module.walk():
        if isinstance(op, ConstantOp) and op.key is not None:
            _check(op, weights[op.key.data], path)
    names = [_strings(mains[0], key) for key in ("input_names", "output_names")]
    return ImportedModel(module, weights, path.stem, names[0], names[1])


def _check_digest(path: Path, module: ModuleOp) -> None:
    """Refuses weights that are not those of the digest, which the module is left without."""
    stated = module.attributes.pop(DIGEST, None)
    if not has_weights(module):
        return
    if not isinstance(stated, StringAttr):
        raise ModelError(f"{path} requires the digest of its weights, got none")
    weights_file, digest = weights_path(path), hashlib.sha256()
    try:
        with weights_file.open("rb") as file:
            while block := file.read(_BLOCK):
                digest.update(block)
    except OSError as problem:
        rule = "requires the weights that were written with it"
        raise ModelError(f"{path} {rule}, got {weights_file}: {problem.strerror}") from problem
    if digest.hexdigest() != stated.data:
        rule = "requires the weights that were written with it"
        raise ModelError(f"{path} {rule}, got {weights_file} with others than their digest tells")


def _check(op: ConstantOp, array: Array, path: Path) -> None:
    size = op.result_type.size.constant
    if array.size != size or array.dtype != numpy_dtype(op.element):
        got = f"{array.dtype.name} {list(array.shape)} for {op.result_type}"
        raise ModelError(f"{path} requires weights of its constants' types, got {got}")


def _strings(function: FuncOp, key: str) -> tuple[str, ...]:
    names = function.attributes.get(key)
    return tuple(name.data for name in names) if isa(names, ArrayAttr[StringAttr]) else ()


def _read_weights(path: Path, keys: list[str]) -> Mapping[str, Array]:
    if not keys:
        return {}
    weights_file = weights_path(path)
    try:
        data: np.ndarray[Any, np.dtype[np.uint8]] = np.memmap(weights_file, np.uint8, "r")
        magic, size = _FRONT.unpack_from(data[: _FRONT.size].tobytes())
        if magic != _MAGIC:
            raise ValueError("other first bytes")
        head = json.loads(data[_FRONT.size : _FRONT.size + size].tobytes())
        start = _FRONT.size + size
        start += -start % ALIGNMENT
        return {key: _tensor(data[start:], *head[key]) for key in keys}
    except (OSError, ValueError, KeyError, TypeError, struct.error) as problem:
        rule = "requires the weights that were written with it"
        raise ModelError(f"{path} {rule}, got {weights_file}: {problem}") from problem


def _tensor(data: Array, dtype: str, shape: list[int], position: int) -> Array:
    np_dtype = next((each for each in _dtypes() if each.name == dtype), None)
    if np_dtype is None:
        raise ValueError(f"unknown dtype {dtype}")
    size = int(np.prod(shape, dtype=np.int64)) * np_dtype.itemsize
    part = data[position : position + size]
    if len(part) != size:
        raise ValueError("too few bytes")
    return part.view(np_dtype).reshape(shape)


def _dtypes() -> list[np.dtype[Any]]:
    return [np.dtype(each) for each in DTYPES.values()]

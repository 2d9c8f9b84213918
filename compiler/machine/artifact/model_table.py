"""The table that `m_query` returns: the metadata of an artifact for hosts in C (docs/abi.md).
It refers to its parts by offsets from its start, so that it is the same bytes wherever it is
loaded, for every target.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from weft.compiler.abi import structs
from weft.compiler.abi.constants import WORKSPACE_ALIGNMENT
from weft.compiler.machine.artifact.dims import Program, depth_of, program_of
from weft.compiler.machine.artifact.signature import DTYPES, Signature, TensorSpec
from weft.compiler.machine.weights.file import CALLER, FILE, WEIGHT_LOCATIONS, data_bytes
from weft.dialects.errors import printable, shortened

HEAD: Final = structs.TABLE.packing
LEVEL: Final = structs.LEVEL.packing
SYMBOL: Final = structs.SYMBOL.packing
TENSOR: Final = structs.TENSOR.packing
DIM: Final = structs.DIM.packing
STEP: Final = structs.STEP.packing

UNKNOWN: Final = (1 << 64) - 1
"""Bytes that depend on sizes."""
NONE: Final = (1 << 32) - 1
"""No symbol, no input."""

HAS_SELF_TEST: Final = 1
IS_MADE: Final = 1

_ABI_SIZES: Final = (WORKSPACE_ALIGNMENT, structs.OPTIONS.size, structs.CALL.size)
"""The alignment of a workspace, and the bytes of weft_options and weft_call."""
_INT, _UINT, _FLOAT, _BFLOAT, _BOOL = 0, 1, 2, 4, 6
_CODES: Final = {
    "bool": _BOOL, "bfloat16": _BFLOAT,
    "float8_e3m4": 7, "float8_e4m3": 8, "float8_e4m3b11fnuz": 9,
    "float8_e4m3fn": 10, "float8_e4m3fnuz": 11,
    "float8_e5m2": 12, "float8_e5m2fnuz": 13, "float8_e8m0fnu": 14,
    **{f"int{bits}": _INT for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": _UINT for bits in (8, 16, 32, 64)},
    **{f"float{bits}": _FLOAT for bits in (16, 32, 64)},
}  # fmt: skip
"""DLPack's codes of element types; others are bytes there, whose low bits count."""


_SHOWN: Final = 120
"""Bytes of a name that messages show."""


def model_table(metadata: Mapping[str, Any]) -> bytes:
    """The table of an artifact with that metadata."""
    return _Writer(metadata).table()


def stack_depth(signature: Signature) -> int:
    """How many values the evaluation of a dim needs at most."""
    return max([1, *(depth_of(program) for program in _programs(signature))])


def shape_text(dims: Iterable[object]) -> str:
    """Dims as error messages show them: `(batch, 784)`, `(8,)`."""
    parts = [str(dim) for dim in dims]
    return f"({', '.join(parts)}{',' * (len(parts) == 1)})"


def table_text(text: str) -> str:
    """A text as the table has it: a zero ends one, so a space stands for a zero."""
    return text.replace("\0", " ")


def described(spec: TensorSpec) -> str:
    """Name, type and shape of a tensor, as the table has them."""
    return f"{table_text(spec.name)} {spec.dtype} {shape_text(spec.dims)}"


def _programs(signature: Signature) -> list[Program]:
    names = (*signature.symbols, *signature.found)
    specs = (*signature.inputs, *signature.outputs)
    texts = dict.fromkeys(dim for spec in specs for dim in spec.dims if isinstance(dim, str))
    return [program_of(dim, names) for dim in texts]


class _Writer:
    """Fills the table from its head on; what has no fixed length follows."""

    def __init__(self, metadata: Mapping[str, Any]):
        self.metadata = metadata
        self.signature = Signature.from_json(metadata)
        self.symbols = (*self.signature.symbols, *self.signature.found)
        self.content = bytearray(HEAD.size)
        self.offsets: dict[tuple[bytes, int], int] = {}

    def table(self) -> bytes:
        """The whole table."""
        metadata, signature = self.metadata, self.signature
        texts = [self._text(str(metadata[key])) for key in ("prefix", "weft", "triple", "cpu")]
        features = self._features(metadata["features"])
        levels: list[bytes] = [
            LEVEL.pack(self._text(each["name"]), self._features(each["features"]))
            for each in metadata.get("levels", [])
        ]
        arrays = [
            levels,
            list(map(self._symbol, range(len(self.symbols)))),
            [self._tensor(spec) for spec in signature.inputs],
            [self._tensor(spec, number) for number, spec in enumerate(signature.outputs)],
            [self._tensor(spec) for spec in self._logical()],
        ]
        offsets = [(self._append(b"".join(each), 8), len(each)) for each in arrays]
        (levels_at, symbols_at), tensors = offsets[:2], offsets[2:]
        self.content.extend(bytes(-len(self.content) % 8))
        self.content[: HEAD.size] = HEAD.pack(
            HEAD.size, len(self.content), metadata["abi"],
            HAS_SELF_TEST if "self_test" in metadata else 0,
            TENSOR.size, DIM.size, SYMBOL.size, LEVEL.size, *texts, features, *levels_at,
            symbols_at[0], len(signature.symbols), len(signature.found),
            *(number for offset in tensors for number in offset),
            WEIGHT_LOCATIONS.index(metadata["weights_in"]), len(metadata["weights"]),
            *self._bytes(),
            *_ABI_SIZES, stack_depth(signature), *self._digests(), *bytes(5),
        )  # fmt: skip
        return bytes(self.content)

    def _bytes(self) -> tuple[int, int, int]:
        """Of all weights, of those that the caller prepares, and of the workspace."""
        weights, size = data_bytes(self.metadata["weights"]), self.metadata["workspace_bytes"]
        prepared = weights if self.metadata["weights_in"] == CALLER else 0
        return weights, prepared, size if isinstance(size, int) else UNKNOWN

    def _digests(self) -> tuple[bytes, bytes]:
        """Of the metadata, and of the file of weights."""
        own = hashlib.sha256(json.dumps(self.metadata, sort_keys=True).encode()).digest()
        is_file = self.metadata["weights_in"] == FILE
        return own, bytes.fromhex(self.metadata["weights_sha256"]) if is_file else bytes(32)

    def _logical(self) -> list[TensorSpec]:
        """The weights that a caller hands in."""
        return [
            TensorSpec(each["name"], each["dtype"], tuple(each["dims"]))
            for each in self.metadata.get("logical_weights", [])
        ]

    def _features(self, names: Sequence[str]) -> int:
        return self._text(" ".join(name.removeprefix("+") for name in names))

    def _text(self, text: str) -> int:
        """Where a text of UTF-8 lies, which a zero ends."""
        return self._append(table_text(text).encode() + b"\0", 1)

    def _append(self, data: bytes, alignment: int) -> int:
        """Where these bytes lie: once if they are equal to others."""
        if (data, alignment) not in self.offsets:
            self.content.extend(bytes(-len(self.content) % alignment))
            self.offsets[data, alignment] = len(self.content)
            self.content.extend(data)
        return self.offsets[data, alignment]

    def _symbol(self, number: int) -> bytes:
        name = self.symbols[number]
        dims = [
            (position, axis)
            for position, spec in enumerate(self.signature.inputs)
            for axis, dim in enumerate(spec.dims)
            if dim == name
        ]
        position, axis = dims[0] if dims else (NONE, NONE)
        low, high = self.metadata["bounds"].get(name, (0, (1 << 63) - 1))
        found = number >= len(self.signature.symbols)
        return SYMBOL.pack(self._text(name), found, position, axis, low, high)

    def _tensor(self, spec: TensorSpec, output: int | None = None) -> bytes:
        """The entry of a tensor, with its number if it is an output."""
        donors = {target: source for source, target in self.signature.donated}
        donor = NONE if output is None else donors.get(output, NONE)
        dims = b"".join(map(self._dim, spec.dims))
        size = DTYPES[spec.dtype].itemsize
        code = _CODES.get(spec.dtype, _UINT)
        return TENSOR.pack(
            self._text(spec.name), self._text(spec.dtype), code, 8 * size, 1, size,
            len(spec.dims), self._append(dims, 8), self._text(shape_text(spec.dims)),
            IS_MADE if output in self.signature.made else 0,
            UNKNOWN if spec.bytes is None else spec.bytes, size, donor,
            self._text(shortened(printable(spec.name), _SHOWN)), 0, 0,
        )  # fmt: skip

    def _dim(self, dim: int | str) -> bytes:
        if isinstance(dim, int):
            return DIM.pack(dim, self._text(str(dim)), NONE, 0, 0, 0)
        program = program_of(dim, self.symbols)
        steps = self._append(b"".join(STEP.pack(*step) for step in program), 8)
        symbol = self.symbols.index(dim) if dim in self.symbols else NONE
        return DIM.pack(-1, self._text(dim), symbol, steps, len(program), 0)

"""What a compiled model takes and gives, in words that outlive the compiler: the metadata and the C
header of an artifact are made from it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from math import prod
from typing import Any, Final

import ml_dtypes
import numpy as np
from msgspec import Struct

from weft.dialects.errors import ArtifactError

DTYPES: Final[Mapping[str, np.dtype[Any]]] = {
    dtype.name: dtype
    for dtype in map(
        np.dtype[Any],
        (
            *(np.bool_, np.int8, np.int16, np.int32, np.int64),
            *(np.uint8, np.uint16, np.uint32, np.uint64),
            *(np.float16, ml_dtypes.bfloat16, np.float32, np.float64),
            *(ml_dtypes.float8_e3m4, ml_dtypes.float8_e4m3, ml_dtypes.float8_e4m3b11fnuz),
            *(ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e4m3fnuz, ml_dtypes.float8_e5m2),
            *(ml_dtypes.float8_e5m2fnuz, ml_dtypes.float8_e8m0fnu, ml_dtypes.float6_e2m3fn),
            *(ml_dtypes.float6_e3m2fn, ml_dtypes.float4_e2m1fn),
            *(ml_dtypes.int4, ml_dtypes.uint4, ml_dtypes.int2, ml_dtypes.uint2),
        ),
    )
}
"""The element types of a signature by name; those below 8 bits take a byte each, their low bits."""


class TensorSpec(Struct, frozen=True):
    """An input or output: `dtype` is NumPy's name, a dim a number or an expression of symbols."""

    name: str
    dtype: str
    dims: tuple[int | str, ...]

    def __post_init__(self) -> None:
        if self.dtype not in DTYPES:
            known = ", ".join(DTYPES)
            raise ArtifactError(
                f"signature requires one of the types {known}, "
                f"got {self.dtype} for tensor '{self.name}'"
            )
        try:
            self.name.encode()
        except UnicodeEncodeError as error:
            rule = "signature requires names of tensors that UTF-8 has"
            raise ArtifactError(f"{rule}, got {self.name!r}") from error
        if any(isinstance(dim, int) and dim < 0 for dim in self.dims):
            raise ArtifactError(
                f"signature requires sizes of at least 0, got {list(self.dims)} "
                f"for tensor '{self.name}'"
            )

    @property
    def numpy_dtype(self) -> np.dtype[Any]:
        """The element type as NumPy knows it, or ml_dtypes."""
        return DTYPES[self.dtype]

    @property
    def is_static(self) -> bool:
        """Whether all sizes are numbers."""
        return all(isinstance(dim, int) for dim in self.dims)

    @property
    def elements(self) -> int | None:
        """The number of elements; None where it depends on symbols."""
        sizes = [dim for dim in self.dims if isinstance(dim, int)]
        return prod(sizes) if len(sizes) == len(self.dims) else None

    @property
    def bytes(self) -> int | None:
        """The size of the dense tensor; None where it depends on symbols."""
        return None if self.elements is None else self.elements * self.numpy_dtype.itemsize


class Signature(Struct, frozen=True, dict=True):
    """Inputs and outputs in the order of a call; `symbols` are the free dims in the order of `dims`
    of a call, behind which it writes the sizes `found`: of outputs that depend on values. Of each
    pair `donated`, the output may lie where the input lies, and does in calls from Python.
    """

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    symbols: tuple[str, ...] = ()
    found: tuple[str, ...] = ()
    donated: tuple[tuple[int, int], ...] = ()

    @cached_property
    def made(self) -> frozenset[int]:
        """The positions of outputs whose memory the model makes, as their size is found late."""
        found = frozenset(self.found)
        return frozenset(
            position
            for position, spec in enumerate(self.outputs)
            if any(_mentions(dim, found) for dim in spec.dims)
        )

    def to_json(self) -> dict[str, Any]:
        """Plain lists, strings and numbers, for `json.dumps`."""
        return {
            "inputs": [_tensor_to_json(tensor) for tensor in self.inputs],
            "outputs": [_tensor_to_json(tensor) for tensor in self.outputs],
            "symbols": list(self.symbols),
            "found": list(self.found),
            "donated": [list(pair) for pair in self.donated],
        }

    @property
    def donors(self) -> Mapping[int, int]:
        """By an output's position, that of the input whose memory it takes."""
        return {target: source for source, target in self.donated}

    @staticmethod
    def from_json(content: object) -> Signature:
        """What `to_json` gave, other keys aside. Raises ArtifactError for anything else."""
        match content:
            case {
                "inputs": [*inputs],
                "outputs": [*outputs],
                "symbols": [*symbols],
                "found": [*found],
                "donated": [*donated],
            }:
                return Signature(
                    tuple(_tensor_from_json(tensor) for tensor in inputs),
                    tuple(_tensor_from_json(tensor) for tensor in outputs),
                    tuple(_text(symbol) for symbol in symbols),
                    tuple(_text(size) for size in found),
                    tuple(_pair(pair) for pair in donated),
                )
            case _:
                raise _refuse("lists of inputs, outputs, symbols, found and donated", content)


def _mentions(dim: int | str, names: frozenset[str]) -> bool:
    return isinstance(dim, str) and not names.isdisjoint(re.findall(r"\w+", dim))


def _tensor_to_json(tensor: TensorSpec) -> dict[str, Any]:
    return {"name": tensor.name, "dtype": tensor.dtype, "dims": list(tensor.dims)}


def _tensor_from_json(content: object) -> TensorSpec:
    match content:
        case {"name": str(name), "dtype": str(dtype), "dims": [*dims]}:
            return TensorSpec(name, dtype, _dims(dims))
        case _:
            raise _refuse("a tensor's name, dtype and dims", content)


def _dims(content: Sequence[object]) -> tuple[int | str, ...]:
    dims = [dim for dim in content if isinstance(dim, (int, str)) and not isinstance(dim, bool)]
    if len(dims) != len(content):
        raise _refuse("dims of numbers and expressions", content)
    return tuple(dims)


def _pair(content: object) -> tuple[int, int]:
    match content:
        case [int(source), int(target)]:
            return source, target
        case _:
            raise _refuse("pairs of an input and an output", content)


def _text(content: object) -> str:
    if not isinstance(content, str):
        raise _refuse("symbols that are strings", content)
    return content


def _refuse(rule: str, content: object) -> ArtifactError:
    return ArtifactError(
        f"signature requires {rule}, got {json.dumps(content, default=repr)[:200]}"
    )

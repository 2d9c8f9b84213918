"""What a call of a compiled model computes and moves, for inputs of given shapes."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

from msgspec import Struct

from weft.bench.session import Inputs
from weft.compiler.machine.artifact.dims import size_of
from weft.compiler.machine.artifact.signature import Signature
from weft.compiler.program.time_calls import ADD, START


class KernelWork(Struct, frozen=True):
    """All calls of one kernel together."""

    name: str
    schedules: tuple[str, ...]
    calls: int
    flops: int
    bytes: int


class Work(Struct, frozen=True):
    """A whole call: `bytes` are those of inputs, outputs and weights, which have to be moved."""

    flops: int
    bytes: int
    kernels: tuple[KernelWork, ...]


def work_of(metadata: Mapping[str, Any], inputs: Inputs) -> Work:
    """The work that an artifact's description states, with sizes as the inputs have them."""
    signature = Signature.from_json(metadata)
    symbols = symbols_of(signature, inputs)
    kernels = tuple(
        KernelWork(
            kernel["name"],
            tuple(dict.fromkeys(kernel["schedules"])),
            kernel["calls"],
            size_of(kernel["flops"])(symbols),
            size_of(kernel["bytes"])(symbols),
        )
        for kernel in metadata["kernels"]
        if kernel["name"] not in (START, ADD)
    )
    tensors = (*signature.inputs, *signature.outputs)
    moved = sum(
        spec.numpy_dtype.itemsize * prod(size_of(dim)(symbols) for dim in spec.dims)
        for spec in tensors
    )
    weights = sum(weight["bytes"] for weight in metadata["weights"])
    return Work(sum(kernel.flops for kernel in kernels), moved + weights, kernels)


def symbols_of(signature: Signature, inputs: Inputs) -> dict[str, int]:
    """The value of each symbol that is a dim of an input."""
    return {
        dim: size
        for spec in signature.inputs
        for dim, size in zip(spec.dims, inputs[spec.name].shape, strict=True)
        if isinstance(dim, str) and dim.isidentifier()
    }

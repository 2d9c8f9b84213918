"""Calls of a compiled model in which every buffer lies against an inaccessible page."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tests.guard.memory import Region
from tests.guard.process import Process
from weft.compiler.abi.structs import CALL, OPTIONS
from weft.compiler.machine.artifact.artifact import Compiled
from weft.compiler.machine.artifact.dims import size_of
from weft.compiler.program.memory.guard_buffers import GUARD_PAGE
from weft.dialects.errors import InputError
from weft.dialects.weights import Array

MOST_BYTES = 1 << 28
"""What the allocator gives, and how large buffers of a call may be."""

_UNKNOWN = 2**64 - 1


class TooLarge(InputError):
    """What a call needs is more than this host has."""


class _Options(ctypes.Structure):
    _fields_ = OPTIONS.ctypes_fields


class _Call(ctypes.Structure):
    _fields_ = CALL.ctypes_fields


class GuardedModel:
    """A compiled model with a context whose allocator and weights are guarded."""

    def __init__(self, compiled: Compiled, side: str, process: Process, threads: int = 1):
        self.side = side
        self.compiled = compiled
        self.signature = compiled.signature
        self._process = process
        self._given: dict[int, Region] = {}
        self._problems: list[Exception] = []
        self._functions = process.load(compiled)
        self._weights = [
            self._region("a weight", each.nbytes, each.itemsize).hold(each)
            for each in map(compiled.weights.prepare, compiled.weights.sources)
        ]
        self._context = self._create(threads)

    def close(self) -> None:
        """Ends the context; raises StrayWrite for what was written beside its memory."""
        self._do("destroy", self._context)
        for region in self._weights:
            region.free()
        leaked = [region.name for region in self._given.values()]
        if self._problems or leaked:
            raise self._problems[0] if self._problems else AssertionError(f"{leaked} not released")

    def __call__(self, inputs: Mapping[str, Array]) -> list[Array]:
        """The outputs. Raises InputError for what the model, or any host, refuses."""
        signature = self.signature
        arrays = [np.asarray(inputs[spec.name], spec.numpy_dtype) for spec in signature.inputs]
        sizes = _bound(signature, arrays)
        room = len(signature.symbols) + len(signature.found)
        dims = self._table("dims", [sizes[name] for name in signature.symbols], room, write=True)
        wanted = self._do("workspace_size", dims.address)
        if wanted == _UNKNOWN or wanted > MOST_BYTES:
            raise TooLarge(f"requires a workspace that memory holds, got {wanted}")
        held: list[Region] = [dims]
        try:
            return self._call(arrays, sizes, dims, wanted, held)
        finally:
            for region in held:
                region.free()

    def _call(
        self,
        arrays: Sequence[Array],
        sizes: dict[str, int],
        dims: Region,
        workspace_bytes: int,
        held: list[Region],
    ) -> list[Array]:
        signature = self.signature
        inputs = [
            self._region(f"input {spec.name}", array.nbytes, array.itemsize).hold(array)
            for spec, array in zip(signature.inputs, arrays, strict=True)
        ]
        held += inputs
        outputs = [
            None if at in signature.made else self._output(spec, sizes)
            for at, spec in enumerate(signature.outputs)
        ]
        held += [each for each in outputs if each is not None]
        pointers = [0 if each is None else each.address for each in outputs]
        results = self._table("outputs", pointers, len(pointers), write=True)
        workspace = self._region("the workspace", workspace_bytes, GUARD_PAGE)
        tables = [self._table("inputs", [each.address for each in inputs]), results, dims]
        held += [workspace, *tables[:2]]
        workspace.guard(self._parts(sizes))
        words = [each.address for each in (*tables, workspace)]
        call = self._structure(_Call(ctypes.sizeof(_Call), *words, workspace_bytes))
        held.append(call)
        status = self._do("run", self._context, call.address) & 0xFFFFFFFF
        for region in held:
            region.check()
        if status:
            raise InputError(self._error(self._context))
        room = len(signature.symbols) + len(signature.found)
        found = dims.array(np.dtype(np.int64), (room,)).tolist()
        sizes = sizes | dict(zip(signature.found, found[len(signature.symbols) :], strict=True))
        addresses = results.array(np.dtype(np.int64), (len(outputs),)).tolist()
        return [
            self._taken(spec, address, sizes) if region is None else self._read(spec, region, sizes)
            for spec, region, address in zip(signature.outputs, outputs, addresses, strict=True)
        ]

    def _parts(self, sizes: Mapping[str, int]) -> list[tuple[int, int]]:
        """Offset and bytes of each buffer of the arena; growing ones have no place there."""
        parts: list[tuple[int, int]] = []
        for buffer in self.compiled.metadata["memory"]:
            try:
                offset, size = (size_of(buffer[key])(sizes) for key in ("offset", "bytes"))
            except KeyError:  # of a size that is found while the program runs
                continue
            if offset >= GUARD_PAGE:
                parts.append((offset, size))
        return parts

    def _output(self, spec: Any, sizes: Mapping[str, int]) -> Region:
        shape = _shape(spec, sizes)
        size = math.prod(shape) * spec.numpy_dtype.itemsize
        if min(shape, default=0) < 0 or size > MOST_BYTES:
            raise TooLarge(f"requires outputs that memory holds, got {list(shape)}")
        return self._region(f"output {spec.name}", size, spec.numpy_dtype.itemsize)

    def _read(self, spec: Any, region: Region, sizes: Mapping[str, int]) -> Array:
        return region.array(spec.numpy_dtype, _shape(spec, sizes))

    def _taken(self, spec: Any, address: int, sizes: Mapping[str, int]) -> Array:
        """An output that the call made, which goes back to the allocator."""
        shape = _shape(spec, sizes)
        size = math.prod(shape) * spec.numpy_dtype.itemsize
        region = self._given.get(address)
        assert region is not None, f"output {spec.name} is of the allocator, not {address:#x}"
        assert size <= region.bytes, f"output {spec.name} of {size} bytes in {region.bytes}"
        array = np.frombuffer(self._process.read(address, size), spec.numpy_dtype).reshape(shape)
        self._do("release", self._context, address)
        return array

    # What the host hands in -----------------------------------------------------------------------

    def _create(self, threads: int) -> int:
        table = self._table("weights", [each.address for each in self._weights])
        options = _Options(ctypes.sizeof(_Options), threads)
        options.allocate, options.release = self._process.allocator(self._allocate, self._release)
        options.weights = table.address if self._weights else None
        region = self._structure(options)
        context = self._do("create", region.address)
        region.free()
        table.free()
        if not context:
            reason = self._error(0)
            raise AssertionError(f"a context can be made, not: {reason}")
        return context

    def _table(
        self, name: str, words: Sequence[int], room: int | None = None, *, write: bool = False
    ) -> Region:
        """An array of 64-bit words."""
        room = len(words) if room is None else room
        full = np.zeros(room, np.int64)
        full[: len(words)] = words
        region = self._region(f"the table of {name}", full.nbytes, 8)
        if not write:
            return region.hold(full)
        self._process.write(region.address, full.tobytes())
        return region

    def _structure(self, structure: ctypes.Structure) -> Region:
        data = np.frombuffer(bytes(structure), np.uint8)
        return self._region(type(structure).__name__, data.nbytes, 8).hold(data)

    def _region(self, name: str, size: int, alignment: int) -> Region:
        return Region(self._process, name, size, self.side, alignment)

    def _do(self, name: str, *arguments: int) -> int:
        return self._process.call(self._functions[name], *arguments)

    def _error(self, context: int) -> str:
        address = self._do("last_error", context)
        return self._process.read(address, self._process.call("strlen", address)).decode()

    def _allocate(self, size: int, alignment: int) -> int:
        if size > MOST_BYTES:
            return 0
        try:
            region = self._region(f"memory of {size} bytes", size, alignment)
        except (MemoryError, OSError):
            return 0
        self._given[region.address] = region
        return region.address

    def _release(self, address: int) -> None:
        try:
            region = self._given.pop(address)
            region.check()
            region.free()
        except Exception as problem:  # none may pass through C
            self._problems.append(problem)


def _shape(spec: Any, sizes: Mapping[str, int]) -> tuple[int, ...]:
    return tuple(size_of(dim)(sizes) for dim in spec.dims)


def _bound(signature: Any, arrays: Sequence[Array]) -> dict[str, int]:
    """The free sizes. Raises InputError for shapes that do not fit the signature."""
    sizes: dict[str, int] = {}
    for spec, array in zip(signature.inputs, arrays, strict=True):
        if len(spec.dims) != array.ndim:
            raise InputError(f"requires {len(spec.dims)} dims for {spec.name}, got {array.shape}")
        for dim, size in zip(spec.dims, array.shape, strict=True):
            if isinstance(dim, str) and dim in signature.symbols:
                sizes.setdefault(dim, size)
    for spec, array in zip(signature.inputs, arrays, strict=True):
        if _shape(spec, sizes) != array.shape:
            raise InputError(f"requires {spec.dims} for {spec.name}, got {array.shape}")
    return sizes

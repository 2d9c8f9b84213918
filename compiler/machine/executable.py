"""A compiled model in this process: NumPy arrays in, NumPy arrays out."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from compiler.machine.dims import Size, size_of
from compiler.machine.signature import Signature, TensorSpec
from dialects.errors import ArtifactError, InputError, OptionError
from dialects.weights import Array

WORKSPACE_ALIGNMENT = 64


class Library(Protocol):
    """Loaded code: addresses by symbol."""

    def address(self, symbol: str) -> int:
        """Where an exported function lies."""
        ...


class Exporter(Protocol):
    """What writes an artifact for the same model."""

    def export(self, path: str | Path) -> None:
        """Writes the shared object and its header."""
        ...


class _Options(ctypes.Structure):
    _fields_ = (
        ("size", ctypes.c_uint64),
        ("threads", ctypes.c_uint32),
        ("flags", ctypes.c_uint32),
        ("parallel_for", ctypes.c_void_p),
        ("parallel_for_user", ctypes.c_void_p),
        ("allocate", ctypes.c_void_p),
        ("release", ctypes.c_void_p),
        ("allocator_user", ctypes.c_void_p),
        ("weights", ctypes.c_void_p),
        ("reserved", ctypes.c_uint64 * 4),
    )


class _Call(ctypes.Structure):
    _fields_ = (
        ("size", ctypes.c_uint64),
        ("inputs", ctypes.c_void_p),
        ("outputs", ctypes.c_void_p),
        ("dims", ctypes.c_void_p),
        ("workspace", ctypes.c_void_p),
        ("workspace_size", ctypes.c_uint64),
        ("reserved", ctypes.c_uint64 * 2),
    )


class _Frame:
    """What one call in flight needs: tables of pointers, dims and a workspace; reused by later calls."""

    def __init__(self, signature: Signature):
        self.inputs = (ctypes.c_void_p * max(1, len(signature.inputs)))()
        self.outputs = (ctypes.c_void_p * max(1, len(signature.outputs)))()
        self.dims = (ctypes.c_int64 * max(1, len(signature.symbols)))()
        self.call = _Call(size=ctypes.sizeof(_Call))
        self.call.inputs = ctypes.addressof(self.inputs)
        self.call.outputs = ctypes.addressof(self.outputs)
        self.call.dims = ctypes.addressof(self.dims)
        self.reference = ctypes.byref(self.call)
        self.workspace = np.empty(0, np.uint8)
        self.room = -1

    def reserve(self, size: int) -> None:
        """Makes the workspace at least that large."""
        if size > self.room:
            self.workspace = np.empty(size + WORKSPACE_ALIGNMENT, np.uint8)
            start = self.workspace.ctypes.data
            self.call.workspace = start + -start % WORKSPACE_ALIGNMENT
            self.call.workspace_size = self.room = size


class Executable:
    """A compiled model. Call it with arrays by position or name; `run` takes and gives dicts.

    Calls from several threads are safe. Results have the same bits for any number of threads.
    """

    def __init__(
        self,
        library: Library,
        prefix: str,
        signature: Signature,
        *,
        threads: int | None = None,
        weights: Sequence[Array] | None = None,
        exporter: Exporter | None = None,
        metadata: Mapping[str, Any] | None = None,
    ):
        self._library = library
        self._prefix = prefix
        self._signature = signature
        self._weights = weights
        self._exporter = exporter
        self.metadata = dict(metadata or {})
        self._frames: list[_Frame] = []
        self._run = self._function("run", ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)
        self._workspace_size = self._function("workspace_size", ctypes.c_uint64, ctypes.c_void_p)
        self._last_error = self._function("last_error", ctypes.c_char_p, ctypes.c_void_p)
        self._context = self._create(threads)
        self._names = [spec.name for spec in signature.inputs]
        self._in = [(spec.numpy_dtype, _static_shape(spec)) for spec in signature.inputs]
        self._out = [(spec.numpy_dtype, _static_shape(spec)) for spec in signature.outputs]
        self._static = all(shape is not None for _, shape in self._in + self._out)
        self._sizes: dict[int | str, Size] = {
            dim: size_of(dim) for spec in (*signature.inputs, *signature.outputs) for dim in spec.dims
        }

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """Names, dtypes and shapes of the inputs; a dim that varies is an expression."""
        return self._signature.inputs

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """Names, dtypes and shapes of the outputs."""
        return self._signature.outputs

    def __call__(self, *arrays: Any, **named: Any) -> tuple[Array, ...]:
        """Runs the model once on one array per input, by position or by name.

        Raises InputError for arrays that are missing, superfluous or of another dtype or shape.
        """
        if named or len(arrays) != len(self._names):
            arrays = self._arrange(arrays, named)
        try:
            frame = self._frames.pop()
        except IndexError:
            frame = _Frame(self._signature)
        held = [
            array
            if type(array) is np.ndarray and array.dtype == dtype and array.shape == shape and array.flags.c_contiguous
            else self._accept(position, array)
            for position, (array, (dtype, shape)) in enumerate(zip(arrays, self._in, strict=True))
        ]
        if self._static:
            results = [np.empty(shape or (), dtype) for dtype, shape in self._out]
        else:
            results = self._bind_dims(frame, held)
        if frame.room < 0 or not self._static:
            frame.reserve(self._workspace_size(frame.call.dims))
        for position, array in enumerate(held):
            frame.inputs[position] = _pointer(array)
        for position, array in enumerate(results):
            frame.outputs[position] = _pointer(array)
        status = self._run(self._context, frame.reference)
        self._frames.append(frame)
        if status:
            raise InputError(f"{self._prefix} {self._last_error(self._context).decode(errors='replace')}")
        return tuple(results)

    def run(self, inputs: Mapping[str, Any]) -> dict[str, Array]:
        """Runs the model on arrays by input name; gives them by output name."""
        results = self(**{}) if not inputs and not self._names else self(*self._arrange((), dict(inputs)))
        return {spec.name: array for spec, array in zip(self._signature.outputs, results, strict=True)}

    def export(self, path: str | Path) -> None:
        """Writes the model as `path`, a shared object that needs libc only, and a C header beside it."""
        if self._exporter is None:
            raise OptionError("export requires a model compiled in this process, got a loaded artifact")
        self._exporter.export(path)

    def _function(self, name: str, result: Any, *arguments: Any) -> Any:
        return ctypes.CFUNCTYPE(result, *arguments)(self._library.address(f"{self._prefix}_{name}"))

    def _create(self, threads: int | None) -> int:
        options = _Options(size=ctypes.sizeof(_Options), threads=threads or 0)
        if self._weights:
            table = (ctypes.c_void_p * len(self._weights))(*(array.ctypes.data for array in self._weights))
            options.weights = ctypes.addressof(table)
        create = self._function("create", ctypes.c_void_p, ctypes.c_void_p)
        context = create(ctypes.byref(options))
        if not context:
            raise ArtifactError(f"{self._prefix} requires memory, threads and weights to start, got none")
        destroy = self._function("destroy", None, ctypes.c_void_p)
        weakref.finalize(self, _destroy, destroy, context, self._library)
        return context

    def _arrange(self, arrays: Sequence[Any], named: Mapping[str, Any]) -> tuple[Any, ...]:
        """The arrays in the order of the inputs."""
        if len(arrays) > len(self._names):
            raise InputError(f"{self._prefix} requires {len(self._names)} inputs, got {len(arrays)}")
        given = dict(zip(self._names, arrays, strict=False))
        unknown = [name for name in named if name not in self._names]
        twice = [name for name in named if name in given]
        given.update(named)
        missing = [name for name in self._names if name not in given]
        problems = [
            *(f"no '{name}'" for name in missing),
            *(f"unknown '{name}'" for name in unknown),
            *(f"'{name}' twice" for name in twice),
        ]
        if problems:
            raise InputError(f"{self._prefix} requires inputs {self._names}, got {', '.join(problems)}")
        return tuple(given[name] for name in self._names)

    def _accept(self, position: int, value: Any) -> Array:
        """An array that is not ready to be passed on: checked, and copied where it is not dense."""
        spec = self._signature.inputs[position]
        array = np.asarray(value)
        shape = self._in[position][1]
        fits = array.ndim == len(spec.dims) if shape is None else array.shape == shape
        if array.dtype != spec.numpy_dtype or not fits:
            dims = ", ".join(map(str, spec.dims))
            got = f"{array.dtype} [{', '.join(map(str, array.shape))}]"
            raise InputError(f"{self._prefix} requires {spec.dtype} [{dims}] for input '{spec.name}', got {got}")
        return np.ascontiguousarray(array) if array.ndim else array.copy()

    def _bind_dims(self, frame: _Frame, arrays: Sequence[Array]) -> list[Array]:
        """Finds the symbols' values in the shapes, checks every dim against them, and makes the outputs."""
        symbols: dict[str, int] = {}
        for spec, array in zip(self._signature.inputs, arrays, strict=True):
            for dim, size in zip(spec.dims, array.shape, strict=True):
                if isinstance(dim, str) and dim.isidentifier():
                    symbols.setdefault(dim, size)
        for spec, array in zip(self._signature.inputs, arrays, strict=True):
            wanted = tuple(self._sizes[dim](symbols) for dim in spec.dims)
            if wanted != array.shape:
                dims = ", ".join(map(str, spec.dims))
                got = f"{list(array.shape)} where {', '.join(f'{name}={size}' for name, size in symbols.items())}"
                raise InputError(f"{self._prefix} requires shape [{dims}] for input '{spec.name}', got {got}")
        for position, name in enumerate(self._signature.symbols):
            frame.dims[position] = symbols[name]
        return [
            np.empty(tuple(self._sizes[dim](symbols) for dim in spec.dims), dtype)
            for spec, (dtype, _) in zip(self._signature.outputs, self._out, strict=True)
        ]


def _static_shape(spec: TensorSpec) -> tuple[int, ...] | None:
    sizes = tuple(dim for dim in spec.dims if isinstance(dim, int))
    return sizes if len(sizes) == len(spec.dims) else None


_from_buffer = ctypes.c_char.from_buffer
_address_of = ctypes.addressof


def _pointer(array: Array) -> int:
    """The address of the first element; the quick way works for writable arrays that are not empty."""
    try:
        return _address_of(_from_buffer(array))
    except (TypeError, ValueError):
        return array.ctypes.data


def _destroy(destroy: Any, context: int, library: Library) -> None:
    """Ends the context while its library, which is held for that, is still loaded."""
    destroy(context)

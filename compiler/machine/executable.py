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
MOST_THREADS = 1024


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
    """What one call in flight needs: tables of pointers, dims and a workspace; reused by later
    calls.
    """

    def __init__(self, signature: Signature):
        self.inputs = (ctypes.c_void_p * max(1, len(signature.inputs)))()
        self.outputs = (ctypes.c_void_p * max(1, len(signature.outputs)))()
        self.dims = (ctypes.c_int64 * max(1, len(signature.symbols)))()
        self.call = _Call(size=ctypes.sizeof(_Call))
        self.call.inputs = ctypes.addressof(self.inputs)
        self.call.outputs = ctypes.addressof(self.outputs)
        self.call.dims = ctypes.addressof(self.dims)
        self.address = ctypes.addressof(self.call)
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
        self._names = [spec.name for spec in signature.inputs]
        self._sizes: dict[int | str, Size] = {
            dim: size_of(dim)
            for spec in (*signature.inputs, *signature.outputs)
            for dim in spec.dims
        }
        self._quick_inputs = [_quick(*each) for each in enumerate(signature.inputs)]
        self._quick_outputs = [_quick(*each) for each in enumerate(signature.outputs)]
        self._static = all(spec.is_static for spec in (*signature.inputs, *signature.outputs))
        self._arity = len(self._names)
        self._frames: list[_Frame] = []
        self._run = self._function("run", ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)
        self._workspace_size = self._function("workspace_size", ctypes.c_uint64, ctypes.c_void_p)
        self._last_error = self._function("last_error", ctypes.c_char_p, ctypes.c_void_p)
        self._context = self._create(threads)

    def __repr__(self) -> str:
        inputs = ", ".join(map(_described, self.inputs))
        outputs = ", ".join(map(_described, self.outputs))
        return f"<weft.Executable {self._prefix}({inputs}) -> ({outputs})>"

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """Names, dtypes and shapes of the inputs; a dim that varies is an expression."""
        return self._signature.inputs

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """Names, dtypes and shapes of the outputs."""
        return self._signature.outputs

    def __call__(self, /, *arrays: Any, **named: Any) -> tuple[Array, ...]:
        """Runs the model once on one array per input, by position or by name.

        Raises InputError for arrays that are missing, superfluous or of another dtype or shape, and
        for values that an operator does not allow.
        """
        if named or len(arrays) != self._arity:
            arrays = self._arrange(arrays, named)
        frame = self._frame()
        if self._static:
            held, results = self._pass_static(frame, arrays)
        else:
            held, results = self._pass_symbolic(frame, arrays)
        status = self._run(self._context, frame.address)
        del held  # copies have to live until here
        self._frames.append(frame)
        if status:
            reason = self._last_error(self._context).decode(errors="replace")
            raise InputError(f"{self._prefix} {reason}")
        return results

    def _frame(self) -> _Frame:
        try:
            return self._frames.pop()
        except IndexError:
            frame = _Frame(self._signature)
            if self._static:
                frame.reserve(self._workspace_size(frame.call.dims))
            return frame

    def _pass_static(self, frame: _Frame, arrays: Sequence[Any]) -> tuple[Any, tuple[Array, ...]]:
        """Points the frame at inputs and new outputs; returns what has to live during the call,
        and the outputs.

        A call of a small model costs what this costs, hence one flat loop and no lookups in it.
        """
        table, held = frame.inputs, arrays
        for array, (position, dtype, shape) in zip(arrays, self._quick_inputs, strict=False):
            if (
                type(array) is _ndarray
                and array.shape == shape
                and array.dtype is dtype  # an equal one takes the other branch
                and array.flags.carray
            ):
                table[position] = _pointer_at(id(array) + _DATA).value
            else:
                accepted = self._accept(position, array)
                held = (held, accepted)
                table[position] = _pointer(accepted)
        table = frame.outputs
        results: list[Array] = []
        for position, dtype, shape in self._quick_outputs:
            if shape is None:
                result = self._empty_output(position)
                table[position] = _pointer(result)
            else:
                result = _empty(shape, dtype)
                table[position] = _pointer_at(id(result) + _DATA).value
            results.append(result)
        return held, tuple(results)

    def _empty_output(self, position: int) -> Array:
        spec = self._signature.outputs[position]
        return np.empty([self._sizes[dim]({}) for dim in spec.dims], spec.numpy_dtype)

    def _pass_symbolic(self, frame: _Frame, arrays: Sequence[Any]) -> tuple[Any, tuple[Array, ...]]:
        """As `_pass_static`, where sizes follow from the inputs' shapes."""
        held = [self._accept(position, array) for position, array in enumerate(arrays)]
        results = self._bind_dims(frame, held)
        frame.reserve(self._workspace_size(frame.call.dims))
        for position, array in enumerate(held):
            frame.inputs[position] = _pointer(array)
        for position, array in enumerate(results):
            frame.outputs[position] = _pointer(array)
        return held, tuple(results)

    def run(self, inputs: Mapping[str, Any]) -> dict[str, Array]:
        """Runs the model on arrays by input name; gives them by output name. Raises as a call."""
        results = self(*self._arrange((), inputs))
        specs = self._signature.outputs
        return {spec.name: array for spec, array in zip(specs, results, strict=True)}

    def export(self, path: str | Path) -> None:
        """Writes `path`, a shared object that needs libc only, and a C header beside it.

        Raises OptionError for a model that came from such a file, ArtifactError where none can be
        written.
        """
        if self._exporter is None:
            rule = "requires a model that was compiled in this process"
            raise OptionError(f"export {rule}, got one that was loaded")
        self._exporter.export(path)

    def _function(self, name: str, result: Any, *arguments: Any) -> Any:
        return ctypes.CFUNCTYPE(result, *arguments)(self._library.address(f"{self._prefix}_{name}"))

    def _create(self, threads: int | None) -> int:
        if threads is not None and not 1 <= threads <= MOST_THREADS:
            raise OptionError(f"{self._prefix} requires 1 to {MOST_THREADS} threads, got {threads}")
        options = _Options(size=ctypes.sizeof(_Options), threads=threads or 0)
        if self._weights:
            pointers = [array.ctypes.data for array in self._weights]
            table = (ctypes.c_void_p * len(pointers))(*pointers)
            options.weights = ctypes.addressof(table)
        create = self._function("create", ctypes.c_void_p, ctypes.c_void_p)
        context = create(ctypes.byref(options))
        if not context:
            rule = "requires memory, threads and weights to start"
            raise ArtifactError(f"{self._prefix} {rule}, got none")
        destroy = self._function("destroy", None, ctypes.c_void_p)
        held = (self._library, self._weights)
        weakref.finalize(self, _destroy, destroy, context, held)
        return context

    def _arrange(self, arrays: Sequence[Any], named: Mapping[str, Any]) -> tuple[Any, ...]:
        """The arrays in the order of the inputs."""
        if len(arrays) > len(self._names):
            raise InputError(
                f"{self._prefix} requires {len(self._names)} inputs, got {len(arrays)}"
            )
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
            rule = f"requires inputs {', '.join(self._names)}"
            raise InputError(f"{self._prefix} {rule}, got {', '.join(problems)}")
        return tuple(given[name] for name in self._names)

    def _accept(self, position: int, value: Any) -> Array:
        """An array that can be passed on: checked, and copied where it is not dense and aligned."""
        spec = self._signature.inputs[position]
        array = self._as_array(spec, value)
        fits = len(array.shape) == len(spec.dims) and all(
            size == dim
            for size, dim in zip(array.shape, spec.dims, strict=True)
            if isinstance(dim, int)
        )
        if array.dtype != spec.numpy_dtype or not fits:
            wanted = f"{spec.dtype} [{', '.join(map(str, spec.dims))}]"
            got = f"{array.dtype} [{', '.join(map(str, array.shape))}]"
            rule = f"requires {wanted} for input '{spec.name}'"
            raise InputError(f"{self._prefix} {rule}, got {got}")
        return np.require(array, requirements=("C", "A"))

    def _as_array(self, spec: TensorSpec, value: Any) -> Array:
        try:
            return np.asarray(value)
        except ValueError as error:  # nested sequences of different lengths
            rule = f"requires an array for input '{spec.name}'"
            raise InputError(f"{self._prefix} {rule}, got none: {error}") from error

    def _bind_dims(self, frame: _Frame, arrays: Sequence[Array]) -> list[Array]:
        """Finds the symbols' values in the shapes, checks every dim against them, and makes the
        outputs.
        """
        symbols: dict[str, int] = {}
        for spec, array in zip(self._signature.inputs, arrays, strict=True):
            for dim, size in zip(spec.dims, array.shape, strict=True):
                if isinstance(dim, str) and dim.isidentifier():
                    symbols.setdefault(dim, size)
        for spec, array in zip(self._signature.inputs, arrays, strict=True):
            self._check_shape(spec, array.shape, symbols)
        for position, name in enumerate(self._signature.symbols):
            frame.dims[position] = symbols[name]
        return [
            np.empty([self._sizes[dim](symbols) for dim in spec.dims], spec.numpy_dtype)
            for spec in self._signature.outputs
        ]

    def _check_shape(
        self, spec: TensorSpec, shape: tuple[int, ...], symbols: Mapping[str, int]
    ) -> None:
        if tuple(self._sizes[dim](symbols) for dim in spec.dims) != shape:
            dims = ", ".join(map(str, spec.dims))
            values = ", ".join(f"{name}={size}" for name, size in symbols.items())
            rule = f"requires shape [{dims}] for input '{spec.name}'"
            raise InputError(f"{self._prefix} {rule}, got {list(shape)} where {values}")


_ndarray = np.ndarray
_empty = np.empty
_pointer_at = ctypes.c_void_p.from_address
_DATA = object.__basicsize__
"""Where NumPy's array object holds the address of its elements: behind what every object starts
with, as NumPy's C API fixes it. Reading it there takes a tenth of what `array.ctypes.data` takes.
"""


def _quick(
    position: int, spec: TensorSpec
) -> tuple[int, np.dtype[Any] | None, tuple[int, ...] | None]:
    """The position, dtype and shape of arrays whose address is read the quick way: of constant size
    and not empty. None fits no array.
    """
    sizes = tuple(dim for dim in spec.dims if isinstance(dim, int))
    dtype = spec.numpy_dtype
    if not spec.elements:
        return position, None, None
    return position, dtype, sizes


def _described(spec: TensorSpec) -> str:
    return f"{spec.name}: {spec.dtype}[{', '.join(map(str, spec.dims))}]"


assert _pointer_at(id(_probe := _empty(1)) + _DATA).value == _probe.ctypes.data, (
    "an array object of NumPy starts with an object and the address of its elements"
)


def _pointer(array: Array) -> int:
    """The address of the first element."""
    return array.ctypes.data


def _destroy(destroy: Any, context: int, held: object) -> None:
    """Ends the context while its library and weights, which are held for that, are still there."""
    destroy(context)

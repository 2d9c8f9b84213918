"""A loaded model and its context, called by Python alone: every argument is checked, and copied
where it has to be, and whatever is wrong is said.

Nothing is unloaded or ended when the interpreter exits: threads of the host may still be calling.
"""

from __future__ import annotations

import ctypes
import re
import warnings
import weakref
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from weft.compiler.abi.constants import MOST_THREADS, WORKSPACE_ALIGNMENT, Status
from weft.compiler.abi.structs import CALL
from weft.compiler.machine.artifact.dims import Size, size_of
from weft.compiler.machine.artifact.signature import Signature, TensorSpec
from weft.compiler.machine.python.communication import REACHED
from weft.compiler.machine.python.fast_call import poll_function
from weft.compiler.machine.python.host_calls import raise_failure
from weft.compiler.machine.python.printing import printer
from weft.compiler.machine.python.signals import raise_pending
from weft.compiler.machine.python.thread_pool import Library, Options, thread_pool
from weft.dialects.errors import (
    ArtifactError,
    AssertError,
    CancelledError,
    InputError,
    OptionError,
    RankError,
    raised_as,
)
from weft.dialects.weights import Array

_REFUSED = (1 << 64) - 1
"""The workspace of sizes that are not allowed."""


class _Call(ctypes.Structure):
    _fields_ = CALL.ctypes_fields


class CheckedCall:
    """A model with its context, which ends with this object; several threads may call it. Contexts
    share their threads. A model without weights may compute in the context of another, its `base`.
    """

    def __init__(
        self,
        library: Library,
        prefix: str,
        signature: Signature,
        threads: int | None,
        weights: Sequence[Array] | None,
        base: CheckedCall | None = None,
        host_caller: int = 0,
    ):
        self._library = library
        self._prefix = prefix
        self._signature = signature
        self._weights = weights
        self._names = [spec.name for spec in signature.inputs]
        self._sizes: dict[int | str, Size] = {
            dim: size_of(dim)
            for spec in (*signature.inputs, *signature.outputs)
            for dim in spec.dims
        }
        self._workspaces: list[Array] = []
        self._run = self._function("run", ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)
        self._workspace_size = self._function("workspace_size", ctypes.c_uint64, ctypes.c_void_p)
        self._last_error = self._function("last_error", ctypes.c_char_p, ctypes.c_void_p)
        self._made = signature.made
        self._donated = {source for source, _ in signature.donated}
        if self._made:
            self._release = self._function("release", None, ctypes.c_void_p, ctypes.c_void_p)
        self._base = base
        self._host_caller = host_caller
        self.context = self._create(threads) if base is None else base.context

    def __call__(self, /, *arrays: Any, **named: Any) -> tuple[Array, ...]:
        """Runs the model once. Raises InputError for what it cannot take."""
        if named or len(arrays) != len(self._names):
            arrays = self.arrange(arrays, named)
        held = [self._accept(position, array) for position, array in enumerate(arrays)]
        symbols = self._bind_symbols(held)
        names = self._signature.symbols
        dims = (ctypes.c_int64 * (1 + len(names) + len(self._signature.found)))(
            *(symbols[name] for name in names)
        )
        size = self._workspace_size(dims)
        if size == _REFUSED:
            self._refuse(held, dims)
        donors = self._signature.donors
        results = [
            held[donors[position]]
            if position in donors
            else None
            if position in self._made
            else self._empty(spec, symbols)
            for position, spec in enumerate(self._signature.outputs)
        ]
        inputs, outputs = _pointers(held), _pointers(results)
        workspace = self._take_workspace(size)
        call = _call(inputs, outputs, dims, workspace)
        status = self._run(self.context, ctypes.addressof(call))
        self._workspaces.append(workspace)
        if status:
            self.fail(status)
        symbols |= zip(self._signature.found, dims[len(names) :], strict=False)
        return tuple(
            self._adopt(self._signature.outputs[position], outputs[position], symbols)
            if result is None
            else result
            for position, result in enumerate(results)
        )

    def _refuse(self, arrays: Sequence[Array], dims: Any) -> None:
        """Raises InputError for sizes that are not allowed: no output is made of them."""
        nothing = np.empty(WORKSPACE_ALIGNMENT, np.uint8)
        outputs = [
            None if each in self._made else nothing for each in range(len(self._signature.outputs))
        ]
        call = _call(_pointers(arrays), _pointers(outputs), dims, nothing)
        status = self._run(self.context, ctypes.addressof(call))
        assert status, "sizes that have no workspace are refused"
        self.fail(status)

    def _empty(self, spec: TensorSpec, symbols: Mapping[str, int]) -> Array:
        return np.empty([self._sizes[dim](symbols) for dim in spec.dims], spec.numpy_dtype)

    def _adopt(self, spec: TensorSpec, address: int, symbols: Mapping[str, int]) -> Array:
        """An output that the model made, as an array of Python's; the memory is given back."""
        array = self._empty(spec, symbols)
        ctypes.memmove(array.ctypes.data, address, array.nbytes)
        self._release(self.context, address)
        return array

    def fail(self, status: int) -> None:
        """Raises InputError with the reason of the last call that failed; of one that was cancelled
        what a signal's handler raised, or CancelledError; RankError where ranks do not meet.
        """
        if status == Status.CANCELLED:
            raise_pending()
            reason = f"{self._prefix} {self._reason(self.context)}"
            raise_failure(reason)
            raise CancelledError(reason)
        reason = self._reason(self.context)
        if status == Status.LOST_RANK:
            raise RankError(f"{self._prefix} {reason}")
        error_type = AssertError if reason.startswith("assert ") else InputError
        raised = re.match(r"raise (\w+)", reason)
        if raised is not None:
            error_type = raised_as(raised[1])
        raise error_type(f"{self._prefix} {reason}")

    def _reason(self, context: int | None) -> str:
        """The last error of a context, or of the thread's last `m_create`."""
        return self._last_error(context).decode(errors="replace")

    def symbols(self, arrays: Sequence[Any]) -> dict[str, int]:
        """The sizes that inputs have. Raises InputError for what a call would not take."""
        return self._bind_symbols([self._accept(n, array) for n, array in enumerate(arrays)])

    def self_test(self) -> None:
        """Calls `m_self_test`. Raises ArtifactError with its reason."""
        test = self._function("self_test", ctypes.c_int32, ctypes.c_void_p)
        status = test(self.context)
        if status == Status.CANCELLED:
            self.fail(status)
        if status:
            raise ArtifactError(f"{self._prefix} {self._reason(self.context)}")

    def cancel(self) -> None:
        """Calls `m_cancel`."""
        self._function("cancel", None, ctypes.c_void_p)(self.context)

    def address(self, name: str) -> int:
        """Where a function of the run-time ABI lies."""
        return self._library.address(f"{self._prefix}_{name}")

    def arrange(self, arrays: Sequence[Any], named: Mapping[str, Any]) -> tuple[Any, ...]:
        """The arrays in the order of the inputs. Raises InputError where one is missing or
        superfluous.
        """
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

    def _take_workspace(self, size: int) -> Array:
        """Room for so many aligned bytes, where an earlier call left it or new."""
        try:
            workspace = self._workspaces.pop()
        except IndexError:
            workspace = np.empty(0, np.uint8)
        room = size + WORKSPACE_ALIGNMENT
        return workspace if len(workspace) >= room else np.empty(room, np.uint8)

    def _function(self, name: str, result: Any, *arguments: Any) -> Any:
        return ctypes.CFUNCTYPE(result, *arguments)(self.address(name))

    def _create(self, threads: int | None) -> int:
        if threads is not None and not 1 <= threads <= MOST_THREADS:
            raise OptionError(f"{self._prefix} requires 1 to {MOST_THREADS} threads, got {threads}")
        options = Options(size=ctypes.sizeof(Options), threads=threads or 0)
        pool = thread_pool(self._library, self._prefix, threads)
        if pool is not None:
            options.parallel_for, options.parallel_for_user = pool.loop, pool.context
        if self._weights:
            pointers = [array.ctypes.data for array in self._weights]
            table = (ctypes.c_void_p * len(pointers))(*pointers)
            options.weights = ctypes.addressof(table)
        options.print = printer()
        options.call_host = self._host_caller
        options.communication = REACHED.table
        create = self._function("create", ctypes.c_void_p, ctypes.c_void_p)
        context = create(ctypes.byref(options))
        if not context:
            raise ArtifactError(f"{self._prefix} {self._reason(None)}")
        if fewer := pool.shortage if pool is not None else self._reason(context):
            warnings.warn(f"{self._prefix} {fewer}", RuntimeWarning, stacklevel=2)
        if poll := poll_function():
            pointers = [ctypes.c_void_p] * 3
            self._function("set_poll", None, *pointers)(context, *poll)
        destroy = self._function("destroy", None, ctypes.c_void_p)
        held = (self._library, self._weights, REACHED.holder, pool)
        weakref.finalize(self, _destroy, destroy, context, held).atexit = False
        return context

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
        donated = position in self._donated
        return np.require(array, requirements=("C", "A", "W") if donated else ("C", "A"))

    def _as_array(self, spec: TensorSpec, value: Any) -> Array:
        try:
            return np.asarray(value)
        except ValueError as error:  # nested sequences of different lengths
            rule = f"requires an array for input '{spec.name}'"
            raise InputError(f"{self._prefix} {rule}, got none: {error}") from error

    def _bind_symbols(self, arrays: Sequence[Array]) -> dict[str, int]:
        """The symbols' values, out of the shapes, after every dim was checked against them."""
        symbols: dict[str, int] = {}
        for spec, array in zip(self._signature.inputs, arrays, strict=True):
            for dim, size in zip(spec.dims, array.shape, strict=True):
                if isinstance(dim, str) and dim.isidentifier():
                    symbols.setdefault(dim, size)
        for spec, array in zip(self._signature.inputs, arrays, strict=True):
            self._check_shape(spec, array.shape, symbols)
        return symbols

    def _check_shape(
        self, spec: TensorSpec, shape: tuple[int, ...], symbols: Mapping[str, int]
    ) -> None:
        if tuple(self._sizes[dim](symbols) for dim in spec.dims) != shape:
            dims = ", ".join(map(str, spec.dims))
            values = ", ".join(f"{name}={size}" for name, size in symbols.items())
            rule = f"requires shape [{dims}] for input '{spec.name}'"
            raise InputError(f"{self._prefix} {rule}, got {list(shape)} where {values}")


def _pointers(arrays: Sequence[Array | None]) -> Any:
    """A table of where the arrays' elements lie, NULL for those that are still to be made."""
    addresses = (None if array is None else array.ctypes.data for array in arrays)
    return (ctypes.c_void_p * max(1, len(arrays)))(*addresses)


def _call(inputs: Any, outputs: Any, dims: Any, workspace: Array) -> _Call:
    """A call with these tables, and what of the workspace is aligned."""
    return _Call(
        ctypes.sizeof(_Call), *(ctypes.addressof(each) for each in (inputs, outputs, dims)),
        workspace.ctypes.data + -workspace.ctypes.data % WORKSPACE_ALIGNMENT,
        max(0, len(workspace) - WORKSPACE_ALIGNMENT),
    )  # fmt: skip


def _destroy(destroy: Any, context: int, held: object) -> None:
    """Ends the context while its library and weights, which are held for that, are still there."""
    destroy(context)

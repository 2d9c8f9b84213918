"""A model as a function of CPython's own kind, which takes arrays in a third of a microsecond.

The code is `weft.compiler.machine.python.entry`, compiled once in a process; each model has a table
that tells it what to check, to make and to call. It reads members of NumPy's and CPython's objects
where these say that they are: where a look at an array shows that they are not, models are called
by Python alone.
"""

from __future__ import annotations

import ctypes
import math
import sys
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from weft.compiler.abi.constants import WORKSPACE_ALIGNMENT
from weft.compiler.deferred import deferred
from weft.compiler.machine.artifact.dims import Program, depth_of, program_of
from weft.compiler.machine.artifact.signature import Signature, TensorSpec
from weft.compiler.machine.codegen.host import host_target
from weft.compiler.machine.codegen.jit import LoadedCode
from weft.compiler.machine.codegen.prebuilt import OwnCode
from weft.compiler.machine.python.communication import REACHED
from weft.compiler.machine.python.entry import (
    DENSE_FLAGS,
    ENTRY,
    MOST_DIMS,
    TENSOR_ENTRY,
    WRITABLE_FLAG,
    entry_ir,
)
from weft.compiler.machine.python.entry_memory import (
    ALLOCATE,
    CLEARED,
    LEAST_BYTES,
    RELEASE,
    RESIZE,
    SPARE_BYTES,
)
from weft.compiler.machine.python.signals import POLL, signals_address
from weft.compiler.target.target import Target
from weft.dialects.weights import Array

if TYPE_CHECKING:
    from weft.compiler.machine.codegen import object_code
    from weft.compiler.machine.python import exchange as exchanges
    from weft.compiler.machine.python.exchange import Exchange
    from weft.compiler.target import features
else:
    exchanges = deferred("weft.compiler.machine.python.exchange")
    object_code = deferred("weft.compiler.machine.codegen.object_code")
    features = deferred("weft.compiler.target.features")

Call = Callable[..., tuple[Array, ...]]

SHORT_WORK: Final = 100_000
"""Flops and bytes up to which a call keeps the interpreter's lock: some 10 us. To give it up and
get it back takes longer than a small model.
"""

_ARRAY_TYPE: Final = 2
_NEW_FROM_DTYPE: Final = 94
_SET_HANDLER: Final = 304
"""Places in the table of NumPy's C API, which never change."""

_CAPSULE: Final = b"mem_handler"
_FASTCALL_WITH_NAMES: Final = 0x80 | 0x02
_DOCUMENTATION: Final = b"""\
call($self, /, *arrays, **named)
--

Runs the model once on one array per input, by position or by name.

Raises InputError for arrays that are missing, superfluous or of another dtype or shape, and
for values that an operator does not allow."""


_TENSORS_DOCUMENTATION: Final = b"""\
call($self, arguments, /)
--

Runs the model once on a list of tensors, which it empties, and gives a list.

Raises InputError for values that an operator does not allow."""


_ONCE: Final = threading.RLock()
"""What a process has one of is made by one thread: else code would be unloaded that is in use."""


class _Table(ctypes.Structure):
    _fields_ = (
        ("context", ctypes.c_void_p),
        ("run", ctypes.c_void_p),
        ("workspace_size", ctypes.c_void_p),
        ("inputs", ctypes.c_int64),
        ("outputs", ctypes.c_int64),
        ("symbols", ctypes.c_int64),
        ("fixed_workspace", ctypes.c_int64),
        ("spare_workspace", ctypes.c_void_p),
        ("releases", ctypes.c_int64),
        ("otherwise", ctypes.c_void_p),
        ("failed", ctypes.c_void_p),
        ("new_array", ctypes.c_void_p),
        ("array_type", ctypes.c_void_p),
        ("tensors", ctypes.c_void_p),
        ("programs", ctypes.c_void_p),
        ("depth", ctypes.c_int64),
        ("has_derived_inputs", ctypes.c_int64),
        ("set_handler", ctypes.c_void_p),
        ("handler", ctypes.c_void_p),
        ("names", ctypes.c_void_p),
        ("exchange", ctypes.c_void_p),
    )


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("dtype", ctypes.c_void_p),
        ("rank", ctypes.c_int64),
        ("sizes", ctypes.c_void_p),
        ("flags", ctypes.c_int32),
        ("donor", ctypes.c_int64),
    )


class _Handler(ctypes.Structure):
    """NumPy's PyDataMem_Handler."""

    _fields_ = (
        ("name", ctypes.c_char * 127),
        ("version", ctypes.c_uint8),
        ("spare", ctypes.c_void_p),
        ("allocate", ctypes.c_void_p),
        ("cleared", ctypes.c_void_p),
        ("resize", ctypes.c_void_p),
        ("release", ctypes.c_void_p),
    )


class _Method(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("documentation", ctypes.c_char_p),
    )


class _Holder(bytearray):
    """The bytes of a table, and what they point to."""

    held: object


def fast_call(
    signature: Signature,
    metadata: Mapping[str, Any],
    context: int,
    functions: Mapping[str, int],
    otherwise: Callable[..., Any],
    failed: Callable[[int], None],
    exchange: Exchange | None = None,
) -> Call | None:
    """The model as a function; None where this interpreter or NumPy is not as this module knows it.

    `functions` are the addresses of `run` and `workspace_size`. `otherwise` is called with
    arguments that are not the arrays that the signature asks for, by position or name; `failed`
    raises after a call that failed with a status. With an `exchange` the function takes a list of
    a framework's tensors, which it empties, and gives a list.
    """
    entry = _entry_for(signature, exchange)
    if entry is None:
        return None
    method, handler = entry
    sizes = _Sizes(signature)
    tensors = (_Tensor * max(1, len(sizes.tensors)))(*sizes.tensors)
    noted = ctypes.addressof(handler[1][1])
    told, held = None, None
    if exchange is not None:
        told, held = exchanges.exchange_table(exchange, signature, sizes.number, noted)
    programs = _integers(sizes.programs)
    names = [spec.name for spec in signature.inputs]
    spellings = _integers(list(map(id, names)))
    ask = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(functions["workspace_size"])
    fixed = -1 if signature.symbols else ask(None)
    lent = reached_workspace(fixed, metadata)
    spare = ctypes.c_void_p(None if lent is None else lent.address)
    table = _Table(
        context, functions["run"], functions["workspace_size"],
        len(signature.inputs), len(signature.outputs), len(signature.symbols),
        fixed, ctypes.addressof(spare),
        0 if is_short(metadata) else 1, id(otherwise), id(failed), *_numpy_functions(),
        ctypes.addressof(tensors), ctypes.addressof(programs), max(1, sizes.depth),
        any(map(sizes.is_derived, signature.inputs)), _numpy_api()[_SET_HANDLER],
        id(handler[0]) if any(map(_may_be_large, signature.outputs)) else None,
        ctypes.addressof(spellings), told,
    )  # fmt: skip
    holder = _Holder(bytes(table))
    objects = otherwise, failed, names, held
    holder.held = objects, tensors, programs, sizes, method, spare, spellings
    weakref.finalize(holder, _release, spare, lent).atexit = False
    new = ctypes.pythonapi.PyCFunction_NewEx
    new.argtypes, new.restype = (ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p), _object
    return new(ctypes.addressof(method), holder, None)


_object = ctypes.py_object


def _entry_for(signature: Signature, exchange: Exchange | None) -> tuple[_Method, Any] | None:
    """How CPython finds the entry, and where large results have their memory from; None where an
    entry cannot take such a model.
    """
    specs = signature.outputs if exchange is None else (*signature.inputs, *signature.outputs)
    with _ONCE:
        method = _method(tensors=exchange is not None)
        handler = _handler() if method else None
    if (
        method is None
        or handler is None
        or signature.found
        or any(len(spec.dims) > MOST_DIMS for spec in specs)
        or (exchange is not None and not exchanges.takes_elements(specs))
    ):
        return None
    return method, handler


def reached_workspace(size: int, metadata: Mapping[str, Any]) -> Any:
    """A workspace behind its first line whose buffers of collectives other ranks reach; None where
    there are none, or ranks reach no memory, or all of it.
    """
    shared = metadata.get("mesh", {}).get("collective_bytes", 0)
    if size < 0 or not shared or REACHED.heap is None:
        return None
    made = REACHED.heap.workspace(size + WORKSPACE_ALIGNMENT, shared + WORKSPACE_ALIGNMENT)
    if made is not None:
        head = (ctypes.c_uint64 * 2).from_address(made.address)
        head[0], head[1] = size, 1  # as the entry's take_workspace has them
    return made


def is_short(metadata: Mapping[str, Any]) -> bool:
    """Whether a call is known to take a few microseconds at most."""
    kernels = metadata.get("kernels")
    waits = "mesh" in metadata  # for other ranks, which may be threads of this process
    if waits or not isinstance(kernels, Sequence) or metadata.get("repeats", True):
        return False
    work = [kernel[key] for kernel in kernels for key in ("flops", "bytes")]
    return all(isinstance(each, int) for each in work) and sum(work) <= SHORT_WORK


class _Sizes:
    """The tensors of a signature as the entry reads them: a size is a number of at least 0, the
    complement of a symbol's place, or behind those of the symbols, of a program's.
    """

    def __init__(self, signature: Signature):
        self._symbols = signature.symbols
        self.programs: list[int] = []
        self.depth = 0
        self._held: list[object] = []
        donated, donors = {source for source, _ in signature.donated}, signature.donors
        self.tensors = [
            self._tensor(spec, DENSE_FLAGS | (WRITABLE_FLAG if position in donated else 0))
            for position, spec in enumerate(signature.inputs)
        ]
        self.tensors += [
            self._tensor(spec, DENSE_FLAGS, donors.get(position, -1))
            for position, spec in enumerate(signature.outputs)
        ]

    def is_derived(self, spec: TensorSpec) -> bool:
        """Whether a size has to be computed from symbols."""
        return any(isinstance(dim, str) and dim not in self._symbols for dim in spec.dims)

    def _tensor(self, spec: TensorSpec, flags: int, donor: int = -1) -> _Tensor:
        sizes = _integers([self.number(dim) for dim in spec.dims])
        dtype = spec.numpy_dtype
        self._held += [sizes, dtype]
        return _Tensor(id(dtype), len(spec.dims), ctypes.addressof(sizes), flags, donor)

    def number(self, dim: int | str) -> int:
        """A size as the entry reads it."""
        if isinstance(dim, int):
            return dim
        if dim in self._symbols:
            return ~self._symbols.index(dim)
        return ~(len(self._symbols) + self._temporary_of(program_of(dim, self._symbols)))

    def _temporary_of(self, program: Program) -> int:
        start = len(self.programs)
        self.programs += [word for step in program for word in step]
        self.depth = max(self.depth, depth_of(program))
        return start


def _integers(numbers: Sequence[int]) -> ctypes.Array[ctypes.c_int64]:
    return (ctypes.c_int64 * max(1, len(numbers)))(*numbers)


def _release(spare: ctypes.c_void_p, lent: Any) -> None:
    if lent is not None:
        return  # it is the one that is left in the end
    free = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(("free", ctypes.CDLL(None)))
    free(spare)


@cache
def _numpy_functions() -> tuple[int, int]:
    """What makes an array, and the type of arrays."""
    api = _numpy_api()
    return api[_NEW_FROM_DTYPE], api[_ARRAY_TYPE]


def _numpy_api() -> ctypes.Array[ctypes.c_size_t]:
    """The table of NumPy's C API."""
    capsule = import_module("numpy._core._multiarray_umath")._ARRAY_API
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.argtypes, get.restype = (ctypes.py_object, ctypes.c_char_p), ctypes.c_size_t
    return (ctypes.c_size_t * (_SET_HANDLER + 1)).from_address(get(capsule, None))


def _may_be_large(spec: TensorSpec) -> bool:
    """Whether the memory of a result is worth keeping for the next one."""
    constant_dims = [dim for dim in spec.dims if isinstance(dim, int)]
    size = math.prod(constant_dims) * spec.numpy_dtype.itemsize
    return len(constant_dims) < len(spec.dims) or size >= LEAST_BYTES


@cache
def _handler() -> tuple[object, tuple[_Handler, ctypes.Array[ctypes.c_char]]]:
    """What NumPy has the memory of large results from, and what it refers to: as long as the
    process lives, for arrays may live as long, and those that the program itself holds go when the
    interpreter ends, behind all that modules hold.
    """
    spare = ctypes.create_string_buffer(SPARE_BYTES)
    code, names = _entry_code(), (ALLOCATE, CLEARED, RESIZE, RELEASE)
    handler = _Handler(b"weft", 1, ctypes.addressof(spare), *map(code.address, names))
    ctypes.pythonapi.Py_IncRef(_object((handler, spare, code, _CAPSULE)))
    new = ctypes.pythonapi.PyCapsule_New
    new.argtypes, new.restype = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p), _object
    return new(ctypes.addressof(handler), _CAPSULE, None), (handler, spare)


def poll_function() -> tuple[int, int] | None:
    """The function and its argument by which the main thread's calls return Python's signals a
    turn; None where this interpreter is not as this module knows it.
    """
    with _ONCE:
        known = _method() is not None
        return (_entry_code().address(POLL), signals_address()) if known else None


@cache
def _method(*, tensors: bool = False) -> _Method | None:
    """How CPython finds the entry for arrays, or that for tensors, which stays loaded as long as
    the process lives.
    """
    if not _is_known():
        return None
    name, code = (TENSOR_ENTRY, _tensor_code()) if tensors else (ENTRY, _entry_code())
    documentation = _TENSORS_DOCUMENTATION if tensors else _DOCUMENTATION
    return _Method(b"call", code.address(name), _FASTCALL_WITH_NAMES, documentation)


@cache
def _entry_code() -> LoadedCode:
    return entry_code(host_target(calibrated=False), tensors=False).load()


@cache
def _tensor_code() -> LoadedCode:
    return entry_code(host_target(calibrated=False), tensors=True).load()


def entry_code(target: Target, *, tensors: bool) -> OwnCode:
    """The entry for arrays, or that for tensors, on an architecture."""
    name = TENSOR_ENTRY if tensors else ENTRY
    exports = (name,) if tensors else (name, ALLOCATE, CLEARED, RESIZE, RELEASE, POLL)
    text = entry_ir(target, tensors=tensors)
    compiled = partial(_compile, text, target)
    return OwnCode(f"{name}.{target.triple}", exports, (text,), (), compiled)


def _compile(text: str, target: Target) -> bytes:
    return object_code.compile_object(text, features.baseline(target))


def _is_known() -> bool:
    """Whether an array shows its members where the entry reads them."""
    if sys.implementation.name != "cpython" or np.lib.NumpyVersion(np.__version__).major != 2:
        return False
    probe = np.zeros((3, 5), np.float32)[1:]
    head = object.__basicsize__
    members = (ctypes.c_size_t * 7).from_address(id(probe) + head)
    shape = (ctypes.c_int64 * 2).from_address(members[2])
    return (
        _word(id(probe) + head - 8) == id(np.ndarray) == _numpy_functions()[1]
        and members[0] == probe.ctypes.data
        and members[1] & 0xFFFFFFFF == probe.ndim
        and tuple(shape) == probe.shape
        and members[5] == id(probe.dtype) == id(np.dtype(np.float32))
        and members[6] & 0xFFFFFFFF == probe.flags.num
    )


def _word(address: int) -> int:
    return ctypes.c_size_t.from_address(address).value

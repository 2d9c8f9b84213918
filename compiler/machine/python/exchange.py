"""What the entry for tensors is told: a framework's functions, and how arguments become the inputs
of a model and its outputs the results.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any, Final

import ml_dtypes
from msgspec import Struct

from weft.compiler.machine.artifact.signature import Signature, TensorSpec
from weft.compiler.machine.python.tensor_entry import OPERANDS, RESULTS

_CODES: Final = {"i": 0, "u": 1, "f": 2, "b": 6}
"""DLPack's numbers of element types, by NumPy's letters."""
_BF16: Final = 4
"""DLPack's number of bfloat16, which NumPy has no letter for."""


class Framework(Struct, frozen=True):
    """Types of tensors of a framework that lie in memory as they are, its exchange functions (a
    capsule of DLPack's), and what says of a tensor whether it is stored as its negative.
    """

    tensor: type
    parameter: type
    capsule: Any
    is_negative: Callable[[Any], bool]


class Operand(Struct, frozen=True):
    """An input of the model: the position of its argument, what this is (one of `OPERANDS`), and
    which of the argument's axes each axis of the input is, None for the same.
    """

    argument: int
    role: str = "tensor"
    order: tuple[int, ...] | None = None


class Result(Struct, frozen=True):
    """An element of the list that a call gives (one of `RESULTS`): an output by its number, an
    argument by its position, a size as a signature writes it, an object, or a `Made`.
    """

    role: str
    what: Any


class Made(Struct, frozen=True):
    """What a function makes of a result and three more arguments."""

    source: Result
    function: Callable[[Any, Any, Any, Any], Any]
    arguments: tuple[Any, Any, Any]


class Exchange(Struct, frozen=True):
    """How a list of so many arguments becomes a list of results. `orders` say of outputs which axis
    of the tensor each axis is. `count_threads` says how many a call is to have: those that the
    model has are `threads`.
    """

    framework: Framework
    arguments: int
    operands: tuple[Operand, ...]
    orders: tuple[tuple[int, ...] | None, ...]
    results: tuple[Result, ...]
    threads: int = 0
    count_threads: Callable[[], int] | None = None


class _Operand(ctypes.Structure):
    _fields_ = (
        ("argument", ctypes.c_int64),
        ("role", ctypes.c_int64),
        ("dtype", ctypes.c_int64),
        ("order", ctypes.c_void_p),
    )


class _Output(ctypes.Structure):
    _fields_ = (
        ("dtype", ctypes.c_int64),
        ("item", ctypes.c_int64),
        ("order", ctypes.c_void_p),
    )


class _Result(ctypes.Structure):
    _fields_ = (("role", ctypes.c_int64), ("which", ctypes.c_int64))


class _View(ctypes.Structure):
    _fields_ = (
        ("source", _Result),
        ("function", ctypes.c_void_p),
        ("arguments", ctypes.c_void_p * 3),
    )


class _Exchange(ctypes.Structure):
    _fields_ = (
        ("version", ctypes.c_int64),
        ("from_object", ctypes.c_void_p),
        ("to_object", ctypes.c_void_p),
        ("operands", ctypes.c_void_p),
        ("outputs", ctypes.c_void_p),
        ("results", ctypes.c_void_p),
        ("result_count", ctypes.c_int64),
        ("arguments", ctypes.c_int64),
        ("tensor", ctypes.c_void_p),
        ("parameter", ctypes.c_void_p),
        ("is_negative", ctypes.c_void_p),
        ("count_threads", ctypes.c_void_p),
        ("threads", ctypes.c_int64),
        ("spare", ctypes.c_void_p),
    )


def exchange_table(
    exchange: Exchange,
    signature: Signature,
    size: Callable[[int | str], int],
    spare: int,
) -> tuple[int, object]:
    """Where the entry's table is, and what holds it. `size` numbers a
    size as the entry reads it, `spare` is where spare memory is noted.
    """
    framework = exchange.framework
    version, from_object, to_object = _functions(framework.capsule)
    orders = [each.order for each in exchange.operands] + list(exchange.orders)
    arrays = [
        None if each is None else (ctypes.c_int64 * max(1, len(each)))(*each) for each in orders
    ]
    places = [None if each is None else ctypes.addressof(each) for each in arrays]
    count = len(exchange.operands)
    operands = (_Operand * max(1, count))(*(
        _Operand(each.argument, OPERANDS.index(each.role), _dtype(spec), place)
        for each, spec, place in zip(exchange.operands, signature.inputs, places, strict=False)
    ))  # fmt: skip
    outputs = (_Output * max(1, len(places) - count))(*(
        _Output(_dtype(spec), spec.numpy_dtype.itemsize, place)
        for spec, place in zip(signature.outputs, places[count:], strict=True)
    ))  # fmt: skip
    views: list[_View] = []
    results = (_Result * max(1, len(exchange.results)))(*(
        _result(each, size, views) for each in exchange.results
    ))  # fmt: skip
    counts = exchange.count_threads
    table = _Exchange(
        version, from_object, to_object, *map(ctypes.addressof, (operands, outputs, results)),
        len(exchange.results), exchange.arguments, id(framework.tensor), id(framework.parameter),
        id(framework.is_negative), None if counts is None else id(counts), exchange.threads, spare,
    )  # fmt: skip
    return ctypes.addressof(table), (exchange, arrays, operands, outputs, results, views, table)


def _result(result: Result, size: Callable[[int | str], int], views: list[_View]) -> _Result:
    """A result as the entry reads it; `views` hold what those that are made point to."""
    which = result.what
    if result.role == "size":
        which = size(which)
    elif result.role == "object":
        which = id(which)
    elif result.role == "view":
        arguments = (ctypes.c_void_p * 3)(*map(id, which.arguments))
        views.append(_View(_result(which.source, size, views), id(which.function), arguments))
        which = ctypes.addressof(views[-1])
    return _Result(RESULTS.index(result.role), which)


def _dtype(spec: TensorSpec) -> int:
    """A DLDataType in 32 bits: code, bits, lanes."""
    dtype = spec.numpy_dtype
    code = _BF16 if dtype == ml_dtypes.bfloat16 else _CODES[dtype.kind]
    return code | 8 * dtype.itemsize << 8 | 1 << 16


def _functions(capsule: Any) -> tuple[int, int, int]:
    """DLPack's version, what gives an object's tensor, and what makes an object of one."""
    name = ctypes.pythonapi.PyCapsule_GetName
    name.argtypes, name.restype = (ctypes.py_object,), ctypes.c_char_p
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.argtypes, get.restype = (ctypes.py_object, ctypes.c_char_p), ctypes.c_size_t
    words = (ctypes.c_size_t * 7).from_address(get(capsule, name(capsule)))
    return words[0], words[5], words[4]


def takes_elements(specs: Sequence[TensorSpec]) -> bool:
    """Whether DLPack has a number for the types of all elements."""
    dtypes = [each.numpy_dtype for each in specs]
    return all(each.kind in _CODES or each == ml_dtypes.bfloat16 for each in dtypes)

"""Functions of Python that compiled programs call, by their names, each as long as it is held."""

from __future__ import annotations

import ctypes
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from weft.compiler.deferred import deferred
from weft.compiler.machine.python.printing import arrays_at, kept_address
from weft.dialects.errors import InputError
from weft.dialects.printed import placeholders
from weft.dialects.weights import Array

if TYPE_CHECKING:
    from weft.compiler.machine.python import decode_images
else:
    decode_images = deferred("weft.compiler.machine.python.decode_images")

_CALL: Final = ctypes.CFUNCTYPE(
    ctypes.c_int32, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p
)
_BETWEEN: Final = ") -> ("
_NUMBERS: Final = count()
_FAILED: Final = threading.local()


class HostFunction:
    """A function of arrays that returns arrays of the shapes and dtypes that a program states; its
    `name` is that of a `graph.host_call`.
    """

    def __init__(self, function: Callable[..., Sequence[Array]]) -> None:
        self.function = function
        self.name = f"python.{next(_NUMBERS)}"
        _FUNCTIONS[self.name] = self


_FUNCTIONS: Final[weakref.WeakValueDictionary[str, HostFunction]] = weakref.WeakValueDictionary()


def functions_called(metadata: Mapping[str, Any]) -> list[HostFunction]:
    """The functions that a compiled program calls, as its metadata has it, without those that
    Python always has. Raises InputError where one is no more.
    """
    called = [_name(text) for text in metadata.get("host_calls", ())]
    names = [name for name in called if name not in decode_images.IMAGE_FUNCTIONS]
    found = [_FUNCTIONS.get(name) for name in names]
    held = [each for each in found if each is not None]
    if len(held) != len(found):
        raise InputError(f"a program requires the functions of this process, got {names}")
    return held


def raise_failure(reason: str) -> None:
    """Raises what a function raised in the call of this thread that ended with it, if any did; an
    error of weft's own behind the reason that the program has, which names the node.
    """
    error = getattr(_FAILED, "error", None)
    _FAILED.error = None
    if isinstance(error, InputError):
        raise type(error)(f"{reason}: {error}") from error
    if error is not None:
        raise error


@cache
def host_caller() -> int:
    """The address of a function that calls Python's for contexts, as `weft_options` takes it."""
    return kept_address(_CALL(_call))


def _call(user: object, text: bytes, values: int, dims: int) -> int:
    """Runs a function; 1 where it raises, which `raise_failure` raises again."""
    try:
        _run(text.decode(), values, dims)
    except BaseException as error:  # nothing may be raised into native code
        _FAILED.error = error
        return 1
    return 0


def _name(text: str) -> str:
    return text.partition("(")[0]


@cache
def _parameters(text: str) -> tuple[int, list[tuple[str, int]]]:
    """How many arrays a function takes, and of these and those that it fills dtypes and ranks."""
    taken = len(placeholders(text.partition(_BETWEEN)[0]))
    parts = [content.split(",") for content in placeholders(text)]
    return taken, [(name, int(rank)) for name, rank, _ in parts]


def _run(text: str, values: int, dims: int) -> None:
    taken, parameters = _parameters(text)
    arrays = arrays_at(parameters, values, dims)
    held = _FUNCTIONS.get(_name(text))
    function = decode_images.IMAGE_FUNCTIONS.get(_name(text)) if held is None else held.function
    if function is None:
        raise InputError(f"a program requires a function that is held, got none for {text}")
    found = function(*(each.copy() for each in arrays[:taken]))
    for array, result in zip(arrays[taken:], found, strict=True):
        if array.shape != result.shape or array.dtype != result.dtype:
            wanted, got = (f"{each.dtype}{list(each.shape)}" for each in (array, result))
            raise InputError(f"a function of the host requires a result of {wanted}, got {got}")
        if array.size:
            array[...] = result

"""The table of NumPy's functions: for each name its definition on tensors.

`weft.numpy`, NumPy's own functions on tensors (`weft/array_api/dispatch.py`), source mode and the
tests read it. A function is one definition in `weft/array_api/functions/`, by NumPy's
name and with its parameters; a method of arrays is a function by that very fact.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Container, Mapping
from functools import wraps
from types import FunctionType, ModuleType, SimpleNamespace
from typing import Any, Final

import numpy as np

from weft.array import rearrangements, reductions, selections
from weft.array.methods import SAME, VIEWS, ArrayMethods
from weft.array.operators import ArrayOperators
from weft.array_api import linalg
from weft.array_api.functions import (
    calculus,
    choosing,
    decompositions,
    eigenvalues,
    elements,
    fourier,
    histograms,
    joining,
    making,
    matrices,
    padding,
    shapes,
    statistics,
)
from weft.array_api.operands import (
    as_tensors,
    given_tensors,
    its_own,
    of_no_elements,
    operand,
    refuse,
    stored,
)
from weft.array_api.ufuncs import NAMES as UFUNC_NAMES
from weft.array_api.ufuncs import UFUNCS, imported

_MODULES: Final = (
    shapes, elements, joining, padding, statistics, histograms, calculus, choosing, making,
)  # fmt: skip
_NOTHING: Final = frozenset((
    "array", "asanyarray", "ascontiguousarray", "copy", "fftfreq",
    "fromfunction", "rfftfreq",
))  # fmt: skip
"""Functions that take anything, and make tensors of it."""


def entry(function: Callable[..., Any], own: Any) -> Callable[..., Any]:
    """A definition as programs call it: NumPy's own where no argument is a tensor, `out` filled,
    and an argument that it does not take refused with the user's line.
    """
    name = function.__name__
    takes_out = "out" in _parameters(function)

    @wraps(function)
    def called(*arguments: Any, **named: Any) -> Any:
        if own is not None and not given_tensors(arguments, named):
            return as_tensors(own(*arguments, **named), (*arguments, *named.values()))
        target = named.pop("out", None) if takes_out else None
        found = None if own is None else of_no_elements(own, arguments, named)
        try:
            found = function(*arguments, **named) if found is None else found
        except TypeError as error:
            signature = inspect.signature(function)  # not kept: keys of programs take in closures
            try:
                signature.bind(*arguments, **named)
            except TypeError as unfit:
                raise refuse(f"{name} requires its parameters {signature}", unfit) from error
            raise
        if target is not None:
            return stored(target, found, name)
        return found if name in SAME | VIEWS else its_own(found, arguments)

    return called


def _parameters(function: Callable[..., Any]) -> Container[str]:
    """Their names, which definitions have at hand."""
    if isinstance(function, FunctionType) and not hasattr(function, "__signature__"):
        code = function.__code__
        return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return inspect.signature(function).parameters


def _definitions(module: ModuleType) -> dict[str, FunctionType]:
    """The public functions that a module defines, other names for them too."""
    return {
        name: each for name, each in vars(module).items()
        if isinstance(each, FunctionType) and each.__module__ == module.__name__
        and not name.startswith("_")
    }  # fmt: skip


def _method(name: str) -> Callable[..., Any]:
    """NumPy's function that does what the method of that name does."""
    method = getattr(ArrayMethods, name)

    def function(a: Any, *arguments: Any, **named: Any) -> Any:
        tensor = operand(a, *arguments, *named.values())
        if not tensor.ndim and name in _ALONG_ONE:
            tensor = tensor.reshape(1)
        return getattr(tensor, name)(*arguments, **named)

    function.__name__, function.__doc__ = name, method.__doc__
    first, *rest = inspect.signature(method).parameters.values()
    parameters = [first.replace(name="a"), *rest]
    function.__signature__ = inspect.Signature(parameters)  # pyright: ignore
    return function


_BY_METHOD: Final = (
    "all", "any", "argmax", "argmin", "astype", "cumprod", "cumsum", "diagonal", "max", "mean",
    "min", "nonzero", "prod", "ravel", "repeat", "round", "squeeze", "std", "sum", "swapaxes",
    "trace", "var",
)  # fmt: skip
"""Functions that are methods of arrays."""


_ALONG_ONE: Final = ("argmax", "argmin", "cumprod", "cumsum", "repeat")
"""Those along an axis, which a number has for them."""

_STANDARD: Final = (
    (rearrangements, ("unstack",)),
    (reductions, ("cumulative_prod", "cumulative_sum")),
    (selections, ("unique_all", "unique_counts", "unique_inverse", "unique_values")),
)
"""Functions of the array API standard that NumPy has as the standard has them."""


def _aliases(owner: Any, found: Mapping[str, Callable[..., Any]]) -> dict[str, Callable[..., Any]]:
    """The definitions by all names that NumPy has for its functions."""
    objects = {getattr(owner, name, None): each for name, each in found.items()}
    others = {
        name: objects[own] for name, own in imported(owner).items()
        if isinstance(own, FunctionType | type(np.sum)) and own in objects
    }  # fmt: skip
    return {**others, **found}


def _entries(owner: Any, found: Mapping[str, Callable[..., Any]]) -> dict[str, Callable[..., Any]]:
    return {
        name: entry(each, None if name in _NOTHING else getattr(owner, name, None))
        for name, each in _aliases(owner, found).items()
    }


_OF_MATRICES: Final = {
    name: each
    for module in (matrices, decompositions, eigenvalues)
    for name, each in _definitions(module).items()
}
_POLYNOMIALS: Final = ("poly", "polyfit", "roots")


def _functions() -> dict[str, Callable[..., Any]]:
    found: dict[str, Callable[..., Any]] = {name: _method(name) for name in _BY_METHOD}
    for module in _MODULES:
        found |= _definitions(module)
    found |= {name: _OF_MATRICES[name] for name in _POLYNOMIALS}
    found |= {"amax": found["max"], "amin": found["min"], "around": found["round"]}
    for module, names in _STANDARD:
        found |= {name: getattr(module, name) for name in names}
    plain = {name: each for name, each in found.items() if name not in UFUNC_NAMES}
    return {**_entries(np, plain), **UFUNC_NAMES}


FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = _functions()
"""By NumPy's names for them."""

LINALG: Final[Mapping[str, Callable[..., Any]]] = {
    **{name: entry(getattr(linalg, name), getattr(np.linalg, name)) for name in linalg.__all__},
    **_entries(np.linalg, {k: f for k, f in _OF_MATRICES.items() if hasattr(np.linalg, k)}),
}
"""Those of `numpy.linalg`, by its names."""

FOURIER: Final[Mapping[str, Callable[..., Any]]] = _entries(np.fft, _definitions(fourier))
"""Those of `numpy.fft`, by its names."""


def _by_object() -> dict[Any, Callable[..., Any]]:
    found: dict[Any, Callable[..., Any]] = {}
    for owner, names in ((np.fft, FOURIER), (np.linalg, LINALG), (np, FUNCTIONS)):
        for name, function in names.items():
            own = getattr(owner, name, None)
            if own is not None:
                found[own] = function
    found[np.lib.stride_tricks.sliding_window_view] = FUNCTIONS["sliding_window_view"]
    return {**found, **UFUNCS}


BY_OBJECT: Final[Mapping[Any, Callable[..., Any]]] = _by_object()
"""By NumPy's own functions."""

OBJECTS: Final[Mapping[str, Any]] = {
    "r_": making.r_, "c_": making.c_, "mgrid": making.mgrid, "ogrid": making.ogrid,
    "lib": SimpleNamespace(stride_tricks=SimpleNamespace(
        sliding_window_view=FUNCTIONS["sliding_window_view"])),
    "ndarray": ArrayOperators,
}  # fmt: skip

PASSED: Final = (
    "dtype", "errstate", "seterr", "geterr", "ndindex", "isscalar", "issubdtype", "iterable",
    "broadcast_shapes", "promote_types", "min_scalar_type", "s_", "index_exp", "euler_gamma",
    "set_printoptions", "get_printoptions", "printoptions", "generic", "number", "integer",
    "signedinteger", "unsignedinteger", "inexact", "floating", "bool_", "int_", "intp", "uint",
    "uintp", "half", "single", "double", "byte", "ubyte", "short", "ushort", "intc", "uintc",
    "complexfloating", "csingle", "cdouble", "long", "ulong", "longlong", "ulonglong", "True_",
    "False_", "exceptions", "base_repr",
    "binary_repr", "common_type", "typename", "array2string", "array_repr", "array_str",
    "mask_indices",
)  # fmt: skip
"""What is NumPy's own, on weft's tensors too: types, texts, settings."""

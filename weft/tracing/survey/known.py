"""Code that gives the same for the same arguments: weft's own, which the compiler's hash takes in,
and those functions of Python and NumPy that read nothing else.
"""

from __future__ import annotations

import builtins
from types import FunctionType, ModuleType
from typing import Any, Final

import numpy as np

_NAMES: Final = (
    "abs all any bool bytes callable chr complex dict divmod enumerate filter float format "
    "frozenset getattr hasattr int isinstance issubclass iter len list map max min next object "
    "ord pow property range repr reversed round set slice sorted str sum super tuple type zip "
    "staticmethod classmethod Ellipsis NotImplemented"
)
_ERRORS: Final = {
    name
    for name, value in vars(builtins).items()
    if isinstance(value, type) and issubclass(value, BaseException)
}
PURE_BUILTINS: Final = frozenset(_NAMES.split()) | _ERRORS
"""Names of Python's that programs with a key may use: not `print`, `open`, `id`, `hash`, `vars`."""

_PURE_MODULES: Final = frozenset(
    (
        "_abc", "_collections", "_operator", "abc", "builtins", "cmath", "collections",
        "collections.abc", "copy", "dataclasses", "enum", "functools", "itertools", "math",
        "numbers", "operator", "string", "types", "typing", "typing_extensions",
    )
)  # fmt: skip

_OURS: Final = (
    "array", "array_api", "autodiff", "compiler", "dialects", "eager", "nn", "numpy", "optim",
    "probing", "random", "source", "tracing", "trees", "distributed.mesh",
)  # fmt: skip
"""Parts of weft whose functions depend on their arguments alone."""

_OURS_STATEFUL: Final = (
    "nn.checkpoints", "nn.data", "nn.initializers", "nn.safetensors", "tracing.printing",
)  # fmt: skip

_NUMPY_STATEFUL: Final = frozenset(
    (
        "empty", "empty_like", "errstate", "fromfile", "genfromtxt", "getbufsize", "geterr",
        "geterrcall", "load", "loads", "loadtxt", "memmap", "random", "save", "savez", "savetxt",
        "set_printoptions", "setbufsize", "seterr", "seterrcall",
    )
)  # fmt: skip


def _is_ours(module: str) -> bool:
    """Whether a module is weft's, and its functions read nothing but their arguments."""
    inside = module.removeprefix("weft.")
    return module.startswith("weft.") and (
        _is_under(inside, _OURS) and not _is_under(inside, _OURS_STATEFUL)
    )


def _is_under(name: str, folders: tuple[str, ...]) -> bool:
    return any(f"{name}.".startswith(f"{each}.") for each in folders)


def _is_numpys(module: str, name: str) -> bool:
    return _is_under(module, ("numpy", "ml_dtypes")) and not (
        _is_under(module, ("numpy.random", "numpy.lib.npyio", "numpy.f2py", "numpy.testing"))
        or name in _NUMPY_STATEFUL
    )


def is_known_function(function: Any) -> bool:
    """Whether a function is weft's, or one of Python's or NumPy's that reads its arguments alone.
    What functions of weft hold in closures still counts.
    """
    module, name = getattr(function, "__module__", None) or "", getattr(function, "__name__", "")
    if isinstance(function, np.ufunc):
        return True
    if isinstance(function, FunctionType) and module.startswith("weft."):
        return _is_ours(module)
    if module == "builtins":
        bound = getattr(function, "__self__", None)
        return name in PURE_BUILTINS and (bound is None or isinstance(bound, ModuleType))
    return module in _PURE_MODULES or _is_numpys(module, name)


def is_known_class(value: type) -> bool:
    """Whether a class is weft's, Python's or NumPy's, and its objects are what their attributes
    say. Modules begin with random numbers, so their classes make different ones.
    """
    module, name = value.__module__, value.__name__
    if module == "builtins":
        return value is object or name in PURE_BUILTINS
    return _is_ours(module) or module in _PURE_MODULES or _is_numpys(module, name)


def is_known_module(module: ModuleType, names: set[str]) -> bool:
    """Whether nothing that a module has by these names reads more than its arguments."""
    name = module.__name__
    if name == "numpy" or name.startswith("numpy."):
        return not names & _NUMPY_STATEFUL and _is_numpys(name, "")
    return _is_ours(name) or name in _PURE_MODULES

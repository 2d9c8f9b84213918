"""NumPy's functions by NumPy's names, and those of the array API standard, on tensors of every
mode: they compute at once on `weft.Tensor`s, and become part of the graph on traced tensors.

Where all arguments are NumPy's arrays they are NumPy's own, so that one program runs both ways. The
names come out of the table (`weft/array_api/table.py`).
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as _np

from weft.array.operators import ArrayOperators, axis_of, users_line
from weft.array_api import creation, dtypes
from weft.array_api.dtypes import __array_namespace_info__ as __array_namespace_info__
from weft.array_api.table import FOURIER, FUNCTIONS, LINALG, OBJECTS, PASSED
from weft.compiler.deferred import deferred
from weft.dialects.errors import MissingNameError, OptionError
from weft.distributed.mesh import P
from weft.eager.tensor import Tensor

if TYPE_CHECKING:
    from weft.dialects.graph.mesh import attributes
else:
    attributes = deferred("weft.dialects.graph.mesh.attributes")

__array_api_version__ = "2024.12"


def _of_array(function: Any, x: Any, *arguments: Any) -> Any:
    """What a function that NumPy lacks gives for one of its arrays: an array, or a number of rank
    0, as NumPy's functions do.
    """
    return _np.asarray(function(Tensor(_np.asarray(x)), *arguments))[()]


def erf(x: Any) -> Any:
    """The error function of each element."""
    if not isinstance(x, ArrayOperators):
        return _of_array(erf, x)
    return x.as_float().apply("erf")


def softmax(x: Any, axis: int = -1) -> Any:
    """Exponentials that add up to one along an axis."""
    if not isinstance(x, ArrayOperators):
        return _of_array(softmax, x, axis)
    return x.as_float().apply("softmax", axis=axis_of(axis, x.ndim))


def log_softmax(x: Any, axis: int = -1) -> Any:
    """The logarithms of the softmax, computed without its overflow."""
    if not isinstance(x, ArrayOperators):
        return _of_array(log_softmax, x, axis)
    return x.as_float().apply("log_softmax", axis=axis_of(axis, x.ndim))


_WHOLE = P()


def shard(x: Any, sharding: P = _WHOLE) -> Any:
    """The tensor itself, which ranks cut so along the axes of their mesh, where a step is compiled
    for one; by default it is whole on each.
    """
    if not isinstance(x, ArrayOperators) or x.has_values:
        return x
    dims = (*sharding.dims, *[()] * (x.ndim - len(sharding.dims)))
    return x.apply("shard", sharding=attributes.ShardingAttr(dims))


def stage(x: Any, number: int = 1) -> Any:
    """The tensor itself, from which on a stage of a pipeline computes, where a step is compiled for
    a mesh with the axis `stage`: stages are numbered, the first is 0 and begins with the inputs.
    Raises OptionError for a number below 1.
    """
    if number < 1:
        raise OptionError(f"stage requires a number from 1, got {number}")
    if not isinstance(x, ArrayOperators) or x.has_values:
        return x
    return x.apply("stage", index=number)


def _standard(module: Any, *names: str) -> dict[str, Any]:
    return {name: getattr(module, name) for name in names}


_NAMES: dict[str, Any] = {
    **{name: getattr(_np, name) for name in PASSED},
    **FUNCTIONS,
    **OBJECTS,
    **_standard(creation, "arange", "asarray", "empty", "eye", "from_dlpack", "full", "ones",
                "zeros"),
    **_standard(dtypes, "astype", "can_cast", "finfo", "iinfo", "isdtype", "result_type", "float16",
                "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16",
                "uint32", "uint64", "complex64", "complex128"),
    "fft": SimpleNamespace(**FOURIER),
    "linalg": SimpleNamespace(**LINALG, LinAlgError=_np.linalg.LinAlgError),
    "bool": _np.bool_, "pi": _np.pi, "e": _np.e, "inf": _np.inf, "nan": _np.nan, "newaxis": None,
    "erf": erf, "softmax": softmax, "log_softmax": log_softmax, "shard": shard,
    "stage": stage,
}  # fmt: skip

__all__ = sorted({*_NAMES, "__array_namespace_info__"})  # pyright: ignore


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        found = globals()[name] = _NAMES[name]
        return found
    raise MissingNameError(f"{users_line()}: weft.numpy has no {name!r}")


def __dir__() -> list[str]:
    return __all__

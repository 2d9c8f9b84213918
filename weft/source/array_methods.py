"""Methods of arrays and of Python's numbers that only a call knows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from weft.source import numpy_functions as functions
from weft.source.changes import set_element
from weft.source.iteration import elements
from weft.source.numpy_arguments import part
from weft.source.run import Run
from weft.source.syntax import Place
from weft.source.values import Number
from weft.traced import Traced


def _of(name: str) -> Callable[..., Any]:
    """The method that does what NumPy's function of that name does."""

    def method(run: Run, place: Place, x: Traced, *arguments: Any, **named: Any) -> Any:
        return functions.FUNCTIONS[name](run, place, x, *arguments, **named)

    return method


def _copy(run: Run, place: Place, x: Traced) -> Any:
    return run.recording.array(x.value)


def _astype(run: Run, place: Place, x: Traced, dtype: Any, copy: bool = True) -> Any:
    return run.recording.array(x.astype(dtype).value)


def _reshape(run: Run, place: Place, x: Traced, *shape: Any) -> Any:
    dims = shape[0] if len(shape) == 1 and isinstance(shape[0], tuple | list) else shape
    return functions.FUNCTIONS["reshape"](run, place, x, dims)


def _transpose(run: Run, place: Place, x: Traced, *axes: Any) -> Any:
    order = axes[0] if len(axes) == 1 and isinstance(axes[0], tuple | list) else axes
    return functions.FUNCTIONS["transpose"](run, place, x, order or None)


def item(run: Run, place: Place, x: Traced) -> Any:
    """The one element as a number of Python."""
    if isinstance(x, Number):
        return x
    if x.type.size != 1:
        raise place.refuse("item requires one element", str(x.type))
    one = x if not x.ndim else x.reshape(())
    kind = {"b": bool, "i": int, "u": int}.get(one.dtype.kind, float)
    wide = {bool: np.bool_, int: np.int64, float: np.float64}[kind]
    return Number(run.recording, kind, one.astype(wide).value)


def _tolist(run: Run, place: Place, x: Traced) -> Any:
    if not x.ndim:
        return item(run, place, x)
    return run.journal.make([_tolist(run, place, each) for each in elements(run, x, place)])


def _split(
    run: Run, place: Place, x: Traced, sections: Any, dim: int = 0, axis: int | None = None
) -> Any:
    """Parts of one size along an axis, as PyTorch's tensors give them, or of given sizes."""
    where = (dim if axis is None else axis) % x.ndim
    extent = x.type.shape[where].constant
    if isinstance(sections, int) and extent is not None:
        whole, rest = divmod(extent, sections)
        sizes = [sections] * whole + ([rest] if rest else [])
    elif isinstance(sections, list | tuple):
        sizes = [int(each) for each in sections]
    else:
        raise place.refuse("split requires an axis of known size", x.type)
    parts: list[Any] = []
    start = 0
    for size in sizes:
        index = [slice(None)] * where + [slice(start, start + size)]
        parts.append(part(run, x, tuple(index)))
        start += size
    return tuple(parts)


def _fill(run: Run, place: Place, x: Traced, value: Any) -> Any:
    return set_element(run, x, slice(None), value, place)


METHODS: Final[Mapping[str, Callable[..., Any]]] = {
    name: _of(name)
    for name in (
        "sum", "mean", "max", "min", "prod", "any", "all", "argmax", "argmin", "cumsum", "dot",
        "std", "var", "clip", "round", "squeeze", "ravel", "repeat", "argsort", "swapaxes", "trace",
    )
} | {
    "flatten": _of("ravel"),
    "copy": _copy,
    "clone": _copy,
    "astype": _astype,
    "reshape": _reshape,
    "view": _reshape,
    "transpose": _transpose,
    "permute": _transpose,
    "item": item,
    "tolist": _tolist,
    "split": _split,
    "fill": _fill,
    "contiguous": lambda run, place, x: x,
}  # fmt: skip
"""What arrays can, by name."""

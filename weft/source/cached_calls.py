"""Calls of compiled functions whose signature is known: one walk over the arguments finds it, and
the arrays among them; what the program read of its surroundings is compared by identity.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from msgspec import Struct

from weft.array.interleaved import interleaved
from weft.eager.tensor import Tensor, array_of, tensor_of
from weft.source.signature import is_value
from weft.trees import KNOWN, flatten_exactly, unflatten

if TYPE_CHECKING:
    from weft.source.jit import Compilation

MOST_CACHED: Final = 1000
"""Signatures that are remembered; sizes that vary from call to call have one each."""

UNKNOWN: Final = object()
"""Stands for the result of a call that has to be looked at."""

_PLAIN: Final = frozenset({int, bool, str, type(None), bytes})


def sign(arguments: Iterable[Any], parts: list[object], arrays: list[Any]) -> bool:
    """Appends what tells calls apart, and the arrays; whether arguments are arrays, tensors and
    plain values alone, and lists, tuples and dicts of such. Equal parts select one compilation.
    """
    for each in arguments:
        argument_type = each.__class__
        if argument_type is np.ndarray:
            parts.append((each.dtype, each.shape))
            arrays.append(interleaved(each) if each.dtype.kind == "c" else each)
        elif argument_type is Tensor:
            array = array_of(each)
            parts.append((Tensor, array.dtype, array.shape))
            arrays.append(array)
        elif argument_type in _PLAIN:
            parts.append((argument_type, each))
        elif argument_type is float:
            parts.append((argument_type, each.hex()))  # 0.0 and -0.0 are two
        elif argument_type is dict:
            parts.append((dict, *each))
            if not sign(each.values(), parts, arrays):
                return False
        elif argument_type is list or argument_type is tuple:
            parts.append((argument_type, len(each)))
            if not sign(each, parts, arrays):
                return False
        elif is_value(each):
            parts.append(argument_type)
            array = np.asarray(each)
            arrays.append(interleaved(array) if array.dtype.kind == "c" else array)
        else:
            return False
    return True


class CachedCall(Struct, frozen=True):
    """A compilation, and what makes results of its outputs."""

    compilation: Compilation
    result: Callable[[Sequence[Any]], Any]

    @staticmethod
    def of(compilation: Compilation, tensors: bool) -> CachedCall:
        """The call of a compilation whose results are tensors, or arrays."""
        wrap = as_tensor if tensors else as_array
        return CachedCall(compilation, compilation.program.rebuilder(wrap))

    def __call__(self, arrays: list[Any]) -> Any:
        """The result, or UNKNOWN where something of the surroundings is another object."""
        program = self.compilation.program
        for guard in program.guards:
            try:
                if guard.read() is not guard.value and guard.broken() is not None:
                    return UNKNOWN
            except (AttributeError, KeyError, ValueError):
                return UNKNOWN
        for each in program.captured:
            array = each.fetch()
            if array is None:
                return UNKNOWN
            arrays.append(array)
        outputs = self.compilation.executable(*arrays)
        if program.states:
            program.keep(outputs)
        return self.result(outputs)


def as_array(leaf: Any) -> Any:
    """An output for a caller of arrays: one element is a scalar, as in NumPy."""
    return leaf[()] if leaf.__class__ is np.ndarray and not leaf.ndim else leaf


def as_tensor(leaf: Any) -> Any:
    """A result for a caller whose arguments are weft's tensors."""
    return tensor_of(np.asarray(leaf)) if _is_array(leaf) else leaf


def as_tensors(found: Any) -> Any:
    """Results for a caller whose arguments are weft's tensors."""
    leaves, form = flatten_exactly(found, KNOWN)
    return unflatten(form, [as_tensor(leaf) for leaf in leaves])


def _is_array(leaf: object) -> bool:
    return isinstance(leaf, np.ndarray | np.generic)
